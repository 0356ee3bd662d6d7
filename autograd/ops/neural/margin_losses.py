"""Losses of margins between classes, and distances of all pairs: multi_margin_loss, multilabel_margin_loss, pdist,
triplet_margin_with_distance_loss.

Composed of other ops; the losses of two tensors by a formula are in `distances`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raygrad.errors import AutogradError, ShapeError

from ...core import dtypes
from ...registry.define_op import like_operand, space_of
from ...registry.dtype_constraints import real_floats, takes
from ..elementwise.arithmetic import clamp_min, minimum, mul, sub
from ..elementwise.where import keep
from ..indexing.gathering import gather, index_select, scatter_zeros
from ..layout.axis_order import to_dtype
from ..layout.shape import reshape, unsqueeze
from ..linalg.cdist import cdist
from ..reduction.reduce import cumsum, sum
from .distances import pairwise_distance
from .losses import check_reduction, reduced

PUBLIC = "multi_margin_loss multilabel_margin_loss pdist triplet_margin_with_distance_loss".split()


@takes(real_floats)
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Any:
    """Return what the scores of the wrong classes lack to be `margin` below that of the right one, to the power `p`,
    summed over the classes and divided by their number.

    Args:
        input: scores (batch, classes), or of one example (classes).
        target: the right classes.
        p: 1 or 2.
        weight: a factor for each right class.

    Raises:
        ValueError: another `p`, or shapes that do not fit.
    """
    check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    single = input.ndim < 2
    scores, right = reshape(input, (1, -1)) if single else input, reshape(target, (-1, 1))
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if right.shape[0] != scores.shape[0]:
        raise AutogradError(
            f"multi_margin_loss: inconsistent shapes: input {list(input.shape)}, target {list(target.shape)}"
        )
    lacks = clamp_min(sub(scores, gather(scores, 1, right)) + margin, 0)
    lacks = lacks if p == 1 else mul(lacks, lacks)
    if weight is not None:
        lacks = mul(lacks, unsqueeze(index_select(weight, 0, reshape(right, (-1,))), 1))
    numbers = like_operand(space_of(right).arange(scores.shape[1]), right)
    losses = sum(keep(lacks, right != numbers), 1) / scores.shape[1]
    return reduced(reshape(losses, ()) if single else losses, reduction)


@takes(real_floats)
def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return what the scores of the wrong classes lack to be 1 below those of the right ones, summed over all pairs and
    divided by the number of classes.

    Args:
        input: scores (batch, classes), or of one example (classes).
        target: in each row the right classes, up to the first -1.

    Raises:
        ShapeError: shapes that differ.
    """
    check_reduction(reduction)
    if input.ndim and not input.shape[-1]:
        raise ShapeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    if tuple(input.shape) != tuple(target.shape) or input.ndim > 2:
        raise ShapeError(
            f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input of size: "
            f"{list(input.shape)}"
        )
    single = input.ndim < 2
    scores, named = (reshape(one, (1, -1)) if single else one for one in (input, target))
    valid = cumsum(to_dtype(named < 0, dtypes.int64), 1) == 0
    places = to_dtype(keep(named, valid), dtypes.int64)
    is_right = scatter_zeros(to_dtype(valid, dtypes.int64), 1, places, tuple(scores.shape)) > 0
    of_right = unsqueeze(gather(scores, 1, places), 2)
    lacks = clamp_min(1 - sub(of_right, unsqueeze(scores, 1)), 0)
    lacks = keep(keep(lacks, unsqueeze(valid, 2)), unsqueeze(~is_right, 1))
    losses = sum(lacks, (1, 2)) / scores.shape[1]
    return reduced(reshape(losses, ()) if single else losses, reduction)


@takes(real_floats)
def pdist(input: Any, p: float = 2) -> Any:
    """Return the p-norms of the differences of all pairs of rows, each pair once; their gradient at 0 is 0.

    Raises:
        ShapeError: no matrix.
    """
    if input.ndim != 2:
        raise ShapeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    rows = [index_select(input, 0, like_operand(i, input)) for i in space_of(input).triu_indices(input.shape[0], 1)]
    return reshape(cdist(unsqueeze(rows[0], 1), unsqueeze(rows[1], 1), p), (-1,))


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """Return what the distance to `negative` lacks to be `margin` above that to `positive`, by a distance of one's own;
    see `triplet_margin_loss`."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp_min(near - far + margin, 0), reduction)
