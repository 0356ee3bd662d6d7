"""The order of each worker's nodes: the fastest of a few orders that keep the worker's memory limit.

It runs after placement and moves no node to another worker. Orders under a limit come from list scheduling in virtual
time (`list_scheduling_under_limits`): of the nodes whose inputs have arrived, one that frees memory goes first, then
the one that comes first in a base order, which is the least demanding of `min_memory_order`, program order and the
order of placement. A node that needs more memory starts only if the remaining nodes can still be run within the limit
(`AdmissionLedger`). So branches of one graph come out one forward, one backward in turn, without any notion of
microbatches. If no base order fits, `spill_limits` adds spills and rematerialisation.

Without limits the order of placement stays, unless it needs much memory: then orders under a few assumed limits are
tried, and of those that are as fast as any the one with the least memory is taken. The segments of a worker with a
limit are chained in their order (`chain_segments`): else it would run ahead into memory that it does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from raygrad.errors import PlanError
from raygrad.proto.ir.nodes import Node

from ..model.costs import Costs
from ..model.graph_rewriter import RewrittenGraph
from ..model.memory_spaces import HOST, MemorySpace, limited_spaces
from ..model.plan import Cluster, Segment
from ..model.plan_errors import plan_error
from ..model.priced_graph import NodeEdges, PricedGraph, node_edges
from ..segments.block_cuts import Block, Segmentation, split_blocks
from .list_scheduling_under_limits import LimitedListScheduler, sequences_of_order
from .memory_ledger import MemoryUse
from .min_memory_order import min_memory_order
from .spill_limits import plan_spills

WORTH_BYTES = 32 * 2**20
"""Orders are compared only if some worker's peak exceeds this."""
MAX_REORDERED_NODES = 50_000
"""Graphs with more nodes than this are reordered only under a limit: it takes about 50 µs per node and order."""
EQUALLY_FAST = 1.01
"""An order that takes at most this factor longer than the fastest counts as fast as any."""
LIMIT_SHARES = (0.0, 0.125, 0.25, 0.5)
"""Assumed limits: these shares of the way from the peak of the base order to that of the order of placement."""
SPILL_PASSES = 3
"""Passes over the memory spaces: a value that is rematerialised for one of them takes memory in another."""


Peaks = tuple[tuple[str, tuple[int, ...]], ...]
"""See `Plan.peaks`."""

UNSEEN_SHARES = (1.0, 0.25)
"""Shares of the estimate for an unseen Function that a plan tries to leave free, one after the other."""
NO_LIMIT = 1 << 62
"""More bytes than there are."""


class NodeOrder(NamedTuple):
    """Blocks of ordered nodes, the graph that they belong to, which may have added nodes, and each node's worker."""

    blocks: list[Block]
    priced: PricedGraph
    node_worker: tuple[int, ...]
    peaks: Peaks = ()
    spaces: tuple[MemorySpace, ...] = ()
    """The limited memory spaces, as they were counted."""


def order_nodes(
    priced: PricedGraph,
    blocks: Sequence[Block],
    node_worker: Sequence[int],
    residency: Sequence[int],
    costs: Costs,
    cluster: Cluster,
) -> NodeOrder:
    """Return the nodes in blocks on the same workers, in an order that keeps the memory limits; with added nodes, if no
    order does (`spill_limits`).

    Raises PlanError, naming a sufficient limit, if no way is found to keep a worker's limit.
    """
    spaces = limited_spaces(priced.graph.specs, cluster)
    if priced.graph.open_ended and spaces:
        for share in UNSEEN_SHARES:
            with suppress(PlanError):
                within = [space._replace(unseen=share) for space in spaces]
                return _order_nodes(priced, blocks, node_worker, residency, costs, cluster, within)
        spaces = [space._replace(unseen=0.0) for space in spaces]  # nothing is refused for what is estimated
    return _order_nodes(priced, blocks, node_worker, residency, costs, cluster, spaces)


