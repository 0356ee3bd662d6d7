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


def is_dense_or_expanded(array: Array) -> bool:
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


def as_dense(array: Array) -> Array:
    """Return `array`, or a copy that is dense in its own axis order (expanded axes stay expanded)."""
    if is_dense_or_expanded(array):
        return array
    expanded = tuple(0 if s == 0 and n > 1 else slice(None) for s, n in zip(array.strides, array.shape, strict=True))
    if 0 not in expanded:
        return array.copy(order="K")
    inner = array[tuple(slice(0, 1) if e == 0 else e for e in expanded)]
    return np.broadcast_to(inner.copy(order="K"), array.shape)


def strided_view(array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Return a view with other strides (in bytes) from the first element of `array` on, read-only if it shows an
    element twice. NumPy's own function for it gives a view that does not tell whose memory it is of.

    Raises:
        ValueError: it would reach beyond the memory that `array` is of.
    """
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not root.flags.forc:  # it is of no array's memory that could be asked for its bounds
        return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=not overlaps_itself(shape, strides))
    whole = root if root.flags.c_contiguous else root.T
    start = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    out: Array = np.ndarray(shape, array.dtype, whole, start, strides)
    if out.flags.writeable and (not array.flags.writeable or overlaps_itself(shape, strides)):
        out.flags.writeable = False
    return out


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Tell whether what has these strides shows an element at two places."""
    if 0 in shape:
        return False
    reach = 0
    steps = sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1)
    for stride, extent in steps:
        if stride <= reach:
            break  # not one inside the other: they may still miss each other
        reach += stride * (extent - 1)
    else:
        return False
    places = np.zeros((), np.int64)
    for stride, extent in steps:
        if stride == 0:
            return True
        places = np.add.outer(places, np.arange(extent) * stride)
    return np.unique(places).size < places.size
