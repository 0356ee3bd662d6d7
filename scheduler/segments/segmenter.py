"""The segmenter: a placed graph, cut into blocks that can be submitted in order (H6), with their predicted time.

Placement compares candidates by it. The result is one topological order of all nodes, cut into blocks of one worker
each, so that the quotient graph is acyclic for any placement. Convex sets would not suffice: in the exchange
`a=f(x); c=f(y); d=g(y,a); b=g(x,c)` with {a,b} and {c,d} on two workers, each pair is convex and yet no order of the
two exists; here one of the pairs is cut.

The order is found by Kahn's algorithm, staying on one worker for as long as it has a ready node. Among ready nodes
those come first that depend on the earliest blocks of other workers, then those on which heavy work of other workers
depends, then those that complete what was begun (depth first). `block_cuts` says where such a block is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from ..model.costs import Costs
from ..model.priced_graph import NodeEdges, PricedGraph
from .block_cuts import HEAVY_CALLS, Block, Segmentation, split_blocks

PRELUDE_SHARE: Final = 0.02
"""The share of a worker's work that a prelude may take: other workers have enough to do until it has ended."""


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
        worker = node_worker[0]
        blocks = [Block(worker, list(range(len(nodes))))]
        work = sum(priced.seconds)
        uncut = not costs.more_come and work <= costs.recovery_time
        if uncut and all(home == -1 for home in residency):  # nothing is waited for, or moves
            return Segmentation(blocks, max(costs.call_seconds + work, costs.client_seconds))
        return split_blocks(priced, None, blocks, node_worker, residency, costs)
    blocks = _BlockMaker(priced, links, node_worker, costs).run()
    return split_blocks(priced, links, blocks, node_worker, residency, costs)


class _BlockMaker:
    """Makes the coarsest blocks: a topological order that changes worker only when it must."""

    def __init__(self, priced: PricedGraph, links: NodeEdges, node_worker: Sequence[int], costs: Costs) -> None:
        self.links = links
        self.node_worker = node_worker
        self.seconds = priced.seconds
        count = len(node_worker)
        self.held_back = count - 1 if priced.graph.open_ended else -1  # nothing reads it: it can always go last
        self.missing = [len(one) for one in links.before]
        self.late = [-1] * count
        """Per node, the last block of another worker that it depends on; -1 for none, and for blocks of preludes."""
        self.soon = [False] * count
        """Per node, whether it reads what the prelude of another worker makes."""
        self.blocks: list[Block] = []
        self.ready: list[list[tuple[int, int, int]]] = [[] for _ in range(max(node_worker) + 1)]
        self.arrival = max(
            costs.hop_seconds + HEAVY_CALLS * costs.call_seconds,
            PRELUDE_SHARE * sum(self.seconds) / len(self.ready),
        )
        """Work of a worker before it turns to what it awaits from preludes: they have ended then."""
        ways = _longest_ways(self.seconds, links, node_worker)
        heavy = HEAVY_CALLS * costs.call_seconds
        self.prelude = [
            away > heavy and head <= self.arrival and index != self.held_back
            for index, (head, away) in enumerate(zip(ways.head, ways.remote, strict=True))
        ]
        """Per node, whether it is among the first things to do: what it makes is soon there, and heavy work of another
        worker depends on it."""
        self.wish = _order_wishes(self.seconds, links, [away > heavy for away in ways.remote], costs.call_seconds)

    def run(self) -> list[Block]:
        for index, missing in enumerate(self.missing):
            if not missing and index != self.held_back:
                self.ready[self.node_worker[index]].append((-1, self.wish[index], index))
        if any(self.prelude):
            everything = self.ready
            self.ready = [[one for one in heap if self.prelude[one[2]]] for heap in everything]
            self._run(only_prelude=True)
            for heap, rest in zip(self.ready, everything, strict=True):
                heap += [one for one in rest if not self.prelude[one[2]]]
        self._run(only_prelude=False)
        if self.held_back >= 0:
            worker = self.node_worker[self.held_back]
            if self.blocks and self.blocks[-1].worker == worker:
                self.blocks[-1].nodes.append(self.held_back)
            else:
                self.blocks.append(Block(worker, [self.held_back]))
        return self.blocks

    def _run(self, only_prelude: bool) -> None:
        """Make blocks of all nodes that become ready, or of those of preludes."""
        later: list[tuple[int, int, int, int]] = []
        for heap in self.ready:
            heapify(heap)
        while any(self.ready):
            worker = min((one for one, heap in enumerate(self.ready) if heap), key=lambda one: self.ready[one][0])
            self._block(worker, later if only_prelude else None)
        for worker, *entry in later:
            late, wish, index = entry
            self.ready[worker].append((late, wish, index))

    def _block(self, worker: int, later: list[tuple[int, int, int, int]] | None) -> None:
        """Make the next block of a worker; with `later`, of its prelude, leaving all else there."""
        heap, number = self.ready[worker], -1 if later is not None else len(self.blocks)
        node_worker, late, missing, soon = self.node_worker, self.late, self.missing, self.soon
        block: list[int] = []
        waiting: list[tuple[int, int, int]] = []
        work = 0.0
        while heap or waiting:
            if waiting and (not heap or work > self.arrival):
                for entry in waiting:
                    heappush(heap, entry)
                waiting, work = [], float("inf")
            entry = heappop(heap)
            index = entry[2]
            if soon[index] and work <= self.arrival:
                waiting.append(entry)
                continue
            block.append(index)
            work += self.seconds[index]
            for reader in self.links.after[index]:
                other = node_worker[reader]
                if other == worker:
                    reached = late[index]
                else:
                    reached = number
                    soon[reader] = soon[reader] or number < 0
                if reached > late[reader]:
                    late[reader] = reached
                missing[reader] -= 1
                if missing[reader] or reader == self.held_back:
                    continue
                if later is None or self.prelude[reader]:
                    heappush(self.ready[other], (late[reader], self.wish[reader], reader))
                else:
                    later.append((other, late[reader], self.wish[reader], reader))
        self.blocks.append(Block(worker, block))


