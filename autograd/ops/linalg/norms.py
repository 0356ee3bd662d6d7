"""The norms of `raygrad.linalg`: vector_norm, matrix_norm, norm, cond.

Composed of other ops; the op of the p-norm itself, behind `raygrad.norm`, is in `reduction.vector_norms`.
"""

from __future__ import annotations

import math
from typing import Any

from raygrad.errors import AutogradError

from ...dispatch.shape_errors import check_least_dims
from ...registry.define_op import axis_of
from ...registry.dtype_constraints import floats_alone, takes
from ..elementwise.unary import abs
from ..layout.axis_order import to_dtype
from ..layout.shape import movedim, reshape
from ..reduction.minmax import amax, amin
from ..reduction.reduce import Dims, sum
from ..reduction.vector_norms import norm as vector
from .factorizations import svdvals
from .solving import inv


@takes(floats_alone)
def vector_norm(x: Any, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the p-norm of the elements over `dim`, p being `ord`."""
    return vector(x, ord, dim, keepdim, dtype)


def _restored(value: Any, axes: tuple[int, int], keepdim: bool) -> Any:
    """Return a norm over two dimensions with these kept as extent one, if `keepdim` is set."""
    if not keepdim:
        return value
    ndim = value.ndim + 2
    kept = reshape(value, (*value.shape, 1, 1))
    return movedim(kept, (ndim - 2, ndim - 1), axes)


def matrix_norm(
    A: Any, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Return the norm of matrices that stand in two dimensions.

    Args:
        ord: "fro"; "nuc", the sum of the singular values; 2 and -2, the greatest and the smallest of them; 1 and -1,
            the greatest and the smallest sum of a column; inf and -inf, of a row.

    Raises:
        AutogradError: another norm, or one dimension given twice.
    """
    matrices = A if dtype is None else to_dtype(A, dtype)
    check_least_dims("linalg.matrix_norm", A, 2)
    if len(dim) != 2:
        raise AutogradError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    rows, columns = (axis_of(d, matrices.ndim) for d in dim)
    if rows == columns:
        raise AutogradError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return vector(matrices, 2, (rows, columns), keepdim)
    last = movedim(matrices, (rows, columns), (-2, -1))
    if ord in ("nuc", 2, -2):
        values = svdvals(last)
        out = sum(values, -1) if ord == "nuc" else amax(values, -1) if ord == 2 else amin(values, -1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = sum(abs(last), -2 if ord in (1, -1) else -1)
        out = amax(sums, -1) if ord > 0 else amin(sums, -1)
    else:
        raise AutogradError(
            f"linalg.matrix_norm: Order {ord} not supported; known: 'fro', 'nuc', 1, -1, 2, -2, inf, -inf"
        )
    return _restored(out, (rows, columns), keepdim)


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the norm of all elements; with `ord`, of the matrix or the vector that `dim` says or that `A` is."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    dims: Any = dim if dim is not None else tuple(range(A.ndim))
    pair = type(dims) in (tuple, list) and len(dims) == 2
    if isinstance(ord, str) or pair:
        if not pair:
            raise AutogradError(f"linalg.norm: order {ord!r} is for matrices; give two dimensions")
        return matrix_norm(A, ord, (dims[0], dims[1]), keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A: Any, p: Any = None) -> Any:
    """Return the condition numbers of matrices, in a norm."""
    if p in (None, 2, -2):
        values = svdvals(A)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    return matrix_norm(A, p) * matrix_norm(inv(A), p)
