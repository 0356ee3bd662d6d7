"""Kinds of objects that user code captures and a program changes: how each is made, read and changed.

A kind is read by a function at the top of this file, so that it is code of the user's that travels. A box holds another
object, so that what is changed stands deeper in what is captured."""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import operator
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np


class Kind(NamedTuple):
    """A kind of object that holds a number.

    Attributes:
        make: makes one of a number.
        read: returns its number; user code calls it.
        change: changes it, in place, to hold another number.
        travels: it can be pickled; code that captures another one may be refused where it has to.
    """

    make: Callable[[float], Any]
    read: Callable[[Any], float]
    change: Callable[[Any, float], Any]
    travels: bool = True


class Plain:
    def __init__(self, rate: float) -> None:
        self.rate = rate


class Slotted:
    __slots__ = ("rate",)

    def __init__(self, rate: float) -> None:
        self.rate = rate


class Derived(Slotted):
    __slots__ = ("other",)


@dataclass
class Data:
    rate: float
    others: list[float] = field(default_factory=list[float])


@dataclass(frozen=True)
class Frozen:
    held: list[float]


class WithProperty:
    def __init__(self, rate: float) -> None:
        self._rate = rate

    @property
    def rate(self) -> float:
        return self._rate


class WithLookup:
    def __init__(self, rate: float) -> None:
        self.held = {"rate": rate}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "held":
            raise AttributeError(name)
        return self.held[name]


class OwnDict(dict[str, float]):
    pass


class OwnList(list[float]):
    pass


class OwnArray(np.ndarray[Any, Any]):
    pass


def _of_attribute(owner: Any) -> float:
    return owner.rate


def _set_attribute(owner: Any, value: float) -> None:
    owner.rate = value


def _of_item(owner: Any) -> float:
    return float(owner[0])


def _set_item(owner: Any, value: float) -> None:
    owner[0] = value


def _of_key(owner: Any) -> float:
    return owner["rate"]


def _set_key(owner: Any, value: float) -> None:
    owner["rate"] = value


def _called(function: Any) -> float:
    return float(function())


def _function(value: float) -> Any:
    return lambda: value


def _set_cell(function: Any, value: float) -> None:
    function.__closure__[0].cell_contents = value


def _with_default(value: float) -> Any:
    def function(rate: list[float] = [value]) -> float:  # noqa: B006
        return rate[0]

    return function


def _set_default(function: Any, value: float) -> None:
    function.__defaults__ = ([value],)


def _with_attribute(value: float) -> Any:
    def function() -> float:
        return value

    function.rate = value  # type: ignore[attr-defined]
    return function


def _over_a_list(make: Callable[[Any], Any]) -> Callable[[float], Any]:
    """Return what makes a function over a list, which is its attribute, too."""

    def made(value: float) -> Any:
        held = [value]
        function = make(held)
        function.held = held
        return function

    return made


def _set_held(function: Any, value: float) -> None:
    function.held[0] = value


def _vectorised(held: list[float]) -> Any:
    return np.vectorize(lambda: held[0], otypes=[float])


def _cached(held: list[float]) -> Any:
    return functools.lru_cache(lambda: held[0])


def _clear(function: Any, value: float) -> None:
    function.held[0] = value
    function.cache_clear()


def _dispatched(value: float) -> Any:
    return functools.singledispatch(lambda _: value)


def _register(function: Any, value: float) -> None:
    function.register(int, lambda _: value)


def _of_dispatched(function: Any) -> float:
    return function(1)


def _keyword(*, rate: float) -> float:
    return rate


def _of_generator(held: Any) -> float:
    def numbers() -> Any:
        yield from held

    return float(sum(numbers()))


def _length(owner: Any) -> float:
    return float(len(owner))


def _set_length(owner: Any, value: float) -> None:
    owner[:] = [0.0] * int(abs(value) * 4)


def _left(owner: Any) -> float:
    return float(operator.length_hint(owner))


def _of_variable(variable: Any) -> float:
    return variable.get()


def _set_variable(variable: Any, value: float) -> None:
    variable.set(value)


def _made_variable(value: float) -> Any:
    variable: Any = contextvars.ContextVar("rate")
    variable.set(value)
    return variable


