"""Elementwise arithmetic of two operands: add, mul, pow, maximum, clamp, atan2, lerp, with derivatives.

Operands are tensors, or a tensor and a Python number. Division is in `division`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, DtypeError
from raygrad.tracebacks import leave

from ...dispatch.direct_functions import binary_function
from ...dispatch.dispatch import call, call_few
from ...dispatch.operand_errors import wrong_argument
from ...dispatch.tensor_arguments import NUMBERS
from ...registry.define_op import conj, define, infer_elementwise, log_of_sum, quiet
from ...registry.dtype_constraints import alike, floats_alone, no_bools, no_complex, real_floats, real_numbers, takes
from ..layout.axis_order import zeros_apart
from .division import div
from .unary import exp, log
from .where import keep, where

PUBLIC = """
    add addcdiv addcmul atan2 clamp clamp_max clamp_min hypot lerp logaddexp maximum minimum mul pow sub
""".split()

# ---- sums and products -----------------------------------------------------------------------------------------------


def _no_bool_among(name: str, operands: Sequence[Any], dtype: Any) -> None:
    """Refuse bools as operands of a subtraction."""
    if dtype.kind == "b":
        raise AutogradError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if any(o.dtype.kind == "b" if hasattr(o, "dtype") else type(o) is bool for o in operands):
        raise AutogradError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. "
            "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )


def _mul_backward(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    if g.dtype.kind == "f":
        return g * b if need_a else None, g * a if need_b else None
    return g * conj(b) if need_a else None, g * conj(a) if need_b else None


_CROSSED = {"a": "b", "b": "a"}
"""The operand that each operand's gradient needs."""

_ADD = define(
    "add",
    ("a", "b"),
    quiet(np.add),
    infer_elementwise("add"),
    lambda ctx, g: (g, g),
    saves="none",
    promotes="arith",
)
_SUB = define(
    "sub",
    ("a", "b"),
    quiet(np.subtract),
    infer_elementwise("sub"),
    lambda ctx, g: (g, -g if ctx.needs_input_grad[1] else None),
    saves="none",
    promotes="arith",
    admits=_no_bool_among,
)
mul = binary_function(
    define(
        "mul",
        ("a", "b"),
        quiet(np.multiply),
        infer_elementwise("mul"),
        _mul_backward,
        saved_for=_CROSSED,
        promotes="arith",
    ),
    __name__,
    "Return `input * other`.",
)


def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return `input + alpha * other`."""
    try:
        return call_few(_ADD, input, other if type(alpha) is int and alpha == 1 else _scaled(other, alpha))
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return `input - alpha * other`."""
    try:
        return call_few(_SUB, input, other if type(alpha) is int and alpha == 1 else _scaled(other, alpha))
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def _scaled(other: Any, alpha: Any) -> Any:
    return mul(other, alpha) if hasattr(other, "dtype") else other * alpha


# ---- powers ----------------------------------------------------------------------------------------------------------


def _pow(a: Any, b: Any) -> Any:
    if b is True and a.dtype.kind == "b":
        return a.copy()
    if type(b) is float and b == -0.5:
        return 1 / np.sqrt(a)  # as that of 0.5 is a root: unlike powers at -0.0 and at minus infinity
    try:
        return a**b  # the operator, not np.power: it squares and takes roots where the exponent is such a number
    except ValueError:
        if not hasattr(b, "dtype"):
            raise AutogradError("Integers to negative integer powers are not allowed.") from None
        whole = np.where(np.abs(a) == 1, a ** np.abs(b), 0)  # of 1 / a, what is no fraction
        return np.where(b < 0, whole, a ** np.maximum(b, 0))


def _pow_backward(ctx: Any, g: Any) -> Any:
    a, b, out = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    return _pow_base(a, b, g) if need_a else None, _pow_exponent(a, b, out, g) if need_b else None


def _pow_base(a: Any, b: Any, g: Any) -> Any:
    if hasattr(b, "shape"):
        return keep(g * conj(b * a ** (b - 1)), b != 0)
    if b == 0:
        return zeros_apart(g)
    if b == 2 and not hasattr(a, "grad_fn"):  # of arrays in one step; of tensors with the history that any power has
        return g * conj(a * b)
    return g * conj(b * a ** (b - 1))


