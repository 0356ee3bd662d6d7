"""Transfers of large plans from arrays: how values get from the segments that make them to the segments that read them.

It gives the segments that `transfers` gives, by the rules in the head of that file, with sorting in place of a loop
over values. Python objects are made once per segment and per exported object. `clustered_planner` calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from raygrad.proto.ir.graph import KEEP_IN_STORE
from raygrad.proto.ir.nodes import VJP, Vjp
from raygrad.proto.ir.specs import ContextSpec, is_stored

from ..model.arrays import Flags, GraphArrays, as_tuples, number_rows, offsets
from ..model.dag import Indices
from ..model.plan import Export, InStore, OnWorker, Segment, ValueLocation
from .transfers import COLUMN_OF, COLUMNS, PlannedTransfers, cotangent_bounds


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class BlockArrays:
    """The nodes of a graph in the order of a plan, in blocks."""

    order: Indices
    """All nodes in the order in which they run, block by block."""
    ends: Indices
    """(blocks + 1,) `order[ends[i]:ends[i + 1]]` are the nodes of block i."""
    home: Indices
    """Per node, its block."""
    worker: Indices
    """Per block."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ImportArrays:
    """The imports of all segments as arrays: sorted by segment, in the order of `Segment.imports`."""

    reader: Indices
    """The segment that imports."""
    source: Indices
    """The segment that makes the object."""
    size: Indices
    """Bytes of the object."""


class ArrayTransfers(NamedTuple):
    """The segments of a plan, with their imports as arrays."""

    planned: PlannedTransfers
    between: int
    """The part of `planned.crossing_bytes` for values that segments make."""
    flow: ImportArrays


class SegmentParts(NamedTuple):
    """The transfers of the values that some blocks make, by segment."""

    exports: list[tuple[Export, ...]]
    imports: list[tuple[tuple[int, int], ...]]
    pins: list[tuple[int, ...]]
    saved_pins: list[tuple[int, ...]]
    copied_pins: list[tuple[int, ...]]
    unpins: list[tuple[tuple[int, bool], ...]]
    after: list[tuple[int, ...]]
    bytes_in: list[int]
    bytes_out: list[int]
    kept: dict[int, ValueLocation]
    flow: ImportArrays


