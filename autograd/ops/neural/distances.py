"""Distances, similarities, and losses composed of other ops: huber, kl_div, binary cross entropy, margin and triplet
losses.

These losses compare predictions with targets by a formula; those that select by class are in `losses`.
"""

from __future__ import annotations

import math
from typing import Any

from raygrad.errors import AutogradError, ShapeError

from ...dispatch.shape_errors import is_at_hand
from ...registry.define_op import broadcast_shape
from ...registry.dtype_constraints import alike, floats_alone, real_floats, takes
from ..elementwise.arithmetic import add, clamp_min, minimum, mul, sub
from ..elementwise.division import div
from ..elementwise.pointwise import xlogy
from ..elementwise.unary import abs, exp, log, log1p, neg, sqrt, square
from ..elementwise.where import where
from ..layout.axis_order import to_dtype, zeros_as
from ..layout.shape import expand
from ..reduction.reduce import mean, sum
from ..reduction.vector_norms import norm
from .losses import binary_losses, reduced
from .rectifiers import hardtanh, logsigmoid

PUBLIC = """
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cosine_similarity gaussian_nll_loss
    hinge_embedding_loss huber_loss kl_div margin_ranking_loss multilabel_soft_margin_loss pairwise_distance
    poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
""".split()

# ---- distances -------------------------------------------------------------------------------------------------------


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """Return the p-norms of `x1 - x2 + eps` along the last dimension."""
    return norm(sub(x1, x2) + eps, p, -1, keepdim)


@takes(real_floats, 2)
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Return the cosines of the angles between vectors along `dim`; no length counts as less than `eps`."""
    if x1.shape != x2.shape:
        shape = broadcast_shape("cosine_similarity", [x1.shape, x2.shape])
        x1, x2 = expand(x1, shape), expand(x2, shape)
    one = div(x1, clamp_min(norm(x1, 2, dim, True), eps))
    return sum(mul(one, div(x2, clamp_min(norm(x2, 2, dim, True), eps))), dim)


@takes(real_floats, 2)
def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """Return the absolute differences less `beta / 2`, below `beta` their squares over `2 * beta`; averaged by
    default."""
    if beta < 0:
        raise AutogradError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    gaps = sub(input, target)
    return reduced(abs(gaps) if beta == 0 else _huber(gaps, beta) / beta, reduction)


@takes(real_floats, 2)
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Return half of the squared differences, beyond `delta` straight lines; averaged by default."""
    if delta <= 0:
        raise AutogradError(f"huber_loss does not support non-positive values for delta, got {delta}")
    return reduced(_huber(sub(input, target), delta), reduction)


def _huber(gaps: Any, width: float) -> Any:
    """Return half of the squares up to `width`, and linear continuations beyond."""
    near = hardtanh(gaps, -width, width)
    return mul(near, sub(gaps, near * 0.5))


# ---- losses of probabilities -----------------------------------------------------------------------------------------


@takes(real_floats, 2)
def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """Return `target * (log(target) - input)`: how far a distribution, given in logarithms, is from another.

    Args:
        reduction: also "batchmean", the sum divided by the first extent.
        log_target: whether `target` is in logarithms, too.
    """
    losses = mul(exp(target), sub(target, input)) if log_target else sub(xlogy(target, target), mul(target, input))
    return sum(losses) / input.shape[0] if reduction == "batchmean" else reduced(losses, reduction)


def _check_sizes(name: str, input: Any, target: Any) -> None:
    """Check that there is a target for each element.

    Raises:
        ValueError: the shapes differ.
    """
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"{name}: Target size ({list(target.shape)}) must be the same as input size ({list(input.shape)})"
        )


@alike(0, 1)
@takes(real_floats, 2)
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """Return the cross entropy of probabilities; logarithms below -100 count as that.

    Raises:
        AutogradError: an element of `input` is not between 0 and 1.
    """
    _check_sizes("binary_cross_entropy", input, target)
    losses = binary_losses(input, target)
    return reduced(losses if weight is None else mul(losses, weight), reduction)


@takes(real_floats)
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """Return the cross entropy of the sigmoid of `input`, without overflow; `pos_weight` weighs positive targets."""
    _check_sizes("binary_cross_entropy_with_logits", input, target)
    losses = sub(mul(sub(1, target), input), mul(_weighted(target, pos_weight), logsigmoid(input)))
    return reduced(losses if weight is None else mul(losses, weight), reduction)


