"""Activations with kernels and derivatives of their own (softmax, log_softmax, softplus, leaky_relu, elu), silu and
gelu.

Activations composed of other ops are in `rectifiers`; sigmoid, tanh and relu are in `elementwise.unary`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, MissingDerivative

from ...core.array_layout import as_dense
from ...dispatch.dispatch import call
from ...registry.define_op import axis_of, define, infer_same, quiet, reduction, row_by_row, xp
from ...registry.dtype_constraints import floats_alone, real_floats, takes
from ..elementwise.error_function import erf
from ..elementwise.unary import exp, sigmoid, tanh
from ..elementwise.where import keep, where
from ..layout.axis_order import to_dtype
from ..reduction.reduce import sum
from .in_place_forms import may_be_in_place

PUBLIC = "elu gelu leaky_relu log_softmax silu softmax softplus".split()

# ---- softmax ---------------------------------------------------------------------------------------------------------


_greatest, _total = reduction(np.maximum, "max"), reduction(np.add, "sum")


def _shifted(a: Any, axis: int) -> Any:
    if a.dtype.kind != "f":
        raise TypeError
    a = as_dense(a)
    if not a.ndim:
        return a - a
    return a - _greatest(a, axis, None, None, True, -np.inf)


def _softmax(a: Any, axis: int) -> Any:
    if not a.size:
        return a.copy()
    powers = xp.exp(_shifted(a, axis))
    return powers / _total(powers, axis, None, None, True) if a.ndim else powers


def _log_softmax(a: Any, axis: int) -> Any:
    if not a.size:
        return a.copy()
    shifted = _shifted(a, axis)
    return shifted - xp.log(_total(xp.exp(shifted), axis, None, None, True)) if a.ndim else shifted


def _softmax_infer(params: tuple[Any, ...], a: Any) -> Any:
    if a.dtype.kind != "f" and 0 not in a.shape:
        raise MissingDerivative(f"softmax is not implemented for {a.dtype}; convert it, or give dtype=")
    return a.shape, a.dtype


def _softmax_backward(ctx: Any, g: Any) -> Any:
    (out,) = ctx.saved_tensors
    weighted = g * out
    return weighted - out * sum(weighted, ctx.params[0], True)


_SOFTMAX = define("softmax", ("a",), quiet(row_by_row(_softmax)), _softmax_infer, _softmax_backward, saves="output")
_LOG_SOFTMAX = define(
    "log_softmax",
    ("a",),
    quiet(row_by_row(_log_softmax)),
    _softmax_infer,
    lambda ctx, g: g - exp(ctx.saved_tensors[0]) * sum(g, ctx.params[0], True),
    saves="output",
)


def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Return `exp(input)` divided by its sum along `dim`."""
    return call(_SOFTMAX, (input if dtype is None else to_dtype(input, dtype),), (axis_of(dim, input.ndim),))


def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Return the logarithm of `softmax`, computed without overflow."""
    return call(_LOG_SOFTMAX, (input if dtype is None else to_dtype(input, dtype),), (axis_of(dim, input.ndim),))


# ---- elementwise -----------------------------------------------------------------------------------------------------


def _softplus(a: Any, beta: float, threshold: float) -> Any:
    scaled = a * beta
    return xp.where(scaled > threshold, a, (xp.maximum(scaled, 0) + xp.log1p(xp.exp(-xp.abs(scaled)))) / beta)


def _softplus_backward(ctx: Any, g: Any) -> Any:
    a, beta, threshold = ctx.saved_tensors
    scaled = a * beta
    return where(scaled > threshold, g, g * sigmoid(scaled)), None, None


def _leaky_relu_backward(ctx: Any, g: Any) -> Any:
    a, slope = ctx.saved_tensors
    return where(a > 0, g, g * slope), None


def _elu_backward(ctx: Any, g: Any) -> Any:
    a, alpha = ctx.saved_tensors
    return where(a <= 0, g * exp(keep(a, a < 0)) * alpha, g), None  # at 0 the slope is the curve's, its change is not


def _infer_first(params: tuple[Any, ...], a: Any, *numbers: Any) -> Any:
    return infer_same(params, a)


_SOFTPLUS = define(
    "softplus",
    ("a", "beta", "threshold"),
    quiet(_softplus),
    _infer_first,
    _softplus_backward,
    promotes="float",
    admits=real_floats,
)
_LEAKY_RELU = define(
    "leaky_relu",
    ("a", "negative_slope"),
    lambda a, slope: xp.where(a > 0, a, a * slope),
    _infer_first,
    _leaky_relu_backward,
    promotes="float",
    admits=real_floats,
)
_ELU = define(
    "elu",
    ("a", "alpha"),
    quiet(lambda a, alpha: xp.where(a > 0, a, xp.expm1(a) * alpha)),
    _infer_first,
    _elu_backward,
    promotes="float",
    admits=real_floats,
)


@takes(real_floats)
def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """Return `log(1 + exp(beta * input)) / beta`; `input` itself where that product is above `threshold`."""
    return call(_SOFTPLUS, (input, beta, threshold))


@may_be_in_place
@takes(real_floats)
def leaky_relu(input: Any, negative_slope: float = 0.01) -> Any:
    """Return `input` where it is positive, `negative_slope * input` elsewhere."""
    return call(_LEAKY_RELU, (input, negative_slope))


@may_be_in_place
@takes(real_floats)
def elu(input: Any, alpha: float = 1.0) -> Any:
    """Return `input` where it is positive, `alpha * (exp(input) - 1)` elsewhere."""
    return call(_ELU, (input, alpha))


@may_be_in_place
@takes(floats_alone)
def silu(input: Any) -> Any:
    """Return `input * sigmoid(input)`."""
    return input * sigmoid(input)


@takes(real_floats)
def gelu(input: Any, approximate: str = "none") -> Any:
    """Return `input` times the normal distribution's probability below it; "tanh" approximates it."""
    if approximate not in ("none", "tanh"):
        raise AutogradError(f"gelu: approximate argument must be either 'none' or 'tanh', but got {approximate!r}")
    if approximate == "tanh":
        return input * 0.5 * (1 + tanh((input + input**3 * 0.044715) * math.sqrt(2 / math.pi)))
    return input * 0.5 * (1 + erf(input * math.sqrt(0.5)))
