"""Batching rules of ops along dimensions: reductions, cumulative sums, softmax, extremes, sorting.

Found by `batched_call` through the registry in `batching_rules`.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..dispatch.dispatch import call
from .batching_rules import BatchedOpCall, batching_rule
from .shape_rules import up


@batching_rule(*"sum mean var std var_mean std_mean logsumexp norm amax amin aminmax greatest least all any".split())
def _reduction(op_call: BatchedOpCall) -> Any:
    """Examples without dimensions get one, since no axes at all would mean all axes to some derivatives."""
    (a,), (rank,) = op_call.operands, op_call.ranks
    axes, keepdim, *rest = op_call.params
    if not rank:
        return call(op_call.op, (ops.unsqueeze(a, 1),), ((1,), False, *rest))
    return call(op_call.op, (a,), (up(range(rank) if axes is None else axes), keepdim, *rest))


@batching_rule("prod", "argmax", "argmin")
def _of_one_or_all(op_call: BatchedOpCall) -> Any:
    """The ops take one dimension or all of them; all dimensions of an example are flattened to one."""
    (a,), (rank,) = op_call.operands, op_call.ranks
    axes, keepdim = op_call.params
    of_several = op_call.op.name == "prod"
    if axes is not None and rank:
        return call(op_call.op, (a,), (up(axes) if of_several else axes + 1, keepdim))
    flat = ops.reshape(a, (op_call.size, math.prod(a.shape[1:])))
    out = call(op_call.op, (flat,), ((1,) if of_several else 1, False))
    return ops.reshape(out, (op_call.size, *(1,) * (rank or 0))) if keepdim else out


@batching_rule("cumsum", "softmax", "log_softmax", "argsort")
def _along_axis(op_call: BatchedOpCall) -> Any:
    (a,), (rank,) = op_call.operands, op_call.ranks
    axis, *rest = op_call.params
    if rank:
        return call(op_call.op, (a,), (axis + 1, *rest))
    return ops.reshape(call(op_call.op, (ops.unsqueeze(a, 1),), (1, *rest)), (op_call.size,))


@batching_rule("max", "min")
def _extreme_and_place(op_call: BatchedOpCall) -> Any:
    (a,), (rank,) = op_call.operands, op_call.ranks
    axis, keepdim = op_call.params
    return call(op_call.op, (a if rank else ops.unsqueeze(a, 1),), (axis + 1, keepdim if rank else False))
