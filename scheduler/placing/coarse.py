"""Clustering (coarsening) of a large task graph: nodes that had better run on one worker are merged.

`clustered_planner` places the smaller graph instead of the large one. The small graph has no cycle, and its nodes are
in topological order. Every step merges nodes in one of two ways that cannot make a cycle:

- A node joins the cluster that contains all its inputs. Every path into a cluster then leads through its first node, so
  that a cycle of clusters would be one of nodes. The same holds with time reversed. A node joins if it is the likeliest
  to run next, or if all that depends on it is not worth a transfer.
- Nodes on one level (edges on the longest path to a node) join, for none depends on another.

Nodes that are bound together (`near`) must be placed on one worker later; so that this does not bind all nodes in the
end, the nodes of a cluster are bound to one other cluster at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model.arrays import offsets
from ..model.critical_path import node_levels, upward_rank
from ..model.dag import Dag, Floats, Indices, dag_of_merged_edges

TARGET_CLUSTERS = 40_000
"""The desired number of clusters: placing them takes a second or two."""
MAX_CLUSTERS = 150_000
"""The largest number of clusters: beyond it nodes of wide levels are merged at any loss."""
NARROW_LEVEL = 64
"""Levels up to this width are not merged: their nodes are the parallelism of the graph."""
MERGE_PASSES = 6
"""Passes of merging over the graph, forwards and backwards in turn."""
MIN_MERGEABLE = 0.4
"""No pass is made if the share of nodes with one neighbour on a side is below this: too few would join."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ClusteredDag:
    """A task graph of clusters."""

    dag: Dag
    cluster: Indices
    """Per node of the large graph, its node in `dag`."""
    demand: Indices
    """Per node of `dag`, the number of its constraints: equal numbers mean equal allowed workers."""
    bound: Indices
    """Per node of `dag`, the node whose worker it must share: itself if none."""


