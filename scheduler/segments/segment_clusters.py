"""Segments of clusters: the schedule of a clustered graph, cut into blocks that can be submitted in order (H6).

`clustered_planner` calls it after placement. Nodes come by their start; each joins the open block of its worker. A
block is closed when a node on another worker reads from it: after the node that is read, if what follows would delay
the reader by more than a call costs. It is also closed before a node that is predicted to wait for longer than that,
before one that reads what nothing in it waits for if it holds heavy work, and where it would hold more than other
workers have left (`block_cuts`). No other worker reads from an open block, so all that a closed block reads was closed
before: blocks can be submitted in the order in which they are closed, and no two wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ..model.dag import Dag, Schedule
from .block_cuts import HeldWork

WORTH_LATE_CUT: Final = 50.0
"""Work, in calls, for which a block is closed whatever the predictions say: large graphs have many transfers, and no
more than a part in so many of the work goes to such calls."""


class ClusterSegments(NamedTuple):
    """All blocks in plan order, and the predicted end of the last one."""

    blocks: list[list[int]]
    """Per block, its nodes in the order in which they run."""
    worker: list[int]
    """Per block."""
    seconds: float


def segment_clusters(
    dag: Dag,
    schedule: Schedule,
    workers: int,
    call_seconds: float,
    held: Mapping[int, Sequence[tuple[int, float]]] | None = None,
    last: int = -1,
) -> ClusterSegments:
    """Return the blocks of a schedule on equal workers.

    `held` has, per node that reads externals held by workers, (worker, seconds of the transfer to another worker).
    Node `last`, if there is one, ends the last block; nothing may read it.
    """
    return _ClusterSegmenter(dag, schedule, workers, call_seconds).run(held or {}, last)


class _ClusterSegmenter:
    """One call of `segment_clusters`."""

    def __init__(self, dag: Dag, schedule: Schedule, workers: int, call_seconds: float) -> None:
        self.dag = dag
        self.call = call_seconds
        self.schedule = schedule
        self.worker: list[int] = schedule.worker.tolist()
        self.seconds: list[float] = dag.seconds.tolist()
        self.listed: list[list[int]] = [[] for _ in range(workers)]
        """Per worker, its nodes so far: those of its closed blocks, then those of the open one."""
        self.begin = [0] * workers
        """Per worker, where its open block begins in that list: closing a block moves no node, however long it is."""
        self.place = [0] * len(dag)
        """Per node, its place in that list."""
        self.upto = [[0.0] for _ in range(workers)]
        """Per worker and place, the work before it."""
        self.latest: list[deque[int]] = [deque() for _ in range(workers)]
        """Per worker, the nodes of its open block whose inputs arrive later than those of all nodes after them."""
        self.work = [0.0] * workers  # of the open block
        self.ready = [0.0] * workers  # arrival of the last input of the open block
        self.free = [0.0] * workers  # end of the last closed block
        self.arrival = [0.0] * len(dag)
        self.ended = [-1.0] * len(dag)  # per node, the end of its block; -1 while it is open
        self.block_of = [-1] * len(dag)
        self.waited: list[dict[int, int]] = [{} for _ in range(workers)]
        """Per worker, the last block of each other worker that it has waited for, or that its open block waits for."""
        self.heavy = WORTH_LATE_CUT * call_seconds
        self.held = HeldWork(np.bincount(schedule.worker, dag.seconds, workers).tolist(), call_seconds)
        self.limit = [self.held.limits(worker) for worker in range(workers)]
        self.blocks: list[list[int]] = []
        self.block_worker: list[int] = []

    def run(self, held: Mapping[int, Sequence[tuple[int, float]]], last: int) -> ClusterSegments:
        dag, worker, ended, call = self.dag, self.worker, self.ended, self.call
        before, source, transfer = dag.edges_in()
        order: list[int] = np.lexsort((np.arange(len(dag)), self.schedule.start)).tolist()
        if last >= 0:
            order.remove(last)
            order.append(last)
        for node in order:
            home, arrival, late, begins = worker[node], 0.0, False, True
            waited = self.waited[home]
            for edge in range(before[node], before[node + 1]):
                one = source[edge]
                if worker[one] != home:
                    if ended[one] < 0:
                        self._close_after(worker[one], one)
                    if ended[one] + transfer[edge] > arrival:
                        arrival = ended[one] + transfer[edge]
                    if self.block_of[one] > waited.get(worker[one], -1):
                        waited[worker[one]], late = self.block_of[one], True
                elif ended[one] < 0:
                    begins = False
            for where, moved in held.get(node, ()):
                if where != home:
                    arrival = max(arrival, moved)
            if self.begin[home] < len(self.listed[home]):
                start, work = max(self.free[home], self.ready[home]), self.work[home]
                if (
                    min(arrival - start, work) > call
                    or (late and work > self.heavy)
                    or (work > self.heavy and work + self.seconds[node] > self.limit[home][not begins])
                ):
                    self._close(home, len(self.listed[home]))
            self._append(home, node, arrival)
            if arrival > self.ready[home]:
                self.ready[home] = arrival
        ends_last = worker[last] if last >= 0 else -1
        for one, nodes in enumerate(self.listed):
            if self.begin[one] < len(nodes) and one != ends_last:
                self._close(one, len(nodes))
        if ends_last >= 0:
            self._close(ends_last, len(self.listed[ends_last]))
        return ClusterSegments(self.blocks, self.block_worker, max(self.free, default=0.0))

    def _append(self, worker: int, node: int, arrival: float) -> None:
        """Let a node join the open block of a worker."""
        nodes, upto, latest = self.listed[worker], self.upto[worker], self.latest[worker]
        self.place[node] = len(nodes)
        nodes.append(node)
        upto.append(upto[-1] + self.seconds[node])
        self.arrival[node] = arrival
        while latest and self.arrival[latest[-1]] <= arrival:
            latest.pop()
        latest.append(node)
        self.work[worker] += self.seconds[node]

    def _close_after(self, worker: int, node: int) -> None:
        """Close the open block of a worker after one of its nodes, or wholly if not much follows."""
        upto, count = self.upto[worker], self.place[node] + 1
        self._close(worker, count if upto[-1] - upto[count] > self.call else len(upto) - 1)

    def _close(self, worker: int, count: int) -> None:
        """Close the open block of a worker before the place `count` of its list."""
        nodes, upto, latest = self.listed[worker], self.upto[worker], self.latest[worker]
        taken = nodes[self.begin[worker] : count]
        work = sum([self.seconds[node] for node in taken])
        start = max(self.free[worker], max([self.arrival[node] for node in taken]))
        end = self.free[worker] = start + self.call + work
        for node in taken:
            self.ended[node] = end
            self.block_of[node] = len(self.blocks)
        self.held.done[worker] += work
        self.limit[worker] = self.held.limits(worker)
        self.blocks.append(taken)
        self.block_worker.append(worker)
        self.begin[worker] = count
        while latest and self.place[latest[0]] < count:
            latest.popleft()
        self.work[worker] = upto[-1] - upto[count]
        self.ready[worker] = self.arrival[latest[0]] if latest else 0.0
