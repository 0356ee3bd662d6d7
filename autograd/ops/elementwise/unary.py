"""Elementwise functions of one operand: exp, log, sin, tanh, sqrt, abs, sigmoid, relu, round; a table of kernels and
vjp rules.

A rule saves the operand or the result, whichever alone is enough.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, MissingDerivative

from ...dispatch.direct_functions import OfOne, unary_function
from ...dispatch.dispatch import call, call_few
from ...registry.define_op import OpCallable, conj, define, infer_elementwise, infer_same, quiet, xp
from ...registry.dtype_constraints import no_bools, real_floats, real_numbers
from ...registry.registry import Admits, Op
from ..layout.axis_order import zeros_apart, zeros_as
from .complex_numbers import infer_real, real
from .where import keep

PUBLIC = """
    abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor log log10 log1p log2 neg
    reciprocal relu round rsqrt sgn sigmoid sign sin sinh sqrt square tan tanh trunc
""".split()

Rule = Callable[[Any, Any], Any]

LN2, LN10 = math.log(2.0), math.log(10.0)

# ---- kernels and shape rules without NumPy's own ---------------------------------------------------------------------


def _infer_neg(params: tuple[Any, ...], a: Any) -> Any:
    if a.dtype.kind == "b":
        raise AutogradError(
            "Negation, the `-` operator, on a bool tensor is not supported. "
            "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return a.shape, a.dtype


def _rounded(kernel: Any) -> Any:
    """Return a kernel that leaves integers and bools unchanged."""

    def rounded(a: Any) -> Any:
        return a.copy() if a.dtype.kind in "iub" else kernel(a)

    return rounded


def _infer_sign(params: tuple[Any, ...], a: Any) -> Any:
    if a.dtype.kind == "c":
        raise MissingDerivative("Unlike NumPy, sign doesn't support complex tensors: their direction is sgn")
    return a.shape, a.dtype


def _sign(a: Any) -> Any:
    if a.dtype.kind == "f":  # NaN has none, as in PyTorch
        return np.subtract(a > 0, a < 0, dtype=a.dtype)
    return a.copy() if a.dtype.kind == "b" else np.sign(a)


# ---- vjp rules -------------------------------------------------------------------------------------------------------


class _Tensors:
    """NumPy's names for the functions of tensors that rules use; for bare arrays the rules use NumPy itself."""

    cos: Any
    sin: Any
    cosh: Any
    sinh: Any
    sqrt: Any


def _linear(of: Callable[[Any, Any], Any]) -> Rule:
    """Return the vjp rule `g * conj(of(functions, residual))`, with NumPy's functions for arrays and ours for
    tensors."""

    def backward(ctx: Any, g: Any) -> Any:
        kept = ctx.saved_tensors[0]
        factor = of(np if type(kept) is np.ndarray else _Tensors, kept)
        return g * (factor if factor.dtype.kind == "f" else conj(factor))

    return backward


def _over(of: Callable[[Any], Any]) -> Rule:
    """Return the vjp rule `g / conj(of(residual))`."""

    def backward(ctx: Any, g: Any) -> Any:
        divisor = of(ctx.saved_tensors[0])
        return g / (divisor if divisor.dtype.kind == "f" else conj(divisor))

    return backward


def _to_zero(ctx: Any, g: Any) -> Any:
    return zeros_apart(g)


def _sgn_backward(ctx: Any, g: Any) -> Any:
    """Of a real number zero; a complex one's direction turns with what is across it. Zero at zero."""
    a, out = ctx.saved_tensors
    if a.dtype.kind != "c":
        return zeros_apart(g)
    size = abs(a)
    across = g - out * real(conj(out) * g)
    return keep(across / size, size != 0)


def _relu_backward(ctx: Any, g: Any) -> Any:
    (out,) = ctx.saved_tensors
    kept = keep(g, out != 0)  # it is positive, or NaN
    return kept + zeros_as(out) if hasattr(out, "grad_fn") else kept  # a second derivative is zero, not undefined


def _unary(
    name: str,
    kernel: OpCallable,
    backward: Rule,
    saves: str | tuple[str, ...] = "a",
    *,
    infer: OpCallable | None = None,
    promotes: str | None = None,
    admits: Admits | None = None,
    doc: str,
) -> OfOne:
    """Define an op of one operand, and return its function."""
    infer = infer or infer_elementwise(name)
    op = define(name, ("a",), kernel, infer, backward, saves=saves, promotes=promotes, admits=admits)
    return unary_function(op, __name__, doc)


def _rounding(name: str, kernel: OpCallable) -> Op:
    """Define an op that rounds real numbers, and return its function."""
    return define(name, ("a",), kernel, infer_same, _to_zero, saves="none", promotes="arith", admits=real_numbers)


def _smooth(name: str, kernel: OpCallable, backward: Rule, saves: str = "a", *, doc: str) -> OfOne:
    """Define an op that is computed in floating point for any dtype, and return its function."""
    return _unary(name, quiet(kernel), backward, saves, promotes="float", doc=doc)


def _acosh_slope(f: Any, a: Any) -> Any:
    """Return the slope of acosh; of complex numbers as two roots, whose product may lie on the other branch."""
    return 1 / (f.sqrt(a - 1) * f.sqrt(a + 1)) if a.dtype.kind == "c" else 1 / f.sqrt(a * a - 1)


