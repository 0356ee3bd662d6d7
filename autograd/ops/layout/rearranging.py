"""Layout functions composed of other ops: flips and rotations, atleast_nd, further joins and splits, grids, kron,
vander, diag_embed.

They have no kernels and no derivatives of their own.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...core import dtypes
from ...devices.serving import factory_device, make
from ...dispatch.operand_errors import check_operand
from ...dispatch.shape_errors import check_least_dims, check_not_negative, check_some
from ...registry.define_op import axis_of, conj, like_operand, sizes_of, space_of
from ...registry.dtype_constraints import integers_alone, no_bools, takes
from ...registry.vjp_rules import sum_to
from ...tensor.tensor import Tensor
from ..indexing.gathering import index_select
from ..indexing.indexing import zeros_around
from .axis_order import to_dtype
from .diagonals import diag, on_diagonal
from .joining import cat, hstack, narrow, split, split_by_sizes, stack, vstack
from .shape import expand, flip, reshape, transpose, unsqueeze

PUBLIC = """
    adjoint atleast_1d atleast_2d atleast_3d block_diag cartesian_prod column_stack combinations diag_embed diagflat
    dsplit dstack fliplr flipud hsplit kron meshgrid ravel rot90 row_stack split_with_sizes sum_to_size tensor_split
    tril_indices triu_indices unravel_index vander vsplit
""".split()

# ---- flips and rotations ---------------------------------------------------------------------------------------------


def fliplr(input: Any) -> Any:
    """Return `input` with the order of its columns reversed."""
    if input.ndim < 2:
        raise AutogradError("Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input: Any) -> Any:
    """Return `input` with the order of its rows reversed."""
    if input.ndim < 1:
        raise AutogradError("Input must be >= 1-d.")
    return flip(input, 0)


def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Return `input` rotated by `k` times 90 degrees in the plane of two dimensions, from the first to the second."""
    if len(dims) != 2 or input.ndim < 2:
        raise AutogradError(f"expected total rotation dims == 2 and at least 2 dimensions, got {len(dims)}")
    first, second = (axis_of(d, input.ndim) for d in dims)
    if first == second:
        raise AutogradError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turns = operator.index(k) % 4
    if turns == 1:
        return transpose(flip(input, second), first, second)
    if turns == 2:
        return flip(input, (first, second))
    return flip(transpose(input, first, second), second) if turns == 3 else input.clone()


def adjoint(input: Any) -> Any:
    """Return matrices transposed and conjugated."""
    out = transpose(input, -2, -1)
    return conj(out)


def ravel(input: Any) -> Any:
    """Return the elements as a vector."""
    return reshape(input, (-1,))


# ---- more dimensions -------------------------------------------------------------------------------------------------


