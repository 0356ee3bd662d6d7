"""The best schedule there is, by trying all of them: for graphs of up to nine nodes on two or three workers.

Nothing in common with what it judges but `Dag` and `Schedule`.

Some best schedule starts every node as early as what it reads and the node before it on its worker allow. So it is
found by giving nodes to workers one by one, in the order of their starts, each at the end of what its worker has.
Branches that cannot end before the best one known are left.
"""

from __future__ import annotations

import numpy as np

from raygrad.scheduler.model.dag import Dag, Platform, Schedule


def optimum(dag: Dag, platform: Platform) -> Schedule:
    """Return a schedule of the least makespan."""
    return _Trial(dag, platform).best()


class _Trial:
    def __init__(self, dag: Dag, platform: Platform) -> None:
        self.seconds = dag.seconds.tolist()
        self.speed = platform.speed.tolist()
        self.reads = [
            [
                (int(dag.source[edge]), float(dag.transfer[edge]) * platform.slowness)
                for edge in range(dag.before[node], dag.before[node + 1])
            ]
            for node in range(len(dag))
        ]
        fastest, self.tail = max(self.speed), [0.0] * len(dag)
        for node in range(len(dag) - 1, -1, -1):
            self.tail[node] += self.seconds[node] / fastest
            for source, _ in self.reads[node]:
                self.tail[source] = max(self.tail[source], self.tail[node])
        self.free = [0.0] * len(self.speed)
        self.worker, self.start, self.finish = [-1] * len(dag), [0.0] * len(dag), [0.0] * len(dag)
        self.makespan, self.found = np.inf, (self.worker, self.start, self.finish)

    def best(self) -> Schedule:
        self.extend(0.0, sum(self.seconds), len(self.seconds))
        worker, start, finish = self.found
        return Schedule(np.array(worker, np.int64), np.array(start), np.array(finish))

    def extend(self, since: float, work: float, left: int) -> None:
        """Try every next node on every worker, starting at `since` or later; `left` nodes of `work` seconds remain."""
        if not left:
            self.makespan = max(self.finish, default=0.0)
            self.found = (self.worker[:], self.start[:], self.finish[:])
            return
        for finish, start, node, worker in sorted(self.choices(since)):
            kept = self.free[worker]
            self.worker[node], self.start[node], self.finish[node], self.free[worker] = worker, start, finish, finish
            remains = work - self.seconds[node]
            if self.bound(start, remains) < self.makespan * (1 - 1e-12):
                self.extend(start, remains, left - 1)
            self.worker[node], self.free[worker] = -1, kept

    def choices(self, since: float) -> list[tuple[float, float, int, int]]:
        """Return (finish, start, node, worker) of what may come next; of empty workers of one speed only the first."""
        found: list[tuple[float, float, int, int]] = []
        for node, reads in enumerate(self.reads):
            if self.worker[node] >= 0 or any(self.worker[source] < 0 for source, _ in reads):
                continue
            empty: set[float] = set()
            for worker, speed in enumerate(self.speed):
                if worker not in self.worker:
                    if speed in empty:
                        continue
                    empty.add(speed)
                start = max(
                    [self.free[worker]]
                    + [self.finish[one] + (move if self.worker[one] != worker else 0.0) for one, move in reads]
                )
                if start >= since:
                    found.append((start + self.seconds[node] / speed, start, node, worker))
        return found

    def bound(self, since: float, work: float) -> float:
        """Return a time before which nothing can end in which the rest starts at `since` or later."""
        busy = sum(max(free, since) * speed for free, speed in zip(self.free, self.speed, strict=True))
        ends = [self.finish[node] for node, worker in enumerate(self.worker) if worker >= 0]
        for node, reads in enumerate(self.reads):
            if self.worker[node] < 0:
                come = [self.finish[source] for source, _ in reads if self.worker[source] >= 0]
                ends.append(max([since, *come]) + self.tail[node])
        return max([(busy + work) / sum(self.speed) if work else 0.0, *ends])
