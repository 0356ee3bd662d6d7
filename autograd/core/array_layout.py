"""Memory layouts of arrays: the two that a value may have, and conversion of others to one of them (H1).

A kernel's last bits depend on the strides of its inputs. Reductions, BLAS calls and user Functions therefore see arrays
that are dense in some axis order, or zero-stride expansions of such arrays: the layouts that survive a transport.
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


def axis_order_of(array: Any) -> tuple[int, ...]:
    """Return the axes of a host or device array from outermost to innermost; those of an array that is not dense, which
    has no order to keep, as they are numbered."""
    natural = tuple(range(array.ndim))
    if array.flags.c_contiguous:
        return natural
    if array.flags.f_contiguous:
        return natural[::-1]
    by_stride = tuple(sorted(natural, key=lambda axis: -abs(array.strides[axis])))
    return by_stride if array.transpose(by_stride).flags.c_contiguous else natural


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
    """Return a view of `array` with another shape and other strides (in bytes), from its first element on.

    The view is read-only if an element appears in it twice. Its `base` is the owner of the memory, unlike that of
    NumPy's `as_strided`.

    Raises:
        ValueError: the view would reach beyond the memory of `array`.
    """
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not root.flags.forc:  # no owner has bounds to check against
        return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=not overlaps_itself(shape, strides))
    whole = root if root.flags.c_contiguous else root.T
    start = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    out: Array = np.ndarray(shape, array.dtype, whole, start, strides)
    if out.flags.writeable and (not array.flags.writeable or overlaps_itself(shape, strides)):
        out.flags.writeable = False
    return out


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Tell whether an array of this shape and these strides contains an element twice."""
    if 0 in shape:
        return False
    reach = 0
    steps = sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1)
    for stride, extent in steps:
        if stride <= reach:
            break  # the axes interleave: only counting all offsets tells
        reach += stride * (extent - 1)
    else:
        return False
    places = np.zeros((), np.int64)
    for stride, extent in steps:
        if stride == 0:
            return True
        places = np.add.outer(places, np.arange(extent) * stride)
    return np.unique(places).size < places.size
