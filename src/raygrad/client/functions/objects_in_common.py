"""Arguments that hold an object in common, such as a list: they travel as one, so that it is one for forward, too.

An argument that is itself given twice needs nothing of that: both read one constant.
"""

from __future__ import annotations

import array
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from raygrad.autograd.tensor.tensor import Tensor
from raygrad.workers.code.importable import import_name
from raygrad.workers.code.visitor import PLAIN, reachable

_CONTAINERS: Final = (list, dict, set, bytearray, deque, array.array, SimpleNamespace)
"""What a copy of an argument has a copy of. Sentinels, functions and their kind stay themselves anyway."""

HOLD_NOTHING: Final = frozenset((*PLAIN, Tensor, np.ndarray, np.dtype))
"""Types of arguments that hold no objects."""

Place = int | str


def arguments_together(args: Sequence[Any], named: dict[str, Any]) -> dict[Place, int]:
    """Return the places of the arguments that hold a container in common with another one, each with its number among
    them; none of an argument that is an earlier one."""
    given: dict[int, tuple[Place, Any]] = {}
    for place, arg in (*enumerate(args), *named.items()):
        if type(arg) not in HOLD_NOTHING:
            given.setdefault(id(arg), (place, arg))
    if len(given) < 2:
        return {}
    holders: dict[int, list[Place]] = {}
    for place, arg in given.values():
        for one in filter(_is_container, reachable(arg, _may_hold, omit="class")):
            holders.setdefault(id(one), []).append(place)
    shared = {place for places in holders.values() if len(places) > 1 for place in places}
    return {place: number for number, place in enumerate([p for p, _ in given.values() if p in shared])}


def _is_container(value: object) -> bool:
    return isinstance(value, _CONTAINERS)


def _may_hold(value: Any) -> bool:
    return type(value) not in HOLD_NOTHING and import_name(value) is None
