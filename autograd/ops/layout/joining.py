"""Joining, splitting and repeating of tensors: cat, stack, split, chunk, unbind, narrow, select, tile.

dstack, column_stack, tensor_split and the like, which are composed of these, are in `rearranging`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, DtypeError, ShapeError

from ...dispatch.dispatch import call
from ...dispatch.shape_errors import check_least_dims, check_not_negative, check_some
from ...registry.define_op import MANY, axis_of, contiguous, define, like_operand, sizes_of, space_of
from ...registry.registry import Op, get_op
from ...storage.view import mark_multiple_views
from .shape import dense_copy, expand, reshape

PUBLIC = """
    cat chunk concat concatenate hstack narrow repeat select split split_copy split_with_sizes_copy stack tile unbind
    unbind_copy vstack
""".split()


def _along(axis: int, part: Any) -> tuple[Any, ...]:
    """Return the index that takes `part` of dimension `axis`."""
    return (*[slice(None)] * axis, part)


# ---- joining ---------------------------------------------------------------------------------------------------------


def _counts(shapes: Sequence[Any]) -> list[bool]:
    """Return which operands are joined: PyTorch skips empty vectors, whatever the dimensions of the others."""
    skipping = any(len(shape) != 1 for shape in shapes)
    return [not (skipping and shape == (0,)) for shape in shapes]


def _cat(*arrays_and_axis: Any) -> Any:
    *arrays, axis = arrays_and_axis
    if any(array.shape == (0,) for array in arrays):
        counts = _counts([array.shape for array in arrays])
        arrays = [array for array, counting in zip(arrays, counts, strict=True) if counting]
    out = np.concatenate(arrays, axis=axis)
    return out if out.flags.c_contiguous else out.copy(order="C")


def _cat_infer(params: tuple[Any, ...], *tensors: Any) -> Any:
    (axis,) = params
    counts = _counts([tensor.shape for tensor in tensors])
    first = tensors[counts.index(True)].shape
    total = 0
    for number, tensor in enumerate(tensors):
        shape = tensor.shape
        if not counts[number]:
            continue
        if len(shape) != len(first):
            raise ShapeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        for d, (expected, got) in enumerate(zip(first, shape, strict=True)):
            if d != axis and expected != got:
                raise ShapeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {expected} but got size "
                    f"{got} for tensor number {number} in the list."
                )
        total += shape[axis]
    return (*first[:axis], total, *first[axis + 1 :]), tensors[0].dtype


def _cat_backward(ctx: Any, g: Any) -> Any:
    (axis,) = ctx.params
    grads: list[Any] = []
    start = 0
    counts = _counts([meta[0] for meta in ctx.inputs])
    for meta, need, counting in zip(ctx.inputs, ctx.needs_input_grad, counts, strict=True):
        if not counting or meta[0] == (0,):  # nothing of it is in the result
            grads.append(reshape(g.detach() if hasattr(g, "detach") else g, (-1,))[:0] if need else None)
            continue
        stop = start + meta[0][axis]
        grads.append(g[_along(axis, slice(start, stop))] if need else None)
        start = stop
    return tuple(grads)


def _stack(*arrays_and_axis: Any) -> Any:
    *arrays, axis = arrays_and_axis
    return contiguous(np.stack(arrays, axis=axis))


def _stack_infer(params: tuple[Any, ...], *tensors: Any) -> Any:
    (axis,) = params
    first = tensors[0].shape
    for number, tensor in enumerate(tensors):
        if tensor.shape != first:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(tensor.shape)} at entry {number}"
            )
    return (*first[:axis], len(tensors), *first[axis:]), tensors[0].dtype


def _stack_backward(ctx: Any, g: Any) -> Any:
    (axis,) = ctx.params
    return tuple([g[_along(axis, i)] if need else None for i, need in enumerate(ctx.needs_input_grad)])


_CAT = define("cat", ("*tensors",), _cat, _cat_infer, _cat_backward, saves="none", promotes="arith")
_STACK = define("stack", ("*tensors",), _stack, _stack_infer, _stack_backward, saves="none", promotes="arith")


def _tensors(name: str, tensors: Any) -> tuple[Any, ...]:
    given = tuple(tensors)
    if not given:
        raise ValueError(f"{name}(): expected a non-empty list of Tensors")
    for number, tensor in enumerate(given):
        if not hasattr(tensor, "shape"):
            raise DtypeError(f"{name}(): expected Tensor as element {number}, but got {type(tensor).__name__}")
    return given


def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return the tensors joined along an existing dimension."""
    given = _tensors("cat", tensors)
    for number, tensor in enumerate(given):
        if not tensor.ndim:
            raise ShapeError(f"zero-dimensional tensor (at position {number}) cannot be concatenated")
    shapes = [tensor.shape for tensor in given]
    if all(shape == (0,) for shape in shapes):  # PyTorch would skip each, and asks none for its dimensions
        return call(_CAT, given, (0,))
    ndim = len(shapes[_counts(shapes).index(True)])
    return call(_CAT, given, (axis_of(dim, ndim),))


