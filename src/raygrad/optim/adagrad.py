"""The optimiser Adagrad (Duchi, Hazan and Singer, 2011): its options and update rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from raygrad.autograd.dispatch.creation import full_like
from raygrad.autograd.tensor.tensor import Tensor

from .adaptive import AdaptiveOptimizer
from .optimizer import Group, ParameterState, check_rates


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

    def initial(self, group: Group, param: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield "sum", full_like(param, group["initial_accumulator_value"])

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        step, total = kept["step"], kept["sum"]
        self.assign(total, total + direction * direction)
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        self.assign(param, param - direction / (total.sqrt() + group["eps"]) * rate)
