"""Orthogonal polynomials by their recurrences: Chebyshev's four kinds, shifted ones, Hermite's, Laguerre's, Legendre's.

Each takes the point and the degree, both tensors or numbers that broadcast; as in PyTorch they carry no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.direct_functions import OfTwo, binary_function
from ...registry.define_op import define, infer_elementwise, quiet
from ...registry.dtype_constraints import no_complex

Step = Callable[[Any, Any, Any, int], Any]
"""From the point, the values of two degrees and the greater of these: the value of the next degree."""


def _chebyshev(x: Any, q: Any, p: Any, k: int) -> Any:
    return 2 * x * q - p


def _hermite(x: Any, q: Any, p: Any, k: int) -> Any:
    return 2 * x * q - 2 * k * p


def _hermite_of_statistics(x: Any, q: Any, p: Any, k: int) -> Any:
    return x * q - k * p


def _laguerre(x: Any, q: Any, p: Any, k: int) -> Any:
    return ((2 * k + (1 - x)) * q - k * p) / (k + 1)


def _legendre(x: Any, q: Any, p: Any, k: int) -> Any:
    return ((2 * k + 1) * x * q - k * p) / (k + 1)


def _by_recurrence(first: Callable[[Any], Any], step: Step, shifted: bool) -> Callable[[Any, Any], Any]:
    """Return the kernel of a family that begins with 1 and `first(x)`; 0 for negative degrees."""

    def kernel(a: Any, n: Any) -> Any:
        dtype = np.result_type(a, n)
        point, degree = np.broadcast_arrays(np.asarray(a, dtype), np.trunc(np.asarray(n, dtype)))
        x: Any = 2 * point - 1 if shifted else point
        p, q = np.ones_like(x), np.asarray(first(x), dtype)
        out: Any = np.where(degree < 0, 0, np.where(degree == 0, p, q))
        highest = int(np.nanmax(degree[np.isfinite(degree)], initial=0))
        for k in range(1, highest):
            p, q = q, np.asarray(step(x, q, p, k), dtype)
            out = np.where(degree == k + 1, q, out)
            if not np.isfinite(q).any():
                break  # and stays so
        return np.where(np.isfinite(degree), out, np.nan).astype(dtype)

    return kernel


def _chebyshev_of_first_kind(shifted: bool) -> Callable[[Any, Any], Any]:
    """Return the kernel of the first kind, by the cosine where degrees are high, as the recurrence would take long."""
    recurrence = _by_recurrence(lambda x: x, _chebyshev, shifted)

    def kernel(a: Any, n: Any) -> Any:
        dtype = np.result_type(a, n)
        point, degree = np.broadcast_arrays(np.asarray(a, dtype), np.trunc(np.asarray(n, dtype)))
        x: Any = 2 * point - 1 if shifted else point
        by_cosine = (degree > 6) & (np.abs(x) < 1)
        cosine = np.cos(degree * np.arccos(np.where(by_cosine, x, 0)))
        return np.where(by_cosine, cosine, recurrence(point, np.where(by_cosine, 0, degree))).astype(dtype)

    return kernel


def _defined(name: str, kernel: Callable[[Any, Any], Any], what: str) -> OfTwo:
    op = define(
        name,
        ("a", "b"),
        quiet(kernel),
        infer_elementwise(name),
        promotes="float",
        admits=no_complex,
        host_only=True,
    )
    return binary_function(op, __name__, f"Return {what} at `input` of degree `other`; 0 for negative degrees.")


def _both(letter: str, kind: str, first: Callable[[Any], Any]) -> tuple[OfTwo, OfTwo]:
    """Return a kind of Chebyshev's polynomials on [-1, 1], and shifted to [0, 1]."""
    made: list[OfTwo] = []
    for shifted in (False, True):
        name = f"{'shifted_' * shifted}chebyshev_polynomial_{letter}"
        kernel = _chebyshev_of_first_kind(shifted) if letter == "t" else _by_recurrence(first, _chebyshev, shifted)
        made.append(_defined(name, kernel, f"Chebyshev's {'shifted ' * shifted}polynomials of the {kind} kind"))
    return made[0], made[1]


chebyshev_polynomial_t, shifted_chebyshev_polynomial_t = _both("t", "first", lambda x: x)
chebyshev_polynomial_u, shifted_chebyshev_polynomial_u = _both("u", "second", lambda x: 2 * x)
chebyshev_polynomial_v, shifted_chebyshev_polynomial_v = _both("v", "third", lambda x: 2 * x - 1)
chebyshev_polynomial_w, shifted_chebyshev_polynomial_w = _both("w", "fourth", lambda x: 2 * x + 1)
hermite_polynomial_h = _defined(
    "hermite_polynomial_h", _by_recurrence(lambda x: 2 * x, _hermite, False), "the physicists' Hermite polynomials"
)
hermite_polynomial_he = _defined(
    "hermite_polynomial_he",
    _by_recurrence(lambda x: x, _hermite_of_statistics, False),
    "the statisticians' Hermite polynomials",
)
laguerre_polynomial_l = _defined(
    "laguerre_polynomial_l", _by_recurrence(lambda x: 1 - x, _laguerre, False), "Laguerre's polynomials"
)
legendre_polynomial_p = _defined(
    "legendre_polynomial_p", _by_recurrence(lambda x: x, _legendre, False), "Legendre's polynomials"
)
