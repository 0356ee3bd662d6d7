"""Memory layout is part of a value (H1): the two layouts that exist, and how others become one of them.

A kernel's last bits depend on the strides of its inputs, so reductions, BLAS calls and user Functions only ever see
arrays that are dense in some axis order, or zero-stride expansions of such: what survives a transport exactly.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

Array = np.ndarray[Any, Any]


def is_array(value: object) -> TypeGuard[Array]:
    """Tell whether `value` is an array."""
    return isinstance(value, np.ndarray)


def is_plain(array: Array) -> bool:
    """Tell whether `array` is dense in some axis order, or a zero-stride expansion of such an array."""
    flags = array.flags
    if flags.c_contiguous or flags.f_contiguous:
        return True
    step = array.itemsize
    for stride, extent in sorted((s, n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1 and s != 0):
        if stride != step:
            return False
        step *= extent
    return True


def dense(array: Array) -> Array:
    """Return `array`, or a copy that is dense in its own axis order (expanded axes stay expanded)."""
    if is_plain(array):
        return array
    expanded = tuple(0 if s == 0 and n > 1 else slice(None) for s, n in zip(array.strides, array.shape, strict=True))
    if 0 not in expanded:
        return array.copy(order="K")
    inner = array[tuple(slice(0, 1) if e == 0 else e for e in expanded)]
    return np.broadcast_to(inner.copy(order="K"), array.shape)
