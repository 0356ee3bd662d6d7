"""Eigenvalues and eigenvectors of general square matrices, with their derivatives.

Both are complex. The kernel is LAPACK's, which makes vectors of length one; their phase is arbitrary, and a loss must
not depend on it. The symmetric case is in `factorizations`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.array_layout import as_dense
from ...dispatch.dispatch import call
from ...registry.define_op import conj, contiguous, define, like_operand, space_of
from ..elementwise.complex_numbers import real
from ..elementwise.where import where
from ..layout.axis_order import to_dtype
from ..layout.diagonals import diagonal
from ..layout.rearranging import diag_embed
from ..layout.shape import unsqueeze
from .factorizations import Eigen, takes_square_matrices, with_linalg_errors
from .fft import complex_of
from .matmul import conjugate_transpose, matmul
from .solving import solve

_linalg: Any = np.linalg


def _eig(a: Any) -> Any:
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("The input tensor contains infinities or NaNs")
    values, vectors = _linalg.eig(as_dense(a))
    dtype = complex_of(a.dtype)
    return values.astype(dtype, copy=False), contiguous(vectors.astype(dtype, copy=False))


def _eig_backward(ctx: Any, grads: Any) -> Any:
    """Equal eigenvalues give infinities, as in PyTorch."""
    values, vectors = ctx.saved_tensors
    to_values, to_vectors = grads
    adjoint = conjugate_transpose(vectors)
    if to_vectors is None:
        return solve(adjoint, unsqueeze(to_values, -1) * adjoint)
    inside = matmul(adjoint, to_vectors)
    # of unit length: what changes only that does not count
    lengths = to_dtype(real(diagonal(inside, 0, -2, -1)), inside.dtype)
    inside = inside - matmul(adjoint, vectors) * unsqueeze(lengths, -2)
    gaps = unsqueeze(values, -2) - unsqueeze(values, -1)
    ones: Any = space_of(values).eye(values.shape[-1], dtype=bool)
    inside = inside / conj(where(like_operand(ones, values), 1.0, gaps))
    inside = inside - diag_embed(diagonal(inside, 0, -2, -1))
    if to_values is not None:
        inside = inside + diag_embed(to_values)
    return solve(adjoint, matmul(inside, adjoint))


_EIG = define(
    "eig",
    ("a",),
    with_linalg_errors("eig", _eig),
    lambda params, a: [(a.shape[:-1], complex_of(a.dtype)), (a.shape, complex_of(a.dtype))],
    _eig_backward,
    saves=("output", "output1"),
    outputs=2,
    host_only=True,
)


@takes_square_matrices
def eig(A: Any) -> Any:
    """Return the eigenvalues, in no order, and the eigenvectors of square matrices, both complex.

    Raises:
        LinAlgError: the algorithm did not converge, or an element is not finite.
    """
    return Eigen(*call(_EIG, (A,)))


@takes_square_matrices
def eigvals(A: Any) -> Any:
    """Return the eigenvalues of square matrices, in no order, complex; see `eig`."""
    return call(_EIG, (A,))[0]
