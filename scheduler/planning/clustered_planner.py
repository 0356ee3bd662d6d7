"""The planner of large graphs: it clusters the graph, places and segments the clusters, and replans for other workers.

`planner` uses it from `CLUSTERED_FROM` nodes on, if there are neither memory limits nor requested resources. The steps
are in files of their own: clustering in `placing.coarse`, placement in `placing.spreading` and `placing.scheduling`,
segments in `segment_clusters`, transfers in `array_transfers`. When few workers have come or gone, only the difference
is planned: `replan` moves the blocks of lost workers, and some blocks to a new worker; `incremental_transfers` updates
the segments concerned. The order of blocks remains one in which they can be submitted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto
from hashlib import blake2b

import numpy as np

from raygrad.errors import PlanError
from raygrad.proto.ir.graph import Graph

from ..memory.execution_order import chain_segments, order_nodes
from ..model.arrays import GraphArrays, graph_arrays, offsets
from ..model.costs import Costs
from ..model.dag import Dag, Indices, Platform, Schedule, dag_of_merged_edges
from ..model.plan import Cluster, Plan
from ..placing.coarse import MAX_CLUSTERS, TARGET_CLUSTERS, ClusteredDag, coarsen
from ..placing.constraints import ConstraintArrays, constraint_arrays, constraints_for_workers
from ..placing.scheduling import schedule
from ..placing.spreading import NodeDemands, depth_first_order, rank_order, schedule_many_workers
from ..segments.array_timetable import SegmentTimes, segment_times
from ..segments.array_transfers import ArrayTransferPlanner, ArrayTransfers, BlockArrays, block_arrays
from ..segments.incremental_transfers import update_transfers
from ..segments.segment_clusters import ClusterSegments, segment_clusters
from .replan import BlockMoves, PlanState, colocated_blocks, move_from_lost_workers, move_to_new_workers

CLUSTERED_FROM = 20_000
"""Nodes from which on a graph is planned as one of clusters."""
MAX_SEARCHED_CLUSTERS = 2_000
"""Size of the small graph up to which more schedules are searched for."""
MAX_KEPT_PLANS = 4
"""Plans that can be made again for other workers: at 10^6 nodes each takes some 200 MB."""
MAX_CHANGES = 8
"""Changes after which a plan is made afresh: each leaves a plan that is a little worse."""
NODES_PER_CLUSTER_TO_REPLACE = 40
"""Nodes per cluster from which on placing the clusters again takes less than a tenth of what planning took."""


class PlacementStrategy(Enum):
    """How the clusters of a graph that was made smaller are placed."""

    BY_RANK = auto()
    """One by one, the longest way to the end first."""
    DEPTH_FIRST = auto()
    """One by one, what has just become possible first."""
    SEARCHED = auto()
    """As graphs are that need not be made smaller."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ClusteredPlan:
    """A plan with what it takes to make it again for other workers."""

    plan: Plan
    residency: tuple[int, ...]
    cluster: Cluster
    demanded: ConstraintArrays
    coarse: ClusteredDag
    way: PlacementStrategy
    """By which clusters were placed."""
    crosser: ArrayTransferPlanner
    crossed: ArrayTransfers
    times: SegmentTimes
    share: Indices
    """Per block, the name of those that go to one worker with it."""
    kinds: Indices
    """Per block, the kinds of device that it needs."""
    changes: int = 0
    """How often it was made again."""


def make_clustered_plan(
    graph: Graph,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    seed: int,
    key: bytes,
    nodes: int = TARGET_CLUSTERS,
    most: int = MAX_CLUSTERS,
) -> ClusteredPlan:
    """Plan a graph. Pure. `nodes` and `most` say how small the graph is made that is placed.

    Raises PlanError.
    """
    if not cluster.workers:
        raise PlanError("the cluster has no workers")
    arrays = graph_arrays(graph, costs)
    demanded = constraint_arrays(arrays, residency, cluster)
    coarse = coarsen(_dag(arrays), demanded.demand, demanded.bound, len(cluster.workers), nodes, most)
    origin = (key, residency, cluster, costs, seed)
    return _plan_clusters(arrays, demanded, coarse, residency, costs, cluster, seed, origin)


