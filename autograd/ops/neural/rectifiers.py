"""Activations composed of other ops: hardtanh, hardswish, celu, selu, mish, logsigmoid, prelu, glu and the like.

At kinks their derivatives are PyTorch's. Activations with kernels of their own are in `activations`.
"""

from __future__ import annotations

import math
from typing import Any

from raygrad.errors import AutogradError, ShapeError

from ...dispatch.random_numbers import rand
from ...registry.define_op import axis_of
from ...registry.dtype_constraints import real_floats, real_numbers, takes
from ..elementwise.arithmetic import mul
from ..elementwise.division import div
from ..elementwise.unary import abs, neg, sigmoid, tanh
from ..elementwise.where import keep, where
from ..layout.axis_order import zeros_as
from ..layout.joining import split
from ..layout.shape import reshape
from .activations import elu, leaky_relu, softmax, softplus
from .in_place_forms import may_be_in_place

PUBLIC = """
    celu glu hardshrink hardsigmoid hardswish hardtanh logsigmoid mish prelu relu6 rrelu selu softmin softshrink
    softsign tanhshrink threshold
""".split()


@may_be_in_place
@takes(real_numbers)
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """Return `input` limited to [min_val, max_val]; its derivative at the limits is 0.

    Raises:
        ValueError: `min_val` is above `max_val`.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype.kind in "iu":
        min_val, max_val = int(min_val), int(max_val)
    raised = where(input <= min_val, zeros_as(input) + min_val, input)
    return where(input >= max_val, zeros_as(input) + max_val, raised)


@may_be_in_place
@takes(real_numbers)
def relu6(input: Any) -> Any:
    """Return `input` limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0)


@may_be_in_place
@takes(real_floats)
def hardsigmoid(input: Any) -> Any:
    """Return `input / 6 + 1 / 2` limited to [0, 1]."""
    limits = where(input >= 3, zeros_as(input) + 1, where(input <= -3, zeros_as(input), zeros_as(input) + math.nan))
    return where((input > -3) & (input < 3), input / 6 + 0.5, limits)


@may_be_in_place
@takes(real_floats)
def hardswish(input: Any) -> Any:
    """Return 0 below -3, `input` above 3, `input * (input + 3) / 6` between."""
    inside = (input > -3) & (input < 3)
    middle = keep(input, inside)
    nothing = input - input  # NaN at minus infinity, where PyTorch multiplies it by 0
    return where(inside, middle * (middle + 3) / 6, where(input <= -3, nothing, input))


@may_be_in_place
@takes(real_floats)
def celu(input: Any, alpha: float = 1.0) -> Any:
    """Return `input` where it is positive, `alpha * (exp(input / alpha) - 1)` elsewhere."""
    if alpha == 0:
        raise AutogradError("celu: alpha cannot be 0: the input is divided by it")
    return elu(div(input, alpha)) * alpha


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@may_be_in_place
@takes(real_floats)
def selu(input: Any) -> Any:
    """Return `elu` scaled so that means of 0 and variances of 1 are kept (Klambauer and others, 2017)."""
    return elu(input, _SELU_ALPHA) * _SELU_SCALE


def softsign(input: Any) -> Any:
    """Return `input / (1 + abs(input))`."""
    return input / (abs(input) + 1)


def tanhshrink(input: Any) -> Any:
    """Return `input - tanh(input)`."""
    return input - tanh(input)


@may_be_in_place
@takes(real_floats)
def mish(input: Any) -> Any:
    """Return `input * tanh(softplus(input))`."""
    return input * tanh(softplus(input))


@takes(real_floats)
def logsigmoid(input: Any) -> Any:
    """Return `log(sigmoid(input))`, without overflow."""
    return neg(softplus(neg(input), threshold=math.inf))


def softmin(input: Any, dim: int, dtype: Any = None) -> Any:
    """Return `softmax(-input)`."""
    return softmax(neg(input), dim, dtype)


@takes(real_floats)
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """Return `input` brought `lambd` nearer to 0, and 0 where it is nearer already."""
    if lambd < 0:
        raise AutogradError(f"lambda must be greater or equal to 0, but found to be {lambd}")
    moved = where(input > lambd, input - lambd, input + lambd)
    return where((input >= -lambd) & (input <= lambd), zeros_as(input), moved)


@takes(real_floats)
def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """Return `input`, and 0 where its size is at most `lambd`."""
    return where((input >= -lambd) & (input <= lambd), zeros_as(input), input)


@may_be_in_place
@takes(real_numbers)
def threshold(input: Any, threshold: float, value: float) -> Any:
    """Return `input` where it is above `threshold`, `value` elsewhere."""
    return where(input <= threshold, value, input)


@takes(real_floats, 2)
def prelu(input: Any, weight: Any) -> Any:
    """Return `input` where it is positive, elsewhere `weight * input`: one weight, or one for each channel."""
    if weight.ndim == 1 and weight.shape[0] != 1:
        if input.ndim < 2 or input.shape[1] != weight.shape[0]:
            raise ShapeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.shape[0]} "
                f"and input of shape {list(input.shape)}"
            )
        weight = reshape(weight, (-1, *(1,) * (input.ndim - 2)))
    return where(input > 0, input, mul(input, weight))


@may_be_in_place
@takes(real_floats)
def rrelu(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Any:
    """Return `leaky_relu` with a slope between `lower` and `upper`: in training a random one for each element, else the
    middle.

    Raises:
        RuntimeError: `lower` is greater than `upper`.
    """
    if lower > upper:
        raise AutogradError(f"rrelu: the lower bound should be at most the upper bound, but got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    slopes = rand(input.shape, dtype=input.dtype, device=input.device) * (upper - lower) + lower
    return where(input > 0, input, mul(input, slopes))


@takes(real_floats)
def glu(input: Any, dim: int = -1) -> Any:
    """Return the first half of `input` along `dim`, times the sigmoid of the second."""
    axis = axis_of(dim, input.ndim)
    if not input.ndim or input.shape[axis] % 2:
        raise AutogradError(
            f"Halving dimension must be even, but dimension {axis} is size {input.shape[axis] if input.ndim else 1}"
        )
    first, second = split(input, input.shape[axis] // 2, axis)
    return first * sigmoid(second)
