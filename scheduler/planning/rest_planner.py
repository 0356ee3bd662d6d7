"""Planning of the rest of a run: segments that have not begun are cut, placed and ordered again, by what is known now.

The machine asks for it when a plan turns out wrong while it runs (`machine.revision`). Nodes that have begun stay where
they are. The rest is cut into tasks of nodes of one segment, small enough to be divided among workers, and scheduled
around what runs: workers are free when what they run is expected to end, and values come from where they are. Costs are
those of the planner, corrected by what the run's own segments took. The new segments follow those that the plan has, so
that all indices stay; segments that are replaced have no nodes any more. Constraints are kept as by any plan, and any
plan gives the same bits (H12).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import exp, log
from typing import Final, NamedTuple

import numpy as np

from raygrad.proto.ir.specs import can_leave

from ..model.costs import Costs
from ..model.dag import Dag, Platform, dag_of_merged_edges
from ..model.disjoint_sets import find_root
from ..model.plan import Cluster, Plan
from ..model.priced_graph import PricedGraph
from ..model.progress import RunProgress
from ..placing.constraints import Constraints, find_constraints
from ..placing.listing import EARLIEST_FINISH, ListSchedule, PassPreferences, list_schedule
from ..placing.problem import PlacementProblem, problem_of_dag
from ..segments.segmenter import Block
from .plan_continuation import continue_plan
from .planner import Planned

MIN_TASK_SECONDS: Final = 0.005
"""A segment is not cut into tasks that are predicted to be shorter than this."""

TASK_SHARE: Final = 0.05
"""The part of the rest's time that a task may take, where a segment can be cut."""

ARRIVED_SHARE: Final = 0.5
"""The part of a transfer after which what is transferred counts as arrived on the worker of the plan."""

STAY_SHARE: Final = 0.02
"""The part of the rest's time by which a schedule that moves little may be longer than one that does not care."""

PRIOR_WEIGHT: Final = 0.25
"""How much the prediction of a class of nodes counts beside those of its nodes that have run."""


def is_worth_replanning(
    planned: Planned,
    progress: RunProgress,
    residency: Sequence[int],
    costs: Costs,
    cluster: Cluster,
    gain: float,
) -> bool:
    """Return whether the rest of a run, planned again, is predicted to end earlier by more than `gain` seconds."""
    if _open_end_has_begun(planned, progress):
        return False
    return Rest(planned, progress, residency, costs, cluster).schedule().gain > gain


def plan_rest(
    planned: Planned, progress: RunProgress, residency: Sequence[int], costs: Costs, cluster: Cluster
) -> Planned | None:
    """Return the plan of a run with the rest planned again, and its programs; None if no other is predicted to end
    earlier. Pure. `residency` is that by which the run was planned."""
    if not progress.rest or _open_end_has_begun(planned, progress):
        return None
    rest = Rest(planned, progress, residency, costs, cluster)
    found = rest.schedule()
    if found.gain <= 0.0:
        return None
    return continue_plan(planned, progress, residency, cluster, rest.priced, rest.blocks(found), progress.kept)


def _open_end_has_begun(planned: Planned, progress: RunProgress) -> bool:
    """Return whether an open-ended node has begun: its segment has to stay the last."""
    last, segments = len(planned.graph.nodes) - 1, planned.plan.segments
    return planned.plan.open_ended and all(last not in segments[index].nodes for index in progress.rest)


# ---- the schedule --------------------------------------------------------------------------------------------------


class RestTask(NamedTuple):
    """Nodes of one segment that run together."""

    worker: int
    """The worker of the plan."""
    nodes: list[int]
    seconds: float


class _Found(NamedTuple):
    """A schedule of all tasks, and the seconds by which it ends earlier than the plan."""

    listed: ListSchedule
    gain: float


