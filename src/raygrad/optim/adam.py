"""The optimiser Adam (Kingma and Ba, 2015), with AMSGrad (Reddi et al., 2018), and its relatives AdamW, Adamax, NAdam
and RAdam: their options and update rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from raygrad.autograd import ops
from raygrad.autograd.dispatch.creation import ones, zeros_like
from raygrad.autograd.tensor.tensor import Tensor

from .optimizer import AdaptiveOptimizer, Group, ParameterState, check_moments, check_rates


class MomentOptimizer(AdaptiveOptimizer):
    """The base of optimisers that keep running means of the gradient and of its square."""

    def initial(self, group: Group, param: Tensor) -> dict[str, Tensor]:
        return {"exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}


class Adam(MomentOptimizer):
    """Moves each element by the ratio of its running mean gradient to its running root mean square.

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

    def initial(self, group: Group, param: Tensor) -> dict[str, Tensor]:
        largest = {"max_exp_avg_sq": zeros_like(param)} if group["amsgrad"] else {}
        return {**super().initial(group, param), **largest}

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


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): before each step every parameter shrinks by
    `lr * weight_decay` of itself.

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


class Adamax(AdaptiveOptimizer):
    """Adam with the largest gradient in place of the mean square (Kingma and Ba, 2015).

    Moves each element by the ratio of its running mean gradient to the largest gradient so far, which decays.

    Args:
        params: real tensors, or dicts with "params" and options of their own.
        lr: the learning rate.
        betas: how much of the running mean, and of the largest gradient, is kept at each step.
        eps: keeps the denominator from zero.
        weight_decay: adds `weight_decay * param` to the gradient.
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
        *,
        maximize: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        )

    def initial(self, group: Group, param: Tensor) -> dict[str, Tensor]:
        return {"exp_avg": zeros_like(param), "exp_inf": zeros_like(param)}

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        beta1, beta2 = group["betas"]
        step, mean, largest = kept["step"], kept["exp_avg"], kept["exp_inf"]
        self.assign(mean, mean.lerp(direction, 1 - beta1))
        self.assign(largest, ops.maximum(largest * beta2, direction.abs() + group["eps"]))
        rate = group["lr"] / (1 - beta1**step)
        self.assign(param, param - mean / largest * rate)


class NAdam(MomentOptimizer):
    """Adam with Nesterov momentum (Dozat, 2016).

    The mean gradient is taken one step ahead, with a momentum that grows with the steps.

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

    def initial(self, group: Group, param: Tensor) -> dict[str, Tensor]:
        product = ones((), dtype=np.promote_types(param.dtype, np.float32), device=param.device)
        return {"mu_product": product, **super().initial(group, param)}

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


class RAdam(MomentOptimizer):
    """Adam with a rectified adaptive rate (Liu et al., 2020).

    The rate is rectified by its variance, and left out in the first steps, where that is unbounded.

    Args:
        params: real tensors, or dicts with "params" and options of their own.
        lr: the learning rate.
        betas: how much of the two running means is kept at each step.
        eps: keeps the denominator from zero.
        weight_decay: adds `weight_decay * param` to the gradient.
        decoupled_weight_decay: has parameters shrink by `lr * weight_decay` of themselves instead.
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
        decoupled_weight_decay: bool = False,
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
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
            },
        )

    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        beta1, beta2 = group["betas"]
        step, mean, square = kept["step"], kept["exp_avg"], kept["exp_avg_sq"]
        self.assign(mean, mean.lerp(direction, 1 - beta1))
        self.assign(square, (square * beta2).add(direction * direction, alpha=1 - beta2))
        known = 1 - beta2**step
        most = 2 / (1 - beta2) - 1
        length = most - 2 * step * beta2**step / known  # of the average that the mean square is, in steps
        enough = length > 5
        length = ops.where(enough, length, 6.0)  # where it is not used, a value without NaN
        spread = ((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)).sqrt()
        adaptive = known.sqrt() * spread / (square.sqrt() + group["eps"])
        rate = group["lr"] / (1 - beta1**step)
        self.assign(param, param - mean * rate * ops.where(enough, adaptive, 1.0))
