"""Further elementwise functions, most of them composed of other ops: exp2, frac, logit, nan_to_num, xlogy, fmax,
isclose.

The ops of one operand with a kernel of NumPy's are in `unary`, those of two operands in `arithmetic`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError, DtypeError

from ...dispatch.direct_functions import OfTwo, binary_function, unary_function
from ...dispatch.dispatch import call
from ...dispatch.shape_errors import check_not_negative
from ...registry.define_op import conj, define, infer_comparison, infer_elementwise, infer_same, quiet, xp
from ...registry.dtype_constraints import alike, no_complex, real_floats, takes
from ..layout.axis_order import to_dtype, zeros_as
from ..reduction.reduce import sum
from .arithmetic import add, atan2, logaddexp, mul, pow, sub
from .compare import isfinite, isinf, isnan
from .complex_numbers import complex, imag, real
from .division import div
from .unary import abs, cos, sin, trunc
from .where import keep, where

PUBLIC = """
    allclose angle copysign deg2rad exp2 float_power fmax fmin frac frexp isclose isneginf isposinf isreal ldexp
    logaddexp2 logit nan_to_num polar positive rad2deg rsub signbit sinc xlog1py xlogy
""".split()

# ---- mantissa and exponent -------------------------------------------------------------------------------------------


class MantissaAndExponent(NamedTuple):
    """What `frexp` returns."""

    mantissa: Any
    exponent: Any


_FREXP = define(
    "frexp",
    ("a",),
    np.frexp,
    lambda params, a: [(a.shape, a.dtype), (a.shape, np.dtype(np.int32))],
    lambda ctx, grads: None if grads[0] is None else grads[0] / exp2(to_dtype(ctx.saved_tensors[0], grads[0].dtype)),
    saves="output1",
    outputs=2,
    admits=real_floats,
)


@takes(real_floats)
def frexp(input: Any) -> MantissaAndExponent:
    """Return mantissas in (-1, -0.5] or [0.5, 1), and the powers of two that they are times: int32; both 0 at 0."""
    return MantissaAndExponent(*call(_FREXP, (input,)))


# ---- one operand -----------------------------------------------------------------------------------------------------


def positive(input: Any) -> Any:
    """Return `input` unchanged; bools are refused."""
    if input.dtype.kind == "b":
        raise AutogradError("positive: the `+` of a bool tensor is not supported; convert it to an integer first")
    return input


@alike(0, 1)
@takes(real_floats, 2)
def polar(abs: Any, angle: Any) -> Any:
    """Return complex numbers of given sizes and angles."""
    return complex(abs * cos(angle), abs * sin(angle))


def angle(input: Any) -> Any:
    """Return the angle of complex numbers; of real ones pi where they are negative, 0 elsewhere."""
    if input.dtype.kind == "c":
        return atan2(imag(input), real(input))
    zeros = zeros_as(input)
    return where(input < 0, zeros + math.pi, where(input != input, zeros + math.nan, zeros))


def exp2(input: Any) -> Any:
    """Return 2 to the power of `input`."""
    return pow(2.0, input)


@takes(no_complex)
def deg2rad(input: Any) -> Any:
    """Return degrees as radians."""
    return mul(input, math.pi / 180)


@takes(no_complex)
def rad2deg(input: Any) -> Any:
    """Return radians as degrees."""
    return mul(input, 180 / math.pi)


@takes(real_floats)
def frac(input: Any) -> Any:
    """Return the fractional part, with the sign of `input`."""
    return sub(input, trunc(input))


def _sinc(a: Any) -> Any:
    angle = xp.where(a == 0, a.dtype.type(1), a * math.pi)
    return xp.where(a == 0, a.dtype.type(1), xp.sin(angle) / angle)


def _sinc_backward(ctx: Any, g: Any) -> Any:
    """Zero where the square of `a` is: there PyTorch's second derivative is NaN, and that along `g` is zero."""
    (a,) = ctx.saved_tensors
    angle, square = a * math.pi, a * a * math.pi
    return g * conj(where(square == 0, 0.0, (angle * cos(angle) - sin(angle)) / square))


def _logit(a: Any, low: float | None) -> Any:
    p = a if low is None else xp.minimum(xp.maximum(a, low), 1 - low)
    return xp.log(p / (1 - p))


def _logit_backward(ctx: Any, g: Any) -> Any:
    (a,) = ctx.saved_tensors
    (low,) = ctx.params
    bottom = 0.0 if low is None else low
    return where((a >= bottom) & (a <= 1 - bottom), g / (a * (1 - a)), math.nan if low is None else 0.0)


sinc = unary_function(
    define("sinc", ("a",), quiet(_sinc), infer_same, _sinc_backward, promotes="float"),
    __name__,
    "Return `sin(pi * input) / (pi * input)`, 1 at 0; its derivative at 0 is 0.",
)
_LOGIT = define("logit", ("a",), quiet(_logit), infer_same, _logit_backward, promotes="float", admits=no_complex)


def logit(input: Any, eps: float | None = None) -> Any:
    """Return `log(input / (1 - input))`, the inverse of sigmoid; with `eps`, of `input` limited to [eps, 1 - eps]."""
    return call(_LOGIT, (input,), (None if eps is None else float(eps),))