def _each(of: Callable[[Any], Any], tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and hasattr(tensors[0], "shape"):
        return of(tensors[0])
    return tuple([of(t) for t in (tensors[0] if len(tensors) == 1 else tensors)])


def _at_least_2d(input: Any) -> Any:
    return input if input.ndim >= 2 else reshape(input, (1, -1))


def _at_least_3d(input: Any) -> Any:
    if input.ndim >= 3:
        return input
    return unsqueeze(input, -1) if input.ndim == 2 else reshape(input, (1, -1, 1))


def atleast_1d(*tensors: Any) -> Any:
    """Return each tensor with at least one dimension."""
    return _each(lambda t: t if t.ndim else reshape(t, (1,)), tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Return each tensor with at least two dimensions, new ones in front."""
    return _each(_at_least_2d, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Return each tensor with at least three dimensions: vectors along the second, matrices in the first two."""
    return _each(_at_least_3d, tensors)


# ---- joining ---------------------------------------------------------------------------------------------------------

row_stack = vstack


def dstack(tensors: Sequence[Any]) -> Any:
    """Return the tensors joined along the third dimension."""
    check_some("dstack", tensors)
    return cat([_at_least_3d(t) for t in tensors], 2)


def column_stack(tensors: Sequence[Any]) -> Any:
    """Return the tensors joined along columns, vectors as columns."""
    check_some("column_stack", tensors)
    return hstack([t if t.ndim > 1 else reshape(t, (-1, 1)) for t in tensors])


def block_diag(*tensors: Any) -> Any:
    """Return the matrix with the given matrices along its diagonal, zeros elsewhere."""
    for number, tensor in enumerate(tensors):
        if tensor.ndim > 2:
            raise ShapeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {number} has {tensor.ndim}"
            )
    blocks = [_at_least_2d(t) for t in tensors]
    rows, columns = (sum(b.shape[i] for b in blocks) for i in (0, 1))
    out = None
    top = left = 0
    for block in blocks:
        height, width = block.shape
        placed = zeros_around(block, ((top, top + height, 1), (left, left + width, 1)), (rows, columns))
        out = placed if out is None else out + placed
        top, left = top + height, left + width
    return out


# ---- splitting -------------------------------------------------------------------------------------------------------


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return `input` split along `dim`: into so many parts, the first ones longer, or before the given indices."""
    check_least_dims("tensor_split", input, 1)
    axis = axis_of(dim, input.ndim)
    extent = input.shape[axis]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count <= 0:
            raise AutogradError(f"number of sections must be larger than 0, got {count}")
        sizes = [extent // count + (i < extent % count) for i in range(count)]
        return split_by_sizes(input, sizes, axis)
    places = [int(i) for i in indices_or_sections]
    bounds = [0, *[min(max(i + extent if i < 0 else i, 0), extent) for i in places], extent]
    return tuple([narrow(input, axis, a, max(b - a, 0)) for a, b in itertools.pairwise(bounds)])


def _split_evenly(name: str, least: int, input: Any, indices_or_sections: Any, axis: int) -> tuple[Any, ...]:
    check_least_dims(name, input, least)
    count = indices_or_sections
    if isinstance(count, int) and (count == 0 or input.shape[axis] % count):
        raise AutogradError(
            f"torch.{name} attempted to split along dimension {axis}, but the size of the dimension "
            f"{input.shape[axis]} is not divisible by the split_size {indices_or_sections}!"
        )
    return tensor_split(input, indices_or_sections, axis)


def hsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Return `input` split along columns (a vector along its one dimension) evenly, or before the given indices."""
    return _split_evenly("hsplit", 1, input, indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Return `input` split along rows evenly, or before the given indices."""
    return _split_evenly("vsplit", 2, input, indices_or_sections, 0)


def dsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Return `input` split along the third dimension evenly, or before the given indices."""
    return _split_evenly("dsplit", 3, input, indices_or_sections, 2)


# ---- grids and products ----------------------------------------------------------------------------------------------


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Return the coordinates of a grid: each vector along a dimension of its own; "xy" exchanges the first two.

    Raises:
        RuntimeError: another indexing, or a tensor of more than one dimension.
    """
    given: Any = tensors[0] if len(tensors) == 1 and type(tensors[0]) in (list, tuple) else tensors
    if indexing not in ("ij", "xy"):
        raise AutogradError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for t in given:
        if t.ndim > 1:
            raise AutogradError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t.ndim}D")
    if any(t.dtype != given[0].dtype for t in given):
        raise AutogradError("torch.meshgrid: expects all tensors to have the same dtype")
    vectors = [reshape(t, (-1,)) for t in given]
    swapped = indexing == "xy" and len(vectors) > 1
    if swapped:
        vectors[:2] = vectors[1::-1]
    shape = tuple([v.shape[0] for v in vectors])
    grids = [
        expand(reshape(v, [-1 if axis == i else 1 for axis in range(len(shape))]), shape) for i, v in enumerate(vectors)
    ]
    if swapped:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def cartesian_prod(*tensors: Any) -> Any:
    """Return all combinations of one element of each vector, one a row."""
    for position, tensor in enumerate(tensors):
        check_operand("cartesian_prod", tensor, "tensors", position + 1)
    for tensor in tensors:
        if tensor.ndim != 1:
            raise AutogradError(f"cartesian_prod: Expect a 1D vector, but got shape {list(tensor.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(grid, (-1,)) for grid in meshgrid(*tensors)], -1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Return all choices of `r` elements of a vector, one a row."""
    if input.ndim != 1:
        raise AutogradError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = space_of(input).asarray(list(choose(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    return reshape(index_select(input, 0, like_operand(places.reshape(-1), input)), places.shape)


def kron(input: Any, other: Any) -> Any:
    """Return Kronecker's product: the blocks `input[i, j] * other`, in as many dimensions as the tensors have."""
    ndim = max(input.ndim, other.ndim)
    a = reshape(input, (*(1,) * (ndim - input.ndim), *input.shape))
    b = reshape(other, (*(1,) * (ndim - other.ndim), *other.shape))
    wide = reshape(a, [e for n in a.shape for e in (n, 1)]) * reshape(b, [e for n in b.shape for e in (1, n)])
    return reshape(wide, [n * m for n, m in zip(a.shape, b.shape, strict=True)])


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Return the powers of a vector's elements, one a column: from the highest down, or `increasing`."""
    count = x.shape[0] if N is None else N
    powers = [x**n for n in range(count)]
    return stack(powers if increasing else powers[::-1], -1)


@takes(no_bools)
def vander_of_last(x: Any, *, N: int | None = None) -> Any:
    """Return the powers of the elements along the last dimension, from the lowest up: `linalg.vander`.

    Raises:
        RuntimeError: `N` is not above one, or `x` has no dimension and there is no `N`.
    """
    if N is None and not x.ndim:
        raise AutogradError("linalg.vander: expected a tensor of at least one dimension, or N")
    x = x if x.ndim else reshape(x, (1,))
    count = x.shape[-1] if N is None else N
    if N is not None and N <= 1:
        raise AutogradError(f"linalg.vander: N must be greater than 1, got {N}")
    return stack([x**n for n in range(count)], -1)


# ---- diagonals -------------------------------------------------------------------------------------------------------


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Return zeros with the last dimension of `input` on a diagonal of two dimensions."""
    ndim = input.ndim + 1
    first, second = axis_of(dim1, ndim), axis_of(dim2, ndim)
    if first == second:
        raise AutogradError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    extent = input.shape[-1] + abs(offset)
    rest = list(input.shape[:-1])
    for axis in sorted((first, second)):
        rest.insert(axis, extent)
    return on_diagonal(input, offset, first, second, tuple(rest))


def diagflat(input: Any, offset: int = 0) -> Any:
    """Return the matrix with the elements of `input` on a diagonal."""
    return diag(reshape(input, (-1,)), offset)


def _triangle(name: str, row: int, col: int, offset: int, dtype: Any, device: Any) -> Any:
    if dtype is not None:
        integers_alone(name, (), dtypes.as_dtype(dtype))
    row, col, offset = operator.index(row), operator.index(col), operator.index(offset)
    check_not_negative(name, "row", (row,))
    check_not_negative(name, "col", (col,))
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    place = factory_device(device)
    return Tensor.made(make(place, lambda xp: xp.stack(getattr(xp, name)(row, offset, col)).astype(wanted)))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """Return the rows and columns of the elements of a matrix's lower triangle."""
    return _triangle("tril_indices", row, col, offset, dtype, device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """Return the rows and columns of the elements of a matrix's upper triangle."""
    return _triangle("triu_indices", row, col, offset, dtype, device)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Return the coordinates, one tensor for each dimension, of places in a flattened tensor of the given shape.

    Raises:
        ValueError: places that are no integers, or a negative extent.
    """
    extents = sizes_of((shape,)) if not isinstance(shape, int) else (shape,)
    if indices.dtype.kind not in "iu":
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if any(extent < 0 for extent in extents):
        raise ValueError(f"'shape' cannot have negative values, but got {list(extents)}")
    found: list[Any] = []
    for extent in reversed(extents):
        found.append(indices % extent)
        indices = indices // extent
    return tuple(found[::-1])


def sum_to_size(input: Any, *size: Any) -> Any:
    """Return `input` summed down to a shape that broadcasts to its own.

    Raises:
        RuntimeError: it does not.
    """
    wanted = sizes_of(size)
    summed = sum_to(input, wanted)
    unchanged = wanted and wanted == tuple(input.shape)
    return to_dtype(summed, dtypes.int64) if input.dtype.kind == "b" and not unchanged else summed


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Return the pieces of `input` along `dim` that have the given sizes."""
    return split(input, list(split_sizes), dim)
