"""Whether a piece of user code is like one that was shipped before: told in microseconds, without pickling it.

Rules of this file: equal likenesses mean equal pickles (up to arrays and tensors, which are taken out); where that is
not sure at a glance, the likeness says so, and the code is pickled. Immutable values, containers and instances of the
user's plain classes count by value; modules, code and whatever is imported everywhere by identity. Nothing here runs
user code.
"""

from __future__ import annotations

import dis
from collections.abc import Collection, Iterable, Mapping
from itertools import repeat
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, GetSetDescriptorType, MethodType, ModuleType
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.captured import kind_of
from raygrad.autograd.tensor import Tensor

from .pickling import import_name, imports_alike

CODES_KEPT: Final = 8192
"""Code objects whose names of globals are remembered; then all are forgotten, and found again in microseconds."""

ITEMS_LOOKED_AT: Final = 256
"""The longest container that is looked into; one that is longer is left to the pickler."""

_BY_VALUE: Final = frozenset({type(None), bool, int, str, bytes})
_CONTAINERS: Final = frozenset({list, set, frozenset})
_MADE_BY_PYTHON: Final = frozenset({"__dict__", "__weakref__", "__slotnames__", "_backward_cls", "_plan"})
_GLOBAL_OPS: Final = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
_OWN_PICKLING: Final = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")
_MADE_LATER: Final = _MADE_BY_PYTHON | {"__warningregistry__", "__annotate_cache__", "__annotations_cache__"}
_ABSENT: Final = object()

_names_of: dict[int, tuple[CodeType, tuple[str, ...]]] = {}


class Watch:
    """What a piece of code would read now, by identity, but numbers and strings by value: whether it is all the same
    later is told in a microsecond."""

    __slots__ = ("_cells", "_collections", "_mappings", "_names", "_tensors")

    def __init__(self) -> None:
        self._cells: list[tuple[CellType, Any]] = []
        self._names: list[tuple[dict[str, Any], str, Any]] = []
        self._mappings: list[tuple[Mapping[Any, Any], int, list[Any], list[Any]]] = []
        self._collections: list[tuple[Collection[Any], tuple[Any, ...]]] = []
        self._tensors: list[tuple[Tensor, int]] = []

    def cell(self, cell: CellType, value: Any) -> None:
        """Watch a variable of an enclosing function."""
        self._cells.append((cell, value))

    def name(self, space: dict[str, Any], name: str) -> None:
        """Watch a global variable."""
        self._names.append((space, name, space[name]))

    def mapping(self, mapping: Mapping[Any, Any]) -> None:
        """Watch a dict, or the attributes of a class, a module or an instance."""
        keys = [key for key in mapping if not _is_pythons(key)]
        self._mappings.append((mapping, len(mapping), keys, [mapping[key] for key in keys]))

    def collection(self, items: Collection[Any]) -> None:
        """Watch a list or a set."""
        self._collections.append((items, tuple(items)))

    def tensor(self, tensor: Tensor) -> int:
        """Watch what kind of tensor one is (a leaf that requires grad, say), and return that."""
        kind = kind_of(tensor)
        self._tensors.append((tensor, kind))
        return kind

    def holds(self) -> bool:
        """Tell whether all that was watched is the same still."""
        for cell, value in self._cells:
            try:
                if not is_same(cell.cell_contents, value):
                    return False
            except ValueError:  # not bound any more
                return False
        for space, name, value in self._names:
            if not is_same(space.get(name, _ABSENT), value):
                return False
        for mapping, length, keys, values in self._mappings:
            if not _are_same(map(mapping.get, keys, repeat(_ABSENT)), values):
                return False
            if len(mapping) != length and sum(not _is_pythons(key) for key in mapping) != len(keys):
                return False
        for tensor, kind in self._tensors:
            if kind_of(tensor) != kind:
                return False
        return all(len(items) == len(before) and _are_same(items, before) for items, before in self._collections)


