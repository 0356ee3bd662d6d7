"""Statistics composed of reductions: nansum, nanmean, cov, corrcoef.

They have no derivatives of their own.
"""

from __future__ import annotations

import math
from typing import Any

from raygrad.errors import AutogradError, ShapeError

from ...core.dtypes import get_default_dtype
from ...dispatch.autocast_policies import with_autocast
from ...dispatch.shape_errors import is_at_hand
from ...registry.define_op import conj, real_of
from ...registry.dtype_constraints import integers_alone, no_bools, no_complex, real_floats, takes
from ..elementwise.compare import isnan
from ..elementwise.unary import sqrt
from ..elementwise.where import keep
from ..layout.axis_order import to_dtype
from ..layout.diagonals import diagonal
from ..layout.shape import reshape, transpose, unsqueeze
from ..linalg.matmul import matmul
from .reduce import Dims, mean, sum

PUBLIC = "corrcoef cov nanmean nansum".split()


@takes(no_complex)
def nansum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the sum over `dim` of the elements that are not NaN."""
    return sum(keep(input, ~isnan(input)), dim, keepdim, dtype=dtype)


def nanmean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the mean over `dim` of the elements that are not NaN."""
    if input.dtype.kind not in "fc":
        raise AutogradError(f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype}")
    return nansum(input, dim, keepdim, dtype=dtype) / sum(~isnan(input), dim, keepdim)


def _check_weights(kind: str, weights: Any, observations: int) -> None:
    """Check the weights of `cov`; in a session their sign is not known, and not asked for."""
    if weights.ndim > 1:
        raise ShapeError(f"cov(): expected {kind} to have one or fewer dimensions but got {weights.ndim}")
    if math.prod(weights.shape) != observations:
        raise ShapeError(
            f"cov(): expected {kind} to have the same numel as there are observations in the input but got "
            f"{math.prod(weights.shape)} != {observations}"
        )
    if is_at_hand(weights) and bool((weights < 0).any()):
        raise AutogradError(f"cov(): {kind} cannot be negative")


def cov(input: Any, *, correction: float = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Return the covariances of variables, one a row, of observations, one a column, with weights if given.

    Raises:
        RuntimeError: more than two dimensions; weights that are no vector of as many numbers as there are observations,
            or negative.
    """
    if input.ndim > 2:
        raise AutogradError(f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim}")
    no_bools("cov", (input,), input.dtype)
    if input.dtype.kind in "iu":
        input = to_dtype(input, get_default_dtype())
    rows = input if input.ndim == 2 else reshape(input, (1, math.prod(input.shape)))
    weights = None
    if fweights is not None:
        integers_alone("cov of fweights", (), fweights.dtype)
    if aweights is not None:
        real_floats("cov of aweights", (), aweights.dtype)
    for kind, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            _check_weights(kind, given, rows.shape[1])
            given = to_dtype(given, real_of(rows.dtype))
            weights = given if weights is None else weights * given
    if weights is None:
        count: Any = rows.shape[1]
        centred = rows - mean(rows, 1, True)
        product, free = with_autocast(matmul)(centred, conj(transpose(centred, 0, 1))), count - correction
    else:
        total = sum(weights)
        centred = rows - unsqueeze(sum(rows * weights, 1), 1) / total
        product = with_autocast(matmul)(centred * weights, conj(transpose(centred, 0, 1)))
        if aweights is None or not correction:
            free = total - correction
        else:
            free = total - correction * sum(weights * to_dtype(aweights, real_of(rows.dtype))) / total
    return reshape(product / free, () if rows.shape[0] == 1 else product.shape)


def corrcoef(input: Any) -> Any:
    """Return the correlations of variables, one a row, of observations, one a column."""
    covariances = cov(input)
    if not covariances.ndim:
        return covariances / covariances
    spread = sqrt(diagonal(covariances))
    spread = spread.real if spread.dtype.kind == "c" else spread
    return covariances / unsqueeze(spread, 1) / unsqueeze(spread, 0)
