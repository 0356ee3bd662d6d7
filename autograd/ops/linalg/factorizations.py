"""Matrix factorisations and their derivatives: cholesky, qr, eigh, svd, under PyTorch's conventions.

Kernels are NumPy's (LAPACK), which decides signs and phases. Rules are written with ops alone, so that they can be
differentiated. Where a derivative divides by differences of eigenvalues or singular values, equal ones give infinities,
as they do in PyTorch.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError, LinAlgError, ShapeError

from ...core.array_layout import as_dense
from ...dispatch.dispatch import call
from ...registry.define_op import OpCallable, contiguous, define, infer_same, like_operand, real_of, space_of
from ...registry.dtype_constraints import checked
from ..elementwise.where import where
from ..layout.axis_order import to_dtype
from ..layout.diagonals import diagonal, tril
from ..layout.joining import cat
from ..layout.rearranging import diag_embed
from ..layout.shape import reshape, unsqueeze
from .matmul import conjugate_transpose, matmul
from .triangular import solve_triangular

_linalg: Any = np.linalg


def expect_matrices(name: str, given: tuple[Any, ...], *, square: bool = False) -> None:
    """Raise unless the first argument holds matrices that the function `name` accepts.

    Raises:
        ShapeError: fewer than two dimensions, or not square.
        AutogradError: integers.
    """
    a = given[0]
    if a.ndim < 2:
        raise ShapeError(
            f"linalg.{name}: The input tensor A must have at least 2 dimensions, but it has shape {list(a.shape)}"
        )
    if square and a.shape[-1] != a.shape[-2]:
        raise ShapeError(
            f"linalg.{name}: A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices"
        )
    if a.dtype.kind not in "fc":
        raise AutogradError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {a.dtype}")


takes_matrices = checked(expect_matrices)
"""A decorator for a function whose first argument holds matrices."""

takes_square_matrices = checked(functools.partial(expect_matrices, square=True))
"""A decorator for a function whose first argument holds square matrices."""


def with_linalg_errors(name: str, kernel: OpCallable) -> Any:
    """Return a LAPACK kernel whose failures raise raygrad's `LinAlgError`, a RuntimeError as PyTorch's is."""

    run: Any = kernel

    def telling(*args: Any) -> Any:
        try:
            return run(*args)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"linalg.{name}: {error}") from None

    return telling


def _as_real(a: Any) -> Any:
    return a.real if a.dtype.kind == "c" else a


def _with_dtype(real: Any, like: Any) -> Any:
    return to_dtype(real, like.dtype) if real.dtype != like.dtype else real


# ---- Cholesky --------------------------------------------------------------------------------------------------------


def _halved(a: Any) -> Any:
    """Return the lower triangle with half of the diagonal."""
    return tril(a) - diag_embed(diagonal(a, 0, -2, -1)) / 2


def _cholesky_backward(ctx: Any, g: Any) -> Any:
    (low,) = ctx.saved_tensors
    inside = matmul(conjugate_transpose(low), g)
    if g.dtype.kind == "c":  # as in PyTorch the imaginary part of the diagonal counts, though that of the factor is 0
        return _between_inverses(tril(inside) + conjugate_transpose(tril(inside, -1)), low) / 2
    both = _between_inverses(_halved(inside), low)
    return (both + conjugate_transpose(both)) / 2


def _between_inverses(inside: Any, low: Any) -> Any:
    """Return `inv(low).mH @ inside @ inv(low)`."""
    left = solve_triangular(conjugate_transpose(low), inside, upper=True)
    return conjugate_transpose(solve_triangular(conjugate_transpose(low), conjugate_transpose(left), upper=True))


_CHOLESKY = define(
    "cholesky",
    ("a",),
    with_linalg_errors("cholesky", lambda a: _linalg.cholesky(as_dense(a))),
    infer_same,
    _cholesky_backward,
    saves="output",
)


@takes_square_matrices
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """Return the triangular factor of positive definite matrices `A = L @ L.mH`: L, or its adjoint for `upper`.

    Raises:
        LinAlgError: a matrix is not positive definite.
    """
    low = call(_CHOLESKY, (A,))
    return conjugate_transpose(low) if upper else low


# ---- QR --------------------------------------------------------------------------------------------------------------


class QR(NamedTuple):
    """What `qr` returns."""

    Q: Any
    R: Any


def _qr_infer(params: tuple[Any, ...], a: Any) -> Any:
    *batch, rows, columns = a.shape
    least = min(rows, columns)
    return [((*batch, rows, least), a.dtype), ((*batch, least, columns), a.dtype)]


def _qr_backward(ctx: Any, grads: Any) -> Any:
    """The gradient for matrices with at least as many rows as columns; other shapes are reduced to these."""
    q, r = ctx.saved_tensors
    to_q, to_r = grads
    inside = None
    if to_r is not None:
        inside = matmul(r, conjugate_transpose(to_r))
    if to_q is not None:
        part = matmul(conjugate_transpose(to_q), q)
        inside = -part if inside is None else inside - part
    below = tril(inside, -1)
    middle = _with_dtype(_as_real(diagonal(inside, 0, -2, -1)), inside)
    mirrored = below + conjugate_transpose(below) + diag_embed(middle)
    out = matmul(q, mirrored)
    out = out if to_q is None else out + to_q
    return conjugate_transpose(solve_triangular(r, conjugate_transpose(out), upper=True))


_QR = define(
    "qr",
    ("a",),
    lambda a: tuple([contiguous(factor) for factor in _linalg.qr(as_dense(a), "reduced")]),
    _qr_infer,
    _qr_backward,
    saves=("output", "output1"),
    outputs=2,
)


def _complete_backward(ctx: Any, grads: Any) -> Any:
    raise AutogradError(
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols: use mode='reduced'"
    )


_COMPLETE_QR = define(
    "qr_complete",
    ("a",),
    lambda a: tuple([contiguous(factor) for factor in _linalg.qr(as_dense(a), "complete")]),
    lambda params, a: [((*a.shape[:-1], a.shape[-2]), a.dtype), (a.shape, a.dtype)],
    _complete_backward,
    saves="none",
    outputs=2,
)


@takes_matrices
def qr(A: Any, mode: str = "reduced") -> Any:
    """Return the orthogonal factor Q and the upper triangular factor R of matrices `A = Q @ R`.

    Args:
        mode: "reduced", "complete" for a square Q, or "r" for R alone (both without derivative, "complete" only where
            there are more rows than columns).

    Raises:
        ValueError: another mode.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced', 'complete', or 'r'")
    rows, columns = A.shape[-2:]
    if mode == "r":
        q, r = call(_QR, (A.detach() if hasattr(A, "detach") else A,))
        return QR(reshape(q[..., :0], (0,)), r)
    if mode == "complete" and rows > columns:
        return QR(*call(_COMPLETE_QR, (A,)))
    if rows >= columns:
        return QR(*call(_QR, (A,)))
    q, left = call(_QR, (A[..., :rows],))
    return QR(q, cat([left, matmul(conjugate_transpose(q), A[..., rows:])], -1))