def _class(value: float) -> Any:
    return type("Settings", (), {"rate": value})


def _replaced_class(owner: Any, value: float) -> None:
    owner.__class__ = type("Other", (type(owner).__mro__[-2],), {"rate": property(lambda self: value)})


def _proxy(value: float) -> Any:
    return SimpleNamespace(held={"rate": value})


def _of_proxy(owner: Any) -> float:
    return types.MappingProxyType(owner.held)["rate"]


MODULE = "raygrad_fuzz_settings"


def _module(value: float) -> Any:
    """Return a module of the user's that is imported by its name."""
    module: Any = sys.modules.get(MODULE)
    if module is None:
        module = sys.modules[MODULE] = types.ModuleType(MODULE)
    module.rate = value
    return None


def _imported(_: Any) -> float:
    import raygrad_fuzz_settings as settings  # pyright: ignore[reportMissingImports]

    return settings.rate


def _set_in_module(_: Any, value: float) -> None:
    sys.modules[MODULE].rate = value  # type: ignore[attr-defined]


_RATE = 0.0


def _global(value: float) -> Any:
    _set_global(None, value)
    return None


def _of_global(_: Any) -> float:
    return _RATE


def _set_global(_: Any, value: float) -> None:
    global _RATE
    _RATE = value  # pyright: ignore[reportConstantRedefinition]


KINDS: dict[str, Kind] = {
    "cell": Kind(_function, _called, _set_cell),
    "default": Kind(_with_default, _called, _set_default),
    "mutable_default": Kind(_with_default, _called, lambda f, v: _set_item(f.__defaults__[0], v)),
    "attribute_of_function": Kind(_with_attribute, _of_attribute, _set_attribute),
    "global": Kind(_global, _of_global, _set_global),
    "imported": Kind(_module, _imported, _set_in_module, travels=False),
    "list": Kind(lambda v: [v, 1.0], _of_item, _set_item),
    "length": Kind(lambda v: [0.0] * int(abs(v) * 4), _length, _set_length),
    "generated": Kind(lambda v: [v, 1.0], _of_generator, _set_item),
    "set": Kind(lambda v: {v}, lambda s: max(s), lambda s, v: (s.clear(), s.add(v))),
    "dict": Kind(lambda v: {"rate": v}, _of_key, _set_key),
    "order": Kind(
        lambda v: {v: None, 7.0: None, -7.0: None},
        lambda d: next(iter(d)),
        lambda d, v: (d.pop(v, None), rest := list(d), d.clear(), d.update({v: None}), d.update(dict.fromkeys(rest))),
    ),
    "deque": Kind(lambda v: collections.deque([v, 1.0]), _of_item, _set_item),
    "defaultdict": Kind(lambda v: collections.defaultdict(float, rate=v), _of_key, _set_key),
    "ordered": Kind(lambda v: collections.OrderedDict(rate=v), _of_key, _set_key),
    "counter": Kind(lambda v: collections.Counter(rate=v), _of_key, _set_key),
    "user_dict": Kind(lambda v: collections.UserDict(rate=v), _of_key, _set_key),
    "chain": Kind(lambda v: collections.ChainMap({}, {"rate": v}), _of_key, _set_key),
    "own_dict": Kind(lambda v: OwnDict(rate=v), _of_key, _set_key),
    "own_list": Kind(lambda v: OwnList([v]), _of_item, _set_item),
    "namespace": Kind(lambda v: SimpleNamespace(rate=v), _of_attribute, _set_attribute),
    "instance": Kind(Plain, _of_attribute, _set_attribute),
    "slotted": Kind(Slotted, _of_attribute, _set_attribute),
    "derived": Kind(Derived, _of_attribute, _set_attribute),
    "dataclass": Kind(Data, _of_attribute, _set_attribute),
    "frozen": Kind(lambda v: Frozen([v]), lambda o: o.held[0], lambda o, v: _set_item(o.held, v)),
    "property": Kind(WithProperty, _of_attribute, lambda o, v: setattr(o, "_rate", v)),
    "lookup": Kind(WithLookup, _of_attribute, lambda o, v: _set_key(o.held, v)),
    "class": Kind(_class, _of_attribute, _set_attribute),
    "class_of_instance": Kind(Plain, _of_attribute, _replaced_class),
    "method": Kind(
        lambda v: OwnList([v]).__getitem__, lambda m: m(0), lambda m, v: _set_item(m.__self__, v), travels=False
    ),
    "bytearray": Kind(
        lambda v: bytearray([int(abs(v) * 4), 1]),
        _of_item,
        lambda b, v: _set_item(b, int(abs(v) * 4)),
    ),
    "buffer": Kind(lambda v: array.array("d", [v, 1.0]), _of_item, _set_item),
    "memoryview": Kind(lambda v: memoryview(array.array("d", [v])), _of_item, _set_item),
    "array": Kind(lambda v: np.array([v, 1.0]), _of_item, _set_item),
    "transposed": Kind(lambda v: np.full((2, 3), v).T, lambda a: float(a[0, 1]), lambda a, v: a.fill(v)),
    "scalar_array": Kind(lambda v: np.array(v), float, lambda a, v: a.fill(v)),
    "objects": Kind(lambda v: np.array([[v], None], dtype=object), lambda a: a[0][0], lambda a, v: _set_item(a[0], v)),
    "own_array": Kind(lambda v: np.array([v, 1.0]).view(OwnArray), _of_item, _set_item),
    "masked": Kind(lambda v: np.ma.masked_array([v, 1.0], mask=[False, True]), lambda a: float(a.sum()), _set_item),
    "partial_keyword": Kind(
        lambda v: functools.partial(_keyword, rate=v), _called, lambda p, v: p.keywords.update(rate=v)
    ),
    "partial_argument": Kind(lambda v: functools.partial(_of_item, [v]), _called, lambda p, v: _set_item(p.args[0], v)),
    "partial_function": Kind(lambda v: functools.partial(_function(v)), _called, lambda p, v: _set_cell(p.func, v)),
    "vectorised": Kind(_over_a_list(_vectorised), _called, _set_held),
    "cached": Kind(_over_a_list(_cached), _called, _clear),
    "dispatched": Kind(_dispatched, _of_dispatched, _register),
    "iterator": Kind(lambda v: iter([v] * 64), _left, lambda i, _: next(i)),
    "variable": Kind(_made_variable, _of_variable, _set_variable, travels=False),
    "proxy": Kind(_proxy, _of_proxy, lambda o, v: _set_key(o.held, v)),
}

