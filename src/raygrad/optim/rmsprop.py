"""RMSprop (Hinton, 2012), also centred (Graves, 2013) and with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raygrad.autograd.tensor import Tensor

from .direction import direction_of
from .optimizer import Group, Optimizer, ParameterState, check_rate, zeros_like


class RMSprop(Optimizer):
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

    real_only = True

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
        check_rate("learning rate", lr)
        check_rate("epsilon value", eps)
        check_rate("momentum value", momentum)
        check_rate("weight_decay value", weight_decay)
        check_rate("alpha value", alpha)
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

    def update(self, group: Group, param: Tensor, grad: Tensor, kept: ParameterState) -> None:
        if self.begin(kept, param):
            self.keep(kept, "square_avg", zeros_like(param))
            if group["momentum"] > 0:
                self.keep(kept, "momentum_buffer", zeros_like(param))
            if group["centered"]:
                self.keep(kept, "grad_avg", zeros_like(param))
        alpha = group["alpha"]
        direction = direction_of(group, param, grad)
        self.assign(kept["step"], kept["step"] + 1)
        square: Tensor = kept["square_avg"]
        self.assign(square, (square * alpha).add(direction * direction, alpha=1 - alpha))
        spread = square
        if group["centered"]:
            mean: Tensor = kept["grad_avg"]
            self.assign(mean, mean.lerp(direction, 1 - alpha))
            spread = square - mean * mean
        size = spread.sqrt() + group["eps"]
        step = direction / size
        if group["momentum"] > 0:
            buffer: Tensor = kept["momentum_buffer"]
            self.assign(buffer, buffer * group["momentum"] + step)
            step = buffer
        self.assign(param, param.add(step, alpha=-group["lr"]))
