"""Inverses, determinants and linear systems with their derivatives: inv, pinv, solve, det, slogdet,
matrix_power.

Kernels are NumPy's; rules are written with ops alone, so that they can be differentiated. Systems with triangular
matrices are in `triangular`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...core.array_layout import as_dense
from ...devices.serving import as_kernel_result
from ...dispatch.autocast_policies import with_autocast
from ...dispatch.dispatch import call
from ...registry.define_op import (
    broadcast_shape,
    conj,
    contiguous,
    define,
    infer_same,
    like_operand,
    quiet,
    real_of,
    space_of,
)
from ...registry.dtype_constraints import alike
from ..elementwise.unary import log
from ..elementwise.where import where
from ..layout.shape import movedim, reshape, transpose, unsqueeze
from ..reduction.reduce import sum
from .factorizations import takes_matrices, takes_square_matrices, with_linalg_errors
from .matmul import conjugate_transpose, matmul
from .tensordot import chain_matmul

PUBLIC = "det inverse logdet matrix_power pinverse slogdet".split()

_linalg: Any = np.linalg

# ---- inverses --------------------------------------------------------------------------------------------------------


def _inv_backward(ctx: Any, g: Any) -> Any:
    adjoint = conjugate_transpose(ctx.saved_tensors[0])
    return -matmul(adjoint, matmul(g, adjoint))


_INV = define(
    "inv",
    ("a",),
    with_linalg_errors("inv", lambda a: _linalg.inv(as_dense(a))),
    infer_same,
    _inv_backward,
    saves="output",
)


@takes_square_matrices
def inv(A: Any) -> Any:
    """Return the inverses of matrices.

    Raises:
        LinAlgError: a matrix is singular.
    """
    return call(_INV, (A,))


inverse = inv


def _pinv(a: Any, rtol: float | None, atol: float = 0.0, hermitian: bool = False) -> Any:
    a = as_dense(a)
    if hermitian:  # by their lower triangles
        low = np.tril(a, -1)
        a = low + np.conj(np.swapaxes(low, -1, -2)) + _real_diagonal(a)
    limit: Any = rtol
    if rtol is None:
        limit = 0.0 if atol else max(a.shape[-2:]) * np.finfo(a.dtype).eps
    if atol and a.size:
        greatest = _linalg.svd(a, compute_uv=False).max(-1)
        limit = np.maximum(limit, atol / greatest)
    return contiguous(_linalg.pinv(a, limit))


def _real_diagonal(a: Any) -> Any:
    """Return matrices with the real parts of the diagonals of others, and zeros elsewhere."""
    return space_of(a).eye(a.shape[-1], dtype=a.dtype) * a.real


def _pinv_backward(ctx: Any, g: Any) -> Any:
    """The derivative at constant rank (Golub and Pereyra, 1973)."""
    a, p = ctx.saved_tensors
    h, q = conjugate_transpose(g), conjugate_transpose(p)
    rows, columns = ctx.inputs[0][0][-2:]
    if rows <= columns:
        k = matmul(h, p)
        kq = matmul(k, q)
        return (
            -conjugate_transpose(matmul(p, k)) + kq - matmul(matmul(a, p), kq) + matmul(matmul(q, p), h - matmul(k, a))
        )
    k = matmul(p, h)
    qk = matmul(q, k)
    return -conjugate_transpose(matmul(k, p)) + matmul(h - matmul(a, k), matmul(p, q)) + qk - matmul(matmul(qk, p), a)


_PINV = define(
    "pinv",
    ("a",),
    with_linalg_errors("pinv", quiet(_pinv)),
    lambda params, a: ((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),
    _pinv_backward,
    saves=("a", "output"),
)


@takes_matrices
def pinv(
    A: Any,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> Any:
    """Return the pseudo-inverses of matrices; singular values up to `max(atol, rtol * the greatest)` count as zero.

    Args:
        rcond: the older name of `rtol`.
        rtol: by default the greater extent times the dtype's epsilon; 0 if there is an `atol`.
        hermitian: the matrices are symmetric or Hermitian, and only their lower triangles are read.
    """
    rtol = rcond if rtol is None else rtol
    limit = None if rtol is None else float(rtol)
    if atol is None and not hermitian:
        return call(_PINV, (A,), (limit,))
    return call(_PINV, (A,), (limit, float(atol or 0.0), bool(hermitian)))


def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """Return the pseudo-inverses of matrices; singular values below `rcond` times the greatest count as zero."""
    return pinv(input, rtol=rcond)


# ---- systems of equations --------------------------------------------------------------------------------------------


def _solve_infer(params: tuple[Any, ...], a: Any, b: Any) -> Any:
    if len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation AX = B: {list(a.shape)} and {list(b.shape)}"
        )
    return (*broadcast_shape("solve", (a.shape[:-2], b.shape[:-2])), *b.shape[-2:]), b.dtype


def _solve_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    to_b = call(_SOLVE, (conjugate_transpose(a), g))
    return -matmul(to_b, conjugate_transpose(out)) if ctx.needs_input_grad[0] else None, to_b


_SOLVE = define(
    "solve",
    ("a", "b"),
    with_linalg_errors("solve", lambda a, b: _linalg.solve(as_dense(a), contiguous(b))),
    _solve_infer,
    _solve_backward,
    saves=("a", "output"),
)


def is_vector(a: Any, b: Any) -> bool:
    """Tell whether `b` holds a vector for each matrix, as PyTorch does."""
    return b.ndim == 1 or (b.ndim == a.ndim - 1 and tuple(b.shape) == tuple(a.shape[:-1]))


@alike(0, 1)
@takes_square_matrices
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """Return the X with `A @ X = B`, or `X @ A = B` unless `left`; B holds matrices, or a vector for each matrix.

    Raises:
        LinAlgError: a matrix is singular.
        ShapeError: shapes that do not fit.
    """
    if is_vector(A, B):
        return solve(A if left else transpose(A, -2, -1), unsqueeze(B, -1))[..., 0]
    if not left:
        return transpose(solve(transpose(A, -2, -1), transpose(B, -2, -1)), -2, -1)
    _solve_infer((), A, B)
    return call(_SOLVE, (A, B))


# ---- determinants ----------------------------------------------------------------------------------------------------


def _wide(a: Any) -> Any:
    return unsqueeze(unsqueeze(a, -1), -1)


def _cofactors(a: Any) -> Any:
    """Return the derivatives of determinants: from the inverse, or where a matrix is singular from the singular
    factors."""
    a = as_dense(a)
    found = as_kernel_result(_linalg.det(a))
    if found.all():
        return contiguous(np.conj(found[..., None, None] * np.swapaxes(_linalg.inv(a), -1, -2)))
    u, s, vh = _linalg.svd(a)
    others = np.stack([np.prod(np.delete(s, i, -1), -1) for i in range(s.shape[-1])], -1)
    sign = as_kernel_result(_linalg.det(u) * _linalg.det(vh))
    return np.conj(sign)[..., None, None] * ((u * others[..., None, :]) @ vh)


def _second_cofactors(a: Any, h: Any) -> Any:
    """Return the second derivatives of determinants along `h`: how their cofactors change."""
    a, h = as_dense(a), as_dense(h)
    found = as_kernel_result(_linalg.det(a))
    if found.all():
        turn = np.swapaxes(_linalg.inv(a), -1, -2)
        through_det = (turn * h).sum((-2, -1))[..., None, None] * turn
        return found[..., None, None] * (through_det - turn @ np.swapaxes(h, -1, -2) @ turn)
    u, s, vh = _linalg.svd(a)
    within = np.conj(np.swapaxes(u, -1, -2)) @ h @ np.conj(np.swapaxes(vh, -1, -2))
    size = s.shape[-1]
    others = np.stack(
        [np.stack([np.prod(np.delete(s, [i, j], -1), -1) * (i != j) for j in range(size)], -1) for i in range(size)], -1
    )
    diagonal = (others * np.diagonal(within, 0, -2, -1)[..., None, :]).sum(-1)
    changed = space_of(a).eye(size, dtype=a.dtype) * diagonal[..., None, :] - others * np.swapaxes(within, -1, -2)
    sign = as_kernel_result(_linalg.det(u) * _linalg.det(vh))
    return sign[..., None, None] * (np.conj(u) @ changed @ np.conj(vh))


def _second_cofactors_backward(ctx: Any, g: Any) -> Any:
    """The op is self-adjoint in `h`. In `a` the derivative uses the inverse: third derivatives are those of regular
    matrices."""
    a, h = ctx.saved_tensors
    need_a, need_h = ctx.needs_input_grad
    g = conj(g)
    to_h = conj(call(_SECOND_COFACTORS, (a, g))) if need_h else None
    if not need_a:
        return None, to_h
    turn = transpose(call(_INV, (a,)), -2, -1)
    by_h, by_g = matmul(transpose(h, -2, -1), turn), matmul(transpose(g, -2, -1), turn)
    p, q = (_wide(sum(sum(turn * one, -1), -1)) for one in (h, g))
    both = matmul(by_h, by_g)
    r = _wide(sum(sum(by_h * transpose(by_g, -2, -1), -1), -1))
    change = (p * q - r) * turn - q * matmul(turn, by_h) - p * matmul(turn, by_g)
    change = change + matmul(turn, both) + matmul(turn, matmul(by_g, by_h))
    return conj(_wide(call(_DET, (a,))) * change), to_h


_COFACTORS = define(
    "cofactors",
    ("a",),
    quiet(_cofactors),
    infer_same,
    lambda ctx, h: call(_SECOND_COFACTORS, (conj(ctx.saved_tensors[0]), conj(h))),
)
_SECOND_COFACTORS = define(
    "second_cofactors", ("a", "h"), quiet(_second_cofactors), infer_same, _second_cofactors_backward
)


_DET = define(
    "det",
    ("a",),
    lambda a: as_kernel_result(_linalg.det(as_dense(a))),
    lambda params, a: (a.shape[:-2], a.dtype),
    lambda ctx, g: _wide(g) * call(_COFACTORS, (ctx.saved_tensors[0],)),
)


@takes_square_matrices
def det(A: Any) -> Any:
    """Return the determinants of matrices."""
    return call(_DET, (A,))


class SignAndLog(NamedTuple):
    """What `slogdet` returns."""

    sign: Any
    logabsdet: Any


def _slogdet_backward(ctx: Any, grads: Any) -> Any:
    a, sign = ctx.saved_tensors
    to_sign, to_logs = grads
    if a.dtype.kind != "c":
        return None if to_logs is None else _wide(to_logs) * conjugate_transpose(call(_INV, (a,)))
    total = None if to_logs is None else to_logs + sign * 0
    if to_sign is not None:
        turn = (conj(sign) * to_sign).imag * 1j
        total = turn if total is None else total + turn
    return _wide(total) * conjugate_transpose(call(_INV, (a,)))


_SLOGDET = define(
    "slogdet",
    ("a",),
    lambda a: tuple([as_kernel_result(part) for part in _linalg.slogdet(as_dense(a))]),
    lambda params, a: [(a.shape[:-2], a.dtype), (a.shape[:-2], real_of(a.dtype))],
    _slogdet_backward,
    saves=("a", "output"),
    outputs=2,
)


@takes_square_matrices
def slogdet(A: Any) -> Any:
    """Return the signs of determinants and the logarithms of their sizes."""
    return SignAndLog(*call(_SLOGDET, (A,)))


def logdet(input: Any) -> Any:
    """Return the logarithms of determinants; of real ones NaN where one is negative."""
    sign, logs = slogdet(input)
    return log(sign) + logs if sign.dtype.kind == "c" else where(sign < 0, np.nan, logs)


# ---- compositions ----------------------------------------------------------------------------------------------------


@takes_square_matrices
def matrix_power(A: Any, n: int) -> Any:
    """Return the `n`-th power of matrices, by squaring; of the inverse for a negative `n`."""
    n = operator.index(n)
    if n < 0:
        return matrix_power(with_autocast(inv)(A), -n)
    if n == 0:
        one: Any = np.broadcast_to(space_of(A).eye(A.shape[-1], dtype=A.dtype), A.shape)
        return A * 0 + like_operand(one, A)
    power, out, product = A, None, with_autocast(matmul)
    while n:
        if n % 2:
            out = power if out is None else product(out, power)
        n //= 2
        power = product(power, power) if n else power
    return out


def multi_dot(tensors: Sequence[Any]) -> Any:
    """Return the product of matrices in the order that takes the fewest multiplications; the first and the last may be
    vectors."""
    given = list(tensors)
    if len(given) < 2:
        raise AutogradError(f"multi_dot(): expected at least 2 tensors but got {len(given)}")
    lead, tail = given[0].ndim == 1, given[-1].ndim == 1
    if lead:
        given[0] = unsqueeze(given[0], 0)
    if tail:
        given[-1] = unsqueeze(given[-1], -1)
    out = chain_matmul(*given)
    return reshape(out, (*(() if lead else out.shape[:1]), *(() if tail else out.shape[1:])))


def tensorinv(A: Any, ind: int = 2) -> Any:
    """Return the inverse of a tensor as a map from its last dimensions to its first `ind`."""
    first, rest = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    return reshape(inv(reshape(A, (int(np.prod(first)), -1))), (*rest, *first))


def tensorsolve(A: Any, B: Any, dims: Sequence[int] | None = None) -> Any:
    """Return the X with `tensordot(A, X, X.ndim) = B`, the dimensions `dims` of `A` moved to its end before."""
    if dims is not None:
        return tensorsolve(movedim(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim))), B)
    rest = tuple(A.shape[B.ndim :])
    return reshape(solve(reshape(A, (-1, int(np.prod(rest)))), reshape(B, (-1,))), rest)