def _is_no_root(exponent: Any) -> Any:
    """Tell where an exponent is real and not negative, so that the slope of 0 ** exponent with respect to it is 0."""
    if not hasattr(exponent, "dtype") or exponent.dtype.kind != "c":
        return exponent >= 0
    return (exponent.imag == 0) & (exponent.real >= 0)


def _pow_exponent(a: Any, b: Any, out: Any, g: Any) -> Any:
    if hasattr(a, "shape"):
        return g * keep(conj(out * log(a)), (a != 0) | ~_is_no_root(b))
    if a == 0:
        return g * where(_is_no_root(b), 0.0, out * -math.inf)
    if isinstance(a, complex) or out.dtype.kind == "c":
        return g * conj(out * complex(np.log(complex(a))))
    return g * (out * (math.log(a) if a > 0 else math.nan))


def _no_power_of_bools(name: str, operands: Sequence[Any], dtype: Any) -> None:
    """Refuse powers of bools by bools; the exponent True leaves them unchanged."""
    if operands[1] is not True:
        no_bools(name, operands, dtype)


_POW = define(
    "pow",
    ("a", "b"),
    quiet(_pow),
    infer_elementwise("pow"),
    _pow_backward,
    saves=("a", "b", "output"),
    saved_beside={"output": "b"},
    promotes="arith",
    admits=_no_power_of_bools,
)


def pow(input: Any, exponent: Any) -> Any:
    """Return `input ** exponent`; either may be a number."""
    return call_few(_POW, input, exponent)


# ---- maximum, minimum, clamp -----------------------------------------------------------------------------------------


