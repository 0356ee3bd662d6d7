"""Copies of the client's arrays: what a session was sent of memory that others may write to.

Rules of this file: when a copy that was made serves again. It does only while the memory holds the same bits, which to
compare costs a tenth of copying and sending them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from raygrad.autograd.core.recorder import Pending

from .records import Constant, LeafRecord

LOOKED_FOR_BYTES = 4_096
"""Arrays from which on it is looked whether another tensor's copy of the same memory serves."""


class Copies:
    """The copies of one session that live."""

    def __init__(self, make: Callable[[np.ndarray[Any, Any]], Constant]) -> None:
        self._make = make
        self._known: dict[Any, weakref.ref[Constant]] = {}
        """By address, shape and dtype."""

    def __len__(self) -> int:
        return len(self._known)

    def of(self, array: np.ndarray[Any, Any]) -> Constant:
        """Return what nodes read that read an array as it is now: also what others read of the same memory, while that
        lives and the memory has not changed."""
        if array.nbytes < LOOKED_FOR_BYTES or not array.flags.c_contiguous:
            return self._make(array.copy(order="K"))
        key = (array.__array_interface__["data"][0], array.shape, array.dtype.str)
        held = self._known.get(key)
        earlier = None if held is None else held()
        if earlier is not None and is_still(earlier.value, array):
            return earlier
        made = self._make(array.copy())
        known = self._known

        def forget(gone: weakref.ref[Constant]) -> None:
            if known.get(key) is gone:
                del known[key]

        known[key] = weakref.ref(made, forget)
        return made


def value_of_leaf(pending: Pending) -> np.ndarray[Any, Any]:
    """Return the array that a leaf's pending value stands for."""
    return cast(LeafRecord, pending.record).constant.value


def is_still(copy: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> bool:
    """Tell whether an array is as it was when it was copied, bit for bit; False, too, where its elements do not lie one
    after the other."""
    if copy.shape != array.shape or copy.dtype != array.dtype:
        return False
    if not (copy.flags.c_contiguous and array.flags.c_contiguous):
        return False
    return np.array_equal(copy.reshape(-1).view(np.uint8), array.reshape(-1).view(np.uint8))


def is_owned_elsewhere(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether nobody can write to this array: no copy is needed to keep it."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None
