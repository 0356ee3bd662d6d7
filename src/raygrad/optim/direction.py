"""Where an update starts from: the gradient as the options that all optimisers share make it.

Rules of this file: no state; what each optimiser makes of the direction is its own.
"""

from __future__ import annotations

from raygrad.autograd.tensor.tensor import Tensor

from .optimizer import Group


def direction_of(group: Group, param: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient, turned round to climb (`maximize`), with `weight_decay * param` added."""
    direction = -grad if group["maximize"] else grad
    if group["weight_decay"] != 0:
        direction = direction.add(param, alpha=group["weight_decay"])
    return direction