def _plan_clusters(
    arrays: GraphArrays,
    demanded: ConstraintArrays,
    coarse: ClusteredDag,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    seed: int,
    origin: tuple[object, ...],
    ways: Collection[PlacementStrategy] = tuple(PlacementStrategy),
) -> ClusteredPlan:
    """Return the plan of a graph that was made smaller, the best of those found in some ways; its hash stands for its
    origin."""
    way, packed = _best_strategy(arrays, coarse, demanded, residency, costs, len(cluster.workers), seed, ways)
    blocks = _blocks_of_clusters(coarse, packed)
    if _has_limited_host(cluster):
        workers = blocks.worker[blocks.home].tolist()
        made = order_nodes(arrays.priced(), blocks.as_lists(), workers, residency, costs, cluster)
        if len(made.node_worker) > len(arrays):
            raise PlanError("a graph that was made smaller is given no nodes that spill: plan it node by node")
        blocks = block_arrays(made.blocks, len(arrays))
    crosser = ArrayTransferPlanner(arrays, blocks, saved_stays=cluster.saved_stays)
    crossed = crosser.run(residency)
    if _has_limited_host(cluster):
        crossing = crossed.crossing
        crossed = crossed._replace(crossing=crossing._replace(segments=chain_segments(crossing.segments, cluster)))
    times = segment_times(crossed.crossing.segments, crosser, crossed.flow, residency, costs, cluster)
    kinds = np.zeros(len(blocks.worker), np.int64)
    if demanded.names:
        np.bitwise_or.at(kinds, blocks.home, demanded.kinds[demanded.demand])
    return ClusteredPlan(
        plan=_plan(crosser, crossed, times, cluster, origin),
        residency=residency,
        cluster=cluster,
        demanded=demanded,
        coarse=coarse,
        way=way,
        crosser=crosser,
        crossed=crossed,
        times=times,
        share=colocated_blocks(blocks, demanded.bound),
        kinds=kinds,
    )


def _has_limited_host(cluster: Cluster) -> bool:
    return any(worker.memory is not None for worker in cluster.workers)


def _blocks_of_clusters(coarse: ClusteredDag, packed: ClusterSegments) -> BlockArrays:
    """Return the blocks of clusters as blocks of nodes, those of each cluster in the order of the graph."""
    sizes = np.array([len(block) for block in packed.blocks], np.int64)
    flat = np.array([cluster for block in packed.blocks for cluster in block], np.int64)
    block, place = np.empty(len(flat), np.int64), np.empty(len(flat), np.int64)
    block[flat] = np.repeat(np.arange(len(sizes)), sizes)
    place[flat] = np.arange(len(flat))
    home = block[coarse.cluster]
    return BlockArrays(
        order=np.argsort(place[coarse.cluster], kind="stable"),
        ends=offsets(np.bincount(home, minlength=len(sizes))),
        home=home,
        worker=np.array(packed.worker, np.int64),
    )


def _dag(arrays: GraphArrays) -> Dag:
    inside = np.flatnonzero(arrays.read >= 0)
    inside = inside[arrays.maker[arrays.read[inside]] >= 0]
    value = arrays.read[inside]
    return dag_of_merged_edges(arrays.seconds, arrays.maker[value], arrays.reader[inside], arrays.transfer[value])


