"""Headroom: per segment, the bytes that values of earlier runs may occupy on its worker, if it does not read them.

It is what a worker's limit leaves beside the plan's peak. The planner puts it into `Plan.headroom`, calls carry it
(`Call.headroom`), and workers spill what exceeds it, since no plan knows all values that the client still holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.memory_spaces import MemorySpace
from ..model.plan import Segment
from ..model.priced_graph import PricedGraph
from .memory_ledger import left_on_disk


def segment_headroom(
    segments: Sequence[Segment],
    priced: PricedGraph,
    node_worker: Sequence[int],
    residency: Sequence[int],
    spaces: Sequence[MemorySpace],
    peaks: Sequence[tuple[str, tuple[int, ...]]],
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return `Plan.headroom`: per memory space, the bytes per segment. `peaks` are those of the plan, one per space."""
    on_disk = left_on_disk(priced, node_worker, residency)
    found: list[tuple[str, tuple[int, ...]]] = []
    for space, (_, peak) in zip(spaces, peaks, strict=True):
        size = space.within(priced).size
        before = [0] * len(space.limits)
        for value, home in enumerate(residency):
            if home >= 0 and value not in on_disk:
                before[home] += size[value]
        per_segment: list[int] = []
        for segment in segments:
            worker, limit = segment.worker, space.limits[segment.worker]
            if limit is None:
                per_segment.append(-1)
                continue
            reads = [one for one in segment.externals if residency[one] == worker and one not in on_disk]
            per_segment.append(max(limit - peak[worker] + before[worker] - sum([size[one] for one in reads]), 0))
        found.append((space.device, tuple(per_segment)))
    return tuple(found)
