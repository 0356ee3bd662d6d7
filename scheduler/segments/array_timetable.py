"""The timetable of a large plan from arrays: when each segment is ready, starts and ends.

It gives the times that `timetable` gives for the same segments; `replan` needs them all. Imports are computed for many
segments at once, so that the loop over segments only adds and compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from raygrad.proto.ir.program import INLINE_RESULT_BYTES

from ..model.costs import Costs
from ..model.dag import Floats, Indices
from ..model.plan import Cluster, Segment
from .array_transfers import ArrayTransferPlanner, ImportArrays

FEW = 100
"""Up to this many objects are handled one by one rather than as arrays."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SegmentTimes:
    """Times of all segments, by index."""

    ready: Floats
    """All inputs have arrived and all segments that it must follow have ended; its worker may still be busy."""
    start: Floats
    end: Floats
    seconds: float
    """Time from submission until the client knows that the last segment has ended."""


def segment_times(
    segments: Sequence[Segment],
    crosser: ArrayTransferPlanner,
    flow: ImportArrays,
    residency: Sequence[int],
    costs: Costs,
    cluster: Cluster,
) -> SegmentTimes:
    """Return the times of each segment."""
    worker = crosser.blocks.worker
    home = np.append(np.array(residency, np.int64), -1)
    given = _client_bytes_seconds(crosser, home, costs)
    pulled: list[float] = _external_arrivals(crosser, home, costs, cluster).tolist()
    stored: list[float] = (np.array([one.bytes_out for one in segments]) / costs.store_bandwidth).tolist()
    submit, send, call, follow = costs.submit_seconds, costs.send_seconds, costs.call_seconds, costs.follow_seconds
    free = [0.0] * len(cluster.workers)
    imports = _ImportArrivals(
        flow, arrival_seconds(flow.source, flow.reader, flow.size, worker, costs, cluster), len(segments)
    )
    came: list[float] = []
    began: list[float] = []
    ended: list[float] = []
    work: list[float] = np.bincount(
        crosser.blocks.home[crosser.blocks.order],
        crosser.arrays.seconds[crosser.blocks.order],
        len(segments),
    ).tolist()
    sent = 0.0
    end_of_known, known = 0, imports.came
    homes: list[int] = worker.tolist()
    for index, one in enumerate(homes):
        sent += submit
        for seconds in given.get(index, ()):
            sent += seconds
        ready = sent + send
        if index >= end_of_known:
            end_of_known = imports.follow(index, ended)
        if known[index] > ready:
            ready = known[index]
        for before in segments[index].after:
            if ended[before] + follow > ready:
                ready = ended[before] + follow
        if pulled[index] > ready:
            ready = pulled[index]
        start = ready if ready > free[one] else free[one]
        end = start + call + work[index]
        free[one] = end + stored[index]
        came.append(ready)
        began.append(start)
        ended.append(end)
    seconds = max(ended, default=-costs.return_seconds) + costs.return_seconds
    return SegmentTimes(ready=np.array(came), start=np.array(began), end=np.array(ended), seconds=seconds)


class _ImportArrivals:
    """Arrival times of imports, computed at once for as many segments as do not read from each other."""

    def __init__(self, flow: ImportArrays, moved: Floats, count: int) -> None:
        self._source, self._moved = flow.source, moved
        self._ends = np.searchsorted(flow.reader, np.arange(count + 1))
        self._reads = np.diff(self._ends) > 0
        newest = np.full(count, -1)
        if len(moved):
            newest[self._reads] = np.maximum.reduceat(flow.source, self._ends[:-1][self._reads])
        self._newest: list[int] = newest.tolist()
        """Per segment, the last segment that it imports from."""
        self._ended = np.zeros(count)
        self._known = 0
        """The number of segments whose end is in `_ended`."""
        self.came = [0.0] * count
        """Per segment, the arrival of its last import, as far as computed."""

    def follow(self, first: int, ended: list[float]) -> int:
        """Compute the arrivals for as many segments from `first` on as possible; return the first one left.

        `ended` has the ends of all segments before `first`.
        """
        last, newest = first, self._newest
        while last < len(newest) and newest[last] < first:
            last += 1
        begin, end = int(self._ends[first]), int(self._ends[last])
        if begin == end:
            return last
        if end - begin <= FEW:
            moved: list[float] = self._moved[begin:end].tolist()
            source: list[int] = self._source[begin:end].tolist()
            at = 0
            lengths = np.diff(self._ends[first : last + 1]).tolist()
            for index, length in enumerate(lengths, first):
                for place in range(at, at + length):
                    arrival = ended[source[place]] + moved[place]
                    if arrival > self.came[index]:
                        self.came[index] = arrival
                at += length
            return last
        self._ended[self._known : first] = ended[self._known : first]
        self._known = first
        arrival = self._ended[self._source[begin:end]] + self._moved[begin:end]
        some = np.flatnonzero(self._reads[first:last])
        latest = np.maximum.reduceat(arrival, self._ends[first:last][some] - begin)
        for index, one in zip(some.tolist(), latest.tolist(), strict=True):
            self.came[first + index] = one
        return last


def arrival_seconds(
    source: Indices, reader: Indices, size: Indices, worker: Indices, costs: Costs, cluster: Cluster
) -> Floats:
    """Return the seconds from the end of each source to the arrival of its object at the reader."""
    one, other = worker[source], worker[reader]
    moved = link_seconds(one, other, size, costs, cluster)
    same = one == other
    if costs.follow_seconds:  # a worker passes objects to itself through the store
        return np.where(same, costs.follow_seconds + size / costs.bandwidth, moved)
    moved[same] = 0.0
    return moved


def link_seconds(one: Indices, other: Indices, size: Indices, costs: Costs, cluster: Cluster) -> Floats:
    """Return `Costs.link_seconds` between workers."""
    moved = costs.hop_seconds + size / costs.bandwidth
    if costs.links:
        names = sorted({worker.host for worker in cluster.workers})
        host = np.array([names.index(worker.host) for worker in cluster.workers], np.int64)
        pair = host[one] * len(names) + host[other]
        for (first, second), link in costs.links.items():
            if first in names and second in names:
                some = pair == names.index(first) * len(names) + names.index(second)
                moved[some] = link.hop_seconds + size[some] / link.bandwidth
    return moved


def _client_bytes_seconds(crosser: ArrayTransferPlanner, home: Indices, costs: Costs) -> dict[int, list[float]]:
    """Return, per segment that the client sends large values with, the seconds of each."""
    segment, external = crosser.external
    large = (home[external] < 0) & (crosser.arrays.size[external] > INLINE_RESULT_BYTES)
    value, first = np.unique(external[large], return_index=True)  # external is sorted by segment
    sort = np.lexsort((value, segment[large][first]))
    given: dict[int, list[float]] = {}
    seconds = crosser.arrays.size[value[sort]] / costs.give_bandwidth
    for one, took in zip(segment[large][first][sort].tolist(), seconds.tolist(), strict=True):
        given.setdefault(one, []).append(took)
    return given


def _external_arrivals(crosser: ArrayTransferPlanner, home: Indices, costs: Costs, cluster: Cluster) -> Floats:
    """Return, per segment, the arrival of the last external that another worker holds."""
    segment, external = crosser.external
    worker = crosser.blocks.worker
    away = (home[external] >= 0) & (home[external] != worker[segment])
    segment, external = segment[away], external[away]
    came = link_seconds(home[external], worker[segment], crosser.arrays.size[external], costs, cluster)
    found = np.zeros(crosser.count)
    np.maximum.at(found, segment, came)
    return found
