"""Plans of large graphs, and the same plans after a change of a few workers.

Rules of this file: says how the steps follow each other; each of them is in a file of its own. A large graph is made
smaller (`placing.coarse`), that is placed (`placing`) and cut (`packing`); `crossing_arrays` decides what crosses.
When few workers have come or gone, blocks stay as they are and where they are, but for those of workers that are gone,
and some that a new worker takes over. Their order remains one in which they can be submitted, whoever runs them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from heapq import heapify, heappop, heappush

import numpy as np

from raygrad.errors import PlanError
from raygrad.proto.graph import Graph

from .arrays import Arrays, arrays_of, offsets
from .costs import Costs
from .crossing_arrays import Blocks, Crosser, blocks_of, distinct
from .dag import Dag, Floats, Indices, Platform, Schedule, merged
from .demanding import Demanded, able_workers, demands_of
from .order import arrange, hold
from .packing import Packed, pack
from .placing.coarse import MOST, NODES, Coarse, coarsen
from .placing.scheduling import schedule
from .placing.spreading import Demands, by_rank, depth_first, spread
from .plan import Cluster, Plan
from .predict import loads_of, predict
from .priced import Priced

LARGE = 20_000
"""Nodes from which on a graph is planned as one of clusters."""
SEARCHED = 2_000
"""Size of the small graph up to which more schedules are searched for."""
KEPT = 4
"""Plans that can be made again for other workers: at 10^6 nodes each takes some 200 MB."""
CHANGES = 8
"""Changes after which a plan is made afresh: each leaves a plan that is a little worse."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Large:
    """A plan with what it takes to make it again for other workers."""

    plan: Plan
    cluster: Cluster
    priced: Priced
    demanded: Demanded
    crosser: Crosser
    share: Indices
    """Per block, the name of those that go to one worker with it."""
    kinds: Indices
    """Per block, the kinds of device that it needs."""
    work: Floats
    """Per block, its seconds."""
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
    blocks = _blocks(coarse, _best(arrays, coarse, demanded, residency, costs, len(cluster.workers), seed))
    priced = arrays.priced()
    if _limited(cluster):
        workers = blocks.worker[blocks.home].tolist()
        blocks = blocks_of(arrange(priced, blocks.as_lists(), workers, residency, costs, cluster), len(arrays))
    crosser = Crosser(arrays, blocks)
    plan_hash = blake2b(repr((key, residency, cluster, costs, seed)).encode(), digest_size=16).digest()
    kinds = np.zeros(len(blocks.worker), np.int64)
    np.bitwise_or.at(kinds, blocks.home, demanded.kinds[demanded.demand])
    return Large(
        plan=_plan(crosser, blocks.worker, priced, residency, costs, cluster, plan_hash),
        cluster=cluster,
        priced=priced,
        demanded=demanded,
        crosser=crosser,
        share=_shares(blocks, demanded.bound),
        kinds=kinds,
        work=np.bincount(blocks.home, arrays.seconds, len(kinds)).astype(np.float64),
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
) -> Packed:
    """Return the blocks of the schedule that ends first, of those that are tried."""
    dag, platform = coarse.dag, Platform.of(workers)
    held = _held(arrays, coarse, residency, workers)
    demands = Demands(demand=coarse.demand.tolist(), bound=coarse.bound.tolist(), allowed=demanded.allowed, held=held)
    last = int(coarse.cluster[-1]) if arrays.graph.open_ended else -1

    def found() -> Iterable[Schedule]:
        yield spread(dag, platform, demands, by_rank(dag), seed)
        if len(dag) <= NODES:
            yield spread(dag, platform, demands, depth_first(dag), seed)
        free = all(some is None for some in demanded.allowed)
        if len(dag) <= SEARCHED and free and not held and (coarse.bound == np.arange(len(dag))).all():
            yield schedule(dag, platform, seed)
        if free:
            ends = np.cumsum(dag.seconds)
            saved = np.zeros(workers)
            for some in held.values():
                for worker, seconds in some:
                    saved[(worker - seed) % workers] += seconds
            single = (int(saved.argmax()) + seed) % workers
            yield Schedule(np.full(len(dag), single), ends - dag.seconds, ends)

    packed = [pack(dag, one, platform, costs.call_seconds, held, last) for one in found()]
    return min(packed, key=lambda one: one.seconds)


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


def _shares(blocks: Blocks, bound: Indices) -> Indices:
    """Return, per block, the first of those that must be where it is."""
    share = list(range(len(blocks.worker)))

    def first(one: int) -> int:
        while share[one] != one:
            share[one] = share[share[one]]
            one = share[one]
        return one

    ties = distinct(blocks.home, blocks.home[bound], len(share))
    for one, other in zip(*(some.tolist() for some in ties), strict=True):
        one, other = first(one), first(other)
        share[max(one, other)] = min(one, other)
    return np.array([first(one) for one in range(len(share))], np.int64)


