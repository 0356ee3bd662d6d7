"""`interpolate`: resampling of images, as fixed linear maps along single dimensions; and averages over parts for
adaptive pooling.

Composed of `matmul` and `index_select`, whose derivatives serve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...registry.define_op import contiguous, like_operand, space_of
from ...registry.dtype_constraints import only, real_floats
from ..indexing.gathering import index_select
from ..layout.shape import movedim
from ..linalg.matmul import matmul

PUBLIC = ["interpolate"]


def apply_matrix(input: Any, matrix: Any, axis: int) -> Any:
    """Return `input` with the vectors along an axis multiplied by a constant matrix of (new, old) elements on its
    device."""
    weights = like_operand(contiguous(matrix.T).astype(input.dtype), input)
    return movedim(matmul(movedim(input, axis, -1), weights), -1, axis)


def partition_bounds(extent: int, count: int) -> list[tuple[int, int]]:
    """Return the starts and ends of `count` parts of nearly equal size."""
    return [(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]


def averaging_matrix(extent: int, count: int, xp: Any) -> Any:
    """Return the matrix whose rows average the parts of `partition_bounds`, made with an array namespace."""
    out = xp.zeros((count, extent))
    for row, (start, stop) in enumerate(partition_bounds(extent, count)):
        out[row, start:stop] = 1 / (stop - start)
    return out


# ---- resampling ------------------------------------------------------------------------------------------------------

_DIMS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_nearest_of = only("fu")
_MODES = ("nearest", "nearest-exact", "area", *_DIMS)


def _sources(extent: int, count: int, scale: float, corners: bool, xp: Any) -> Any:
    """Return the source position of each new element."""
    new = xp.arange(count)
    if corners:
        return new * ((extent - 1) / (count - 1) if count > 1 else 0.0)
    return (new + 0.5) * scale - 0.5


def _linear(extent: int, count: int, scale: float, corners: bool, xp: Any) -> Any:
    at = np.maximum(_sources(extent, count, scale, corners, xp), 0.0)
    low = np.minimum(at.astype(np.int64), extent - 1)
    high = np.minimum(low + 1, extent - 1)
    weight = np.minimum(at - low, 1.0)
    out = xp.zeros((count, extent))
    xp.add.at(out, (xp.arange(count), low), 1 - weight)
    xp.add.at(out, (xp.arange(count), high), weight)
    return out


def _cubic(extent: int, count: int, scale: float, corners: bool, xp: Any) -> Any:
    at = _sources(extent, count, scale, corners, xp)
    below = np.floor(at).astype(np.int64)
    out = xp.zeros((count, extent))
    slope = -0.75
    for offset in (-1, 0, 1, 2):
        far: Any = np.abs(at - below - offset)
        inner = ((slope + 2) * far - (slope + 3)) * far * far + 1
        outer = ((slope * far - 5 * slope) * far + 8 * slope) * far - 4 * slope
        xp.add.at(out, (xp.arange(count), np.clip(below + offset, 0, extent - 1)), xp.where(far <= 1, inner, outer))
    return out


def interpolate(
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Any:
    """Return `input` (batch, channels, then the dimensions to resample) at another size.

    Args:
        size, scale_factor: one of them: the new extents, or how many times the old ones.
        mode: "nearest", "nearest-exact", "area", or by the number of dimensions "linear", "bilinear" or "bicubic",
            "trilinear".
        align_corners: whether the outer elements stay where they are; for the linear and cubic modes.
        recompute_scale_factor: take for the scale what the sizes give, not what was given.

    Raises:
        ValueError: both or neither of `size` and `scale_factor`, or an argument that the mode does not take.
        NotImplementedError: a mode for another number of dimensions.
    """
    (_nearest_of if mode == "nearest" else real_floats)("interpolate", (input,), input.dtype)
    dims = input.ndim - 2
    for argument, asked in (("size", size), ("scale_factor", scale_factor)):
        if isinstance(asked, list | tuple) and len(asked) != dims:
            raise ValueError(
                f"interpolate: Input and output must have the same number of spatial dimensions, but got input with "
                f"{list(input.shape[2:])} and {argument} {list(asked)}"
            )
    if dims < 1:
        raise ShapeError(f"interpolate: expected a batch and channels before the dimensions, got {list(input.shape)}")
    if mode not in _MODES or _DIMS.get(mode, dims) != dims:
        raise NotImplementedError(f"mode {mode!r} is not there for {dims} dimensions; known: {', '.join(_MODES)}")
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined, and one has to be")
    if align_corners is not None and mode not in _DIMS:
        raise ValueError("align_corners option can only be set with the interpolating modes: " + ", ".join(_DIMS))
    extents = input.shape[2:]
    scales: list[float | None] = [None] * dims
    if scale_factor is not None:
        given = [scale_factor] * dims if isinstance(scale_factor, int | float) else list(scale_factor)
        sizes = [math.floor(n * s) for n, s in zip(extents, given, strict=True)]
        if not recompute_scale_factor:
            scales = [1 / s for s in given]
    else:
        assert size is not None
        sizes = [size] * dims if isinstance(size, int) else [int(n) for n in size]
    if min(sizes) < 1 or 0 in extents:
        raise AutogradError(
            f"interpolate: Input and output sizes should be greater than 0, but got {list(extents)} and {sizes}"
        )
    for axis, (extent, count, scale) in enumerate(zip(extents, sizes, scales, strict=True), 2):
        ratio = extent / count if scale is None else scale
        if mode in ("nearest", "nearest-exact"):
            half = 0.5 if mode == "nearest-exact" else 0.0
            places = np.minimum(np.floor((space_of(input).arange(count) + half) * ratio).astype(np.int64), extent - 1)
            input = index_select(input, axis, like_operand(places, input))
        elif mode == "area":
            input = apply_matrix(input, averaging_matrix(extent, count, space_of(input)), axis)
        else:
            of = _cubic if mode == "bicubic" else _linear
            input = apply_matrix(input, of(extent, count, ratio, bool(align_corners), space_of(input)), axis)
    return input