neg = _unary("neg", np.negative, lambda ctx, g: -g, "none", infer=_infer_neg, doc="Return `-input`.")
abs = _unary(
    "abs",
    np.absolute,
    lambda ctx, g: g * sgn(ctx.saved_tensors[0]),
    infer=infer_real,
    promotes="arith",
    admits=no_bools,
    doc="Return the absolute value.",
)
_SIGN = define("sign", ("a",), quiet(_sign), _infer_sign, _to_zero, saves="none")
sgn = _unary(
    "sgn",
    quiet(_sign),
    _sgn_backward,
    ("a", "output"),
    infer=infer_same,
    doc="Return the sign: of real numbers -1, 0 or 1; of complex ones, the number of size one in their direction.",
)
floor = unary_function(_rounding("floor", _rounded(np.floor)), __name__, "Return the greatest integers not above.")
ceil = unary_function(_rounding("ceil", _rounded(np.ceil)), __name__, "Return the smallest integers not below.")
trunc = unary_function(_rounding("trunc", _rounded(np.trunc)), __name__, "Return `input` rounded towards zero.")
square = _unary(
    "square",
    quiet(lambda a: np.square(a) if a.dtype.kind != "b" else a.astype(np.int64)),
    _linear(lambda f, a: (a if f is np else a**1) * 2),  # the rule of pow
    infer=lambda params, a: (a.shape, np.dtype(np.int64) if a.dtype.kind == "b" else a.dtype),
    doc="Return `input * input`.",
)
reciprocal = _smooth(
    "reciprocal", lambda a: 1 / a, _linear(lambda f, out: -out * out), "output", doc="Return `1 / input`."
)
sqrt = _smooth("sqrt", np.sqrt, _over(lambda out: out * 2), "output", doc="Return the square root.")
rsqrt = _smooth(
    "rsqrt", lambda a: 1 / np.sqrt(a), _linear(lambda f, out: out**3 * -0.5), "output", doc="Return `1 / sqrt(input)`."
)
exp = _smooth("exp", np.exp, _linear(lambda f, out: out), "output", doc="Return e to the power of `input`.")
expm1 = _smooth(
    "expm1", np.expm1, _linear(lambda f, out: out + 1), "output", doc="Return `exp(input) - 1`, precise near zero."
)
log = _smooth("log", np.log, _over(lambda a: a), doc="Return the natural logarithm.")
log1p = _smooth("log1p", np.log1p, _over(lambda a: a + 1), doc="Return `log(1 + input)`, precise near zero.")
log2 = _smooth("log2", np.log2, _over(lambda a: a * LN2), doc="Return the logarithm to base 2.")
log10 = _smooth("log10", np.log10, _over(lambda a: a * LN10), doc="Return the logarithm to base 10.")
sin = _smooth("sin", np.sin, _linear(lambda f, a: f.cos(a)), doc="Return the sine.")
cos = _smooth("cos", np.cos, _linear(lambda f, a: -f.sin(a)), doc="Return the cosine.")
tan = _smooth("tan", np.tan, _linear(lambda f, out: out * out + 1), "output", doc="Return the tangent.")
asin = _smooth("asin", np.arcsin, _linear(lambda f, a: 1 / f.sqrt(1 - a * a)), doc="Return the inverse sine.")
acos = _smooth("acos", np.arccos, _linear(lambda f, a: -1 / f.sqrt(1 - a * a)), doc="Return the inverse cosine.")
atan = _smooth("atan", np.arctan, _over(lambda a: a * a + 1), doc="Return the inverse tangent.")
sinh = _smooth("sinh", np.sinh, _linear(lambda f, a: f.cosh(a)), doc="Return the hyperbolic sine.")
cosh = _smooth("cosh", np.cosh, _linear(lambda f, a: f.sinh(a)), doc="Return the hyperbolic cosine.")
tanh = _smooth("tanh", np.tanh, _linear(lambda f, out: 1 - out * out), "output", doc="Return the hyperbolic tangent.")
asinh = _smooth(
    "asinh", np.arcsinh, _linear(lambda f, a: 1 / f.sqrt(a * a + 1)), doc="Return the inverse hyperbolic sine."
)
acosh = _smooth("acosh", np.arccosh, _linear(_acosh_slope), doc="Return the inverse hyperbolic cosine.")
atanh = _smooth("atanh", np.arctanh, _over(lambda a: 1 - a * a), doc="Return the inverse hyperbolic tangent.")
sigmoid = _smooth(
    "sigmoid",
    lambda a: 1 / (1 + np.exp(-a)),
    _linear(lambda f, out: (1 - out) * out),
    "output",
    doc="Return `1 / (1 + exp(-input))`.",
)
relu = _unary(
    "relu",
    lambda a: np.maximum(a, 0),
    _relu_backward,
    "output",
    infer=infer_same,
    promotes="arith",
    admits=real_numbers,
    doc="Return `max(input, 0)`; its derivative at 0 is 0.",
)

# ---- rounding with digits --------------------------------------------------------------------------------------------


_ROUND = _rounding("round", lambda a, decimals: a.copy() if a.dtype.kind in "iub" else xp.round(a, decimals))


def round(input: Any, *, decimals: int = 0) -> Any:
    """Return `input` rounded to the nearest, halves to even.

    Raises:
        NotImplementedError: integers, to other than 0 decimals.
    """
    if decimals:
        real_floats("round to decimals", (input,), input.dtype)
    return call(_ROUND, (input,), (operator.index(decimals),))


# ---- signs -----------------------------------------------------------------------------------------------------------


def sign(input: Any) -> Any:
    """Return the sign of real numbers: -1, 0 or 1."""
    if input.dtype.kind == "c":
        _infer_sign((), input)
    return call_few(_SIGN, input)


_Tensors.cos, _Tensors.sin, _Tensors.cosh, _Tensors.sinh, _Tensors.sqrt = map(
    staticmethod, (cos, sin, cosh, sinh, sqrt)
)