def _are_same(now: Iterable[Any], before: Iterable[Any]) -> bool:
    return all(map(is_same, now, before))


def is_same(now: Any, before: Any) -> bool:
    """Tell whether a value is the one that was there before, or an equal number, string or tuple of such: a rate that
    is computed anew at each step is another object each time."""
    if now is before:
        return True
    kind = cast("type[Any]", type(now))
    if kind is not type(before):
        return False
    if kind in _BY_VALUE:
        return now == before
    if kind is float or kind is complex:
        return repr(now) == repr(before)  # which tells zeros apart, and not what is no number
    if kind is tuple:
        return len(now) == len(before) and _are_same(now, before)
    return isinstance(now, np.number | np.bool) and now.tobytes() == before.tobytes()


def _is_pythons(key: Any) -> bool:
    """Tell whether Python or raygrad itself keeps a name in a class or module, and may make it at any time."""
    return key in _MADE_LATER if type(key) is str else False


class Likeness:
    """How a piece of code looks.

    Attributes:
        sure: whether `key` tells all; else there is no telling without pickling.
        key: equal for code that is alike, if it is sure.
        captured: its arrays and tensors, in the order in which they were seen.
        held: what `key` names by identity; to be kept alive as long as the key is compared with others.
        watch: tells whether it would look the same now. It holds what the code captures.
    """

    __slots__ = ("_slots", "_visited", "captured", "held", "key", "sure", "watch")

    def __init__(self, code: Any) -> None:
        self.sure = True
        self.captured: list[Any] = []
        self.held: list[Any] = []
        self.watch = Watch()
        self._slots: dict[int, int] = {}
        self._visited: dict[int, int] = {}
        self.key: Any = self._look(code)

    def _look(self, value: Any) -> Any:
        kind = cast("type[Any]", type(value))
        if kind in _BY_VALUE:
            return (kind, value)
        if kind is FunctionType:
            return self._function(value)
        if kind is np.ndarray:
            if value.size == 0 or value.dtype.kind not in "biufc":
                return self._unsure(value)
            return self._slot(value, 0)
        if kind is Tensor:
            return self._slot(value, self.watch.tensor(value))
        if kind is MethodType:
            return ("method", self._look(value.__func__), self._look(value.__self__))
        if kind is ModuleType:
            return self._identity(value) if imports_alike(value.__name__) else self._module(value)
        if isinstance(value, type):
            return self._class(value)
        if kind is float or kind is complex:
            return (kind, repr(value))
        if kind is tuple:
            return tuple([self._look(one) for one in value])
        if kind is staticmethod or kind is classmethod:
            return (kind, self._look(value.__func__))
        if kind is BuiltinFunctionType or kind is np.ufunc or kind.__module__ == "typing":
            return self._identity(value)
        if import_name(value) is not None:
            return self._identity(value)
        if kind is dict:
            return self._mapping(value)
        if kind in _CONTAINERS:
            return self._collection(value)
        return self._instance(value)

    def _again(self, value: Any) -> Any:
        """Return how a value that was looked at before is named; None, and remember it, the first time."""
        found = self._visited.get(id(value))
        if found is not None:
            return ("again", found)
        self._visited[id(value)] = len(self._visited)
        return None

    def _unsure(self, value: Any) -> Any:
        self.sure = False
        return self._identity(value)

    def _mapping(self, mapping: dict[Any, Any]) -> Any:
        again = self._again(mapping)
        if again is not None:
            return again
        self.watch.mapping(mapping)
        if len(mapping) > ITEMS_LOOKED_AT:
            return self._unsure(mapping)
        return ("dict", tuple([(self._look(key), self._look(value)) for key, value in mapping.items()]))

    def _collection(self, items: Collection[Any]) -> Any:
        again = self._again(items)
        if again is not None:
            return again
        self.watch.collection(items)
        if len(items) > ITEMS_LOOKED_AT:
            return self._unsure(items)
        return (type(items), tuple([self._look(one) for one in items]))

    def _instance(self, value: Any) -> Any:
        """An instance: looked into if its class is the user's and says nothing of pickling."""
        again = self._again(value)
        if again is not None:
            return again
        cls = cast("type[Any]", type(value))
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is not dict or not _is_plain(cls):
            return self._unsure(value)
        self.watch.mapping(cast("dict[str, Any]", attributes))
        return ("instance", self._class(cls), self._mapping(cast("dict[str, Any]", attributes)))

    def _module(self, module: ModuleType) -> Any:
        """A module of the user's: what its names stand for, though not what containers among it hold."""
        space = {name: value for name, value in vars(module).items() if not name.startswith("__")}
        self.watch.mapping(vars(module))
        self.held.append(space)
        return (self._identity(module), tuple([(name, id(value)) for name, value in space.items()]))

    def _identity(self, value: Any) -> int:
        self.held.append(value)
        return id(value)

    def _slot(self, value: Any, kind: int) -> tuple[str, int, int]:
        slot = self._slots.get(id(value))
        if slot is None:
            slot = self._slots[id(value)] = len(self.captured)
            self.captured.append(value)
        return "captured", kind, slot

    def _function(self, function: FunctionType) -> Any:
        again = self._again(function)
        if again is not None:
            return again
        if import_name(function) is not None:
            return self._identity(function)
        code, space = function.__code__, function.__globals__
        self.held += (code, space)
        return (
            id(code),
            id(space),
            function.__qualname__,
            function.__module__,
            function.__doc__,
            self._look(function.__defaults__),
            self._items(function.__kwdefaults__),
            self._items(function.__annotations__),
            self._items(function.__dict__),
            tuple([self._cell(cell) for cell in function.__closure__ or ()]),
            tuple([(name, self._name(space, name)) for name in global_names(code) if name in space]),
        )

    def _cell(self, cell: Any) -> Any:
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            return "unbound"
        self.watch.cell(cell, value)
        return self._look(value)

    def _name(self, space: dict[str, Any], name: str) -> Any:
        self.watch.name(space, name)
        return self._look(space[name])

    def _items(self, items: dict[str, Any] | None) -> Any:
        return tuple([(name, self._look(value)) for name, value in items.items()]) if items else None

    def _class(self, cls: type) -> Any:
        again = self._again(cls)
        if again is not None:
            return again
        if import_name(cls) is not None:
            return self._identity(cls)
        self.watch.mapping(cls.__dict__)
        members: list[Any] = [self._identity(cls), self._look(cls.__bases__)]
        for name, member in cls.__dict__.items():
            if name == "__annotations__":
                members.append(self._items(member))
            elif name not in _MADE_BY_PYTHON and type(member) is not GetSetDescriptorType:
                members.append((name, self._look(member)))
        return tuple(members)


def _is_plain(cls: type[Any]) -> bool:
    """Tell whether instances of a class are their attributes: nothing in it, or in what it inherits, is in C."""
    for base in cls.__mro__[:-1]:
        if imports_alike(base.__module__) or "__slots__" in base.__dict__:
            return False
        if not base.__dict__.keys().isdisjoint(_OWN_PICKLING):
            return False
    return True


def global_names(code: CodeType) -> tuple[str, ...]:
    """Return the names of the globals that code reads or writes, also in functions that it defines."""
    known = _names_of.get(id(code))
    if known is None:
        names = dict.fromkeys(str(one.argval) for one in dis.get_instructions(code) if one.opname in _GLOBAL_OPS)
        for const in code.co_consts:
            if isinstance(const, CodeType):
                names.update(dict.fromkeys(global_names(const)))
        if len(_names_of) >= CODES_KEPT:
            _names_of.clear()
        known = _names_of[id(code)] = (code, tuple(names))
    return known[1]
