"""Gather and scatter along one dimension: gather, scatter, scatter_add, index_select, index_add, take_along_dim.

Indexing by brackets is in `indexing`, selection by masks and `scatter_reduce` in `selecting`.
"""

from __future__ import annotations

import math
from typing import Any

from raygrad.errors import AutogradError, ShapeError

from ...core import dtypes
from ...dispatch.dispatch import call
from ...dispatch.shape_errors import check_index
from ...registry.define_op import Op, Shape, axis_of, broadcast_shape, define, infer_shaped, space_of
from ...registry.dtype_constraints import alike
from ..elementwise.where import where
from ..layout.axis_order import to_dtype
from ..layout.shape import expand, reshape
from .indexing import INDEX, INDEX_PUT, zeros_around

PUBLIC = "gather index_add index_select scatter_add take_along_dim".split()

# ---- by one index tensor along one dimension -------------------------------------------------------------------------


def index_select(input: Any, dim: int, index: Any) -> Any:
    """Return the slices of `input` along `dim` that `index`, a vector, names."""
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    check_index("index_select", index)
    if not input.ndim:
        axis_of(dim, 0)
        return reshape(index_select(reshape(input, (1,)), 0, index), ())
    axis = axis_of(dim, input.ndim)
    return call(INDEX, (input, reshape(index, (1, -1))), ((axis,),))


