"""Rules of ops that move elements or look at them in another shape: the dimension of the examples stays in front."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..dispatch.dispatch import call
from .batching_rules import BatchedOpCall, all_batched, batching_rule, lifted


def up(axes: Any) -> tuple[int, ...]:
    """Return axes of one example as axes of all."""
    return tuple([axis + 1 for axis in axes])


@batching_rule("reshape", "view")
def _reshape(given: BatchedOpCall) -> Any:
    """Also for `view`: what could be viewed for one example need not be so for all, and then is copied."""
    return ops.reshape(given.operands[0], (given.size, *given.params[0]))


@batching_rule("squeeze", "flip")
def _along_axes(given: BatchedOpCall) -> Any:
    return call(given.op, given.operands, (up(given.params[0]),))


@batching_rule("unsqueeze")
def _unsqueeze(given: BatchedOpCall) -> Any:
    return call(given.op, given.operands, (given.params[0] + 1,))


@batching_rule("transpose")
def _transpose(given: BatchedOpCall) -> Any:
    return call(given.op, given.operands, up(given.params))


@batching_rule("permute", "in_order")
def _permute(given: BatchedOpCall) -> Any:
    return call(given.op, given.operands, ((0, *up(given.params[0])),))


@batching_rule("expand")
def _expand(given: BatchedOpCall) -> Any:
    shape = given.params[0]
    (a,), (rank,) = given.operands, given.ranks
    return call(given.op, (lifted(a, rank or 0, len(shape)),), ((given.size, *shape),))


@batching_rule("roll")
def _roll(given: BatchedOpCall) -> Any:
    shifts, axes = given.params
    return call(given.op, given.operands, (shifts, up(axes)))


@batching_rule("diagonal")
def _diagonal(given: BatchedOpCall) -> Any:
    offset, first, second = given.params
    return call(given.op, given.operands, (offset, first + 1, second + 1))


@batching_rule("diagonal_grad")
def _diagonal_grad(given: BatchedOpCall) -> Any:
    offset, first, second, shape = given.params
    return call(given.op, given.operands, (offset, first + 1, second + 1, (given.size, *shape)))


@batching_rule("put_diagonal")
def _put_diagonal(given: BatchedOpCall) -> Any:
    offset, first, second = given.params
    return call(given.op, all_batched(given), (offset, first + 1, second + 1))


@batching_rule("tril", "triu", "one_hot")
def _of_last_dimensions(given: BatchedOpCall) -> Any:
    if given.op.name != "one_hot" and (given.ranks[0] or 0) < 2:
        return NotImplemented
    return call(given.op, given.operands, given.params)


@batching_rule("windows")
def _windows(given: BatchedOpCall) -> Any:
    axes, *rest = given.params
    return call(given.op, given.operands, (up(axes), *rest))


@batching_rule("windows_together")
def _windows_together(given: BatchedOpCall) -> Any:
    axes, sizes, steps, spreads, shape = given.params
    return call(given.op, given.operands, (up(axes), sizes, steps, spreads, (given.size, *shape)))


@batching_rule("unfold")
def _unfold(given: BatchedOpCall) -> Any:
    axis, size, step = given.params
    return call(given.op, given.operands, (axis + 1, size, step))


@batching_rule("put_windows")
def _put_windows(given: BatchedOpCall) -> Any:
    axis, size, step = given.params
    return call(given.op, all_batched(given), (axis + 1, size, step))


@batching_rule("as_strided")
def _as_strided(given: BatchedOpCall) -> Any:
    shape, strides, offset, order = given.params
    step = math.prod(given.operands[0].shape[1:])
    return call(given.op, given.operands, ((given.size, *shape), (step, *strides), offset, (0, *up(order))))


@batching_rule("as_strided_grad")
def _as_strided_grad(given: BatchedOpCall) -> Any:
    shape, strides, offset, order, whole = given.params
    inner = ((given.size, *shape), (math.prod(whole), *strides), offset, (0, *up(order)))
    return call(given.op, given.operands, (*inner, (given.size, *whole)))


@batching_rule("put_strided")
def _put_strided(given: BatchedOpCall) -> Any:
    shape, strides, offset, order = given.params
    a, value = all_batched(given)
    step = math.prod(a.shape[1:])
    return call(given.op, (a, value), ((given.size, *shape), (step, *strides), offset, (0, *up(order))))


@batching_rule("view_dtype")
def _view_dtype(given: BatchedOpCall) -> Any:
    """Bytes that lie side by side in one example need not do so in all, and then are copied."""
    return call(given.op, (ops.contiguous(given.operands[0]),), given.params)
