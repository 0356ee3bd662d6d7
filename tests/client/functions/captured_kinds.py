"""Kinds of objects that user code may capture, each holding one number that the program can replace."""

from __future__ import annotations

import array
import collections
import functools
import sys
import types
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np


class Kind(NamedTuple):
    """An object of some kind."""

    read: Callable[[], float]
    """Returns the number that it holds; user code calls this."""
    put: Callable[[float], Any]
    """Has it hold another number; the program calls this."""


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


class Plain:
    value: float = 0.0

    def __init__(self, value: float) -> None:
        self.value = value


@dataclass
class Record:
    value: float
    inner: list[float] = field(default_factory=list)


@dataclass(slots=True)
class SlottedRecord:
    value: float


class Nested:
    def __init__(self, value: float) -> None:
        self.inner = Plain(value)


class Table(dict[str, float]):
    def __init__(self, value: float) -> None:
        super().__init__(value=value)


class Row(list[float]):
    note = ""


class Reduced:
    """An object with a way of its own to be pickled."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return Reduced, (self.value,)


class Lazy:
    """An object that makes a part of itself when it is first read."""

    def __init__(self, value: float) -> None:
        self.value = value

    @functools.cached_property
    def one(self) -> float:
        return 1.0

    def read(self) -> float:
        return self.value * self.one


def with_attribute(held: Any, name: str = "value") -> Kind:
    return Kind(lambda: getattr(held, name), lambda new: setattr(held, name, new))


def with_item(held: Any, key: Any = 0) -> Kind:
    return Kind(lambda: float(held[key]), lambda new: held.__setitem__(key, new))


def nested() -> Kind:
    held = Nested(1.0)
    return Kind(lambda: held.inner.value, lambda new: setattr(held.inner, "value", new))


def exchanged() -> Kind:
    held = Nested(1.0)
    return Kind(lambda: held.inner.value, lambda new: setattr(held, "inner", Plain(new)))


def in_long_list() -> Kind:
    held = [Plain(float(number)) for number in range(2_000)]
    return Kind(lambda: held[1_500].value, lambda new: setattr(held[1_500], "value", new))


def in_long_dict() -> Kind:
    held = {number: [float(number)] for number in range(300)}
    return Kind(lambda: held[299][0], lambda new: held[299].__setitem__(0, new))


def partial_of_object() -> Kind:
    held = functools.partial(lambda one: one.value, Plain(1.0))
    return Kind(lambda: held(), lambda new: setattr(held.args[0], "value", new))


def partial_keywords() -> Kind:
    held = functools.partial(lambda *, value: value, value=1.0)
    return Kind(lambda: held(), lambda new: held.keywords.update(value=new))


def partial_of_closure() -> Kind:
    value = 1.0

    def put(new: float) -> None:
        nonlocal value
        value = new

    held = functools.partial(lambda: value)
    return Kind(lambda: held(), put)


def vectorized() -> Kind:
    one = Plain(1.0)
    held = np.vectorize(lambda number: number * one.value)
    return Kind(lambda: float(held(1.0)), lambda new: setattr(one, "value", new))


def vectorized_attribute() -> Kind:
    held: Any = np.vectorize(lambda number: number)
    held.value = 1.0
    return Kind(lambda: held.value, lambda new: setattr(held, "value", new))


def cached() -> Kind:
    one = Plain(1.0)

    @functools.lru_cache
    def held() -> float:
        return one.value

    def put(new: float) -> None:
        one.value = new
        held.cache_clear()

    return Kind(lambda: held(), put)


def cached_and_stale() -> Kind:
    one = Plain(1.0)

    @functools.lru_cache
    def held(key: int) -> float:
        return one.value

    held(0)
    return Kind(lambda: held(0), lambda new: setattr(one, "value", new))


def dispatched() -> Kind:
    @functools.singledispatch
    def held(one: Any) -> float:
        return 1.0

    return Kind(lambda: held(1), lambda new: held.register(int, lambda one: new))


def dispatched_in_namespace() -> Kind:
    kind = dispatched()
    held = SimpleNamespace(kind=kind)
    return Kind(lambda: held.kind.read(), kind.put)


def class_of_instance() -> Kind:
    held: Any = Plain(1.0)

    def put(new: float) -> None:
        held.__class__ = type("Other", (Nested,), {"value": property(lambda self: new)})

    return Kind(lambda: held.value, put)


def order_of_dict() -> Kind:
    held: dict[float, None] = {1.0: None, 0.0: None}

    def put(new: float) -> None:
        held.pop(new, None)
        rest = list(held)
        held.clear()
        held.update(dict.fromkeys([new, *rest]))

    for key in (3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 1.0):  # the keys are the same from here on
        put(key)
    return Kind(lambda: next(iter(held)), put)


def module_in_module() -> Kind:
    outer: Any = ModuleType("a_module_around_settings")
    inner: Any = ModuleType("a_module_of_inner_settings")
    inner.value = 1.0
    outer.inner = inner
    return Kind(lambda: outer.inner.value, lambda new: setattr(outer.inner, "value", new))


def module_attribute() -> Kind:
    module: Any = ModuleType("a_module_of_settings")
    module.value = 1.0
    return Kind(lambda: module.value, lambda new: setattr(module, "value", new))


def module_container() -> Kind:
    module: Any = ModuleType("a_module_of_tables")
    module.table = {"value": 1.0}
    return Kind(lambda: module.table["value"], lambda new: module.table.update(value=new))


def imported_inside() -> Kind:
    module: Any = ModuleType("late_settings")
    sys.modules["late_settings"] = module
    module.value = 1.0

    def read() -> float:
        import late_settings  # pyright: ignore[reportMissingImports]

        return late_settings.value

    return Kind(read, lambda new: setattr(module, "value", new))


def imported_from_inside() -> Kind:
    module: Any = ModuleType("late_tables")
    sys.modules["late_tables"] = module
    module.table = [1.0]

    def read() -> float:
        from late_tables import table  # pyright: ignore[reportMissingImports]

        return table[0]

    return Kind(read, lambda new: module.table.__setitem__(0, new))


def bytes_in_place() -> Kind:
    held = bytearray([1])
    return Kind(lambda: float(held[0]), lambda new: held.__setitem__(0, int(new)))


def numbers_in_place() -> Kind:
    held = array.array("d", [1.0])
    return with_item(held)


def default_of_dict() -> Kind:
    held: Any = collections.defaultdict(float, value=1.0)
    return with_item(held, "value")


def structured() -> Kind:
    held = np.zeros(1, dtype=[("value", "f8")])
    held["value"] = 1.0
    return Kind(lambda: float(held["value"][0]), lambda new: held.__setitem__("value", new))


def array_of_objects() -> Kind:
    held = np.array([Plain(1.0)], dtype=object)
    return Kind(lambda: held[0].value, lambda new: setattr(held[0], "value", new))


def array_in_namespace() -> Kind:
    held = SimpleNamespace(array=np.ones(3))
    return Kind(lambda: float(held.array[1]), lambda new: held.array.__setitem__(1, new))


def exchanged_array() -> Kind:
    held = SimpleNamespace(array=np.ones(3))
    return Kind(lambda: float(held.array[1]), lambda new: setattr(held, "array", np.full(3, new)))


def large_array() -> Kind:
    return with_item(np.ones(2_000), 7)


def view_of_array() -> Kind:
    base = np.ones((4, 4))
    view = base[1:3, ::2]
    return Kind(lambda: float(view[0, 1]), lambda new: base.__setitem__((1, 2), new))


def global_variable() -> Kind:
    space: dict[str, Any] = {"__name__": "__main__", "VALUE": 1.0}
    exec("def read():\n    return VALUE", space)
    return Kind(space["read"], lambda new: space.update(VALUE=new))


def through_a_class() -> Kind:
    class Settings:
        table: Any = {"value": [1.0]}  # noqa: RUF012

    return Kind(lambda: Settings.table["value"][0], lambda new: Settings.table["value"].__setitem__(0, new))


def read_only_mapping() -> Kind:
    held = {"value": 1.0}
    view = types.MappingProxyType(held)
    return Kind(lambda: view["value"], lambda new: held.update(value=new))


def context_variable() -> Kind:
    held: ContextVar[float] = ContextVar("held", default=1.0)
    return Kind(lambda: held.get(), held.set)


def attribute_of_function() -> Kind:
    def held() -> None:
        return None

    return with_attribute(held)._replace(put=lambda new: setattr(held, "value", new))


def default_argument() -> Kind:
    held = Plain(1.0)

    def read(one: Plain = held) -> float:
        return one.value

    return Kind(lambda: read(), lambda new: setattr(held, "value", new))


def lazy() -> Kind:
    held = Lazy(1.0)
    return Kind(held.read, lambda new: setattr(held, "value", new))


KINDS: dict[str, Callable[[], Kind]] = {
    "namespace": lambda: with_attribute(SimpleNamespace(value=1.0)),
    "instance": lambda: with_attribute(Plain(1.0)),
    "slotted": lambda: with_attribute(Slotted(1.0)),
    "data class": lambda: with_attribute(Record(1.0)),
    "data class with slots": lambda: with_attribute(SlottedRecord(1.0)),
    "own pickling": lambda: with_attribute(Reduced(1.0)),
    "nested": nested,
    "exchanged part": exchanged,
    "lazy": lazy,
    "list": lambda: with_item([1.0]),
    "dict": lambda: with_item({"value": 1.0}, "value"),
    "long list": in_long_list,
    "long dict": in_long_dict,
    "deque": lambda: with_item(collections.deque([1.0])),
    "default dict": default_of_dict,
    "ordered dict": lambda: with_item(collections.OrderedDict(value=1.0), "value"),
    "counter": lambda: with_item(collections.Counter(value=1), "value"),
    "chain map": lambda: with_item(collections.ChainMap({"value": 1.0}), "value"),
    "user dict": lambda: with_item(collections.UserDict(value=1.0), "value"),
    "user list": lambda: with_item(collections.UserList([1.0])),
    "dict subclass": lambda: with_item(Table(1.0), "value"),
    "list subclass": lambda: with_item(Row([1.0])),
    "attribute of list subclass": lambda: _started(with_attribute(Row([1.0]), "note")),
    "mapping proxy": read_only_mapping,
    "bytearray": bytes_in_place,
    "array.array": numbers_in_place,
    "structured array": structured,
    "array of objects": array_of_objects,
    "array": lambda: with_item(np.ones(3)),
    "large array": large_array,
    "view of an array": view_of_array,
    "array in a namespace": array_in_namespace,
    "exchanged array": exchanged_array,
    "partial of an object": partial_of_object,
    "partial keywords": partial_keywords,
    "partial of a closure": partial_of_closure,
    "vectorize": vectorized,
    "attribute of vectorize": vectorized_attribute,
    "lru_cache": cached,
    "singledispatch": dispatched,
    "singledispatch in a namespace": dispatched_in_namespace,
    "class of an instance": class_of_instance,
    "order of a dict": order_of_dict,
    "memoryview": lambda: with_item(memoryview(array.array("d", [1.0]))),
    "module": module_attribute,
    "module in a module": module_in_module,
    "container in a module": module_container,
    "imported inside": imported_inside,
    "imported from inside": imported_from_inside,
    "global": global_variable,
    "class": through_a_class,
    "attribute of a function": lambda: _started(attribute_of_function()),
    "default": default_argument,
    "context variable": context_variable,
}

IN_PROCESS: dict[str, Callable[[], Kind]] = {"stale cache": cached_and_stale}
"""Kinds that do not travel: elsewhere the copy has an empty cache, of which a warning tells."""


def _started(kind: Kind) -> Kind:
    kind.put(1.0)
    return kind
