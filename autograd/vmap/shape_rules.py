"""Batching rules of ops that reshape, permute, join, expand or view: the batch dimension stays in front.

Most apply the op once, with other parameters: a table says which. Found by `batched_call` through the registry in
`batching_rules`.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..dispatch.dispatch import call
from ..registry.define_op import OpCallable
from .batching_rules import BatchedOpCall, Rule, all_batched, batching_rule, lifted


def up(axes: Any) -> tuple[int, ...]:
    """Return the axes of one example as axes of the batch."""
    return tuple([axis + 1 for axis in axes])


PARAMS_OF_BATCH: dict[str, OpCallable] = {
    "squeeze flip": lambda size, axes: (up(axes),),
    "unsqueeze stack": lambda size, axis: (axis + 1,),
    "transpose": lambda size, first, second: (first + 1, second + 1),
    "permute in_order": lambda size, axes: ((0, *up(axes)),),
    "roll": lambda size, shifts, axes: (shifts, up(axes)),
    "diagonal put_diagonal": lambda size, offset, first, second: (offset, first + 1, second + 1),
    "diagonal_grad": lambda size, offset, first, second, shape: (offset, first + 1, second + 1, (size, *shape)),
    "one_hot": lambda size, classes: (classes,),
    "windows": lambda size, axes, sizes, steps, spreads: (up(axes), sizes, steps, spreads),
    "windows_together": lambda size, axes, sizes, steps, spreads, shape: (
        (up(axes), sizes, steps, spreads, (size, *shape))
    ),
    "unfold put_windows": lambda size, axis, extent, step: (axis + 1, extent, step),
}
"""By ops: from the size of the batch and the op's parameters for one example to its parameters for the batch."""


def _applied_once(params_of_batch: Any) -> Rule:
    """Return the rule that applies an op once, with these parameters, to operands that all have a batch dimension."""

    def rule(op_call: BatchedOpCall) -> Any:
        operands = op_call.operands if len(op_call.operands) == 1 else all_batched(op_call)
        return call(op_call.op, operands, params_of_batch(op_call.size, *op_call.params))

    return rule


for _names, _params_of_batch in PARAMS_OF_BATCH.items():
    batching_rule(*_names.split())(_applied_once(_params_of_batch))


@batching_rule("cat")
def _cat(op_call: BatchedOpCall) -> Any:
    """Skip the empty vectors that PyTorch skips: with a batch dimension they would count."""
    operands = all_batched(op_call)
    skipping = any(rank != 1 for rank in op_call.ranks)
    counted = [o for o in operands if not (skipping and o.shape == (op_call.size, 0))]
    return call(op_call.op, counted, (op_call.params[0] + 1,))


@batching_rule("reshape", "view")
def _reshape(op_call: BatchedOpCall) -> Any:
    """Reshape, and view. A view of one example need not be one of the whole batch, and then is copied."""
    return ops.reshape(op_call.operands[0], (op_call.size, *op_call.params[0]))


@batching_rule("expand")
def _expand(op_call: BatchedOpCall) -> Any:
    shape = op_call.params[0]
    (a,), (rank,) = op_call.operands, op_call.ranks
    return call(op_call.op, (lifted(a, rank or 0, len(shape)),), ((op_call.size, *shape),))


@batching_rule("tril", "triu")
def _triangle(op_call: BatchedOpCall) -> Any:
    return NotImplemented if (op_call.ranks[0] or 0) < 2 else call(op_call.op, op_call.operands, op_call.params)


@batching_rule("unbind", "split", "split_with_sizes", "unbind_copy", "split_copy", "split_with_sizes_copy")
def _pieces(op_call: BatchedOpCall) -> Any:
    axis, *bounds = op_call.params
    return call(op_call.op, op_call.operands, (axis + 1, *bounds))


@batching_rule("as_strided", "put_strided")
def _strided(op_call: BatchedOpCall) -> Any:
    shape, strides, offset, order = op_call.params
    operands = all_batched(op_call)
    step = math.prod(operands[0].shape[1:])
    return call(op_call.op, operands, ((op_call.size, *shape), (step, *strides), offset, (0, *up(order))))


@batching_rule("as_strided_grad")
def _as_strided_grad(op_call: BatchedOpCall) -> Any:
    shape, strides, offset, order, whole = op_call.params
    inner = ((op_call.size, *shape), (math.prod(whole), *strides), offset, (0, *up(order)))
    return call(op_call.op, op_call.operands, (*inner, (op_call.size, *whole)))


@batching_rule("view_dtype")
def _view_dtype(op_call: BatchedOpCall) -> Any:
    """Bytes that lie side by side in one example need not do so in the batch, and then are copied."""
    return call(op_call.op, (ops.contiguous(op_call.operands[0]),), op_call.params)
