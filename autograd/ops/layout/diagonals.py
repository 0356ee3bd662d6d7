"""Diagonals and triangles: diagonal, diag, tril, triu, and writing to a diagonal.

diag_embed, diagflat and the indices of triangles are in `rearranging`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...dispatch.dispatch import call
from ...dispatch.shape_errors import check_least_dims
from ...registry.define_op import Op, Shape, axis_of, define, infer_same, infer_shaped, row_by_row, space_of

PUBLIC = "diag diagonal tril triu".split()

# ---- diagonals, triangles, borders -----------------------------------------------------------------------------------


def _diagonal(a: Any, offset: int, first: int, second: int) -> Any:
    out = a.diagonal(offset, first, second)
    if type(a) is np.ndarray and a.flags.writeable:
        out.flags.writeable = True  # NumPy takes the permission away, for fear of old habits
    return out


def _diagonal_infer(params: tuple[Any, ...], a: Any) -> Any:
    offset, first, second = params
    n, m = a.shape[first], a.shape[second]
    extent = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
    return (*[e for axis, e in enumerate(a.shape) if axis not in (first, second)], extent), a.dtype


def _diagonal_grad(g: Any, offset: int, first: int, second: int, shape: Shape) -> Any:
    out = space_of(g).zeros(shape, g.dtype)
    rows = space_of(g).arange(g.shape[-1]) + max(-offset, 0)
    np.moveaxis(out, (first, second), (-2, -1))[..., rows, rows + offset] = g
    return out


_DIAGONAL: Op = define(
    "diagonal",
    ("a",),
    _diagonal,
    _diagonal_infer,
    lambda ctx, g: call(_DIAGONAL_GRAD, (g,), (*ctx.params, tuple(ctx.inputs[0][0]))),
    saves="none",
    view=True,
)
_DIAGONAL_GRAD = define(
    "diagonal_grad",
    ("g",),
    _diagonal_grad,
    infer_shaped(3),
    lambda ctx, g: call(_DIAGONAL, (g,), ctx.params[:3]),
    saves="none",
)


def _put_diagonal(a: Any, value: Any, offset: int, first: int, second: int) -> Any:
    out = a.copy(order="K")
    _diagonal(out, offset, first, second)[...] = value
    return out


def _put_diagonal_infer(params: tuple[Any, ...], a: Any, value: Any) -> Any:
    region = _diagonal_infer(params, a)[0]
    if hasattr(value, "shape") and tuple(value.shape) != region:
        raise ShapeError(
            f"expected what is put on a diagonal to be of its shape {list(region)}, got {list(value.shape)}"
        )
    return a.shape, a.dtype


def _put_diagonal_backward(ctx: Any, g: Any) -> Any:
    need_a, need_value = ctx.needs_input_grad
    return (
        call(_PUT_DIAGONAL, (g, 0), ctx.params) if need_a else None,
        call(_DIAGONAL, (g,), ctx.params) if need_value else None,
    )


_PUT_DIAGONAL: Op = define(
    "put_diagonal", ("a", "value"), _put_diagonal, _put_diagonal_infer, _put_diagonal_backward, saves="none"
)


_TRIL = define("tril", ("a",), row_by_row(np.tril), infer_same, lambda ctx, g: tril(g, *ctx.params), saves="none")
_TRIU = define("triu", ("a",), row_by_row(np.triu), infer_same, lambda ctx, g: triu(g, *ctx.params), saves="none")


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a view of a diagonal, as the last dimension."""
    first, second = axis_of(dim1, input.ndim), axis_of(dim2, input.ndim)
    if first == second:
        raise AutogradError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return call(_DIAGONAL, (input,), (operator.index(offset), first, second))


def diag(input: Any, diagonal: int = 0) -> Any:
    """Return the diagonal of a matrix, or the matrix with a vector on its diagonal."""
    if input.ndim == 2:
        return call(_DIAGONAL, (input,), (operator.index(diagonal), 0, 1))
    if input.ndim != 1:
        raise AutogradError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    extent = input.shape[0] + abs(diagonal)
    return call(_DIAGONAL_GRAD, (input,), (operator.index(diagonal), 0, 1, (extent, extent)))


def on_diagonal(input: Any, offset: int, first: int, second: int, shape: Shape) -> Any:
    """Return zeros of `shape` with the last dimension of `input` on a diagonal."""
    return call(_DIAGONAL_GRAD, (input,), (operator.index(offset), first, second, shape))


def put_diagonal(input: Any, value: Any, offset: int, first: int, second: int) -> Any:
    """Return a copy of `input` with `value` on a diagonal."""
    return call(_PUT_DIAGONAL, (input, value), (offset, first, second))


def tril(input: Any, diagonal: int = 0) -> Any:
    """Return the lower triangle of the last two dimensions, zeros above."""
    check_least_dims("tril", input, 2)
    return call(_TRIL, (input,), (operator.index(diagonal),))


def triu(input: Any, diagonal: int = 0) -> Any:
    """Return the upper triangle of the last two dimensions, zeros below."""
    check_least_dims("triu", input, 2)
    return call(_TRIU, (input,), (operator.index(diagonal),))
