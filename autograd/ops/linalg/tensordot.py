"""Contractions composed of other ops: tensordot, inner, vdot, vecdot, cross, chain_matmul.

They have no derivatives of their own: that of `matmul` is in `matmul`, that of `einsum` in `einsum`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...dispatch.autocast_policies import with_autocast
from ...dispatch.operand_errors import check_operand
from ...registry.define_op import axis_of, broadcast_shape, conj, like_operand, space_of
from ...registry.dtype_constraints import alike, floats_alone, takes
from ..elementwise.arithmetic import mul, sub
from ..indexing.gathering import index_select
from ..layout.shape import expand, permute, reshape
from ..reduction.reduce import sum
from .matmul import dot, matmul

PUBLIC = "chain_matmul cross inner tensordot vdot vecdot".split()

_product = with_autocast(matmul)
"""Matrix product under the autocast rule of PyTorch's functions that are composed of it."""

# ---- sums of products ------------------------------------------------------------------------------------------------


def vdot(input: Any, other: Any) -> Any:
    """Return the sum of products of two vectors, the first conjugated."""
    if input.ndim != 1 or other.ndim != 1:
        raise ShapeError(f"1D tensors expected, but got {input.ndim}D and {other.ndim}D tensors")
    return matmul(conj(input), other)


@alike(0, 1)
@takes(floats_alone, 2)
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Return the sums of products along `dim`, the first factor conjugated."""
    return sum(mul(conj(x), y), dim)


def inner(input: Any, other: Any) -> Any:
    """Return the sums of products over the last dimensions; of a number the product."""
    if not input.ndim or not other.ndim:
        return mul(input, other)
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    if input.ndim == other.ndim == 1:
        return dot(input, other)
    return tensordot(input, other, ([-1], [-1]))


def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Return the sums of products over dimensions: the last `dims` of `a` and the first of `b`, or two lists of them.

    Raises:
        RuntimeError: dimensions of other extents, or more than there are.
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise AutogradError(f"tensordot expects 0 <= dims <= {min(a.ndim, b.ndim)}, but got dims={dims}")
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        first, second = (d.tolist() if hasattr(d, "tolist") else d for d in dims)
        first, second = ([d] if isinstance(d, int) else list(d) for d in (first, second))
        if len(first) != len(second):
            raise AutogradError(f"both dimension lists should have same length, got {first} and {second}")
        left, right = [axis_of(d, a.ndim) for d in first], [axis_of(d, b.ndim) for d in second]
    for i, j in zip(left, right, strict=True):
        if a.shape[i] == 1 != b.shape[j]:
            b = sum(b, j, True)
        elif b.shape[j] == 1 != a.shape[i]:
            a = sum(a, i, True)
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size "
                f"{b.shape[j]} in dim {j}"
            )
    free_a = [i for i in range(a.ndim) if i not in left]
    free_b = [j for j in range(b.ndim) if j not in right]
    inner_extent = int(np.prod([a.shape[i] for i in left]))
    rows = reshape(permute(a, [*free_a, *left]), (int(np.prod([a.shape[i] for i in free_a])), inner_extent))
    columns = reshape(permute(b, [*right, *free_b]), (inner_extent, int(np.prod([b.shape[j] for j in free_b]))))
    return reshape(_product(rows, columns), [*[a.shape[i] for i in free_a], *[b.shape[j] for j in free_b]])


def chain_matmul(*matrices: Any) -> Any:
    """Return the product of matrices, in the order that takes the fewest multiplications."""
    given: Any = matrices[0] if len(matrices) == 1 and type(matrices[0]) in (list, tuple) else matrices
    for position, matrix in enumerate(given):
        check_operand("chain_matmul", matrix, "matrices", position + 1)
    if len(given) == 1:
        return given[0]
    extents = [m.shape[0] for m in given] + [given[-1].shape[1]]
    count = len(given)
    cost: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + extents[i] * extents[k + 1] * extents[j + 1], k)
                for k in range(i, j)
            )

    def product(i: int, j: int) -> Any:
        if i == j:
            return given[i]
        k = cost[i, j][1]
        return _product(product(i, k), product(k + 1, j))

    return product(0, count - 1)


@alike(0, 1)
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Return the vectors perpendicular to both, along a dimension of three: the first such one by default.

    Raises:
        RuntimeError: there is none.
    """
    if input.ndim != other.ndim:
        raise ShapeError(
            "linalg.cross: inputs must have the same number of dimensions, but they have shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    shape = broadcast_shape("cross", [input.shape, other.shape])
    if dim is None:
        if 3 not in shape:
            raise AutogradError("no dimension of size 3 in input")
        dim = shape.index(3)
    axis = axis_of(dim, len(shape))
    if shape[axis] != 3:
        raise AutogradError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {list(input.shape)} and {list(other.shape)}"
        )
    a, b = expand(input, shape), expand(other, shape)
    turned = [[index_select(x, axis, _turn(x, by)) for by in (1, 2)] for x in (a, b)]
    return sub(mul(turned[0][0], turned[1][1]), mul(turned[0][1], turned[1][0]))


@alike(0, 1)
def cross_along(input: Any, other: Any, *, dim: int = -1) -> Any:
    """Return the vectors perpendicular to both, along a dimension of three: the last by default.

    Raises:
        RuntimeError: one has another extent there.
    """
    if input.ndim == other.ndim:
        axis = axis_of(dim, input.ndim)
        if input.ndim and (input.shape[axis], other.shape[axis]) != (3, 3):
            raise ShapeError(
                f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[axis]} and "
                f"{other.shape[axis]}"
            )
    return cross(input, other, dim)


def _turn(like: Any, by: int) -> Any:
    return like_operand((space_of(like).arange(3) + by) % 3, like)