def _plan(
    crosser: Crosser,
    worker: Indices,
    priced: Priced,
    residency: tuple[int, ...],
    costs: Costs,
    cluster: Cluster,
    plan_hash: bytes,
) -> Plan:
    crossing = crosser.run(worker, residency)
    segments = hold(crossing.segments, cluster) if _limited(cluster) else crossing.segments
    return Plan(
        hash=plan_hash,
        workers=tuple(one.name for one in cluster.workers),
        segments=segments,
        node_worker=tuple(worker[crosser.blocks.home].tolist()),
        kept=crossing.kept,
        open_ended=crosser.arrays.graph.open_ended,
        crossing_bytes=crossing.crossing_bytes,
        predicted_seconds=predict(segments, loads_of(segments, priced), residency, costs, cluster),
    )


# ---- other workers -------------------------------------------------------------------------------------------------


def remake(
    large: Large, residency: tuple[int, ...], costs: Costs, cluster: Cluster, seed: int, key: bytes
) -> Large | None:
    """Return the plan for a cluster of which few workers differ; None if it has to be made afresh.

    Workers are the same if they are equal. Pure; the hash names the plan that it came from besides.
    """
    now = {worker: index for index, worker in enumerate(cluster.workers)}
    to = np.array([now.get(worker, -1) for worker in large.cluster.workers], np.int64)
    come = sorted({*range(len(cluster.workers))} - {*to.tolist()})
    differ = len(come) + int((to < 0).sum())
    if large.demanded.forced or large.changes >= CHANGES or _limited(cluster) or _limited(large.cluster):
        return None
    if len(now) < max(len(cluster.workers), 1) or 10 * differ > len(cluster.workers) + 9:
        return None
    worker = to[large.crosser.blocks.worker]
    if not _settle(large, worker, cluster):
        return None
    blocks = large.crosser.blocks
    if come:
        helped = _relieve(large, worker, come, cluster)
        call = costs.call_seconds
        if large.crosser.predict(helped, residency, call) <= large.crosser.predict(worker, residency, call):
            worker = helped
    origin = (key, residency, cluster, costs, seed, large.plan.hash)
    plan_hash = blake2b(repr(origin).encode(), digest_size=16).digest()
    return replace(
        large,
        plan=_plan(large.crosser, worker, large.priced, residency, costs, cluster, plan_hash),
        cluster=cluster,
        crosser=large.crosser.on(replace(blocks, worker=worker)),
        changes=large.changes + 1,
    )


def _settle(large: Large, worker: Indices, cluster: Cluster) -> bool:
    """Give what has no worker to those that have the least work, the longest first; False if none can run it."""
    lost = np.flatnonzero(worker < 0)
    if not len(lost):
        return True
    load = np.bincount(worker[worker >= 0], large.work[worker >= 0], len(cluster.workers))
    shares, which = np.unique(large.share[lost], return_inverse=True)
    work = np.bincount(which, large.work[lost])
    kinds = np.zeros(len(shares), np.int64)
    np.bitwise_or.at(kinds, which, large.kinds[lost])
    found = np.empty(len(shares), np.int64)
    heaps: dict[int, list[tuple[float, int]]] = {}
    for one in np.lexsort((shares, -work)).tolist():
        need = int(kinds[one])
        heap = heaps.get(need)
        if heap is None:
            able = able_workers(cluster, large.demanded.names, need)
            if able is not None and not able:
                return False
            heap = heaps[need] = [(float(load[index]), index) for index in able or range(len(cluster.workers))]
            heapify(heap)
        while heap[0][0] != load[heap[0][1]]:
            _, index = heappop(heap)
            heappush(heap, (float(load[index]), index))
        index = heap[0][1]
        load[index] += work[one]
        found[one] = index
    worker[lost] = found[which]
    return True


def _relieve(large: Large, worker: Indices, come: list[int], cluster: Cluster) -> Indices:
    """Return the workers of blocks when new ones have taken over a fair share, from those that have the most work."""
    worker = worker.copy()
    count = len(cluster.workers)
    load = np.bincount(worker, large.work, count)
    fair = float(load.sum()) / count
    shares, which = np.unique(large.share, return_inverse=True)
    work = np.bincount(which, large.work)
    kinds = np.zeros(len(shares), np.int64)
    np.bitwise_or.at(kinds, which, large.kinds)
    owner = np.empty(len(shares), np.int64)
    owner[which] = worker
    sort = np.lexsort((np.arange(len(shares)), -work, owner))
    ends = np.searchsorted(owner[sort], np.arange(count + 1)).tolist()
    sort = sort.tolist()
    for new in come:
        able = {need for need in np.unique(kinds).tolist() if _offers(cluster, new, large.demanded.names, need)}
        heap = [(-float(load[index]), index) for index in range(count) if index not in come]
        heapify(heap)
        while heap and load[new] < fair:
            _, index = heappop(heap)
            for place in range(ends[index], ends[index + 1]):
                one = sort[place]
                if owner[one] == index and int(kinds[one]) in able and load[new] + work[one] <= 1.02 * fair:
                    owner[one] = new
                    load[new] += work[one]
                    load[index] -= work[one]
                    break
    return owner[which]


def _offers(cluster: Cluster, worker: int, names: tuple[str, ...], kinds: int) -> bool:
    able = able_workers(cluster, names, kinds)
    return able is None or worker in able


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
