"""The matrix exponential, `matrix_exp`, by scaling and squaring, with its derivative.

The kernel works on whole batches.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.dispatch import call
from ...registry.define_op import contiguous, define, infer_same, quiet, space_of, xp
from ..layout.joining import cat
from .factorizations import takes_square_matrices
from .matmul import conjugate_transpose

PUBLIC = ["matrix_exp"]

_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
"""The coefficients of the approximation of degree 13, which holds to the last bits for norms up to `_NEAR` (Higham,
2005)."""

_NEAR = 5.371920351148152


def _exponential(a: Any) -> Any:
    """Scale the matrices down by halving, approximate, and square as often."""
    norms = np.abs(a).sum(-2).max(-1) if a.size else space_of(a).zeros(())
    greatest = float(norms.max()) if np.size(norms) else 0.0
    halvings = max(math.ceil(math.log2(greatest / _NEAR)), 0) if greatest > _NEAR and math.isfinite(greatest) else 0
    # squaring doubles what rounding leaves, so that single precision would lose digits that nobody expects to miss
    x = contiguous(a).astype(np.result_type(a.dtype, np.float64), copy=False) / 2.0**halvings
    one: Any = np.broadcast_to(space_of(a).eye(a.shape[-1], dtype=x.dtype), a.shape)
    square = x @ x
    odd, even, power = one * _PADE[1], one * _PADE[0], one
    for n in range(2, len(_PADE), 2):
        power = power @ square
        even = even + power * _PADE[n]
        odd = odd + power * _PADE[n + 1]
    odd = x @ odd
    out = xp.linalg.solve(even - odd, even + odd)
    for _ in range(halvings):
        out = out @ out
    return out.astype(a.dtype, copy=False)


def _backward(ctx: Any, g: Any) -> Any:
    """The derivative along g is a block of the exponential of twice the size (Mathias, 1996)."""
    adjoint = conjugate_transpose(ctx.saved_tensors[0])
    extent = ctx.inputs[0][0][-1]
    above, below = cat([adjoint, g], -1), cat([adjoint * 0, adjoint], -1)
    return matrix_exp(cat([above, below], -2))[..., :extent, extent:]


_MATRIX_EXP = define("matrix_exp", ("a",), quiet(_exponential), infer_same, _backward)


@takes_square_matrices
def matrix_exp(A: Any) -> Any:
    """Return the exponentials of matrices.

    Raises:
        ShapeError: matrices that are not square.
    """
    return call(_MATRIX_EXP, (A,))
