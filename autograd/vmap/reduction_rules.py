"""Rules of ops along dimensions: reductions, running sums, softmax, extremes and order."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..dispatch.dispatch import call
from .batching_rules import BatchedOpCall, batching_rule
from .shape_rules import up


@batching_rule("sum", "mean", "var", "std", "logsumexp", "norm", "amax", "amin", "greatest", "least", "all", "any")
def _reduction(given: BatchedOpCall) -> Any:
    """Examples without dimensions get one: no axes at all would mean all of them to some derivatives."""
    (a,), (rank,) = given.operands, given.ranks
    axes, keepdim, *rest = given.params
    if not rank:
        return call(given.op, (ops.unsqueeze(a, 1),), ((1,), False, *rest))
    return call(given.op, (a,), (up(range(rank) if axes is None else axes), keepdim, *rest))


@batching_rule("prod")
def _product(given: BatchedOpCall) -> Any:
    """It knows one dimension or all of them: all of one example are made one."""
    (a,), (rank,) = given.operands, given.ranks
    axes, keepdim = given.params
    if axes is not None and rank:
        return call(given.op, (a,), (up(axes), keepdim))
    out = call(given.op, (ops.reshape(a, (given.size, _count(a))),), ((1,), False))
    return ops.reshape(out, (given.size, *(1,) * (rank or 0))) if keepdim else out


def _count(a: Any) -> int:
    """Return the number of elements of one example."""
    count = 1
    for extent in a.shape[1:]:
        count *= extent
    return count


@batching_rule("cumsum", "softmax", "log_softmax", "argsort")
def _along_axis(given: BatchedOpCall) -> Any:
    (a,), (rank,) = given.operands, given.ranks
    axis, *rest = given.params
    if rank:
        return call(given.op, (a,), (axis + 1, *rest))
    return ops.reshape(call(given.op, (ops.unsqueeze(a, 1),), (1, *rest)), (given.size,))


@batching_rule("max", "min")
def _extreme_and_place(given: BatchedOpCall) -> Any:
    (a,), (rank,) = given.operands, given.ranks
    axis, keepdim = given.params
    return call(given.op, (a if rank else ops.unsqueeze(a, 1),), (axis + 1, keepdim if rank else False))


@batching_rule("argmax", "argmin")
def _place(given: BatchedOpCall) -> Any:
    (a,), (rank,) = given.operands, given.ranks
    axis, keepdim = given.params
    if axis is not None and rank:
        return call(given.op, (a,), (axis + 1, keepdim))
    out = call(given.op, (ops.reshape(a, (given.size, _count(a))),), (1, False))
    return ops.reshape(out, (given.size, *(1,) * (rank or 0))) if keepdim else out
