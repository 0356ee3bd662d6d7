"""The optimiser Adamax (Kingma and Ba, 2015): Adam with the largest gradient in place of the mean square."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from raygrad.autograd import ops
from raygrad.autograd.tensor.tensor import Tensor

from .adaptive import AdaptiveOptimizer
from .optimizer import Group, ParameterState, check_moments, zeros_like


class Adamax(AdaptiveOptimizer):
    """Moves each element by the ratio of its running mean gradient to the largest gradient so far, which decays.

    Args:
        params: real tensors, or dicts with "params" and options of their own.
        lr: the learning rate.
        betas: how much of the running mean, and of the largest gradient, is kept at each step.
        eps: keeps the denominator from zero.
        weight_decay: adds `weight_decay * param` to the gradient.
        maximize: climbs instead.

    Raises:
        ValueError: a negative rate, a beta outside [0, 1), or complex parameters.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        )

    def initial(self, group: Group, param: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield "exp_avg", zeros_like(param)
        yield "exp_inf", zeros_like(param)

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        beta1, beta2 = group["betas"]
        step, mean, largest = kept["step"], kept["exp_avg"], kept["exp_inf"]
        self.assign(mean, mean.lerp(direction, 1 - beta1))
        self.assign(largest, ops.maximum(largest * beta2, direction.abs() + group["eps"]))
        rate = group["lr"] / (1 - beta1**step)
        self.assign(param, param - mean / largest * rate)
