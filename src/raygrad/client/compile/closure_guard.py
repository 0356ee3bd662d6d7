"""What a function of the user's reaches: the tensors in it, and whether all else is still what it was.

Rules of this file: looking only. It follows variables of enclosing functions, globals that are named, attributes,
containers, and classes and functions of the user's; libraries are taken to stay as they are, and what hides its state
(iterators, objects of libraries) is told apart by identity only. Nothing here runs user code.
"""

from __future__ import annotations

import random
import zlib
from collections import deque
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.layout import is_array
from raygrad.autograd.tensor import Tensor
from raygrad.errors import SessionError
from raygrad.interop.node import Foreign
from raygrad.optim.optimizer import Optimizer
from raygrad.workers.code.code_fingerprint import Watch, global_names, is_same
from raygrad.workers.code.pickling import imports_alike

MOST: Final = 100_000
"""Objects that are looked at: all of them are compared at each replay, and that many take milliseconds."""

_ATOMS: Final = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis), slice, range})
_ABSENT: Final = object()


class Reached:
    """What some objects reach now.

    Attributes:
        tensors: the tensors, in the order in which they were found.
    """

    def __init__(self, objects: list[Any]) -> None:
        self.tensors: list[Tensor] = []
        self._watch = Watch()
        self._arrays: list[tuple[np.ndarray[Any, Any], int]] = []
        self._slots: list[tuple[Any, str, Any]] = []
        self._generators: list[tuple[Any, Any]] = []
        self._seen: dict[int, Any] = {}
        """By id, what was looked at; kept alive, so that ids stay theirs."""
        waiting = list(reversed(objects))
        while waiting:
            value = waiting.pop()
            if type(value) in _ATOMS or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            if len(self._seen) > MOST:
                raise SessionError(
                    f"a compiled function reaches more than {MOST:,} objects through its variables, and all would have "
                    "to be compared at each call: give it the data as tensors in its arguments"
                )
            waiting.extend(reversed(self._look(value)))

    def holds(self) -> bool:
        """Tell whether everything that was reached is what it was; tensors may have other values."""
        return (
            self._watch.holds()
            and all(is_same(getattr(owner, name, _ABSENT), value) for owner, name, value in self._slots)
            and all(_checksum(array) == before for array, before in self._arrays)
            and all(_state(generator) == before for generator, before in self._generators)
        )

    def _look(self, value: Any) -> list[Any]:
        """Note one object, and return what it holds."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return [value.__func__, value.__self__]
        if isinstance(value, staticmethod | classmethod):
            return [cast(Any, value).__func__]
        if isinstance(value, property):
            return [value.fget, value.fset]
        if isinstance(value, partial):
            made = cast("partial[Any]", value)
            return [made.func, *made.args, *made.keywords.values()]
        if isinstance(value, type):
            return self._class(value)
        if is_array(value):
            if not _is_fixed(value):
                self._arrays.append((value, _checksum(value)))
            return []
        if isinstance(value, dict):
            held = cast("dict[Any, Any]", value)
            self._watch.mapping(held)
            return [*held, *held.values(), *self._attributes(value)]
        if isinstance(value, tuple):
            return list(cast("tuple[Any, ...]", value))
        if isinstance(value, list | set | frozenset | deque):
            items: list[Any] = list(cast("list[Any]", value))
            self._watch.collection(cast("list[Any]", value))
            return items + self._attributes(value)
        if isinstance(value, np.random.Generator | np.random.RandomState | random.Random):
            self._generators.append((value, _state(value)))
            return []
        return self._attributes(value)

    def _tensor(self, tensor: Tensor) -> list[Any]:
        self.tensors.append(tensor)
        found: list[Any] = []
        for name in ("_hooks", "_after_accumulation"):
            hooks: Any = getattr(tensor, name)
            self._slots.append((tensor, name, hooks))
            if hooks is not None:
                self._watch.mapping(hooks)
                found.extend(hooks.values())
        return found

    def _function(self, function: FunctionType) -> list[Any]:
        found: list[Any] = [function.__defaults__, function.__kwdefaults__]
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            self._watch.cell(cell, content)
            found.append(content)
        if imports_alike(str(function.__globals__.get("__name__", ""))):
            return found
        found.extend(function.__dict__.values())
        space = function.__globals__
        for name in global_names(function.__code__):
            if name in space:
                self._watch.name(space, name)
                value = space[name]
                found.extend(self._of_module(value, function.__code__) if isinstance(value, ModuleType) else [value])
        return found

    def _of_module(self, module: ModuleType, code: CodeType) -> list[Any]:
        """Return what code may read of a module of the user's: what it names."""
        if imports_alike(module.__name__):
            return []
        space, found = vars(module), list[Any]()
        for name in _attribute_names(code):
            if name in space:
                self._watch.name(space, name)
                found.append(space[name])
        return found

    def _class(self, cls: type) -> list[Any]:
        if imports_alike(cls.__module__):
            return []
        self._watch.mapping(cls.__dict__)
        return [*cls.__bases__, *cls.__dict__.values()]

    def _attributes(self, value: Any) -> list[Any]:
        """Return the attributes of an instance of a class of the user's, of an optimiser, or of an interop node."""
        cls = cast("type[Any]", type(value))
        if imports_alike(cls.__module__) and not isinstance(value, Foreign | Optimizer | SimpleNamespace):
            return [getattr(value, "__wrapped__", None)] if callable(value) else []
        found: list[Any] = [cls]
        attributes: Any = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._watch.mapping(cast("dict[str, Any]", attributes))
            found.extend(cast("dict[str, Any]", attributes).values())
        for base in cls.__mro__:
            names: Any = base.__dict__.get("__slots__", ())
            for name in (names,) if isinstance(names, str) else tuple(names):
                if name not in ("__dict__", "__weakref__"):
                    held = getattr(value, name, _ABSENT)
                    self._slots.append((value, name, held))
                    found.append(held)
        return found


def _attribute_names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= _attribute_names(const)
    return names


def _is_fixed(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether nobody can write to an array, so that it need not be compared."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None


def _checksum(array: np.ndarray[Any, Any]) -> int:
    data = np.ascontiguousarray(array)
    return hash((array.shape, array.dtype.str, zlib.crc32(data.view(np.uint8).data if data.size else b"")))


def drawn_in_hiding() -> Any:
    """Return what is another value once somebody has drawn from the generators that Python and NumPy keep."""
    return hash((random.getstate(), _frozen(np.random.get_state(legacy=False))))


def _state(generator: np.random.Generator | np.random.RandomState | random.Random) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    return _frozen(
        generator.bit_generator.state
        if isinstance(generator, np.random.Generator)
        else generator.get_state(legacy=False)
    )


def _frozen(state: Any) -> Any:
    """Return the state of a generator as a value that is compared at once, and does not change with it."""
    if isinstance(state, dict):
        return tuple([(name, _frozen(value)) for name, value in cast("dict[str, Any]", state).items()])
    return state.tobytes() if isinstance(state, np.ndarray) else state