def _maximum_backward(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    shared = where(a == b, g / 2, g)
    return keep(shared, ~(a < b)) if need_a else None, keep(shared, ~(a > b)) if need_b else None


def _minimum_backward(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    shared = where(a == b, g / 2, g)
    return keep(shared, ~(a > b)) if need_a else None, keep(shared, ~(a < b)) if need_b else None


def _clamp(a: Any, low: Any, high: Any) -> Any:
    out = a if low is None else np.maximum(a, low)
    return out if high is None else np.minimum(out, high)


def _clamp_infer(params: tuple[Any, ...], a: Any, low: Any, high: Any) -> Any:
    if low is None and high is None:
        raise AutogradError("clamp: At least one of 'min' or 'max' must not be None")
    return _CLAMP_SHAPE(params, *(o for o in (a, low, high) if o is not None))


_CLAMP_SHAPE = infer_elementwise("clamp")


def _clamp_backward(ctx: Any, g: Any) -> Any:
    a, low, high = ctx.saved_tensors
    need_a, need_low, need_high = ctx.needs_input_grad
    inside = True
    if need_a and low is not None:
        inside = a >= low
    if need_a and high is not None:
        inside = (a <= high) & inside if low is not None else a <= high
    to_low = to_high = None
    if need_low:
        to_low = keep(g, a < low if high is None else (a < low) & (low < high))
    if need_high:
        to_high = keep(g, a > high if low is None else (a > high) | (high < low))
    return keep(g, inside) if need_a else None, to_low, to_high


maximum = binary_function(
    define(
        "maximum",
        ("a", "b"),
        np.maximum,
        infer_elementwise("maximum"),
        _maximum_backward,
        promotes="arith",
        admits=no_complex,
    ),
    __name__,
    "Return the greater of the two, elementwise; NaN where either is.",
)
minimum = binary_function(
    define(
        "minimum",
        ("a", "b"),
        np.minimum,
        infer_elementwise("minimum"),
        _minimum_backward,
        promotes="arith",
        admits=no_complex,
    ),
    __name__,
    "Return the smaller of the two, elementwise; NaN where either is.",
)


def _of_clamp(name: str, operands: Sequence[Any], dtype: Any) -> None:
    """Refuse complex operands of clamp, and bools, unless one bound is a tensor and there is no other: by that they are
    limited as by `maximum`."""
    bounded = any(hasattr(bound, "dtype") for bound in operands[1:]) and any(bound is None for bound in operands[1:])
    (no_complex if bounded else real_numbers)(name, operands, dtype)


_CLAMP = define(
    "clamp",
    ("a", "min", "max"),
    _clamp,
    _clamp_infer,
    _clamp_backward,
    promotes="arith",
    admits=_of_clamp,
)


def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Return `input` limited to [min, max]; bounds are numbers, tensors, or None.

    Raises:
        RuntimeError: there is no bound.
        TypeError: one is a number and the other a tensor.
    """
    if min is None and max is None:
        _clamp_infer((), input, None, None)
    if min is not None and max is not None and (type(min) in NUMBERS) is not (type(max) in NUMBERS):
        raise DtypeError("clamp(): 'min' and 'max' must both be numbers or both be Tensors; make the number a Tensor")
    return call(_CLAMP, (input, min, max))


def clamp_min(input: Any, min: Any) -> Any:
    """Return `input`, but at least `min`."""
    if min is None:
        raise wrong_argument("clamp_min", "min", 2, "Tensor or a number", "NoneType")
    return clamp(input, min)


def clamp_max(input: Any, max: Any) -> Any:
    """Return `input`, but at most `max`."""
    if max is None:
        raise wrong_argument("clamp_max", "max", 2, "Tensor or a number", "NoneType")
    return clamp(input, None, max)


# ---- atan2, logaddexp, hypot -----------------------------------------------------------------------------------------


def _atan2_backward(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    square = a * a + b * b
    scale = keep(1 / square, square != 0)  # at the origin there is no angle to change
    return g * b * scale if need_a else None, g * -a * scale if need_b else None


def _logaddexp_backward(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    return g / conj(1 + exp(b - a)) if need_a else None, g / conj(1 + exp(a - b)) if need_b else None


def _hypot_backward(ctx: Any, g: Any) -> Any:
    a, b, out = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    return g * (a / out) if need_a else None, g * (b / out) if need_b else None


atan2 = binary_function(
    define(
        "atan2",
        ("a", "b"),
        np.arctan2,
        infer_elementwise("atan2"),
        _atan2_backward,
        promotes="float",
        admits=no_complex,
    ),
    __name__,
    "Return the angle of the point (other, input).",
)
logaddexp = binary_function(
    define(
        "logaddexp",
        ("a", "b"),
        quiet(log_of_sum),
        infer_elementwise("logaddexp"),
        _logaddexp_backward,
        promotes="float",
        admits=floats_alone,
    ),
    __name__,
    "Return `log(exp(input) + exp(other))` without overflow.",
)
hypot = binary_function(
    define(
        "hypot",
        ("a", "b"),
        quiet(np.hypot),
        infer_elementwise("hypot"),
        _hypot_backward,
        saves=("a", "b", "output"),
        promotes="float",
        admits=real_floats,
    ),
    __name__,
    "Return `sqrt(input**2 + other**2)` without overflow.",
)


# ---- compositions ----------------------------------------------------------------------------------------------------


@alike(0, 2)
@takes(floats_alone, 2)
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """Return `input + weight * (end - input)`."""
    if hasattr(end, "dtype") and end.dtype != input.dtype:
        raise AutogradError(f"expected dtype {input.dtype} for `end` but got dtype {end.dtype}: convert one of them")
    if input.dtype.kind != "f":
        no_bools("lerp", (), input.dtype)
    return add(input, mul(sub(end, input), weight))


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """Return `input + value * tensor1 * tensor2`."""
    product = mul(tensor1, tensor2)
    if input.dtype.kind == "b":
        no_bools("addcmul", (), product.dtype)
    return add(input, product, alpha=value)


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """Return `input + value * tensor1 / tensor2`."""
    if tensor1.dtype.kind in "iub" and tensor2.dtype.kind in "iub":
        raise AutogradError(
            "Integer division with addcdiv is no longer supported: write input + value * (tensor1 / tensor2) where "
            "fractions are meant, with rounding_mode='trunc' where not"
        )
    return add(input, div(tensor1, tensor2), alpha=value)
