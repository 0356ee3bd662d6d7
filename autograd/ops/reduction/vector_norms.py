"""The p-norm over dimensions, with its kernels and derivatives.

Matrix norms, and those of `raygrad.linalg`, are in `linalg.norms`; `raygrad.norm` is in `linalg.top_level`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...core.array_layout import as_dense
from ...dispatch.dispatch import call
from ...registry.define_op import Shape, define, quiet, real_of, row_by_row
from ..elementwise.unary import abs, sgn
from ..elementwise.where import keep, where
from ..layout.axis_order import to_dtype, zeros_as
from .minmax import greatest, least
from .reduce import Dims, add_up, converted, keep_reduced_dims, reduced_shape, static_of, sum


def _norm(a: Any, axes: Shape | None, keepdim: bool) -> Any:
    if a.dtype.kind in "iub":
        raise TypeError
    a = as_dense(a)
    squares = (a * a.conj()).real if a.dtype.kind == "c" else a * a
    return np.sqrt(add_up(squares, axes, None, None, keepdim))


def _norm_infer(params: tuple[Any, ...], a: Any) -> Any:
    if a.dtype.kind in "iub":
        raise AutogradError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {a.dtype}")
    return reduced_shape(a.shape, *params), real_of(a.dtype)


def _norm_backward(ctx: Any, g: Any) -> Any:
    """The gradient at zero is zero times what arrives."""
    a, out = ctx.saved_tensors
    out = keep_reduced_dims(out, ctx)
    return keep_reduced_dims(g, ctx) * keep(a / out, out != 0)


_NORM = define("norm", ("a",), quiet(row_by_row(_norm)), _norm_infer, _norm_backward, saves=("a", "output"))


def _p_norm_backward(ctx: Any, g: Any) -> Any:
    """The gradient at zero is zero; there PyTorch's second derivative is NaN but for cubes and beyond."""
    a, out = ctx.saved_tensors
    p = ctx.params[2]
    g, out = keep_reduced_dims(g, ctx), keep_reduced_dims(out, ctx)
    if p < 1:
        return where(a == 0, 0.0, sgn(a) * abs(a) ** (p - 1)) * (g * out ** (1 - p))
    scaled = sgn(a) * abs(a) ** (p - 1) if p < 2 else a * abs(a) ** (p - 2)
    return scaled * where(out == 0, 0.0, g / out ** (p - 1))


_P_NORM = define(
    "p_norm",
    ("a",),
    quiet(lambda a, axes, keepdim, p: add_up(np.abs(as_dense(a)) ** p, axes, None, None, keepdim) ** (1.0 / p)),
    lambda params, a: _norm_infer(params[:2], a),
    _p_norm_backward,
    saves=("a", "output"),
)


def norm(input: Any, p: Any = 2, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return the p-norm of the elements over `dim`; "fro" and 2 are the Euclidean norm."""
    if input.dtype.kind not in "fc":
        raise AutogradError(f"norm(): expected a floating point or complex tensor as input, got {input.dtype}")
    input = converted(input, dtype)
    if p in ("fro", 2, None):
        return call(_NORM, (input,), static_of(input, dim, keepdim))
    magnitudes = abs(input)
    if p == math.inf:
        return greatest(magnitudes, () if dim is None else dim, keepdim)
    if p == -math.inf:
        return least(magnitudes, () if dim is None else dim, keepdim)
    if p == 0:
        return sum(to_dtype(input != 0, real_of(input.dtype)) + zeros_as(magnitudes), dim, keepdim)
    if p == 1:
        return sum(magnitudes, dim, keepdim)
    return call(_P_NORM, (input,), (*static_of(input, dim, keepdim), float(p)))
