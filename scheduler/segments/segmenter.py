"""The segmenter: a placed graph, cut into blocks that can be submitted in order (H6), with their predicted time.

Placement compares candidates by it. The result is one topological order of all nodes, cut into blocks of one worker
each, so that the quotient graph is acyclic for any placement. Convex sets would not suffice: in the exchange
`a=f(x); c=f(y); d=g(y,a); b=g(x,c)` with {a,b} and {c,d} on two workers, each pair is convex and yet no order of the
two exists; here one of the pairs is cut. A block is cut further only where a worker would wait for longer than a call
costs.

The order is found by Kahn's algorithm, staying on one worker for as long as it has a ready node. Among ready nodes,
those with fewer changes of worker behind them go first, then program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ..model.costs import Costs
from ..model.priced_graph import NodeEdges, PricedGraph


class Block(NamedTuple):
    """A unit of nodes of one worker, in the order in which they run."""

    worker: int
    nodes: list[int]


class Segmentation(NamedTuple):
    """All blocks in plan order, and the predicted end of the last one."""

    blocks: list[Block]
    seconds: float


def segment_graph(
    priced: PricedGraph, links: NodeEdges | None, node_worker: Sequence[int], residency: Sequence[int], costs: Costs
) -> Segmentation:
    """Return the graph in blocks whose quotient is acyclic, and their predicted time.

    `links` may be None where all nodes are on one worker. With an open-ended graph the last node ends the last block.
    """
    nodes = priced.graph.nodes
    if not nodes:
        return Segmentation([], 0.0)
    if links is None or all(worker == node_worker[0] for worker in node_worker):
        blocks = [Block(node_worker[0], list(range(len(nodes))))]
        return WaitSplitter(priced, node_worker, residency, costs).run(blocks)
    return split_blocks(
        priced, links, _coarsest_blocks(links, node_worker, priced.graph.open_ended), node_worker, residency, costs
    )


def split_blocks(
    priced: PricedGraph,
    links: NodeEdges,
    blocks: Sequence[Block],
    node_worker: Sequence[int],
    residency: Sequence[int],
    costs: Costs,
) -> Segmentation:
    """Return blocks, split where a worker would wait for longer than a call costs, and their predicted time."""
    pieces: list[Block] = []
    awaited = _awaited(links, node_worker)
    for block in blocks:
        pieces.extend(_cut_after_awaited(block, awaited, priced.seconds, costs.call_seconds))
    return WaitSplitter(priced, node_worker, residency, costs).run(pieces)


def _coarsest_blocks(links: NodeEdges, node_worker: Sequence[int], open_ended: bool) -> list[Block]:
    """Return the coarsest blocks: a topological order that changes worker only when it must."""
    count = len(node_worker)
    missing = [len(one) for one in links.before]
    changes = [0] * count  # changes of worker on the longest way (in changes) from any source to the node
    ready: list[list[tuple[int, int]]] = [[] for _ in range(max(node_worker) + 1)]
    held_back = count - 1 if open_ended else -1  # nothing reads it: it can always go last
    for index in range(count):
        if not missing[index] and index != held_back:
            ready[node_worker[index]].append((0, index))
    for heap in ready:
        heapify(heap)
    blocks: list[Block] = []
    while any(ready):
        worker = min((worker for worker, heap in enumerate(ready) if heap), key=lambda worker: ready[worker][0])
        heap = ready[worker]
        block: list[int] = []
        while heap:
            depth, index = heappop(heap)
            block.append(index)
            for reader in links.after[index]:
                other = node_worker[reader]
                reached = depth + (other != worker)
                if reached > changes[reader]:
                    changes[reader] = reached
                missing[reader] -= 1
                if not missing[reader] and reader != held_back:
                    heappush(ready[other], (changes[reader], reader))
        blocks.append(Block(worker, block))
    if open_ended:
        if blocks and blocks[-1].worker == node_worker[held_back]:
            blocks[-1].nodes.append(held_back)
        else:
            blocks.append(Block(node_worker[held_back], [held_back]))
    return blocks


def _awaited(links: NodeEdges, node_worker: Sequence[int]) -> list[bool]:
    """Return, per node, whether another worker reads one of its outputs."""
    return [
        any(node_worker[reader] != worker for reader in after)
        for worker, after in zip(node_worker, links.after, strict=True)
    ]


def _cut_after_awaited(
    block: Block, awaited: Sequence[bool], seconds: Sequence[float], call_seconds: float
) -> list[Block]:
    """Cut a block after nodes that another worker waits for, where what follows would delay it by more than a call.

    Nodes awaited within one call's time of each other share a cut, so that cuts are at least that far apart.
    """
    worker, nodes = block
    pieces: list[Block] = []
    begin = 0
    cut_at = -1  # the place of the next cut: after the last node that shares it; -1 while no node is awaited
    delay = follow = 0.0  # work since the first and since the last node that shares the cut
    for position, index in enumerate(nodes):
        delay += seconds[index]
        follow += seconds[index]
        if cut_at >= 0 and (follow > call_seconds or (awaited[index] and delay > call_seconds)):
            pieces.append(Block(worker, nodes[begin:cut_at]))
            begin, cut_at = cut_at, -1
        if awaited[index]:
            if cut_at < 0:
                delay = 0.0
            cut_at, follow = position + 1, 0.0
    pieces.append(Block(worker, nodes[begin:]))
    return pieces


class InputArrivals:
    """The arrival of what nodes read, in a placed graph: at once on the worker that makes or holds it, after a transfer
    on another."""

    def __init__(self, priced: PricedGraph, node_worker: Sequence[int], residency: Sequence[int]) -> None:
        self._nodes, self._maker, self._transfer = priced.graph.nodes, priced.maker, priced.transfer
        self._node_worker, self._residency = node_worker, residency

    def last(self, index: int, ended: Sequence[float]) -> float:
        """Return when the last input of a node has arrived on its worker. `ended` has the end of each node."""
        arrival, maker, node_worker = 0.0, self._maker, self._node_worker
        worker = node_worker[index]
        for value in self._nodes[index].inputs:
            if value < 0:
                continue
            source = maker[value]
            if source >= 0:
                came = ended[source]
                if node_worker[source] != worker:
                    came += self._transfer[value]
            else:
                came = 0.0 if self._residency[value] in (-1, worker) else self._transfer[value]
            if came > arrival:
                arrival = came
        return arrival


@dataclass(slots=True)
class WaitSplitter:
    """Computes the time of blocks in plan order, and splits them where they would wait for another worker."""

    priced: PricedGraph
    node_worker: Sequence[int]
    residency: Sequence[int]
    costs: Costs

    def run(self, blocks: Sequence[Block]) -> Segmentation:
        """Return the blocks, split where waiting for other workers would delay what comes before, and the time.

        A block that runs up to a node at which it must wait gains, by being cut there, the shorter of the wait and
        the work done before; that has to be more than the call which the cut costs.
        """
        call = self.costs.call_seconds
        seconds = self.priced.seconds
        free = [0.0] * (max((block.worker for block in blocks), default=0) + 1)  # per worker, the end of its last block
        ended = [0.0] * len(seconds)  # per node, the end of its block
        pieces: list[Block] = []
        last_arrival = InputArrivals(self.priced, self.node_worker, self.residency).last
        for worker, nodes in blocks:
            begin, start, work = 0, free[worker], 0.0
            for position, index in enumerate(nodes):
                arrival = last_arrival(index, ended)
                if arrival > start:
                    if min(arrival - start, work) > call:
                        start = self._close(pieces, worker, nodes[begin:position], start + call + work, ended)
                        begin, work = position, 0.0
                    start = max(start, arrival)
                work += seconds[index]
            free[worker] = self._close(pieces, worker, nodes[begin:], start + call + work, ended)
        return Segmentation(pieces, max(*free, len(pieces) * self.costs.client_seconds))

    @staticmethod
    def _close(pieces: list[Block], worker: int, nodes: list[int], end: float, ended: list[float]) -> float:
        """Add one piece that ends at `end`; return that time."""
        pieces.append(Block(worker, nodes))
        for index in nodes:
            ended[index] = end
        return end
