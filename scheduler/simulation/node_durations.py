"""The durations of a submission's nodes in a simulation, and what its segments take by them, whatever plan they are of.

`simulate` draws them; the virtual event loop asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.costs import Costs
from ..model.plan import Plan, Segment
from ..model.priced_graph import PricedGraph
from ..planning.planner import Planned


class NodeDurations:
    """What the segments of one submission take.

    Args:
        planned: the plan that is submitted.
        costs: those that predict.
        factors: per segment of the plan, by what its nodes take longer than predicted.
        nodes: per node, the seconds that it takes; None for what is predicted, times the factor of its segment.
    """

    def __init__(
        self, planned: Planned, costs: Costs, factors: Sequence[float], nodes: Sequence[float] | None = None
    ) -> None:
        self._planned = planned
        self._costs = costs
        self._factors = factors
        self._nodes = nodes

    def seconds(self, segment: Segment, index: int) -> float:
        """Return what a segment takes: one of the submitted plan, or of one that has continued it."""
        if self._nodes is None:
            if index < len(self._factors):
                return segment.predicted_seconds * self._factors[index]
            self._nodes = self._of_nodes(self._planned.plan)
        nodes = self._nodes
        return sum([nodes[node] for node in segment.nodes])

    def _of_nodes(self, plan: Plan) -> list[float]:
        seconds = list(PricedGraph(self._planned.graph, self._costs).seconds)
        for factor, segment in zip(self._factors, plan.segments, strict=True):
            for node in segment.nodes:
                seconds[node] *= factor
        return seconds
