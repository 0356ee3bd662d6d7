"""The timetable of a plan: predicted start and end of each segment, and `Plan.predicted_seconds`.

The planner predicts by it, `explain` shows it. It is computed in one pass over the segments in plan order, in which
each worker runs its own. The client sends one call after the other, and large external values with the first call that
reads them. A segment starts when its call has arrived, its worker is free and its inputs are there. An object is
transferred as a whole: readers on other workers wait for all of its values. A worker is free again when it has put its
objects into the store. Contention between workers for cores and memory is in the measured times of nodes and of that,
not in the prior. A simulation without jitter and failures ends at this time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from raygrad.proto.ir.program import INLINE_RESULT_BYTES

from ..model.costs import Costs
from ..model.plan import Cluster, Segment
from ..model.priced_graph import PricedGraph


class ScheduledSegment(NamedTuple):
    """The predicted times of a segment."""

    start: float
    end: float
    held_by: int
    """The segment whose end delays it last: one that it reads or must follow, or the one before it on its worker; -1
    for none."""


class SegmentLoads(NamedTuple):
    """Predicted seconds and bytes by current costs, in place of those noted in the segments."""

    work: Sequence[float]
    """Per segment, the seconds of its nodes."""
    size: Sequence[int]
    """Per value of the graph, its bytes."""


def segment_loads(segments: Sequence[Segment], priced: PricedGraph) -> SegmentLoads:
    """Return the loads of segments by the costs of their nodes."""
    seconds = priced.seconds
    return SegmentLoads([sum([seconds[node] for node in segment.nodes]) for segment in segments], priced.size)


def timetable(
    segments: Sequence[Segment], loads: SegmentLoads, residency: Sequence[int], costs: Costs, cluster: Cluster
) -> list[ScheduledSegment]:
    """Return the times of each segment. O(segments + values between them)."""
    hosts = [worker.host for worker in cluster.workers]
    work, size = loads
    free: dict[int, tuple[float, int]] = {}
    slots: list[ScheduledSegment] = []
    sizes = [[sum([size[value] for value in export.values]) for export in segment.exports] for segment in segments]
    sent = 0.0
    given: set[int] = set()
    for index, segment in enumerate(segments):
        worker = segment.worker
        sent += costs.submit_seconds
        for value in segment.externals:
            if residency[value] < 0 and size[value] > INLINE_RESULT_BYTES and value not in given:
                given.add(value)
                sent += size[value] / costs.give_bandwidth
        start, held_by = free.get(worker, (0.0, -1))
        if sent + costs.send_seconds > start:
            start, held_by = sent + costs.send_seconds, -1
        for source, export in segment.imports:
            home = segments[source].worker
            came = slots[source].end
            if home == worker:
                if costs.follow_seconds:  # a worker passes objects to itself through the store
                    came += costs.follow_seconds + sizes[source][export] / costs.bandwidth
            else:
                came += costs.link_seconds(hosts[home], hosts[worker], sizes[source][export])
            if came > start:
                start, held_by = came, source
        for source in segment.after:
            came = slots[source].end + costs.follow_seconds
            if came > start:
                start, held_by = came, source
        for value in segment.externals:
            home = residency[value]
            if home not in (-1, worker):
                came = costs.link_seconds(hosts[home], hosts[worker], size[value])
                if came > start:
                    start, held_by = came, -1
        end = start + costs.call_seconds + work[index]
        slots.append(ScheduledSegment(start, end, held_by))
        free[worker] = (end + sum(sizes[index]) / costs.store_bandwidth, index)
    return slots


def predict_seconds(
    segments: Sequence[Segment], loads: SegmentLoads, residency: Sequence[int], costs: Costs, cluster: Cluster
) -> float:
    """Return the predicted time from submission until the client knows that the last segment has ended."""
    slots = timetable(segments, loads, residency, costs, cluster)
    over = max([slot.end for slot in slots], default=-costs.return_seconds) + costs.return_seconds
    return max(over, len(slots) * costs.client_seconds)
