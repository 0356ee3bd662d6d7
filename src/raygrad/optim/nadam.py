"""The optimiser NAdam (Dozat, 2016): Adam with Nesterov momentum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from raygrad.autograd.dispatch.creation import ones
from raygrad.autograd.tensor.tensor import Tensor

from .adaptive import MomentOptimizer
from .optimizer import Group, ParameterState, check_moments, check_rates


class NAdam(MomentOptimizer):
    """Adam whose mean gradient is taken one step ahead, with a momentum that grows with the steps.

    Args:
        params: real tensors, or dicts with "params" and options of their own.
        lr: the learning rate.
        betas: how much of the two running means is kept at each step.
        eps: keeps the denominator from zero.
        weight_decay: adds `weight_decay * param` to the gradient.
        momentum_decay: how soon the momentum reaches the first beta.
        decoupled_weight_decay: has parameters shrink by `lr * weight_decay` of themselves instead.
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
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        check_rates({"momentum_decay value": momentum_decay})
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
            },
        )

    def initial(self, group: Group, param: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield "mu_product", ones((), dtype=np.promote_types(param.dtype, np.float32), device=param.device)
        yield from super().initial(group, param)

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        beta1, beta2 = group["betas"]
        step, product, mean, square = (kept[name] for name in ("step", "mu_product", "exp_avg", "exp_avg_sq"))
        momentum, following = (beta1 * (1 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (step, step + 1))
        self.assign(product, product * momentum.to(product.dtype))
        self.assign(mean, mean.lerp(direction, 1 - beta1))
        self.assign(square, (square * beta2).add(direction * direction, alpha=1 - beta2))
        so_far = product.to(np.float64)
        size = (square / (1 - beta2**step)).sqrt() + group["eps"]
        now = group["lr"] * (1 - momentum) / (1 - so_far)
        ahead = group["lr"] * following / (1 - so_far * following)
        self.assign(param, param - direction / size * now - mean / size * ahead)
