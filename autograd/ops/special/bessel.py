"""Bessel functions and their kind, with derivatives: ordinary, modified, scaled, spherical, and Airy's.

SciPy computes all but `spherical_bessel_j0`. Where a derivative divides by its operand, its limit at zero stands there.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.direct_functions import unary_function
from ...dispatch.dispatch import call
from ...registry.define_op import define, infer_same, quiet, xp
from ...registry.dtype_constraints import no_complex
from ..elementwise.unary import cos, sign
from ..elementwise.where import where
from .scipy_functions import load_scipy, scipy_unary

PUBLIC = ["i0"]

BOTH = ("a", "output")


def _by_operand(value: Any, a: Any, limit: float) -> Any:
    """Return `value / a`, and `limit` where `a` is zero."""
    zero = a == 0
    return where(zero, limit, value / where(zero, 1.0, a))


# ---- ordinary --------------------------------------------------------------------------------------------------------


def _of_first_order(ctx: Any, g: Any, zeroth: Any, sign: int, limit: float) -> Any:
    """The derivative of a function of order one, `sign * zeroth(a) - out / a`."""
    a, out = ctx.saved_tensors
    return g * (sign * zeroth(a) - _by_operand(out, a, limit))


def _by_bessel_j1(ctx: Any, g: Any) -> Any:
    return -g * bessel_j1(ctx.saved_tensors[0])


def _by_bessel_y1(ctx: Any, g: Any) -> Any:
    return -g * bessel_y1(ctx.saved_tensors[0])


bessel_j0 = scipy_unary(
    "bessel_j0",
    "j0",
    __name__,
    "Return the Bessel function of the first kind of order 0.",
    _by_bessel_j1,
    "a",
)
bessel_j1 = scipy_unary(
    "bessel_j1",
    "j1",
    __name__,
    "Return the Bessel function of the first kind of order 1.",
    lambda ctx, g: _of_first_order(ctx, g, bessel_j0, 1, 0.5),
    BOTH,
)
bessel_y0 = scipy_unary(
    "bessel_y0",
    "y0",
    __name__,
    "Return the Bessel function of the second kind of order 0; NaN where `input` is negative.",
    _by_bessel_y1,
    "a",
)
bessel_y1 = scipy_unary(
    "bessel_y1",
    "y1",
    __name__,
    "Return the Bessel function of the second kind of order 1; NaN where `input` is negative.",
    lambda ctx, g: _of_first_order(ctx, g, bessel_y0, 1, -float("inf")),
    BOTH,
)

# ---- modified --------------------------------------------------------------------------------------------------------


def _by_i1(ctx: Any, g: Any) -> Any:
    return g * i1(ctx.saved_tensors[0])


i0 = scipy_unary(
    "i0",
    "i0",
    __name__,
    "Return the modified Bessel function of the first kind of order 0.",
    _by_i1,
    "a",
)
i1 = scipy_unary(
    "i1",
    "i1",
    __name__,
    "Return the modified Bessel function of the first kind of order 1.",
    lambda ctx, g: _of_first_order(ctx, g, i0, 1, 0.5),
    BOTH,
)


def _i0e_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    return g * (i1e(a) - sign(a) * out)


def _i1e_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    return g * (i0e(a) - sign(a) * out - _by_operand(out, a, 0.5))


def _by_modified_bessel_k1(ctx: Any, g: Any) -> Any:
    return -g * modified_bessel_k1(ctx.saved_tensors[0])


i0e = scipy_unary(
    "i0e",
    "i0e",
    __name__,
    "Return `i0(input)` times `exp(-abs(input))`.",
    _i0e_backward,
    BOTH,
)
i1e = scipy_unary(
    "i1e",
    "i1e",
    __name__,
    "Return `i1(input)` times `exp(-abs(input))`.",
    _i1e_backward,
    BOTH,
)
modified_bessel_k0 = scipy_unary(
    "modified_bessel_k0",
    "k0",
    __name__,
    "Return the modified Bessel function of the second kind of order 0.",
    _by_modified_bessel_k1,
    "a",
)
modified_bessel_k1 = scipy_unary(
    "modified_bessel_k1",
    "k1",
    __name__,
    "Return the modified Bessel function of the second kind of order 1.",
    lambda ctx, g: _of_first_order(ctx, g, modified_bessel_k0, -1, float("inf")),
    BOTH,
)


def _k0e_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    return g * (out - scaled_modified_bessel_k1(a))


def _k1e_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    return g * (out - scaled_modified_bessel_k0(a) - _by_operand(out, a, float("inf")))


scaled_modified_bessel_k0 = scipy_unary(
    "scaled_modified_bessel_k0",
    "k0e",
    __name__,
    "Return `modified_bessel_k0(input)` times `exp(input)`.",
    _k0e_backward,
    BOTH,
)
scaled_modified_bessel_k1 = scipy_unary(
    "scaled_modified_bessel_k1",
    "k1e",
    __name__,
    "Return `modified_bessel_k1(input)` times `exp(input)`.",
    _k1e_backward,
    BOTH,
)
modified_bessel_i0, modified_bessel_i1 = i0, i1

# ---- spherical, and Airy's -------------------------------------------------------------------------------------------


def _spherical(a: Any) -> Any:
    return xp.where(a == 0, a.dtype.type(1), xp.where(xp.isinf(a), a.dtype.type(0), xp.sin(a) / a))


def _spherical_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    return g * _by_operand(cos(a) - out, a, 0.0)


spherical_bessel_j0 = unary_function(
    define(
        "spherical_bessel_j0",
        ("a",),
        quiet(_spherical),
        infer_same,
        _spherical_backward,
        saves=BOTH,
        promotes="float",
        admits=no_complex,
    ),
    __name__,
    "Return the spherical Bessel function of the first kind of order 0, `sin(input) / input`.",
)


def _airy(a: Any, order: int) -> Any:
    return load_scipy().airy(a)[order].astype(a.dtype, copy=False)


def _airy_backward(ctx: Any, g: Any) -> Any:
    """Ai'' is `a * Ai`; higher derivatives follow from that."""
    (a,) = ctx.saved_tensors
    return g * (call(_AIRY, (a,), (0,)) * a if ctx.params[0] else call(_AIRY, (a,), (1,)))


_AIRY = define(
    "airy_ai",
    ("a",),
    quiet(_airy),
    infer_same,
    _airy_backward,
    promotes="float",
    admits=no_complex,
    host_only=True,
)


def airy_ai(input: Any) -> Any:
    """Return the Airy function Ai."""
    return call(_AIRY, (input,), (0,))
