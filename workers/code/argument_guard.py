"""Guard of a Function's arguments: tells what forward changed in objects that were copied for it.

Eagerly forward changes the caller's own list. In a session it is given a copy, and the change would be lost unsaid. A
changed container is refused; what an object changes about itself, such as a cache, is warned of.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.core.recorder import FixedOutput
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import AutogradError

from .guard import Guard, is_fixed
from .importable import imports_alike
from .visitor import PLAIN, attribute_parts, dict_parts, item_parts

_UNCHANGED: Final = (
    *PLAIN,
    Tensor,
    np.generic,
    np.dtype,
    type,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    ModuleType,
    FixedOutput,
)
"""What forward cannot change, or what counts changes of its own."""

_REMEDY: Final = (
    "in a session forward works on a copy, and the caller's own would not change: return what is new as an output, or "
    "send it with rg.emit(name, value), to a handler given to session.on(name, handler)"
)


class ArgumentGuard:
    """The containers and objects among the arguments of one call, as they are before forward runs."""

    __slots__ = ("_function", "_guards")

    def __init__(self, function: type[Any], values: Mapping[int | str, Any]) -> None:
        self._function = function
        self._guards: list[tuple[int | str, Any, bool, Guard]] = []
        """(argument, what is guarded, whether it belongs to an object, guard)."""
        seen: dict[int, Any] = {}
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
        guard, parts = Guard(), list[Any]()
        if isinstance(value, np.ndarray):
            array = cast("np.ndarray[Any, Any]", value)
            if is_fixed(array):
                return []
            guard.array(array)
        elif isinstance(value, bytearray):
            guard.buffer(value)
        elif isinstance(value, dict):
            guard.mapping(cast("dict[Any, Any]", value))
            parts = dict_parts(cast("dict[Any, Any]", value))
        elif isinstance(value, list | set | deque):
            guard.collection(cast("Sequence[Any]", value))
            parts = item_parts(cast("Sequence[Any]", value))
        elif isinstance(value, tuple | frozenset):
            return [(part[3], inside) for part in item_parts(cast("Sequence[Any]", value))]
        elif imports_alike(type(value).__module__):
            return []
        else:
            inside, parts = True, attribute_parts(value)
            attributes: dict[str, Any] | None = getattr(value, "__dict__", None)
            if type(attributes) is dict:
                guard.mapping(attributes)
        self._guards.append((place, value, inside, guard))  # pyright: ignore[reportUnknownArgumentType]
        return [(part[3], inside) for part in parts]

    def check(self) -> None:
        """Check that forward has changed none of them.

        Warns (UserWarning): it changed something of an object.

        Raises:
            AutogradError: it changed a container.
        """
        for place, value, inside, guard in self._guards:
            if guard.holds():
                continue
            kind = type(value).__name__
            what = f"{self._function.__name__}.forward changed argument {place!r}, "
            if not inside:
                raise AutogradError(f"{what}or a {kind} in it: {_REMEDY}")
            warnings.warn(f"{what}an object, or its {kind}: {_REMEDY}", UserWarning, stacklevel=2)
            return


def guard_arguments(function: type[Any], args: Sequence[Any], named: Mapping[str, Any]) -> ArgumentGuard | None:
    """Return a guard of the arguments that forward might change, None if there are none."""
    given: Iterable[tuple[int | str, Any]] = (*enumerate(args), *named.items())
    held = {place: value for place, value in given if not isinstance(value, _UNCHANGED)}
    found = ArgumentGuard(function, held) if held else None
    return found if found is not None and found._guards else None
