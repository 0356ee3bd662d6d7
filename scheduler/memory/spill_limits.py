"""Limits of spill planning: per worker, those under which an eviction search is tried, and the smallest that works.

`execution_order` calls it when no order of a worker's nodes fits. It returns the rewritten graph, or the smallest
sufficient limits for the error message. The choice between spilling and rematerialising, and of the values, is made in
`spill_or_rematerialize`. Values that earlier runs left on a worker can only be spilled, from the start: as many as
needed, those that are read last first. No node changes its worker.
"""

from __future__ import annotations

from collections.abc import Sequence

from raygrad.proto.ir.nodes import Spill

from ..model.costs import Costs
from ..model.graph_rewriter import GraphRewriter, RewrittenGraph
from ..model.memory_spaces import MemorySpace
from ..model.priced_graph import PricedGraph
from .memory_ledger import MemoryUse
from .spill_or_rematerialize import DoesNotFit, EvictionSearch

STAYING_SHARES = (1.0, 0.5, 0.25, 0.0)
"""Shares of the limit that values of earlier runs may occupy throughout the run, tried one after the other."""
MAX_SEARCHES = 24
"""The most searches for the smallest sufficient limit by bisection, and as many again just below it."""
MIN_SEARCHES = 4
MAX_SEARCHED_NODES = 500_000
"""Nodes that these searches go through in all, beyond `MIN_SEARCHES`: for a large graph the limit in the error message
is less close to the smallest."""


def plan_spills(
    given: RewrittenGraph, space: MemorySpace, residency: Sequence[int], costs: Costs
) -> RewrittenGraph | list[int | None]:
    """Return the graph with added nodes by which each worker keeps its limit of one memory space; if none is found, per
    worker the smallest sufficient limit, or None where its limit is sufficient. The given sequences should be orders
    that need little memory.
    """
    whole, node_worker, sequences = given
    priced, limits = space.within(whole), space.limits
    use = MemoryUse(priced, node_worker, residency, len(limits))
    rewriter = GraphRewriter(priced, node_worker, costs)
    made: list[list[int]] = []
    for worker, sequence in enumerate(sequences):
        limit = limits[worker]
        if limit is None:
            made.append(list(sequence))
            continue
        found = _sequence_within(rewriter, use, worker, sequence, residency, limit)
        if found is None:
            return [
                _smallest_limit(priced, use, one, sequences[one], node_worker, residency, limit, costs)
                for one, limit in enumerate(limits)
            ]
        made.append(found)
    return rewriter.rewritten(made)


def _sequence_within(
    rewriter: GraphRewriter, use: MemoryUse, worker: int, sequence: Sequence[int], residency: Sequence[int], limit: int
) -> list[int] | None:
    """Return the nodes of one worker in order, with added nodes by which it keeps its limit; None if none is found."""
    if use.peak(worker, sequence) <= limit:
        return list(sequence)
    spillable = _spillable_earlier_values(rewriter, worker, sequence, residency)
    size = rewriter.priced.size
    there = sum([size[value] for value in spillable])
    mark = rewriter.mark()
    tried = -1
    for share in STAYING_SHARES:
        stay = there if share == 1.0 else int(share * limit)
        count, left = 0, there
        while count < len(spillable) and left > stay:
            left -= size[spillable[count]]
            count += 1
        if count == tried:
            continue
        tried = count
        try:
            return EvictionSearch(
                rewriter, worker, sequence, residency, spillable[:count], limit - use.resident[worker]
            ).run()
        except DoesNotFit:
            rewriter.roll_back(mark)
    return None


def _spillable_earlier_values(
    rewriter: GraphRewriter, worker: int, sequence: Sequence[int], residency: Sequence[int]
) -> list[int]:
    """Return the values of earlier runs on a worker that can be spilled: those read last, or never, come first."""
    nodes, size = rewriter.priced.graph.nodes, rewriter.priced.size
    first: dict[int, int] = {}
    spilled: set[int] = set()
    for place, index in enumerate(sequence):
        node = nodes[index]
        if isinstance(node, Spill):
            spilled.update(node.inputs)
        for value in node.inputs:
            first.setdefault(value, place)
    some = [
        value
        for value, home in enumerate(residency)
        if home == worker and size[value] and value not in spilled and rewriter.can_spill(value)
    ]
    return sorted(some, key=lambda value: (-first.get(value, len(sequence)), value))


def _smallest_limit(
    priced: PricedGraph,
    use: MemoryUse,
    worker: int,
    sequence: Sequence[int],
    node_worker: Sequence[int],
    residency: Sequence[int],
    limit: int | None,
    costs: Costs,
) -> int | None:
    """Return the smallest limit found to be sufficient for one worker, None if its own limit is."""
    if limit is None:
        return None
    before = use.resident[worker]
    spillable = _spillable_earlier_values(GraphRewriter(priced, node_worker, costs), worker, sequence, residency)
    left = before - sum([priced.size[value] for value in spillable])

    def peak(tried: int) -> int | None:
        rewriter = GraphRewriter(priced, node_worker, costs)
        search = EvictionSearch(rewriter, worker, sequence, residency, spillable, tried - before)
        try:
            search.run()
        except DoesNotFit:
            return None
        return search.peak + left

    if _sequence_within(GraphRewriter(priced, node_worker, costs), use, worker, sequence, residency, limit) is not None:
        return None
    low = limit
    high = use.peak(worker, sequence)
    tries = min(MAX_SEARCHES, max(MIN_SEARCHES, MAX_SEARCHED_NODES // max(len(sequence), 1)))
    for _ in range(tries):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        found = peak(middle)
        if found is None:
            low = middle
            continue
        high = middle
        if low < found < high and peak(found) is not None:
            high = found  # the peak of a search is a sufficient limit
    for _ in range(tries):  # a little less may be sufficient where more was not: a search is a heuristic
        found = peak(high - 1)
        if found is None:
            break
        high = found
    return high
