"""Whether a piece of user code is like one that was shipped before: told in microseconds, without pickling it.

Rules of this file: equal likenesses mean equal pickles (up to arrays and tensors, which are taken out); where that is
not sure at a glance there is no likeness, and the code is pickled. Immutable values count by value; modules, code and
whatever is imported everywhere by identity; lists, dicts, sets and instances are never sure.
"""

from __future__ import annotations

import dis
from types import BuiltinFunctionType, CodeType, FunctionType, GetSetDescriptorType, ModuleType
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.tensor import Tensor

from .pickling import import_name, imports_alike

CODES_KEPT: Final = 8192
"""Code objects whose names of globals are remembered; then all are forgotten, and found again in microseconds."""

_BY_VALUE: Final = frozenset({type(None), bool, int, str, bytes})
_MADE_BY_PYTHON: Final = frozenset({"__dict__", "__weakref__", "__slotnames__", "_backward_cls", "_plan"})
_GLOBAL_OPS: Final = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})

_names_of: dict[int, tuple[CodeType, tuple[str, ...]]] = {}


class Unsure(Exception):
    """There is no telling without pickling."""


class Likeness:
    """How a piece of code looks.

    Attributes:
        key: equal for code that is alike.
        captured: its arrays and tensors, in the order in which they were seen.
        held: what `key` names by identity; to be kept alive as long as the key is compared with others.

    Raises:
        Unsure: see the head of this file.
    """

    __slots__ = ("_slots", "_visited", "captured", "held", "key")

    def __init__(self, code: Any) -> None:
        self.captured: list[Any] = []
        self.held: list[Any] = []
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
                raise Unsure
            return self._slot(value, "array")
        if kind is Tensor:
            return self._slot(value, "tensor")
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
        return self._identity(value) if import_name(value) is not None else _unsure()

    def _module(self, module: ModuleType) -> Any:
        """A module of the user's: what its names stand for, though not what containers among it hold."""
        space = {name: value for name, value in vars(module).items() if not name.startswith("__")}
        self.held.append(space)
        return (self._identity(module), tuple([(name, id(value)) for name, value in space.items()]))

    def _identity(self, value: Any) -> int:
        self.held.append(value)
        return id(value)

    def _slot(self, value: Any, kind: str) -> tuple[str, int]:
        slot = self._slots.get(id(value))
        if slot is None:
            slot = self._slots[id(value)] = len(self.captured)
            self.captured.append(value)
        return kind, slot

    def _function(self, function: FunctionType) -> Any:
        again = self._visited.get(id(function))
        if again is not None:
            return ("again", again)
        self._visited[id(function)] = len(self._visited)
        if import_name(function) is not None:
            return self._identity(function)
        if function.__dict__:
            raise Unsure
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
            tuple([self._cell(cell) for cell in function.__closure__ or ()]),
            tuple([(name, self._look(space[name])) for name in global_names(code) if name in space]),
        )

    def _cell(self, cell: Any) -> Any:
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            return "unbound"
        return self._look(value)

    def _items(self, items: dict[str, Any] | None) -> Any:
        return tuple([(name, self._look(value)) for name, value in items.items()]) if items else None

    def _class(self, cls: type) -> Any:
        again = self._visited.get(id(cls))
        if again is not None:
            return ("again", again)
        self._visited[id(cls)] = len(self._visited)
        if import_name(cls) is not None:
            return self._identity(cls)
        members: list[Any] = [self._identity(cls), self._look(cls.__bases__)]
        for name, member in cls.__dict__.items():
            if name == "__annotations__":
                members.append(self._items(member))
            elif name not in _MADE_BY_PYTHON and type(member) is not GetSetDescriptorType:
                members.append((name, self._look(member)))
        return tuple(members)


def _unsure() -> Any:
    raise Unsure


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
