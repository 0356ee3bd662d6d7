"""Selection and assignment by masks, index vectors and regions: masked_select, index_copy, index_put, take,
select_scatter, scatter_reduce.

Most are composed of the ops in `indexing` and `gathering`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, MissingKernel, ShapeError

from ...dispatch.dispatch import call
from ...dispatch.shape_errors import is_at_hand
from ...registry.define_op import axis_of, broadcast_shape, conj, define, like_operand, quiet, real_of, space_of
from ...registry.dtype_constraints import alike, no_bools, no_complex
from ...tensor.tensor import Tensor
from ..elementwise.arithmetic import clamp_min
from ..elementwise.complex_numbers import real
from ..elementwise.division import div
from ..elementwise.where import keep, where
from ..layout.axis_order import to_dtype, zeros_as
from ..layout.diagonals import diagonal, put_diagonal
from ..layout.shape import expand, reshape
from ..reduction.reduce import cumsum
from .gathering import (
    check_grid,
    check_slices,
    checked_gathered,
    gather,
    grid_index,
    grid_of,
    levelled_grids,
    put_along_dim,
    scatter_add,
    take_along_dim,
)
from .indexing import INDEX_PUT, is_whole, put_region, rows_of, take_apart

PUBLIC = """
    diagonal_scatter index_copy index_fill index_put masked_scatter masked_select put scatter scatter_reduce
    select_scatter slice_scatter take take_along_axis