class _LongestWays(NamedTuple):
    """Longest ways through the graph, in seconds of work."""

    head: list[float]
    """Per node, from any source to its end."""
    remote: list[float]
    """Per node, from the next change of worker after it to the end; 0.0 if there is none."""


def _longest_ways(seconds: Sequence[float], links: NodeEdges, node_worker: Sequence[int]) -> _LongestWays:
    head = [0.0] * len(seconds)
    for index, before in enumerate(links.before):
        longest = 0.0
        for source in before:
            if head[source] > longest:
                longest = head[source]
        head[index] = longest + seconds[index]
    rank, remote = [0.0] * len(seconds), [0.0] * len(seconds)
    for index in range(len(seconds) - 1, -1, -1):
        longest = away = 0.0
        worker = node_worker[index]
        for reader in links.after[index]:
            way = rank[reader]
            if way > longest:
                longest = way
            if node_worker[reader] == worker:
                way = remote[reader]
            if way > away:
                away = way
        rank[index], remote[index] = longest + seconds[index], away
    return _LongestWays(head, remote)


def _order_wishes(seconds: Sequence[float], links: NodeEdges, urgent: Sequence[bool], call_seconds: float) -> list[int]:
    """Return each node's place in the order that blocks keep as far as they can: urgent nodes before others; depth
    first, light sources before heavy ones, so that a branch is completed before the next one is begun."""
    count = len(seconds)
    missing = [len(one) for one in links.before]
    sources = [index for index in range(count - 1, -1, -1) if not missing[index]]
    stack = [index for index in sources if seconds[index] > call_seconds]
    stack += [index for index in sources if seconds[index] <= call_seconds]
    wish, place = [0] * count, 0
    while stack:
        index = stack.pop()
        wish[index] = place if urgent[index] else place + count
        place += 1
        for reader in reversed(links.after[index]):
            missing[reader] -= 1
            if not missing[reader]:
                stack.append(reader)
    return wish
