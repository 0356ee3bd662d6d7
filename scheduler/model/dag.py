"""A task graph as NumPy arrays of times and edges, with platform, schedule, ranks and lower bounds.

The placement algorithms of large graphs and the baselines compute on it. Nodes are in topological order: every edge
goes from a lower index to a higher one. Times are seconds on a worker of speed 1. `upward_rank` is HEFT's rank on these
arrays; `placing.problem.upward_rank` is the same rank on adjacency lists, where the search for schedules needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raygrad.errors import PlanError

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Dag:
    """Work and what it hands on. Make one with `dag_of`."""

    seconds: Floats
    """(nodes,) The time that each node takes."""
    source: Indices
    """(edges,) The node that makes what an edge carries; edges are sorted by (target, source)."""
    target: Indices
    """(edges,) The node that reads it; higher than its source."""
    transfer: Floats
    """(edges,) The time that an edge takes between two different workers; nothing on one and the same."""
    before: Indices
    """(nodes + 1,) Edges `before[i]:before[i + 1]` are those into node i."""
    outgoing: Indices
    """(edges,) Edge numbers sorted by (source, target)."""
    after: Indices
    """(nodes + 1,) `outgoing[after[i]:after[i + 1]]` are the edges out of node i."""

    def __len__(self) -> int:
        return len(self.seconds)


def dag_of(seconds: ArrayLike, source: ArrayLike, target: ArrayLike, transfer: ArrayLike) -> Dag:
    """Return a graph from its nodes' times and its edges, in any order; edges between the same nodes are kept apart.

    Raises PlanError if arrays do not fit together, a time is negative or not finite, or an edge leads nowhere or back.
    """
    times = np.ascontiguousarray(seconds, np.float64)
    src, dst = np.asarray(source, np.int64), np.asarray(target, np.int64)
    cost = np.asarray(transfer, np.float64)
    count = len(times)
    if not src.shape == dst.shape == cost.shape or times.ndim != 1 or src.ndim != 1:
        raise PlanError(f"edges need equal lengths, got {src.shape} sources, {dst.shape} targets, {cost.shape} times")
    if not (np.isfinite(times).all() and np.isfinite(cost).all()) or min(times.min(initial=0), cost.min(initial=0)) < 0:
        raise PlanError("times of nodes and edges must be finite and not negative")
    if len(src) and not (src.min() >= 0 and (src < dst).all() and dst.max() < count):
        raise PlanError(f"every edge must go from a node to a later one of the {count}")
    order = np.lexsort((src, dst))
    src, dst, cost = src[order], dst[order], cost[order]
    return Dag(
        seconds=times,
        source=src,
        target=dst,
        transfer=cost,
        before=np.searchsorted(dst, np.arange(count + 1)),
        outgoing=(outgoing := np.lexsort((dst, src))),
        after=np.searchsorted(src[outgoing], np.arange(count + 1)),
    )


def dag_of_merged_edges(seconds: Floats, source: Indices, target: Indices, transfer: Floats) -> Dag:
    """Return a graph from its nodes' times and its edges, in any order; edges between the same nodes become one, with
    the longest of their times. Nothing is checked: for what was computed from a graph that was."""
    count = len(seconds)
    key = target * count + source
    if len(key) > 1 and (key[1:] < key[:-1]).any():
        sort = np.argsort(key, kind="stable")
        key, transfer = key[sort], transfer[sort]
    begins = np.flatnonzero(np.diff(key, prepend=-1))
    if len(begins) < len(key):
        key, transfer = key[begins], np.maximum.reduceat(transfer, begins)
    target, source = np.divmod(key, max(count, 1))
    before, after = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(target, minlength=count), out=before[1:])
    np.cumsum(np.bincount(source, minlength=count), out=after[1:])
    return Dag(
        seconds=seconds,
        source=source,
        target=target,
        transfer=transfer,
        before=before,
        outgoing=np.argsort(source, kind="stable"),
        after=after,
    )


@dataclass(frozen=True, eq=False)
class Platform:
    """The workers that a graph may be placed on."""

    speed: Floats
    """(workers,) A node of t seconds takes t / speed."""
    slowness: float = 1.0
    """Factor on the time of every edge between two workers."""

    @classmethod
    def of(cls, workers: int) -> Platform:
        """Return `workers` equal workers of speed 1."""
        return cls(np.ones(workers))

    def __len__(self) -> int:
        return len(self.speed)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Which worker runs each node, and when."""

    worker: Indices
    """(nodes,)"""
    start: Floats
    """(nodes,) Seconds since the start of the run."""
    finish: Floats
    """(nodes,)"""
    makespan: float = field(init=False)
    """When the last node ends."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "makespan", float(self.finish.max(initial=0.0)))


def check_schedule(schedule: Schedule, dag: Dag, platform: Platform) -> None:
    """Raise PlanError, saying where, unless every node runs once, for its time, after what it reads has come, and
    alone on its worker. Times may be off by rounding."""
    if not len(schedule.worker) == len(schedule.start) == len(schedule.finish) == len(dag):
        raise PlanError("a schedule must have one entry per node")
    if not len(dag):
        return
    if schedule.worker.min() < 0 or schedule.worker.max() >= len(platform):
        raise PlanError("a node is on no worker")
    slack = 1e-9 * max(schedule.makespan, 1e-300)
    wrong = np.flatnonzero(
        (schedule.start < -slack)
        | (np.abs(schedule.finish - schedule.start - dag.seconds / platform.speed[schedule.worker]) > slack)
    )
    if len(wrong):
        raise PlanError(f"node {wrong[0]} does not run for its time")
    crosses = schedule.worker[dag.source] != schedule.worker[dag.target]
    arrival = schedule.finish[dag.source] + np.where(crosses, dag.transfer * platform.slowness, 0.0)
    early = np.flatnonzero(schedule.start[dag.target] < arrival - slack)
    if len(early):
        raise PlanError(f"node {dag.target[early[0]]} starts before what node {dag.source[early[0]]} makes has come")
    order = np.lexsort((schedule.finish, schedule.start, schedule.worker))
    same = schedule.worker[order[1:]] == schedule.worker[order[:-1]]
    overlap = np.flatnonzero(same & (schedule.start[order[1:]] < schedule.finish[order[:-1]] - slack))
    if len(overlap):
        one, other = order[overlap[0]], order[overlap[0] + 1]
        raise PlanError(f"nodes {one} and {other} run at once on worker {schedule.worker[one]}")


def node_levels(dag: Dag) -> Indices:
    """Return, per node, the number of edges on the longest way to it."""
    level = np.zeros(len(dag), np.int64)
    source: list[int] = dag.source.tolist()
    before: list[int] = dag.before.tolist()
    known: list[int] = level.tolist()
    for node in range(len(dag)):
        first, last = before[node], before[node + 1]
        if first < last:
            known[node] = 1 + max([known[one] for one in source[first:last]])
    level[:] = known
    return level


def critical_path(dag: Dag) -> float:
    """Return the longest time along any way through the graph, with nothing moved: no schedule is shorter on workers
    of speed 1."""
    end: list[float] = [0.0] * len(dag)
    seconds: list[float] = dag.seconds.tolist()
    source: list[int] = dag.source.tolist()
    before: list[int] = dag.before.tolist()
    for node, cost in enumerate(seconds):
        first, last = before[node], before[node + 1]
        end[node] = cost + (max([end[one] for one in source[first:last]]) if first < last else 0.0)
    return max(end, default=0.0)


def lower_bound(dag: Dag, platform: Platform) -> float:
    """Return a time below which no schedule can be: the critical path on the fastest worker, or all work on all."""
    if not len(dag):
        return 0.0
    return max(critical_path(dag) / float(platform.speed.max()), float(dag.seconds.sum() / platform.speed.sum()))


def upward_rank(dag: Dag, share: float) -> Floats:
    """Return, per node, the longest time from its start to the end of what depends on it, `share` of each edge's time
    counted (Topcuoglu, Hariri and Wu, 2002)."""
    rank = dag.seconds.tolist()
    target = dag.target[dag.outgoing].tolist()
    moved = (dag.transfer[dag.outgoing] * share).tolist()
    after = dag.after.tolist()
    for node in range(len(rank) - 1, -1, -1):
        first, last = after[node], after[node + 1]
        if first < last:
            rank[node] += max(
                [move + rank[one] for move, one in zip(moved[first:last], target[first:last], strict=True)]
            )
    return np.array(rank)