class ArrayTransferPlanner:
    """Plans the transfers between blocks: `run` decides how each value gets to its readers."""

    def __init__(self, arrays: GraphArrays, blocks: BlockArrays, *, saved_stays: bool = False) -> None:
        self.arrays = arrays
        self.saved_stays = saved_stays
        self.blocks = blocks
        self.count = len(blocks.worker)
        present = np.flatnonzero(arrays.read >= 0)
        value, segment = arrays.read[present], blocks.home[arrays.reader[present]]
        maker = arrays.maker[value]
        outside = maker < 0
        self.external = distinct_pairs(segment[outside], value[outside], len(arrays.spec))  # (segment, value), sorted
        away = ~outside
        away[away] = blocks.home[maker[away]] != segment[away]
        self.crossing_reads = distinct_pairs(value[away], segment[away], self.count)  # (value, reader), sorted
        self.residual = self.residuals(present[away])

    def residuals(self, places: Indices) -> Flags:
        """Return, per value, whether a vjp in another block reads it as a residual; `places` are the entries of
        `GraphArrays.read` that another block makes."""
        arrays = self.arrays
        found = np.zeros(len(arrays.spec), np.bool_)
        if self.saved_stays:
            return found
        vjp = np.array([node.depth > 0 for node, _, _ in arrays.priced.classes.classes], np.bool_)
        places = places[vjp[arrays.class_of[arrays.reader[places]]]]
        readers = arrays.reader[places]
        nodes, which = np.unique(readers, return_inverse=True)
        indices: list[int] = nodes.tolist()
        vjps = [arrays.graph.nodes[index] for index in indices]
        bounds = np.array([cotangent_bounds(node) for node in vjps if isinstance(node, Vjp)], np.int64).reshape(-1, 2)
        place = places - arrays.reads[readers]
        found[arrays.read[places[(place < bounds[which, 0]) | (place >= bounds[which, 1])]]] = True
        return found

    def changed(
        self,
        blocks: BlockArrays,
        external: tuple[Indices, Indices],
        crossing_reads: tuple[Indices, Indices],
        residual: Flags,
    ) -> ArrayTransferPlanner:
        """Return the planner of other blocks, of equal number, whose reads and residuals are known."""
        other = copy(self)
        other.blocks, other.external, other.crossing_reads, other.residual = blocks, external, crossing_reads, residual
        return other

    def run(self, residency: Sequence[int]) -> ArrayTransfers:
        """Return the segments."""
        parts = _TransferPass(self, None).parts()
        columns = self.columns()
        segments = map(
            Segment,
            self.blocks.worker.tolist(),
            as_tuples(self.blocks.order.tolist(), self.blocks.ends.tolist()),
            self.externals(),
            parts.imports,
            parts.exports,
            parts.pins,
            parts.unpins,
            parts.after,
            *columns[:4],
            parts.bytes_in,
            parts.bytes_out,
            columns[4],
            parts.saved_pins,
            parts.copied_pins,
        )
        between = self.bytes_of(*self.crossing_reads)
        size = between + self.external_bytes(residency)
        return ArrayTransfers(PlannedTransfers(tuple(segments), parts.kept, size), between, parts.flow)

    def parts(self, homes: Flags) -> SegmentParts:
        """Return the transfers of the values that the blocks flagged in `homes` make."""
        return _TransferPass(self, homes).parts()

    def externals(self) -> list[tuple[int, ...]]:
        """Return, per block, the externals that it reads."""
        segment, external = self.external
        return as_tuples(external.tolist(), np.searchsorted(segment, np.arange(self.count + 1)).tolist())

    def columns(self) -> tuple[list[int], list[int], list[int], list[int], list[float]]:
        """Return, per block, how many nodes it has: forward, vjps, hooks, sums; and their seconds."""
        arrays, blocks, count = self.arrays, self.blocks, self.count
        nodes = [node for node, _, _ in arrays.priced.classes.classes]
        column = np.array([COLUMN_OF.get(VJP if node.depth else node.role, COLUMNS - 1) for node in nodes], np.int64)
        counts = np.bincount(blocks.home * COLUMNS + column[arrays.class_of], minlength=count * COLUMNS)
        forward, vjps, hooks, sums, _ = counts.reshape(count, COLUMNS).T.tolist()
        return (
            forward,
            vjps,
            hooks,
            sums,
            np.bincount(blocks.home[blocks.order], arrays.seconds[blocks.order], count).tolist(),
        )

    def bytes_of(self, value: Indices, reader: Indices) -> int:
        """Sum the bytes of values that one worker makes and another reads, once per reading worker."""
        worker = self.blocks.worker
        moved = worker[reader] != worker[self.blocks.home[self.arrays.maker[value]]]
        value, _ = distinct_pairs(value[moved], worker[reader[moved]], int(worker.max(initial=0)) + 1)
        return int(self.arrays.size[value].sum())

    def external_bytes(self, residency: Sequence[int]) -> int:
        """Sum the bytes of externals that one worker holds and another reads, once per reading worker."""
        worker = self.blocks.worker
        segment, external = self.external
        held = np.append(np.array(residency, np.int64), -1)[external]
        pulled = (held >= 0) & (held != worker[segment])
        value, _ = distinct_pairs(external[pulled], worker[segment[pulled]], int(worker.max(initial=0)) + 1)
        return int(self.arrays.size[value].sum())


