"""Cuts of blocks: where a worker's unbroken run of nodes becomes several segments, and the predicted time of all.

`segmenter` and `execution_order` order the nodes; the cuts keep their order. A segment starts when all of its inputs
are there and hands on its outputs when it ends, so that a block is cut

- before a node that reads something of another worker or of an earlier run, which nothing before it waits for, if heavy
  work precedes it: whenever that value comes, since predictions are wrong, and that run may not have ended;
- before a node that is predicted to wait for longer than a call costs;
- after nodes that other workers wait for, if heavy work follows, and heavy work of these workers depends on them;
- where it would hold more than may be lost with a worker (`Costs.recovery_time`);
- between independent work where the segment would hold more than other workers have left, so that it can be given to
  another worker before it has started; all on one worker likewise, where more workers may come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ..model.costs import Costs
from ..model.priced_graph import NodeEdges, PricedGraph

HEAVY_CALLS: Final = 4.0
"""Work is heavy if it takes more than this many calls: then a call more for it does not matter."""
UNDELAYED_SECONDS: Final = 0.010
"""Work of this many seconds does not wait for a value that an earlier run makes on the same worker."""
LEAVE_CALLS: Final = 2.0
"""Work after a node that other workers wait for, in calls, for which they are not made to wait."""
MOVABLE_SECONDS: Final = 0.010
MOVABLE_SHARE: Final = 0.05
"""No segment of several nodes holds more work than the larger of these seconds and this share of the makespan beyond
what other workers have left."""
LEFT_SHARE: Final = 0.5
"""The share of what other workers have left that a segment holds, if it can be cut between independent work: as in
guided self-scheduling (Polychronopoulos and Kuck, 1987), segments become smaller towards the end."""
WORTH_CUTS: Final = 50.0
"""Such a segment is not cut below the time of this many cuts."""


class Block(NamedTuple):
    """A unit of nodes of one worker, in the order in which they run."""

    worker: int
    nodes: list[int]


class Segmentation(NamedTuple):
    """All blocks in plan order, and the predicted end of the last one."""

    blocks: list[Block]
    seconds: float


def split_blocks(
    priced: PricedGraph,
    links: NodeEdges | None,
    blocks: Sequence[Block],
    node_worker: Sequence[int],
    residency: Sequence[int],
    costs: Costs,
) -> Segmentation:
    """Return blocks, cut where that pays, and their predicted time. `links` may be None where all nodes are on one
    worker."""
    return _BlockCutter(priced, blocks, node_worker, residency, costs).run(links)


def input_arrivals(
    priced: PricedGraph, node_worker: Sequence[int], residency: Sequence[int]
) -> Callable[[int, Sequence[float]], float]:
    """Return a function of a node and the end of each node: when the last of what the node reads is on its worker, at
    once if it is made or held there, after a transfer otherwise."""
    nodes, maker, transfer = priced.graph.nodes, priced.maker, priced.transfer

    def last_arrival(index: int, ended: Sequence[float]) -> float:
        arrival, worker = 0.0, node_worker[index]
        for value in nodes[index].inputs:
            if value < 0:
                continue
            source = maker[value]
            if source >= 0:
                came = ended[source]
                if node_worker[source] != worker:
                    came += transfer[value]
            else:
                came = 0.0 if residency[value] in (-1, worker) else transfer[value]
            if came > arrival:
                arrival = came
        return arrival

    return last_arrival


class HeldWork:
    """How much work segments may hold, by what other workers have left.

    Args:
        load: per worker, all of its work.
        cut_seconds: what a cut costs.
        more_come: whether workers may join that could take over what has not begun.
        bound: what a segment holds at most, of several nodes.
    """

    def __init__(
        self, load: list[float], cut_seconds: float, more_come: bool = False, bound: float = float("inf")
    ) -> None:
        self.load = load
        self._bound = bound
        self._more_come = more_come
        self.done = [0.0] * len(load)
        """Per worker, the work in its closed segments."""
        self._whole = sum(load)
        self._movable = max(MOVABLE_SECONDS, MOVABLE_SHARE * max(load, default=0.0))
        self._worth = WORTH_CUTS * cut_seconds

    def limits(self, worker: int) -> tuple[float, float]:
        """Return the work that a worker's next segment holds if it ends between independent nodes, and at most."""
        others = len(self.load) - 1
        if self._whole == self.load[worker]:  # one worker is best
            share = max(self._movable, self._worth) if self._more_come else float("inf")
            return min(share, self._bound), self._bound
        left = max((self._whole - self.load[worker]) / others - self.done[worker], 0.0)
        share = max(self._movable, min(left, max(LEFT_SHARE * left, self._worth)))
        return min(share, self._bound), min(self._movable + left, self._bound)


