"""A placement problem as adjacency lists, in either direction of time: the form in which list scheduling is fastest.

`listing` and `refining` work on it. Its lists are built once, in O(nodes + edges), and never changed. `turned` is the
same problem with time reversed: a schedule of one, read from its end, is one of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from ..model.critical_path import longest_times
from ..model.dag import Dag, EdgeLists, Indices, Platform

Edges: TypeAlias = list[list[tuple[int, float]]]
"""Per node, its neighbours on one side and the seconds that the edge takes between two workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementProblem:
    """A task graph, the workers' paces, and the constraints on placement."""

    seconds: list[float]
    """Per node, its time on a worker of speed 1."""
    edges_before: EdgeLists
    edges_after: EdgeLists
    before: Edges
    """The same edges, per node."""
    after: Edges
    pace: list[float]
    """Per worker, the seconds that it takes for a second of work."""
    group: list[int]
    """Per node, the name of its group of nodes that share a worker: the index of one of them."""
    fixed: list[int]
    """Per group, its only worker; -1 if there is a choice."""
    allowed: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """Per group that not every worker can run, those that can, ascending."""
    backwards: bool = False
    """Time runs backwards, and so do the edges: they go from a higher index to a lower one."""

    def __len__(self) -> int:
        return len(self.seconds)

    def order(self) -> range:
        """Return the nodes in a topological order."""
        return range(len(self) - 1, -1, -1) if self.backwards else range(len(self))

    def upward_rank(self, share: float) -> list[float]:
        """Return HEFT's upward rank of each node: the longest time from its start to the end of a successor, on a
        worker of average pace, with `share` of each edge's time."""
        pace = sum(self.pace) / len(self.pace)
        return longest_times(reversed(self.order()), [one * pace for one in self.seconds], self.edges_after, share)

    def depth_first_order(self) -> list[int]:
        """Return the nodes in a topological order in which nodes that have just become ready come first."""
        return depth_first_order(self.order(), self.edges_before, self.edges_after)

    def turned(self) -> PlacementProblem:
        """Return the problem with time reversed. It shares the lists."""
        return PlacementProblem(
            seconds=self.seconds,
            edges_before=self.edges_after,
            edges_after=self.edges_before,
            before=self.after,
            after=self.before,
            pace=self.pace,
            group=self.group,
            fixed=self.fixed,
            allowed=self.allowed,
            backwards=not self.backwards,
        )


def problem_of_dag(
    dag: Dag,
    platform: Platform,
    group: list[int] | None = None,
    fixed: list[int] | None = None,
    allowed: Mapping[int, tuple[int, ...]] | None = None,
) -> PlacementProblem:
    """Return the problem of placing `dag` on `platform`; by default each node is a group of its own."""
    count = len(dag)
    before, after = dag.edges_in(platform.slowness), dag.edges_out(platform.slowness)
    return PlacementProblem(
        seconds=dag.seconds.tolist(),
        edges_before=before,
        edges_after=after,
        before=_edges_by_node(before),
        after=_edges_by_node(after),
        pace=(1.0 / platform.speed).tolist(),
        group=list(range(count)) if group is None else group,
        fixed=[-1] * count if fixed is None else fixed,
        allowed={} if allowed is None else allowed,
    )


def _edges_by_node(edges: EdgeLists) -> Edges:
    pairs = list(zip(edges.other, edges.transfer, strict=True))
    return [pairs[first:last] for first, last in pairwise(edges.bounds)]


def order_by_falling(problem: PlacementProblem, key: list[float]) -> list[int]:
    """Return the nodes by falling key; a topological order if no node's key is below that of one after it."""
    values = -np.array(key)
    if problem.backwards:
        order: Indices = len(key) - 1 - np.argsort(values[::-1], kind="stable")
    else:
        order = np.argsort(values, kind="stable")
    return order.tolist()


def depth_first_order(order: range, before: EdgeLists, after: EdgeLists) -> list[int]:
    """Return the nodes in a topological order in which nodes that have just become ready come first. `order` is any
    topological order; `before` and `after` are the edges of each node against and along it."""
    bounds, reader, _ = after
    missing = [last - first for first, last in pairwise(before.bounds)]
    stack = [node for node in reversed(order) if not missing[node]]
    found: list[int] = []
    while stack:
        node = stack.pop()
        found.append(node)
        for edge in range(bounds[node + 1] - 1, bounds[node] - 1, -1):
            other = reader[edge]
            missing[other] -= 1
            if not missing[other]:
                stack.append(other)
    return found
