"""The optimiser AdamW (Loshchilov and Hutter, 2019): Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raygrad.autograd.tensor.tensor import Tensor

from .adam import Adam
from .optimizer import Group, ParameterState


class AdamW(Adam):
    """Adam, before each step of which every parameter shrinks by `lr * weight_decay` of itself.

    Args and errors are those of `Adam`; `weight_decay` is 0.01 by default.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)

    def update(self, group: Group, param: Tensor, grad: Tensor, kept: ParameterState) -> None:
        self.assign(param, param * (1 - group["lr"] * group["weight_decay"]))
        super().update({**group, "weight_decay": 0}, param, grad, kept)