def coarsen(
    dag: Dag, demand: Indices, bound: Indices, workers: int, nodes: int = TARGET_CLUSTERS, most: int = MAX_CLUSTERS
) -> ClusteredDag:
    """Return the graph with nodes merged to clusters.

    `demand` has the number of each node's constraints, and only nodes with equal ones are merged. `bound` has the node
    whose worker it must share, itself if none; that node comes before it and is bound to itself.
    """
    coarse = ClusteredDag(dag=dag, cluster=np.arange(len(dag)), demand=demand, bound=bound)
    grain = float(np.median(dag.transfer)) if len(dag.transfer) else 0.0
    cap = max(2.0 * grain, 2.0 * float(dag.seconds.sum()) / nodes)
    coarse = _merge(coarse, _chain_heads(dag, demand, bound), np.arange(len(dag)))
    for turn in range(MERGE_PASSES):
        dag, size = coarse.dag, len(coarse.dag)
        backwards = turn % 2 == 1
        if size <= max(workers, nodes // 8):
            break
        if (np.diff(dag.after if backwards else dag.before) == 1).sum() <= MIN_MERGEABLE * size:
            continue
        if backwards:
            last = size - 1
            joined = _grow_clusters(_time_reversed(dag), coarse.demand[::-1], last - coarse.bound[::-1], grain, cap)
            joined = last - joined[::-1]
        else:
            joined = _grow_clusters(dag, coarse.demand, coarse.bound, grain, cap)
        coarse = _merge(coarse, joined, np.arange(size))
    if len(coarse.dag) > nodes:
        coarse = _merge(coarse, *_merge_levels(coarse, workers, nodes, most))
    return coarse


def one_cluster(dag: Dag, demand: Indices) -> ClusteredDag:
    """Return the graph as one cluster, for one worker, which can run all of it."""
    whole = ClusteredDag(dag=dag, cluster=np.arange(len(dag)), demand=demand, bound=np.arange(len(dag)))
    return _merge(whole, np.zeros(len(dag), np.int64), np.arange(len(dag)))


def _merge(coarse: ClusteredDag, joined: Indices, order: Indices) -> ClusteredDag:
    """Return the graph in which nodes with equal `joined`, the index of one of them, are one. `order` has a number per
    node; those of clusters' nodes `joined` must be a topological order of the clusters."""
    dag = coarse.dag
    leaders = np.flatnonzero(joined == np.arange(len(dag)))
    leaders = leaders[np.argsort(order[leaders], kind="stable")]
    number = np.empty(len(dag), np.int64)
    number[leaders] = np.arange(len(leaders))
    label = number[joined]
    source, target = label[dag.source], label[dag.target]
    between = source != target
    source, target, transfer = source[between], target[between], dag.transfer[between]
    return ClusteredDag(
        dag=dag_of_merged_edges(
            np.bincount(label, dag.seconds, len(leaders)).astype(np.float64), source, target, transfer
        ),
        cluster=label[coarse.cluster],
        demand=coarse.demand[leaders],
        bound=_cluster_bounds(coarse.bound, label, len(leaders)),
    )


def _cluster_bounds(bound: Indices, label: Indices, clusters: int) -> Indices:
    """Return, per cluster, the cluster that one of its nodes is bound to, itself if none is bound to another."""
    found = np.arange(clusters)
    away = np.flatnonzero(label[bound] != label)
    found[label[away]] = label[bound[away]]
    return found


def _time_reversed(dag: Dag) -> Dag:
    """Return the graph with time reversed."""
    last, edges = len(dag) - 1, len(dag.source)
    place = np.empty(edges, np.int64)
    place[dag.outgoing] = np.arange(edges)
    outgoing = dag.outgoing[::-1]
    return Dag(
        seconds=dag.seconds[::-1],
        source=last - dag.target[outgoing],
        target=last - dag.source[outgoing],
        transfer=dag.transfer[outgoing],
        before=edges - dag.after[::-1],
        outgoing=edges - 1 - place[::-1],
        after=edges - dag.before[::-1],
    )


def _chain_heads(dag: Dag, demand: Indices, bound: Indices) -> Indices:
    """Return, per node, the first node of its chain. In a chain each node is the only reader of the previous one and
    reads nothing else, so that merging loses nothing. Bound nodes are in no chain."""
    count = len(dag)
    single = np.diff(dag.before) == 1
    only = np.zeros(count, np.int64)
    only[single] = dag.source[dag.before[:-1][single]]
    free = bound == np.arange(count)
    free[bound[~free]] = False
    link = single & (np.diff(dag.after)[only] == 1) & (demand[only] == demand) & free & free[only]
    head = list(range(count))
    for node, source in zip(np.flatnonzero(link).tolist(), only[link].tolist(), strict=True):
        head[node] = head[source]
    return np.array(head, np.int64)


def _grow_clusters(dag: Dag, demands: Indices, bounds: Indices, grain: float, cap: float) -> Indices:
    """Return, per node, the first node of its cluster; a node joins the cluster that contains all its inputs."""
    ranks = upward_rank(dag, 0.0)
    seconds: list[float] = dag.seconds.tolist()
    rank: list[float] = ranks.tolist()
    demand: list[int] = demands.tolist()
    bound: list[int] = bounds.tolist()
    source: list[int] = dag.source.tolist()
    before: list[int] = dag.before.tolist()
    next_to_run = _next_to_run(dag, ranks)
    head = list(range(len(seconds)))
    ties = _ClusterTies(bound, head)
    load: list[float] = seconds[:]
    first = 0
    for node, last in enumerate(before[1:]):
        if first < last:
            cluster = head[source[first]]
            for edge in range(first + 1, last):
                if head[source[edge]] != cluster:
                    break
            else:
                if (
                    load[cluster] + seconds[node] <= cap
                    and (rank[node] <= grain or node in map(next_to_run.__getitem__, source[first:last]))
                    and demand[cluster] == demand[node]
                    and ties.allow(node, cluster)
                ):
                    head[node] = cluster
                    load[cluster] += seconds[node]
        if head[node] == node:
            ties.begin(node)
        first = last
    return np.array(head, np.int64)


def _next_to_run(dag: Dag, rank: Floats) -> list[int]:
    """Return, per node, its reader with the highest rank; -1 for none."""
    found = np.full(len(dag), -1)
    if len(dag.source):
        readers = dag.target[dag.outgoing]
        some = np.flatnonzero(np.diff(dag.after))
        most = np.maximum.reduceat(rank[readers], dag.after[some])
        of = dag.source[dag.outgoing]
        best = np.flatnonzero(rank[readers] == np.repeat(most, np.diff(dag.after)[some]))[::-1]
        found[of[best]] = readers[best]  # the last one written is the first
    return found.tolist()


class _ClusterTies:
    """Bindings of growing clusters: a cluster is bound to one other at most, and then no other is bound to it."""

    def __init__(self, bound: list[int], head: list[int]) -> None:
        self._bound = bound
        self._head = head
        self._tied = list(range(len(bound)))  # per cluster, what it is bound to; itself if to nothing else
        self._holds = [False] * len(bound)  # per node, whether others are bound to it; per cluster, to a node of it
        for node, other in enumerate(bound):
            if other != node:
                self._holds[other] = True

    def begin(self, node: int) -> None:
        """Enter a cluster's first node."""
        if self._bound[node] != node:
            self._tied[node] = self._known(node)

    def allow(self, node: int, cluster: int) -> bool:
        """Return whether a node may join a cluster, and enter it if so."""
        tied = self._tied[cluster]
        if self._bound[node] == node:
            if not self._holds[node]:
                return True
            if tied not in (cluster, node):
                return False
            self._tied[cluster], self._holds[cluster] = cluster, True
            return True
        to = self._known(node)
        if to in (cluster, tied):
            return True
        if tied != cluster or self._holds[cluster]:
            return False
        self._tied[cluster] = to
        return True

    def _known(self, node: int) -> int:
        """Return the cluster that a node is bound to, or the node that it is bound to if that is in no cluster yet."""
        to = self._bound[node]
        return self._head[to] if to < node else to


def _merge_levels(coarse: ClusteredDag, workers: int, nodes: int, most: int) -> tuple[Indices, Indices]:
    """Return, per node, the first node of its cluster on its level, and the levels."""
    dag = coarse.dag
    level = node_levels(dag)
    by_level = np.argsort(level, kind="stable")
    width = np.bincount(level)
    ends = offsets(width)
    parts = np.minimum(width, np.maximum(workers, width * nodes // len(dag)))
    parts = np.where(width <= NARROW_LEVEL, width, parts)
    if parts.sum() > most:
        parts = np.where(width <= NARROW_LEVEL, width, np.maximum(NARROW_LEVEL, parts * most // parts.sum()))
    reads = np.full(len(dag), -1)
    heavy = np.lexsort((-dag.source, dag.transfer, dag.target))
    reads[dag.target[heavy]] = dag.source[heavy]  # the last one written is the heaviest
    joined = np.arange(len(dag))
    for one in np.flatnonzero(parts < width).tolist():
        members = by_level[ends[one] : ends[one + 1]]
        to = coarse.bound[members]
        to = np.where(to == members, -1, joined[to])
        near = np.where(reads[members] >= 0, joined[reads[members]], -1)
        sort = np.lexsort((near, to, coarse.demand[members]))
        members, to = members[sort], to[sort]
        work = np.cumsum(dag.seconds[members])
        share = max(float(work[-1]) / int(parts[one]), 1e-300)
        part = ((work - dag.seconds[members] / 2) / share).astype(np.int64)
        demand = coarse.demand[members]
        begins = np.ones(len(members), np.bool_)
        begins[1:] = (np.diff(part) != 0) | (np.diff(to) != 0) | (np.diff(demand) != 0)
        joined[members] = members[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    return joined, level
