"""The optimiser RMSprop (Hinton, 2012), also centred (Graves, 2013) and with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raygrad.autograd.dispatch.creation import zeros_like
from raygrad.autograd.tensor.tensor import Tensor

from .optimizer import AdaptiveOptimizer, Group, ParameterState, check_rates


class RMSprop(AdaptiveOptimizer):
    """Moves each element by its gradient over its running root mean square.

    Args:
        params: real tensors, or dicts with "params" and options of their own.
        lr: the learning rate.
        alpha: how much of the running mean square is kept at each step.
        eps: keeps the denominator from zero.
        weight_decay: adds `weight_decay * param` to the gradient.
        momentum: how much of the earlier direction is kept.
        centered: takes the running mean out of the mean square.
        maximize: climbs instead.

    Raises:
        ValueError: a negative rate, or complex parameters.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        check_rates(
            {
                "learning rate": lr,
                "epsilon value": eps,
                "momentum value": momentum,
                "weight_decay value": weight_decay,
                "alpha value": alpha,
            }
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "alpha": alpha,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "centered": centered,
                "maximize": maximize,
            },
        )

    def initial(self, group: Group, param: Tensor) -> dict[str, Tensor]:
        kept = {"square_avg": True, "momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        return {name: zeros_like(param) for name, there in kept.items() if there}

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        alpha = group["alpha"]
        square = kept["square_avg"]
        self.assign(square, (square * alpha).add(direction * direction, alpha=1 - alpha))
        spread = square
        if group["centered"]:
            mean = kept["grad_avg"]
            self.assign(mean, mean.lerp(direction, 1 - alpha))
            spread = square - mean * mean
        size = spread.sqrt() + group["eps"]
        step = direction / size
        if group["momentum"] > 0:
            self.assign(kept["momentum_buffer"], kept["momentum_buffer"] * group["momentum"] + step)
            step = kept["momentum_buffer"]
        self.assign(param, param.add(step, alpha=-group["lr"]))