def _order_nodes(
    priced: PricedGraph,
    blocks: Sequence[Block],
    node_worker: Sequence[int],
    residency: Sequence[int],
    costs: Costs,
    cluster: Cluster,
    spaces: Sequence[MemorySpace],
) -> NodeOrder:
    as_it_is = NodeOrder(list(blocks), priced, tuple(node_worker), spaces=tuple(spaces))
    workers = len(cluster.workers)
    count = len(node_worker)
    if not count or not (spaces or _reordering_may_pay(priced, node_worker)):
        return as_it_is
    given = _sequences_of_blocks(blocks, workers)
    uses = [
        SpaceUse(space, MemoryUse(space.within(priced), node_worker, residency, workers))
        for space in spaces or [MemorySpace(HOST, [None] * workers)]
    ]
    peaks = [one.peaks(given) for one in uses]
    if not spaces and max(peaks[0]) < WORTH_BYTES:
        return as_it_is
    links = node_edges(priced)
    known = [min_memory_order(priced, links), list(range(count)), [index for block in blocks for index in block.nodes]]
    over, base = _least_memory_order(uses, known, node_worker, workers)
    if over:
        return _spill_and_order(priced, uses, base, node_worker, residency, costs, cluster)
    maker = LimitedListScheduler(priced, links, node_worker, residency, [one.use for one in uses], base)
    tried: list[tuple[Segmentation, int]] = []
    if not any(one.excess(mine) for one, mine in zip(uses, peaks, strict=True)):
        made = split_blocks(priced, links, blocks, node_worker, residency, costs)
        tried.append((made, sum(map(sum, peaks))))
    if spaces:
        shares: list[list[list[int | None]]] = [[space.limits for space in spaces]]
    else:
        lowest = uses[0].peaks(sequences_of_order(base, node_worker, workers))
        shares = [
            [[low + int(share * max(high - low, 0)) for low, high in zip(lowest, peaks[0], strict=False)]]
            for share in LIMIT_SHARES
        ]
    for some in shares:
        sequences = maker.run(some)
        ordered = blocks_of_sequences(links, sequences, node_worker)
        made = split_blocks(priced, links, ordered, node_worker, residency, costs)
        ran = _sequences_of_blocks(ordered, workers)
        tried.append((made, sum(sum(one.peaks(ran)) for one in uses)))
    fastest = min(made.seconds for made, _ in tried)
    chosen, _ = min(tried, key=lambda one: (one[0].seconds > EQUALLY_FAST * fastest, one[1], one[0].seconds))
    if not spaces:
        return as_it_is._replace(blocks=chosen.blocks)
    fitted, most = _split_to_fit(uses, chosen.blocks, cluster)
    return as_it_is._replace(blocks=fitted, peaks=most)


class SpaceUse(NamedTuple):
    """A memory space, and the use that the nodes of a graph make of it."""

    space: MemorySpace
    use: MemoryUse

    def peaks(self, sequences: Sequence[Sequence[int]]) -> list[int]:
        """Return the peak of each worker; 0 for a worker without nodes, even if it holds values of earlier runs."""
        return [self.use.peak(worker, order) if order else 0 for worker, order in enumerate(sequences)]

    def excess(self, peaks: Sequence[int]) -> int:
        """Return the bytes by which peaks exceed limits, in all."""
        pairs = zip(peaks, self.space.limits, strict=False)
        return sum(peak - limit for peak, limit in pairs if limit is not None and peak > limit)


