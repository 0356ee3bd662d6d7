"""Functions that report failures per matrix instead of raising: cholesky_ex, inv_ex, solve_ex.

`info` is 0 where it went well, else the place, counted from one, at which it ended; such results are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.array_layout import as_dense
from ...dispatch.dispatch import call
from ...registry.define_op import contiguous, define
from ...registry.dtype_constraints import alike
from ..layout.shape import transpose, unsqueeze
from .factorizations import _cholesky_backward, takes_square_matrices
from .lu import check_info, eliminate
from .matmul import conjugate_transpose
from .solving import _inv_backward, _solve_backward, _solve_infer, is_vector

_linalg: Any = np.linalg
_INT32 = np.dtype(np.int32)

_NOT_DEFINITE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order "
    "{0} is not positive-definite)"
)
_SINGULAR = "The diagonal element {0} is zero, the matrix is singular"


def _each(kernel: Callable[..., Any], place: Callable[[Any], int], arrays: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return a kernel's result and `info`: at once where nothing fails, else for one matrix after the other."""
    batch = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
    try:
        return contiguous(kernel(*arrays)), np.zeros(batch, _INT32)
    except np.linalg.LinAlgError:
        pass
    spread = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
    out = np.full(spread[-1].shape, np.nan, arrays[-1].dtype)
    info = np.zeros(batch, _INT32)
    for index in np.ndindex(batch):
        try:
            out[index] = kernel(*[a[index] for a in spread])
        except np.linalg.LinAlgError:
            info[index] = place(spread[0][index])
    return out, info


def _order_of_minor(a: Any) -> int:
    """Return the order of the first leading minor that is not positive definite."""
    low, high = 1, len(a)
    while low < high:
        middle = (low + high) // 2
        try:
            _linalg.cholesky(a[:middle, :middle])
        except np.linalg.LinAlgError:
            high = middle
        else:
            low = middle + 1
    return low


def _place_of_zero(a: Any) -> int:
    """Return where U has its first zero; at the end, where rounding hides it."""
    return int(eliminate(a)[2]) or len(a)


def _infer_last(params: tuple[Any, ...], *operands: Any) -> Any:
    batch = np.broadcast_shapes(*[o.shape[:-2] for o in operands])
    last = operands[-1]
    return [((*batch, *last.shape[-2:]), last.dtype), (batch, _INT32)]


def _first(rule: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the rule of an op with `info` beside its output: that of the op without."""
    return lambda ctx, grads: None if grads[0] is None else rule(ctx, grads[0])


_CHOLESKY = define(
    "cholesky_ex",
    ("a",),
    lambda a: _each(_linalg.cholesky, _order_of_minor, (as_dense(a),)),
    _infer_last,
    _first(_cholesky_backward),
    saves="output",
    outputs=2,
    host_only=True,
)
_INV = define(
    "inv_ex",
    ("a",),
    lambda a: _each(_linalg.inv, _place_of_zero, (as_dense(a),)),
    _infer_last,
    _first(_inv_backward),
    saves="output",
    outputs=2,
    host_only=True,
)
_SOLVE = define(
    "solve_ex",
    ("a", "b"),
    lambda a, b: _each(_linalg.solve, _place_of_zero, (as_dense(a), contiguous(b))),
    _infer_last,
    lambda ctx, grads: (None, None) if grads[0] is None else _solve_backward(ctx, grads[0]),
    saves=("a", "output"),
    outputs=2,
    host_only=True,
)


class LAndInfo(NamedTuple):
    """What `cholesky_ex` returns."""

    L: Any
    info: Any


class InverseAndInfo(NamedTuple):
    """What `inv_ex` returns."""

    inverse: Any
    info: Any


class ResultAndInfo(NamedTuple):
    """What `solve_ex` returns."""

    result: Any
    info: Any


@takes_square_matrices
def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """Return the triangular factor of positive definite matrices, as `cholesky`, and `info`: 0, or the order of the
    first leading minor that is not positive definite.

    Raises:
        LinAlgError: `check_errors`, and a matrix is not positive definite.
    """
    low, info = call(_CHOLESKY, (A,))
    if check_errors:
        check_info("linalg.cholesky_ex", info, _NOT_DEFINITE)
    return LAndInfo(conjugate_transpose(low) if upper else low, info)


@takes_square_matrices
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """Return the inverses of matrices and `info`: 0, or where a matrix turned out to be singular.

    Raises:
        LinAlgError: `check_errors`, and a matrix is singular.
    """
    inverse, info = call(_INV, (A,))
    if check_errors:
        check_info("linalg.inv_ex", info, _SINGULAR)
    return InverseAndInfo(inverse, info)


@alike(0, 1)
@takes_square_matrices
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """Return what `solve` returns and `info`: 0, or where a matrix turned out to be singular.

    Raises:
        LinAlgError: `check_errors`, and a matrix is singular.
        ShapeError: shapes that do not fit.
    """
    if is_vector(A, B):
        found = solve_ex(A if left else transpose(A, -2, -1), unsqueeze(B, -1), check_errors=check_errors)
        return ResultAndInfo(found.result[..., 0], found.info)
    if not left:
        found = solve_ex(transpose(A, -2, -1), transpose(B, -2, -1), check_errors=check_errors)
        return ResultAndInfo(transpose(found.result, -2, -1), found.info)
    _solve_infer((), A, B)
    result, info = call(_SOLVE, (A, B))
    if check_errors:
        check_info("linalg.solve_ex", info, _SINGULAR)
    return ResultAndInfo(result, info)
