"""HEFT, CPOP and PEFT: list schedulers of the literature, as baselines for raygrad's `scheduling.schedule`.

They follow the papers, with ties to the lower node and the lower worker. All three give
each node to the worker where it finishes earliest, in an idle gap where it fits ("insertion").

- HEFT and CPOP: H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
  heterogeneous computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002.
- PEFT: H. Arabnejad and J. G. Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost
  table", IEEE Transactions on Parallel and Distributed Systems 25(3), 2014.

`times` (nodes, workers) gives the time of each node on each worker where that is not seconds / speed, as in the papers'
examples. The matrix is full: the algorithms are for graphs of up to some 10^5 nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from raygrad.errors import PlanError
from raygrad.scheduler.model.critical_path import upward_rank
from raygrad.scheduler.model.dag import Dag, Floats, Platform, Schedule


def heft(dag: Dag, platform: Platform, *, share: float = 1.0, times: Floats | None = None) -> Schedule:
    """Return the schedule by heterogeneous earliest finish time: by falling upward rank, each where it ends first.

    `share` of each edge's time counts in the ranks; the paper has 1, the time between two different workers.
    """
    board = WorkerTimeline(dag, platform, times)
    rank = upward_rank(board.averaged, platform.slowness * share)
    for node in np.argsort(-rank, kind="stable").tolist():
        board.place(node)
    return board.schedule()


def cpop(dag: Dag, platform: Platform, *, share: float = 1.0, times: Floats | None = None) -> Schedule:
    """Return the schedule with the critical path on one processor: the whole path on the worker that is fastest at it,
    every other node where it ends first; of the nodes that are ready, the one on the longest path comes first."""
    board = WorkerTimeline(dag, platform, times)
    if not len(dag):
        return board.schedule()
    up = upward_rank(board.averaged, platform.slowness * share)
    down = downward_rank(board.averaged, platform.slowness * share)
    path = critical_path_nodes(board.averaged, up, platform.slowness * share)
    favoured = int(board.times[path].sum(axis=0).argmin())
    critical = set(path)
    for node in order_by_priority(dag, up + down):
        board.place(node, on=favoured if node in critical else None)
    return board.schedule()


def peft(dag: Dag, platform: Platform, *, times: Floats | None = None) -> Schedule:
    """Return the schedule by predicted earliest finish time: each node goes where it and the best that can follow it
    end first."""
    board = WorkerTimeline(dag, platform, times)
    table = optimistic_cost_table(dag, board.times, platform.slowness)
    for node in order_by_priority(dag, table.mean(axis=1)):
        board.place(node, later=table[node])
    return board.schedule()


# ---- ranks ---------------------------------------------------------------------------------------------------------


def downward_rank(dag: Dag, share: float) -> Floats:
    """Return, per node, the longest time from the run's start to its start, `share` of each edge's time counted."""
    rank = [0.0] * len(dag)
    seconds: list[float] = dag.seconds.tolist()
    before: list[int] = dag.before.tolist()
    source: list[int] = dag.source.tolist()
    moved: list[float] = (dag.transfer * share).tolist()
    for node in range(len(dag)):
        for edge in range(before[node], before[node + 1]):
            rank[node] = max(rank[node], rank[source[edge]] + seconds[source[edge]] + moved[edge])
    return np.array(rank)


def critical_path_nodes(dag: Dag, up: Floats, share: float) -> list[int]:
    """Return the nodes of the longest path, given the upward ranks: from the highest, each time the successor that
    gave it its rank."""
    path = [int(up.argmax())]
    while True:
        edges = dag.outgoing[dag.after[path[-1]] : dag.after[path[-1] + 1]]
        if not len(edges):
            return path
        path.append(int(dag.target[edges[(up[dag.target[edges]] + dag.transfer[edges] * share).argmax()]]))


def optimistic_cost_table(dag: Dag, times: Floats, slowness: float) -> Floats:
    """Return, per node and worker, the least time from the node's end on that worker to the end of what depends on it,
    were every worker free."""
    table = np.zeros_like(times)
    target, moved = dag.target[dag.outgoing], dag.transfer[dag.outgoing] * slowness
    after = dag.after.tolist()
    for node in range(len(dag) - 1, -1, -1):
        edges = slice(after[node], after[node + 1])
        if edges.start < edges.stop:
            here = table[target[edges]] + times[target[edges]]
            elsewhere = here.min(axis=1) + moved[edges]
            table[node] = np.minimum(here, elsewhere[:, None]).max(axis=0)
    return table


def order_by_priority(dag: Dag, priority: Floats) -> Iterable[int]:
    """Yield the nodes: of those whose sources have all been yielded, the one of the highest priority."""
    waits = np.diff(dag.before).tolist()
    target, after = dag.target[dag.outgoing].tolist(), dag.after.tolist()
    key = (-priority).tolist()
    ready = [(key[node], node) for node in range(len(dag)) if not waits[node]]
    heapify(ready)
    while ready:
        _, node = heappop(ready)
        yield node
        for reader in target[after[node] : after[node + 1]]:
            waits[reader] -= 1
            if not waits[reader]:
                heappush(ready, (key[reader], reader))


# ---- time on workers -----------------------------------------------------------------------------------------------


class WorkerTimeline:
    """The busy and idle time of workers, while nodes are placed one by one, each after all of its inputs."""

    def __init__(self, dag: Dag, platform: Platform, times: Floats | None = None) -> None:
        self.times = np.divide.outer(dag.seconds, platform.speed) if times is None else times
        if self.times.shape != (len(dag), len(platform)):
            raise PlanError(
                f"times must be given per node and worker, ({len(dag)}, {len(platform)}), got {self.times.shape}"
            )
        self.averaged = replace(dag, seconds=self.times.mean(axis=1))
        """The graph with the mean time of each node."""
        workers = self.times.shape[1]
        self._source: list[int] = dag.source.tolist()
        self._before: list[int] = dag.before.tolist()
        self._moved: list[float] = (dag.transfer * platform.slowness).tolist()
        self._worker = [-1] * len(dag)
        self._start = [0.0] * len(dag)
        self._finish = [0.0] * len(dag)
        # Idle gaps, a row per worker, in no order; of a row, the first `_gaps` entries count, the others fit nothing.
        self._from = np.full((workers, 8), np.inf)
        self._to = np.full((workers, 8), -np.inf)
        self._from[:, 0], self._to[:, 0] = 0.0, np.inf
        self._gaps = [1] * workers
        # A gap shorter than any node is forgotten (a little less than any: what fits is decided by sums).
        self._shortest = (self.times.min(axis=0, initial=np.inf) * (1 - 1e-9)).tolist()

    def place(self, node: int, on: int | None = None, later: Floats | None = None) -> None:
        """Place a node where it ends first, or ends first with `later` (workers,) added; or on the worker `on`."""
        ready = self._ready(node)
        took = self.times[node]
        width = max(self._gaps)
        begin = np.maximum(self._from[:, :width], ready[:, None])
        fits = begin + took[:, None] <= self._to[:, :width]
        begin = np.where(fits, begin, np.inf)
        if on is None:
            finish = begin.min(axis=1) + took
            on = int((finish if later is None else finish + later).argmin())
        gap = int(begin[on].argmin())
        start = float(begin[on, gap])
        self._worker[node], self._start[node] = on, start
        self._finish[node] = finish_at = start + float(took[on])
        self._fill(on, gap, start, finish_at)

    def _ready(self, node: int) -> Floats:
        """Return, per worker, the arrival of the last input of a node there."""
        first, last = self._before[node], self._before[node + 1]
        # Per worker with a source: the end of the last one, and the arrival of the last one on another worker.
        ends: dict[int, float] = {}
        comes: dict[int, float] = {}
        for edge in range(first, last):
            source = self._source[edge]
            worker, finish = self._worker[source], self._finish[source]
            ends[worker] = max(ends.get(worker, 0.0), finish)
            comes[worker] = max(comes.get(worker, 0.0), finish + self._moved[edge])
        latest = max(comes.values(), default=0.0)
        ready = np.full(len(self._gaps), latest)
        for worker, finish in ends.items():
            if comes[worker] < latest:
                continue  # another worker's value is the last to come, here too
            ready[worker] = max([finish, *(come for other, come in comes.items() if other != worker)])
        return ready

    def _fill(self, worker: int, gap: int, start: float, finish: float) -> None:
        """Take the time from `start` to `finish` out of a gap."""
        since, until = float(self._from[worker, gap]), float(self._to[worker, gap])
        count, shortest = self._gaps[worker], self._shortest[worker]
        # equal times: also where nodes of no time exist, a gap of none is none
        kept = [(one, two) for one, two in ((since, start), (finish, until)) if two - one >= shortest and two > one]
        count -= 1
        self._from[worker, gap], self._to[worker, gap] = self._from[worker, count], self._to[worker, count]
        self._from[worker, count], self._to[worker, count] = np.inf, -np.inf
        for one, two in kept:
            if count == self._from.shape[1]:
                self._from = np.pad(self._from, ((0, 0), (0, count)), constant_values=np.inf)
                self._to = np.pad(self._to, ((0, 0), (0, count)), constant_values=-np.inf)
            self._from[worker, count], self._to[worker, count] = one, two
            count += 1
        self._gaps[worker] = count

    def schedule(self) -> Schedule:
        """Return the schedule, after every node has been placed."""
        return Schedule(np.array(self._worker, np.int64), np.array(self._start), np.array(self._finish))
