"""Tangents of factorisations of symmetric matrices by rules of their own: cholesky and eigh.

Their gradient is symmetric, as only symmetric matrices are factorised. Turned round, it would give the tangent for the
symmetric part of what is given; PyTorch's rules take a tangent as it is, and so do these. `tangents` calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import ops
from ..tensor.tensor import Tensor


def _cholesky(results: Sequence[Tensor], tangent: Tensor) -> list[Tensor | None]:
    """The tangent of `low` is `low` times the lower half of `inv(low) @ tangent @ inv(low).mH`."""
    low = results[0]
    left = ops.triangular_solve(tangent, low, upper=False).solution
    inside = ops.adjoint(ops.triangular_solve(ops.adjoint(left), low, upper=False).solution)
    half = ops.tril(inside, -1) + ops.diag_embed(ops.diagonal(inside, 0, -2, -1)) / 2
    return [ops.matmul(low, half), *[None] * (len(results) - 1)]


def _eigh(results: Sequence[Tensor], tangent: Tensor) -> list[Tensor | None]:
    """Eigenvalues change by the diagonal of `vectors.mH @ tangent @ vectors`, and vectors turn by the rest of it over
    the differences of eigenvalues."""
    values, vectors = results
    inside = ops.matmul(ops.adjoint(vectors), ops.matmul(tangent, vectors))
    stretch = ops.diagonal(inside, 0, -2, -1)
    gaps = ops.unsqueeze(values, -2) - ops.unsqueeze(values, -1)
    turn = (inside - ops.diag_embed(stretch)) / (gaps + ops.diag_embed(ops.zeros_as(values) + 1))
    return [ops.real(stretch) if inside.dtype.kind == "c" else stretch, ops.matmul(vectors, turn)]


OWN_RULES: dict[str, Callable[[Sequence[Tensor], Tensor], list[Tensor | None]]] = {
    "cholesky": _cholesky,
    "cholesky_ex": _cholesky,
    "eigh": _eigh,
}
"""From an op of one operand to its tangents, made from its results and the tangent of that operand."""