def _weighted(target: Any, pos_weight: Any) -> Any:
    """Return the factor of the logarithm of the sigmoid: 1, or `pos_weight` where the target is positive."""
    return 1.0 if pos_weight is None else add(mul(sub(pos_weight, 1), target), 1)


@takes(real_floats)
def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """Return the mean over the classes of the cross entropies of each class's sigmoid."""
    losses = neg(add(mul(target, logsigmoid(input)), mul(sub(1, target), logsigmoid(neg(input)))))
    return reduced(mean(losses if weight is None else mul(losses, weight), -1), reduction)


def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Any:
    """Return minus the logarithm of a Poisson distribution's probabilities, with Stirling's term if `full`."""
    losses = sub(exp(input), mul(target, input)) if log_input else sub(input, mul(target, log(input + eps)))
    if full:
        stirling = mul(target, log(target)) - target + log(target * (2 * math.pi)) * 0.5
        losses = losses + where(target > 1, stirling, zeros_as(target))
    return reduced(losses, reduction)


@takes(real_floats)
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Return minus the logarithm of a normal distribution's density, whose variance is at least `eps`.

    Raises:
        ValueError: `var` is negative, or its shape is none of those of `input`, with or without its last extent, or
            that one 1.
    """
    if hasattr(var, "ndim"):
        if tuple(var.shape) == tuple(input.shape[:-1]):
            var = var.unsqueeze(-1)
        elif tuple(var.shape) not in (tuple(input.shape), (*input.shape[:-1], 1)):
            raise ValueError(
                f"gaussian_nll_loss: var is of incorrect size {list(var.shape)}; expected {list(input.shape)}, or "
                "without its last extent, or with 1 there"
            )
        if is_at_hand(var) and bool((var < 0).any()):
            raise ValueError("gaussian_nll_loss: var has negative entries")
    elif var < 0:
        raise ValueError(f"gaussian_nll_loss: var has negative entries: {var}")
    floor = where(var < eps, zeros_as(var) + eps, var)
    spread = (var + (floor - var).detach()) if hasattr(var, "detach") else floor
    losses = 0.5 * (log(spread) + square(sub(input, target)) / spread)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


# ---- losses with margins ---------------------------------------------------------------------------------------------


@takes(floats_alone)
def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return `log(1 + exp(-target * input))` for targets of 1 and -1."""
    return reduced(log1p(exp(neg(mul(target, input)))), reduction)


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """Return `input` where the target is 1, what it lacks to `margin` where the target is -1."""
    zeros = zeros_as(input)
    lacks = where(target != 1, clamp_min(to_dtype(sub(margin, input), input.dtype), 0), zeros)
    return reduced(lacks + where(target != -1, input, zeros), reduction)


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """Return what the first lacks to be `margin` above the second, where the target is 1; below, where it is -1.

    Raises:
        RuntimeError: the tensors have different numbers of dimensions.
    """
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            "margin_ranking_loss: All input tensors should have same dimension but got sizes: input1: "
            f"{list(input1.shape)}, input2: {list(input2.shape)}, target: {list(target.shape)}"
        )
    return reduced(clamp_min(neg(mul(target, sub(input1, input2))) + margin, 0), reduction)


def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """Return 1 less the cosine where the target is 1, what the cosine is above `margin` where it is -1.

    Raises:
        RuntimeError: the target is no vector for matrices, or no number for vectors.
    """
    if target.ndim > 1 or not input1.ndim == input2.ndim == target.ndim + 1:
        raise ShapeError(
            f"cosine_embedding_loss: {target.ndim}D target tensor expects {target.ndim + 1}D input tensors (and 0D or "
            f"1D are there), but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}"
        )
    tiny = 1e-12
    lengths = mul(sum(square(input1), -1) + tiny, sum(square(input2), -1) + tiny)
    cosine = sum(mul(input1, input2), -1) / sqrt(lengths)
    zeros = zeros_as(cosine)
    return reduced(
        where(target == 1, 1 - cosine, zeros) + where(target == -1, clamp_min(cosine - margin, 0), zeros), reduction
    )


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """Return what the distance to `negative` lacks to be `margin` above that to `positive`; with `swap`, the distance
    between these two counts if it is the smaller one.

    Raises:
        ValueError: `margin` is not greater than zero.
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(clamp_min(near - far + margin, 0), reduction)
