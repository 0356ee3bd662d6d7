"""The optimiser SGD: stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raygrad.autograd.tensor.tensor import Tensor

from .optimizer import Group, Optimizer, ParameterState, check_rates, direction_of


class SGD(Optimizer):
    """Gradient descent: `param -= lr * grad`, and with momentum `buf = momentum * buf + grad; param -= lr * buf`.

    Args:
        params: tensors, or dicts with "params" and options of their own.
        lr: the learning rate.
        momentum: how much of the earlier direction is kept.
        dampening: by how much less than whole a gradient enters the momentum.
        weight_decay: adds `weight_decay * param` to the gradient.
        nesterov: looks ahead along the momentum.
        maximize: climbs instead.

    Raises:
        ValueError: a negative rate, or Nesterov momentum without momentum or with dampening.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        check_rates({"learning rate": lr, "momentum value": momentum, "weight_decay value": weight_decay})
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def update(self, group: Group, param: Tensor, grad: Tensor, kept: ParameterState) -> None:
        momentum = group["momentum"]
        direction = direction_of(group, param, grad)
        if momentum != 0:
            buffer = kept.get("momentum_buffer")
            if buffer is None:
                buffer = self.keep(kept, "momentum_buffer", direction.detach().clone())
            else:
                self.assign(buffer, (buffer * momentum).add(direction, alpha=1 - group["dampening"]))
            direction = direction.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        self.assign(param, param.add(direction, alpha=-group["lr"]))
