"""Values that hold an object in common, such as a list: they travel as one, so that it is one on the other side, too.

They are the arguments of one call, or the attributes of one context.
"""

from __future__ import annotations

import array
from collections import deque
from collections.abc import Mapping
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final, TypeVar

import numpy as np

from raygrad.autograd.tensor.tensor import Tensor

from .importable import import_name
from .visitor import PLAIN, reachable

_CONTAINERS: Final = (list, dict, set, bytearray, deque, array.array, np.ndarray, SimpleNamespace)
"""What a copy of a value has a copy of. Sentinels, functions and their kind stay themselves anyway."""

_HOLD_NOTHING: Final = frozenset((*PLAIN, Tensor, np.dtype, ModuleType))
"""Types of values that neither are nor hold such objects."""

_CODE: Final = (FunctionType, MethodType, type)

SOLE: Final = _HOLD_NOTHING | {np.ndarray}
"""Types of values that hold nothing in common with each other, unless they are one."""

Place = TypeVar("Place")


def sharing(values: Mapping[Place, Any]) -> list[Place]:
    """Return the places of the values that are or hold a container which another one is or holds, in order."""
    holding = {place: value for place, value in values.items() if type(value) not in _HOLD_NOTHING}
    if len(holding) < 2:
        return []
    holders: dict[int, list[Place]] = {}
    for place, value in holding.items():
        for one in filter(_is_container, reachable(value, _may_hold, omit="class")):
            holders.setdefault(id(one), []).append(place)
    shared = {place for places in holders.values() if len(places) > 1 for place in places}
    return [place for place in holding if place in shared]


def _is_container(value: object) -> bool:
    return isinstance(value, _CONTAINERS)


def _may_hold(value: Any) -> bool:
    """Tell whether to look into a value: not into code, which stays itself, and what it captures with it."""
    return type(value) not in _HOLD_NOTHING and not isinstance(value, _CODE) and import_name(value) is None
