"""Batching rules of `matmul` and of `einsum`'s contraction: the batch is one more batch dimension.

Found by `batched_call` through the registry in `batching_rules`.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..dispatch.dispatch import call
from ..ops.linalg.einsum import LETTERS
from .batching_rules import BatchedOpCall, batching_rule, lifted


@batching_rule("matmul")
def _matmul(op_call: BatchedOpCall) -> Any:
    """Vectors become matrices, and both operands get equal batch dimensions, where NumPy would read the batch as
    something else."""
    a, b = op_call.operands
    na, nb = op_call.ranks
    assert na is not None
    assert nb is not None
    if not na or not nb:
        return NotImplemented  # one example says what is wrong
    if op_call.batched == (True, False) and nb <= 2:
        return call(op_call.op, (a, b))  # (examples, ..., k) @ (k) or (k, n)
    left = ops.unsqueeze(a, -2) if na == 1 else a
    right = ops.unsqueeze(b, -1) if nb == 1 else b
    top = max(na, nb, 2)
    left = lifted(left, max(na, 2), top) if op_call.batched[0] else left
    right = lifted(right, max(nb, 2), top) if op_call.batched[1] else right
    out = call(op_call.op, (left, right))
    if nb == 1:
        out = ops.squeeze(out, -1)
    return ops.squeeze(out, -1 if nb == 1 else -2) if na == 1 else out


@batching_rule("einsum")
def _contraction(op_call: BatchedOpCall) -> Any:
    left, right, out = op_call.params
    label = next(letter for letter in LETTERS if letter not in left + right + out)
    labels = [label + part if flag else part for part, flag in zip((left, right), op_call.batched, strict=True)]
    return call(op_call.op, op_call.operands, (*labels, label + out))
