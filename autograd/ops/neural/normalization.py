"""Normalisation: normalize, layer_norm, rms_norm, group_norm, batch_norm, instance_norm, local_response_norm.

Composed of means and variances; batch and instance norm also update running statistics in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...core.modes import no_grad
from ...dispatch.shape_errors import check_least_dims, check_positive
from ...registry.dtype_constraints import floats_alone, real_floats, real_numbers, takes
from ..elementwise.arithmetic import add, clamp_min, mul
from ..elementwise.division import div
from ..elementwise.unary import rsqrt, square
from ..layout.padding import pad
from ..layout.shape import reshape
from ..layout.windows import windows
from ..reduction.reduce import mean, sum, var
from ..reduction.vector_norms import norm

PUBLIC = "batch_norm group_norm instance_norm layer_norm local_response_norm normalize rms_norm".split()


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Return `input` divided by its p-norms along `dim`, of which none counts as less than `eps`."""
    return div(input, clamp_min(norm(input, p, dim, True), eps))


def _scaled(out: Any, weight: Any, bias: Any, shape: Sequence[int]) -> Any:
    """Return `out * weight + bias`, the two in a shape that broadcasts."""
    if weight is not None:
        out = mul(out, reshape(weight, shape))
    return out if bias is None else add(out, reshape(bias, shape))


def _centred(input: Any, dims: Sequence[int], eps: float) -> Any:
    """Return `input` standardised over dimensions: with means of 0 and variances of 1."""
    spread = var(input, dims, correction=0, keepdim=True)
    return mul(input - mean(input, dims, True), rsqrt(spread + eps))


def _check_scales(name: str, shape: Sequence[int], **scales: Any) -> None:
    """Check that there is a number for each place that is scaled.

    Raises:
        RuntimeError: there are others.
    """
    for argument, scale in scales.items():
        if scale is not None and tuple(scale.shape) != tuple(shape):
            raise ShapeError(f"{name}: Expected {argument} to have shape {list(shape)}, but got {list(scale.shape)}")


def _over_last(name: str, input: Any, normalized_shape: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    wanted = tuple([int(n) for n in normalized_shape])
    if not wanted or tuple(input.shape[-len(wanted) :]) != wanted:
        raise ShapeError(
            f"{name}: Given normalized_shape={list(wanted)}, expected input with shape [*, "
            f"{', '.join(map(str, wanted))}], but got input of size {list(input.shape)}"
        )
    return list(range(-len(wanted), 0)), wanted


@takes(real_floats)
def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-05
) -> Any:
    """Return `input` normalized over its last dimensions, which have `normalized_shape`."""
    dims, wanted = _over_last("layer_norm", input, normalized_shape)
    _check_scales("layer_norm", wanted, weight=weight, bias=bias)
    return _scaled(_centred(input, dims, eps), weight, bias, wanted)


@takes(floats_alone)
def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """Return `input` divided by the root of the mean of its squares over its last dimensions."""
    dims, wanted = _over_last("rms_norm", input, normalized_shape)
    _check_scales("rms_norm", wanted, weight=weight)
    eps = float(np.finfo(input.dtype).eps) if eps is None else eps
    return _scaled(mul(input, rsqrt(mean(square(input), dims, True) + eps)), weight, None, wanted)


def _per_channel(input: Any) -> tuple[int, ...]:
    return (-1, *(1,) * (input.ndim - 2))


@takes(real_floats)
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-05) -> Any:
    """Return `input` (batch, channels, ...) normalized over each group of channels."""
    if input.ndim < 2:
        raise AutogradError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    batch, channels, *rest = input.shape
    if channels % num_groups:
        raise AutogradError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    _check_scales("group_norm", (channels,), weight=weight, bias=bias)
    grouped = reshape(input, (batch, num_groups, channels // num_groups * math.prod(rest)))
    return _scaled(reshape(_centred(grouped, [2], eps), (batch, channels, *rest)), weight, bias, _per_channel(input))


def _update_running(running: Any, value: Any, momentum: float) -> None:
    """Update a running statistic in place."""
    if running is not None:
        with no_grad():
            running.copy_(running * (1 - momentum) + value.detach() * momentum)


@takes(real_floats)
def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Any:
    """Return `input` (batch, channels, ...) normalized over all but the channels.

    Args:
        running_mean, running_var: the statistics to use; in training, those of the batch are used, and these are moved
            towards them in place.

    Raises:
        ValueError: one value per channel in training.
        RuntimeError: no statistics where they are used.
    """
    check_least_dims("batch_norm", input, 2)
    shape = _per_channel(input)
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _check_scales("batch_norm", (input.shape[1],), **given)
    if not training:
        if running_mean is None or running_var is None:
            raise AutogradError("Expected running_mean and running_var to be defined when training=False")
        centred = input - reshape(running_mean, shape)
        return _scaled(mul(centred, reshape(rsqrt(running_var + eps), shape)), weight, bias, shape)
    dims = [axis for axis in range(input.ndim) if axis != 1]
    if math.prod([input.shape[axis] for axis in dims]) <= 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(input.shape)}")
    _update_running(running_mean, mean(input, dims), momentum)
    _update_running(running_var, var(input, dims), momentum)
    return _scaled(_centred(input, dims, eps), weight, bias, shape)


@takes(real_floats)
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Any:
    """Return `input` (batch, channels, ...) normalized over each channel of each sample, or by running statistics."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _check_scales("instance_norm", (input.shape[1],), **given)
    dims = list(range(2, input.ndim))
    _update_running(running_mean, mean(mean(input, dims), 0), momentum)
    _update_running(running_var, mean(var(input, dims), 0), momentum)
    return _scaled(_centred(input, dims, eps), weight, bias, _per_channel(input))


@takes(real_numbers)
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Return `input` (batch, channels, ...) divided by a power of the mean square of neighbouring channels."""
    check_positive("local_response_norm", "size", (size,))
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    flat = reshape(square(input), (input.shape[0], 1, input.shape[1], math.prod(input.shape[2:])))
    bordered = pad(flat, (0, 0, size // 2, (size - 1) // 2))
    total = sum(windows(bordered, (2,), (size,), (1,), (1,)), -1)
    rounding = "trunc" if input.dtype.kind in "iu" else None
    around = reshape(div(total, size, rounding_mode=rounding), input.shape)
    return input / (around * alpha + k) ** beta
