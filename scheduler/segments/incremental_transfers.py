"""Incremental transfers: the segments of a large plan updated after few nodes or blocks have moved.

The result equals that of `ArrayTransferPlanner.run` on the new blocks; `replan` says what moves. A move concerns the
values that a moved node makes or reads (the *touched* ones), hence the exports of their makers and the imports of their
readers. If an export gets another number in its segment, all its readers are updated too. The number of blocks stays,
and with it the numbers by which segments refer to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from ..model.arrays import Flags
from ..model.dag import Indices
from ..model.plan import Export, OnWorker, Segment, ValueLocation
from .array_transfers import (
    ArrayTransferPlanner,
    ArrayTransfers,
    BlockArrays,
    ImportArrays,
    SegmentParts,
    distinct_pairs,
    run_entries,
)
from .transfers import PlannedTransfers


def update_transfers(
    planner: ArrayTransferPlanner,
    transfers: ArrayTransfers,
    blocks: BlockArrays,
    moved: Indices,
    residency: Sequence[int],
) -> tuple[ArrayTransferPlanner, ArrayTransfers]:
    """Return the transfer planner and the transfers of new blocks, from those of the old blocks.

    `moved` has the nodes that moved, to another block or with their block to another worker. Workers may have been
    renumbered.
    """
    change = _TransferUpdate(planner, blocks, moved)
    return change.planner, change.array_transfers(transfers, residency)


class _TransferUpdate:
    """One call of `update_transfers`."""

    def __init__(self, planner: ArrayTransferPlanner, blocks: BlockArrays, moved: Indices) -> None:
        arrays, before = planner.arrays, planner.blocks
        self.arrays, self.before, self.blocks, self.count = arrays, before, blocks, planner.count
        shifted = np.zeros(len(arrays), np.bool_)
        shifted[moved] = True
        inside = arrays.maker >= 0
        touched = np.zeros(len(arrays.spec) + 1, np.bool_)  # the last entry is what an undefined input counts as
        touched[:-1][inside] = shifted[arrays.maker[inside]]
        entry, _ = run_entries(arrays.reads[moved], arrays.reads[moved + 1] - arrays.reads[moved])
        read = arrays.read[entry]
        read = read[read >= 0]
        touched[read[inside[read]]] = True
        self.touched = touched[:-1]

        places = np.flatnonzero(touched[arrays.read])
        value, reader = arrays.read[places], blocks.home[arrays.reader[places]]
        away = blocks.home[arrays.maker[value]] != reader
        fresh = distinct_pairs(value[away], reader[away], self.count)
        old = self.touched[planner.crossing_reads[0]]
        crossing_reads = _merge_pairs(planner.crossing_reads, ~old, fresh, self.count)
        residual = planner.residual & ~self.touched
        residual |= planner.residuals(places[away])

        self.changed = np.zeros(self.count, np.bool_)
        """Blocks whose nodes or worker changed."""
        self.changed[before.home[moved]] = self.changed[blocks.home[moved]] = True
        outside = np.flatnonzero((arrays.read >= 0) & (arrays.read < len(arrays.graph.externals)))
        outside = outside[self.changed[blocks.home[arrays.reader[outside]]]]
        fresh_external = distinct_pairs(blocks.home[arrays.reader[outside]], arrays.read[outside], len(arrays.spec))
        external = _merge_pairs(planner.external, ~self.changed[planner.external[0]], fresh_external, len(arrays.spec))

        some = np.flatnonzero(self.touched)
        self.homes = self.changed.copy()
        """Blocks that make touched values, or made them before."""
        self.homes[before.home[arrays.maker[some]]] = self.homes[blocks.home[arrays.maker[some]]] = True
        self.readers = self.homes.copy()
        """Blocks whose imports, unpins or waits may have changed."""
        self.readers[planner.crossing_reads[1][old]] = self.readers[fresh[1]] = True
        self.gone = planner.crossing_reads[0][old], planner.crossing_reads[1][old]
        self.come = fresh
        self.old = planner
        self.planner = planner.changed(blocks, external, crossing_reads, residual)

    def array_transfers(self, transfers: ArrayTransfers, residency: Sequence[int]) -> ArrayTransfers:
        before = transfers.planned
        parts = self.planner.parts(self.homes)
        homes: list[int] = np.flatnonzero(self.homes).tolist()
        for home in homes:
            self._renumbered(before.segments[home].exports, parts.exports[home])
        segments = list(before.segments)
        if (self.before.worker != self.blocks.worker).any():
            workers: list[int] = self.blocks.worker.tolist()
            segments = [
                one if one.worker == worker else Segment(worker, *one[1:])
                for one, worker in zip(segments, workers, strict=True)
            ]
        for home in homes:
            segments[home] = segments[home]._replace(
                exports=parts.exports[home],
                pins=parts.pins[home],
                saved_pins=parts.saved_pins[home],
                copied_pins=parts.copied_pins[home],
                bytes_out=parts.bytes_out[home],
            )
        self._reads(transfers, segments, parts)
        self._nodes(segments)
        flow = _merge_imports(transfers.flow, self.homes, parts.flow, self.count)
        between = transfers.between + self.planner.bytes_of(*self.come) - self.old.bytes_of(*self.gone)
        size = between + self.planner.external_bytes(residency)
        return ArrayTransfers(PlannedTransfers(tuple(segments), self._kept(before.kept, parts), size), between, flow)

    def _renumbered(self, before: Sequence[Export], now: Sequence[Export]) -> None:
        """Note the readers of a block's exports whose values have changed."""
        for one, other in zip_longest(before, now):
            if one is None or other is None or one.values != other.values:
                for some in (one, other):
                    if some is not None:
                        self.readers[list(some.readers)] = True

    def _reads(self, transfers: ArrayTransfers, segments: list[Segment], parts: SegmentParts) -> None:
        """Update imports, unpins and waits of the blocks in `readers`."""
        flow, before = transfers.flow, transfers.planned.segments
        gone = self.homes[flow.source]
        lost = np.zeros(self.count, np.int64)
        np.add.at(lost, flow.reader[gone], flow.size[gone])
        home_before = self.before.home[self.arrays.maker]
        homes: list[bool] = self.homes.tolist()
        stays: dict[int, list[tuple[int, bool]]] = {}
        for reader in np.flatnonzero(self.readers).tolist():
            one = before[reader]
            imports = [pair for pair in one.imports if not homes[pair[0]]]
            stays[reader] = [pair for pair in one.unpins if not homes[home_before[pair[0]]]]
            segments[reader] = segments[reader]._replace(
                imports=tuple(sorted([*imports, *parts.imports[reader]])),
                unpins=tuple(sorted([*parts.unpins[reader], *stays[reader]])),
                bytes_in=one.bytes_in - int(lost[reader]) + parts.bytes_in[reader],
            )
        value, reader = self.planner.crossing_reads
        dropped = np.array([one for pairs in stays.values() for one, last in pairs if last], np.int64)
        first: list[int] = np.searchsorted(value, dropped).tolist()
        ends: list[int] = np.searchsorted(value, dropped, side="right").tolist()
        place = 0
        for one, pairs in stays.items():
            waits = set(parts.after[one])
            for kept, last in pairs:
                waits.add(int(home_before[kept]))
                if last:
                    waits.update(reader[first[place] : ends[place]].tolist())
                    place += 1
            waits.discard(one)
            segments[one] = segments[one]._replace(after=tuple(sorted(waits)))

    def _nodes(self, segments: list[Segment]) -> None:
        """Update the nodes and externals of the blocks in `changed`."""
        forward, vjps, hooks, sums, seconds = self.planner.columns()
        segment, external = self.planner.external
        bounds: list[int] = np.searchsorted(segment, np.arange(self.count + 1)).tolist()
        ends: list[int] = self.blocks.ends.tolist()
        for one in np.flatnonzero(self.changed).tolist():
            segments[one] = segments[one]._replace(
                nodes=tuple(self.blocks.order[ends[one] : ends[one + 1]].tolist()),
                externals=tuple(external[bounds[one] : bounds[one + 1]].tolist()),
                forward_nodes=forward[one],
                vjp_nodes=vjps[one],
                hook_nodes=hooks[one],
                sum_nodes=sums[one],
                predicted_seconds=seconds[one],
            )

    def _kept(self, before: dict[int, ValueLocation], parts: SegmentParts) -> dict[int, ValueLocation]:
        kept = {
            value: OnWorker(int(self.blocks.worker[place.segment]), place.segment)
            if isinstance(place, OnWorker)
            else place
            for value, place in before.items()
        }
        kept.update(parts.kept)
        return kept


def _merge_pairs(
    before: tuple[Indices, Indices], keep: Flags, fresh: tuple[Indices, Indices], others: int
) -> tuple[Indices, Indices]:
    """Return sorted pairs: those of `before` flagged by `keep`, and `fresh`; the second of each is below `others`."""
    one, other = before[0][keep], before[1][keep]
    place = np.searchsorted(one * others + other, fresh[0] * others + fresh[1])
    return np.insert(one, place, fresh[0]), np.insert(other, place, fresh[1])


def _merge_imports(before: ImportArrays, homes: Flags, fresh: ImportArrays, count: int) -> ImportArrays:
    """Return the imports: those of `before` not made by `homes`, and `fresh`."""
    keep = ~homes[before.source]
    reader, source = before.reader[keep], before.source[keep]
    place = np.searchsorted(reader * count + source, fresh.reader * count + fresh.source)
    return ImportArrays(
        reader=np.insert(reader, place, fresh.reader),
        source=np.insert(source, place, fresh.source),
        size=np.insert(before.size[keep], place, fresh.size),
    )