@alike(0, 3)
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Return `input` with the slices of `source` times `alpha` added where `index` names."""
    axis = axis_of(dim, input.ndim)
    check_slices("index_add", input.shape, axis, index, source.shape)
    if not input.ndim:
        return reshape(index_add(reshape(input, (1,)), 0, index, reshape(source, (-1,)), alpha=alpha), ())
    value = source if type(alpha) is int and alpha == 1 else source * alpha
    return call(INDEX_PUT, (input, value, reshape(index, (1, -1))), ((axis,), True))


def check_slices(name: str, shape: Shape, axis: int, index: Any, source: Shape) -> None:
    """Raise unless `index` is a vector that names a slice along `axis` for each slice of the source.

    Raises:
        IndexError: it is no vector; of `index_copy` also, that the source has another number of slices.
        RuntimeError: the source has other extents, or another number of slices.
    """
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    check_index(name, index)
    miscounted = IndexError if name == "index_copy" else ShapeError
    if len(shape) <= 1 and len(source) <= 1:
        if math.prod(source) != math.prod(index.shape):
            raise miscounted(
                f"{name}(): Number of indices ({math.prod(index.shape)}) should be equal to number of elements of "
                f"source ({math.prod(source)})"
            )
    elif len(source) != len(shape):
        raise ShapeError(
            f"{name}(): source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {list(shape)} source.shape = {list(source)}"
        )
    elif (*source[:axis], *source[axis + 1 :]) != (*shape[:axis], *shape[axis + 1 :]):
        raise ShapeError(
            f"{name}(): Source/destination tensor must have same slice shapes. Destination slice shape: {list(shape)} "
            f"at dimension {axis} and source slice shape: {list(source)} at dimension {axis}."
        )
    elif source[axis] != math.prod(index.shape):
        raise miscounted(
            f"{name}(): Number of indices ({math.prod(index.shape)}) should be equal to source.size(dim) "
            f"({source[axis]}), for dim: {axis}"
        )


def grid_of(index: Any, axis: int) -> tuple[Any, ...]:
    """Return the NumPy index of `gather`: `index` along `axis`, the own position along the others."""
    out: list[Any] = []
    for d in range(index.ndim):
        shape = [1] * index.ndim
        shape[d] = -1
        out.append(index if d == axis else space_of(index).arange(index.shape[d]).reshape(shape))
    return tuple(out)


def _gather(a: Any, index: Any, axis: int) -> Any:
    checked_gathered(index, a.shape, axis)
    return a[grid_of(index, axis)] if a.ndim else a.copy().reshape(index.shape)


def checked_gathered(index: Any, shape: Shape, axis: int) -> None:
    extent = shape[axis] if shape else 1
    if index.size and (index.min() < 0 or index.max() >= extent):
        wrong = index[(index < 0) | (index >= extent)].reshape(-1)[0]
        raise AutogradError(f"index {wrong} is out of bounds for dimension {axis} with size {extent}")


def _gather_infer(params: tuple[Any, ...], a: Any, index: Any) -> Any:
    (axis,) = params
    check_grid("gather", index.shape, a.shape, axis)
    return index.shape, a.dtype


def check_grid(name: str, index: Shape, shape: Shape, axis: int) -> None:
    if len(index) != len(shape):
        raise ShapeError(
            f"Index tensor must have the same number of dimensions as input tensor ({name}): "
            f"{len(index)} and {len(shape)}"
        )
    for d, (n, m) in enumerate(zip(index, shape, strict=True)):
        if d != axis and n > m:
            raise ShapeError(
                f"Size does not match at dimension {d} expected index {list(index)} to be no larger than self "
                f"{list(shape)} apart from dimension {axis}"
            )


def _gather_grad(g: Any, index: Any, axis: int, shape: Shape) -> Any:
    out = space_of(g).zeros(shape, g.dtype)
    space_of(out).add.at(out, grid_of(index, axis) if shape else (), g if shape else g.reshape(()))
    return out


_GATHER: Op = define(
    "gather",
    ("a", "index"),
    _gather,
    _gather_infer,
    lambda ctx, g: (call(_GATHER_GRAD, (g, ctx.saved_tensors[0]), (*ctx.params, tuple(ctx.inputs[0][0]))), None),
    saves="index",
)
_GATHER_GRAD = define(
    "gather_grad",
    ("g", "index"),
    _gather_grad,
    infer_shaped(1),
    lambda ctx, g: (call(_GATHER, (g, ctx.saved_tensors[0]), (ctx.params[0],)), None),
    saves="index",
)


def grid_index(name: str, index: Any) -> Any:
    """Return an index for `gather` and its kind: PyTorch does not ask for the dtype of one without elements.

    Raises:
        RuntimeError: its elements are not of int32 or int64.
    """
    if (index.dtype.kind != "i" or index.dtype.itemsize < 4) and not math.prod(index.shape):
        return to_dtype(index, dtypes.int64)
    check_index(name, index)
    return index


def gather(input: Any, dim: int, index: Any) -> Any:
    """Return `input[i][index[i][j][k]][k]` (for `dim` 1 of three), in the shape of `index`."""
    axis = axis_of(dim, input.ndim)
    index = grid_index("gather", index)
    if input.ndim != index.ndim and input.ndim + index.ndim == 1:  # a number counts as a vector of one
        return reshape(gather(reshape(input, (-1,)), 0, reshape(index, (-1,))), index.shape)
    if 0 in index.shape and index.ndim != input.ndim:  # nothing is gathered, in whatever shape
        return reshape(reshape(input, (-1,))[:0], index.shape)
    check_grid("gather", index.shape, input.shape, axis)
    return call(_GATHER, (input, index), (axis,))


def scatter_zeros(source: Any, dim: int, index: Any, shape: Shape) -> Any:
    """Return zeros of `shape` to which `source` is added at the places that `gather` would read."""
    return call(_GATHER_GRAD, (source, index), (axis_of(dim, len(shape)), tuple(shape)))


def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """Return the elements of `input` at `indices` along `dim`, the two broadcast to each other; indices below zero
    count from the end."""
    if dim is not None and input.ndim != indices.ndim:
        raise ShapeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{list(input.shape)} and {list(indices.shape)}"
        )
    check_index("take_along_dim", indices)
    extent = math.prod(input.shape) if dim is None else input.shape[axis_of(dim, input.ndim)] if input.ndim else 1
    indices = where(indices < 0, indices + extent, indices)
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)))
    axis = axis_of(dim, input.ndim)
    shape = broadcast_shape("take_along_dim", [_without(input.shape, axis), _without(indices.shape, axis)])
    wide = (*shape[:axis], input.shape[axis], *shape[axis + 1 :])
    narrow = (*shape[:axis], indices.shape[axis], *shape[axis + 1 :])
    return gather(expand(input, wide), axis, expand(indices, narrow))


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _scatter(a: Any, index: Any, source: Any, axis: int, accumulate: bool) -> Any:
    checked_gathered(index, a.shape, axis)
    out = a.copy()
    if hasattr(source, "shape"):
        source = source[tuple([slice(0, extent) for extent in index.shape])]
    if accumulate:
        space_of(out).add.at(out, grid_of(index, axis), source)
    else:
        out[grid_of(index, axis)] = source
    return out


def _scatter_infer(params: tuple[Any, ...], a: Any, index: Any, source: Any) -> Any:
    axis, _ = params
    check_grid("scatter", index.shape, a.shape, axis)
    if not hasattr(source, "shape"):
        return a.shape, a.dtype
    if source.dtype != a.dtype:
        raise AutogradError(f"scatter: expected src of input's dtype {a.dtype}, but got {source.dtype}; convert it")
    if len(index.shape) != len(source.shape):
        raise ShapeError(
            f"scatter: expected an index of as many dimensions as src, got {list(index.shape)} and {list(source.shape)}"
        )
    if any(n > m for n, m in zip(index.shape, source.shape, strict=True)):
        raise ShapeError(f"Expected index {list(index.shape)} to be no larger than src {list(source.shape)}")
    return a.shape, a.dtype


def _scatter_backward(ctx: Any, g: Any) -> Any:
    (index,) = ctx.saved_tensors
    axis, accumulate = ctx.params
    need_a, _, need_source = ctx.needs_input_grad
    to_a = None
    if need_a:
        to_a = g if accumulate else call(_SCATTER, (g, index, 0), (axis, False))
    to_source = None
    if need_source:
        to_source = call(_GATHER, (g, index), (axis,))
        shape = ctx.inputs[2][0]
        if to_source.shape != shape:  # the part of the source that was not read
            corner = tuple([(0, extent, 1) for extent in to_source.shape])
            to_source = zeros_around(to_source, corner, shape)
    return to_a, None, to_source


_SCATTER = define("scatter", ("a", "index", "source"), _scatter, _scatter_infer, _scatter_backward, saves="index")


def put_along_dim(input: Any, dim: int, index: Any, src: Any) -> Any:
    """Return `input` with the elements of `src` (or one number) put at the places that `gather` would read."""
    axis, index = axis_of(dim, input.ndim), grid_index("scatter", index)
    _scatter_infer((axis, False), input, index, src)
    return call(_SCATTER, (input, index, src), (axis, False))


def levelled_grids(input: Any, index: Any, src: Any) -> tuple[Any, Any, Any] | None:
    """Return the operands of a scatter with as many dimensions each, where PyTorch takes others: one element without
    dimensions is as good as a vector of one, and an index without elements has no shape to keep. None where they are
    alike, or differ otherwise."""
    given = getattr(src, "ndim", index.ndim)
    if input.ndim == index.ndim == given:
        return None
    if not math.prod(index.shape):
        nothing = (0,) * max(input.ndim, 1)
        source = src if not hasattr(src, "ndim") else reshape(reshape(src, (-1,))[:0], nothing)
        return (input if input.ndim else reshape(input, (1,))), reshape(index, nothing), source
    if max(input.ndim, index.ndim, given) > 1:
        return None
    return tuple([reshape(one, (1,)) if getattr(one, "ndim", 1) == 0 else one for one in (input, index, src)])


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """Return `input` with the elements of `src` added at the places that `gather` would read."""
    if (levelled := levelled_grids(input, index, src)) is not None:
        return reshape(scatter_add(levelled[0], dim, *levelled[1:]), input.shape)
    axis, index = axis_of(dim, input.ndim), grid_index("scatter_add", index)
    _scatter_infer((axis, True), input, index, src)
    return call(_SCATTER, (input, index, src), (axis, True))
