"""What work and transfers are believed to cost, before anything has been measured.

Rules of this file: seconds and bytes only, from specs only; no graph, no plan. The figures are a prior, right within
a small factor on a small machine (DESIGN §6): they decide what is worth moving, not what is billed. `Costs` is a
frozen value, and `epoch` is part of every plan's key: whoever learns better figures makes a new `Costs` with the next
epoch. Measured costs per (function, shape, device) belong here, beside the prior that they replace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from raygrad.proto.graph import (
    KIND_ARRAY,
    KIND_CONST,
    KIND_CONTEXT,
    ROLE_FUNCTION,
    ROLE_HOOK,
    ROLE_OP,
    Node,
    Spec,
)

CONTRACTIONS = frozenset({"matmul", "mm", "bmm", "mv", "dot", "inner", "linear", "addmm"})
"""Built-in ops whose work is the size of the result times the length of the axis that is summed over."""


@lru_cache(maxsize=64)
def _itemsize(dtype: str) -> int:
    """Return the bytes of one element; 8 for a dtype that NumPy does not know by name (bfloat16 and the like)."""
    try:
        return np.dtype(dtype).itemsize
    except TypeError:
        return 8


@dataclass(frozen=True, slots=True)
class Costs:
    """A cost model. All rates are per second; see the head of this file."""

    epoch: int = 0
    """Counts up with each revision: a plan made under another epoch is not reused."""
    call_seconds: float = 0.3e-3
    """One segment more on a worker that is fed ahead."""
    hop_seconds: float = 0.8e-3
    """From the end of a segment on one worker to the start of one on another that waits for it."""
    bandwidth: float = 1e9
    """Bytes between two workers, the copy into the store included."""
    op_seconds: float = 2e-6
    op_bandwidth: float = 5e9
    """Bytes that a built-in op reads and writes."""
    flops: float = 5e9
    """Floating-point operations of a contraction on one core."""
    function_seconds: float = 200e-6
    function_bandwidth: float = 1e9
    """Bytes that a user Function reads and writes; unknown code, hence slower than a built-in op."""
    hook_seconds: float = 10e-6
    context_bytes: int = 4096
    """A context beside the inputs and outputs saved in it, which are values of their own."""
    unknown_bytes: int = 8192
    """A value of which nothing is known."""
    const_bytes: int = 64

    def value_bytes(self, spec: Spec) -> int:
        """Return the predicted bytes of a value."""
        if spec.kind == KIND_ARRAY:
            return prod(spec.shape) * _itemsize(spec.dtype)
        if spec.kind == KIND_CONTEXT:
            return self.context_bytes
        return self.const_bytes if spec.kind == KIND_CONST else self.unknown_bytes

    def transfer_seconds(self, size: int) -> float:
        """Return the predicted time from a value's being made on one worker to its use on another."""
        return self.hop_seconds + size / self.bandwidth

    def node_seconds(self, node: Node, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> float:
        """Return the predicted time of one node on one worker; always positive.

        `inputs` are the specs of the inputs that are present, in order; `outputs` those of the outputs.
        """
        moved = sum(map(self.value_bytes, inputs)) + sum(map(self.value_bytes, outputs))
        if node.role == ROLE_FUNCTION:
            return self.function_seconds + moved / self.function_bandwidth
        if node.role == ROLE_HOOK:
            return self.hook_seconds + moved / self.op_bandwidth
        seconds = self.op_seconds + moved / self.op_bandwidth
        if node.role == ROLE_OP and node.fn in CONTRACTIONS:
            seconds += self._contraction_flops(node, inputs, outputs) / self.flops
        return seconds

    def _contraction_flops(self, node: Node, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> float:
        """Multiply-adds count twice. Forward sums over the last axis of its first operand; each gradient that its vjp
        makes takes as much work as forward did: the three sizes of a product are those of any two of the arrays."""
        arrays = [spec for spec in (*inputs, *outputs) if spec.kind == KIND_ARRAY and spec.shape]
        if not arrays:
            return 0.0
        if not node.transforms:
            return 2.0 * prod(outputs[0].shape) * arrays[0].shape[-1] if outputs else 0.0
        sizes = sorted((prod(spec.shape) for spec in arrays), reverse=True)
        a, b, c = (*sizes, 1, 1)[:3]
        return 2.0 * len(outputs) * (float(a) * b * c) ** 0.5