def _best_strategy(
    arrays: GraphArrays,
    coarse: ClusteredDag,
    demanded: ConstraintArrays,
    residency: tuple[int, ...],
    costs: Costs,
    workers: int,
    seed: int,
    ways: Collection[PlacementStrategy],
) -> tuple[PlacementStrategy, ClusterSegments]:
    """Return the blocks of the schedule that ends first, and in which way it was found."""
    dag, platform = coarse.dag, Platform.of(workers)
    held = _held_by_cluster(arrays, coarse, residency, workers)
    demands = NodeDemands(
        demand=coarse.demand.tolist(), bound=coarse.bound.tolist(), allowed=demanded.allowed, held=held
    )
    last = int(coarse.cluster[-1]) if arrays.graph.open_ended else -1
    free = all(some is None for some in demanded.allowed)
    alone = free and not held and (coarse.bound == np.arange(len(dag))).all()

    def found(way: PlacementStrategy) -> Schedule | None:
        if way is PlacementStrategy.BY_RANK:
            return schedule_many_workers(dag, platform, demands, rank_order(dag), seed)
        if way is PlacementStrategy.DEPTH_FIRST:
            return (
                schedule_many_workers(dag, platform, demands, depth_first_order(dag), seed)
                if len(dag) <= TARGET_CLUSTERS
                else None
            )
        if way is PlacementStrategy.SEARCHED:
            return schedule(dag, platform, seed) if len(dag) <= MAX_SEARCHED_CLUSTERS and alone else None
        return _single_worker_schedule(dag, held, workers, seed) if free else None

    schedules = [(way, made) for way in ways if (made := found(way)) is not None]
    if not schedules:  # none of these ways is for what is asked of workers now
        schedules = [(way, made) for way in PlacementStrategy if (made := found(way)) is not None]
    packed = [(way, segment_clusters(dag, one, platform, costs.call_seconds, held, last)) for way, one in schedules]
    return min(packed, key=lambda one: one[1].seconds)


def _single_worker_schedule(dag: Dag, held: dict[int, list[tuple[int, float]]], workers: int, seed: int) -> Schedule:
    """Return the schedule that has all on the worker that has most of what is read."""
    ends = np.cumsum(dag.seconds)
    saved = np.zeros(workers)
    for some in held.values():
        for worker, seconds in some:
            saved[(worker - seed) % workers] += seconds
    single = (int(saved.argmax()) + seed) % workers
    return Schedule(np.full(len(dag), single), ends - dag.seconds, ends)


