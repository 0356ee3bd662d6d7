"""`repeat_interleave`: each element repeated in place, as often as a number says, or a vector for each of them.

Composed of `expand`, or of an index; `repeat` and `tile`, which repeat the whole, are in `layout.joining`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError, DtypeError

from ...dispatch.shape_errors import check_not_negative
from ...registry.define_op import axis_of, like_operand, space_of
from ..layout.axis_order import to_dtype
from ..layout.joining import without_sharing
from ..layout.shape import expand, reshape, unsqueeze
from ..reduction.order_statistics import searchsorted
from ..reduction.reduce import cumsum, sum
from .gathering import index_select

PUBLIC = ["repeat_interleave"]


def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Return `input` with each element (or slice along `dim`) repeated in place.

    Args:
        repeats: how often: a number, or a vector of integers with one for each element; in a session its sum is waited
            for. Without it `input` is that vector, and what is returned says from which element each of the result
            comes.
        output_size: the extent of the result along `dim`, for which nothing has to be waited then.

    Raises:
        RuntimeError: numbers that are negative, or not one for each element, or that do not make `output_size`.
        TypeError: no `repeats`, and no vector of integers alone.
    """
    if repeats is None:
        if dim is not None or input.ndim != 1 or input.dtype.kind not in "iu":
            raise DtypeError("repeat_interleave() takes an input and `repeats`, or a vector of integers alone")
        numbers = like_operand(space_of(input).arange(input.shape[0]), input)
        return repeat_interleave(numbers, input, 0, output_size=output_size)
    if dim is None:
        return repeat_interleave(reshape(input, (-1,)), repeats, 0, output_size=output_size)
    axis = axis_of(dim, input.ndim)
    shape = tuple(input.shape)
    if hasattr(repeats, "shape"):
        return _each(input, repeats, axis, output_size)
    check_not_negative("repeat_interleave", "repeats", (repeats,))
    if output_size is not None and output_size != repeats * shape[axis]:
        raise AutogradError(f"repeat_interleave: allocated size does not match required size, got {output_size}")
    wide = expand(unsqueeze(input, axis + 1), (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
    return without_sharing(reshape(wide, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])))


def _each(input: Any, repeats: Any, axis: int, output_size: int | None) -> Any:
    """Return `input` with each slice repeated as often as its element of a vector says."""
    extent = input.shape[axis]
    if repeats.ndim > 1 or repeats.dtype.kind not in "iu":
        raise AutogradError(
            f"repeat_interleave: repeats must be a vector of integers, got {repeats.dtype} of shape "
            f"{list(repeats.shape)}"
        )
    if not repeats.ndim or (repeats.shape[0] == 1 and extent != 1):
        repeats = expand(reshape(repeats, (1,)), (extent,))
    if repeats.shape[0] != extent:
        raise AutogradError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.shape[0]} and "
            f"input.size({axis}) = {extent}"
        )
    data = getattr(repeats, "_data", repeats)
    if type(data) is np.ndarray:
        if (data < 0).any():
            raise AutogradError("repeats can not be negative")
        if output_size is not None and output_size != int(data.sum()):
            raise AutogradError(f"repeat_interleave: allocated size does not match required size, got {output_size}")
    counts = to_dtype(repeats, np.int64)
    total = int(sum(counts)) if output_size is None else output_size
    numbers = like_operand(space_of(counts).arange(total), counts)
    return index_select(input, axis, searchsorted(cumsum(counts, 0), numbers, right=True))
