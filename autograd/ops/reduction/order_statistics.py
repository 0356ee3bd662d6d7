"""Order statistics: median, kthvalue, quantile, searchsorted, bucketize, aminmax, count_nonzero.

Composed of sorting, but for the search in sorted tensors. `sort` and `topk` are in `sort`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError

from ...core import dtypes
from ...dispatch.dispatch import call
from ...dispatch.operand_errors import wrong_argument
from ...registry.define_op import axis_of, define, space_of, xp
from ...registry.dtype_constraints import alike, no_complex, real_floats, real_numbers, takes
from ...tensor.tensor import Tensor
from ..elementwise.arithmetic import sub
from ..elementwise.compare import isnan
from ..elementwise.unary import ceil, floor, round
from ..elementwise.where import where
from ..indexing.gathering import gather
from ..layout.axis_order import to_dtype
from ..layout.shape import movedim, reshape, squeeze
from .minmax import ValuesIndices, along_some, extremes
from .reduce import Dims, sum
from .sort import argsort, sort

PUBLIC = "aminmax bucketize count_nonzero kthvalue median nanmedian nanquantile quantile searchsorted".split()


class MinMax(NamedTuple):
    """The result of `aminmax`."""

    min: Any
    max: Any


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the smallest and the greatest element over `dim`; equal ones share the gradient."""
    dims = () if dim is None else dim
    return MinMax(*extremes(input, dims, keepdim))


def count_nonzero(input: Any, dim: Dims = None) -> Any:
    """Return how many elements over `dim` are not zero."""
    return sum(input != 0, dim)


# ---- k-th value and median -------------------------------------------------------------------------------------------


def _picked(input: Any, places: Any, axis: int, keepdim: bool) -> ValuesIndices:
    """Return the elements at a given position along `axis`, and their indices."""
    values = gather(input, axis, places)
    if keepdim or not input.ndim:
        return ValuesIndices(values, places)
    return ValuesIndices(squeeze(values, axis), squeeze(places, axis))


def _at(order: Any, axis: int, position: int) -> Any:
    return order[(*[slice(None)] * axis, slice(position, position + 1))] if order.ndim else order


