"""Matrix functions that PyTorch has as names of the package: cholesky, cholesky_solve, norm, qr, svd,
triangular_solve.

Each is made of functions of `raygrad.linalg`, with the arguments and the results of the older name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from raygrad.errors import AutogradError, ShapeError

from ...dispatch.dispatch import call
from ...registry.define_op import broadcast_shape, define, like_operand, space_of
from ...registry.dtype_constraints import alike, floats_alone, takes
from ..layout.axis_order import zeros_as
from ..layout.shape import clone, expand, transpose
from ..reduction import vector_norms
from . import factorizations, norms
from .factorizations import QR, takes_square_matrices
from .matmul import conjugate_transpose, matmul
from .triangular import solve_triangular

PUBLIC = "cholesky cholesky_inverse cholesky_solve norm qr svd triangular_solve".split()


class SingularValues(NamedTuple):
    """What `svd` returns; V, unlike `linalg.svd`'s Vh, is not transposed."""

    U: Any
    S: Any
    V: Any


class TriangularSolution(NamedTuple):
    """What `triangular_solve` returns."""

    solution: Any
    cloned_coefficient: Any


def cholesky_factor(input: Any, upper: bool = False) -> Any:
    """Return the triangular factor of positive definite matrices; see `linalg.cholesky`."""
    return factorizations.cholesky(input, upper=upper)


def _solve_infer(params: tuple[Any, ...], b: Any, low: Any) -> Any:
    if low.shape[-1] != low.shape[-2] or low.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"cholesky_solve: Incompatible shapes of L and B for the equation L L^H X = B: {list(low.shape)} and "
            f"{list(b.shape)}"
        )
    return (*broadcast_shape("cholesky_solve", (low.shape[:-2], b.shape[:-2])), *b.shape[-2:]), b.dtype


def _solve(b: Any, low: Any, upper: bool) -> Any:
    adjoint = conjugate_transpose(low)
    first = solve_triangular(adjoint if upper else low, b, upper=False)
    return solve_triangular(low if upper else adjoint, first, upper=True)


def _solve_backward(ctx: Any, g: Any) -> Any:
    """The gradient by L is that through `L @ L.mH`, and as in PyTorch not cut to the triangle that is read."""
    low, out = ctx.saved_tensors
    (upper,) = ctx.params
    to_b = call(_CHOLESKY_SOLVE, (g, low), (upper,))
    if not ctx.needs_input_grad[1]:
        return to_b, None
    both = matmul(to_b, conjugate_transpose(out))
    both = both + conjugate_transpose(both)
    return to_b, -(matmul(low, both) if upper else matmul(both, low))


_CHOLESKY_SOLVE = define("cholesky_solve", ("b", "l"), _solve, _solve_infer, _solve_backward, saves=("l", "output"))


@takes_square_matrices
def cholesky_inverse(input: Any, upper: bool = False) -> Any:
    """Return the inverse of `L @ L.mH` (`L.mH @ L` for `upper`) from the triangular factors L, `input`."""
    ones: Any = space_of(input).eye(input.shape[-1], dtype=input.dtype)
    return call(_CHOLESKY_SOLVE, (expand(like_operand(ones, input), tuple(input.shape)), input), (bool(upper),))


@takes(floats_alone, 2)
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """Return the X with `L @ L.mH @ X = B` (`L.mH @ L @ X = B` for `upper`), B being `input` and L, the triangular
    factors, `input2`.

    Raises:
        ShapeError: shapes that do not fit.
    """
    if input.ndim < 2 or input2.ndim < 2:
        raise ShapeError(
            f"cholesky_solve: B and L must have at least 2 dimensions, but they have {input.ndim} and {input2.ndim}"
        )
    if input.dtype != input2.dtype:
        raise AutogradError(f"cholesky_solve: expected one dtype, got {input.dtype} and {input2.dtype}")
    _solve_infer((), input, input2)
    return call(_CHOLESKY_SOLVE, (input, input2), (bool(upper),))


def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return the p-norm of the elements over `dim`; "fro" and 2 are the Euclidean norm, "nuc" is that of matrices, the
    sum of their singular values.

    Raises:
        RuntimeError: another name, or "nuc" over another number of dimensions than two.
    """
    if p == "nuc":
        dims = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        if len(dims) != 2:
            raise AutogradError(f"norm(): the nuclear norm is one over 2 dimensions, but got {len(dims)}: {dims}")
        return norms.matrix_norm(input, "nuc", (dims[0], dims[1]), keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise AutogradError(f"only valid string values are 'fro' and 'nuc', found {p}")
    return vector_norms.norm(input, p, dim, keepdim, dtype)


def qr_factors(input: Any, some: bool = True) -> Any:
    """Return Q and R of matrices; see `linalg.qr`, whose mode is "complete" unless `some`."""
    return QR(*factorizations.qr(input, "reduced" if some else "complete"))


def svd_factors(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """Return U, the singular values, and V of matrices `U @ diag(S) @ V.mH`; see `linalg.svd`. U and V are square
    unless `some`, and zero unless `compute_uv`."""
    if not compute_uv:
        rows, columns = input.shape[-2:]
        zeros = zeros_as(input)[..., :1, :1]
        u, v = (expand(zeros, (*input.shape[:-2], n, n)) for n in (rows, columns))
        return SingularValues(u, factorizations.svdvals(input), v)
    u, s, vh = factorizations.svd(input, full_matrices=not some)
    return SingularValues(u, s, conjugate_transpose(vh))


@alike(0, 1)
@takes(floats_alone, 2)
def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolution:
    """Return the X with `A @ X = b` for triangular matrices A, or with A's transpose, and a copy of A."""
    matrices = _transposed(A) if transpose else A
    found = solve_triangular(matrices, b, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolution(found, clone(A))


def _transposed(A: Any) -> Any:
    return transpose(A, -2, -1)


cholesky, qr, svd = cholesky_factor, qr_factors, svd_factors