class Rest:
    """The tasks of the rest of a run, and what they have to wait for, as a placement problem. Its first nodes stand for
    what is not planned again: per worker what it runs, per segment what it has made, per worker the externals there."""

    def __init__(
        self,
        planned: Planned,
        progress: RunProgress,
        residency: Sequence[int],
        costs: Costs,
        cluster: Cluster,
        tasks: list[RestTask] | None = None,
        gone: frozenset[int] = frozenset(),
    ) -> None:
        """Without `tasks` these are cut from the segments that have not begun. What segments that are `gone` have
        pinned is lost: nothing is tied to their workers."""
        self.plan = planned.plan
        self.progress = progress
        self.residency = residency
        self.costs = costs
        self.cluster = cluster
        self.priced = _with_seconds(PricedGraph(planned.graph, costs), self.plan, progress)
        self.kept = sorted([*[one for one, _, _ in progress.done], *[one for one, _ in progress.running]])
        """Segments that are not planned again."""
        self.gone = gone
        self.workers = len(cluster.workers)
        self.tasks = self._cut() if tasks is None else tasks
        found = find_constraints(self.priced, residency, cluster)
        self.tied = self.problem = self._problem(found)
        """With vjps tied to the workers of their forwards, and with the ties that have to be."""
        if found.loose is not None:
            self.problem = self._problem(found.loose)

    def _cut(self) -> list[RestTask]:
        """Return the tasks, in the order of the plan."""
        seconds, segments = self.priced.seconds, self.plan.segments
        work = sum([seconds[node] for index in self.progress.rest for node in segments[index].nodes])
        most = max(MIN_TASK_SECONDS, TASK_SHARE * work / self.workers)
        tasks: list[RestTask] = []
        for index in self.progress.rest:
            worker, nodes = segments[index].worker, segments[index].nodes
            begin, took = 0, 0.0
            for place, node in enumerate(nodes):
                if took + 0.5 * seconds[node] > most and place > begin:
                    tasks.append(RestTask(worker, list(nodes[begin:place]), took))
                    begin, took = place, 0.0
                took += seconds[node]
            tasks.append(RestTask(worker, list(nodes[begin:]), took))
        return tasks

    def _problem(self, found: Constraints) -> PlacementProblem:
        """Return the placement problem under constraints of the graph. Its nodes: per worker what it runs, per segment
        that is not planned again its end, per worker the externals there, then the tasks."""
        workers, kept, tasks = self.workers, self.kept, self.tasks
        ends, externals, shift = workers, workers + len(kept), 2 * workers + len(kept)
        end_of = {segment: ends + place for place, segment in enumerate(kept)}
        busy, chain = self._running(end_of)
        maker_of = {node: end_of[index] for index in kept for node in self.plan.segments[index].nodes}
        for place, task in enumerate(tasks):
            maker_of.update(dict.fromkeys(task.nodes, shift + place))
        sizes: dict[tuple[int, int], int] = {}
        ended = {end_of[index]: ago for index, _, ago in self.progress.done}
        maker, size, nodes = self.priced.maker, self.priced.size, self.priced.graph.nodes
        for place, task in enumerate(tasks):
            me = shift + place
            read = {value for node in task.nodes for value in nodes[node].inputs if value >= 0}
            for value in read:
                source = maker[value]
                if source >= 0:
                    other = maker_of[source]
                elif self.residency[value] >= 0:
                    other = externals + self.residency[value]
                else:
                    continue
                if other != me:
                    sizes[other, me] = sizes.get((other, me), 0) + size[value]
        edges: list[tuple[int, int, float]] = []
        for (source, target), some in sizes.items():
            transfer = self.costs.transfer_seconds(some)
            if ended.get(source, 0.0) > ARRIVED_SHARE * transfer:  # it is on its way to where the plan reads it
                source = externals + tasks[target - shift].worker
            edges.append((source, target, transfer))
        edges += [(source, target, 0.0) for source, target in chain]
        call = self.costs.call_seconds
        seconds = [*busy, *[0.0] * (len(kept) + workers), *[task.seconds + call for task in tasks]]
        fixed = [*range(workers), *[self.plan.segments[one].worker for one in kept], *range(workers)]
        return self._constrained(_dag(seconds, edges), fixed, shift, found)

    def _running(self, end_of: dict[int, int]) -> tuple[list[float], list[tuple[int, int]]]:
        """Return, per worker, when what it runs is expected to end, and (worker, end of a segment) of what it runs. All
        that one worker runs ends at that time."""
        busy = [0.0] * self.workers
        chain: list[tuple[int, int]] = []
        seconds, call = self.priced.seconds, self.costs.call_seconds
        for index, elapsed in self.progress.running:
            segment = self.plan.segments[index]
            took = call + sum([seconds[node] for node in segment.nodes])
            if not busy[segment.worker]:  # it has begun; what takes longer than expected is half over
                took = max(took - elapsed, 0.5 * elapsed if elapsed > took else call)
            busy[segment.worker] += took
            chain.append((segment.worker, end_of[index]))
        return busy, chain

    def _constrained(self, dag: Dag, fixed: list[int], shift: int, found: Constraints) -> PlacementProblem:
        """Return the problem with the constraints of the graph on its tasks."""
        group = list(range(len(dag)))
        worker_of: dict[int, int] = {}  # per group of nodes, the worker of those that are not planned again
        for index in [one for one in self.kept if one not in self.gone]:
            worker_of.update(dict.fromkeys([found.group[node] for node in self.plan.segments[index].nodes],
                                           self.plan.segments[index].worker))  # fmt: skip
        stays = {self.priced.maker_of(value) for value in self.progress.fixed}
        first: dict[int, int] = {}  # per group of nodes, its first task
        only: dict[int, int] = {}
        allowed: dict[int, frozenset[int]] = {}
        there = frozenset(range(self.workers)) - self.progress.lost
        for place, task in enumerate(self.tasks, shift):
            able = there
            for node in task.nodes:
                root = found.group[node]
                other = find_root(group, first.setdefault(root, place))
                mine = find_root(group, place)
                group[max(other, mine)] = min(other, mine)
                worker = worker_of.get(root, found.forced.get(root, -1))
                if worker < 0 and node in stays and not (task.worker in self.progress.lost and self._leaves(node)):
                    worker = task.worker
                if worker >= 0:
                    able &= {worker}
                elif root in found.allowed:
                    able &= found.allowed[root]
            allowed[place] = able
        group = [find_root(group, place) for place in range(len(dag))]
        for place in range(shift, len(dag)):
            allowed[group[place]] &= allowed[place]
        choices: dict[int, tuple[int, ...]] = {}
        for place, task in enumerate(self.tasks, shift):
            root = group[place]
            some = allowed[root] or frozenset({task.worker})
            if len(some) == 1:
                only[root] = next(iter(some))
            elif len(some) < self.workers:
                choices[root] = tuple(sorted(some))
        where = [*fixed, *[only.get(place, -1) for place in range(shift, len(dag))]]
        return problem_of_dag(dag, Platform.of(self.workers), group=group, fixed=where, allowed=choices)

    def _leaves(self, node: int) -> bool:
        """Return whether all that a node makes can leave its worker, as far as is known."""
        priced = self.priced
        made = range(priced.first[node], priced.first[node] + len(priced.graph.nodes[node].outputs))
        return all([can_leave(priced.graph.specs[priced.spec[value]]) for value in made])

    def schedule(self) -> _Found:
        """Return the schedule of the rest that is predicted to end first."""
        problem, shift = self.problem, len(self.problem) - len(self.tasks)
        now = [*problem.fixed[:shift], *[task.worker for task in self.tasks]]
        as_planned = [now[root] for root in problem.group]
        ranks = problem.upward_rank(0.0)
        by_rank = sorted(range(shift, len(problem)), key=lambda place: (-ranks[place], place))
        order = [*range(shift), *by_rank]
        if any(task.worker in self.progress.lost for task in self.tasks):
            before = float("inf")
        else:
            before = list_schedule(problem, order, fixed=as_planned).makespan
        hint = PassPreferences(hint=now, bias=self.costs.call_seconds)
        problems = [problem] if self.tied is problem else [problem, self.tied]
        listed = [list_schedule(one, order, some) for one in problems for some in (EARLIEST_FINISH, hint)]
        least = (1.0 + STAY_SHARE) * min([one.makespan for one in listed])
        best = next(one for one in reversed(listed) if one.makespan <= least)
        return _Found(best, before - best.makespan)

    def blocks(self, found: _Found) -> list[Block]:
        """Return the tasks as blocks in the order in which they are to start. The last node of an open-ended graph ends
        the last of them."""
        return self.in_order(found.listed)

    def in_order(self, listed: ListSchedule) -> list[Block]:
        """Return the tasks of a schedule as `blocks` does."""
        shift = len(self.problem) - len(self.tasks)
        start = [end - took for end, took in zip(listed.finish, self.problem.seconds, strict=True)]
        order = sorted(range(len(self.tasks)), key=lambda place: (start[shift + place], place))
        if self.priced.graph.open_ended:
            last = len(self.priced.graph.nodes) - 1
            order.sort(key=lambda place: last in self.tasks[place].nodes)
        return [Block(listed.worker[shift + place], self.tasks[place].nodes) for place in order]


