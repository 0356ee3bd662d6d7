"""Classification and regression losses: cross_entropy, nll_loss, mse_loss, l1_loss; `one_hot`; and the op of binary
cross entropy.

Other losses, composed of these and of other ops, are in `distances`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...core import dtypes
from ...dispatch.dispatch import call, call_few
from ...registry.define_op import define, quiet, space_of, xp
from ...registry.dtype_constraints import alike, real_floats, takes
from ..elementwise.arithmetic import clamp_min, infer_elementwise, sub
from ..elementwise.unary import abs, log, log1p, square
from ..elementwise.where import where
from ..indexing.gathering import gather
from ..reduction.reduce import mean, sum
from .activations import log_softmax

PUBLIC = "cross_entropy l1_loss mse_loss nll_loss one_hot".split()


def check_reduction(reduction: str) -> None:
    """Raise ValueError for a reduction that there is not: before anything else is looked at."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction; use 'none', 'mean' or 'sum'")


def reduced(losses: Any, reduction: str) -> Any:
    if reduction == "mean":
        return mean(losses)
    if reduction == "sum":
        return sum(losses)
    check_reduction(reduction)
    return losses


@takes(real_floats)
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the squared differences, averaged by default."""
    return reduced(square(sub(input, target)), reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the absolute differences, averaged by default."""
    return reduced(abs(sub(input, target)), reduction)


def _check_classes(target: Any, classes: int, ignored: int) -> None:
    """Check targets whose values are there; those pending in a session are checked where they are used.

    Raises:
        IndexError: one is no class.
    """
    data = target._data
    if type(data) is np.ndarray:
        wrong = data[((data < 0) | (data >= classes)) & (data != ignored)]
        if wrong.size:
            raise IndexError(f"Target {int(wrong.flat[0])} is out of bounds: there are {classes} classes.")


def _binary(a: Any, target: Any) -> Any:
    if type(a) in (np.ndarray, np.float64, np.float32, np.float16):  # of a device, a look would wait for it
        right = (a >= 0) & (a <= 1)
        if not right.all():
            wrong = np.asarray(a)[~np.asarray(right)].flat[0]
            raise AutogradError(
                f"all elements of input should be between 0 and 1, but one is {wrong}; give probabilities, or logits "
                "to binary_cross_entropy_with_logits"
            )
    hit, miss = xp.maximum(xp.log(a), -100), xp.maximum(xp.log1p(-a), -100)
    return (target - 1) * miss - target * hit


def _binary_backward(ctx: Any, g: Any) -> Any:
    """The gradient, with the variance in its denominator at least 1e-12, so that certain predictions have one, too."""
    a, target = ctx.saved_tensors
    need_a, need_target = ctx.needs_input_grad
    to_a = g * (a - target) / clamp_min((1 - a) * a, 1e-12) if need_a else None
    return to_a, g * (log1p(-a) - log(a)) if need_target else None


_BINARY = define(
    "binary_losses",
    ("a", "target"),
    quiet(_binary),
    infer_elementwise("binary_cross_entropy"),
    _binary_backward,
    promotes="float",
)


def binary_losses(input: Any, target: Any) -> Any:
    """Return each element's cross entropy; probabilities are checked where the host computes them.

    Raises:
        AutogradError: an element of `input` is not between 0 and 1.
    """
    return call_few(_BINARY, input, target)


@alike(0, 2)
@takes(real_floats)
def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """Return minus the log-probability that `input` (classes along dimension 1) gives to the `target` classes.

    Args:
        weight: a weight per class; the mean is over the weights.
        ignore_index: a target that counts nothing.
    """
    if input.ndim in (1, 2) and (input.ndim == 2 or target.ndim == 1):
        batch, given = (input.shape[0] if input.ndim == 2 else 1), (target.shape[0] if target.ndim else 0)
        if batch != given:
            raise ValueError(f"Expected input batch_size ({batch}) to match target batch_size ({given}).")
    if weight is not None and tuple(weight.shape) != (input.shape[0 if input.ndim == 1 else 1],):
        raise ShapeError(
            f"nll_loss: weight tensor should be defined either for all {input.shape[0 if input.ndim == 1 else 1]} "
            f"classes or no classes but got weight tensor of shape: {list(weight.shape)}"
        )
    if not 1 <= input.ndim or target.ndim != input.ndim - 1:
        raise ShapeError(f"nll_loss: expected target with {input.ndim - 1} dimensions, got shape {list(target.shape)}")
    axis = 0 if input.ndim == 1 else 1
    if tuple(target.shape) != (*input.shape[:axis], *input.shape[axis + 1 :]):
        raise ShapeError(
            f"nll_loss: expected a target for each row of classes: the input's shape is {list(input.shape)}, "
            f"the target's {list(target.shape)}"
        )
    if target.dtype.kind not in "iu":
        raise AutogradError(f"expected scalar type Long for target but found {target.dtype}")
    _check_classes(target, input.shape[axis], ignore_index)
    counted = target != ignore_index
    classes = where(counted, target, 0)
    picked = gather(input, axis, classes.unsqueeze(axis)).squeeze(axis)
    if weight is None:
        losses = where(counted, -picked, 0.0)
        return sum(losses) / sum(counted) if reduction == "mean" else reduced(losses, reduction)
    weights = where(counted, weight[classes], 0.0)
    losses = where(counted, -picked * weights, 0.0)
    return sum(losses) / sum(weights) if reduction == "mean" else reduced(losses, reduction)


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Return the cross entropy of logits `input` against class indices, or against class probabilities."""
    axis = 0 if input.ndim == 1 else 1
    logs = log_softmax(input, axis)
    classes = input.shape[axis]
    if target.dtype.kind == "f":
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / classes
        if weight is not None:
            logs = logs * weight.reshape((-1, *(1,) * (input.ndim - axis - 1)))
        losses = -sum(logs * target, axis)
        if reduction == "mean":
            return mean(losses)
        return reduced(losses, reduction)
    plain = nll_loss(logs, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return plain
    counted = target != ignore_index
    weighted = logs if weight is None else logs * weight.reshape((-1, *(1,) * (input.ndim - axis - 1)))
    smooth = where(counted, -sum(weighted, axis), 0.0)
    if reduction == "mean":
        norm = sum(counted) if weight is None else sum(where(counted, weight[where(counted, target, 0)], 0.0))
        smooth = sum(smooth) / norm
    else:
        smooth = reduced(smooth, reduction)
    return plain * (1 - label_smoothing) + smooth * (label_smoothing / classes)


def _one_hot(target: Any, classes: int) -> Any:
    if target.size and (target.min() < 0 or target.max() >= classes):
        raise AutogradError("Class values must be non-negative and smaller than num_classes.")
    return (target[..., None] == space_of(target).arange(classes)).astype(np.int64)


_ONE_HOT = define("one_hot", ("target",), _one_hot, lambda params, target: ((*target.shape, params[0]), dtypes.int64))


def one_hot(input: Any, num_classes: int = -1) -> Any:
    """Return a one where the class is, zeros elsewhere, along a new last dimension.

    Without `num_classes` there are as many as the greatest class needs; in a session, that waits for the value.
    """
    if input.dtype != dtypes.int64:
        raise AutogradError(f"one_hot is only applicable to index tensor of type int64, got {input.dtype}")
    if num_classes == -1:
        num_classes = int(input.max()) + 1
    return call(_ONE_HOT, (input,), (num_classes,))