class _BlockCutter:
    """One call of `split_blocks`. A piece is a part of a block between two cuts."""

    def __init__(
        self,
        priced: PricedGraph,
        blocks: Sequence[Block],
        node_worker: Sequence[int],
        residency: Sequence[int],
        costs: Costs,
    ) -> None:
        self.priced = priced
        self.blocks = blocks
        self.node_worker = node_worker
        self.residency = residency
        self.costs = costs
        self.heavy = HEAVY_CALLS * costs.call_seconds
        self.undelayed = max(self.heavy, UNDELAYED_SECONDS)
        count, workers = len(priced.seconds), max([block.worker for block in blocks], default=0) + 1
        self.pieces: list[Block] = []
        self.starts: list[float] = []  # per piece, in the order in which they were cut
        self.piece = [-1] * count  # per node, its piece; -1 while that is open
        self.chain = [0.0] * count  # per node, the longest chain in its piece that ends with it
        self.ended = [0.0] * count  # per node, the end of its piece
        self.free = [0.0] * workers  # per worker, the end of its last piece
        self.waited: list[dict[int, int]] = [{} for _ in range(workers)]
        """Per worker, the last piece of each other worker that it waited for; by -1 - value, values of earlier runs."""
        load = [0.0] * workers
        for worker, nodes in blocks:
            load[worker] += sum([priced.seconds[index] for index in nodes])
        self.held = HeldWork(load, costs.call_seconds + costs.follow_seconds, costs.more_come, costs.recovery_time)

    def run(self, links: NodeEdges | None) -> Segmentation:
        seconds = self.priced.seconds
        unlocks = None if links is None else _unlocked_seconds(self.blocks, links, self.node_worker, seconds)
        for block in self.blocks:
            ends = set[int]() if unlocks is None else _leave_early(block, unlocks, seconds, self.costs)
            self._cut(block, ends)
        shortest = len(self.pieces) * self.costs.client_seconds
        return Segmentation(self._in_order_of_starts(), max(*self.free, 0.0, shortest))

    def _cut(self, block: Block, ends: set[int]) -> None:
        """Cut one block, at the given places and where nodes would wait or too much would be held."""
        worker, nodes = block
        seconds, call, heavy = self.priced.seconds, self.costs.call_seconds, self.heavy
        waited, chains = self.waited[worker], self.chain
        begin, start, work = 0, self.free[worker], 0.0
        share, most = self.held.limits(worker)
        for position, index in enumerate(nodes):
            took = seconds[index]
            arrival, late, far, chain = self._inputs(index, worker)
            if position > begin and (
                position in ends
                or (late and work > (heavy if far else self.undelayed))
                or (arrival - start > call and work > call)
                or (
                    work > heavy
                    and work + took > (share if chain <= heavy else most) + (heavy if took <= call else 0.0)
                )
            ):
                start = self._close(worker, nodes[begin:position], start, work)
                begin, work, chain = position, 0.0, 0.0
                share, most = self.held.limits(worker)
            for other, piece in late:
                if piece > waited.get(other, -1):
                    waited[other] = piece
            if arrival > start:
                start = arrival
            work += took
            chains[index] = chain + took
        self._close(worker, nodes[begin:], start, work)

    def _inputs(self, index: int, worker: int) -> tuple[float, Sequence[tuple[int, int]], bool, float]:
        """Return of what a node reads: when the last of it is predicted to be on the worker; (worker, piece) of what
        other workers make, and (-1 - value, 0) of what earlier runs do, and no earlier node has waited for; whether
        some of that is on other workers; the work of the longest chain of nodes in the open piece that it depends
        on."""
        node_worker, maker, transfer = self.node_worker, self.priced.maker, self.priced.transfer
        ended, piece = self.ended, self.piece
        arrival = chain = 0.0
        late: Sequence[tuple[int, int]] = ()
        far = False
        for value in self.priced.graph.nodes[index].inputs:
            if value < 0:
                continue
            source = maker[value]
            if source < 0:
                came = 0.0 if self.residency[value] in (-1, worker) else transfer[value]
                if self.residency[value] >= 0 and -1 - value not in self.waited[worker]:
                    late = (*late, (-1 - value, 0))
                    far = far or self.residency[value] != worker
            elif (other := node_worker[source]) != worker:
                came = ended[source] + transfer[value]
                if piece[source] > self.waited[worker].get(other, -1):
                    late = (*late, (other, piece[source]))
                    far = True
            else:
                came = ended[source]
                if piece[source] < 0 and self.chain[source] > chain:
                    chain = self.chain[source]
            if came > arrival:
                arrival = came
        return arrival, late, far, chain

    def _in_order_of_starts(self) -> list[Block]:
        """Return the pieces as they are predicted to start: the client sends them one after the other, and no worker is
        to wait until all of another one's are sent. What a piece reads has ended before, so it stays behind that."""
        order = sorted(range(len(self.pieces)), key=self.starts.__getitem__)
        if self.priced.graph.open_ended:
            order.sort(key=(len(order) - 1).__eq__)
        return [self.pieces[number] for number in order]

    def _close(self, worker: int, nodes: list[int], start: float, work: float) -> float:
        """Enter a piece, and return its predicted end."""
        end = start + self.costs.call_seconds + work
        for index in nodes:
            self.piece[index] = len(self.pieces)
            self.ended[index] = end
        self.pieces.append(Block(worker, nodes))
        self.starts.append(start)
        self.free[worker] = end
        self.held.done[worker] += work
        return end


