"""Snapshot cache: copies of the client's arrays whose memory others may write to.

The input recorder asks it before it copies. A copy serves again only while the memory holds the same bits; comparing
costs a tenth of copying and sending. Arrays to which nobody can write are not copied.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from raygrad.autograd.core.recorder import Pending
from raygrad.proto.ir.array_layout import copy_as_laid
from raygrad.workers.code.guard import is_fixed

from .records import Constant, NodeRecord

MIN_SHARED_BYTES = 4_096
"""Size of arrays from which a copy is shared between tensors of the same memory."""


class SnapshotCache:
    """The live copies of one session."""

    def __init__(self, make: Callable[[np.ndarray[Any, Any]], Constant]) -> None:
        self._make = make
        self._snapshots: dict[Any, weakref.ref[Constant]] = {}
        """By address, shape and dtype."""

    def __len__(self) -> int:
        return len(self._snapshots)

    def of(self, array: np.ndarray[Any, Any]) -> Constant:
        """Return the constant for an array as it is now: the live one of the same memory while that is unchanged, else
        a new one."""
        fixed = is_fixed(array)
        if array.nbytes < MIN_SHARED_BYTES or not array.flags.c_contiguous:
            return self._make(array if fixed else copy_as_laid(array))
        key = (array.__array_interface__["data"][0], array.shape, array.dtype.str)
        held = self._snapshots.get(key)
        earlier = None if held is None else held()
        if earlier is not None and (earlier.value is array or is_still(earlier.value, array)):
            return earlier
        made = self._make(array if fixed else array.copy())
        snapshots = self._snapshots

        def forget(gone: weakref.ref[Constant]) -> None:
            if snapshots.get(key) is gone:
                del snapshots[key]

        snapshots[key] = weakref.ref(made, forget)
        return made


def value_of_leaf(pending: Pending) -> np.ndarray[Any, Any]:
    """Return the array that a leaf's pending value stands for, or a value that was brought home to the client's
    memory."""
    record: Any = pending.record
    return cast("Any", record).values[pending.index] if type(record) is NodeRecord else record.constant.value


def is_still(copy: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> bool:
    """Tell whether an array is as it was when it was copied, bit for bit; False, too, where its elements do not lie one
    after the other."""
    if copy.shape != array.shape or copy.dtype != array.dtype:
        return False
    if not (copy.flags.c_contiguous and array.flags.c_contiguous):
        return False
    return np.array_equal(copy.reshape(-1).view(np.uint8), array.reshape(-1).view(np.uint8))
