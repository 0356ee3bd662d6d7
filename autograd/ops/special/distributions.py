"""Functions of probability and statistics, with derivatives: ndtr, entr, erfcx, igamma, zeta and their kind.

SciPy computes all but `entr`.
"""

from __future__ import annotations

import math
from typing import Any

from raygrad.errors import MissingDerivative

from ...dispatch.direct_functions import unary_function
from ...registry.define_op import define, infer_same, quiet, xp
from ...registry.dtype_constraints import no_complex
from ..elementwise.special import lgamma
from ..elementwise.unary import exp, log, square
from .scipy_functions import scipy_binary, scipy_unary

PUBLIC = "igamma igammac".split()

_ROOT_OF_TWO_PI = math.sqrt(2 * math.pi)


def _entr(a: Any) -> Any:
    inside = xp.where(a > 0, a, 1)
    out = -inside * xp.log(inside)
    return xp.where(a > 0, out, xp.where(a == 0, 0, xp.where(xp.isnan(a), a, -math.inf))).astype(a.dtype)


entr = unary_function(
    define(
        "entr",
        ("a",),
        quiet(_entr),
        infer_same,
        lambda ctx, g: g * (-1 - log(ctx.saved_tensors[0])),
        promotes="float",
        admits=no_complex,
    ),
    __name__,
    "Return `-input * log(input)`, 0 at 0 and minus infinity below.",
)


def _erfcx_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    return g * (2 * a * out - 2 / math.sqrt(math.pi))


erfcx = scipy_unary(
    "erfcx",
    "erfcx",
    __name__,
    "Return `exp(input**2) * erfc(input)` without overflow.",
    _erfcx_backward,
    ("a", "output"),
)
ndtr = scipy_unary(
    "ndtr",
    "ndtr",
    __name__,
    "Return the distribution function of the standard normal distribution.",
    lambda ctx, g: g * (exp(square(ctx.saved_tensors[0]) / -2) / _ROOT_OF_TWO_PI),
    "a",
)
ndtri = scipy_unary(
    "ndtri",
    "ndtri",
    __name__,
    "Return the quantile of the standard normal distribution, the inverse of `ndtr`.",
    lambda ctx, g: g * (exp(square(ctx.saved_tensors[0]) / 2) * _ROOT_OF_TWO_PI),
    "output",
)
log_ndtr = scipy_unary(
    "log_ndtr",
    "log_ndtr",
    __name__,
    "Return the logarithm of `ndtr(input)`, precise where that is near 0.",
    lambda ctx, g: g / erfcx(ctx.saved_tensors[0] * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),
    "a",
)


# ---- incomplete gamma functions and zeta -----------------------------------------------------------------------------


def _by_second(ctx: Any, slope: Any) -> Any:
    """Return the gradients of a function that has a derivative by its second operand alone.

    Raises:
        MissingDerivative: that by the first is wanted.
    """
    if ctx.needs_input_grad[0]:
        raise MissingDerivative(
            "igamma, igammac and zeta have no derivative by their first operand: detach() it, or give it as a number"
        )
    return None, slope


def _density(ctx: Any) -> Any:
    a, x = ctx.saved_tensors
    return exp((a - 1) * log(x) - x - lgamma(a))


igamma = scipy_binary(
    "igamma",
    "gammainc",
    __name__,
    "Return the regularised lower incomplete gamma function of order `input` at `other`.",
    lambda ctx, g: _by_second(ctx, g * _density(ctx)),
)
igammac = scipy_binary(
    "igammac",
    "gammaincc",
    __name__,
    "Return the regularised upper incomplete gamma function of order `input` at `other`.",
    lambda ctx, g: _by_second(ctx, -g * _density(ctx)),
)


def _zeta_slope(ctx: Any) -> Any:
    x, q = ctx.saved_tensors
    return -x * zeta(x + 1, q)


zeta = scipy_binary(
    "zeta",
    "zeta",
    __name__,
    "Return Hurwitz's zeta function of `input` at `other`.",
    lambda ctx, g: _by_second(ctx, g * _zeta_slope(ctx)),
    integers=True,
)
gammainc, gammaincc = igamma, igammac