def _spill_and_order(
    priced: PricedGraph,
    uses: Sequence[SpaceUse],
    base: Sequence[int],
    node_worker: Sequence[int],
    residency: Sequence[int],
    costs: Costs,
    cluster: Cluster,
) -> NodeOrder:
    """Return the nodes with added ones that spill or rematerialise what does not fit.

    Raises PlanError if that does not keep the limits either.
    """
    workers = len(cluster.workers)
    sequences = sequences_of_order(base, node_worker, workers)
    rewritten, within = RewrittenGraph(priced, tuple(node_worker), sequences), list(uses)
    for _ in range(SPILL_PASSES):
        for number in range(len(within)):
            one = within[number]
            if not one.excess(one.peaks(rewritten.sequences)):
                continue
            found = plan_spills(rewritten, one.space, residency, costs)
            if not isinstance(found, RewrittenGraph):
                enough = [_sufficient_limits(rewritten, other, residency, costs) for other in within]
                raise _memory_error(priced, uses, base, node_worker, cluster, enough)
            rewritten = found
            within = [
                SpaceUse(space, MemoryUse(space.within(rewritten.priced), rewritten.node_worker, residency, workers))
                for space, _ in within
            ]
    needed = [one.peaks(rewritten.sequences) for one in within]
    if any(one.excess(mine) for one, mine in zip(within, needed, strict=True)):
        raise _memory_error(priced, uses, base, node_worker, cluster, needed)
    graph, homes, sequences = rewritten
    links = node_edges(graph)
    if graph.graph.open_ended:  # its last node ends the last block
        last = len(homes) - 1
        sequences = [[index for index in one if index != last] for one in sequences]
    cut = split_blocks(graph, links, blocks_of_sequences(links, sequences, homes), homes, residency, costs)
    spaces = tuple([space for space, _ in within])
    fitted, most = _split_to_fit(within, cut.blocks, cluster)
    return NodeOrder(fitted, graph, homes, most, spaces)


def _sufficient_limits(given: RewrittenGraph, one: SpaceUse, residency: Sequence[int], costs: Costs) -> list[int]:
    """Return, per worker, a sufficient limit in one memory space, or 0 where its own limit is sufficient."""
    peaks = one.peaks(given.sequences)
    found = plan_spills(given, one.space, residency, costs) if one.excess(peaks) else given
    return [0] * len(peaks) if isinstance(found, RewrittenGraph) else [smallest or 0 for smallest in found]


def chain_segments(segments: Sequence[Segment], cluster: Cluster) -> tuple[Segment, ...]:
    """Return the segments, those of workers with a limit each waiting for the previous one on its worker."""
    previous: dict[int, int] = {}
    held: list[Segment] = []
    for index, segment in enumerate(segments):
        if cluster.workers[segment.worker].limited:
            before = previous.get(segment.worker, -1)
            if before >= 0 and before not in segment.after:
                segment = segment._replace(after=tuple(sorted((*segment.after, before))))
            previous[segment.worker] = index
        held.append(segment)
    return tuple(held)


def blocks_of_sequences(
    links: NodeEdges, sequences: Sequence[Sequence[int]], node_worker: Sequence[int]
) -> list[Block]:
    """Return the coarsest blocks in which each worker runs its nodes in its sequence. The sequences must belong to one
    topological order of all nodes. If the last node is in none of them, it ends the last block."""
    missing = [len(one) for one in links.before]
    place = [0] * len(sequences)
    blocks: list[Block] = []
    waiting = [worker for worker, sequence in enumerate(sequences) if sequence and not missing[sequence[0]]]
    for worker in waiting:
        block: list[int] = []
        sequence = sequences[worker]
        while place[worker] < len(sequence) and not missing[sequence[place[worker]]]:
            index = sequence[place[worker]]
            place[worker] += 1
            block.append(index)
            for reader in links.after[index]:
                missing[reader] -= 1
                other = node_worker[reader]
                if not missing[reader] and other != worker:
                    waiting.append(other)
        if block:
            blocks.append(Block(worker, block))
    last = len(node_worker) - 1
    if sum(map(len, sequences)) == last:
        if blocks and blocks[-1].worker == node_worker[last]:
            blocks[-1].nodes.append(last)
        else:
            blocks.append(Block(node_worker[last], [last]))
    return blocks


def _reordering_may_pay(priced: PricedGraph, node_worker: Sequence[int]) -> bool:
    """Return whether another order may be worth planning: backward, several workers, and much memory."""
    if len(node_worker) > MAX_REORDERED_NODES or all(worker == node_worker[0] for worker in node_worker):
        return False
    if sum(priced.size) < WORTH_BYTES:
        return False
    return any(node.depth for node in priced.graph.nodes)


