"""The error functions erf, erfc and erfinv, with kernels in NumPy and derivatives.

They depend on NumPy and the standard library alone; erfc is taken from `math`, element by element.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.direct_functions import unary_function
from ...registry.define_op import by_element, define, infer_same, polynomial, quiet, xp
from ...registry.dtype_constraints import no_complex
from .unary import exp, square

PUBLIC = "erf erfc erfinv".split()

# ---- the error function ----------------------------------------------------------------------------------------------

_ERF_P = (
    9.60497373987051638749,
    90.0260197203842689217,
    2232.00534594684319226,
    7003.32514112805075473,
    55592.3013010394962768,
)
_ERF_Q = (
    1.0,
    33.5617141647503099647,
    521.357949780152679795,
    4594.32382970980127987,
    22629.0000613890934246,
    49267.3942608635921086,
)
_ERFC_P = (
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687, 48.6371970985681366614,
    196.520832956077098242, 526.445194995477358631, 934.528527171957607540, 1027.55188689515710272,
    557.535335369399327526,
)  # fmt: skip
_ERFC_Q = (
    1.0, 13.2281951154744992508, 86.7072140885989742329, 354.937778887819891062, 975.708501743205489753,
    1823.90916687909736289, 2246.33760818710981792, 1656.66309194161350182, 557.535340817727675546,
)  # fmt: skip
"""Rational approximations of erf(x)/x in x**2 below 1, and of erfc(x) exp(x**2) between 1 and 8 (Cephes by Moshier)."""


def _erf(a: Any) -> Any:
    x = a.astype(np.float64)
    size = xp.abs(x)
    square = x * x
    inner = x * polynomial(_ERF_P, square) / polynomial(_ERF_Q, square)
    far = xp.minimum(size, 8.0)
    outer = 1 - xp.exp(-far * far) * polynomial(_ERFC_P, far) / polynomial(_ERFC_Q, far)
    return xp.where(size < 1, inner, xp.copysign(outer, x)).astype(a.dtype)


def _erf_backward(ctx: Any, g: Any) -> Any:
    (a,) = ctx.saved_tensors
    return g * (exp(-(a * a)) * (2 / math.sqrt(math.pi)))


erf = unary_function(
    define("erf", ("a",), quiet(_erf), infer_same, _erf_backward, promotes="float", admits=no_complex),
    __name__,
    "Return the error function.",
)


# ---- the complement and the inverse ----------------------------------------------------------------------------------


_erfc = by_element(math.erfc)
_erf_each = by_element(math.erf)


def _erfinv(a: Any) -> Any:
    """Solve erf(x) = a by Halley's steps, in the tails by those of erfc, from a rough first value."""
    y = a.astype(np.float64)
    size = xp.abs(y)
    inside = xp.where(size < 1, size, 0.0)
    logs = xp.log1p(-inside * inside)
    middle = 2 / (math.pi * 0.147) + logs / 2
    x = xp.sqrt(xp.sqrt(middle * middle - logs / 0.147) - middle)
    for _ in range(3):
        wrong = xp.where(inside < 0.5, _erf_each(x) - inside, (1 - inside) - _erfc(x))
        step = wrong / (2 / math.sqrt(math.pi) * xp.exp(-x * x))
        x = x - step / (1 + x * step)
    x = xp.where(size < 1, x, xp.where(size == 1, np.inf, np.nan))
    return xp.copysign(x, y).astype(a.dtype)


erfc = unary_function(
    define(
        "erfc",
        ("a",),
        quiet(_erfc),
        infer_same,
        lambda ctx, g: g * (exp(-square(ctx.saved_tensors[0])) * (-2 / math.sqrt(math.pi))),
        promotes="float",
        admits=no_complex,
        host_only=True,
    ),
    __name__,
    "Return `1 - erf(input)`, precise where that is near 0.",
)
erfinv = unary_function(
    define(
        "erfinv",
        ("a",),
        quiet(_erfinv),
        infer_same,
        lambda ctx, g: g * (exp(square(ctx.saved_tensors[0])) * (math.sqrt(math.pi) / 2)),
        saves="output",
        promotes="float",
        admits=no_complex,
        host_only=True,
    ),
    __name__,
    "Return the inverse of the error function; infinite at -1 and 1, NaN beyond.",
)
