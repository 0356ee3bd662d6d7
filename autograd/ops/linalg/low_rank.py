"""Factors of low rank by random projections: svd_lowrank, pca_lowrank.

A few random combinations of columns span nearly what the greatest singular vectors do (Halko, Martinsson and Tropp,
2009); a small exact factorisation within that space gives the rest.
"""

from __future__ import annotations

from typing import Any

from raygrad.errors import AutogradError

from ...dispatch.random_numbers import randn
from ...registry.dtype_constraints import floats_alone, takes
from ..reduction.reduce import mean
from .factorizations import qr, svd
from .matmul import conjugate_transpose, matmul
from .top_level import SingularValues

PUBLIC = "pca_lowrank svd_lowrank".split()


@takes(floats_alone)
def svd_lowrank(A: Any, q: int = 6, niter: int = 2, M: Any = None) -> Any:
    """Return approximations of the `q` greatest singular values of matrices, with their vectors U and V.

    Args:
        A: matrices.
        q: a little more than the rank that is expected.
        niter: the number of power iterations, each of which brings them nearer.
        M: what is subtracted from the matrices.

    Raises:
        RuntimeError: `q` or `niter` is negative, or `q` is greater than an extent of the matrices.
    """
    given: Any = A if M is None else A - M
    rows, columns = given.shape[-2:]
    if not 0 <= q <= min(rows, columns):
        raise AutogradError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(rows, columns)}")
    if niter < 0:
        raise AutogradError(f"niter(={niter}) must be non-negative integer")
    wide = rows < columns
    tall = conjugate_transpose(given) if wide else given
    adjoint = conjugate_transpose(tall)
    basis = qr(matmul(tall, randn((tall.shape[-1], q), dtype=A.dtype, device=A.device)))[0]
    for _ in range(niter):
        basis = qr(matmul(tall, qr(matmul(adjoint, basis))[0]))[0]
    u, s, vh = svd(matmul(conjugate_transpose(basis), tall), False)
    left, right = matmul(basis, u), conjugate_transpose(vh)
    return SingularValues(right, s, left) if wide else SingularValues(left, s, right)


@takes(floats_alone)
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """Return the principal components of samples, one a row, as `svd_lowrank` finds them.

    Args:
        A: matrices.
        q: how many; by default the least of 6 and the extents.
        center: subtract the mean of each column first.
        niter: the number of power iterations.

    Raises:
        RuntimeError: as `svd_lowrank`.
    """
    if q is None:
        q = min(6, *A.shape[-2:])
    return svd_lowrank(A - mean(A, -2, True) if center else A, q, niter)