class _TransferPass:
    """One call of `ArrayTransferPlanner.run` or `ArrayTransferPlanner.parts`."""

    def __init__(self, planner: ArrayTransferPlanner, homes: Flags | None) -> None:
        self.arrays, self.blocks, self.count = planner.arrays, planner.blocks, planner.count
        self.residual, self.saved_stays = planner.residual, planner.saved_stays
        self.worker = planner.blocks.worker
        self.homes = homes
        self.reads = planner.crossing_reads
        if homes is not None:
            value, reader = self.reads
            some = homes[self.blocks.home[self.arrays.maker[value]]]
            self.reads = value[some], reader[some]
        self.bytes_in = np.zeros(self.count, np.int64)
        self.bytes_out = np.zeros(self.count, np.int64)
        self.kept: dict[int, ValueLocation] = {}

    def parts(self) -> SegmentParts:
        arrays, blocks = self.arrays, self.blocks
        values = len(arrays.spec)
        in_store, on_worker = np.zeros(values, np.bool_), np.zeros(values, np.bool_)
        for value, where in arrays.graph.keep:
            maker = arrays.maker[value]
            if maker >= 0 and (self.homes is None or self.homes[blocks.home[maker]]):
                (in_store if where == KEEP_IN_STORE else on_worker)[value] = True
        read, reader = self.reads
        decide = in_store.copy()
        decide[read] = True
        value = np.flatnonzero(decide)
        ends = np.searchsorted(read, np.append(value, values))
        home = blocks.home[arrays.maker[value]]
        elsewhere = self.worker[reader] != self.worker[blocks.home[arrays.maker[read]]]
        remote = np.diff(offsets(elsewhere.astype(np.int64))[ends]) > 0
        specs, spec = arrays.graph.specs, arrays.spec[value]
        context = np.array([isinstance(spec, ContextSpec) for spec in specs], np.bool_)[spec]
        travels = np.array([is_stored(spec) for spec in specs], np.bool_)[spec]
        saved = in_store[value] | np.where(context, travels, self.residual[value])
        out = in_store[value] | remote
        inner = ~out & ~on_worker[value]
        copied = (travels | ~context) & inner & (not self.saved_stays)
        exports, imports, flow = self._exports(value[out], home[out], saved[out], in_store[value[out]], ends[:-1][out])
        pins, unpins, after = self._pins(value[~out], on_worker)
        pinned = np.flatnonzero(on_worker & ~in_store)
        homes = blocks.home[arrays.maker[pinned]]
        for one, segment, worker in zip(pinned.tolist(), homes.tolist(), self.worker[homes].tolist(), strict=True):
            self.kept[one] = OnWorker(worker, segment)
        segment, held = np.append(pins[0], homes), np.append(pins[1], pinned)
        sort = np.lexsort((held, segment))
        return SegmentParts(
            exports,
            imports,
            self._by_segment(held[sort], segment[sort]),
            self._of_homes(value[saved & inner], home[saved & inner]),
            self._of_homes(value[copied], home[copied]),
            unpins,
            after,
            self.bytes_in.tolist(),
            self.bytes_out.tolist(),
            self.kept,
            flow,
        )

    def _of_homes(self, value: Indices, home: Indices) -> list[tuple[int, ...]]:
        """Return the values of each segment."""
        sort = np.argsort(home, kind="stable")
        return self._by_segment(value[sort], home[sort])

    def _by_segment(self, value: Indices, segment: Indices) -> list[tuple[int, ...]]:
        """Return the values of each segment; `segment` is ascending."""
        return as_tuples(value.tolist(), np.searchsorted(segment, np.arange(self.count + 1)).tolist())

    def _exports(
        self, value: Indices, home: Indices, saved: Flags, kept: Flags, begin: Indices
    ) -> tuple[list[tuple[Export, ...]], list[tuple[tuple[int, int], ...]], ImportArrays]:
        """Return the exports of each segment and its imports, the imports as arrays, too.

        Values are ascending; `begin` has the place of each value's first reader among all reads.
        """
        read, reader = self.reads
        length = np.searchsorted(read, value, side="right") - begin
        group = number_rows(
            home * 4 + saved * 2 + kept, length, lambda some, place: reader[begin[some] + place], self.count
        )
        objects = int(group.max(initial=-1)) + 1
        leader = np.full(objects, len(value))
        leader[group[::-1]] = np.arange(len(value))[::-1]  # the last one written is the first value of the object
        sort = np.lexsort((leader, home[leader]))  # in a segment, objects by their first value
        place = np.empty(objects, np.int64)
        place[sort] = np.arange(objects)
        group, leader = place[group], leader[sort]
        source = home[leader]
        ends = np.searchsorted(source, np.arange(self.count + 1))
        number = np.arange(objects) - ends[source]
        members = np.argsort(group, kind="stable")
        held = as_tuples(value[members].tolist(), offsets(np.bincount(group, minlength=objects)).tolist())
        entry, of = run_entries(begin[leader], length[leader])
        readers = as_tuples(reader[entry].tolist(), offsets(length[leader]).tolist())
        made = list(map(Export, held, readers, saved[leader].tolist(), kept[leader].tolist()))
        for one in np.flatnonzero(kept[leader]).tolist():
            for position, each in enumerate(held[one]):
                self.kept[each] = InStore(int(source[one]), int(number[one]), position)
        size = np.zeros(objects, np.int64)
        np.add.at(size, group, self.arrays.size[value])
        np.add.at(self.bytes_out, source, size)
        np.add.at(self.bytes_in, reader[entry], size[of])
        sort = np.lexsort((of, reader[entry]))
        of = of[sort]
        flow = ImportArrays(reader=reader[entry][sort], source=source[of], size=size[of])
        found = list(zip(flow.source.tolist(), number[of].tolist(), strict=True))
        reads = np.searchsorted(flow.reader, np.arange(self.count + 1))
        return as_tuples(made, ends.tolist()), as_tuples(found, reads.tolist()), flow

    def _pins(
        self, value: Indices, on_worker: Flags
    ) -> tuple[tuple[Indices, Indices], list[tuple[tuple[int, bool], ...]], list[tuple[int, ...]]]:
        """Return the pins as (segment, value), and, per segment, the pinned values that it reads and the segments that
        it has to wait for."""
        read, reader = self.reads
        some = np.zeros(len(self.arrays.spec), np.bool_)
        some[value] = True
        some = some[read]
        read, reader = read[some], reader[some]
        free = ~on_worker[value]
        ends = np.searchsorted(read, value, side="right")
        last = np.zeros(len(read), np.bool_)
        last[ends[free] - 1] = True
        home = self.blocks.home[self.arrays.maker[read]]
        earlier = ~on_worker[read] & ~last  # readers that the last one, which drops the pin, has to wait for
        dropper = reader[ends - 1][np.searchsorted(value, read[earlier])]
        waits, waited = distinct_pairs(np.append(reader, dropper), np.append(home, reader[earlier]), self.count)
        sort = np.lexsort((read, reader))
        reads = np.searchsorted(reader[sort], np.arange(self.count + 1)).tolist()
        unpins = as_tuples(list(zip(read[sort].tolist(), last[sort].tolist(), strict=True)), reads)
        after = as_tuples(waited.tolist(), np.searchsorted(waits, np.arange(self.count + 1)).tolist())
        maker = self.blocks.home[self.arrays.maker[value]]
        return (maker[free], value[free]), unpins, after


def distinct_pairs(one: Indices, other: Indices, others: int) -> tuple[Indices, Indices]:
    """Return each pair once, sorted; `other` is below `others`."""
    key = np.sort(one * others + other)
    key = key[np.flatnonzero(np.diff(key, prepend=-1))]
    return key // max(others, 1), key % max(others, 1)


def run_entries(begin: Indices, length: Indices) -> tuple[Indices, Indices]:
    """Return the places `begin[i]`, `begin[i] + 1`, ... of every run, and the run that each belongs to."""
    run = np.repeat(np.arange(len(length)), length)
    return begin[run] + np.arange(len(run)) - offsets(length)[run], run
