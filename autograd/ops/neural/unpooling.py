"""`max_unpool1d` to `max_unpool3d`: the elements that a pooling chose, put back where they stood, zeros elsewhere.

Composed of a scatter into the flattened extents; the poolings that give the indices are in `pooling`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from raygrad.errors import AutogradError, ShapeError

from ...core import dtypes
from ...registry.dtype_constraints import real_floats, takes
from ..indexing.gathering import put_along_dim
from ..layout.axis_order import zeros_as
from ..layout.shape import expand, flatten, reshape
from .pooling import each_dimension

PUBLIC = "max_unpool1d max_unpool2d max_unpool3d".split()


def _max_unpool(
    dims: int, input: Any, indices: Any, kernel: Any, stride: Any, padding: Any, size: Sequence[int] | None
) -> Any:
    name = f"max_unpool{dims}d"
    if input.ndim not in (dims + 1, dims + 2):
        raise ShapeError(f"{name}: Input to {name} should be a {dims + 1}d or {dims + 2}d tensor, got {input.ndim}d")
    if tuple(indices.shape) != tuple(input.shape):
        raise ShapeError(
            f"{name}: Expected shape of indices to be that of the input, {list(input.shape)}, but got "
            f"{list(indices.shape)}"
        )
    if indices.dtype != dtypes.int64:
        raise AutogradError(f"{name}: elements in indices should be type int64 but got: {indices.dtype}")
    window = each_dimension(kernel, dims)
    steps = window if stride is None or stride in ([], ()) else each_dimension(stride, dims)
    border = each_dimension(padding, dims)
    usual = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(input.shape[-dims:], steps, window, border, strict=True)]
    extents = usual if size is None else [int(n) for n in size][-dims:]
    for wanted, natural, step in zip(extents, usual, steps, strict=True):
        if not natural - step < wanted < natural + step and wanted != natural:
            raise ValueError(f"invalid output_size {extents}: each extent must be less than a stride away from {usual}")
    lead = tuple(input.shape[:-dims])
    count = math.prod(extents)
    zeros = zeros_as(flatten(input, -dims)[..., :1].detach()) if input.size else zeros_as(input)
    whole = expand(zeros, (*lead, count)) if input.size else reshape(zeros, (*lead, count))
    put = put_along_dim(whole, -1, flatten(indices, -dims), flatten(input, -dims))
    return reshape(put, (*lead, *extents))


@takes(real_floats)
def max_unpool1d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Return what `max_pool1d` was given, as far as its result says: zeros but for the elements that it chose.

    Args:
        indices: where these stood, as `max_pool1d(..., return_indices=True)` returns it.
        output_size: the extent, where several would do.

    Raises:
        RuntimeError: shapes that do not fit, or indices that are out of range.
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@takes(real_floats)
def max_unpool2d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Return what `max_pool2d` was given, as far as its result says; see `max_unpool1d`."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@takes(real_floats)
def max_unpool3d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Return what `max_pool3d` was given, as far as its result says; see `max_unpool1d`."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
