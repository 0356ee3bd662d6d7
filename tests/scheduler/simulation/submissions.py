"""A strategy for what is simulated: a few planned graphs on one cluster, of which later ones read earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, OnWorker
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.simulation.scenario import VirtualSubmission


@st.composite
def several(
    draw: Any,
    graphs: Any,
    costs: Sequence[Costs],
    *,
    workers: st.SearchStrategy[int],
    pinned: st.SearchStrategy[bool],
    least: int = 0,
    pause: float,
) -> tuple[list[VirtualSubmission], Cluster, Costs]:
    """One to three planned graphs on one cluster; later ones read kept values of earlier ones.

    Args:
        draw: given by Hypothesis.
        graphs: the strategy for graphs.
        costs: the cost models to choose from.
        workers: how many workers there are.
        pinned: per graph, whether some of its nodes are pinned.
        least: the fewest nodes of a graph.
        pause: the seconds that may pass between two submissions; or none do.
    """
    count, chosen = draw(workers), draw(st.sampled_from(costs))
    cluster = Cluster.of(count)
    made: list[VirtualSubmission] = []
    for _ in range(draw(st.integers(1, 3))):
        graph = draw(graphs(pins=count if draw(pinned) else 0, least=least))
        kept = [
            (run, value, place)
            for run, one in enumerate(made)
            for value, place in sorted(one.planned.plan.kept.items())
        ]
        sources, residency = [], []
        for _ in graph.externals:
            source = draw(st.sampled_from([None, *kept]))
            sources.append(source and source[:2])
            place = source[2] if source else None
            residency.append(place.worker if isinstance(place, OnWorker) else -1)
        plan = make_plan(graph, tuple(residency), chosen, cluster, 0, b"")
        at = (made[-1].at if made else 0.0) + draw(st.sampled_from([0.0, pause]))
        made.append(VirtualSubmission(planned=plan, at=at, sources=tuple(sources)))
    return made, cluster, chosen
