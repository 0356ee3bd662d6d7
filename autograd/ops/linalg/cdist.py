"""Distances of vectors, composed of `norm`: cdist of all pairs of rows, dist of two tensors.

The losses of distances, and `pairwise_distance`, are in `neural.distances`.
"""

from __future__ import annotations

from typing import Any

from raygrad.errors import ShapeError

from ...registry.dtype_constraints import real_floats, takes
from ..elementwise.arithmetic import sub
from ..layout.shape import unsqueeze
from ..reduction.vector_norms import norm

PUBLIC = "cdist dist".split()

_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@takes(real_floats, 2)
def cdist(
    x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"
) -> Any:
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


def dist(input: Any, other: Any, p: float = 2) -> Any:
    """Return the p-norm of `input - other`."""
    return norm(sub(input, other), p)
