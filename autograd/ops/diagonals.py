"""Diagonals, triangles and borders of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ..dispatch import call
from ..tensor import Tensor
from .define import Shape, axis_of, define, infer_same, xp
from .indexing import put_region, zeros_around

# ---- diagonals, triangles, borders -----------------------------------------------------------------------------------


def _diagonal(a: Any, offset: int, first: int, second: int) -> Any:
    out = a.diagonal(offset, first, second)
    if a.flags.writeable:
        out.flags.writeable = True  # NumPy takes the permission away, for fear of old habits
    return out


def _diagonal_infer(params: tuple[Any, ...], a: Any) -> Any:
    offset, first, second = params
    n, m = a.shape[first], a.shape[second]
    extent = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
    return (*[e for axis, e in enumerate(a.shape) if axis not in (first, second)], extent), a.dtype


def _diagonal_grad(g: Any, offset: int, first: int, second: int, shape: Shape) -> Any:
    out = np.zeros(shape, g.dtype)
    rows = xp.arange(g.shape[-1]) + max(-offset, 0)
    np.moveaxis(out, (first, second), (-2, -1))[..., rows, rows + offset] = g
    return out


def _diagonal_grad_infer(params: tuple[Any, ...], g: Any) -> Any:
    return params[3], g.dtype


def _diagonal_backward(ctx: Any, g: Any) -> Any:
    return call(_DIAGONAL_GRAD, (g,), (*ctx.params, tuple(ctx.inputs[0][0])))


_DIAGONAL = define(
    "diagonal",
    ("a",),
    _diagonal,
    _diagonal_infer,
    _diagonal_backward,
    saves="none",
    view=True,
)
_DIAGONAL_GRAD = define(
    "diagonal_grad",
    ("g",),
    _diagonal_grad,
    _diagonal_grad_infer,
    lambda ctx, g: call(_DIAGONAL, (g,), ctx.params[:3]),
    saves="none",
)


def _tril(a: Any, offset: int) -> Any:
    return np.tril(a, offset)


def _triu(a: Any, offset: int) -> Any:
    return np.triu(a, offset)


_TRIL = define("tril", ("a",), _tril, infer_same, lambda ctx, g: tril(g, *ctx.params), saves="none")
_TRIU = define("triu", ("a",), _triu, infer_same, lambda ctx, g: triu(g, *ctx.params), saves="none")


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a view of a diagonal, as the last dimension."""
    first, second = axis_of(dim1, input.ndim), axis_of(dim2, input.ndim)
    if first == second:
        raise AutogradError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return call(_DIAGONAL, (input,), (int(offset), first, second))


def diag(input: Any, diagonal: int = 0) -> Any:
    """Return the diagonal of a matrix, or the matrix with a vector on its diagonal."""
    if input.ndim == 2:
        return call(_DIAGONAL, (input,), (int(diagonal), 0, 1))
    if input.ndim != 1:
        raise AutogradError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    extent = input.shape[0] + abs(diagonal)
    return call(_DIAGONAL_GRAD, (input,), (int(diagonal), 0, 1, (extent, extent)))


def put_diagonal(input: Any, value: Any, offset: int, first: int, second: int) -> Any:
    """Return a copy of `input` with `value` on a diagonal."""
    shape = tuple(input.shape)
    place = (offset, first, second, shape)
    others = call(_DIAGONAL_GRAD, (call(_DIAGONAL, (input,), place[:3]),), place)
    return input - others + call(_DIAGONAL_GRAD, (value,), place)


def tril(input: Any, diagonal: int = 0) -> Any:
    """Return the lower triangle of the last two dimensions, zeros above."""
    return call(_TRIL, (input,), (int(diagonal),))


def triu(input: Any, diagonal: int = 0) -> Any:
    """Return the upper triangle of the last two dimensions, zeros below."""
    return call(_TRIU, (input,), (int(diagonal),))


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Return `input` with a border of `value`: (left, right) of the last dimension, then of the one before, and on."""
    if mode != "constant":
        raise NotImplementedError(f"pad: mode '{mode}' is not supported; only 'constant' is")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise AutogradError(f"Padding length must be even and at most twice the dimensions, got {len(pad)}")
    widths = [(0, 0)] * (input.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    if any(n < 0 for pair in widths for n in pair):
        inner = tuple(
            [
                slice(max(-low, 0), extent - max(-high, 0))
                for (low, high), extent in zip(widths, input.shape, strict=True)
            ]
        )
        input = input[inner]
        widths = [(max(low, 0), max(high, 0)) for low, high in widths]
    shape = tuple([low + extent + high for (low, high), extent in zip(widths, input.shape, strict=True)])
    place = tuple([(low, low + extent, 1) for (low, _), extent in zip(widths, input.shape, strict=True)])
    if not value:
        return zeros_around(input, place, shape)
    border = np.full(shape, value, input.dtype)
    return put_region(Tensor.made(border) if isinstance(input, Tensor) else border, input, place)
