"""Whether a plan is worth giving up for a better one, once runs have shown what things cost.

Rules of this file: pure; a plan is looked at again between submissions only, when it is submitted for the second,
third, fifth, ninth, ... time, so that what looking costs is soon spread thin. A plan stays until its runs have been
measured twice, and then unless another is predicted, by costs that have settled, to be shorter by more than `GAIN`;
each change asks for more than the one before, so that plans which are about as good do not take turns. Results do not
depend on it: any plan gives the same bits (H12).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from raygrad.proto.graph import Graph

from .costs import Costs
from .kinds import kinds_of
from .measured import MeasuredCosts
from .plan import Cluster, Plan
from .predict import predict
from .priced import Priced, price

GAIN: Final = 0.10
"""The part of a plan's time that another has to save: as much as predictions are off at their best."""


def look_again(uses: int) -> bool:
    """Tell whether a plan is to be looked at again when it is submitted for this time; the first time is 1."""
    return uses > 1 and (uses - 1) & (uses - 2) == 0


def predicted_anew(
    plan: Plan, priced: Priced, residency: tuple[int, ...], measured: MeasuredCosts, cluster: Cluster
) -> Plan:
    """Return the plan with its predictions by what is known now; all else, its hash too, stays.

    Of a plan that has run, it is known how long it takes; its parts say what others would take beside it.
    """
    segments = tuple(
        [replace(one, predicted_seconds=sum([priced.seconds[index] for index in one.nodes])) for one in plan.segments]
    )
    seconds = predict(segments, priced, residency, measured.costs(), cluster)
    span = measured.span_of(plan)
    if span.count:
        measured.ran(span.seconds, seconds)
    return replace(plan, segments=segments, predicted_seconds=span.seconds if span.count else seconds * measured.pace)


def least_seconds(priced: Priced, workers: int) -> float:
    """Return a time that no plan can fall below: all work divided evenly, or the longest way through the graph."""
    end = list(priced.seconds)
    maker = priced.maker
    for index, node in enumerate(priced.graph.nodes):
        latest = 0.0
        for value in node.inputs:
            if value >= 0 and maker[value] >= 0 and end[maker[value]] > latest:
                latest = end[maker[value]]
        end[index] += latest
    return max(max(end, default=0.0), sum(priced.seconds) / workers)


def refine(
    graph: Graph,
    plan: Plan,
    residency: tuple[int, ...],
    measured: MeasuredCosts,
    cluster: Cluster,
    changes: int,
    make: Callable[[Costs], Plan],
) -> tuple[Plan, bool]:
    """Return the plan to go on with, predicted by what is known now, and whether it is another one.

    `changes` says how often the plan of this graph was changed before; `make` makes the plan that costs ask for.
    """
    costs = measured.costs()
    priced = price(graph, costs)
    now = predicted_anew(plan, priced, residency, measured, cluster)
    wanted = now.predicted_seconds * (1.0 - GAIN) ** (changes + 1)
    if (
        len(cluster.workers) < 2
        or measured.span_of(plan).count < 2
        or least_seconds(priced, len(cluster.workers)) >= wanted
    ):
        return now, False
    kinds = kinds_of(graph, measured.prior)
    taken: dict[str, float] = {}
    for one, seconds in zip(kinds.node, priced.seconds, strict=True):
        taken[kinds.names[one]] = taken.get(kinds.names[one], 0.0) + seconds
    if not measured.settled(taken):
        return now, False
    other = predicted_anew(make(costs), priced, residency, measured, cluster)
    if other.segments == now.segments or other.predicted_seconds >= wanted:
        return now, False
    return other, True
