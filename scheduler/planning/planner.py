"""The planner: from a graph to a plan with its programs, with a cache of plans.

The driver asks it at each submission. A plan is a pure function of (graph, residency, costs, cluster, seed), and the
cache is keyed by (structural hash, residency, cluster epoch, cost epoch) (H14), the seed being fixed: a training loop
is planned once. Measured costs do not change the cost epoch, since that would replan every step: new graphs are planned
with them, and cached plans are compared with new ones at times (`plan_refinement`), in `reconsider`, which the driver
calls once the workers have their segments, so that nothing waits for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from raygrad.errors import PlanError
from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.program import Program

from ..memory.execution_order import chain_segments, order_nodes
from ..memory.headroom import segment_headroom
from ..model.costs import Costs
from ..model.measured_costs import MeasuredCosts
from ..model.plan import Cluster, Plan
from ..model.priced_graph import PricedGraph, node_edges, unmeasured_functions
from ..segments.lowering import LazyPrograms, lower
from ..segments.segmenter import segment_graph
from ..segments.timetable import predict_seconds, segment_loads
from ..segments.transfers import plan_transfers
from .clustered_planner import CLUSTERED_FROM, ClusteredPlan, ClusteredPlanner, make_clustered_plan
from .idle_worker import MIN_WAIT, WorkerChange, consider_move, only_worker
from .loop_residency import LoopCarried, count_misplaced, next_residency, place_for_loop
from .memory_placement import place_and_order
from .plan_refinement import MIN_GAIN, is_due, refine, repredict, was_guess

T = TypeVar("T")

PLANS_KEPT = 64
"""Plans in the cache: a program has a few kinds of step (train, evaluate, the last short batch); a graph that differs
each time must not fill the memory. At 20,000 nodes a plan takes about 10 MB."""


class Planned(NamedTuple):
    """A plan with the program of each of its segments."""

    plan: Plan
    programs: Sequence[Program]
    """Programs of large plans are lowered at their first access: the first segments run before the last is lowered."""
    graph: Graph
    """The graph whose nodes the plan runs: the requested one, or with added nodes for workers with too little memory
    (`memory.spill_limits`)."""


@dataclass(slots=True)
class _CachedPlan:
    """A plan in the cache."""

    planned: Planned
    compared: Costs
    """The costs by which it was made, or last compared with another plan."""
    uses: int = 1
    """Submissions of it."""
    changes: int = 0
    """How often it was replaced (`plan_refinement`)."""
    guess: bool = False
    """It may have gone by figures of user Functions that were not measured, and no run has shown yet if they hold."""


class _DuePlan(NamedTuple):
    """A cached plan that is due for review, with the arguments of its request."""

    kept: _CachedPlan
    graph: Graph
    residency: tuple[int, ...]
    key: bytes


class Planner:
    """Plans graphs for one cluster, and remembers the plans. Not safe for use by several threads at once."""

    def __init__(
        self, cluster: Cluster, costs: Costs | None = None, seed: int = 0, measured: MeasuredCosts | None = None
    ) -> None:
        """With `measured`, which others feed, plans go by what it has learned, and `costs` is not asked."""
        self._cluster = cluster
        self._cluster_epoch = 0
        self._costs = Costs() if costs is None else costs
        self._seed = seed
        self._measured = measured
        self._plans: OrderedDict[tuple[object, ...], _CachedPlan] = OrderedDict()
        self._moved: OrderedDict[tuple[object, ...], tuple[WorkerChange, Planned | None]] = OrderedDict()
        """Plans of one worker, on another one (`plan_beside`)."""
        self._large = ClusteredPlanner()
        self.due: _DuePlan | None = None
        """The plan requested last, if it is due for review: see `reconsider`."""
        self.hits = 0
        """Calls of `plan` answered from the cache."""
        self.misses = 0
        """Calls of `plan` that planned."""
        self.changes = 0
        """Calls of `reconsider` that gave up a plan for a better one."""

    @property
    def cluster(self) -> Cluster:
        """The workers that plans are made for."""
        return self._cluster

    @property
    def costs(self) -> Costs:
        """The cost model that plans are made with."""
        return self._costs if self._measured is None else self._measured.costs()

    @property
    def latest_costs(self) -> Costs:
        """The cost model of the latest plan. Any thread may ask."""
        return self._costs if self._measured is None else self._measured.latest

    def use_cluster(self, cluster: Cluster) -> None:
        """Plan for other workers from now on: a new cluster epoch. Plans handed out before stay as they are."""
        if cluster != self._cluster:
            self._cluster = cluster
            self._cluster_epoch += 1
            self.due = None

    def use_costs(self, costs: Costs) -> None:
        """Plan with another cost model from now on, whatever is measured; it must have an epoch of its own."""
        self._costs = costs
        self._measured = None
        self.due = None

    def plan(self, graph: Graph, residency: tuple[int, ...], key: bytes) -> Planned:
        """Return the plan of a graph and its programs, from the cache if it was planned before.

        `residency` has one worker index per external of the graph: where the value is pinned, or -1 (at the client,
        in the store). `key` is the graph's structural hash: graphs with equal keys are taken to be equal.

        Raises PlanError if a node can run nowhere, or a residency is not that of this graph and cluster.
        """
        full_key = (key, residency, self._cluster_epoch, self._costs.epoch)
        kept = self._plans.get(full_key)
        if kept is not None and not (kept.guess and self._is_outdated(kept, graph)):
            self.hits += 1
            self._plans.move_to_end(full_key)
            kept.uses += 1
            relieved = kept.planned.graph is not graph and len(kept.planned.graph.nodes) > len(graph.nodes)
            if self._measured is not None and not relieved and is_due(kept.uses):
                now = repredict(graph, kept.planned.plan, residency, self._measured, self._cluster)
                kept.planned = kept.planned._replace(plan=now)
                self.due = _DuePlan(kept, graph, residency, key)
            if self._measured is not None and not relieved and kept.guess:
                self._correct(_DuePlan(kept, graph, residency, key), self._measured)
            return kept.planned
        self.misses += 1
        costs = self.costs
        if _is_large(graph) and not self._cluster.has_limits:
            _check_residency(graph, residency, self._cluster)
            plan = self._large.plan(graph, residency, costs, self._cluster, self._seed, key)
            planned = Planned(plan, LazyPrograms(graph, plan), graph)
        else:
            planned = make_plan(graph, residency, costs, self._cluster, self._seed, key)
        if self._measured is not None:
            first = self._measured.first_run(planned.plan)
            planned = planned._replace(plan=replace(planned.plan, predicted_seconds=first))
        _keep(self._plans, full_key, _CachedPlan(planned, costs, guess=self._measured is not None))
        return planned

    def plan_awaiting(self, graph: Graph, residency: tuple[int, ...], key: bytes, workers: Collection[int]) -> Planned:
        """Return the plan of a graph as if these workers were there, which died and are being replaced. Other arguments
        as for `plan`.

        Raises PlanError as `plan` does.
        """
        cluster = self._cluster
        for worker in workers:
            cluster = cluster.restored(worker)
        return make_plan(graph, residency, self.costs, cluster, self._seed, key)

    def plan_beside(
        self,
        planned: Planned,
        graph: Graph,
        residency: tuple[int, ...],
        key: bytes,
        busy_seconds: Callable[[], Sequence[float]],
        pending: Callable[[], frozenset[int]],
    ) -> Planned:
        """Return the plan for a graph while other runs are under way: `planned`, or if that has one worker only, the
        same on the one that is free first. Other arguments as for `plan`.

        Args:
            busy_seconds: returns, per worker, the seconds for which others run there.
            pending: returns the externals that are yet to be made.
        """
        here = only_worker(planned.plan)
        if here < 0 or self._cluster.has_limits:
            return planned
        busy = busy_seconds()
        idle = min(range(len(busy)), key=busy.__getitem__)
        if busy[here] - busy[idle] < MIN_WAIT:
            return planned
        awaited = pending()
        full_key = (key, residency, self._cluster_epoch, self._costs.epoch, idle, awaited)
        known = self._moved.get(full_key)
        if known is None:
            known = self._move(graph, residency, key, idle, awaited)
            _keep(self._moved, full_key, known)
        move, moved = known
        return planned if moved is None or busy[here] - busy[idle] < move.transfer + MIN_WAIT else moved

    def _move(
        self, graph: Graph, residency: tuple[int, ...], key: bytes, worker: int, pending: frozenset[int]
    ) -> tuple[WorkerChange, Planned | None]:
        """Return what it means to run a graph on a worker, and the plan for that; None if nothing is gained."""
        costs = self.costs
        move = consider_move(PricedGraph(graph, costs), residency, self._cluster, costs, worker, pending)
        if move.gain < max(MIN_WAIT, move.transfer):
            return move, None
        node_worker = (worker,) * len(graph.nodes)
        return move, make_plan(graph, residency, costs, self._cluster, self._seed, key, node_worker)

    def reconsider(self, loop: Callable[[], LoopCarried] = tuple) -> None:
        """Review the plan requested last, if it is due: the next call of `plan` may return another one.

        Call it when the planned segments are on their way to the workers. `loop` returns the loop-carried values: the
        externals that the previous run of the same graph made.
        """
        due, self.due = self.due, None
        if due is None or self._measured is None:
            return
        if not self._refine(due, self._measured):
            self._settle(due, self._measured, loop())

    def _is_outdated(self, kept: _CachedPlan, graph: Graph) -> bool:
        """Return whether a plan that went by guesses has not run, and some of them have been measured elsewhere."""
        if self._measured is None or self._measured.counted(kept.planned.plan) is not None:
            return False
        now = self._measured.costs()
        return now.epoch != kept.compared.epoch and unmeasured_functions(graph, now) != unmeasured_functions(
            graph, kept.compared
        )

    def _correct(self, due: _DuePlan, measured: MeasuredCosts) -> None:
        """Replace a plan that was a guess at once, if its first run has shown that another is better by far."""
        kept, graph, residency, _ = due
        counted = measured.counted(kept.planned.plan)
        if counted is None:
            return  # it has not run yet
        kept.guess = False
        if len(self._cluster.workers) > 1 and was_guess(counted, kept.compared, measured.costs()):
            now = repredict(graph, kept.planned.plan, residency, measured, self._cluster)
            kept.planned = kept.planned._replace(plan=now)
            if self._refine(due, measured, early=True):
                self.due = None

    def _refine(self, due: _DuePlan, measured: MeasuredCosts, *, early: bool = False) -> bool:
        """Replace a plan by a better one, if there is one; return whether there was."""
        kept, graph, residency, key = due
        made: list[tuple[Planned, ClusteredPlan | None]] = []

        def make(costs: Costs) -> Plan:
            made.append(self._afresh(graph, residency, costs, key))
            return made[-1][0].plan

        plan, cluster = kept.planned.plan, self._cluster
        refined = refine(graph, plan, residency, measured, cluster, kept.changes, kept.compared, make, early=early)
        if refined.compared is not None:
            kept.compared = refined.compared
        if refined.plan is None:
            return False
        other, large = made[-1]
        kept.planned = other._replace(plan=refined.plan)
        kept.changes += 1
        self.changes += 1
        if large is not None:
            self._large.keep(key, large)
        return True

    def _settle(self, due: _DuePlan, measured: MeasuredCosts, loop: LoopCarried) -> None:
        """Replace the plan by one that makes loop-carried values where the next iteration reads them, if that takes no
        longer: their transfers cost workers and client more than predicted."""
        kept, graph, residency, key = due
        plan = kept.planned.plan
        if (
            not loop
            or self._cluster.has_limits
            or _is_large(graph)
            or not count_misplaced(graph, plan, residency, loop)
        ):
            return
        costs, cluster, seed = self.costs, self._cluster, self._seed
        node_worker = place_for_loop(graph, residency, loop, costs, cluster, seed)
        homes = next_residency(graph, node_worker, residency, loop)
        then = make_plan(graph, homes, costs, cluster, seed, key, node_worker)
        then = then._replace(plan=repredict(graph, then.plan, homes, measured, cluster))
        if then.plan.predicted_seconds > plan.predicted_seconds * (1.0 - MIN_GAIN) ** kept.changes:
            return
        if count_misplaced(graph, then.plan, homes, loop) >= count_misplaced(graph, plan, residency, loop):
            return
        kept.planned = make_plan(graph, residency, costs, cluster, seed, key, node_worker)
        kept.changes += 1
        self.changes += 1
        full_key = (key, homes, self._cluster_epoch, self._costs.epoch)
        _keep(self._plans, full_key, _CachedPlan(then, costs, changes=kept.changes))

    def _afresh(
        self, graph: Graph, residency: tuple[int, ...], costs: Costs, key: bytes
    ) -> tuple[Planned, ClusteredPlan | None]:
        """Plan a graph without the cache; for a large one return its `ClusteredPlan`, too."""
        if _is_large(graph) and not self._cluster.has_limits:
            large = make_clustered_plan(graph, residency, costs, self._cluster, self._seed, key)
            return Planned(large.plan, LazyPrograms(graph, large.plan), graph), large
        return make_plan(graph, residency, costs, self._cluster, self._seed, key), None


def _keep(plans: OrderedDict[tuple[object, ...], T], key: tuple[object, ...], plan: T) -> None:
    """Enter a plan in a cache, and forget the first one of a full cache."""
    plans[key] = plan
    if len(plans) > PLANS_KEPT:
        plans.popitem(last=False)


def _is_large(graph: Graph) -> bool:
    """Return whether a graph is planned by clusters, which support no requested resources."""
    return len(graph.nodes) >= CLUSTERED_FROM and not graph.demands


def make_plan(
    graph: Graph,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    seed: int,
    key: bytes,
    node_worker: tuple[int, ...] | None = None,
) -> Planned:
    """Plan a graph: price it, place it (unless `node_worker` says where), order and cut it, decide what crosses, lower
    it. Pure. See `Planner.plan`.

    Raises PlanError.
    """
    _check_residency(graph, residency, cluster)
    if _is_large(graph) and not cluster.has_limits:
        plan = make_clustered_plan(graph, residency, costs, cluster, seed, key).plan
        return Planned(plan, LazyPrograms(graph, plan), graph)
    priced = PricedGraph(graph, costs)
    made_for: tuple[object, ...] = (key, residency, cluster, costs, seed)
    if node_worker is None:
        arranged = place_and_order(priced, residency, costs, cluster, seed)
    else:
        made_for = (*made_for, node_worker)
        cut = segment_graph(priced, node_edges(priced), node_worker, residency, costs)
        arranged = order_nodes(priced, cut.blocks, node_worker, residency, costs, cluster)
    blocks, priced, node_worker, peaks, spaces = arranged
    limited = frozenset([index for index, worker in enumerate(cluster.workers) if worker.memory is not None])
    transfers = plan_transfers(priced, blocks, residency, saved_stays=cluster.saved_stays, limited=limited)
    segments = chain_segments(transfers.segments, cluster)
    plan = Plan(
        hash=blake2b(repr(made_for).encode(), digest_size=16).digest(),
        workers=tuple(worker.name for worker in cluster.workers),
        segments=segments,
        node_worker=node_worker,
        kept=transfers.kept,
        open_ended=graph.open_ended,
        crossing_bytes=transfers.crossing_bytes,
        predicted_seconds=predict_seconds(segments, segment_loads(segments, priced), residency, costs, cluster),
        peaks=peaks,
        headroom=segment_headroom(segments, priced, node_worker, residency, spaces, peaks) if peaks else (),
        limits=tuple([(space.device, tuple([-1 if n is None else n for n in space.limits])) for space in spaces]),
    )
    return Planned(plan, lower(priced.graph, plan), priced.graph)


def _check_residency(graph: Graph, residency: tuple[int, ...], cluster: Cluster) -> None:
    if len(residency) != len(graph.externals):
        raise PlanError(f"{len(residency)} residencies for {len(graph.externals)} externals")
    if residency and not -1 <= min(residency) <= max(residency) < len(cluster.workers):
        raise PlanError(f"a residency is none of the {len(cluster.workers)} workers")
