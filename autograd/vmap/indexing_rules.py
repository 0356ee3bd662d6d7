"""Batching rules of indexing ops: slices, advanced indexing, gather and scatter, and their derivatives.

An index tensor that differs between examples gets the number of the example as one more index. The picked dimensions
then stand right behind the batch, and are moved to where they stand for one example, or from there.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..dispatch.creation import arange
from ..dispatch.dispatch import call
from .batching_rules import BatchedOpCall, all_batched, batching_rule, lifted, spread
from .shape_rules import up

# ---- by slices -------------------------------------------------------------------------------------------------------


def _whole(op_call: BatchedOpCall, index: Any) -> Any:
    return ((0, op_call.size, 1), *index)


@batching_rule("getitem")
def _getitem(op_call: BatchedOpCall) -> Any:
    a, index = op_call.operands
    return call(op_call.op, (a, _whole(op_call, index)))


@batching_rule("getitem_grad")
def _getitem_grad(op_call: BatchedOpCall) -> Any:
    g, index = op_call.operands
    return call(op_call.op, (g, _whole(op_call, index)), ((op_call.size, *op_call.params[0]),))


@batching_rule("setitem")
def _setitem(op_call: BatchedOpCall) -> Any:
    a, value, index = op_call.operands
    a = a if op_call.batched[0] else spread(a, op_call.size)
    if op_call.batched[1]:
        region = sum(entry is None or not isinstance(entry, int) for entry in index)
        value = _aligned(value, op_call.ranks[1] or 0, region)
    return call(op_call.op, (a, value, _whole(op_call, index)))


def _aligned(value: Any, rank: int, region: int) -> Any:
    """Return batched values with as many dimensions as the region that they are written to; leading ones are
    dropped."""
    if rank <= region:
        return lifted(value, rank, region)
    return ops.reshape(value, (value.shape[0], *value.shape[1 + rank - region :]))


# ---- by index tensors along some axes --------------------------------------------------------------------------------


def _place(axes: tuple[int, ...]) -> int:
    """Return the position of the picked dimensions in the result for one example: that of adjacent axes, else the
    front."""
    return axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0


def _numbered(rows: Any, size: int) -> Any:
    """Return index tensors that differ between examples, with the number of the example as first index."""
    numbers = ops.reshape(arange(size), (1, size, *(1,) * (rows.ndim - 2)))
    rows = ops.movedim(rows, 0, 1)
    return ops.cat([ops.expand(numbers, (1, *rows.shape[1:])), rows], 0)


def _block(value: Any, start: int, count: int, target: int) -> Any:
    """Return `value` with `count` dimensions from `start` on moved to `target`."""
    if start == target or not count:
        return value
    return ops.movedim(value, list(range(start, start + count)), list(range(target, target + count)))


@batching_rule("index")
def _index(op_call: BatchedOpCall) -> Any:
    a, rows = op_call.operands
    (axes,) = op_call.params
    picked, place = (op_call.ranks[1] or 1) - 1, _place(axes)
    if not op_call.batched[1]:
        out = call(op_call.op, (a, rows), (up(axes),))
        return out if _place(up(axes)) else _block(out, picked, 1, 0)
    if not op_call.batched[0]:
        return _block(call(op_call.op, (a, ops.movedim(rows, 0, 1)), (axes,)), place, 1, 0)
    out = call(op_call.op, (a, _numbered(rows, op_call.size)), ((0, *up(axes)),))
    return _block(out, 1, picked, 1 + place)


def _rows(op_call: BatchedOpCall, rows: Any, axes: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Return the index tensors and axes for all examples."""
    return (_numbered(rows, op_call.size), (0, *up(axes))) if op_call.batched[-1] else (rows, up(axes))


def _values(op_call: BatchedOpCall, value: Any, axes: tuple[int, ...]) -> Any:
    """Return values with the batch in front and all dimensions of the region behind."""
    picked = (op_call.ranks[-1] or 1) - 1
    if op_call.batched[-1]:
        return _block(value, 1 + _place(axes), picked, 1)
    return value if _place(up(axes)) else _block(value, 0, 1, picked)


@batching_rule("index_grad")
def _index_grad(op_call: BatchedOpCall) -> Any:
    g, rows = op_call.operands
    axes, shape = op_call.params
    g = _values(op_call, g if op_call.batched[0] else spread(g, op_call.size), axes)
    rows, axes = _rows(op_call, rows, axes)
    return call(op_call.op, (g, rows), (axes, (op_call.size, *shape)))


@batching_rule("index_put")
def _index_put(op_call: BatchedOpCall) -> Any:
    a, value, rows = op_call.operands
    axes, accumulate = op_call.params
    a = a if op_call.batched[0] else spread(a, op_call.size)
    rank = op_call.ranks[1]
    if rank is not None:
        region = (op_call.ranks[2] or 1) - 1 + a.ndim - 1 - len(axes)
        if op_call.batched[1]:
            value = _aligned(value, rank, region)
        else:
            value = ops.reshape(value, (1, *(1,) * (region - rank), *value.shape))
        value = _values(op_call, value, axes)
    rows, axes = _rows(op_call, rows, axes)
    return call(op_call.op, (a, value, rows), (axes, accumulate))


# ---- along one dimension ---------------------------------------------------------------------------------------------


@batching_rule("gather", "gather_grad", "scatter")
def _gather(op_call: BatchedOpCall) -> Any:
    if not op_call.ranks[0]:
        return NotImplemented
    axis, *rest = op_call.params
    if op_call.op.name == "gather_grad":
        rest = [(op_call.size, *rest[0])]
    return call(op_call.op, all_batched(op_call), (axis + 1, *rest))
