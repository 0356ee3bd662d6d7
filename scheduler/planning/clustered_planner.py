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
from math import inf

import numpy as np

from raygrad.errors import PlanError
from raygrad.proto.ir.graph import Graph

from ..model.arrays import GraphArrays, graph_arrays, offsets
from ..model.costs import Costs
from ..model.dag import Dag, Indices, Platform, Schedule
from ..model.plan import Cluster, Plan
from ..model.priced_graph import PricedGraph
from ..placing.coarse import MAX_CLUSTERS, TARGET_CLUSTERS, ClusteredDag, coarsen, one_cluster
from ..placing.constraints import ConstraintArrays, constraint_arrays, constraints_for_workers
from ..placing.problem import depth_first_order
from ..placing.scheduling import schedule
from ..placing.spreading import NodeDemands, rank_order, schedule_many_workers
from ..segments.array_timetable import SegmentTimes, segment_times
from ..segments.array_transfers import ArrayTransferPlanner, ArrayTransfers, BlockArrays
from ..segments.incremental_transfers import update_transfers
from ..segments.segment_clusters import ClusterSegments, segment_clusters
from .replan import BlockMoves, PlanState, colocated_blocks, move_from_lost_workers, move_to_new_workers

CLUSTERED_FROM = 20_000
"""Number of nodes from which on a graph is planned by clusters."""
MAX_SEARCHED_CLUSTERS = 2_000
"""Number of clusters up to which schedules are also searched for (`placing.scheduling`)."""
MAX_KEPT_PLANS = 4
"""Number of plans kept for replanning: at 10^6 nodes each takes some 200 MB."""
MAX_CHANGES = 8
"""Number of changes of workers after which a plan is made from scratch: each change makes it a little worse."""
NODES_PER_CLUSTER_TO_REPLACE = 40
"""Nodes per cluster from which on placing the clusters again takes less than a tenth of the planning time."""


