"""Batching rules of `cat` and `stack`.

Found by `batched_call` through the registry in `batching_rules`.
"""

from __future__ import annotations

from typing import Any

from ..dispatch.dispatch import call
from .batching_rules import BatchedOpCall, all_batched, batching_rule


@batching_rule("cat")
def _cat(op_call: BatchedOpCall) -> Any:
    """Skip the empty vectors that PyTorch skips: with a batch dimension they would count."""
    operands = all_batched(op_call)
    skipping = any(rank != 1 for rank in op_call.ranks)
    counted = [o for o in operands if not (skipping and o.shape == (op_call.size, 0))]
    return call(op_call.op, counted, (op_call.params[0] + 1,))


@batching_rule("stack")
def _stack(op_call: BatchedOpCall) -> Any:
    return call(op_call.op, all_batched(op_call), (op_call.params[0] + 1,))
