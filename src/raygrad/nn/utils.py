"""Gradient clipping by norm and by value: `clip_grad_norm_`, `clip_grad_value_`, with PyTorch's results and errors.

Written with tensor operations only, so a session records it and waits for nothing but what `error_if_nonfinite` reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from raygrad.autograd import ops
from raygrad.autograd.core.modes import no_grad
from raygrad.autograd.dispatch.creation import tensor
from raygrad.autograd.ops.linalg.norms import vector_norm
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import AutogradError
from raygrad.tracebacks import public


@public
def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """Return the norm of all elements of some tensors together, as a tensor on the device of the first.

    Raises:
        RuntimeError: it is infinite or NaN, and `error_if_nonfinite` is set, which waits for it.
    """
    norms = [vector_norm(one, float(norm_type)) for one in _several(tensors)]
    if not norms:
        return tensor(0.0)
    place, dtype = norms[0].device, norms[0].dtype
    total = vector_norm(ops.stack([norm.to(place, dtype) for norm in norms]), float(norm_type))
    if error_if_nonfinite and not math.isfinite(float(total)):
        raise AutogradError(
            f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, so it cannot "
            "be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@public
@no_grad()
def clip_grads_with_norm_(parameters: Iterable[Tensor], max_norm: float, total_norm: Tensor) -> None:
    """Scale the gradients of parameters, in place, so that a norm of `total_norm` becomes no more than `max_norm`."""
    factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in _gradients(parameters):
        grad.mul_(factor.to(grad.device, grad.dtype))


@public
@no_grad()
def clip_grad_norm_(
    parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Any:
    """Scale the gradients of parameters, in place, so that the norm of all together is no more than `max_norm`; return
    that norm as it was.

    Raises:
        RuntimeError: as `get_total_norm`.
    """
    parameters = _several(parameters)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


@public
@no_grad()
def clip_grad_value_(parameters: Iterable[Tensor], clip_value: float) -> None:
    """Clamp the gradients of parameters, in place, to [-clip_value, clip_value]."""
    for grad in _gradients(_several(parameters)):
        grad.clamp_(-float(clip_value), float(clip_value))


def _several(tensors: Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [grad for parameter in parameters if (grad := parameter.grad) is not None]
