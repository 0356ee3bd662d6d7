"""Least squares and ranks of matrices: lstsq, matrix_rank.

Composed of the pseudo-inverse and of singular values; systems with square matrices are in `solving`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError

from ...core import dtypes
from ..elementwise.arithmetic import clamp_min
from ..elementwise.unary import abs
from ..layout.axis_order import to_dtype
from ..layout.shape import reshape, unsqueeze
from ..reduction.minmax import amax
from ..reduction.reduce import sum
from .factorizations import eigvalsh, svdvals, takes_matrices
from .matmul import matmul
from .solving import is_vector, pinv


@takes_matrices
def matrix_rank(
    A: Any,
    tol: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> Any:
    """Return how many singular values of matrices are above `max(atol, rtol * the greatest)`, or above `tol`."""
    if tol is not None:
        atol, rtol = tol, 0.0
    values = abs(eigvalsh(A)) if hermitian else svdvals(A)
    values = values.detach() if hasattr(values, "detach") else values
    if not values.shape[-1]:
        return sum(values > 0, -1)
    if rtol is None:
        rtol = 0.0 if atol else max(A.shape[-2:]) * float(np.finfo(A.dtype).eps)
    return sum(values > clamp_min(amax(values, -1, True) * rtol, atol or 0.0), -1)


class LeastSquares(NamedTuple):
    """What `lstsq` returns."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


_DRIVERS = {"gels": (False, False), "gelsy": (True, False), "gelsd": (True, True), "gelss": (True, True)}
"""LAPACK's ways to solve least squares, and whether each gives ranks and singular values."""


@takes_matrices
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Return the X for which `A @ X - B` is smallest, the sums of the squares left (of matrices of full rank with more
    rows than columns), the ranks, and the singular values.

    Args:
        rcond: singular values up to so many times the greatest count as zero.
        driver: one of LAPACK's, "gels", "gelsy" (the default), "gelsd" or "gelss". The solution is that of the
            pseudo-inverse with each. "gelsy" gives no sums of squares, "gels" no ranks, and only the last two give
            singular values: the tensors in their places are empty.

    Raises:
        RuntimeError: another driver.
    """
    if driver is not None and driver not in _DRIVERS:
        raise AutogradError(
            f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}"
        )
    if is_vector(A, B):
        found = lstsq(A, unsqueeze(B, -1), rcond, driver=driver)
        return LeastSquares(found.solution[..., 0], found.residuals, found.rank, found.singular_values)
    solution = matmul(pinv(A, rtol=rcond), B)
    left = matmul(A, solution) - B
    rows, columns = A.shape[-2:]
    ranked, valued = _DRIVERS[driver or "gelsy"]
    squares = abs(left) * abs(left)
    none = reshape(squares, (-1,))[:0]
    residuals = sum(squares, -2) if rows > columns and driver not in (None, "gelsy") else none
    without = A.detach() if hasattr(A, "detach") else A  # neither ranks nor singular values have a derivative
    none = none.detach() if hasattr(none, "detach") else none
    rank = matrix_rank(without, rtol=rcond) if ranked else to_dtype(none, dtypes.int64)
    return LeastSquares(solution, residuals, rank, svdvals(without) if valued else none)
