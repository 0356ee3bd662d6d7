"""Lengths of vectors, composed of `norm`: cdist of all pairs of rows, dist of two tensors, renorm to a greatest length.

The losses of distances, and `pairwise_distance`, are in `neural.distances`.
"""

from __future__ import annotations

from typing import Any

from raygrad.errors import AutogradError, ShapeError

from ...registry.define_op import axis_of
from ...registry.dtype_constraints import floats_alone, real_floats, takes
from ..elementwise.arithmetic import mul, sub
from ..elementwise.where import where
from ..layout.shape import unsqueeze
from ..reduction.vector_norms import norm

PUBLIC = "cdist dist renorm".split()

_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@takes(real_floats, 2)
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """Return the p-norms of the differences of all rows of `x1` and all rows of `x2`; their gradient at 0 is 0.

    Args:
        compute_mode: whether Euclidean distances come from a product of matrices, which is faster and less precise:
            "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", or where it pays. PyTorch's names; here all three
            take differences, as there is no product that would be more precise.

    Raises:
        ValueError: another mode.
    """
    if compute_mode is not None and compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode; known: {', '.join(_MODES)}")
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"cdist needs matrices with the same number of columns, got shapes {list(x1.shape)} and {list(x2.shape)}"
        )
    return norm(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p, -1)


@takes(floats_alone)
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Return `input` with the slices along `dim` whose p-norm is above `maxnorm` scaled down to it.

    Raises:
        RuntimeError: `p` is not positive, `maxnorm` negative, or there are fewer than two dimensions.
    """
    if not p > 0:
        raise AutogradError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise AutogradError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise AutogradError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    axis = axis_of(dim, input.ndim)
    lengths = norm(input, p, tuple([d for d in range(input.ndim) if d != axis]), True)
    return mul(input, where(lengths > maxnorm, maxnorm / (lengths + 1e-7), 1.0))


def dist(input: Any, other: Any, p: float = 2) -> Any:
    """Return the p-norm of `input - other`."""
    return norm(sub(input, other), p)
