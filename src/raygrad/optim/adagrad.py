"""The optimisers Adagrad (Duchi, Hazan and Singer, 2011) and Adadelta (Zeiler, 2012): options and update rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raygrad.autograd.dispatch.creation import full_like, zeros_like
from raygrad.autograd.tensor.tensor import Tensor

from .optimizer import AdaptiveOptimizer, Group, ParameterState, check_rates


class Adagrad(AdaptiveOptimizer):
    """Moves each element by its gradient over the root of the sum of all its squares so far.

    Args:
        params: real tensors, or dicts with "params" and options of their own.
        lr: the learning rate.
        lr_decay: divides the rate of step n by `1 + (n - 1) * lr_decay`.
        weight_decay: adds `weight_decay * param` to the gradient.
        initial_accumulator_value: what the sum starts with.
        eps: keeps the denominator from zero.
        maximize: climbs instead.

    Raises:
        ValueError: a negative rate, or complex parameters.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None:
        check_rates(
            {
                "learning rate": lr,
                "lr_decay value": lr_decay,
                "weight_decay value": weight_decay,
                "initial_accumulator_value value": initial_accumulator_value,
                "epsilon value": eps,
            }
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "maximize": maximize,
            },
        )

    def initial(self, group: Group, param: Tensor) -> dict[str, Tensor]:
        return {"sum": full_like(param, group["initial_accumulator_value"])}

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        step, total = kept["step"], kept["sum"]
        self.assign(total, total + direction * direction)
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        self.assign(param, param - direction / (total.sqrt() + group["eps"]) * rate)


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

    def initial(self, group: Group, param: Tensor) -> dict[str, Tensor]:
        return {"square_avg": zeros_like(param), "acc_delta": zeros_like(param)}

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        rho, eps = group["rho"], group["eps"]
        square, moved = kept["square_avg"], kept["acc_delta"]
        self.assign(square, (square * rho).add(direction * direction, alpha=1 - rho))
        move = (moved + eps).sqrt() / (square + eps).sqrt() * direction
        self.assign(moved, (moved * rho).add(move * move, alpha=1 - rho))
        self.assign(param, param.add(move, alpha=-group["lr"]))