concat = concatenate = cat


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return the tensors joined along a new dimension."""
    check_some("stack", tensors)
    given = _tensors("stack", tensors)
    return call(_STACK, given, (axis_of(dim, given[0].ndim + 1),))


def vstack(tensors: Sequence[Any]) -> Any:
    """Return the tensors joined along rows, vectors as rows."""
    check_some("vstack", tensors)
    return cat([reshape(x, (1, -1)) if x.ndim < 2 else x for x in tensors], 0)


def hstack(tensors: Sequence[Any]) -> Any:
    """Return the tensors joined along columns, vectors end to end."""
    check_some("hstack", tensors)
    given = [reshape(x, (1,)) if x.ndim < 1 else x for x in tensors]
    return cat(given, 0 if given and given[0].ndim == 1 else 1)


# ---- splitting -------------------------------------------------------------------------------------------------------

Bounds = tuple[tuple[int, int], ...]
"""Where each piece begins and ends."""


def _unbind(a: Any, axis: int) -> tuple[Any, ...]:
    before = (slice(None),) * axis
    return tuple([a[(*before, i, ...)] for i in range(a.shape[axis])])


def _unbind_infer(params: tuple[Any, ...], a: Any) -> Any:
    (axis,) = params
    return [((*a.shape[:axis], *a.shape[axis + 1 :]), a.dtype)] * a.shape[axis]


def _unbind_backward(ctx: Any, grads: tuple[Any, ...]) -> Any:
    return call(_STACK, _defined(ctx, grads), ctx.params)


def _split(a: Any, axis: int, bounds: Bounds) -> tuple[Any, ...]:
    before = (slice(None),) * axis
    return tuple([a[(*before, slice(start, stop))] for start, stop in bounds])


def _split_infer(params: tuple[Any, ...], a: Any) -> Any:
    axis, bounds = params
    before, behind = a.shape[:axis], a.shape[axis + 1 :]
    return [((*before, stop - start, *behind), a.dtype) for start, stop in bounds]


def _split_backward(ctx: Any, grads: tuple[Any, ...]) -> Any:
    return call(_CAT, _defined(ctx, grads), ctx.params[:1])


def _defined(ctx: Any, grads: Sequence[Any]) -> list[Any]:
    """Return the gradients of the pieces, zeros for those that nobody used."""
    known = next(g for g in grads if g is not None)
    zeros: dict[Any, Any] = {}
    for grad, (shape, dtype) in zip(grads, ctx.outputs, strict=True):
        if grad is None and shape not in zeros:
            zeros[shape] = like_operand(space_of(known).zeros(shape, dtype), known)
    return [zeros[meta[0]] if g is None else g for g, meta in zip(grads, ctx.outputs, strict=True)]


def _piece(operands: Sequence[Any], params: tuple[Any, ...], number: int) -> Any:
    """Return the basic index that makes the same view as an output."""
    axis = params[0]
    index: list[Any] = [(0, n, 1) for n in operands[0].shape]
    index[axis] = number if len(params) == 1 else (*params[1][number], 1)
    return get_op("getitem"), (operands[0], tuple(index)), ()


def _ops_of_pieces(name: str, kernel: Any, infer: Any, backward: Any) -> tuple[Op, Op]:
    """Declare the op whose outputs are views, and the one whose outputs are copies of them."""

    def copies(a: Any, *params: Any) -> tuple[Any, ...]:
        return tuple([part.copy(order="C") for part in kernel(a, *params)])

    views = define(name, ("a",), kernel, infer, backward, saves="none", outputs=MANY, view=True, shown=_piece)
    return views, define(f"{name}_copy", ("a",), copies, infer, backward, saves="none", outputs=MANY)


_UNBIND, _UNBIND_COPY = _ops_of_pieces("unbind", _unbind, _unbind_infer, _unbind_backward)
_SPLIT, _SPLIT_COPY = _ops_of_pieces("split", _split, _split_infer, _split_backward)
_SPLIT_WITH_SIZES, _SPLIT_WITH_SIZES_COPY = _ops_of_pieces("split_with_sizes", _split, _split_infer, _split_backward)


def split(input: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Return the pieces of `input` along `dim`: of one size (the last may be smaller), or of the given sizes."""
    if isinstance(split_size_or_sections, int):
        return _pieces(_SPLIT, input, *_cut(input, split_size_or_sections, dim))
    return _pieces(_SPLIT_WITH_SIZES, input, *_cut(input, split_size_or_sections, dim))