def _least_memory_order(
    uses: Sequence[SpaceUse], known: Sequence[list[int]], node_worker: Sequence[int], workers: int
) -> tuple[int, list[int]]:
    """Return the order with the lowest peaks of those given, and the bytes by which its peaks exceed limits."""
    best: tuple[int, int, list[int]] | None = None
    for order in known:
        sequences = sequences_of_order(order, node_worker, workers)
        peaks = [one.peaks(sequences) for one in uses]
        over = sum(one.excess(mine) for one, mine in zip(uses, peaks, strict=True))
        if best is None or (over, sum(map(sum, peaks))) < best[:2]:
            best = (over, sum(map(sum, peaks)), order)
    assert best is not None
    return best[0], best[2]


def _memory_error(
    priced: PricedGraph,
    uses: Sequence[SpaceUse],
    order: Sequence[int],
    node_worker: Sequence[int],
    cluster: Cluster,
    enough: Sequence[Sequence[int]],
) -> PlanError:
    """Return the error that names a sufficient limit, per memory space and worker whose limit is too low."""
    parts: list[str | tuple[int, Node]] = []
    needs: dict[tuple[int, str], int] = {}
    for (space, use), needed in zip(uses, enough, strict=True):
        for worker, (spec, limit, peak) in enumerate(zip(cluster.workers, space.limits, needed, strict=True)):
            if limit is not None and peak > limit:
                memory = worker, space.argument
                needs[memory] = max(needs.get(memory, 0), peak)
                given_limit, need = space.named(limit), space.named(peak)
                parts.append(f"{'; ' if parts else ''}{spec.name} has {given_limit} and needs {need}")
                mine = [index for index in order if node_worker[index] == worker]
                most = use.peak_node(mine)
                if most >= 0:
                    parts += [", most of all for ", (most, priced.graph.nodes[most])]
    return plan_error(
        "what is to run there does not fit: ",
        *parts,
        " in the least demanding order found (bytes alive at once). Give it that much, or place some of its nodes on "
        "other workers; these figures are for what was submitted together, and what comes later may need more",
        workers=tuple(sorted({worker for worker, _ in needs})),
        needs=tuple([(worker, memory, size) for (worker, memory), size in needs.items()]),
    )


def _sequences_of_blocks(blocks: Sequence[Block], workers: int) -> list[list[int]]:
    sequences: list[list[int]] = [[] for _ in range(workers)]
    for worker, nodes in blocks:
        sequences[worker].extend(nodes)
    return sequences


def _split_to_fit(uses: Sequence[SpaceUse], blocks: Sequence[Block], cluster: Cluster) -> tuple[list[Block], Peaks]:
    """Split blocks of workers with a limit where they would hold more; return the peaks, too, for `Plan.peaks`.
    Splitting for one memory space does not raise the peak in another."""
    pinned = [worker.memory is not None for worker in cluster.workers]
    fitted = list(blocks)
    peaks: list[tuple[str, tuple[int, ...]]] = []
    for space, use in uses:
        fitted, most = _split_to_fit_space(use, fitted, space.limits, pinned)
        peaks.append((space.device, most))
    return fitted, tuple(peaks)


def _split_to_fit_space(
    use: MemoryUse, blocks: Sequence[Block], limits: Sequence[int | None], pinned: Sequence[bool]
) -> tuple[list[Block], tuple[int, ...]]:
    """Split blocks of workers with a limit in one space where they would hold more; return each worker's peak, too."""
    pieces: list[list[list[int]]] = [[] for _ in limits]
    for worker, nodes in blocks:
        pieces[worker].append(nodes)
    cut: list[dict[int, list[list[int]]]] = []  # per worker, by the first node of a block, the pieces of the block
    peaks: list[int] = []
    for worker, mine in enumerate(pieces):
        limit, before = limits[worker], use.resident[worker]
        if not mine:
            cut.append({})
            peaks.append(0)
            continue
        starts = {one[0] for one in mine}
        order = [index for one in mine for index in one]
        found = use.split(order, mine, NO_LIMIT if limit is None else limit - before, pinned=pinned[worker])
        parts: dict[int, list[list[int]]] = {}
        current = -1
        for part in found.pieces:
            if part[0] in starts:
                current = part[0]
                parts[current] = []
            parts[current].append(part)
        cut.append(parts)
        peaks.append(before + found.peak)
    return [Block(worker, part) for worker, nodes in blocks for part in cut[worker][nodes[0]]], tuple(peaks)