def _held_by_cluster(
    arrays: GraphArrays, coarse: ClusteredDag, residency: tuple[int, ...], workers: int
) -> dict[int, list[tuple[int, float]]]:
    """Return, per cluster that reads externals which are on workers: the workers, and the longest time from each."""
    home = np.append(np.array(residency, np.int64), -1)
    some = np.flatnonzero((arrays.read >= 0) & (arrays.read < len(residency)))
    some = some[home[arrays.read[some]] >= 0]
    value = arrays.read[some]
    key = coarse.cluster[arrays.reader[some]] * workers + home[value]
    sort = np.lexsort((arrays.transfer[value], key))
    key, seconds = key[sort], arrays.transfer[value][sort]
    ends = np.flatnonzero(np.diff(key, append=-1))
    held: dict[int, list[tuple[int, float]]] = {}
    for one, moved in zip(key[ends].tolist(), seconds[ends].tolist(), strict=True):
        held.setdefault(one // workers, []).append((one % workers, moved))
    return held


def _plan(
    crosser: ArrayTransferPlanner,
    crossed: ArrayTransfers,
    times: SegmentTimes,
    cluster: Cluster,
    origin: tuple[object, ...],
) -> Plan:
    crossing = crossed.crossing
    return Plan(
        hash=blake2b(repr(origin).encode(), digest_size=16).digest(),
        workers=tuple(one.name for one in cluster.workers),
        segments=crossing.segments,
        node_worker=tuple(crosser.blocks.worker[crosser.blocks.home].tolist()),
        kept=crossing.kept,
        open_ended=crosser.arrays.graph.open_ended,
        crossing_bytes=crossing.crossing_bytes,
        predicted_seconds=times.seconds,
    )


# ---- other workers -------------------------------------------------------------------------------------------------


def replan_for_workers(
    large: ClusteredPlan,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    seed: int,
    key: bytes,
    again: int | None = None,
) -> ClusteredPlan | None:
    """Return the plan for a cluster of which few workers differ; None if it has to be made afresh.

    Workers are the same if they are equal. A graph that was made much smaller, to `again` clusters at most, has them
    placed again: that is soon done, and in the way that was best if nearly all workers are still the same. Else blocks
    stay where they are, but for those that have to move. Pure; the hash names the plan that it came from besides.
    """
    now = {worker: index for index, worker in enumerate(cluster.workers)}
    to = np.array([now.get(worker, -1) for worker in large.cluster.workers], np.int64)
    come = sorted({*range(len(cluster.workers))} - {*to.tolist()})
    differ = len(come) + int((to < 0).sum())
    if (
        large.demanded.forced
        or large.changes >= MAX_CHANGES
        or _has_limited_host(cluster)
        or _has_limited_host(large.cluster)
    ):
        return None
    if len(now) < max(len(cluster.workers), 1) or 10 * differ > len(cluster.workers) + 9:
        return None
    demanded = constraints_for_workers(large.demanded, large.crosser.arrays, cluster)
    if demanded is None:
        return None
    origin = (key, residency, cluster, costs, seed, large.plan.hash)
    arrays, coarse = large.crosser.arrays, large.coarse
    if len(coarse.dag) <= (
        min(TARGET_CLUSTERS, len(arrays) // NODES_PER_CLUSTER_TO_REPLACE) if again is None else again
    ):
        ways = (large.way,) if 10 * differ <= len(cluster.workers) else tuple(PlacementStrategy)
        made = _plan_clusters(arrays, demanded, coarse, residency, costs, cluster, seed, origin, ways)
        return replace(made, changes=large.changes + 1)
    return _move_blocks(large, demanded, to, come, residency, costs, cluster, origin)


def _move_blocks(
    large: ClusteredPlan,
    demanded: ConstraintArrays,
    to: Indices,
    come: list[int],
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    origin: tuple[object, ...],
) -> ClusteredPlan | None:
    """Return the plan in which as little as possible is elsewhere; `to` has the new number of each worker."""

    def moved(large: ClusteredPlan, moves: BlockMoves) -> ClusteredPlan:
        crosser, crossed = update_transfers(large.crosser, large.crossed, moves.blocks, moves.nodes, residency)
        times = segment_times(crossed.crossing.segments, crosser, crossed.flow, residency, costs, cluster)
        return replace(large, crosser=crosser, crossed=crossed, times=times, kinds=moves.kinds)

    def known(large: ClusteredPlan) -> PlanState:
        return PlanState(
            arrays=large.crosser.arrays,
            blocks=large.crosser.blocks,
            crossing=large.crosser.crossing,
            demanded=demanded,
            share=large.share,
            kinds=large.kinds,
            times=large.times,
            costs=costs,
            cluster=cluster,
        )

    if (to != np.arange(len(to))).any() or residency != large.residency:
        moves = move_from_lost_workers(known(large), to[large.crosser.blocks.worker])
        if moves is None:
            return None
        large = moved(large, moves)
    if come:
        helped = moved(large, move_to_new_workers(known(large), large.crosser.blocks.worker, come))
        if helped.times.seconds < large.times.seconds:
            large = helped
    return replace(
        large,
        plan=_plan(large.crosser, large.crossed, large.times, cluster, origin),
        residency=residency,
        cluster=cluster,
        demanded=demanded,
        changes=large.changes + 1,
    )


class ClusteredPlanner:
    """Plans of large graphs, of which the last few can be made again for other workers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, ClusteredPlan] = OrderedDict()
        self.remade = 0
        """Calls of `plan` answered from a plan for other workers."""

    def plan(
        self, graph: Graph, residency: tuple[int, ...], costs: Costs, cluster: Cluster, seed: int, key: bytes
    ) -> Plan:
        """Return a plan. See `make_clustered_plan`, `replan_for_workers`; one that is made again goes by the prices that it was made by."""
        before = self._kept.pop(key, None)
        made = None
        if before is not None and cluster != before.cluster:
            made = replan_for_workers(before, residency, costs, cluster, seed, key)
            self.remade += made is not None
        if made is None:
            made = make_clustered_plan(graph, residency, costs, cluster, seed, key)
        self.keep(key, made)
        return made.plan

    def keep(self, key: bytes, made: ClusteredPlan) -> None:
        """Remember a plan as that of this graph: the next for other workers is made from it."""
        self._kept.pop(key, None)
        self._kept[key] = made
        if len(self._kept) > MAX_KEPT_PLANS:
            self._kept.popitem(last=False)
