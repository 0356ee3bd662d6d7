"""The gamma functions: lgamma, digamma, polygamma, mvlgamma.

They depend on NumPy and the standard library alone. lgamma is taken from `math` element by element, which is slow and
precise to the last bits; the others are computed on whole arrays.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...dispatch.direct_functions import unary_function
from ...dispatch.dispatch import call
from ...registry.define_op import by_element, define, infer_same, quiet, xp
from ...registry.dtype_constraints import no_complex, real_numbers, takes

PUBLIC = "digamma lgamma mvlgamma polygamma".split()

# ---- the gamma function ----------------------------------------------------------------------------------------------

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""The Bernoulli numbers B2, B4, ... of the asymptotic series below."""

_FAR = 10.0
"""The argument above which the asymptotic series are precise."""


def _lgamma_of(x: float) -> float:
    if math.isinf(x):
        return math.inf
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


def _digamma(a: Any) -> Any:
    x = a.astype(np.float64)
    mirrored = x < 0
    whole = mirrored & (x == xp.floor(x))
    reflection = xp.where(mirrored & ~whole, -math.pi / xp.tan(math.pi * xp.remainder(x, 1.0)), 0.0)
    z = xp.where(mirrored, 1 - x, x)
    out = xp.zeros_like(z)
    for _ in range(int(_FAR)):
        near = z < _FAR
        out = xp.where(near, out - 1 / z, out)
        z = xp.where(near, z + 1, z)
    inverse = 1 / (z * z)
    power = inverse
    series = xp.log(z) - 0.5 / z
    for n, number in enumerate(_BERNOULLI, 1):
        series = series - number / (2 * n) * power
        power = power * inverse
    out = out + series + reflection
    out = xp.where(whole, np.nan, xp.where(x == 0, -xp.copysign(np.inf, x), out))
    return out.astype(a.dtype)


def _polygamma(a: Any, n: int) -> Any:
    """The n-th derivative of digamma: (-1)**(n + 1) n! times Hurwitz's zeta(n + 1, a), by Euler and Maclaurin."""
    if n == 0:
        return _digamma(a)
    s = n + 1
    x = a.astype(np.float64)
    total = xp.zeros_like(x)
    steps = int(max(_FAR - float(np.nanmin(np.where(np.isfinite(x), x, _FAR))), 0.0)) + 1 if x.size else 0
    for _ in range(steps):
        near = x < _FAR
        total = xp.where(near, total + x**-s, total)
        x = xp.where(near, x + 1, x)
    total = total + x ** (1 - s) / (s - 1) + 0.5 * x**-s
    factor: float = s
    power = x ** (-s - 1)
    for k, number in enumerate(_BERNOULLI, 1):
        total = total + number / math.factorial(2 * k) * factor * power
        factor *= (s + 2 * k - 1) * (s + 2 * k)
        power = power / (x * x)
    return (total * (math.factorial(n) * (-1) ** s)).astype(a.dtype)


lgamma = unary_function(
    define(
        "lgamma",
        ("a",),
        quiet(by_element(_lgamma_of)),
        infer_same,
        lambda ctx, g: g * digamma(ctx.saved_tensors[0]),
        promotes="float",
        admits=no_complex,
        host_only=True,
    ),
    __name__,
    "Return the logarithm of the size of the gamma function.",
)
_POLYGAMMA = define(
    "polygamma",
    ("a",),
    quiet(_polygamma),
    infer_same,
    lambda ctx, g: g * polygamma(ctx.params[0] + 1, ctx.saved_tensors[0]),
    promotes="float",
    admits=no_complex,
)


def digamma(input: Any) -> Any:
    """Return the derivative of `lgamma`."""
    return call(_POLYGAMMA, (input,), (0,))


def polygamma(n: int, input: Any) -> Any:
    """Return the `n`-th derivative of `digamma`.

    Raises:
        RuntimeError: `n` is negative.
    """
    if n < 0:
        raise AutogradError(f"polygamma(n, x) does not support negative n, got {n}")
    return call(_POLYGAMMA, (input,), (operator.index(n),))


@takes(real_numbers)
def mvlgamma(input: Any, p: int) -> Any:
    """Return the logarithm of the multivariate gamma function of dimension `p`.

    Raises:
        RuntimeError: `p` is less than one.
    """
    if p < 1:
        raise AutogradError(f"mvlgamma: p has to be greater than or equal to 1, but got {p}")
    out = p * (p - 1) / 4 * math.log(math.pi) + lgamma(input)
    for j in range(1, p):
        out = out + lgamma(input - j / 2)
    return out
