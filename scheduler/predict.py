"""How long a plan takes, as it is carried out: what `Plan.predicted_seconds` says.

Rules of this file: one walk over the segments in plan order, each worker running its own in that order. The client
sends one call after the other, large values that it gives with the first that reads them; a call starts when it has
come, its worker is free, and what it reads is there. An object travels whole: its readers on other workers wait for
all values in it. What workers take from each other by running at once (cores, memory) is in the measured times of
nodes, and in the prior not at all. A simulation without chance and failures ends at this time.
"""

from __future__ import annotations

from collections.abc import Sequence

from raygrad.proto.program import INLINE_RESULT_BYTES

from .costs import Costs
from .plan import Cluster, Segment
from .priced import Priced


def predict(
    segments: Sequence[Segment], priced: Priced, residency: Sequence[int], costs: Costs, cluster: Cluster
) -> float:
    """Return the predicted time from submission until the client knows that the last segment has ended.

    The work of a segment is that of its nodes in `priced`, whatever the segment says of it.
    """
    hosts = [worker.host for worker in cluster.workers]
    seconds, size = priced.seconds, priced.size
    free: dict[int, float] = {}
    ended: list[float] = []
    sizes = [[sum([size[value] for value in export.values]) for export in segment.exports] for segment in segments]
    sent = 0.0
    given: set[int] = set()
    for segment in segments:
        worker = segment.worker
        sent += costs.submit_seconds
        for value in segment.externals:
            if residency[value] < 0 and size[value] > INLINE_RESULT_BYTES and value not in given:
                given.add(value)
                sent += size[value] / costs.give_bandwidth
        start = max(free.get(worker, 0.0), sent + costs.send_seconds)
        for source, export in segment.imports:
            home = segments[source].worker
            if home == worker:
                came = ended[source] + costs.follow_seconds
                if costs.follow_seconds:  # where a worker hands things to itself through the store
                    came += sizes[source][export] / costs.bandwidth
            else:
                came = ended[source] + costs.link_seconds(hosts[home], hosts[worker], sizes[source][export])
            start = max(start, came)
        for source in segment.after:
            start = max(start, ended[source] + costs.follow_seconds)
        for value in segment.externals:
            home = residency[value]
            if home not in (-1, worker):
                start = max(start, costs.link_seconds(hosts[home], hosts[worker], size[value]))
        free[worker] = start + costs.call_seconds + sum([seconds[index] for index in segment.nodes])
        ended.append(free[worker])
    return max(ended, default=-costs.return_seconds) + costs.return_seconds
