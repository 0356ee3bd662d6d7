"""`embedding_bag`: sums, means or greatest elements of the rows of a matrix that bags of indices name.

Composed of indexing and scatters; `embedding`, one row for each index, is in `embedding`.
"""

from __future__ import annotations

from typing import Any

from raygrad.errors import AutogradError

from ...core import dtypes
from ...registry.define_op import like_operand, space_of
from ...registry.dtype_constraints import real_floats
from ..elementwise.arithmetic import clamp_min
from ..elementwise.where import keep, where
from ..indexing.gathering import index_add
from ..indexing.indexing import getitem
from ..indexing.selecting import scatter_reduce
from ..layout.axis_order import to_dtype, zeros_as
from ..layout.joining import narrow
from ..layout.shape import expand, reshape, unsqueeze
from ..reduction.order_statistics import searchsorted

PUBLIC = ["embedding_bag"]


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Return for each bag of indices the mean (or the sum, or the greatest) of the rows of `weight` that they name.

    Args:
        input: indices: bags of one size (bags, size), or a vector of all.
        offsets: where in the vector each bag begins.
        max_norm, norm_type, scale_grad_by_freq, sparse: not served: they have to be as by default.
        mode: "mean", "sum" or "max"; an empty bag gives zeros.
        per_sample_weights: a factor for each index, with "sum".
        include_last_offset: the last of the offsets is where the last bag ends.
        padding_idx: an index that does not count, and whose row gets no gradient.

    Raises:
        ValueError: shapes or arguments that do not fit, another mode, or an argument that is not served.
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError(
            "embedding_bag: max_norm, scale_grad_by_freq and sparse are not served: scale rows, or gradients, yourself"
        )
    real_floats("embedding_bag", (), weight.dtype)
    if mode not in ("mean", "sum", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag: per_sample_weights was not None. It is for mode='sum', got '{mode}'"
            )
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(
                f"embedding_bag: expected per_sample_weights of the shape of input, {list(input.shape)}, got "
                f"{list(per_sample_weights.shape)}"
            )
    count, bags = _bags(input, offsets, include_last_offset)
    indices = reshape(input, (-1,))
    rows = getitem(weight, indices)
    if per_sample_weights is not None:
        rows = rows * unsqueeze(reshape(per_sample_weights, (-1,)), 1)
    valid = None
    if padding_idx is not None:
        number = padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx
        valid = unsqueeze(indices != number, 1)
        rows = keep(rows, valid)
    ones = zeros_as(rows[:, :1].detach() if hasattr(rows, "detach") else rows[:, :1]) + 1
    ones = ones if valid is None else keep(ones, valid)
    empty = like_operand(space_of(weight).zeros((count, weight.shape[1]), weight.dtype), weight)
    sizes = index_add(empty[:, :1], 0, bags, ones)
    if mode == "max":
        if valid is not None:
            rows = where(valid, rows, -float("inf"))
        places = expand(unsqueeze(bags, 1), tuple(rows.shape))
        return keep(scatter_reduce(empty, 0, places, rows, "amax", include_self=False), sizes > 0)
    total = index_add(empty, 0, bags, rows)
    return total if mode == "sum" else total / clamp_min(sizes, 1)


def _bags(input: Any, offsets: Any, include_last: bool) -> tuple[int, Any]:
    """Return the number of bags, and the bag of each index."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None: all bags are of one size")
        numbers = space_of(input).arange(input.shape[0]).repeat(input.shape[1])
        return input.shape[0], like_operand(numbers, input)
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if include_last and not offsets.shape[0]:
        raise AutogradError("include_last_offset: number of offset should be at least 1")
    starts = narrow(offsets, 0, 0, offsets.shape[0] - 1) if include_last else offsets
    numbers = like_operand(space_of(input).arange(input.shape[0]), input)
    return starts.shape[0], searchsorted(to_dtype(starts, dtypes.int64), numbers, right=True) - 1
