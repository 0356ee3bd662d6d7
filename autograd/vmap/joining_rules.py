"""Rules of ops that put tensors together."""

from __future__ import annotations

from typing import Any

from ..dispatch.dispatch import call
from .batching_rules import BatchedOpCall, all_batched, batching_rule


@batching_rule("cat")
def _cat(given: BatchedOpCall) -> Any:
    """Empty vectors count nothing beside examples of more dimensions, and with one more they would."""
    operands = all_batched(given)
    skipping = any(rank != 1 for rank in given.ranks)
    counted = [o for o in operands if not (skipping and o.shape == (given.size, 0))]
    return call(given.op, counted, (given.params[0] + 1,))


@batching_rule("stack")
def _stack(given: BatchedOpCall) -> Any:
    return call(given.op, all_batched(given), (given.params[0] + 1,))
