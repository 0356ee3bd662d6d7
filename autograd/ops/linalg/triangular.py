"""The triangular solve, `solve_triangular`, with its derivative.

The rules of the factorisations use it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import LinAlgError, ShapeError

from ...dispatch.dispatch import call
from ...dispatch.shape_errors import check_least_dims
from ...registry.define_op import broadcast_shape, contiguous, define, space_of, xp
from ...registry.dtype_constraints import floats_alone, takes
from ..layout.diagonals import tril, triu
from ..layout.shape import transpose
from .matmul import conjugate_transpose, matmul


def _solve(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    triangle: Any = (np.triu if upper else np.tril)(a, (1 if upper else -1) if unit else 0)
    if unit:
        triangle = triangle + space_of(a).eye(a.shape[-1], dtype=a.dtype)
    try:
        return xp.linalg.solve(triangle, contiguous(b))
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"linalg.solve_triangular: {error}") from None


def _solve_infer(params: tuple[Any, ...], a: Any, b: Any) -> Any:
    if a.shape[-2] != a.shape[-1] or a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"linalg.solve_triangular: Incompatible shapes of A and B for the equation AX = B: {list(a.shape)} and "
            f"{list(b.shape)}"
        )
    return (*broadcast_shape("solve_triangular", (a.shape[:-2], b.shape[:-2])), *b.shape[-2:]), b.dtype


def _solve_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    upper, unit = ctx.params
    to_b = call(_SOLVE, (conjugate_transpose(a), g), (not upper, unit))
    if not ctx.needs_input_grad[0]:
        return None, to_b
    to_a = -matmul(to_b, conjugate_transpose(out))
    return triu(to_a, int(unit)) if upper else tril(to_a, -int(unit)), to_b


_SOLVE = define("solve_triangular", ("a", "b"), _solve, _solve_infer, _solve_backward, saves=("a", "output"))


@takes(floats_alone, 2)
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """Return the X with `A @ X = B` (or `X @ A = B` unless `left`) for triangular matrices A.

    Args:
        upper: which triangle of `A` is read.
        unitriangular: take ones for its diagonal.

    Raises:
        LinAlgError: a zero on the diagonal.
        ShapeError: shapes that do not fit.
    """
    check_least_dims("linalg.solve_triangular", A, 2)
    check_least_dims("linalg.solve_triangular", B, 2)
    if not left:
        turned = solve_triangular(
            transpose(A, -2, -1), transpose(B, -2, -1), upper=not upper, unitriangular=unitriangular
        )
        return transpose(turned, -2, -1)
    _solve_infer((), A, B)
    return call(_SOLVE, (A, B), (bool(upper), bool(unitriangular)))
