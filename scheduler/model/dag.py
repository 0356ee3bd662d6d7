"""A task graph as NumPy arrays of times and edges, with the platform that runs it and the schedule there.

All placement computes on it. Nodes are in topological order: every edge goes from a lower index to a higher one. Times
are seconds on a worker of speed 1. `critical_path` has its ranks and bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raygrad.errors import PlanError

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


class EdgeLists(NamedTuple):
    """The edges on one side of every node as flat lists: a loop over lists is faster than one over arrays."""

    bounds: list[int]
    """(nodes + 1,) Edges `bounds[i]:bounds[i + 1]` are those of node i."""
    other: list[int]
    """(edges,) The node at the other end."""
    transfer: list[float]
    """(edges,) The time that the edge takes between two workers."""


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

    def edges_in(self, slowness: float = 1.0) -> EdgeLists:
        """Return the edges into each node, with `slowness` times their time."""
        return EdgeLists(self.before.tolist(), self.source.tolist(), (self.transfer * slowness).tolist())

    def edges_out(self, slowness: float = 1.0) -> EdgeLists:
        """Return the edges out of each node, with `slowness` times their time."""
        out = self.outgoing
        return EdgeLists(self.after.tolist(), self.target[out].tolist(), (self.transfer[out] * slowness).tolist())


def dag_of(seconds: ArrayLike, source: ArrayLike, target: ArrayLike, transfer: ArrayLike) -> Dag:
    """Return a graph from its nodes' times and its edges as `dag_of_merged_edges` does, with all of them checked.

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
    return dag_of_merged_edges(times, src, dst, cost)


def dag_of_merged_edges(seconds: Floats, source: Indices, target: Indices, transfer: Floats) -> Dag:
    """Return a graph from its nodes' times and its edges, in any order; edges between the same nodes become one, with
    the longest of their times. Nothing is checked: for what was computed from a graph that was."""
    count = len(seconds)
    key = target * count + source
    if len(key) > 1 and (key[1:] < key[:-1]).any():
        sort = np.argsort(key, kind="stable")
        key, transfer = key[sort], transfer[sort]
    differs = key[1:] != key[:-1]
    if not differs.all():
        begins = np.append(0, np.flatnonzero(differs) + 1)
        key, transfer = key[begins], np.maximum.reduceat(transfer, begins)
    target, source = np.divmod(key, max(count, 1))
    before, after = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    np.bincount(target, minlength=count).cumsum(out=before[1:])
    np.bincount(source, minlength=count).cumsum(out=after[1:])
    return Dag(
        seconds=seconds,
        source=source,
        target=target,
        transfer=transfer,
        before=before,
        outgoing=source.argsort(kind="stable"),
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
