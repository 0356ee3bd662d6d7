"""Sliding windows over dimensions, and their adjoint, the sum of overlapping windows: the ops beneath pooling and
unfolding.

The elements of a window get dimensions of their own, at the end. Each of the two ops is the derivative of the other.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...core.array_layout import strided_view
from ...dispatch.dispatch import call
from ...registry.define_op import Op, Shape, axis_of, define, infer_same, infer_shaped, space_of
from ...storage.view_geometry import WRITTEN_TWICE
from .shape import reshape


def extent_of(size: int, window: int, step: int, spread: int) -> int:
    """Return the number of windows of `window` elements, `spread` apart, at steps of `step`."""
    return (size - spread * (window - 1) - 1) // step + 1


def strided(a: Any, axes: Shape, sizes: Shape, steps: Shape, spreads: Shape) -> Any:
    """Return the windows of an array as a read-only view."""
    shape, strides = list(a.shape), list(a.strides)
    for axis, size, step, spread in zip(axes, sizes, steps, spreads, strict=True):
        shape.append(size)
        strides.append(strides[axis] * spread)
        shape[axis] = extent_of(a.shape[axis], size, step, spread)
        strides[axis] *= step
    if type(a) is not np.ndarray:
        return space_of(a).lib.stride_tricks.as_strided(a, shape, strides)
    return np.lib.stride_tricks.as_strided(a, shape, strides, writeable=False)


def _windows_infer(params: tuple[Any, ...], a: Any) -> Any:
    axes, sizes, steps, spreads = params
    shape = list(a.shape)
    for axis, size, step, spread in zip(axes, sizes, steps, spreads, strict=True):
        shape[axis] = extent_of(a.shape[axis], size, step, spread)
    return (*shape, *sizes), a.dtype


def _together(g: Any, axes: Shape, sizes: Shape, steps: Shape, spreads: Shape, shape: Shape) -> Any:
    """Add each element of each window to its source."""
    out = space_of(g).zeros(shape, g.dtype)
    outer = len(shape)
    for place in np.ndindex(sizes):
        region: list[Any] = [slice(None)] * outer
        for axis, offset, step, spread in zip(axes, place, steps, spreads, strict=True):
            start = offset * spread
            region[axis] = slice(start, start + step * (g.shape[axis] - 1) + 1, step)
        out[tuple(region)] += g[(*[slice(None)] * outer, *place)]
    return out


_WINDOWS: Op = define(
    "windows",
    ("a",),
    lambda a, axes, sizes, steps, spreads: strided(a, axes, sizes, steps, spreads).copy(order="C"),
    _windows_infer,
    lambda ctx, g: call(_TOGETHER, (g,), (*ctx.params, tuple(ctx.inputs[0][0]))),
    saves="none",
)
_TOGETHER = define(
    "windows_together",
    ("g",),
    _together,
    infer_shaped(4),
    lambda ctx, g: call(_WINDOWS, (g,), ctx.params[:4]),
    saves="none",
)


def windows(input: Any, axes: Sequence[int], sizes: Sequence[int], steps: Sequence[int], spreads: Sequence[int]) -> Any:
    """Return the windows of `input` along `axes`; the elements of a window get new dimensions at the end.

    Raises:
        RuntimeError: a window is larger than its dimension.
    """
    for axis, size, spread in zip(axes, sizes, spreads, strict=True):
        if spread * (size - 1) + 1 > input.shape[axis]:
            raise AutogradError(
                f"a window of {size} elements, {spread} apart, does not fit in dimension {axis} of size "
                f"{input.shape[axis]}"
            )
    return call(_WINDOWS, (input,), (tuple(axes), tuple(sizes), tuple(steps), tuple(spreads)))


def windows_together(
    input: Any, axes: Sequence[int], steps: Sequence[int], spreads: Sequence[int], shape: Sequence[int]
) -> Any:
    """Return a tensor of `shape` with the elements of windows added at their sources: the adjoint of `windows`."""
    sizes = tuple(input.shape[len(shape) :])
    return call(_TOGETHER, (input,), (tuple(axes), sizes, tuple(steps), tuple(spreads), tuple(shape)))


# ---- windows as a view -----------------------------------------------------------------------------------------------


def _unfold(a: Any, axis: int, size: int, step: int) -> Any:
    shape = _unfold_infer((axis, size, step), a)[0]
    strides = [*a.strides, a.strides[axis]]
    strides[axis] *= step
    if type(a) is not np.ndarray:
        return space_of(a).lib.stride_tricks.as_strided(a, shape, strides)
    return strided_view(a, shape, tuple(strides))


def _unfold_infer(params: tuple[Any, ...], a: Any) -> Any:
    axis, size, step = params
    return (*a.shape[:axis], extent_of(a.shape[axis], size, step, 1), *a.shape[axis + 1 :], size), a.dtype


def _unfold_backward(ctx: Any, g: Any) -> Any:
    axis, _, step = ctx.params
    return windows_together(g, (axis,), (step,), (1,), ctx.inputs[0][0])


def _put_windows(a: Any, value: Any, axis: int, size: int, step: int) -> Any:
    out = a.copy(order="K")
    _unfold(out, axis, size, step)[...] = value
    return out


def _put_windows_backward(ctx: Any, g: Any) -> Any:
    need_a, need_value = ctx.needs_input_grad
    return (
        call(_PUT_WINDOWS, (g, 0), ctx.params) if need_a else None,
        call(_UNFOLD, (g,), ctx.params) if need_value else None,
    )


_UNFOLD = define("unfold", ("a",), _unfold, _unfold_infer, _unfold_backward, saves="none", view=True)
_PUT_WINDOWS: Op = define("put_windows", ("a", "value"), _put_windows, infer_same, _put_windows_backward, saves="none")


def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """Return a view of the windows of `size` elements along a dimension, each `step` further on, as a last dimension.

    Raises:
        RuntimeError: a window is larger than the dimension, or there is no step.
    """
    axis = axis_of(dimension, input.ndim)
    extent = input.shape[axis] if input.ndim else 1
    if size < 0:
        raise AutogradError(f"size is {size} but must be >= 0")
    if size > extent:
        raise AutogradError(f"maximum size for tensor at dimension {dimension} is {extent} but size is {size}")
    if step <= 0:
        raise AutogradError(f"step is {step} but must be > 0")
    if not input.ndim:
        return reshape(input, (1,))[:size]
    return call(_UNFOLD, (input,), (axis, operator.index(size), operator.index(step)))


def put_windows(input: Any, value: Any, axis: int, size: int, step: int) -> Any:
    """Return a copy of `input` with `value` in the windows that `unfold` shows.

    Raises:
        RuntimeError: they overlap.
    """
    if size > step and extent_of(input.shape[axis], size, step, 1) > 1:
        raise AutogradError(WRITTEN_TWICE)
    return call(_PUT_WINDOWS, (input, value), (axis, size, step))
