"""The optimiser Adadelta (Zeiler, 2012): its options and update rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from raygrad.autograd.tensor.tensor import Tensor

from .adaptive import AdaptiveOptimizer
from .optimizer import Group, ParameterState, check_rates, zeros_like


class Adadelta(AdaptiveOptimizer):
    """Moves each element by its gradient times the ratio of two running root mean squares: of the moves, and of the
    gradients.

    Args:
        params: real tensors, or dicts with "params" and options of their own.
        lr: what the move is multiplied by.
        rho: how much of the running mean squares is kept at each step.
        eps: keeps the roots from zero.
        weight_decay: adds `weight_decay * param` to the gradient.
        maximize: climbs instead.

    Raises:
        ValueError: a negative rate, a rho outside [0, 1], or complex parameters.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        check_rates({"learning rate": lr})
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_rates({"epsilon value": eps, "weight_decay value": weight_decay})
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def initial(self, group: Group, param: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield "square_avg", zeros_like(param)
        yield "acc_delta", zeros_like(param)

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        rho, eps = group["rho"], group["eps"]
        square, moved = kept["square_avg"], kept["acc_delta"]
        self.assign(square, (square * rho).add(direction * direction, alpha=1 - rho))
        move = (moved + eps).sqrt() / (square + eps).sqrt() * direction
        self.assign(moved, (moved * rho).add(move * move, alpha=1 - rho))
        self.assign(param, param.add(move, alpha=-group["lr"]))
