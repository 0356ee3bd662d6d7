"""Adagrad (Duchi, Hazan and Singer, 2011)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raygrad.autograd.creation import full_like
from raygrad.autograd.tensor import Tensor

from .direction import direction_of
from .optimizer import Group, Optimizer, ParameterState, check_rate


class Adagrad(Optimizer):
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

    real_only = True

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
        check_rate("learning rate", lr)
        check_rate("lr_decay value", lr_decay)
        check_rate("weight_decay value", weight_decay)
        check_rate("initial_accumulator_value value", initial_accumulator_value)
        check_rate("epsilon value", eps)
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

    def update(self, group: Group, param: Tensor, grad: Tensor, kept: ParameterState) -> None:
        if self.begin(kept, param):
            self.keep(kept, "sum", full_like(param, group["initial_accumulator_value"]))
        step: Tensor = kept["step"]
        total: Tensor = kept["sum"]
        direction = direction_of(group, param, grad)
        self.assign(step, step + 1)
        self.assign(total, total + direction * direction)
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        self.assign(param, param - direction / (total.sqrt() + group["eps"]) * rate)