class PlacementStrategy(Enum):
    """A way to place the clusters of a graph."""

    BY_RANK = auto()
    """One by one, by falling upward rank."""
    DEPTH_FIRST = auto()
    """One by one, clusters that have just become ready first."""
    SEARCHED = auto()
    """By the search for schedules of small graphs."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ClusteredPlan:
    """A plan of a clustered graph, with the data to replan it for other workers."""

    plan: Plan
    residency: tuple[int, ...]
    cluster: Cluster
    constraints: ConstraintArrays
    coarse: ClusteredDag
    strategy: PlacementStrategy
    """The strategy by which clusters were placed."""
    transfer_planner: ArrayTransferPlanner
    transfers: ArrayTransfers
    times: SegmentTimes
    colocated: Indices
    """Per block, the name of its group of colocated blocks."""
    kinds: Indices
    """Per block, the devices that it needs, as bits."""
    changes: int = 0
    """How often it was replanned for other workers."""


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
    """Return the plan of a graph. Pure. `nodes` and `most` are the desired and the largest number of clusters.

    Raises PlanError.
    """
    if not cluster.workers:
        raise PlanError("the cluster has no workers")
    arrays = graph_arrays(PricedGraph(graph, costs))
    constraints = constraint_arrays(arrays, residency, cluster)
    dag, workers = arrays.dag(), len(cluster.workers)
    if workers == 1 and not costs.more_come and costs.recovery_time == inf:  # there is nothing to divide, for good
        coarse = one_cluster(dag, constraints.demand)
    else:
        coarse = coarsen(dag, constraints.demand, constraints.bound, workers, nodes, most)
    origin = (key, residency, cluster, costs, seed)
    return _plan_clusters(arrays, constraints, coarse, residency, costs, cluster, seed, origin)


def _plan_clusters(
    arrays: GraphArrays,
    constraints: ConstraintArrays,
    coarse: ClusteredDag,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    seed: int,
    origin: tuple[object, ...],
    strategies: Collection[PlacementStrategy] = tuple(PlacementStrategy),
) -> ClusteredPlan:
    """Return the plan of a clustered graph, the best of those found by some strategies; its hash is that of its
    origin."""
    strategy, segmented = _best_strategy(
        arrays, coarse, constraints, residency, costs, len(cluster.workers), seed, strategies
    )
    blocks = _blocks_of_clusters(coarse, segmented)
    transfer_planner = ArrayTransferPlanner(arrays, blocks, saved_stays=cluster.saved_stays)
    transfers = transfer_planner.run(residency)
    times = segment_times(transfers.planned.segments, transfer_planner, transfers.flow, residency, costs, cluster)
    kinds = np.zeros(len(blocks.worker), np.int64)
    if constraints.names:
        np.bitwise_or.at(kinds, blocks.home, constraints.kinds[constraints.demand])
    return ClusteredPlan(
        plan=_plan(transfer_planner, transfers, times, cluster, origin),
        residency=residency,
        cluster=cluster,
        constraints=constraints,
        coarse=coarse,
        strategy=strategy,
        transfer_planner=transfer_planner,
        transfers=transfers,
        times=times,
        colocated=colocated_blocks(blocks, constraints.bound),
        kinds=kinds,
    )


def _blocks_of_clusters(coarse: ClusteredDag, segmented: ClusterSegments) -> BlockArrays:
    """Return the blocks of clusters as blocks of nodes, those of each cluster in the order of the graph."""
    sizes = np.array([len(block) for block in segmented.blocks], np.int64)
    flat = np.array([cluster for block in segmented.blocks for cluster in block], np.int64)
    block, place = np.empty(len(flat), np.int64), np.empty(len(flat), np.int64)
    block[flat] = np.repeat(np.arange(len(sizes)), sizes)
    place[flat] = np.arange(len(flat))
    home = block[coarse.cluster]
    return BlockArrays(
        order=np.argsort(place[coarse.cluster], kind="stable"),
        ends=offsets(np.bincount(home, minlength=len(sizes))),
        home=home,
        worker=np.array(segmented.worker, np.int64),
    )


def _best_strategy(
    arrays: GraphArrays,
    coarse: ClusteredDag,
    constraints: ConstraintArrays,
    residency: tuple[int, ...],
    costs: Costs,
    workers: int,
    seed: int,
    strategies: Collection[PlacementStrategy],
) -> tuple[PlacementStrategy, ClusterSegments]:
    """Return the blocks of the schedule that ends first, and the strategy by which it was found."""
    dag = coarse.dag
    held = _held_by_cluster(arrays, coarse, residency, workers)
    demands = NodeDemands(
        demand=coarse.demand.tolist(), bound=coarse.bound.tolist(), allowed=constraints.allowed, held=held
    )
    last = int(coarse.cluster[-1]) if arrays.graph.open_ended else -1
    free = all(some is None for some in constraints.allowed)
    alone = free and not held and (coarse.bound == np.arange(len(dag))).all()

    def found(strategy: PlacementStrategy) -> Schedule | None:
        if strategy is PlacementStrategy.BY_RANK:
            return schedule_many_workers(dag, workers, demands, rank_order(dag), seed)
        if strategy is PlacementStrategy.DEPTH_FIRST:
            if len(dag) > TARGET_CLUSTERS:
                return None
            order = depth_first_order(range(len(dag)), dag.edges_in(), dag.edges_out())
            return schedule_many_workers(dag, workers, demands, order, seed)
        if strategy is PlacementStrategy.SEARCHED:
            return schedule(dag, Platform.of(workers), seed) if len(dag) <= MAX_SEARCHED_CLUSTERS and alone else None
        return _single_worker_schedule(dag, held, workers, seed) if free else None

    schedules = [(strategy, made) for strategy in strategies if (made := found(strategy)) is not None]
    if not schedules:  # none of these strategies supports the constraints on the current workers
        schedules = [(strategy, made) for strategy in PlacementStrategy if (made := found(strategy)) is not None]
    segmented = [
        (strategy, segment_clusters(dag, one, workers, costs.call_seconds, held, last)) for strategy, one in schedules
    ]
    return min(segmented, key=lambda one: one[1].seconds)


def _single_worker_schedule(dag: Dag, held: dict[int, list[tuple[int, float]]], workers: int, seed: int) -> Schedule:
    """Return the schedule with all nodes on the worker that holds most of the external inputs."""
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
    """Return, per cluster that reads externals held by workers: these workers, and the longest transfer from each."""
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
    transfer_planner: ArrayTransferPlanner,
    transfers: ArrayTransfers,
    times: SegmentTimes,
    cluster: Cluster,
    origin: tuple[object, ...],
) -> Plan:
    planned = transfers.planned
    return Plan(
        hash=blake2b(repr(origin).encode(), digest_size=16).digest(),
        workers=tuple(one.name for one in cluster.workers),
        segments=planned.segments,
        node_worker=tuple(transfer_planner.blocks.worker[transfer_planner.blocks.home].tolist()),
        kept=planned.kept,
        open_ended=transfer_planner.arrays.graph.open_ended,
        crossing_bytes=planned.crossing_bytes,
        predicted_seconds=times.seconds,
    )


# ---- other workers -------------------------------------------------------------------------------------------------


def replan_for_workers(
    clustered: ClusteredPlan,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    seed: int,
    key: bytes,
    max_clusters: int | None = None,
) -> ClusteredPlan | None:
    """Return the plan for a cluster of which few workers differ; None if it has to be planned from scratch.

    Workers are identified by equality. Few clusters, at most `max_clusters`, are placed again, which takes little time,
    by the strategy that was best before if nearly all workers are the same. Otherwise blocks stay
    where they are, but for those that have to move. Pure; the hash depends on that of the previous plan, too.
    """
    now = {worker: index for index, worker in enumerate(cluster.workers)}
    to = np.array([now.get(worker, -1) for worker in clustered.cluster.workers], np.int64)
    come = sorted({*range(len(cluster.workers))} - {*to.tolist()})
    differ = len(come) + int((to < 0).sum())
    if clustered.constraints.forced or clustered.changes >= MAX_CHANGES:
        return None
    if len(clustered.cluster.workers) == 1 and len(clustered.coarse.dag) == 1:
        return None  # it was not to be divided
    if len(now) < max(len(cluster.workers), 1) or 10 * differ > len(cluster.workers) + 9:
        return None
    constraints = constraints_for_workers(clustered.constraints, clustered.transfer_planner.arrays, cluster)
    if constraints is None:
        return None
    origin = (key, residency, cluster, costs, seed, clustered.plan.hash)
    arrays, coarse = clustered.transfer_planner.arrays, clustered.coarse
    if len(coarse.dag) <= (
        min(TARGET_CLUSTERS, len(arrays) // NODES_PER_CLUSTER_TO_REPLACE) if max_clusters is None else max_clusters
    ):
        strategies = (clustered.strategy,) if 10 * differ <= len(cluster.workers) else tuple(PlacementStrategy)
        made = _plan_clusters(arrays, constraints, coarse, residency, costs, cluster, seed, origin, strategies)
        return replace(made, changes=clustered.changes + 1)
    return _move_blocks(clustered, constraints, to, come, residency, costs, cluster, origin)


def _move_blocks(
    clustered: ClusteredPlan,
    constraints: ConstraintArrays,
    to: Indices,
    come: list[int],
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    origin: tuple[object, ...],
) -> ClusteredPlan | None:
    """Return the plan in which as few blocks as possible move. `to` has the new number of each old worker, or -1;
    `come` has the new workers."""

    def moved(clustered: ClusteredPlan, moves: BlockMoves) -> ClusteredPlan:
        transfer_planner, transfers = update_transfers(
            clustered.transfer_planner, clustered.transfers, moves.blocks, moves.nodes, residency
        )
        times = segment_times(transfers.planned.segments, transfer_planner, transfers.flow, residency, costs, cluster)
        return replace(
            clustered, transfer_planner=transfer_planner, transfers=transfers, times=times, kinds=moves.kinds
        )

    def known(clustered: ClusteredPlan) -> PlanState:
        return PlanState(
            arrays=clustered.transfer_planner.arrays,
            blocks=clustered.transfer_planner.blocks,
            crossing_reads=clustered.transfer_planner.crossing_reads,
            constraints=constraints,
            colocated=clustered.colocated,
            kinds=clustered.kinds,
            times=clustered.times,
            costs=costs,
            cluster=cluster,
        )

    if (to != np.arange(len(to))).any() or residency != clustered.residency:
        moves = move_from_lost_workers(known(clustered), to[clustered.transfer_planner.blocks.worker])
        if moves is None:
            return None
        clustered = moved(clustered, moves)
    if come:
        relieved = moved(
            clustered, move_to_new_workers(known(clustered), clustered.transfer_planner.blocks.worker, come)
        )
        if relieved.times.seconds < clustered.times.seconds:
            clustered = relieved
    return replace(
        clustered,
        plan=_plan(clustered.transfer_planner, clustered.transfers, clustered.times, cluster, origin),
        residency=residency,
        cluster=cluster,
        constraints=constraints,
        changes=clustered.changes + 1,
    )


class ClusteredPlanner:
    """Plans large graphs, and keeps the last few plans for replanning on other workers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, ClusteredPlan] = OrderedDict()
        self.remade = 0
        """Number of calls of `plan` answered by replanning."""

    def plan(
        self, graph: Graph, residency: tuple[int, ...], costs: Costs, cluster: Cluster, seed: int, key: bytes
    ) -> Plan:
        """Return the plan of a graph, from the last plan of the graph if only few workers differ.

        A plan that is made again keeps the costs that the last one was made with.
        """
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
        """Keep a plan as the latest of its graph, for replanning."""
        self._kept.pop(key, None)
        self._kept[key] = made
        if len(self._kept) > MAX_KEPT_PLANS:
            self._kept.popitem(last=False)