def nan_to_num(input: Any, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """Return `input` with numbers for NaN and the infinities: by default 0 and the extremes of the dtype."""
    if input.dtype.kind == "c":
        return complex(*[nan_to_num(part, nan, posinf, neginf) for part in (real(input), imag(input))])
    if input.dtype.kind != "f":
        return input
    limits = np.finfo(input.dtype)
    top = float(limits.max) if posinf is None else posinf
    bottom = float(limits.min) if neginf is None else neginf
    out = where(isnan(input), 0.0 if nan is None else nan, input)
    return where(isposinf(input), top, where(isneginf(input), bottom, out))


# ---- two operands ----------------------------------------------------------------------------------------------------


def _copysign_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    return g * where(a == 0, 0.0, out / a), zeros_as(g)


def _times_log(log_of: Any) -> Any:
    def kernel(a: Any, b: Any) -> Any:
        none = (a == 0) & ~np.isnan(b)
        dtype = b.dtype if hasattr(b, "dtype") else a.dtype
        where_none: Any = np.where
        return where_none(none, dtype.type(0), (a * log_of(np.where(none, 1, b))).astype(dtype, copy=False))

    return kernel


def _times_log_backward(ctx: Any, g: Any, function: Any, add: int) -> Any:
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    to_a = None
    if need_a:
        b = b if hasattr(b, "dtype") else zeros_as(a) + b
        to_a = keep(function(g, b), (a != 0) | ~(b <= -add))
    return to_a, g * (a / (b + add if add else b)) if need_b else None  # -0.0 + 0 would be 0.0


copysign = binary_function(
    define(
        "copysign",
        ("a", "b"),
        np.copysign,
        infer_elementwise("copysign"),
        _copysign_backward,
        saves=("a", "output"),
        promotes="float",
        admits=no_complex,
    ),
    __name__,
    "Return the size of `input` with the sign of `other`.",
)
xlogy: OfTwo = binary_function(
    define(
        "xlogy",
        ("a", "b"),
        quiet(_times_log(np.log)),
        infer_elementwise("xlogy"),
        lambda ctx, g: _times_log_backward(ctx, g, xlogy, 0),
        promotes="float",
        admits=no_complex,
    ),
    __name__,
    "Return `input * log(other)`, 0 where `input` is 0.",
)
xlog1py: OfTwo = binary_function(
    define(
        "xlog1py",
        ("a", "b"),
        quiet(_times_log(np.log1p)),
        infer_elementwise("xlog1py"),
        lambda ctx, g: _times_log_backward(ctx, g, xlog1py, 1),
        promotes="float",
        admits=no_complex,
    ),
    __name__,
    "Return `input * log(1 + other)`, 0 where `input` is 0.",
)


@takes(no_complex, 2)
def logaddexp2(input: Any, other: Any) -> Any:
    """Return `log2(2**input + 2**other)` without overflow."""
    if not any(one.dtype.kind == "f" for one in (input, other) if hasattr(one, "dtype")):
        real_floats("logaddexp2", (), (input if hasattr(input, "dtype") else other).dtype)
    ln2 = math.log(2.0)
    return div(logaddexp(mul(input, ln2), mul(other, ln2)), ln2)


@takes(no_complex, 2)
def fmax(input: Any, other: Any) -> Any:
    """Return the greater of the two, the number where one is NaN; of equal ones, the first gets the gradient."""
    return where((input >= other) | isnan(other), input, other)


@takes(no_complex, 2)
def fmin(input: Any, other: Any) -> Any:
    """Return the smaller of the two, the number where one is NaN; of equal ones, the first gets the gradient."""
    return where((input <= other) | isnan(other), input, other)


def ldexp(input: Any, other: Any) -> Any:
    """Return `input * 2**other`."""
    return mul(input, pow(2.0, other))


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return `other - alpha * input`."""
    return sub(other, input, alpha=alpha)


def float_power(input: Any, exponent: Any) -> Any:
    """Return `input ** exponent`, in double precision."""
    wide = [
        to_dtype(x, np.complex128 if x.dtype.kind == "c" else np.float64) if hasattr(x, "dtype") else x
        for x in (input, exponent)
    ]
    return pow(*wide)


# ---- predicates ------------------------------------------------------------------------------------------------------

signbit = unary_function(
    define("signbit", ("a",), np.signbit, infer_comparison("signbit"), promotes="arith", admits=no_complex),
    __name__,
    "Return where the sign of `input` is minus, also that of zero.",
)


@takes(no_complex)
def isposinf(input: Any) -> Any:
    """Return where `input` is plus infinity."""
    return isinf(input) & (input > 0)


@takes(no_complex)
def isneginf(input: Any) -> Any:
    """Return where `input` is minus infinity."""
    return isinf(input) & (input < 0)


def isreal(input: Any) -> Any:
    """Return where the imaginary part is zero."""
    return input.imag == 0 if input.dtype.kind == "c" else input.isfinite() | True


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Return where `input` and `other` differ by at most `atol + rtol * abs(other)`."""
    for one in (input, other):
        if not hasattr(one, "dtype"):
            raise DtypeError(f"isclose compares tensors, got a {type(one).__name__}; wrap it with raygrad.tensor")
    if input.dtype != other.dtype:
        raise AutogradError(f"{input.dtype} did not match {other.dtype}: isclose compares tensors of one dtype")
    check_not_negative("isclose", "rtol", (rtol,))
    check_not_negative("isclose", "atol", (atol,))
    if input.dtype.kind == "b":
        return input == other
    near = isfinite(input) & isfinite(other) & (abs(sub(input, other)) <= add(mul(abs(other), rtol), atol))
    close = near | (input == other)
    return close | (isnan(input) & isnan(other)) if equal_nan else close


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Tell whether `isclose` holds everywhere; in a session, waits."""
    return not bool(sum(~isclose(input, other, rtol, atol, equal_nan)))
