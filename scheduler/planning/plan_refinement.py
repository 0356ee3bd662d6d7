"""Plan refinement: the decision whether a cached plan is replaced, after runs have measured what things cost.

`Planner.reconsider` calls it between submissions: the second, third, fifth, ninth, ... of a plan, so that the effort is
small. The plan's time is predicted again from what its runs have shown (`repredict`). A new plan is made only if it
could be taken: runs were measured twice, costs have settled, they have shifted by `MIN_SHIFT` since plans were last
compared, and no lower bound excludes a gain of `MIN_GAIN`. It is taken if its predicted gain is larger than that; each
change for a graph requires a larger gain than the one before, so that equally good plans do not alternate. Any plan
gives the same bits (H12).

A plan that went by guesses (of user Functions that had not run with such arguments) is reviewed as soon as it has run,
before its second submission: guesses are wrong by any factor, and one measurement is better than none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from raygrad.proto.ir.graph import Graph

from ..model.arrays import graph_arrays
from ..model.cost_classes import PlanCostClasses
from ..model.costs import Costs
from ..model.critical_path import lower_bound
from ..model.dag import Platform
from ..model.measured_costs import MeasuredCosts
from ..model.plan import Cluster, Plan
from ..model.priced_graph import PricedGraph
from ..segments.timetable import SegmentLoads, predict_seconds, segment_loads

MIN_GAIN: Final = 0.05
"""The part of a plan's time that another has to save. Predictions are off by more, but those of two plans for one graph
in the same direction; a tenth would leave one of two workers idle for a fifth of the time."""

MIN_SHIFT: Final = MIN_GAIN
"""The part of a plan's time that has to go to something else than it did (one kind of node, calls, hops) before plans
are compared again: as much is to be gained only where as much has moved. That all has become slower moves nothing."""


def is_due(uses: int) -> bool:
    """Return whether a plan is due for review at this submission; the first one is number 1."""
    return uses > 1 and (uses - 1) & (uses - 2) == 0


EARLY_SECONDS: Final = 20e-6
"""The gain per node from which on a plan is replaced before its second submission, which waits for the new plan: a
tenth of the time that planning a node takes, since a plan is used many times."""


def was_guess(counted: PlanCostClasses, compared: Costs, now: Costs) -> bool:
    """Return whether a plan went by guesses for a part of its time that counts, and these are measured now."""
    return counted.guessed_share(compared, now) > MIN_SHIFT


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """The result of the review of a plan."""

    plan: Plan | None = None
    """The plan that replaces it, if any."""
    compared: Costs | None = None
    """The costs by which plans were compared, if they were: for the next review."""


def repredict(graph: Graph, plan: Plan, residency: tuple[int, ...], measured: MeasuredCosts, cluster: Cluster) -> Plan:
    """Return the plan with its predictions by what is known now; all else, its hash too, stays.

    Of a plan that has run, it is known how long it takes; its parts say what others would take beside it.
    """
    costs = measured.costs()
    counted, priced = measured.counted(plan), PricedGraph(graph, costs)
    if counted is None:
        loads = segment_loads(plan.segments, priced)
    else:
        loads = SegmentLoads(counted.work(costs), priced.size)
    segments = tuple(
        [one._replace(predicted_seconds=work) for one, work in zip(plan.segments, loads.work, strict=True)]
    )
    seconds = predict_seconds(segments, loads, residency, costs, cluster)
    span = measured.span_of(plan)
    if span.count > 1:
        measured.ran(span.seconds, seconds)
        seconds = span.seconds
    else:
        seconds *= measured.pace
        if span.count:  # a first run is slow, and parts know nothing of each other: one is too much, one too little
            seconds = 0.5 * (span.seconds + seconds)
    return replace(plan, segments=segments, predicted_seconds=seconds)


def cost_shift(plan: Plan, counted: PlanCostClasses, before: Costs, now: Costs) -> float:
    """Return the part of a plan's time that has shifted to other causes between two sets of costs."""
    one, other = (_cost_shares(plan, counted, costs) for costs in (before, now))
    return 0.5 * sum(abs(one[name] - other[name]) for name in one)


def _cost_shares(plan: Plan, counted: PlanCostClasses, costs: Costs) -> Mapping[str, float]:
    """Return which part of the time goes where. Another plan may have calls and hops where this one has none, so that
    one of each counts for each worker besides."""
    often = len(plan.segments) + len(plan.workers)
    taken = counted.taken(costs)
    taken["calls"] = often * (costs.call_seconds + costs.client_seconds)
    taken["hops"] = often * costs.hop_seconds
    taken["bytes"] = plan.crossing_bytes / costs.bandwidth
    whole = sum(taken.values())
    return {name: seconds / whole for name, seconds in taken.items()}


def refine(
    graph: Graph,
    plan: Plan,
    residency: tuple[int, ...],
    measured: MeasuredCosts,
    cluster: Cluster,
    changes: int,
    compared: Costs,
    make: Callable[[Costs], Plan],
    *,
    early: bool = False,
) -> Refinement:
    """Return the result of the review of a plan with renewed predictions.

    `changes` says how often the plan of this graph was changed before, `compared` by which costs it was made, or plans
    were compared since; `make` makes the plan that costs ask for. `early` says that the plan was a guess: one
    measurement is enough.
    """
    counted, costs, workers = measured.counted(plan), measured.costs(), len(cluster.workers)
    if workers < 2 or counted is None or (measured.span_of(plan).measured < 2 and not early):
        return Refinement()
    wanted = plan.predicted_seconds * (1.0 - MIN_GAIN) ** (changes + 1)
    taken = counted.taken(costs)
    if measured.pace * sum(taken.values()) / workers >= wanted:
        return Refinement()
    if not early and (not measured.settled(taken) or cost_shift(plan, counted, compared, costs) <= MIN_SHIFT):
        return Refinement()
    least = measured.pace * lower_bound(graph_arrays(PricedGraph(graph, costs)).dag(), Platform.of(workers))
    if least >= wanted or (early and plan.predicted_seconds - least < EARLY_SECONDS * len(graph.nodes)):
        return Refinement(compared=None if early else costs)
    other = repredict(graph, make(costs), residency, measured, cluster)
    if other.segments == plan.segments or other.predicted_seconds >= wanted:
        return Refinement(compared=costs)
    return Refinement(plan=other, compared=costs)
