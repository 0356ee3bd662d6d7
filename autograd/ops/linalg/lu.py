"""LU factorisation with partial pivoting and its derivative, and what solves systems by its factors.

The kernel eliminates the columns of all matrices of a batch together. Pivots are LAPACK's: counted from one, and to be
applied in order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError, DtypeError, LinAlgError, ShapeError

from ...core import dtypes
from ...dispatch.dispatch import call
from ...registry.define_op import Part, define, define_together, like_operand, quiet, space_of
from ...registry.dtype_constraints import floats_alone, takes
from ..layout.axis_order import to_dtype
from ..layout.diagonals import tril, triu
from ..layout.joining import cat
from ..layout.shape import transpose, unsqueeze
from .factorizations import takes_matrices
from .matmul import conjugate_transpose, matmul
from .triangular import solve_triangular

PUBLIC = "lu lu_solve lu_unpack".split()

# ---- kernels ---------------------------------------------------------------------------------------------------------


def eliminate(a: Any) -> tuple[Any, Any, Any]:
    """Return the factors of matrices packed in one, the pivots, and per matrix the place of the first zero on U's
    diagonal, counted from one, or 0."""
    *batch, rows, columns = a.shape
    least = min(rows, columns)
    packed: Any = np.array(a, order="C").reshape(math.prod(batch), rows, columns)
    count = np.arange(len(packed))
    pivots = np.zeros((len(packed), least), np.int32)
    info = np.zeros(len(packed), np.int32)
    for k in range(least):
        column = packed[:, k:, k]
        place = (np.abs(column.real) + np.abs(column.imag)).argmax(1) + k  # as LAPACK measures complex numbers
        pivots[:, k] = place + 1
        packed[count, k], packed[count, place] = packed[count, place], packed[count, k].copy()
        pivot = packed[:, k, k]
        info[(pivot == 0) & (info == 0)] = k + 1
        packed[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)[:, None]
        packed[:, k + 1 :, k + 1 :] -= packed[:, k + 1 :, k, None] * packed[:, None, k, k + 1 :]
    return packed.reshape(a.shape), pivots.reshape(*batch, least), info.reshape(batch)


def _order(pivots: Any, rows: int) -> Any:
    """Return the order of rows that pivots lead to: row i of the product of the factors is row `order[i]` of A."""
    *batch, least = pivots.shape
    swaps = pivots.reshape(math.prod(batch), least)
    order = np.tile(np.arange(rows), (len(swaps), 1))
    count = np.arange(len(swaps))
    for k in range(least):
        place = swaps[:, k] - 1
        order[count, k], order[count, place] = order[count, place], order[count, k].copy()
    return order.reshape(*batch, rows)


_ORDER = define(
    "pivot_order",
    ("pivots",),
    _order,
    lambda params, pivots: ((*pivots.shape[:-1], params[0]), dtypes.int64),
    host_only=True,
)


def _permutation_of(pivots: Any, rows: int, dtype: Any) -> Any:
    """Return the permutation matrices P with A = P @ L @ U."""
    order = call(_ORDER, (pivots,), (rows,))
    places: Any = space_of(order).arange(rows)
    return to_dtype(unsqueeze(like_operand(places, order), -1) == unsqueeze(order, -2), dtype)


# ---- the factorisation -----------------------------------------------------------------------------------------------


def _lu_infer(params: tuple[Any, ...], a: Any) -> Any:
    batch = a.shape[:-2]
    return [(a.shape, a.dtype), ((*batch, min(a.shape[-2:])), np.dtype(np.int32)), (batch, np.dtype(np.int32))]


def _lu_backward(ctx: Any, grads: Any) -> Any:
    """The gradient through the leading square block, with what the other rows of L or columns of U add to it."""
    packed, pivots = ctx.saved_tensors
    g = grads[0]
    if g is None:
        return None
    rows, columns = ctx.inputs[0][0][-2:]
    k = min(rows, columns)
    block, g_block = packed[..., :k, :k], g[..., :k, :k]
    low, high = block, triu(block)
    below, above = (
        matmul(conjugate_transpose(_unit(low)), tril(g_block, -1)),
        matmul(triu(g_block), conjugate_transpose(high)),
    )
    parts: list[Any] = []
    if columns > k:
        right, g_right = packed[..., k:], g[..., k:]
        below = below - matmul(g_right, conjugate_transpose(right))
        parts = [solve_triangular(conjugate_transpose(low), g_right, upper=True, unitriangular=True)]
    if rows > k:
        bottom, g_bottom = packed[..., k:, :], g[..., k:, :]
        above = above - matmul(conjugate_transpose(bottom), g_bottom)
        parts = [solve_triangular(conjugate_transpose(high), g_bottom, upper=False, left=False)]
    inside = tril(below, -1) + triu(above)
    inside = solve_triangular(conjugate_transpose(high), inside, upper=False, left=False)
    first = solve_triangular(conjugate_transpose(low), inside, upper=True, unitriangular=True)
    out = cat([first, *parts], -1 if columns > k else -2)
    return matmul(_permutation_of(pivots, rows, out.dtype), out)


def _unit(packed: Any) -> Any:
    """Return the lower factor of packed ones: ones on the diagonal, zeros above."""
    rows, columns = packed.shape[-2:]
    ones: Any = space_of(packed).eye(rows, columns, dtype=packed.dtype)
    return tril(packed, -1) + like_operand(ones, packed)


_LU = define(
    "lu_factor",
    ("a",),
    quiet(eliminate),
    _lu_infer,
    _lu_backward,
    saves=("output", "output1"),
    outputs=3,
    host_only=True,
)


def _lower(packed: Any) -> Any:
    rows, columns = packed.shape[-2:]
    k = min(rows, columns)
    xp: Any = space_of(packed)
    return xp.tril(packed[..., :k], -1) + xp.eye(rows, k, dtype=packed.dtype)


def _lower_infer(params: tuple[Any, ...], packed: Any) -> Any:
    return (*packed.shape[:-1], min(packed.shape[-2:])), packed.dtype


def _lower_backward(ctx: Any, g: Any) -> Any:
    return _widened(tril(g, -1), ctx.inputs[0][0], -1)


def _upper(packed: Any) -> Any:
    return space_of(packed).triu(packed[..., : min(packed.shape[-2:]), :])


def _upper_infer(params: tuple[Any, ...], packed: Any) -> Any:
    *batch, rows, columns = packed.shape
    return (*batch, min(rows, columns), columns), packed.dtype


def _upper_backward(ctx: Any, g: Any) -> Any:
    return _widened(triu(g), ctx.inputs[0][0], -2)


def _widened(g: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Return a gradient with zeros behind it, up to the extent that `shape` has along an axis."""
    missing = list(shape)
    missing[axis] -= g.shape[axis]
    return cat([g, like_operand(space_of(g).zeros(missing, g.dtype), g)], axis) if missing[axis] else g


