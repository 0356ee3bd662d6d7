"""The memory layout of an array, which is part of its value (H1): axis order and expanded axes, and conversions.

Specs name layouts; the value codec writes arrays in them. A layout is (order, expanded): the axes from outermost to
innermost, and the axes that repeat one element by a stride of zero. An array that is not dense in some axis order, nor
an expansion of such an array, does not cross a process.

An axis of extent 1, and every axis of an empty array, has no stride that matters. Such axes are placed by one rule, so
that arrays whose elements lie alike have the same layout. An expanded axis has extent 1 in the array beneath it, and is
placed by the same rule."""

from __future__ import annotations

from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from raygrad.errors import ProtocolError

Array: TypeAlias = NDArray[Any]
Layout: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]

MAX_DIMS: Final = 64
"""NumPy's own limit."""

C_LAYOUTS: Final[tuple[Layout, ...]] = tuple((tuple(range(ndim)), ()) for ndim in range(MAX_DIMS + 1))
"""The layout of a C-contiguous array, by its number of axes."""


def layout_of(array: Array) -> Layout | None:
    """Return (axes from outermost to innermost, expanded axes), or None for an array that is neither dense in some
    axis order nor an expansion of one: a slice with gaps, a negative stride, windows that overlap."""
    if array.flags.c_contiguous:
        return C_LAYOUTS[array.ndim]
    shape, strides = array.shape, array.strides
    laid = sorted([(stride, -axis) for axis, stride in enumerate(strides) if stride and shape[axis] > 1])
    step = array.itemsize
    for stride, axis in laid:
        if stride != step:
            return None
        step *= shape[-axis]
    expanded = tuple([axis for axis, stride in enumerate(strides) if not stride and shape[axis] > 1])
    return _order([-axis for _, axis in reversed(laid)], array.ndim), expanded


def _order(laid: list[int], ndim: int) -> tuple[int, ...]:
    """Return all axes in order, given those with a stride: each other axis goes just outside the next one that has."""
    if len(laid) == ndim:
        return tuple(laid)
    before: dict[int, list[int]] = {}
    waiting: list[int] = []
    strided = set(laid)
    for axis in range(ndim):
        if axis in strided:
            before[axis], waiting = waiting, []
        else:
            waiting.append(axis)
    order: list[int] = []
    for axis in laid:
        order += before[axis]
        order.append(axis)
    return (*order, *waiting)


def dense(array: Array) -> Array:
    """Return `array` if it has a layout that travels, else a copy that is dense in its own axis order.

    Expanded axes of the copy stay expanded; such a copy is read-only.
    """
    return array if layout_of(array) is not None else copy_as_laid(array)


def copy_as_laid(array: Array) -> Array:
    """Return a copy that is dense in the array's own axis order, in memory of its own; expanded axes stay expanded,
    and such a copy is read-only."""
    inner = _unexpanded(array)
    return array.copy(order="K") if inner is array else np.broadcast_to(inner.copy(order="K"), array.shape)


def _unexpanded(array: Array) -> Array:
    """Return the view that has extent 1 on each expanded axis; `array` itself if there is none."""
    expanded = [not stride and extent > 1 for stride, extent in zip(array.strides, array.shape, strict=True)]
    if not any(expanded):
        return array
    return array[tuple([slice(0, 1) if e else slice(None) for e in expanded])]


def take_apart(array: Array) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
    """Return (base, order, expanded): a C-contiguous array and the layout that `rebuild` lays over it.

    The base shares memory with `array` unless `array` had to be made dense.
    """
    if array.flags.c_contiguous:
        return array, *C_LAYOUTS[array.ndim]
    layout = layout_of(array)
    if layout is None:
        array = dense(array)
        layout = layout_of(array)
        assert layout is not None, "a dense copy has a layout"
    order, expanded = layout
    return _unexpanded(array).transpose(order), order, expanded


def rebuild(base: Array, shape: tuple[int, ...], order: tuple[int, ...], expanded: tuple[int, ...]) -> Array:
    """Return a read-only array over the memory of `base`, of the given shape and layout.

    `base` is C-contiguous, of any shape with the right number of elements.

    Raises:
        ProtocolError: the layout is none for this shape, or `base` has another number of elements.
    """
    check_layout(shape, order, expanded)
    if base.size != elements(shape, expanded):
        raise ProtocolError(f"an array of shape {shape}, expanded on {expanded}, does not hold {base.size} elements")
    if not expanded and order == C_LAYOUTS[len(shape)][0]:
        array = base.reshape(shape)
    else:
        array = np.ndarray(shape, base.dtype, base, 0, strides_of(shape, order, expanded, base.itemsize))
    array.flags.writeable = False
    return array


def elements(shape: tuple[int, ...], expanded: tuple[int, ...]) -> int:
    """Return how many elements lie in memory."""
    if expanded:
        shape = tuple([1 if axis in expanded else extent for axis, extent in enumerate(shape)])
    return prod(shape)


def strides_of(
    shape: tuple[int, ...], order: tuple[int, ...], expanded: tuple[int, ...], itemsize: int
) -> tuple[int, ...]:
    """Return the strides in bytes of an array of this shape and layout."""
    strides = [0] * len(shape)
    step = itemsize
    for axis in reversed(order):
        if axis not in expanded:
            strides[axis] = step
            step *= shape[axis]
    return tuple(strides)


def check_layout(shape: tuple[int, ...], order: tuple[int, ...], expanded: tuple[int, ...]) -> None:
    """Check that a layout fits a shape.

    Raises:
        ProtocolError: the order does not name each axis once, or an expanded axis is out of order or range.
    """
    ndim = len(shape)
    if ndim > MAX_DIMS:
        raise ProtocolError(f"an array of {ndim} axes; NumPy has at most {MAX_DIMS}")
    if order != C_LAYOUTS[ndim][0] and tuple(sorted(order)) != C_LAYOUTS[ndim][0]:
        raise ProtocolError(f"the axis order {order} does not name each of {ndim} axes once")
    if expanded and not (expanded == tuple(sorted(set(expanded))) and 0 <= expanded[0] and expanded[-1] < ndim):
        raise ProtocolError(f"the expanded axes {expanded} are not increasing axes of an array of {ndim} axes")
