"""A minimum-memory order: one topological order of all nodes that needs little memory, by a heuristic.

`execution_order` uses it as a candidate for the base order, from which it departs only within the limit. Nothing is
made before a demand-driven traversal from the graph's ends needs it (so that the cotangent of a gradient is not held
while forward runs), and a node that frees as much memory as it takes runs as early as possible (a sum of gradients, a
backward). The minimum itself is hard to find; this order completes one branch of a graph before it begins the next.
O((nodes + edges) log nodes).
"""

from __future__ import annotations

from heapq import heappop, heappush

from ..model.priced_graph import NodeEdges, PricedGraph


def min_memory_order(priced: PricedGraph, links: NodeEdges) -> list[int]:
    """Return all nodes in a topological order that needs little memory. The last node of an open-ended graph stays
    last."""
    nodes, size, maker = priced.graph.nodes, priced.size, priced.maker
    demanded = _demand_order(priced, links)
    held_back = len(nodes) - 1 if priced.graph.open_ended else -1
    readers: list[list[int]] = [[] for _ in size]
    for index, node in enumerate(nodes):
        for value in set(node.inputs):
            if value >= 0 and maker[value] >= 0:
                readers[value].append(index)
    left = list(map(len, readers))  # per value, readers that have not run, and 1 if it is kept
    for value, _ in priced.graph.keep:
        left[value] += 1
    taken = [0] * len(nodes)  # per node, the bytes live after it less those live before it
    for index, node in enumerate(nodes):
        first = priced.first[index]
        taken[index] = sum([size[value] for value in range(first, first + len(node.outputs)) if left[value]])
    for value, count in enumerate(left):
        if count == 1 and readers[value]:
            taken[readers[value][0]] -= size[value]
    missing = [len(one) for one in links.before]
    ready: list[tuple[bool, int, int]] = []  # (takes memory, place in the demand order, node)
    done = bytearray(len(nodes))
    for index, count in enumerate(missing):
        if not count and index != held_back:
            heappush(ready, (taken[index] > 0, demanded[index], index))
    order: list[int] = []
    while ready:
        index = heappop(ready)[2]
        if done[index]:
            continue  # it was entered again when it turned out to free memory
        done[index] = 1
        order.append(index)
        for value in set(nodes[index].inputs):
            if value < 0 or not readers[value]:
                continue
            left[value] -= 1
            if left[value] == 1:
                for reader in readers[value]:
                    if not done[reader]:
                        taken[reader] -= size[value]
                        if not missing[reader] and taken[reader] <= 0 and reader != held_back:
                            heappush(ready, (False, demanded[reader], reader))
        for reader in links.after[index]:
            missing[reader] -= 1
            if not missing[reader] and reader != held_back:
                heappush(ready, (taken[reader] > 0, demanded[reader], reader))
    if held_back >= 0:
        order.append(held_back)
    return order


def _demand_order(priced: PricedGraph, links: NodeEdges) -> list[int]:
    """Return, per node, its place in a depth-first postorder from the ends of the graph over inputs.

    Ends of backward come first (a sum of losses demands all of forward), then the ends farthest from the start.
    """
    count = len(links.before)
    depth = [0] * count
    backward = [bool(node.depth) for node in priced.graph.nodes]
    for index, before in enumerate(links.before):
        if before:
            depth[index] = 1 + max([depth[one] for one in before])
            backward[index] = backward[index] or any([backward[one] for one in before])
    ends = [index for index in range(count) if not links.after[index]]
    maker, nodes = priced.maker, priced.graph.nodes
    place = [-1] * count
    number = 0
    for end in sorted(ends, key=lambda index: (not backward[index], -depth[index], index)):
        stack = [end]
        while stack:
            index = stack[-1]
            if place[index] >= 0:
                stack.pop()
                continue
            pending = [
                maker[value] for value in nodes[index].inputs if value >= 0 and maker[value] >= 0 > place[maker[value]]
            ]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            place[index] = number
            number += 1
    return place
