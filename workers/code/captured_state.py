"""Captured state: the tensors that functions reach, and a guard of everything else that they read.

Compiled functions are checked by it before each replay. The walk follows variables of enclosing functions, named
globals, attributes, slots, containers, and classes and functions of the user's. Libraries are taken to stay as they
are. Objects that hide their state (iterators, objects of libraries) are compared by identity only."""

from __future__ import annotations

import functools
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, MethodType
from typing import Any, ClassVar, Final, cast

import numpy as np

from raygrad.autograd.core.array_layout import is_array
from raygrad.autograd.function import FunctionMeta
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import SessionError

from .guard import Generator, Guard, is_fixed
from .importable import imports_alike
from .visitor import (
    Part,
    Visitor,
    attribute_parts,
    class_parts,
    descriptor_parts,
    dict_parts,
    function_parts,
    item_parts,
    method_parts,
    partial_parts,
    property_parts,
    slot_names,
    slot_parts,
    through_modules,
)

MOST: Final = 100_000
"""The most objects that are visited: each replay compares all of them, which takes milliseconds."""

_ATOMS: Final = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis), slice, range})


class CapturedState(Visitor):
    """The state that some objects capture now.

    Args:
        objects: the roots of the walk.
        looked_into: classes of libraries whose instances hold objects of the user's.

    Attributes:
        tensors: the tensors, in the order in which they were found.
        guard: tells whether everything else is what it was.

    Raises:
        SessionError: they reach more than `MOST` objects.
    """

    def __init__(self, objects: Iterable[Any], looked_into: tuple[type[Any], ...] = ()) -> None:
        self.tensors: list[Tensor] = []
        self.guard = Guard()
        self._looked_into = looked_into
        self._slots: dict[type[Any], list[str]] = {}
        self._seen: dict[int, Any] = {}
        """The visited objects by id, kept alive so that ids stay unique."""
        self.walk(objects)

    def holds(self) -> bool:
        """Tell whether the captured state is unchanged; tensors may have other values."""
        return self.guard.holds()

    looks: ClassVar = {}
    atoms = _ATOMS

    def other(self, value: Any) -> Sequence[Part]:
        """Visit an object that is no atom, once."""
        seen = self._seen
        if id(value) in seen:
            return ()
        seen[id(value)] = value
        if len(seen) > MOST:
            raise SessionError(
                f"a compiled function reaches more than {MOST:,} objects through its variables, and all would have "
                "to be compared at each call: give it the data as tensors in its arguments"
            )
        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        look = _LOOKS.get(kind)
        return self._of_derived_type(value) if look is None else look(self, value)

    def _of_derived_type(self, value: Any) -> Sequence[Part]:
        """Visit an object of a subclass that the user, or a library, has defined."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, type):
            return self._class(value)
        if is_array(value):
            return self._array(value)
        if isinstance(value, dict):
            return self._dict(cast("dict[Any, Any]", value)) + self._instance(value)
        if isinstance(value, tuple):
            return item_parts(cast("tuple[Any, ...]", value))
        if isinstance(value, list | set | frozenset | deque):
            return self._collection(value) + self._instance(value)
        if isinstance(value, functools.partial):
            return partial_parts(cast("functools.partial[Any]", value))
        if isinstance(value, np.random.Generator | np.random.RandomState | random.Random):
            return self._generator(value)
        return self._instance(value)

    # ---- code -------------------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> list[Part]:
        of_library = imports_alike(str(function.__globals__.get("__name__", "")))
        found = function_parts(function, of_library)
        found += through_modules(function, found)
        if of_library:
            self.guard.references(found)
        else:
            self.guard.function(function, found)
        return found

    def _class(self, cls: type) -> list[Part]:
        if imports_alike(cls.__module__):
            return []
        self.guard.members(cls)
        return class_parts(cls)

    # ---- data -------------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: Tensor) -> list[Part]:
        self.tensors.append(tensor)
        found: list[Part] = []
        for name in ("_hooks", "_after_accumulation"):
            hooks: Any = getattr(tensor, name)
            self.guard.references([("slot", name, tensor, hooks)])
            if hooks is not None:
                self.guard.mapping(hooks)
                found += [("hook", number, tensor, hook) for number, hook in hooks.items()]
        return found

    def _array(self, array: np.ndarray[Any, Any]) -> list[Part]:
        if not is_fixed(array):
            self.guard.array(array)
        return item_parts(array.ravel().tolist()) if array.dtype.hasobject else []

    def _generator(self, generator: Generator) -> list[Part]:
        self.guard.generator(generator)
        return []

    def _dict(self, mapping: dict[Any, Any]) -> list[Part]:
        self.guard.mapping(mapping)
        return dict_parts(mapping)

    def _collection(self, items: Any) -> list[Part]:
        self.guard.collection(items)
        return item_parts(items)

    def _instance(self, value: Any) -> list[Part]:
        """Visit an instance of a user class, or of one that is looked into; of another the wrapped function."""
        cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        if imports_alike(cls.__module__) and not isinstance(value, self._looked_into):
            wrapped: Any = getattr(value, "__wrapped__", None) if callable(value) else None
            return [] if wrapped is None else [("function", "", value, wrapped)]
        attributes: Any = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self.guard.mapping(cast("dict[str, Any]", attributes))
        found: list[Part] = [("class", "", value, cls), *attribute_parts(value)]
        slots = self._slots.get(cls)
        if slots is None:
            slots = self._slots[cls] = slot_names(cls)
        if slots:
            held = slot_parts(value, slots)
            self.guard.references(held)
            found += held
        return found


_LOOKS: Final[dict[type[Any], Callable[[CapturedState, Any], Sequence[Part]]]] = {
    FunctionType: CapturedState._function,
    MethodType: lambda _, value: method_parts(value),
    staticmethod: lambda _, value: descriptor_parts(value),
    classmethod: lambda _, value: descriptor_parts(value),
    property: lambda _, value: property_parts(value),
    functools.partial: lambda _, value: partial_parts(value),
    type: CapturedState._class,
    FunctionMeta: CapturedState._class,
    Tensor: CapturedState._tensor,
    np.ndarray: CapturedState._array,
    dict: CapturedState._dict,
    tuple: lambda _, value: item_parts(value),
    **dict.fromkeys((list, set, frozenset, deque), CapturedState._collection),
}