def _unlocked_seconds(
    blocks: Sequence[Block], links: NodeEdges, node_worker: Sequence[int], seconds: Sequence[float]
) -> dict[int, float]:
    """Return, per node that another worker reads from, the work there that can start when it has ended, all else being
    there: nodes for which it is the last node of another worker in plan order."""
    count = len(seconds)
    place, order = [0] * count, [index for block in blocks for index in block.nodes]
    for position, index in enumerate(order):
        place[index] = position
    last = [-1] * count
    unlocked: dict[int, float] = {}
    for index in order:
        worker, found = node_worker[index], -1
        for source in links.before[index]:
            if node_worker[source] == worker:
                if last[source] > found:
                    found = last[source]
            else:
                unlocked.setdefault(source, 0.0)
                if place[source] > found:
                    found = place[source]
        last[index] = found
        if found >= 0:
            unlocked[order[found]] += seconds[index]
    return unlocked


def _leave_early(block: Block, unlocks: dict[int, float], seconds: Sequence[float], costs: Costs) -> set[int]:
    """Return the places in a block where it is cut so that what other workers wait for leaves early: where the work
    that they can do with it takes longer than a call, and what follows in the block longer than LEAVE_CALLS.

    Nodes within the time of LEAVE_CALLS share a cut, so that cuts are at least that far apart.
    """
    nodes, call, apart = block.nodes, costs.call_seconds, LEAVE_CALLS * costs.call_seconds
    awaited = [index for index in nodes if index in unlocks]
    if not awaited:
        return set()
    places: set[int] = set()
    cut_at = -1  # the place of the next cut: after the last node that shares it; -1 while none is worth it
    waiting = delay = follow = 0.0  # what waits for a cut; work since the first and the last node that shares it
    for position, index in enumerate(nodes):
        delay += seconds[index]
        follow += seconds[index]
        awaits = index in unlocks
        if cut_at >= 0 and (follow > apart or (awaits and delay > apart)):
            places.add(cut_at)
            cut_at, waiting = -1, 0.0
        if awaits:
            waiting += unlocks[index]
            if index == awaited[-1]:
                waiting += call + costs.hop_seconds  # of the last segments that others run for this one
            if cut_at >= 0 or waiting > call:
                if cut_at < 0:
                    delay = 0.0
                cut_at, follow = position + 1, 0.0
    return places