""".split()

# ---- by masks --------------------------------------------------------------------------------------------------------


def masked_select(input: Any, mask: Any) -> Any:
    """Return the elements where `mask` holds, as a vector; in a session, waits for their number."""
    if mask.dtype.kind != "b":
        raise AutogradError(f"masked_select: expected a mask of bools, but got mask with dtype {mask.dtype}")
    shape = broadcast_shape("masked_select", [input.shape, mask.shape])
    return expand(input, shape)[expand(mask, shape)]


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """Return `input` with the first elements of `source` put, in order, where `mask` holds.

    Raises:
        RuntimeError: the mask is not of bools, or `source` of another dtype than `input`.
    """
    if mask.dtype.kind != "b":
        raise AutogradError(f"masked_scatter: expected a mask of bools, but got mask with dtype {mask.dtype}")
    if source.dtype != input.dtype:
        raise AutogradError(
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} and {source.dtype}"
        )
    shape = broadcast_shape("masked_scatter", [input.shape, mask.shape])
    mask = reshape(expand(mask, shape), (-1,))
    if is_at_hand(mask) and int(mask.sum()) > math.prod(source.shape):
        raise AutogradError("masked_scatter: source has fewer elements than mask has True")
    places = clamp_min(cumsum(mask, 0) - 1, 0)
    return reshape(where(mask, reshape(source, (-1,))[places], reshape(expand(input, shape), (-1,))), shape)


# ---- by index tensors ------------------------------------------------------------------------------------------------


@alike(0, 3)
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """Return `input` with the slices of `source` along `dim` put where `index`, a vector, names."""
    axis = axis_of(dim, input.ndim)
    check_slices("index_copy", input.shape, axis, index, source.shape)
    if not input.ndim:
        return reshape(index_copy(reshape(input, (1,)), 0, index, reshape(source, (-1,))), ())
    return call(INDEX_PUT, (input, source, reshape(index, (1, -1))), ((axis,), False))


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Return `input` with one number in the slices along `dim` that `index`, a vector, names."""
    if hasattr(value, "ndim") and value.ndim:
        raise AutogradError(
            f"index_fill only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if index.ndim > 1:
        raise IndexError("index_fill_(): Index is supposed to be a vector")
    axis = axis_of(dim, input.ndim)
    if not input.ndim:
        return reshape(index_fill(reshape(input, (1,)), 0, index, value), ())
    return call(INDEX_PUT, (input, value, reshape(index, (1, -1))), ((axis,), False))


@alike(0, 2)
def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Return `input` with `values` put at (or, to `accumulate`, added to) `input[indices]`.

    Raises:
        IndexError: an index that does not fit, or a mask without dimensions beside others.
    """
    index = tuple([slice(None) if entry is None else entry for entry in indices])
    basic, advanced = take_apart(index, input.shape, numbers=False)
    if not is_whole(basic, input.shape):
        raise IndexError("index_put: a mask without dimensions names no elements of a tensor; use where()")
    axes, rows = rows_of(advanced, input.shape)
    return call(INDEX_PUT, (input, values, rows), (axes, bool(accumulate)))


def take(input: Any, index: Any) -> Any:
    """Return the elements at places in the flattened tensor, in the shape of `index`."""
    return reshape(input, (-1,))[index]


@alike(0, 2)
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Return `input` with the elements of `source` put at (or added to) places in the flattened tensor.

    Raises:
        IndexError: the source has another number of elements than the index.
    """
    if math.prod(source.shape) != math.prod(index.shape):
        raise IndexError(
            "put(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{math.prod(source.shape)}, index.numel() = {math.prod(index.shape)}"
        )
    flat = index_put(reshape(input, (-1,)), (reshape(index, (-1,)),), reshape(source, (-1,)), accumulate)
    return reshape(flat, input.shape)


def take_along_axis(input: Any, indices: Any, axis: int = -1) -> Any:
    """Return the elements at `indices` along `axis`, as the array API standard has it."""
    return take_along_dim(input, indices, axis)


# ---- regions ---------------------------------------------------------------------------------------------------------


def _put_part(name: str, input: Any, src: Any, axis: int, entry: Any) -> Any:
    """Return `input` with `src` as the part that an entry of an index along `axis` names."""
    part = take_apart((*[slice(None)] * axis, entry), input.shape)[0]
    shape = list(input.shape)
    extents = [] if isinstance(entry, int) else [len(range(*entry.indices(shape[axis])))]
    wanted = [*shape[:axis], *extents, *shape[axis + 1 :]]
    if list(src.shape) != wanted:
        raise ShapeError(
            f"{name}: expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size "
            f"= {wanted}"
        )
    return put_region(input, src, part)


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """Return `input` with `src` as its slice at `index` of dimension `dim`.

    Raises:
        RuntimeError: `src` is not of the shape of that slice.
    """
    return _put_part("select_scatter", input, src, axis_of(dim, input.ndim), operator.index(index))


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """Return `input` with `src` as its elements from `start` to `end` of dimension `dim`.

    Raises:
        RuntimeError: `src` is not of the shape of that part, or there is no positive step.
    """
    if step <= 0:
        raise AutogradError(f"slice_scatter: slice step must be positive, but got {step}")
    return _put_part("slice_scatter", input, src, axis_of(dim, input.ndim), slice(start, end, step))


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return `input` with `src` as its diagonal.

    Raises:
        RuntimeError: `src` is not of the shape of the diagonal.
    """
    wanted = tuple(diagonal(input, offset, dim1, dim2).shape)
    if tuple(src.shape) != wanted:
        raise ShapeError(
            f"diagonal_scatter: expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(wanted)}"
        )
    return put_diagonal(input, src, offset, axis_of(dim1, input.ndim), axis_of(dim2, input.ndim))


# ---- scatter with reduction ------------------------------------------------------------------------------------------

_INTO = {"prod": "multiply", "amax": "maximum", "amin": "minimum"}


def _scatter_reduce(a: Any, index: Any, source: Any, axis: int, kind: str) -> Any:
    checked_gathered(index, a.shape, axis)
    out = a.copy(order="K")
    if kind == "prod" and type(a) is not np.ndarray:
        raise MissingKernel(
            "'scatter_reduce' with reduce='prod' has no kernel for this device: move its operands to the host first "
            "(tensor.cpu()), and its result back"
        )
    getattr(space_of(out), _INTO[kind]).at(
        out, grid_of(index, axis), source[tuple([slice(0, extent) for extent in index.shape])]
    )
    return out


def _scatter_reduce_infer(params: tuple[Any, ...], a: Any, index: Any, source: Any) -> Any:
    check_grid("scatter_reduce", index.shape, a.shape, params[0])
    return a.shape, a.dtype


def _scatter_reduce_backward(ctx: Any, g: Any) -> Any:
    """Equal extremes share the gradient; of a product with one zero, that zero gets the product of the others."""
    a, index, source, out = ctx.saved_tensors
    axis, kind = ctx.params
    if kind == "prod":
        ones, holes = zeros_as(a) + 1, to_dtype(source == 0, g.dtype)
        full = where(source == 0, 1.0, source)
        zeros = scatter_add(to_dtype(a == 0, g.dtype), axis, index, holes)
        others = call(_SCATTER_REDUCE, (where(a == 0, ones, a), index, full), (axis, kind))
        kept = g * conj(where(zeros == 1, others, 0.0))
        to_a = where(a == 0, kept, g * conj(out / where(a == 0, ones, a)))
        to_source = where(source == 0, gather(kept, axis, index), gather(g * conj(out), axis, index) / conj(full))
        return to_a, None, to_source
    mine, theirs = a == out, source == gather(out, axis, index)
    count = scatter_add(to_dtype(mine, g.dtype), axis, index, to_dtype(theirs, g.dtype))
    share = g / count
    return keep(share, mine), None, keep(gather(share, axis, index), theirs)


_SCATTER_REDUCE = define(
    "scatter_reduce",
    ("a", "index", "source"),
    quiet(_scatter_reduce),
    _scatter_reduce_infer,
    _scatter_reduce_backward,
    saves=("a", "index", "source", "output"),
)
_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}


def _neutral_of(kind: str, dtype: Any) -> Any:
    """Return the number that a reduction leaves out of account, as its dtype has it."""
    if dtype.kind == "b":
        return {"amax": False, "amin": True}.get(kind, bool(_NEUTRAL[kind]))
    if dtype.kind in "iu" and kind in ("amax", "amin"):
        return np.iinfo(dtype).min if kind == "amax" else np.iinfo(dtype).max
    return _NEUTRAL[kind]


@alike(0, 3)
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return `input` with the elements of `src` reduced into the places that `gather` would read.

    Args:
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: count what `input` has at these places, too.

    Raises:
        RuntimeError: another reduction.
    """
    if reduce not in _NEUTRAL:
        raise AutogradError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if (levelled := levelled_grids(input, index, src)) is not None:
        out = scatter_reduce(levelled[0], dim, *levelled[1:], reduce, include_self=include_self)
        return reshape(out, input.shape)
    axis, index = axis_of(dim, input.ndim), grid_index("scatter_reduce", index)
    check_grid("scatter_reduce", index.shape, input.shape, axis)
    if index.ndim != src.ndim or any(n > m for n, m in zip(index.shape, src.shape, strict=True)):
        raise ShapeError(
            f"scatter_reduce: Expected index {list(index.shape)} to have as many dimensions as src {list(src.shape)}, "
            "and to be no larger"
        )
    source = src if tuple(src.shape) == tuple(index.shape) else src[tuple([slice(0, n) for n in index.shape])]
    base = input if include_self else put_along_dim(input, axis, index, _neutral_of(reduce, input.dtype))
    if reduce in ("amax", "amin"):
        no_complex(f"scatter_reduce of {reduce}", (input,), input.dtype)
    if reduce == "mean":
        no_bools("scatter_reduce of mean", (input,), input.dtype)
    if reduce in _INTO:
        return call(_SCATTER_REDUCE, (base, index, source), (axis, reduce))
    total = scatter_add(base, axis, index, source)
    if reduce == "sum":
        return total
    one = like_operand(
        space_of(index).ones(index.shape, input.dtype if input.dtype.kind in "iu" else real_of(input.dtype)), index
    )
    own = real(zeros_as(input)) + 1
    own = own if include_self else put_along_dim(own, axis, index, 0)
    count = clamp_min(scatter_add(own, axis, index, one), 1)
    if input.dtype.kind in "iu":
        return div(total, count, rounding_mode="floor")
    return total / (count.detach() if isinstance(count, Tensor) else count)


def scatter(input: Any, dim: int, index: Any, src: Any, *, reduce: str | None = None) -> Any:
    """Return `input` with the elements of `src` (or one number) put at the places that `gather` would read.

    Args:
        reduce: "add" or "multiply" what is there, too.

    Raises:
        RuntimeError: another reduction, or shapes that do not fit.
    """
    if (levelled := levelled_grids(input, index, src)) is not None:
        return reshape(scatter(levelled[0], dim, *levelled[1:], reduce=reduce), input.shape)
    if reduce is None:
        return put_along_dim(input, dim, index, src)
    if reduce not in ("add", "multiply"):
        raise AutogradError(f"reduce argument must be either add or multiply, got {reduce}")
    if not hasattr(src, "shape"):
        src = like_operand(space_of(index).full(index.shape, src, input.dtype), index)
    return scatter_add(input, dim, index, src) if reduce == "add" else scatter_reduce(input, dim, index, src, "prod")
