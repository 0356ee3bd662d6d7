"""How long a plan takes, as it is carried out: what `Plan.predicted_seconds` says.

Rules of this file: one walk over the segments in plan order, each worker running its own in that order. An object
travels whole: its readers on other workers wait for all values in it. A simulation without chance and failures ends
at this time.
"""

from __future__ import annotations

from collections.abc import Sequence

from .costs import Costs
from .plan import Segment
from .priced import Priced


def predict(segments: Sequence[Segment], priced: Priced, residency: Sequence[int], costs: Costs) -> float:
    """Return the predicted time from submission to the end of the last segment."""
    free: dict[int, float] = {}
    ended: list[float] = []
    transfers = [
        [costs.transfer_seconds(sum([priced.size[value] for value in export.values])) for export in segment.exports]
        for segment in segments
    ]
    for segment in segments:
        worker = segment.worker
        start = free.get(worker, 0.0)
        for source, export in segment.imports:
            if segments[source].worker != worker:
                start = max(start, ended[source] + transfers[source][export])
        for value in segment.externals:
            if residency[value] not in (-1, worker):
                start = max(start, priced.transfer[value])
        free[worker] = start + costs.call_seconds + segment.predicted_seconds
        ended.append(free[worker])
    return max(ended, default=0.0)