_UNPACK = define_together(
    "lu_unpack", Part(_lower, _lower_infer, _lower_backward, 0), Part(_upper, _upper_infer, _upper_backward, 0)
)


class PackedLU(NamedTuple):
    """What `lu_factor` returns."""

    LU: Any
    pivots: Any


class PackedLUAndInfo(NamedTuple):
    """What `lu_factor_ex` returns."""

    LU: Any
    pivots: Any
    info: Any


class LU(NamedTuple):
    """What `linalg.lu` and `lu_unpack` return."""

    P: Any
    L: Any
    U: Any


def _factored(name: str, A: Any, pivot: bool) -> tuple[Any, Any, Any]:
    if not pivot:
        raise AutogradError(f"{name}: LU without pivoting is not implemented on the CPU; leave pivot=True")
    return call(_LU, (A,))


@takes_matrices
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Return the LU factors of matrices packed in one (without the ones of L's diagonal), the pivots, and `info`: 0, or
    the place of the first zero on U's diagonal, counted from one.

    Raises:
        LinAlgError: `check_errors`, and there is such a zero.
    """
    found = PackedLUAndInfo(*_factored("linalg.lu_factor", A, pivot))
    if check_errors:
        check_info("linalg.lu_factor_ex", found.info, "U[{0},{0}] is zero; it cannot be used to solve a system")
    return found


@takes_matrices
def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """Return the LU factors of matrices packed in one, and the pivots; see `lu_solve`."""
    return PackedLU(*_factored("linalg.lu_factor", A, pivot)[:2])


@takes_matrices
def lu_of(A: Any, *, pivot: bool = True) -> Any:
    """Return P, L and U of matrices `A = P @ L @ U`: a permutation, a lower and an upper triangle."""
    packed, pivots, _ = _factored("linalg.lu", A, pivot)
    return lu_unpack(packed, pivots)


@takes_matrices
def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """Return the LU factors packed in one and the pivots; with `get_infos` as `linalg.lu_factor_ex`."""
    found = _factored("lu", A, pivot)
    return found if get_infos else found[:2]


def check_info(name: str, info: Any, what: str) -> None:
    """Raise for the first matrix whose `info` is not zero; in a session, waits for it.

    Raises:
        LinAlgError: there is one; `what` says of the place {0} what is wrong there.
    """
    found = np.asarray(info).reshape(-1)
    if found.any():
        number = int(np.flatnonzero(found)[0])
        where = f"(Batch element {number}): " if np.ndim(info) else ""
        raise LinAlgError(f"{name}: {where}{what.format(int(found[number]))}")


# ---- use of the factors ----------------------------------------------------------------------------------------------


def _check_packed(name: str, packed: Any, pivots: Any) -> None:
    if packed.ndim < 2:
        raise ShapeError(f"{name}: LU must have at least 2 dimensions, but it has shape {list(packed.shape)}")
    if pivots.dtype != np.int32:
        raise DtypeError(f"{name}: expected pivots of dtype int32, as lu_factor returns them, got {pivots.dtype}")
    if tuple(pivots.shape) != (*packed.shape[:-2], min(packed.shape[-2:])):
        raise ShapeError(f"{name}: pivots of shape {list(pivots.shape)} do not fit factors of {list(packed.shape)}")


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Return P, L and U of packed factors and pivots; empty tensors for those that are not wanted.

    Raises:
        TypeError: pivots of another dtype than int32.
        ShapeError: shapes that do not fit.
    """
    _check_packed("lu_unpack", LU_data, LU_pivots)
    rows = LU_data.shape[-2]
    nothing = LU_data[..., :0].reshape((0,)) if not (unpack_data and unpack_pivots) else None
    permutation = _permutation_of(LU_pivots, rows, LU_data.dtype) if unpack_pivots else nothing
    if not unpack_data:
        return LU(permutation, nothing, nothing)
    return LU(permutation, *call(_UNPACK, (LU_data,)))


@takes(floats_alone)
def linalg_lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """Return the X with `A @ X = B` (`X @ A = B` unless `left`), or with A's adjoint for `adjoint`, from A's factors.

    Raises:
        LinAlgError: a matrix is singular.
        ShapeError: shapes that do not fit.
    """
    _check_packed("linalg.lu_solve", LU, pivots)
    if LU.shape[-1] != LU.shape[-2]:
        raise ShapeError(f"linalg.lu_solve: LU must hold square matrices, but they are {list(LU.shape[-2:])}")
    if B.dtype != LU.dtype:
        raise AutogradError(f"linalg.lu_solve: expected LU and B of one dtype, got {LU.dtype} and {B.dtype}")
    if not left:
        turned = linalg_lu_solve(LU, pivots, conjugate_transpose(B), adjoint=not adjoint)
        return conjugate_transpose(turned)
    if B.ndim < 2 or B.shape[-2] != LU.shape[-1]:
        raise ShapeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation AX = B: {list(LU.shape)} and "
            f"{list(B.shape)}"
        )
    permutation = _permutation_of(pivots, LU.shape[-1], LU.dtype)
    if adjoint:
        inner = solve_triangular(conjugate_transpose(triu(LU)), B, upper=False)
        inner = solve_triangular(conjugate_transpose(LU), inner, upper=True, unitriangular=True)
        return matmul(permutation, inner)
    inner = solve_triangular(LU, matmul(transpose(permutation, -2, -1), B), upper=False, unitriangular=True)
    return solve_triangular(LU, inner, upper=True)


def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """Return the X with `A @ X = b` from the packed factors and pivots of A."""
    return linalg_lu_solve(LU_data, LU_pivots, b)
