"""`mode`, the most frequent element along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtypes
from ...dispatch.dispatch import call
from ...registry.define_op import axis_of, define, space_of
from ...registry.dtype_constraints import no_complex, takes
from ..indexing.gathering import gather
from ..layout.shape import squeeze
from .minmax import ValuesIndices

PUBLIC = ["mode"]


def _mode(a: Any, axis: int) -> Any:
    """Return where the most frequent elements stand: the end of the longest run of equal ones in sorted order."""
    if not a.ndim:
        return space_of(a).zeros((), np.int64)
    order = np.argsort(a, axis, kind="stable")
    rows, places = np.moveaxis(np.take_along_axis(a, order, axis), axis, -1), np.moveaxis(order, axis, -1)
    extent = rows.shape[-1]
    number: Any = space_of(a).arange(extent)
    begins = np.ones(rows.shape, bool)
    begins[..., 1:] = rows[..., 1:] != rows[..., :-1]
    run: Any = number - np.maximum.accumulate(np.where(begins, number, 0), -1)
    longest: Any = run.argmax(-1)[..., None]  # the first of equal runs: that of the smallest element
    return np.ascontiguousarray(np.moveaxis(np.take_along_axis(places, longest, -1), -1, axis))


_MODE = define(
    "mode",
    ("a",),
    _mode,
    lambda params, a: ((*a.shape[: params[0]], 1, *a.shape[params[0] + 1 :]) if a.shape else (), dtypes.int64),
    admits=no_complex,
    host_only=True,
)


@takes(no_complex)
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the most frequent element along `dim` (of equally frequent ones the smallest), and where it is.

    Raises:
        IndexError: there is no element along `dim`.
    """
    axis = axis_of(dim, input.ndim)
    if input.ndim and not input.shape[axis]:
        raise IndexError(f"mode(): Expected reduction dim {axis} to have non-zero size.")
    places = call(_MODE, (input,), (axis,))
    values = gather(input, axis, places)
    if keepdim or not input.ndim:
        return ValuesIndices(values, places)
    return ValuesIndices(squeeze(values, axis), squeeze(places, axis))
