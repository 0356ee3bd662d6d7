"""Division of two operands, elementwise, with its derivatives: div, floor_divide, remainder, fmod.

Operands are tensors, or a tensor and a Python number. Other arithmetic is in `arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...dispatch.direct_functions import binary_function
from ...dispatch.dispatch import call_few
from ...registry.define_op import conj, define, infer_elementwise, quiet, xp
from ...registry.dtype_constraints import real_numbers
from ..layout.axis_order import zeros_as

PUBLIC = "div floor_divide fmod remainder".split()


def _div_backward(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    return g / conj(b) if need_a else None, -g * conj((a / b) / b) if need_b else None


_DIV = define(
    "div",
    ("a", "b"),
    quiet(np.true_divide),
    infer_elementwise("div"),
    _div_backward,
    saved_for={"a": "b"},
    promotes="float",
)


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Return `input / other`; with `rounding_mode` "floor" or "trunc" rounded, integers then staying integers."""
    if rounding_mode is None:
        return call_few(_DIV, input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        raise AutogradError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return call_few(_DIV_TRUNC, input, other)


def _checked(kernel: Any) -> Any:
    """Return a kernel that refuses integer division by zero, for which NumPy gives zero."""

    def checked(a: Any, b: Any) -> Any:
        if (a.dtype if hasattr(a, "dtype") else b.dtype).kind in "iub" and not np.all(b):
            raise AutogradError("ZeroDivisionError: integer division by zero")
        return kernel(a, b)

    return quiet(checked)


def _div_trunc(a: Any, b: Any) -> Any:
    if (a.dtype if hasattr(a, "dtype") else b.dtype).kind not in "iub":
        return np.trunc(np.true_divide(a, b))
    quotient = np.floor_divide(a, b)
    return quotient + ((np.multiply(quotient, b) != a) & (quotient < 0))


def _floor_divide(a: Any, b: Any) -> Any:
    """Floats: the floor of the quotient, corrected as in Python, and infinite where `b` is zero."""
    out = np.floor_divide(a, b)
    return out if out.dtype.kind in "iub" else xp.where(xp.equal(b, 0), xp.true_divide(a, b), out).astype(out.dtype)


def _no_gradient(ctx: Any, g: Any) -> Any:
    need_a, need_b = ctx.needs_input_grad
    return zeros_as(g) if need_a else None, zeros_as(g) if need_b else None


def _define(name: str, kernel: Any, backward: Callable[[Any, Any], Any], **kept: Any) -> Any:
    """Define an op of two operands that takes real numbers, and refuses integer division by zero."""
    return define(
        name,
        ("a", "b"),
        _checked(kernel),
        infer_elementwise(name),
        backward,
        promotes="arith",
        admits=real_numbers,
        **kept,
    )


floor_divide = binary_function(
    _define("floor_divide", _floor_divide, _no_gradient, saves="none"),
    __name__,
    "Return `input / other` rounded towards minus infinity.",
)


_DIV_TRUNC = _define("div_trunc", _div_trunc, _no_gradient, saves="none")


remainder = binary_function(
    _define(
        "remainder",
        np.remainder,
        lambda ctx, g: (g, -g * floor_divide(*ctx.saved_tensors) if ctx.needs_input_grad[1] else None),
        saved_for={"a": "b", "b": "b"},
    ),
    __name__,
    "Return the remainder of `input / other`, with the sign of `other`, as Python's `%`.",
)


fmod = binary_function(
    _define(
        "fmod",
        np.fmod,
        lambda ctx, g: (g, -g * call_few(_DIV_TRUNC, *ctx.saved_tensors) if ctx.needs_input_grad[1] else None),
        saved_for={"a": "b", "b": "b"},
    ),
    __name__,
    "Return the remainder of `input / other`, with the sign of `input`, as C's fmod.",
)
