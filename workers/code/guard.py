"""Guards: the state that user code read when it was recorded or shipped, and the check that it is unchanged.

Replays, cached fingerprints and code shipped by reference are valid while their guard holds. A guard has references,
each with its value: it holds while each refers to the same object, or to an equal number or string. Containers are
compared by length and items, arrays by a checksum, generators by their state. No user code runs.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import is_
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias, cast

import numpy as np

from raygrad.autograd.function import FunctionMeta
from raygrad.autograd.functions.function_class_api import MADE_BY_METACLASS
from raygrad.autograd.nodes.captured_leaves import kind_of_capture
from raygrad.autograd.tensor.tensor import Tensor

MADE_BY_PYTHON: Final = frozenset({"__dict__", "__weakref__", "__slotnames__"})
"""Members of a class that Python makes, and that are no part of its definition."""

BY_VALUE: Final = frozenset({type(None), bool, int, str, bytes})
"""Types whose values are compared by equality."""

_MADE_LATER: Final = MADE_BY_PYTHON | {"__warningregistry__", "__annotate_cache__", "__annotations_cache__"}
_MADE_LATER_IN_FUNCTIONS: Final = _MADE_LATER | MADE_BY_METACLASS

Part: TypeAlias = tuple[str, Any, Any, Any]
"""One reference that an object holds: (role, name, holder, value). The holder is the cell, dict or object it is in."""

ABSENT: Final = object()
"""The value of a variable or slot that is not set."""

_PLAIN_DICT: Final[Any] = dict
"""The class whose own methods read a dict of a class derived from it, so that no user code runs."""

_ABSENTS: Final = repeat(ABSENT)

Generator: TypeAlias = np.random.Generator | np.random.RandomState | random.Random
"""A generator of random numbers, guarded by its state."""


class Guard:
    """The references that user code follows, each with its value at the time of recording."""

    __slots__ = ("_cells", "_collections", "_functions", "_mappings", "_names", "_states", "_tensors")

    def __init__(self) -> None:
        self._cells: list[Part] = []
        self._names: list[Part] = []
        self._functions: list[tuple[FunctionType, CodeType, Any, Any]] = []
        self._mappings: list[tuple[Mapping[Any, Any], Callable[..., Any], int, Any, Any, Any]] = []
        self._collections: list[tuple[Collection[Any], tuple[Any, ...]]] = []
        self._tensors: list[tuple[Tensor, int]] = []
        self._states: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = []
        """(function, arguments, result) of state that is read by a function."""

    # ---- references, each with the value that it had ----------------------------------------------------------------

    def references(self, parts: Iterable[Part]) -> None:
        """Guard those parts of an object that are variables (of enclosing functions, globals, modules) or slots."""
        for part in parts:
            role = part[0]
            if role == "cell":
                self._cells.append(part)
            elif role == "global" or role == "through module":
                self._names.append(part)
            elif role == "slot":
                self._states.append((getattr, (part[2], part[1], ABSENT), part[3]))

    def function(self, function: FunctionType, parts: Sequence[Part]) -> None:
        """Guard a function's code, defaults, attributes, and those of its parts that are variables."""
        keywords = function.__kwdefaults__
        self._functions.append((function, function.__code__, function.__defaults__, keywords))
        if keywords:
            self.mapping(keywords)
        if function.__dict__:
            self.mapping(function.__dict__)
        if parts:
            self.references(parts)

    def mapping(self, mapping: dict[Any, Any]) -> None:
        """Guard the items of a dict, or the attributes of a function or an instance."""
        get: Any = mapping.get if type(mapping) is dict else partial(_PLAIN_DICT.get, mapping)
        keys, values = list(_PLAIN_DICT.keys(mapping)), list(_PLAIN_DICT.values(mapping))
        self._mappings.append((mapping, get, len(mapping), keys, values, None))

    def members(self, owner: Any) -> None:
        """Guard the members of a class or module, but for what Python and raygrad may make in it at any time."""
        mapping = cast("dict[str, Any]", vars(owner))
        later = _MADE_LATER_IN_FUNCTIONS if isinstance(owner, FunctionMeta) else _MADE_LATER
        kept = {name: value for name, value in list(mapping.items()) if name not in later}
        self._mappings.append((mapping, mapping.get, len(mapping), list(kept), list(kept.values()), later))

    def collection(self, items: Collection[Any]) -> None:
        """Guard the items of a list, set or deque."""
        self._collections.append((items, tuple(items)))

    # ---- kinds, buffers and states ----------------------------------------------------------------------------------

    def tensor(self, tensor: Tensor) -> int:
        """Guard the kind of a tensor (a leaf that requires grad, say), not its values; return the kind."""
        kind = kind_of_capture(tensor)
        self._tensors.append((tensor, kind))
        return kind

    def array(self, array: np.ndarray[Any, Any]) -> None:
        """Guard the shape, dtype and elements of an array; of an array of objects, which objects they are."""
        read = _shape_and_objects if array.dtype.hasobject else _checksum
        self._states.append((read, (array,), read(array)))

    def generator(self, generator: Generator) -> None:
        """Guard the state of a generator of random numbers."""
        self._states.append((generator_state, (generator,), generator_state(generator)))

    def state(self, read: Callable[..., Any], given: tuple[Any, ...], now: Any) -> None:
        """Guard what a function returns for some arguments: `now`. It is called at each check, so that it must neither
        change anything nor take long."""
        self._states.append((read, given, now))

    # ---- the question -----------------------------------------------------------------------------------------------

    def holds(self) -> bool:
        """Tell whether the guarded state is unchanged."""
        for _, _, cell, value in self._cells:
            try:
                now = cell.cell_contents
            except ValueError:  # not bound any more
                return False
            if now is not value and not is_same(now, value):
                return False
        for _, name, space, value in self._names:
            now = space.get(name, ABSENT)
            if now is not value and not is_same(now, value):
                return False
        for function, code, defaults, keywords in self._functions:
            if function.__code__ is not code or function.__kwdefaults__ is not keywords:
                return False
            now = function.__defaults__
            if now is not defaults and not is_same(now, defaults):
                return False
        for mapping, get, length, keys, values, later in self._mappings:
            if not all(map(is_, map(get, keys, _ABSENTS), values)):
                if not _are_same(map(get, keys, _ABSENTS), values):
                    return False
            if len(mapping) != length and (later is None or len(mapping) - len(later & mapping.keys()) != len(keys)):
                return False
        for items, before in self._collections:
            if len(items) != len(before) or not (all(map(is_, items, before)) or _are_same(items, before)):
                return False
        for tensor, kind in self._tensors:
            if kind_of_capture(tensor) != kind:
                return False
        for read, given, before in self._states:
            if not is_same(read(*given), before):
                return False
        return True


