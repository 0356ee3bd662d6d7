"""The critical path of a task graph: upward ranks, levels, the path's length, and a lower bound on schedules.

Placement takes nodes by these ranks and stops at the bound; clustering of large graphs uses ranks and levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .dag import Dag, EdgeLists, Floats, Indices, Platform


def longest_times(order: Iterable[int], seconds: Sequence[float], edges: EdgeLists, share: float) -> list[float]:
    """Return, per node, the longest time from its start along the given edges, `share` of each edge's time counted.

    `order` has the nodes, each after those that its edges lead to.
    """
    bounds, other, transfer = edges
    longest = list(seconds)
    for node in order:
        most = 0.0
        for edge in range(bounds[node], bounds[node + 1]):
            way = transfer[edge] * share + longest[other[edge]]
            if way > most:
                most = way
        longest[node] += most
    return longest


def upward_rank(dag: Dag, share: float) -> Floats:
    """Return, per node, the longest time from its start to the end of what depends on it, `share` of each edge's time
    counted (Topcuoglu, Hariri and Wu, 2002)."""
    return np.array(longest_times(range(len(dag) - 1, -1, -1), dag.seconds.tolist(), dag.edges_out(), share))


def node_levels(dag: Dag) -> Indices:
    """Return, per node, the number of edges on the longest way to it."""
    return np.array(longest_times(range(len(dag)), [1.0] * len(dag), dag.edges_in(), 0.0), np.int64) - 1


def critical_path(dag: Dag) -> float:
    """Return the longest time along any way through the graph, with nothing moved: no schedule is shorter on workers
    of speed 1."""
    return float(upward_rank(dag, 0.0).max(initial=0.0))


def lower_bound(dag: Dag, platform: Platform) -> float:
    """Return a time below which no schedule can be: the critical path on the fastest worker, or all work on all."""
    return max(critical_path(dag) / float(platform.speed.max()), float(dag.seconds.sum() / platform.speed.sum()))
