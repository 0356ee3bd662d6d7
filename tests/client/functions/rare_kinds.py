"""Kinds of objects that few programs capture, each holding one number that the program can replace."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import importlib
import io
import operator
import sys
import threading
import typing
import weakref
from collections.abc import Callable
from types import CellType, ModuleType
from typing import Any

import numpy as np

from .captured_kinds import Kind, Plain
from .kinds_pickled_as_copies import PICKLED_AS_COPIES


class Described:
    """A descriptor that holds the value of an attribute of a class."""

    def __init__(self) -> None:
        self.held = 1.0

    def __get__(self, owner: Any, cls: Any = None) -> float:
        return self.held


class Counted(type):
    value: float = 1.0


class OfCounted(metaclass=Counted):
    pass


class Mangled:
    __slots__ = ("__value",)

    def __init__(self, value: float) -> None:
        self.put(value)

    def put(self, value: float) -> None:
        self.__value = value

    def read(self) -> float:
        return self.__value


class OwnError(Exception):
    pass


def descriptor() -> Kind:
    class Holder:
        value = Described()

    held, described = Holder(), Holder.__dict__["value"]
    return Kind(lambda: held.value, lambda new: setattr(described, "held", new))


def metaclass() -> Kind:
    Counted.value = 1.0
    return Kind(lambda: OfCounted.value, lambda new: setattr(Counted, "value", new))


def class_of_an_object_without_attributes() -> Kind:
    class Holder:
        value = property(lambda self: 1.0)

    held = Holder()
    return Kind(lambda: held.value, lambda new: setattr(Holder, "value", property(lambda self: new)))


def first_attribute() -> Kind:
    class Holder:
        pass

    held = Holder()
    return Kind(lambda: getattr(held, "value", 1.0), lambda new: setattr(held, "value", new))


def bases() -> Kind:
    class Base:
        value = 1.0

    class Holder(Base):
        pass

    def put(new: float) -> None:
        Holder.__bases__ = (type("Other", (Base,), {"value": new}),)

    return Kind(lambda: Holder.value, put)


def exchanged_attributes() -> Kind:
    held = Plain(1.0)
    return Kind(lambda: held.value, lambda new: setattr(held, "__dict__", {"value": new}))


def mangled_slot() -> Kind:
    held = Mangled(1.0)
    return Kind(held.read, held.put)


def attributes_of_members() -> Kind:
    class Planet(enum.Enum):
        EARTH = (5.0, 1.0)

        def __init__(self, mass: float, rate: float) -> None:
            self.mass, self.rate = mass, [rate]

        def read(self) -> float:
            return self.rate[0] * self.mass / 5.0

    return Kind(lambda: Planet.EARTH.read(), lambda new: Planet.EARTH.rate.__setitem__(0, new))


def members_of_a_data_type() -> Kind:
    class Coded(bytes, enum.Enum):
        def __new__(cls, code: int, label: float) -> Any:
            made = bytes.__new__(cls, [code])
            made._value_ = code
            made.label = label  # type: ignore[attr-defined]
            return made

        A = (1, 1.0)
        B = (2, 2.0)

    factor = [1.0]
    known: Any = Coded
    return Kind(
        lambda: known.A.label * factor[0] * (known(2) is known.B and bytes(known.B) == b"\x02"),
        lambda new: factor.__setitem__(0, new),
    )


def aliases_and_combinations() -> Kind:
    class Mode(enum.Flag):
        A = enum.auto()
        B = enum.auto()
        BOTH = A | B
        FIRST = A

    factor = [1.0]
    return Kind(
        lambda: (
            factor[0] * (Mode.A | Mode.B is Mode["BOTH"] and Mode.FIRST is Mode.A and list(Mode) == [Mode.A, Mode.B])
        ),
        lambda new: factor.__setitem__(0, new),
    )


def not_bound_yet() -> Kind:
    def put(new: float) -> None:
        nonlocal value
        value = new

    def read() -> float:
        try:
            return value
        except NameError:
            return 1.0

    value = 1.0
    del value
    return Kind(read, put)


def global_not_bound_yet() -> Kind:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def read():\n    try:\n        return VALUE\n    except NameError:\n        return 1.0", space)
    return Kind(space["read"], lambda new: space.update(VALUE=new))


def code_without_a_module() -> Kind:
    space: dict[str, Any] = {"__builtins__": __builtins__, "held": [1.0]}
    exec("def read():\n    return held[0]", space)
    return Kind(space["read"], lambda new: space["held"].__setitem__(0, new))


def evaluated() -> Kind:
    space: dict[str, Any] = {"__name__": "__main__", "VALUE": 1.0}
    exec("def read():\n    return eval('VALUE * 2') - globals()['VALUE']", space)
    return Kind(space["read"], lambda new: space.update(VALUE=new))


def order() -> Kind:
    held = collections.OrderedDict((float(number), None) for number in (1, 3, 5, 7, 11, 13, 17))
    return Kind(lambda: next(iter(held)), lambda new: held.move_to_end(new, last=False))


def default_factory() -> Kind:
    held: Any = collections.defaultdict(lambda: 1.0)
    return Kind(lambda: held.copy()["value"], lambda new: setattr(held, "default_factory", lambda: new))


def captured_by_a_default_factory() -> Kind:
    inner = [1.0]
    held: Any = collections.defaultdict(lambda: inner[0])
    return Kind(lambda: held.copy()["value"], lambda new: inner.__setitem__(0, new))


def metadata_of_a_field() -> Kind:
    metadata = {"value": 1.0}

    @dataclasses.dataclass
    class Holder:
        one: float = dataclasses.field(default=0.0, metadata=metadata)

    return Kind(lambda: dataclasses.fields(Holder)[0].metadata["value"], lambda new: metadata.update(value=new))


def element_of_a_structured_array() -> Kind:
    array = np.ones(1, dtype=[("value", "f8")])
    held = array[0]
    return Kind(lambda: float(held["value"]), lambda new: array.__setitem__("value", new))


def arguments_of_an_error() -> Kind:
    held = OwnError(1.0)
    return Kind(lambda: held.args[0], lambda new: setattr(held, "args", (new,)))


def bound_of_a_slice() -> Kind:
    inner = [1.0]
    held: Any = slice(inner, None)
    return Kind(lambda: held.start[0], lambda new: inner.__setitem__(0, new))


def variable_as_an_object() -> Kind:
    held = CellType(1.0)
    return Kind(lambda: held.cell_contents, lambda new: setattr(held, "cell_contents", new))


def subscripted_class() -> Kind:
    kind = typing.TypeVar("kind")

    class Holder(typing.Generic[kind]):
        value = 1.0

    held: Any = Holder[int]
    return Kind(lambda: held.value, lambda new: setattr(Holder, "value", new))


def registered_with_a_method() -> Kind:
    class Holder:
        @functools.singledispatchmethod
        def read(self, one: Any) -> float:
            return 1.0

    held = Holder()
    register: Any = Holder.__dict__["read"].register
    return Kind(lambda: held.read(1), lambda new: register(int, lambda self, one: new))


def _module(name: str, value: float) -> ModuleType:
    module: Any = ModuleType(name)
    module.value = value
    sys.modules[name] = module
    return module


def exchanged_module() -> Kind:
    def put(new: float) -> None:
        _module("exchanged_settings", new)

    def read() -> float:
        import exchanged_settings  # pyright: ignore[reportMissingImports]

        return exchanged_settings.value

    put(1.0)
    return Kind(read, put)


def made_up_attribute() -> Kind:
    module: Any = ModuleType("made_up_settings")
    inner = [1.0]
    module.__getattr__ = lambda name: inner[0]
    return Kind(lambda: module.value, lambda new: inner.__setitem__(0, new))


def module_with_a_lock() -> Kind:
    module: Any = _module("settings_with_a_lock", 1.0)
    module.lock = threading.Lock()

    def read() -> float:
        import settings_with_a_lock  # pyright: ignore[reportMissingImports]

        return settings_with_a_lock.value

    return Kind(read, lambda new: setattr(module, "value", new))


class Measured(np.ndarray[Any, Any]):
    unit = 1.0


def attribute_of_an_array() -> Kind:
    held: Any = np.ones(2).view(Measured)
    held.unit = 1.0
    return Kind(lambda: float(held[0]) * held.unit, lambda new: setattr(held, "unit", new))


RARE: dict[str, Callable[[], Kind]] = {
    make.__name__: make
    for make in (
        descriptor,
        metaclass,
        class_of_an_object_without_attributes,
        first_attribute,
        bases,
        exchanged_attributes,
        mangled_slot,
        attributes_of_members,
        members_of_a_data_type,
        aliases_and_combinations,
        not_bound_yet,
        global_not_bound_yet,
        code_without_a_module,
        evaluated,
        order,
        default_factory,
        captured_by_a_default_factory,
        metadata_of_a_field,
        element_of_a_structured_array,
        arguments_of_an_error,
        bound_of_a_slice,
        variable_as_an_object,
        subscripted_class,
        registered_with_a_method,
        exchanged_module,
        made_up_attribute,
        module_with_a_lock,
        attribute_of_an_array,
        *PICKLED_AS_COPIES,
    )
}


# ---- what no guard can compare --------------------------------------------------------------------------------------


def weak_reference() -> Kind:
    inner = Plain(1.0)
    held = weakref.ref(inner)

    def put(new: float, inner: Plain = inner) -> None:
        inner.value = new

    return Kind(lambda: held().value, put)  # type: ignore[union-attr]


def weak_values() -> Kind:
    held: Any = weakref.WeakValueDictionary()
    kept: list[Plain] = []

    def put(new: float) -> None:
        kept.append(Plain(new))
        held["value"] = kept[-1]

    put(1.0)
    return Kind(lambda: held["value"].value, put)


def weak_set() -> Kind:
    inner = Plain(1.0)
    held = weakref.WeakSet([inner])

    def put(new: float, inner: Plain = inner) -> None:
        inner.value = new

    return Kind(lambda: next(iter(held)).value, put)


def made_ufunc() -> Kind:
    inner = [1.0]
    held: Any = np.frompyfunc(lambda one: one * inner[0], 1, 1)
    return Kind(lambda: float(held(1.0)), lambda new: inner.__setitem__(0, new))


def text_in_memory() -> Kind:
    held = io.StringIO("1.0")

    def put(new: float) -> None:
        held.seek(0)
        held.truncate()
        held.write(str(new))

    return Kind(lambda: float(held.getvalue()), put)


def iterator_over_an_array() -> Kind:
    array = np.ones(3)
    held: Any = array.flat
    return Kind(lambda: float(held[1]), lambda new: array.__setitem__(1, new))


def name_that_is_computed() -> Kind:
    space: dict[str, Any] = {"__name__": "__main__", "VALUE": 1.0}
    exec("def read():\n    return globals()['value'.upper()]", space)
    return Kind(space["read"], lambda new: space.update(VALUE=new))


def module_by_its_name() -> Kind:
    module: Any = _module("settings_by_name", 1.0)
    return Kind(lambda: sys.modules["settings_by_name"].value, lambda new: setattr(module, "value", new))


def module_that_a_call_imports() -> Kind:
    module: Any = _module("settings_by_a_call", 1.0)
    return Kind(lambda: importlib.import_module("settings_by_a_call").value, lambda new: setattr(module, "value", new))


def module_whose_name_is_computed() -> Kind:
    module: Any = _module("settings_by_a_computed_name", 1.0)
    space: dict[str, Any] = {"__name__": "__main__", "import_module": importlib.import_module}
    exec("def read():\n    return import_module('_'.join(('settings_by', 'a_computed_name'))).value", space)
    return Kind(space["read"], lambda new: setattr(module, "value", new))


AT_ONCE: dict[str, Callable[[], Kind]] = {
    make.__name__: make
    for make in (
        weak_reference,
        weak_values,
        weak_set,
        made_ufunc,
        text_in_memory,
        iterator_over_an_array,
        name_that_is_computed,
        module_by_its_name,
        module_that_a_call_imports,
        module_whose_name_is_computed,
    )
}
"""Kinds that no guard can compare: code that reads one runs at once in process."""


# ---- what cannot be copied ------------------------------------------------------------------------------------------


def array_beside_a_lock() -> Kind:
    held: Any = Plain(1.0)
    held.lock, held.array = threading.Lock(), np.ones(3)
    return Kind(lambda: float(held.array[1]), lambda new: held.array.__setitem__(1, new))


def module_whose_code_has_a_lock() -> Kind:
    module: Any = _module("settings_behind_a_lock", 1.0)
    exec("import threading\nlock = threading.Lock()\ndef get():\n    with lock:\n        return value\n", vars(module))
    return Kind(lambda: module.get(), lambda new: setattr(module, "value", new))


REFUSED: dict[str, Callable[[], Kind]] = {
    make.__name__: make for make in (array_beside_a_lock, module_whose_code_has_a_lock)
}
"""Kinds of which there is no copy as they were."""

COMPARED: dict[str, Callable[[], Kind]] = {
    **RARE,
    "arguments_that_are_given": lambda: _over([1.0], lambda inner: operator.methodcaller("__add__", inner)),
}
"""Kinds that a compiled function compares at each call."""


def _over(inner: list[float], make: Callable[[Any], Any]) -> Kind:
    held = make(inner)
    return Kind(lambda: held([])[0], lambda new: inner.__setitem__(0, new))
