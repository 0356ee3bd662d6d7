"""List scheduling for many workers: each node goes where it finishes first, of a few candidate workers only.

`clustered_planner` places clusters with it, on workers of equal speed. The number of candidates does not grow with the
number of workers: the two workers from which the latest inputs come, and the worker that is idle first. Pure; ties go
to the worker with the smaller index, counted from the seed.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from ..model.critical_path import upward_rank
from ..model.dag import Dag, Schedule

GAPS_KEPT = 8
"""The number of idle gaps kept per worker, the latest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDemands:
    """The placement constraints of nodes, and the locations of their external inputs."""

    demand: Sequence[int]
    """Per node, its entry in `allowed`."""
    bound: Sequence[int]
    """Per node, the node whose worker it must share: itself if none."""
    allowed: Sequence[Sequence[int] | None]
    """Per demand, the workers that satisfy it, at least one; None if all do."""
    held: Mapping[int, Sequence[tuple[int, float]]] = field(default_factory=dict[int, list[tuple[int, float]]])
    """Per node that reads externals held by workers: (worker, seconds of the transfer to another worker)."""


def rank_order(dag: Dag) -> list[int]:
    """Return the nodes by falling upward rank; a topological order if every node takes time."""
    rank = upward_rank(dag, 1.0)
    return np.lexsort((np.arange(len(dag)), -rank)).tolist()


def schedule_many_workers(
    dag: Dag, workers: int, demands: NodeDemands, order: Sequence[int], seed: int = 0
) -> Schedule:
    """Return the schedule of nodes placed one by one, in the given topological order."""
    return _ManyWorkerScheduler(dag, workers, demands, seed).run(order)


class _FirstIdle:
    """The first idle of some workers. Old entries stay in the heap until they come to its top."""

    __slots__ = ("free", "heap")

    def __init__(self, workers: Sequence[int], free: list[float]) -> None:
        self.free = free
        self.heap = [(free[worker], worker) for worker in workers]
        heapify(self.heap)

    def worker(self) -> int:
        heap, free = self.heap, self.free
        while heap[0][0] != free[heap[0][1]]:
            _, worker = heappop(heap)
            heappush(heap, (free[worker], worker))
        return heap[0][1]


class _ManyWorkerScheduler:
    """One call of `schedule_many_workers`. Workers are counted from the seed."""

    def __init__(self, dag: Dag, workers: int, demands: NodeDemands, seed: int) -> None:
        self.dag = dag
        self.count = workers
        self.seed = seed % workers
        self.demands = demands
        self.free = [0.0] * self.count
        self.gaps: list[list[tuple[float, float]]] = [[] for _ in range(self.count)]
        self.allowed = [
            None if some is None else frozenset((one - self.seed) % self.count for one in some)
            for some in demands.allowed
        ]
        self.first = [_FirstIdle(range(workers) if some is None else sorted(some), self.free) for some in self.allowed]

    def run(self, order: Sequence[int]) -> Schedule:
        dag, demands = self.dag, self.demands
        seconds: list[float] = dag.seconds.tolist()
        before, source, transfer = dag.edges_in()
        free, gaps, count, seed = self.free, self.gaps, self.count, self.seed
        placed, start, finish = [-1] * len(seconds), [0.0] * len(seconds), [0.0] * len(seconds)
        chosen: dict[int, int] = {}
        bound, demand = demands.bound, demands.demand
        least = float(dag.seconds.min(initial=np.inf))
        for node in order:
            first, last = before[node], before[node + 1]
            far = next_far = 0.0  # the latest arrival at another worker, and the latest from another than `far_from`
            far_from = next_from = -1
            for edge in range(first, last):
                one = source[edge]
                made = finish[one] + transfer[edge]
                if made > next_far:
                    home = placed[one]
                    if home == far_from:
                        far = max(far, made)
                    elif made > far:
                        far, next_far, far_from, next_from = made, far, home, far_from
                    else:
                        next_far, next_from = made, home
            for home, moved in demands.held.get(node, ()):
                home = (home - seed) % count
                if home == far_from:
                    far = max(far, moved)
                elif moved > far:
                    far, next_far, far_from, next_from = moved, far, home, far_from
                elif moved > next_far:
                    next_far, next_from = moved, home
            need, root = demand[node], bound[node]
            worker = chosen.get(root, -1)
            if worker >= 0:
                candidates = [worker]
            else:
                allowed = self.allowed[need]
                candidates = [self.first[need].worker()]
                if far_from >= 0 and (allowed is None or far_from in allowed):
                    candidates.append(far_from)
                if next_from >= 0 and (allowed is None or next_from in allowed):
                    candidates.append(next_from)
            end = begin = -1.0
            cost = seconds[node]
            for one in candidates:
                ready = next_far if one == far_from else far
                at = free[one] if free[one] > ready else ready
                if gaps[one] and gaps[one][-1][1] >= ready + cost:
                    for other in source[first:last]:
                        if placed[other] == one and finish[other] > ready:
                            ready = finish[other]
                    for low, high in gaps[one]:
                        low = max(low, ready)
                        if low + cost <= high:
                            at = low
                            break
                if end < 0 or at + cost < end or (at + cost == end and one < worker):
                    worker, begin, end = one, at, at + cost
            chosen[root] = worker
            placed[node], start[node], finish[node] = worker, begin, end
            if begin >= free[worker]:
                if begin - free[worker] >= least:
                    gaps[worker].append((free[worker], begin))
                    del gaps[worker][:-GAPS_KEPT]
                free[worker] = end
            else:
                _fill(gaps[worker], begin, end, least)
        return Schedule((np.array(placed, np.int64) + seed) % count, np.array(start), np.array(finish))


def _fill(gaps: list[tuple[float, float]], begin: float, end: float, least: float) -> None:
    """Remove `begin` to `end` from an idle gap; the rest stays if it is at least `least` long."""
    for position, (low, high) in enumerate(gaps):
        if low <= begin < high:
            del gaps[position]
            for left in ((low, begin), (end, high)):
                if left[1] - left[0] >= least:
                    insort(gaps, left)
            return
