"""Rules of ops that take elements, or put them, by slices and by index tensors.

Rules of this file: index tensors that differ between examples get the number of the example as one index more. What
they pick then stands right behind the examples, and is moved to where it stands for one example, or from there.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..dispatch.creation import arange
from ..dispatch.dispatch import call
from .batching_rules import BatchedOpCall, all_batched, batching_rule, lifted, spread
from .shape_rules import up

# ---- by slices -------------------------------------------------------------------------------------------------------


def _whole(given: BatchedOpCall, index: Any) -> Any:
    return ((0, given.size, 1), *index)


@batching_rule("getitem")
def _getitem(given: BatchedOpCall) -> Any:
    a, index = given.operands
    return call(given.op, (a, _whole(given, index)))


@batching_rule("getitem_grad")
def _getitem_grad(given: BatchedOpCall) -> Any:
    g, index = given.operands
    return call(given.op, (g, _whole(given, index)), ((given.size, *given.params[0]),))


@batching_rule("setitem")
def _setitem(given: BatchedOpCall) -> Any:
    a, value, index = given.operands
    a = a if given.batched[0] else spread(a, given.size)
    if given.batched[1]:
        region = sum(entry is None or not isinstance(entry, int) for entry in index)
        value = _aligned(value, given.ranks[1] or 0, region)
    return call(given.op, (a, value, _whole(given, index)))


def _aligned(value: Any, rank: int, region: int) -> Any:
    """Return batched values with as many dimensions as the region they are put into (leading ones are dropped)."""
    if rank <= region:
        return lifted(value, rank, region)
    return ops.reshape(value, (value.shape[0], *value.shape[1 + rank - region :]))


# ---- by index tensors along some axes --------------------------------------------------------------------------------


def _place(axes: tuple[int, ...]) -> int:
    """Return where what is picked stands in the result for one example: at adjacent axes' place, else in front."""
    return axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0


def _numbered(rows: Any, size: int) -> Any:
    """Return index tensors that differ between examples with the number of the example as the first of them."""
    numbers = ops.reshape(arange(size), (1, size, *(1,) * (rows.ndim - 2)))
    rows = ops.movedim(rows, 0, 1)
    return ops.cat([ops.expand(numbers, (1, *rows.shape[1:])), rows], 0)


def _block(value: Any, start: int, count: int, target: int) -> Any:
    """Return `value` with `count` dimensions from `start` on moved to `target`."""
    if start == target or not count:
        return value
    return ops.movedim(value, list(range(start, start + count)), list(range(target, target + count)))


@batching_rule("index")
def _index(given: BatchedOpCall) -> Any:
    a, rows = given.operands
    (axes,) = given.params
    picked, place = (given.ranks[1] or 1) - 1, _place(axes)
    if not given.batched[1]:
        out = call(given.op, (a, rows), (up(axes),))
        return out if _place(up(axes)) else _block(out, picked, 1, 0)
    if not given.batched[0]:
        return _block(call(given.op, (a, ops.movedim(rows, 0, 1)), (axes,)), place, 1, 0)
    out = call(given.op, (a, _numbered(rows, given.size)), ((0, *up(axes)),))
    return _block(out, 1, picked, 1 + place)


def _rows(given: BatchedOpCall, rows: Any, axes: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Return the index tensors and axes that name the places of all examples."""
    return (_numbered(rows, given.size), (0, *up(axes))) if given.batched[-1] else (rows, up(axes))


def _values(given: BatchedOpCall, value: Any, axes: tuple[int, ...]) -> Any:
    """Return values, the examples in front and all dimensions of the region behind, as they are put there."""
    picked = (given.ranks[-1] or 1) - 1
    if given.batched[-1]:
        return _block(value, 1 + _place(axes), picked, 1)
    return value if _place(up(axes)) else _block(value, 0, 1, picked)


@batching_rule("index_grad")
def _index_grad(given: BatchedOpCall) -> Any:
    g, rows = given.operands
    axes, shape = given.params
    g = _values(given, g if given.batched[0] else spread(g, given.size), axes)
    rows, axes = _rows(given, rows, axes)
    return call(given.op, (g, rows), (axes, (given.size, *shape)))


@batching_rule("index_put")
def _index_put(given: BatchedOpCall) -> Any:
    a, value, rows = given.operands
    axes, accumulate = given.params
    a = a if given.batched[0] else spread(a, given.size)
    rank = given.ranks[1]
    if rank is not None:
        region = (given.ranks[2] or 1) - 1 + a.ndim - 1 - len(axes)
        if given.batched[1]:
            value = _aligned(value, rank, region)
        else:
            value = ops.reshape(value, (1, *(1,) * (region - rank), *value.shape))
        value = _values(given, value, axes)
    rows, axes = _rows(given, rows, axes)
    return call(given.op, (a, value, rows), (axes, accumulate))


# ---- along one dimension ---------------------------------------------------------------------------------------------


@batching_rule("gather", "gather_grad", "scatter")
def _gather(given: BatchedOpCall) -> Any:
    if not given.ranks[0]:
        return NotImplemented
    axis, *rest = given.params
    if given.op.name == "gather_grad":
        rest = [(given.size, *rest[0])]
    return call(given.op, all_batched(given), (axis + 1, *rest))