BOXES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "in_list": (lambda inner: [None, inner], lambda box: box[1]),
    "in_tuple": (lambda inner: (None, inner), lambda box: box[1]),
    "in_dict": (lambda inner: {"inner": inner}, lambda box: box["inner"]),
    "in_namespace": (lambda inner: SimpleNamespace(inner=inner), lambda box: box.inner),
    "in_instance": (Plain, lambda box: box.rate),
    "in_slot": (Slotted, lambda box: box.rate),
    "in_dataclass": (Data, lambda box: box.rate),
    "in_deque": (lambda inner: collections.deque([inner]), lambda box: box[0]),
    "in_partial": (lambda inner: functools.partial(_keyword, rate=inner), lambda box: box()),
    "in_cell": (_function, lambda box: box()),
    "in_class": (_class, lambda box: box.__dict__["rate"]),
}
"""By name, what puts an object into another one, and what takes it out, which user code calls."""


class Captured:
    """One object of a program: the outermost box, with what reads and changes the number inside."""

    def __init__(self, kind: str, boxes: tuple[str, ...], value: float) -> None:
        self._kind = KINDS[kind]
        self._object = held = self._kind.make(value)
        outs: list[Callable[[Any], Any]] = []
        for name in boxes:
            put, out = BOXES[name]
            held = put(held)
            outs.append(out)
        self.reader = _reader(held, outs, self._kind.read)

    def change(self, value: float) -> None:
        self._kind.change(self._object, value)


def _reader(held: Any, outs: list[Callable[[Any], Any]], read: Callable[[Any], float]) -> Callable[[], float]:
    """Return user code that reads the number, with the object among its captured variables."""
    if not outs:
        return lambda: read(held)
    if len(outs) == 1:
        out = outs[0]
        return lambda: read(out(held))
    outer, inner = outs[1], outs[0]
    return lambda: read(inner(outer(held)))
