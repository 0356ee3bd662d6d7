"""Windows that slide over dimensions, and the sum of windows back into place: what pooling, unfolding and their kin are
made of.

Rules of this file: a window's elements get dimensions of their own, at the end; what one op takes apart the other puts
together, and each is the derivative of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ..dispatch import call
from .define import Shape, axis_of, define, space_of


def extent_of(size: int, window: int, step: int, spread: int) -> int:
    """Return how many windows fit: of `window` elements, `spread` apart, each `step` further on."""
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


def _windows(a: Any, axes: Shape, sizes: Shape, steps: Shape, spreads: Shape) -> Any:
    return strided(a, axes, sizes, steps, spreads).copy(order="C")


def _windows_infer(params: tuple[Any, ...], a: Any) -> Any:
    axes, sizes, steps, spreads = params
    shape = list(a.shape)
    for axis, size, step, spread in zip(axes, sizes, steps, spreads, strict=True):
        shape[axis] = extent_of(a.shape[axis], size, step, spread)
    return (*shape, *sizes), a.dtype


def _together(g: Any, axes: Shape, sizes: Shape, steps: Shape, spreads: Shape, shape: Shape) -> Any:
    """Add each element of each window to where it was taken from."""
    out = space_of(g).zeros(shape, g.dtype)
    outer = len(shape)
    for place in np.ndindex(sizes):
        region: list[Any] = [slice(None)] * outer
        for axis, offset, step, spread in zip(axes, place, steps, spreads, strict=True):
            start = offset * spread
            region[axis] = slice(start, start + step * (g.shape[axis] - 1) + 1, step)
        out[tuple(region)] += g[(*[slice(None)] * outer, *place)]
    return out


def _together_infer(params: tuple[Any, ...], g: Any) -> Any:
    return params[4], g.dtype


def _windows_backward(ctx: Any, g: Any) -> Any:
    return call(_TOGETHER, (g,), (*ctx.params, tuple(ctx.inputs[0][0])))


_WINDOWS = define(
    "windows",
    ("a",),
    _windows,
    _windows_infer,
    _windows_backward,
    saves="none",
)
_TOGETHER = define(
    "windows_together",
    ("g",),
    _together,
    _together_infer,
    lambda ctx, g: call(_WINDOWS, (g,), ctx.params[:4]),
    saves="none",
)


def windows(input: Any, axes: Sequence[int], sizes: Sequence[int], steps: Sequence[int], spreads: Sequence[int]) -> Any:
    """Return the windows of `input` along `axes`, whose elements stand in new dimensions at the end.

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
    """Return a tensor of `shape` in which the elements of windows are added where `windows` would take them."""
    sizes = tuple(input.shape[len(shape) :])
    return call(_TOGETHER, (input,), (tuple(axes), sizes, tuple(steps), tuple(spreads), tuple(shape)))


def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """Return the windows of `size` elements along a dimension, each `step` further on: unlike PyTorch's, a copy."""
    axis = axis_of(dimension, input.ndim)
    if step <= 0:
        raise AutogradError(f"step is {step} but must be > 0")
    if not input.ndim:
        return input.reshape((1,))[:size]
    return windows(input, (axis,), (size,), (step,), (1,))