@along_some(2)
@takes(real_numbers)
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the `k`-th smallest element along `dim`, counted from 1, and where it is.

    Raises:
        RuntimeError: there is no such element.
    """
    axis = axis_of(dim, input.ndim)
    if not 1 <= k <= (input.shape[axis] if input.ndim else 1):
        raise AutogradError(f"kthvalue(): selected number k out of range for dimension {axis}")
    return _picked(input, _at(argsort(input, axis), axis, k - 1), axis, keepdim)


@along_some(1)
@takes(real_numbers)
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median (of an even number the lower one): of all elements, or along `dim` and where it is.

    NaN where an element is NaN. Of all elements, equal ones share the gradient.
    """
    if dim is None:
        return _shared_median(input, median)
    axis = axis_of(dim, input.ndim)
    order = argsort(input, axis)
    extent = input.shape[axis] if input.ndim else 1
    places = _at(order, axis, (extent - 1) // 2)
    if input.dtype.kind == "f":
        last = _at(order, axis, extent - 1)  # NaNs are sorted behind all
        places = where(isnan(gather(input, axis, last)), last, places)
    return _picked(input, places, axis, keepdim)


@along_some(1)
@takes(real_numbers)
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median of the elements that are not NaN; see `median`."""
    if dim is None:
        return _shared_median(input, nanmedian)
    axis = axis_of(dim, input.ndim)
    order = argsort(input, axis)
    count = sum(~isnan(input), axis, True) if input.ndim else sum(~isnan(input))
    middle = where(count > 0, (count - 1) // 2, 0)
    return _picked(input, gather(order, axis, middle), axis, keepdim)


def _shared_median(input: Any, of: Any) -> Any:
    flat = reshape(input, (-1,))
    if not flat.shape[0]:
        none = np.nan if input.dtype.kind == "f" else int(dtypes.iinfo(input.dtype).min)  # what PyTorch says of none
        return to_dtype(sum(flat), input.dtype) + none
    value = of(flat.detach(), 0)[0] if isinstance(flat, Tensor) else of(flat, 0)[0]
    if input.dtype.kind != "f":
        return value
    equal = (flat == value) | (isnan(flat) & isnan(value))
    return sum(where(equal, flat, 0.0)) / sum(equal)


# ---- quantiles -------------------------------------------------------------------------------------------------------

_ROUNDED = {"lower": floor, "higher": ceil, "nearest": round}


@alike(0, 1)
@takes(real_floats)
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Return the `q`-quantiles along `dim`, of all elements by default; several `q` stand in a new first dimension.

    Args:
        q: a number, or a tensor of at most one dimension, in [0, 1].
        interpolation: "linear" or "midpoint" between neighbours; "lower", "higher" or "nearest" for one of them.

    Raises:
        RuntimeError: another interpolation, or `q` has more dimensions, or is out of range.
    """
    return _quantile(input, q, dim, keepdim, interpolation, False)


@alike(0, 1)
@takes(real_floats)
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Return the quantiles of the elements that are not NaN; see `quantile`."""
    return _quantile(input, q, dim, keepdim, interpolation, True)


def _quantile(input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip: bool) -> Any:
    if interpolation not in (*_ROUNDED, "linear", "midpoint"):
        raise AutogradError(
            f"quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )
    if q is None or isinstance(q, str):
        raise wrong_argument("quantile", "q", 2, "a number or Tensor", type(q).__name__)
    if isinstance(q, float | int) and not 0 <= q <= 1:
        raise AutogradError(f"quantile() q must be in the range [0, 1] but got {q}")
    wanted: Any = q if isinstance(q, Tensor) else Tensor.made(space_of(input).asarray(q, input.dtype))
    if wanted.ndim > 1:
        raise AutogradError(f"quantile() q must be a scalar or 1D tensor, got {wanted.ndim} dimensions")
    ndim, axis = input.ndim, 0 if dim is None else axis_of(dim, input.ndim)
    rows = reshape(input, (-1,)) if dim is None or not ndim else movedim(input, axis, -1)
    ordered = sort(rows, -1)[0]
    extent = rows.shape[-1]
    holes = isnan(rows)
    last = sum(~holes, -1, True) - 1 if skip else sum(holes, -1, True) * 0 + (extent - 1)
    rank = to_dtype(last, input.dtype) * reshape(wanted, (-1,))
    rank = where(rank < 0, 0.0, rank)
    if interpolation in _ROUNDED:
        rank = _ROUNDED[interpolation](rank)
    below = floor(rank)
    low, high = (gather(ordered, -1, to_dtype(r, dtypes.int64)) for r in (below, ceil(rank)))
    weight = 0.5 * (ceil(rank) - below) if interpolation == "midpoint" else rank - below
    out = low + weight * sub(high, low)
    if not skip:
        out = where(sum(holes, -1, True) > 0, np.nan, out)
    out = movedim(out, -1, 0)
    if keepdim:
        kept = (1,) * ndim if dim is None else (*input.shape[:axis], *(1,) * min(ndim, 1), *input.shape[axis + 1 :])
        out = reshape(out, (out.shape[0], *kept))
    return out if wanted.ndim else out[0]


# ---- search in sorted tensors ----------------------------------------------------------------------------------------


def _searchsorted(a: Any, v: Any, right: bool) -> Any:
    side: Any = "right" if right else "left"
    if a.ndim == 1:
        return xp.searchsorted(a, v, side)
    out = space_of(v).empty(v.shape, np.int64)
    for index in np.ndindex(a.shape[:-1]):
        out[index] = np.searchsorted(a[index], v[index], side)
    return out


def _searchsorted_infer(params: tuple[Any, ...], a: Any, v: Any) -> Any:
    if a.ndim != 1 and a.shape[:-1] != v.shape[:-1]:
        raise AutogradError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor "
            f"and input value tensor must match, but we got boundaries tensor {list(a.shape)} and input value tensor "
            f"{list(v.shape)}"
        )
    return v.shape, dtypes.int64


_SEARCHSORTED = define(
    "searchsorted", ("a", "v"), _searchsorted, _searchsorted_infer, promotes="arith", admits=no_complex
)


@takes(real_numbers, 2)
def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Return where along the last dimension of a sorted tensor the elements of `input` would be put in.

    Args:
        out_int32: give int32, not int64.
        right: behind equal elements, not before them.
        side: "right" or "left", which says the same.
        sorter: the indices that sort `sorted_sequence`, where it is not sorted itself; see `argsort`.

    Raises:
        RuntimeError: another `side`, or the one that `right` is not; or shapes that do not fit.
    """
    if side not in (None, "left", "right"):
        raise AutogradError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise AutogradError("searchsorted(): side and right can't be set to opposites, got side of left while right")
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape or sorter.dtype != dtypes.int64:
            raise AutogradError(
                f"searchsorted(): sorter must be int64 of the boundaries' shape {list(sorted_sequence.shape)}, but got "
                f"{sorter.dtype} of shape {list(sorter.shape)}"
            )
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    values = (
        input
        if hasattr(input, "shape")
        else Tensor.made(space_of(sorted_sequence).asarray(input, sorted_sequence.dtype))
    )
    _searchsorted_infer((), sorted_sequence, values)
    places = call(_SEARCHSORTED, (sorted_sequence, values), (right or side == "right",))
    return to_dtype(places, dtypes.int32) if out_int32 else places


@takes(real_numbers)
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Return which of the intervals between `boundaries` each element is in; see `searchsorted`."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