def _dag(seconds: list[float], edges: list[tuple[int, int, float]]) -> Dag:
    source, target, transfer = zip(*edges, strict=True) if edges else ((), (), ())
    return dag_of_merged_edges(
        np.array(seconds), np.array(source, np.int64), np.array(target, np.int64), np.array(transfer, np.float64)
    )


def _with_seconds(priced: PricedGraph, plan: Plan, progress: RunProgress) -> PricedGraph:
    """Return the graph priced by what segments of the run took: a class of nodes is off by as much as the segments that
    have nodes of it, each counted by the part that these have in it. Means are geometric: one that takes five times as
    long says little of the others."""
    seconds, number = priced.seconds, priced.classes.number
    weight, ratio = [PRIOR_WEIGHT] * len(priced.classes.classes), [0.0] * len(priced.classes.classes)
    for index, took, _ in progress.done:
        nodes = plan.segments[index].nodes
        predicted = sum([seconds[node] for node in nodes])
        for node in nodes if took > 0.0 < predicted else ():
            share = seconds[node] / predicted
            weight[number[node]] += share
            ratio[number[node]] += share * log(took / predicted)
    factor = [exp(some / all_) for some, all_ in zip(ratio, weight, strict=True)]
    other = copy(priced)
    other.__dict__["seconds"] = [one * factor[kind] for one, kind in zip(seconds, number, strict=True)]
    return other
