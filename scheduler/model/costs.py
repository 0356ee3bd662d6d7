"""The cost model: predicted seconds of nodes, transfers and calls, and predicted bytes of values.

`Costs` is a frozen value with a prior for every kind of node; `measured_costs` replaces its figures by measured ones
and counts up the epoch. Costs are computed from specs alone, not from a graph or a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

from raygrad.proto.ir.graph import CostHint
from raygrad.proto.ir.nodes import (
    FunctionCall,
    FunctionVjp,
    HookCall,
    Load,
    Node,
    OpCall,
    OpVjp,
    Spill,
    transforms_of,
)
from raygrad.proto.ir.specs import ArraySpec, ConstSpec, ContextSpec, Spec, UnknownSpec, bytes_of

from .function_costs import CostKind, Figure, FunctionCosts, Origin, family_of_node, function_figure

CONTRACTIONS = frozenset({"matmul", "mm", "bmm", "mv", "dot", "inner", "linear", "addmm"})
"""Built-in ops whose work is the size of the result times the length of the axis that is summed over."""


class LinkCost(NamedTuple):
    """The measured cost of the link between two hosts."""

    hop_seconds: float
    """As `Costs.hop_seconds`."""
    bandwidth: float
    """As `Costs.bandwidth`."""


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Costs:
    """The figures of the cost model. All rates are per second; see the head of this file."""

    epoch: int = 0
    """Counts up with each revision, so that equal epochs mean equal costs."""
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
    function_seconds: float = 1.0
    """A user Function that never ran, of which nothing is known: long beside transfers, so that it is divided over
    workers."""
    function_overhead: float = 200e-6
    """What a user Function takes however little it reads: where times are scaled from one shape to another, as
    `function_bandwidth`."""
    function_bandwidth: float = 1e9
    """Bytes that a user Function reads, and its vjp makes, too."""
    hook_seconds: float = 10e-6
    spill_seconds: float = 100e-6
    spill_bandwidth: float = 1e9
    """Bytes that are written to the disk of a worker, or read from there."""
    context_bytes: int = 4096
    """A context beside the inputs and outputs saved in it, which are values of their own."""
    unknown_bytes: int = 8192
    """A value whose spec gives no size."""
    const_bytes: int = 64
    store_bandwidth: float = float("inf")
    """Bytes that a worker puts into the object store while its next call waits for that, the other workers of its
    machine doing the same: so it has their contention for cores and memory. `bandwidth` has what the reader waits."""
    send_seconds: float = 0.0
    """From a call at the client to the start of work on a worker that is idle."""
    return_seconds: float = 0.0
    """From the end of a segment to its record at the client."""
    submit_seconds: float = 0.0
    """What sending each call costs the client, which sends them one after the other."""
    client_seconds: float = 0.0
    """What each call costs the client in all, to take in its record too: no run is shorter than that for all of its
    calls."""
    give_bandwidth: float = float("inf")
    """Bytes of large values that the client sends with calls."""
    follow_seconds: float = 0.0
    """From the end of a segment to the start of one on the same worker that reads what it made, or waits for it."""
    more_come: bool = False
    """Workers may join while runs go on: work that is all on one worker is cut as if others might take some of it."""
    recovery_time: float = float("inf")
    """Seconds of work that may be lost with a worker: no segment of several nodes holds more."""
    links: Mapping[tuple[str, str], LinkCost] = field(default_factory=_nothing, compare=False, repr=False)
    """Per pair of hosts whose link was measured, what it showed; other pairs are as `hop_seconds`, `bandwidth`."""
    factors: Mapping[str, float] = field(default_factory=_nothing, compare=False, repr=False)
    """Per kind of node that was measured (`kind_of`), by how much the prior is off. Of those of user Functions,
    `functions` has it."""
    runs: Mapping[str, int] = field(default_factory=_nothing, compare=False, repr=False)
    """Per kind of node that was measured, in how many runs."""
    functions: FunctionCosts = field(default_factory=_nothing, compare=False, repr=False)
    """What was measured of user Functions."""

    def value_bytes(self, spec: Spec) -> int:
        """Return the predicted bytes of a value."""
        known = bytes_of(spec)
        if isinstance(spec, ArraySpec):
            return known
        if isinstance(spec, ContextSpec):
            return self.context_bytes + max(known, 0)
        if isinstance(spec, ConstSpec):
            return self.const_bytes + max(known, 0)
        return self.unknown_bytes

    def transfer_seconds(self, size: int) -> float:
        """Return the predicted time from a value's being made on one worker to its use on another."""
        return self.hop_seconds + size / self.bandwidth

    def link_seconds(self, source: str, target: str, size: int) -> float:
        """Return the predicted time of a transfer between workers on two hosts (`WorkerSpec.host`)."""
        link = self.links.get((source, target)) if self.links else None
        return self.transfer_seconds(size) if link is None else link.hop_seconds + size / link.bandwidth

    def kind_of(self, node: Node, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> str:
        """Return the kind under which a node is measured: "op matmul vjp cpu 13,13>13" is any gradient of a matmul on a
        CPU of arrays of 4 to 8 KiB. Kinds mean the same in every session. Arguments as for `node_seconds`. What a user
        Function makes is not known before its first run, which is measured under the kind of the later ones."""
        if isinstance(node, FunctionCall):
            outputs = ()
        devices = {spec.device.partition(":")[0] for spec in (*inputs, *outputs) if isinstance(spec, ArraySpec)}
        read, made = (",".join(map(self._bucket, specs)) for specs in (inputs, outputs))
        return " ".join((node.role, node.fn, *transforms_of(node), "+".join(sorted(devices)), f"{read}>{made}"))

    def kind(
        self, node: Node, inputs: Sequence[Spec], outputs: Sequence[Spec], hint: CostHint | None = None
    ) -> CostKind:
        """Return the kind of a node with its prior and what is hinted. Arguments as for `node_seconds`."""
        name, prior = self.kind_of(node, inputs, outputs), self.prior_seconds(node, inputs, outputs)
        if not isinstance(node, (FunctionCall, FunctionVjp)):
            return CostKind(name, prior)
        seconds, values = (0.0, "") if hint is None else hint[1:]
        sized = not any(isinstance(spec, UnknownSpec) for spec in inputs)
        return CostKind(name, prior, family_of_node(node), node.depth, seconds, values, sized)

    def figure(self, kind: CostKind) -> Figure:
        """Return the predicted seconds of one node of a kind, and where they are from."""
        if kind.family:
            return function_figure(self.functions, kind, self.function_seconds)
        factor = self.factors.get(kind.name)
        if factor is None:
            return Figure(kind.prior, Origin.ASSUMED)
        runs = self.runs.get(kind.name, 0)
        return Figure(kind.prior * factor, Origin.FIRST_RUN if runs == 1 else Origin.MEASURED, runs)

    def _bucket(self, spec: Spec) -> str:
        """Return the power of two above an array's bytes; of anything else its kind."""
        return str(self.value_bytes(spec).bit_length()) if isinstance(spec, ArraySpec) else spec.kind

    def is_unknown(self, node: Node) -> bool:
        """Return whether nothing was measured of a user Function, nor of what it is the derivative of."""
        if not isinstance(node, (FunctionCall, FunctionVjp)) or node.fn in self.functions:
            return False
        return not node.depth or family_of_node(node) not in self.functions

    def node_seconds(self, node: Node, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> float:
        """Return the predicted time of one node on one worker, as far as measured; always positive.

        `inputs` are the specs of the inputs that are present, in order; `outputs` those of the outputs.
        """
        if isinstance(node, (FunctionCall, FunctionVjp)):
            return self.figure(self.kind(node, inputs, outputs)).seconds
        seconds = self.prior_seconds(node, inputs, outputs)
        return seconds * self.factors.get(self.kind_of(node, inputs, outputs), 1.0) if self.factors else seconds

    def prior_seconds(self, node: Node, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> float:
        """Return the time of one node by its bytes and floating-point operations, of which measured times are
        multiples. For a user Function it says how its time grows with what it reads, not how long it takes."""
        if isinstance(node, FunctionCall):
            outputs = ()
        moved = sum(map(self.value_bytes, inputs)) + sum(map(self.value_bytes, outputs))
        if isinstance(node, (FunctionCall, FunctionVjp)):
            return self.function_overhead + moved / self.function_bandwidth
        if isinstance(node, (Spill, Load)):
            return self.spill_seconds + moved / self.spill_bandwidth
        if isinstance(node, HookCall):
            return self.hook_seconds + moved / self.op_bandwidth
        seconds = self.op_seconds + moved / self.op_bandwidth
        if node.fn in CONTRACTIONS and isinstance(node, (OpCall, OpVjp)):
            seconds += self._contraction_flops(node, inputs, outputs) / self.flops
        return seconds

    def _contraction_flops(self, node: Node, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> float:
        """Multiply-adds count twice. Forward sums over the last axis of its first operand; each gradient that its vjp
        makes takes as much work as forward did: the three sizes of a product are those of any two of the arrays."""
        arrays = [spec for spec in (*inputs, *outputs) if isinstance(spec, ArraySpec) and spec.shape]
        if not arrays:
            return 0.0
        if not node.depth:
            made = outputs[0] if outputs else None
            return 2.0 * prod(made.shape) * arrays[0].shape[-1] if isinstance(made, ArraySpec) else 0.0
        sizes = sorted((prod(spec.shape) for spec in arrays), reverse=True)
        a, b, c = (*sizes, 1, 1)[:3]
        return 2.0 * len(outputs) * (float(a) * b * c) ** 0.5
