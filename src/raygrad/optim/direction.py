"""The gradient as an update uses it: negated for `maximize`, with weight decay added.

Shared by all optimisers; it has no state.
"""

from __future__ import annotations

from raygrad.autograd.tensor.tensor import Tensor

from .optimizer import Group


def direction_of(group: Group, param: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient, negated for `maximize`, with `weight_decay * param` added."""
    direction = -grad if group["maximize"] else grad
    if group["weight_decay"] != 0:
        direction = direction.add(param, alpha=group["weight_decay"])
    return direction
