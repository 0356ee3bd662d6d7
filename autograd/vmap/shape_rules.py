"""Batching rules of ops that reshape, permute, expand or view: the batch dimension stays in front.

Found by `batched_call` through the registry in `batching_rules`.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..dispatch.dispatch import call
from .batching_rules import BatchedOpCall, all_batched, batching_rule, lifted


def up(axes: Any) -> tuple[int, ...]:
    """Return the axes of one example as axes of the batch."""
    return tuple([axis + 1 for axis in axes])


@batching_rule("reshape", "view")
def _reshape(op_call: BatchedOpCall) -> Any:
    """Reshape, and view. A view of one example need not be one of the whole batch, and then is copied."""
    return ops.reshape(op_call.operands[0], (op_call.size, *op_call.params[0]))


@batching_rule("squeeze", "flip")
def _along_axes(op_call: BatchedOpCall) -> Any:
    return call(op_call.op, op_call.operands, (up(op_call.params[0]),))


@batching_rule("unsqueeze")
def _unsqueeze(op_call: BatchedOpCall) -> Any:
    return call(op_call.op, op_call.operands, (op_call.params[0] + 1,))


@batching_rule("transpose")
def _transpose(op_call: BatchedOpCall) -> Any:
    return call(op_call.op, op_call.operands, up(op_call.params))


@batching_rule("permute", "in_order")
def _permute(op_call: BatchedOpCall) -> Any:
    return call(op_call.op, op_call.operands, ((0, *up(op_call.params[0])),))


@batching_rule("expand")
def _expand(op_call: BatchedOpCall) -> Any:
    shape = op_call.params[0]
    (a,), (rank,) = op_call.operands, op_call.ranks
    return call(op_call.op, (lifted(a, rank or 0, len(shape)),), ((op_call.size, *shape),))


@batching_rule("roll")
def _roll(op_call: BatchedOpCall) -> Any:
    shifts, axes = op_call.params
    return call(op_call.op, op_call.operands, (shifts, up(axes)))


@batching_rule("diagonal")
def _diagonal(op_call: BatchedOpCall) -> Any:
    offset, first, second = op_call.params
    return call(op_call.op, op_call.operands, (offset, first + 1, second + 1))


@batching_rule("diagonal_grad")
def _diagonal_grad(op_call: BatchedOpCall) -> Any:
    offset, first, second, shape = op_call.params
    return call(op_call.op, op_call.operands, (offset, first + 1, second + 1, (op_call.size, *shape)))


@batching_rule("put_diagonal")
def _put_diagonal(op_call: BatchedOpCall) -> Any:
    offset, first, second = op_call.params
    return call(op_call.op, all_batched(op_call), (offset, first + 1, second + 1))


@batching_rule("tril", "triu", "one_hot")
def _of_last_dimensions(op_call: BatchedOpCall) -> Any:
    if op_call.op.name != "one_hot" and (op_call.ranks[0] or 0) < 2:
        return NotImplemented
    return call(op_call.op, op_call.operands, op_call.params)


@batching_rule("windows")
def _windows(op_call: BatchedOpCall) -> Any:
    axes, *rest = op_call.params
    return call(op_call.op, op_call.operands, (up(axes), *rest))


@batching_rule("windows_together")
def _windows_together(op_call: BatchedOpCall) -> Any:
    axes, sizes, steps, spreads, shape = op_call.params
    return call(op_call.op, op_call.operands, (up(axes), sizes, steps, spreads, (op_call.size, *shape)))


@batching_rule("unfold")
def _unfold(op_call: BatchedOpCall) -> Any:
    axis, size, step = op_call.params
    return call(op_call.op, op_call.operands, (axis + 1, size, step))


@batching_rule("put_windows")
def _put_windows(op_call: BatchedOpCall) -> Any:
    axis, size, step = op_call.params
    return call(op_call.op, all_batched(op_call), (axis + 1, size, step))


@batching_rule("as_strided")
def _as_strided(op_call: BatchedOpCall) -> Any:
    shape, strides, offset, order = op_call.params
    step = math.prod(op_call.operands[0].shape[1:])
    return call(op_call.op, op_call.operands, ((op_call.size, *shape), (step, *strides), offset, (0, *up(order))))


@batching_rule("as_strided_grad")
def _as_strided_grad(op_call: BatchedOpCall) -> Any:
    shape, strides, offset, order, whole = op_call.params
    inner = ((op_call.size, *shape), (math.prod(whole), *strides), offset, (0, *up(order)))
    return call(op_call.op, op_call.operands, (*inner, (op_call.size, *whole)))


@batching_rule("put_strided")
def _put_strided(op_call: BatchedOpCall) -> Any:
    shape, strides, offset, order = op_call.params
    a, value = all_batched(op_call)
    step = math.prod(a.shape[1:])
    return call(op_call.op, (a, value), ((op_call.size, *shape), (step, *strides), offset, (0, *up(order))))


@batching_rule("view_dtype")
def _view_dtype(op_call: BatchedOpCall) -> Any:
    """Bytes that lie side by side in one example need not do so in the batch, and then are copied."""
    return call(op_call.op, (ops.contiguous(op_call.operands[0]),), op_call.params)
