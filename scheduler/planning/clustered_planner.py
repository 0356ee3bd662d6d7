"""Plans of large graphs, and the same plans after a change of a few workers.

Rules of this file: says how the steps follow each other; each of them is in a file of its own. A large graph is made
smaller (`placing.coarse`), that is placed (`placing`) and cut (`packing`); `crossing_arrays` decides what crosses.
When few workers have come or gone, the difference alone is planned: blocks stay as they are and where they are, but for
those of workers that are gone, and some that a new worker takes over (`moving`); segments that they have nothing to do
with are taken over (`recrossing`). The order of blocks remains one in which they can be submitted, whoever runs them.
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

from ..memory.execution_order import arrange, hold
from ..model.arrays import Arrays, arrays_of, offsets
from ..model.costs import Costs
from ..model.dag import Dag, Indices, Platform, Schedule, merged
from ..model.plan import Cluster, Plan
from ..placing.coarse import MOST, NODES, Coarse, coarsen
from ..placing.constraints import Demanded, demanded_of, demands_of
from ..placing.scheduling import schedule
from ..placing.spreading import Demands, by_rank, depth_first, spread
from ..segments.array_timetable import Times, times_of
from ..segments.array_transfers import Blocks, Crossed, Crosser, blocks_of
from ..segments.incremental_transfers import recross
from ..segments.segment_clusters import Packed, pack
from .replan import Known, Moves, relieve, shares_of, spread_lost

LARGE = 20_000
"""Nodes from which on a graph is planned as one of clusters."""
SEARCHED = 2_000
"""Size of the small graph up to which more schedules are searched for."""
KEPT = 4
"""Plans that can be made again for other workers: at 10^6 nodes each takes some 200 MB."""
CHANGES = 8
"""Changes after which a plan is made afresh: each leaves a plan that is a little worse."""
WORTH = 40
"""Nodes per cluster from which on placing the clusters again takes less than a tenth of what planning took."""


class Way(Enum):
    """How the clusters of a graph that was made smaller are placed."""

    BY_RANK = auto()
    """One by one, the longest way to the end first."""
    DEPTH_FIRST = auto()
    """One by one, what has just become possible first."""
    SEARCHED = auto()
    """As graphs are that need not be made smaller."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Large:
    """A plan with what it takes to make it again for other workers."""

    plan: Plan
    residency: tuple[int, ...]
    cluster: Cluster
    demanded: Demanded
    coarse: Coarse
    way: Way
    """By which clusters were placed."""
    crosser: Crosser
    crossed: Crossed
    times: Times
    share: Indices
    """Per block, the name of those that go to one worker with it."""
    kinds: Indices
    """Per block, the kinds of device that it needs."""
    changes: int = 0
    """How often it was made again."""


def make_large(
    graph: Graph,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    seed: int,
    key: bytes,
    nodes: int = NODES,
    most: int = MOST,
) -> Large:
    """Plan a graph. Pure. `nodes` and `most` say how small the graph is made that is placed.

    Raises PlanError.
    """
    if not cluster.workers:
        raise PlanError("the cluster has no workers")
    arrays = arrays_of(graph, costs)
    demanded = demands_of(arrays, residency, cluster)
    coarse = coarsen(_dag(arrays), demanded.demand, demanded.bound, len(cluster.workers), nodes, most)
    origin = (key, residency, cluster, costs, seed)
    return _placed(arrays, demanded, coarse, residency, costs, cluster, seed, origin)


