"""The optimiser Adam (Kingma and Ba, 2015), with AMSGrad (Reddi et al., 2018): its options and update rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from raygrad.autograd import ops
from raygrad.autograd.tensor.tensor import Tensor

from .adaptive import MomentOptimizer
from .optimizer import Group, ParameterState, check_moments, zeros_like


class Adam(MomentOptimizer):
    """Moves each element by the ratio of its running mean gradient to its running root mean square.

    The number of steps is a tensor, as the moments are: in a session it falls back with them when a step fails.

    Args:
        params: real tensors, or dicts with "params" and options of their own.
        lr: the learning rate.
        betas: how much of the two running means is kept at each step.
        eps: keeps the denominator from zero.
        weight_decay: adds `weight_decay * param` to the gradient.
        amsgrad: uses the largest mean square seen so far.
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
        amsgrad: bool = False,
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
                "amsgrad": amsgrad,
                "maximize": maximize,
            },
        )

    def initial(self, group: Group, param: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield from super().initial(group, param)
        if group["amsgrad"]:
            yield "max_exp_avg_sq", zeros_like(param)

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        beta1, beta2 = group["betas"]
        step, mean, square = kept["step"], kept["exp_avg"], kept["exp_avg_sq"]
        self.assign(mean, (mean * beta1).add(direction, alpha=1 - beta1))
        self.assign(square, (square * beta2).add(direction * direction, alpha=1 - beta2))
        if group["amsgrad"]:
            self.assign(kept["max_exp_avg_sq"], ops.maximum(kept["max_exp_avg_sq"], square))
            square = kept["max_exp_avg_sq"]
        # both means start at zero; dividing by 1 - beta ** step takes that out of them
        rate = group["lr"] / (1 - beta1**step)
        size = square.sqrt() / (1 - beta2**step).sqrt() + group["eps"]
        self.assign(param, param - mean / size * rate)
