"""Nodes in an order in which each comes after those that it reads from.

The numbers of nodes are such an order in the graph that a client submits. They are none where memory limits have added
nodes (`graph_rewriter`), and times of a schedule, which are not exact, are none either.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from raygrad.proto.ir.graph import Graph, makers


def reading_order(graph: Graph, nodes: Iterable[int]) -> list[int]:
    """Return some nodes of a graph in their order, but for those that would come before one that they read from.

    O(n log n) in these nodes and what they read, and O(nodes of the graph).
    """
    order = list(nodes)
    rank = {node: place for place, node in enumerate(order)}
    maker = makers(graph)
    readers: dict[int, list[int]] = {}
    missing: dict[int, int] = {}
    for node in order:
        inputs = graph.nodes[node].inputs
        sources = {source for value in inputs if value >= 0 and (source := maker[value]) in rank}
        missing[node] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(node)
    ready = [rank[node] for node in order if not missing[node]]
    heapify(ready)
    made: list[int] = []
    while ready:
        node = order[heappop(ready)]
        made.append(node)
        for reader in readers.get(node, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, rank[reader])
    return made
