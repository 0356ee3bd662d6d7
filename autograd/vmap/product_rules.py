"""Rules of products: the examples are a batch dimension more."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..dispatch.dispatch import call
from ..ops.linalg.einsum import LETTERS
from .batching_rules import BatchedOpCall, batching_rule, lifted


@batching_rule("matmul")
def _matmul(given: BatchedOpCall) -> Any:
    """Vectors are made matrices, and the batch dimensions of both brought to one number, where NumPy would take the
    examples for something else."""
    a, b = given.operands
    na, nb = given.ranks
    assert na is not None
    assert nb is not None
    if not na or not nb:
        return NotImplemented  # one example says what is wrong
    if given.batched == (True, False) and nb <= 2:
        return call(given.op, (a, b))  # (examples, ..., k) @ (k) or (k, n)
    left = ops.unsqueeze(a, -2) if na == 1 else a
    right = ops.unsqueeze(b, -1) if nb == 1 else b
    top = max(na, nb, 2)
    left = lifted(left, max(na, 2), top) if given.batched[0] else left
    right = lifted(right, max(nb, 2), top) if given.batched[1] else right
    out = call(given.op, (left, right))
    if nb == 1:
        out = ops.squeeze(out, -1)
    return ops.squeeze(out, -1 if nb == 1 else -2) if na == 1 else out


@batching_rule("einsum")
def _contraction(given: BatchedOpCall) -> Any:
    left, right, out = given.params
    label = next(letter for letter in LETTERS if letter not in left + right + out)
    labels = [label + part if flag else part for part, flag in zip((left, right), given.batched, strict=True)]
    return call(given.op, given.operands, (*labels, label + out))
