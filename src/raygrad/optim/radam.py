"""The optimiser RAdam (Liu et al., 2020): Adam with a rectified adaptive rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raygrad.autograd import ops
from raygrad.autograd.tensor.tensor import Tensor

from .adaptive import MomentOptimizer
from .optimizer import Group, ParameterState, check_moments


class RAdam(MomentOptimizer):
    """Adam whose adaptive rate is rectified by its variance, and left out in the first steps, where that is unbounded.

    Args:
        params: real tensors, or dicts with "params" and options of their own.
        lr: the learning rate.
        betas: how much of the two running means is kept at each step.
        eps: keeps the denominator from zero.
        weight_decay: adds `weight_decay * param` to the gradient.
        decoupled_weight_decay: has parameters shrink by `lr * weight_decay` of themselves instead.
        maximize: climbs instead.

    Raises:
        ValueError: a negative rate, a beta outside [0, 1), or complex parameters.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
            },
        )

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        beta1, beta2 = group["betas"]
        step, mean, square = kept["step"], kept["exp_avg"], kept["exp_avg_sq"]
        self.assign(mean, mean.lerp(direction, 1 - beta1))
        self.assign(square, (square * beta2).add(direction * direction, alpha=1 - beta2))
        known = 1 - beta2**step
        most = 2 / (1 - beta2) - 1
        length = most - 2 * step * beta2**step / known  # of the average that the mean square is, in steps
        enough = length > 5
        length = ops.where(enough, length, 6.0)  # where it is not used, a value without NaN
        spread = ((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)).sqrt()
        adaptive = known.sqrt() * spread / (square.sqrt() + group["eps"])
        rate = group["lr"] / (1 - beta1**step)
        self.assign(param, param - mean * rate * ops.where(enough, adaptive, 1.0))