def _placed(
    arrays: Arrays,
    demanded: Demanded,
    coarse: Coarse,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    seed: int,
    origin: tuple[object, ...],
    ways: Collection[Way] = tuple(Way),
) -> Large:
    """Return the plan of a graph that was made smaller, the best of those found in some ways; its hash stands for its
    origin."""
    way, packed = _best(arrays, coarse, demanded, residency, costs, len(cluster.workers), seed, ways)
    blocks = _blocks(coarse, packed)
    if _limited(cluster):
        workers = blocks.worker[blocks.home].tolist()
        made = arrange(arrays.priced(), blocks.as_lists(), workers, residency, costs, cluster)
        if len(made.node_worker) > len(arrays):
            raise PlanError("a graph that was made smaller is given no nodes that spill: plan it node by node")
        blocks = blocks_of(made.blocks, len(arrays))
    crosser = Crosser(arrays, blocks, saved_stays=cluster.saved_stays)
    crossed = crosser.run(residency)
    if _limited(cluster):
        crossing = crossed.crossing
        crossed = crossed._replace(crossing=crossing._replace(segments=hold(crossing.segments, cluster)))
    times = times_of(crossed.crossing.segments, crosser, crossed.flow, residency, costs, cluster)
    kinds = np.zeros(len(blocks.worker), np.int64)
    if demanded.names:
        np.bitwise_or.at(kinds, blocks.home, demanded.kinds[demanded.demand])
    return Large(
        plan=_plan(crosser, crossed, times, cluster, origin),
        residency=residency,
        cluster=cluster,
        demanded=demanded,
        coarse=coarse,
        way=way,
        crosser=crosser,
        crossed=crossed,
        times=times,
        share=shares_of(blocks, demanded.bound),
        kinds=kinds,
    )


def _limited(cluster: Cluster) -> bool:
    return any(worker.memory is not None for worker in cluster.workers)


def _blocks(coarse: Coarse, packed: Packed) -> Blocks:
    """Return the blocks of clusters as blocks of nodes, those of each cluster in the order of the graph."""
    sizes = np.array([len(block) for block in packed.blocks], np.int64)
    flat = np.array([cluster for block in packed.blocks for cluster in block], np.int64)
    block, place = np.empty(len(flat), np.int64), np.empty(len(flat), np.int64)
    block[flat] = np.repeat(np.arange(len(sizes)), sizes)
    place[flat] = np.arange(len(flat))
    home = block[coarse.cluster]
    return Blocks(
        order=np.argsort(place[coarse.cluster], kind="stable"),
        ends=offsets(np.bincount(home, minlength=len(sizes))),
        home=home,
        worker=np.array(packed.worker, np.int64),
    )


def _dag(arrays: Arrays) -> Dag:
    inside = np.flatnonzero(arrays.read >= 0)
    inside = inside[arrays.maker[arrays.read[inside]] >= 0]
    value = arrays.read[inside]
    return merged(arrays.seconds, arrays.maker[value], arrays.reader[inside], arrays.transfer[value])


def _best(
    arrays: Arrays,
    coarse: Coarse,
    demanded: Demanded,
    residency: tuple[int, ...],
    costs: Costs,
    workers: int,
    seed: int,
    ways: Collection[Way],
) -> tuple[Way, Packed]:
    """Return the blocks of the schedule that ends first, and in which way it was found."""
    dag, platform = coarse.dag, Platform.of(workers)
    held = _held(arrays, coarse, residency, workers)
    demands = Demands(demand=coarse.demand.tolist(), bound=coarse.bound.tolist(), allowed=demanded.allowed, held=held)
    last = int(coarse.cluster[-1]) if arrays.graph.open_ended else -1
    free = all(some is None for some in demanded.allowed)
    alone = free and not held and (coarse.bound == np.arange(len(dag))).all()

    def found(way: Way) -> Schedule | None:
        if way is Way.BY_RANK:
            return spread(dag, platform, demands, by_rank(dag), seed)
        if way is Way.DEPTH_FIRST:
            return spread(dag, platform, demands, depth_first(dag), seed) if len(dag) <= NODES else None
        if way is Way.SEARCHED:
            return schedule(dag, platform, seed) if len(dag) <= SEARCHED and alone else None
        return _on_one(dag, held, workers, seed) if free else None

    schedules = [(way, made) for way in ways if (made := found(way)) is not None]
    if not schedules:  # none of these ways is for what is asked of workers now
        schedules = [(way, made) for way in Way if (made := found(way)) is not None]
    packed = [(way, pack(dag, one, platform, costs.call_seconds, held, last)) for way, one in schedules]
    return min(packed, key=lambda one: one[1].seconds)