def split_copy(input: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """Return copies of the pieces of `input` along `dim`, of one size; the last may be smaller."""
    return _pieces(_SPLIT_COPY, input, *_cut(input, split_size, dim))


def split_with_sizes_copy(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Return copies of the pieces of `input` along `dim` that have the given sizes."""
    return _pieces(_SPLIT_WITH_SIZES_COPY, input, *_cut(input, split_sizes, dim))


def _cut(input: Any, size_or_sizes: int | Sequence[int], dim: int) -> tuple[int, list[int]]:
    """Return the axis that is split, and the sizes of the pieces."""
    if not input.ndim:
        raise AutogradError("split expects at least a 1-dimensional tensor")
    axis = axis_of(dim, input.ndim)
    extent = input.shape[axis]
    if isinstance(size_or_sizes, int):
        size = size_or_sizes
        if size < 0 or (size == 0 and extent):
            raise AutogradError(f"split expects split_size be positive, but got split_size={size}")
        return axis, [min(size, extent - start) for start in range(0, extent, size)] if extent else [0]
    sizes = [int(size) for size in size_or_sizes]
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise AutogradError(
            f"split_with_sizes expects split_sizes to sum exactly to {extent} (input tensor's size at dimension "
            f"{axis}), but got split_sizes={sizes}"
        )
    return axis, sizes


def _pieces(op: Op, input: Any, axis: int, sizes: Sequence[int]) -> tuple[Any, ...]:
    if not sizes:
        return ()
    bounds = (0, *itertools.accumulate(sizes))
    return _marked(op, call(op, (input,), (axis, tuple(itertools.pairwise(bounds)))))


def _marked(op: Op, pieces: tuple[Any, ...]) -> tuple[Any, ...]:
    return mark_multiple_views(pieces) if op.view else pieces


def split_by_sizes(input: Any, sizes: Sequence[int], axis: int) -> tuple[Any, ...]:
    """Return the slices of the given sizes along an axis, each as an op of its own."""
    out: list[Any] = []
    start = 0
    for size in sizes:
        out.append(input[_along(axis, slice(start, start + size))])
        start += size
    return tuple(out)


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Return `input` split along `dim` into at most `chunks` pieces."""
    if not input.ndim:
        raise AutogradError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise AutogradError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    extent = input.shape[axis_of(dim, input.ndim)]
    return split(input, max(-(-extent // chunks), 1), dim)


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return the slices of `input` along `dim`, without that dimension."""
    return _slices(_UNBIND, input, dim)


def unbind_copy(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return copies of the slices of `input` along `dim`, without that dimension."""
    return _slices(_UNBIND_COPY, input, dim)


def _slices(op: Op, input: Any, dim: int) -> tuple[Any, ...]:
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    axis = axis_of(dim, input.ndim)
    return _marked(op, call(op, (input,), (axis,))) if input.shape[axis] else ()


def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """Return `length` elements of dimension `dim` from `start` on."""
    check_least_dims("narrow()", input, 1)
    axis = axis_of(dim, input.ndim)
    extent = input.shape[axis]
    if hasattr(start, "ndim"):
        if start.ndim or start.dtype.kind not in "iu":
            raise AutogradError(f"narrow(): start must be an 0-dim integral Tensor, not one of {start.dtype}")
        start = int(start)
    if not -extent <= start <= extent:
        raise IndexError(f"start out of range (expected to be in range of [{-extent}, {extent}], but got {start})")
    if length < 0:
        raise AutogradError(f"narrow(): length must be non-negative, not {length}.")
    start = start + extent if start < 0 else start
    if start + length > extent:
        raise AutogradError(f"start ({start}) + length ({length}) exceeds dimension size ({extent}).")
    return input[_along(axis, slice(start, start + length))]


def select(input: Any, dim: int, index: int) -> Any:
    """Return the slice at `index` of dimension `dim`."""
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    return input[_along(axis_of(dim, input.ndim), operator.index(index))]


# ---- repeating -------------------------------------------------------------------------------------------------------


def tile(input: Any, *dims: Any) -> Any:
    """Return `input` repeated `dims` times along each dimension; missing leading ones count as 1."""
    counts = sizes_of(dims)
    return repeat(input, *((1,) * (input.ndim - len(counts)) + counts))


def repeat(input: Any, *repeats: Any) -> Any:
    """Return `input` repeated along each dimension; there are at least as many counts as dimensions."""
    counts = sizes_of(repeats)
    check_not_negative("repeat", "the number of repeats", counts)
    if len(counts) < input.ndim:
        raise ShapeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * (len(counts) - input.ndim) + tuple(input.shape)
    spread = [extent for pair in zip([1] * len(shape), shape, strict=True) for extent in pair]
    wide = [extent for pair in zip(counts, shape, strict=True) for extent in pair]
    total = [count * extent for count, extent in zip(counts, shape, strict=True)]
    return without_sharing(reshape(expand(reshape(input, spread), wide), total))


def without_sharing(repeated: Any) -> Any:
    """Return a repeated tensor, or a copy if it is a view since nothing was repeated."""
    return repeated if getattr(repeated, "_base", None) is None else dense_copy(repeated)