def _are_same(now: Iterable[Any], before: Iterable[Any]) -> bool:
    return all(map(is_same, now, before))


def is_same(now: Any, before: Any) -> bool:
    """Tell whether a value is the earlier object, or an equal number, string or tuple of such: a rate that is computed
    at each step is another object each time."""
    if now is before:
        return True
    kind = cast("type[Any]", type(now))
    if kind is not type(before):
        return False
    if kind in BY_VALUE:
        return now == before
    if kind is float or kind is complex:
        return repr(now) == repr(before)  # which tells zeros apart, and not what is no number
    if kind is tuple:
        return len(now) == len(before) and (all(map(is_, now, before)) or _are_same(now, before))
    return isinstance(now, np.number | np.bool) and now.tobytes() == before.tobytes()


def is_fixed(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether an array and its bases are read-only, so that it need not be compared."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None


def _checksum(array: np.ndarray[Any, Any]) -> int:
    data = np.ascontiguousarray(array)
    return hash((array.shape, array.dtype.str, zlib.crc32(data.view(np.uint8).data if data.size else b"")))


def _shape_and_objects(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return (array.shape, *array.ravel().tolist())


def generator_state(generator: Generator) -> Any:
    """Return a snapshot of a generator's state that is cheap to compare."""
    if isinstance(generator, random.Random):
        return hash(generator.getstate())
    return frozen_state(
        generator.bit_generator.state
        if isinstance(generator, np.random.Generator)
        else generator.get_state(legacy=False)
    )


def frozen_state(state: Any) -> Any:
    """Return an immutable copy of the state of a NumPy generator."""
    if isinstance(state, dict):
        return tuple([(name, frozen_state(value)) for name, value in cast("dict[str, Any]", state).items()])
    return state.tobytes() if isinstance(state, np.ndarray) else state