def _on_one(dag: Dag, held: dict[int, list[tuple[int, float]]], workers: int, seed: int) -> Schedule:
    """Return the schedule that has all on the worker that has most of what is read."""
    ends = np.cumsum(dag.seconds)
    saved = np.zeros(workers)
    for some in held.values():
        for worker, seconds in some:
            saved[(worker - seed) % workers] += seconds
    single = (int(saved.argmax()) + seed) % workers
    return Schedule(np.full(len(dag), single), ends - dag.seconds, ends)


def _held(
    arrays: Arrays, coarse: Coarse, residency: tuple[int, ...], workers: int
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


def _plan(crosser: Crosser, crossed: Crossed, times: Times, cluster: Cluster, origin: tuple[object, ...]) -> Plan:
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


def remake(
    large: Large,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    seed: int,
    key: bytes,
    again: int | None = None,
) -> Large | None:
    """Return the plan for a cluster of which few workers differ; None if it has to be made afresh.

    Workers are the same if they are equal. A graph that was made much smaller, to `again` clusters at most, has them
    placed again: that is soon done, and in the way that was best if nearly all workers are still the same. Else blocks
    stay where they are, but for those that have to move. Pure; the hash names the plan that it came from besides.
    """
    now = {worker: index for index, worker in enumerate(cluster.workers)}
    to = np.array([now.get(worker, -1) for worker in large.cluster.workers], np.int64)
    come = sorted({*range(len(cluster.workers))} - {*to.tolist()})
    differ = len(come) + int((to < 0).sum())
    if large.demanded.forced or large.changes >= CHANGES or _limited(cluster) or _limited(large.cluster):
        return None
    if len(now) < max(len(cluster.workers), 1) or 10 * differ > len(cluster.workers) + 9:
        return None
    demanded = demanded_of(large.demanded, large.crosser.arrays, cluster)
    if demanded is None:
        return None
    origin = (key, residency, cluster, costs, seed, large.plan.hash)
    arrays, coarse = large.crosser.arrays, large.coarse
    if len(coarse.dag) <= (min(NODES, len(arrays) // WORTH) if again is None else again):
        ways = (large.way,) if 10 * differ <= len(cluster.workers) else tuple(Way)
        made = _placed(arrays, demanded, coarse, residency, costs, cluster, seed, origin, ways)
        return replace(made, changes=large.changes + 1)
    return _differing(large, demanded, to, come, residency, costs, cluster, origin)


def _differing(
    large: Large,
    demanded: Demanded,
    to: Indices,
    come: list[int],
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    origin: tuple[object, ...],
) -> Large | None:
    """Return the plan in which as little as possible is elsewhere; `to` has the new number of each worker."""

    def moved(large: Large, moves: Moves) -> Large:
        crosser, crossed = recross(large.crosser, large.crossed, moves.blocks, moves.nodes, residency)
        times = times_of(crossed.crossing.segments, crosser, crossed.flow, residency, costs, cluster)
        return replace(large, crosser=crosser, crossed=crossed, times=times, kinds=moves.kinds)

    def known(large: Large) -> Known:
        return Known(
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
        moves = spread_lost(known(large), to[large.crosser.blocks.worker])
        if moves is None:
            return None
        large = moved(large, moves)
    if come:
        helped = moved(large, relieve(known(large), large.crosser.blocks.worker, come))
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


class LargePlanner:
    """Plans of large graphs, of which the last few can be made again for other workers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Large] = OrderedDict()
        self.remade = 0
        """Calls of `plan` answered from a plan for other workers."""

    def plan(
        self, graph: Graph, residency: tuple[int, ...], costs: Costs, cluster: Cluster, seed: int, key: bytes
    ) -> Plan:
        """Return a plan. See `make_large`, `remake`; one that is made again goes by the prices that it was made by."""
        before = self._kept.pop(key, None)
        made = None
        if before is not None and cluster != before.cluster:
            made = remake(before, residency, costs, cluster, seed, key)
            self.remade += made is not None
        if made is None:
            made = make_large(graph, residency, costs, cluster, seed, key)
        self.keep(key, made)
        return made.plan

    def keep(self, key: bytes, made: Large) -> None:
        """Remember a plan as that of this graph: the next for other workers is made from it."""
        self._kept.pop(key, None)
        self._kept[key] = made
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