# ---- eigenvalues of symmetric matrices -------------------------------------------------------------------------------


class Eigen(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Any
    eigenvectors: Any


def _eigh(a: Any, part: str) -> Any:
    values, vectors = _linalg.eigh(as_dense(a), part)
    return values, contiguous(vectors)


def _differences(values: Any, like: Any) -> Any:
    """Return `values[j] - values[i]` in row i and column j, ones on the diagonal."""
    gaps = unsqueeze(values, -2) - unsqueeze(values, -1)
    ones: Any = space_of(values).eye(values.shape[-1], dtype=bool)
    return where(like_operand(ones, values), 1.0, gaps)


def _eigh_backward(ctx: Any, grads: Any) -> Any:
    values, vectors = ctx.saved_tensors
    to_values, to_vectors = grads
    inside = None
    if to_vectors is not None:
        turn = matmul(conjugate_transpose(vectors), to_vectors)
        turn = (
            turn - conjugate_transpose(turn)
        ) * 0.5  # what keeps orthonormal vectors so; with it the gradient is symmetric
        inside = turn / _differences(values, turn)
        inside = inside - diag_embed(diagonal(inside, 0, -2, -1))
    if to_values is not None:
        stretch = diag_embed(_with_dtype(to_values, vectors))
        inside = stretch if inside is None else inside + stretch
    return matmul(vectors, matmul(inside, conjugate_transpose(vectors)))


_EIGH = define(
    "eigh",
    ("a",),
    with_linalg_errors("eigh", _eigh),
    lambda params, a: [(a.shape[:-1], real_of(a.dtype)), (a.shape, a.dtype)],
    _eigh_backward,
    saves=("output", "output1"),
    outputs=2,
)


@takes_square_matrices
def eigh(A: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues, ascending, and the eigenvectors of symmetric or Hermitian matrices.

    Args:
        UPLO: which triangle is read: "L" or "U".

    Raises:
        ValueError: another triangle.
        LinAlgError: the algorithm did not converge.
    """
    if UPLO.upper() not in ("L", "U"):
        raise ValueError(f"linalg.eigh: UPLO must be 'L' or 'U', got '{UPLO}'")
    return Eigen(*call(_EIGH, (A,), (UPLO.upper(),)))


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues, ascending, of symmetric or Hermitian matrices; see `eigh`."""
    return eigh(A, UPLO).eigenvalues


# ---- singular values -------------------------------------------------------------------------------------------------


class SVD(NamedTuple):
    """What `svd` returns."""

    U: Any
    S: Any
    Vh: Any


def _svd(a: Any, full: bool = False) -> Any:
    u, s, vh = _linalg.svd(as_dense(a), full)
    return contiguous(u), s, contiguous(vh)


def _svd_infer(params: tuple[Any, ...], a: Any) -> Any:
    *batch, rows, columns = a.shape
    least = min(rows, columns)
    left, right = (rows, columns) if params[0] else (least, least)
    return [
        ((*batch, rows, left), a.dtype),
        ((*batch, least), real_of(a.dtype)),
        ((*batch, right, columns), a.dtype),
    ]


def _skew(a: Any) -> Any:
    return a - conjugate_transpose(a)


def _svd_backward(ctx: Any, grads: Any) -> Any:
    """The sum of three parts: of the singular values, of rotations of U and V within their spaces, and of changes of
    these spaces. Of full matrices the columns beyond the singular values are arbitrary, and their gradients dropped."""
    u, s, vh = ctx.saved_tensors
    to_u, to_s, to_vh = grads
    if ctx.params[0]:
        least = s.shape[-1]
        u, vh = u[..., :least], vh[..., :least, :]
        to_u = None if to_u is None else to_u[..., :least]
        to_vh = None if to_vh is None else to_vh[..., :least, :]
    v = conjugate_transpose(vh)
    inside = None if to_s is None else diag_embed(_with_dtype(to_s, u))
    columns = unsqueeze(s, -2)
    if to_u is not None or to_vh is not None:
        gaps = _differences(s * s, u)
        turn_u = None if to_u is None else _skew(matmul(conjugate_transpose(u), to_u)) / gaps
        turn_v = None if to_vh is None else _skew(matmul(vh, conjugate_transpose(to_vh))) / gaps
        turns = None
        if turn_u is not None:
            turns = turn_u * columns
        if turn_v is not None:
            part = unsqueeze(s, -1) * turn_v
            turns = part if turns is None else turns + part
        assert turns is not None
        turns = turns - diag_embed(diagonal(turns, 0, -2, -1))
        if u.dtype.kind == "c" and to_u is not None:  # phases: U and V turn together
            phase = diagonal(_skew(matmul(conjugate_transpose(u), to_u)), 0, -2, -1) / (2 * s)
            turns = turns + diag_embed(phase)
        inside = turns if inside is None else inside + turns
    assert inside is not None
    out = matmul(u, matmul(inside, vh))
    rows, width = ctx.inputs[0][0][-2:]
    if to_u is not None and rows > width:
        scaled = to_u / columns
        out = out + matmul(scaled - matmul(u, matmul(conjugate_transpose(u), scaled)), vh)
    if to_vh is not None and width > rows:
        scaled = to_vh / unsqueeze(s, -1)
        out = out + matmul(u, scaled - matmul(matmul(scaled, v), vh))
    return out


_SVD = define(
    "svd",
    ("a",),
    with_linalg_errors("svd", _svd),
    _svd_infer,
    _svd_backward,
    saves=("output", "output1", "output2"),
    outputs=3,
)


@takes_matrices
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """Return U, the singular values, descending, and the adjoint of V, of matrices `A = U @ diag(S) @ Vh`.

    Args:
        full_matrices: U and Vh are square; else they have as many columns, and rows, as there are singular values.
        driver: the algorithm; only None, the library's choice.

    Raises:
        RuntimeError: a driver is asked for.
        LinAlgError: the algorithm did not converge.
    """
    if driver is not None:
        raise AutogradError(
            "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend"
        )
    return SVD(*call(_SVD, (A,), (bool(full_matrices) and A.shape[-1] != A.shape[-2],)))


def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """Return the singular values of matrices, descending; `driver` as in `svd`."""
    return svd(A, False, driver=driver).S
