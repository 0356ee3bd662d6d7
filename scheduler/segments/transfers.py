"""Transfers: how each value gets from the segment that makes it to the segments that read it.

Blocks of nodes become `Segment`s with imports, exports and pins; no node is moved. For each value made in a segment:

- It is *exported*, that is returned to the object store, where it outlives its process, if the client keeps it in the
  store, or if another worker reads it. All its readers import it. An exception: what a worker with limited memory
  keeps, its own later segments read where it is, though others import it; such a worker has a disk, and exports nothing
  because the client keeps it in the store. Values with equal readers and an equal purpose share one object: so there
  are few, and none holds what one of its readers does not need.
- It stays there, *pinned*, if only later segments of the same worker read it; the last of these drops it. If it is
  saved (a context, or a residual of a vjp), `Segment.saved_pins` lists it: the state machine has it copied to the store
  where losing it would cost much work. Not listed are contexts that must stay on their worker, residuals of a cluster
  where saved values stay (`saved_stays`), and what a worker with limited memory saves.
- It is pinned, besides, if the client keeps it on the worker, until the client drops it.

No value is exported twice. External inputs stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raygrad.proto.ir.graph import KEEP_IN_STORE
from raygrad.proto.ir.nodes import ROLE_FUNCTION, ROLE_HOOK, ROLE_OP, ROLE_SUM, VJP, OpVjp, Vjp
from raygrad.proto.ir.specs import ContextSpec, can_leave, is_stored

from ..model.plan import Export, InStore, OnWorker, Segment, ValueLocation
from ..model.priced_graph import PricedGraph
from .segmenter import Block

COLUMN_OF = {ROLE_OP: 0, ROLE_FUNCTION: 0, VJP: 1, ROLE_HOOK: 2, ROLE_SUM: 3}
"""Per role of a node, VJP if it has a depth, the place of the count of `Segment` (forward, vjps, hooks, sums) that it
adds to."""
COLUMNS = 5
"""The number of these counts, with one for nodes that are not counted, the last."""

_ExportKey = tuple[tuple[int, ...], bool, bool]
"""(readers, saved, kept) as in `Export`: values of a segment with equal keys share one object."""


class PlannedTransfers(NamedTuple):
    """The segments of a plan, the locations of its kept values, and the bytes transferred between workers."""

    segments: tuple[Segment, ...]
    kept: dict[int, ValueLocation]
    crossing_bytes: int


@dataclass(slots=True)
class _SegmentDraft:
    """A segment while it is put together."""

    worker: int
    nodes: list[int]
    externals: set[int] = field(default_factory=set[int])
    imports: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    exports: list[Export] = field(default_factory=list[Export])
    pins: list[int] = field(default_factory=list[int])
    saved_pins: list[int] = field(default_factory=list[int])
    copied_pins: list[int] = field(default_factory=list[int])
    unpins: list[tuple[int, bool]] = field(default_factory=list[tuple[int, bool]])
    after: set[int] = field(default_factory=set[int])
    bytes_in: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * COLUMNS)
    seconds: float = 0.0


def plan_transfers(
    priced: PricedGraph,
    blocks: Sequence[Block],
    residency: Sequence[int],
    *,
    saved_stays: bool = False,
    limited: frozenset[int] = frozenset(),
) -> PlannedTransfers:
    """Return the blocks as segments with their imports, exports and pins; see `Cluster.saved_stays`.

    `limited` has the workers with limited host memory.
    """
    return _TransferPlanner(priced, blocks, saved_stays, limited).run(residency)


class _TransferPlanner:
    """One call of `plan_transfers`: collects reads, then decides per value, in order of value ids."""

    def __init__(
        self, priced: PricedGraph, blocks: Sequence[Block], saved_stays: bool, limited: frozenset[int]
    ) -> None:
        self.priced = priced
        self.limited = limited
        self.saved_stays = saved_stays
        self.drafts = [_SegmentDraft(block.worker, block.nodes) for block in blocks]
        self.home = [0] * len(priced.seconds)  # per node, its segment
        for segment, block in enumerate(blocks):
            for index in block.nodes:
                self.home[index] = segment
        self.readers: dict[int, set[int]] = {}  # per value, the other segments that read it
        self.residuals: set[int] = set()  # values that a vjp in another segment reads as a residual
        self.kept: dict[int, ValueLocation] = {}

    def run(self, residency: Sequence[int]) -> PlannedTransfers:
        for segment, draft in enumerate(self.drafts):
            self._read(segment, draft)
        in_store: set[int] = set()
        on_worker: set[int] = set()
        for value, where in self.priced.graph.keep:
            if self.priced.maker[value] >= 0:
                stays = where != KEEP_IN_STORE or self._maker(value) in self.limited
                (on_worker if stays else in_store).add(value)
        objects: list[dict[_ExportKey, list[int]]] = [{} for _ in self.drafts]
        for value in sorted(self.readers.keys() | in_store):
            self._decide(value, value in in_store, value in on_worker, objects)
        for segment, groups in enumerate(objects):
            for (readers, saved, kept), values in groups.items():
                self._export(segment, Export(tuple(values), readers, saved, kept))
        for value in sorted(on_worker - in_store):
            segment = self.home[self.priced.maker[value]]
            self.drafts[segment].pins.append(value)
            self.kept[value] = OnWorker(self.drafts[segment].worker, segment)
        return PlannedTransfers(tuple(map(self._segment, self.drafts)), self.kept, self._crossing_bytes(residency))

    def _maker(self, value: int) -> int:
        """Return the worker that makes a value."""
        return self.drafts[self.home[self.priced.maker[value]]].worker

    def _read(self, segment: int, draft: _SegmentDraft) -> None:
        """Collect the values that a segment reads and does not make, and count its nodes by kind."""
        nodes, maker, home, seconds = self.priced.graph.nodes, self.priced.maker, self.home, self.priced.seconds
        counts, column = draft.counts, COLUMN_OF.get
        for index in draft.nodes:
            node = nodes[index]
            counts[column(VJP if node.depth else node.role, COLUMNS - 1)] += 1
            draft.seconds += seconds[index]
            crossing = False
            for value in node.inputs:
                if value < 0:
                    continue
                source = maker[value]
                if source < 0:
                    draft.externals.add(value)
                elif home[source] != segment:
                    crossing = True
                    self.readers.setdefault(value, set()).add(segment)
            if crossing and node.depth and not self.saved_stays and isinstance(node, Vjp):
                first, last = cotangent_bounds(node)
                for value in (*node.inputs[:first], *node.inputs[last:]):
                    if value >= 0 and maker[value] >= 0 and home[maker[value]] != segment:
                        self.residuals.add(value)

    def _decide(
        self,
        value: int,
        in_store: bool,
        on_worker: bool,
        objects: list[dict[tuple[tuple[int, ...], bool, bool], list[int]]],
    ) -> None:
        """Decide how one value reaches its readers: in an object, or pinned."""
        source = self.home[self.priced.maker[value]]
        worker = self.drafts[source].worker
        readers = tuple(sorted(self.readers.get(value, ())))
        spec = self.priced.graph.specs[self.priced.spec[value]]
        saved = in_store or (is_stored(spec) if isinstance(spec, ContextSpec) else value in self.residuals)
        saved = saved and worker not in self.limited
        if in_store or any(self.drafts[reader].worker != worker for reader in readers):
            if on_worker and worker in self.limited:  # it may be spilled, so that it must not exist twice
                for reader in readers:
                    if self.drafts[reader].worker == worker:
                        self.drafts[reader].after.add(source)
                        self.drafts[reader].unpins.append((value, False))
                readers = tuple([reader for reader in readers if self.drafts[reader].worker != worker])
            objects[source].setdefault((readers, saved, in_store), []).append(value)
            return
        if not on_worker:
            self.drafts[source].pins.append(value)
            if saved:
                self.drafts[source].saved_pins.append(value)
            if can_leave(spec) and not self.saved_stays and worker not in self.limited:
                self.drafts[source].copied_pins.append(value)
        for reader in readers:
            self.drafts[reader].after.add(source)
            self.drafts[reader].unpins.append((value, not on_worker and reader == readers[-1]))
        if not on_worker:
            self.drafts[readers[-1]].after.update(readers[:-1])

    def _export(self, segment: int, export: Export) -> None:
        """Add one export to a segment, and the import to all its readers."""
        number = len(self.drafts[segment].exports)
        self.drafts[segment].exports.append(export)
        size = sum(self.priced.size[value] for value in export.values)
        for reader in export.readers:
            self.drafts[reader].imports.append((segment, number))
            self.drafts[reader].bytes_in += size
        if export.kept:
            for position, value in enumerate(export.values):
                self.kept[value] = InStore(segment, number, position)

    def _crossing_bytes(self, residency: Sequence[int]) -> int:
        """Sum the bytes that one worker makes or holds and another reads, once per reading worker."""
        total = 0
        for value, readers in self.readers.items():
            worker = self.drafts[self.home[self.priced.maker[value]]].worker
            others = {self.drafts[reader].worker for reader in readers} - {worker}
            total += self.priced.size[value] * len(others)
        pulled = {
            (value, draft.worker)
            for draft in self.drafts
            for value in draft.externals
            if residency[value] not in (-1, draft.worker)
        }
        return total + sum(self.priced.size[value] for value, _ in pulled)

    def _segment(self, draft: _SegmentDraft) -> Segment:
        forward, vjps, hooks, sums, _ = draft.counts
        return Segment(
            worker=draft.worker,
            nodes=tuple(draft.nodes),
            externals=tuple(sorted(draft.externals)),
            imports=tuple(sorted(draft.imports)),
            exports=tuple(draft.exports),
            pins=tuple(sorted(draft.pins)),
            unpins=tuple(draft.unpins),
            after=tuple(sorted(draft.after)),
            forward_nodes=forward,
            vjp_nodes=vjps,
            hook_nodes=hooks,
            sum_nodes=sums,
            bytes_in=draft.bytes_in,
            bytes_out=sum(self.priced.size[value] for export in draft.exports for value in export.values),
            predicted_seconds=draft.seconds,
            saved_pins=tuple(draft.saved_pins),
            copied_pins=tuple(draft.copied_pins),
        )


def cotangent_bounds(node: Vjp) -> tuple[int, int]:
    """Return the bounds of a vjp node's own cotangents within its inputs; all other inputs are residuals.

    Of a vjp of a vjp these are the cotangents of the outer one: those of the inner one are inputs, saved like any
    other. See `OpVjp` and `FunctionVjp` for the order of the inputs.
    """
    if isinstance(node, OpVjp):
        return len(node.inputs) - len(node.result_specs), len(node.inputs)
    arguments, outputs = node.arguments, node.results
    wanted, inputs = outputs, outputs + arguments + outputs  # outputs of what is differentiated; inputs of its vjp
    made = arguments
    for _ in range(node.depth - 1):
        wanted, inputs, made = made, made + inputs, inputs
    return 1, 1 + wanted
