"""Guard of a Function's arguments: tells what forward changed in objects that were copied for it.

Eagerly forward changes the caller's own list. In a session it is given a copy, and the change would be lost unsaid. A
changed container is refused; what an object changes about itself, such as a cache, is warned of.
"""

from __future__ import annotations

import array
import functools
import warnings
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.core.recorder import FixedOutput
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import AutogradError

from .guard import Generator, Guard, Part, is_fixed
from .importable import imports_alike
from .pickling import content_of
from .unpickling import class_names
from .visitor import (
    PLAIN,
    attribute_parts,
    dict_parts,
    function_parts,
    item_parts,
    method_parts,
    partial_parts,
    slot_names,
    slot_parts,
)

_UNCHANGED: Final = (
    *PLAIN,
    Tensor,
    np.generic,
    np.dtype,
    type,
    BuiltinFunctionType,
    ModuleType,
    FixedOutput,
)
"""What forward cannot change, or what counts changes of its own."""

_PLAINLY_UNCHANGED: Final = frozenset((*PLAIN, Tensor))
"""The classes of most of these, which are found faster."""

_DATA: Final = (SimpleNamespace, UserDict, UserList, ChainMap)
"""Classes of Python's whose instances are nothing but their attributes."""

_REMEDY: Final = (
    "in a session it works on a copy, and the caller's own would not change: return what is new as an output, or send "
    "it with rg.emit(name, value), to a handler given to session.on(name, handler)"
)


class ArgumentGuard:
    """The containers and objects among the arguments of one call, as they are before forward runs."""

    __slots__ = ("_guards", "_seen", "_where")

    def __init__(self, where: str, values: Mapping[int | str, Any]) -> None:
        self._where = where
        """The Function's method, and how it is named what it changes."""
        self._guards: list[tuple[int | str, Any, bool, Guard]] = []
        """(argument, what is guarded, whether it belongs to an object, guard)."""
        self._seen = seen = dict[int, Any]()
        """What was looked at, by its id."""
        for place, value in values.items():
            waiting: list[tuple[Any, bool]] = [(value, False)]
            while waiting:
                held, inside = waiting.pop()
                if id(held) in seen or isinstance(held, _UNCHANGED):
                    continue
                seen[id(held)] = held
                waiting += self._guarded(place, held, inside)

    def _guarded(self, place: int | str, value: Any, inside: bool) -> list[tuple[Any, bool]]:
        """Guard one object; return what it holds."""
        guard, parts = Guard(), list[Part]()
        if isinstance(value, np.ndarray):
            items = cast("np.ndarray[Any, Any]", value)
            if is_fixed(items) and not items.dtype.hasobject:
                return []
            guard.array(items)
            parts = item_parts(items.ravel().tolist()) if items.dtype.hasobject else parts
        elif isinstance(value, bytearray | array.array):
            guard.buffer(value)
        elif isinstance(value, Generator):  # the program is warned of it where the call is recorded
            return []
        elif isinstance(value, dict):
            guard.mapping(cast("dict[Any, Any]", value))
            parts = dict_parts(cast("dict[Any, Any]", value)) + self._derived(value, guard)
        elif isinstance(value, list | set | deque):
            guard.collection(cast("Sequence[Any]", value))
            parts = item_parts(cast("Sequence[Any]", value)) + self._derived(value, guard)
        elif isinstance(value, tuple | frozenset):
            return [(part[3], inside) for part in item_parts(cast("Sequence[Any]", value))]
        elif isinstance(value, MethodType):
            return [(part[3], True) for part in method_parts(value)]
        elif isinstance(value, FunctionType):
            if value not in class_names:  # the program's own, which changes as it does eagerly
                return []
            inside, parts = True, function_parts(value, imports_alike(value.__module__))
            guard.references(parts)
            guard.mapping(value.__dict__)
        elif isinstance(value, functools.partial):
            return [(part[3], True) for part in partial_parts(cast("functools.partial[Any]", value))]
        elif isinstance(value, Iterator):
            inside = True
            guard.state(content_of, (value,), content_of(value))  # pyright: ignore[reportUnknownArgumentType]
        elif not imports_alike(type(value).__module__) or isinstance(value, _DATA):
            inside, parts = True, self._attributes(value, guard)
        else:  # what a library's object notes about itself is its own affair
            return [(part[3], True) for part in attribute_parts(value) if isinstance(part[3], np.ndarray)]
        self._guards.append((place, value, inside, guard))  # pyright: ignore[reportUnknownArgumentType]
        return [(part[3], inside) for part in parts]

    def _derived(self, value: Any, guard: Guard) -> list[Part]:
        """Guard what a container of a user's class has beside its items; return that."""
        return [] if imports_alike(type(value).__module__) else self._attributes(value, guard)

    @staticmethod
    def _attributes(value: Any, guard: Guard) -> list[Part]:
        """Guard the attributes and slots of an object; return them."""
        attributes: dict[str, Any] | None = getattr(value, "__dict__", None)
        if type(attributes) is dict:
            guard.mapping(attributes)
        slots = slot_parts(value, slot_names(cast("type[Any]", type(value))))
        guard.references(slots)
        return attribute_parts(value) + slots

    def names_of(self, attributes: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the attributes that are one of them or in one, or a tuple with such an object."""
        known = self._seen
        held = {
            name: cast("tuple[Any, ...]", (value, *value) if isinstance(value, tuple) else (value,))
            for name, value in attributes.items()
        }
        return tuple([name for name, values in held.items() if any([id(one) in known for one in values])])

    def check(self) -> None:
        """Check that forward, or backward, has changed none of them.

        Warns (UserWarning): it changed something of an object.

        Raises:
            AutogradError: it changed a container.
        """
        for place, value, inside, guard in self._guards:
            if guard.holds():
                continue
            kind = type(value).__name__
            changed = f"{self._where.format(verb='changed')} {place!r}"
            if not inside:
                raise AutogradError(f"{changed}, or the {kind} in it: {_REMEDY}")
            warnings.warn(f"{changed}, an object, or its {kind}: {_REMEDY}", UserWarning, stacklevel=2)
            return


def guard_arguments(function: type[Any], args: Sequence[Any], named: Mapping[str, Any]) -> ArgumentGuard | None:
    """Return a guard of the arguments that forward might change, None if there are none."""
    for value in (*args, *named.values()) if named else args:
        if type(value) not in _PLAINLY_UNCHANGED:
            break
    else:
        return None
    given: Iterable[tuple[int | str, Any]] = (*enumerate(args), *named.items())
    held = {place: value for place, value in given if not isinstance(value, _UNCHANGED)}
    return _guard(f"{function.__name__}.forward {{verb}} argument", held) if held else None


def guard_copies(function: type[Any], attributes: Mapping[str, Any]) -> ArgumentGuard | None:
    """Return the same of attributes of ctx that are copies of arguments, for backward."""
    return _guard(f"{function.__name__}.backward {{verb}} an argument, kept on ctx as", attributes)


def _guard(where: str, values: Mapping[Any, Any]) -> ArgumentGuard | None:
    found = ArgumentGuard(where, values)
    return found if found._guards else None
