"""The spill planner: per worker, the limits under which `eviction_search` is tried, and the smallest limit that works.

`execution_order` calls it when no order of a worker's nodes fits. It returns the rewritten graph, or the smallest
sufficient limits for the error message. The choice between spilling and rematerialising, and of the values, is made in
`eviction_search`. Values that earlier runs left on a worker can only be spilled, from the start: as many as needed,
those that are read last first. No node changes its worker.
"""

from __future__ import annotations

from collections.abc import Sequence

from raygrad.proto.ir.nodes import Spill

from ..model.costs import Costs
from ..model.graph_rewriter import GraphRewriter, RewrittenGraph
from ..model.memory_spaces import MemorySpace
from ..model.priced_graph import PricedGraph
from .eviction_search import DoesNotFit, EvictionSearch
from .memory_ledger import MemoryUse

STAYING_SHARES = (1.0, 0.5, 0.25, 0.0)
"""Shares of the limit that values of earlier runs may take from start to end, tried one after the other."""
MAX_SEARCHES = 24
"""Walks to find the smallest limit that would do, at most, and as many again around it."""
MIN_SEARCHES = 4
MAX_SEARCHED_NODES = 500_000
"""Nodes that these walks go through, if there are more than the fewest: of a large graph a refusal names a limit that
is less close to the smallest."""


def plan_spills(
    given: RewrittenGraph, space: MemorySpace, residency: Sequence[int], costs: Costs
) -> RewrittenGraph | list[int | None]:
    """Return a graph with what keeps each worker within its limit of one memory; if there is no way, per worker the
    smallest limit that would do, or None where its limit does. Each worker's nodes are given in an order that needs
    little.
    """
    whole, node_worker, sequences = given
    priced, limits = space.within(whole), space.limits
    room = MemoryUse(priced, node_worker, residency, len(limits))
    longer = GraphRewriter(priced, node_worker, costs)
    made: list[list[int]] = []
    for worker, sequence in enumerate(sequences):
        limit = limits[worker]
        if limit is None:
            made.append(list(sequence))
            continue
        found = _sequence_within(longer, room, worker, sequence, residency, limit)
        if found is None:
            return [
                _smallest_limit(priced, room, one, sequences[one], node_worker, residency, limit, costs)
                for one, limit in enumerate(limits)
            ]
        made.append(found)
    return longer.relieved(made)


def _sequence_within(
    longer: GraphRewriter, room: MemoryUse, worker: int, sequence: Sequence[int], residency: Sequence[int], limit: int
) -> list[int] | None:
    """Return the nodes of one worker in order, with those that keep it within its limit; None if there is no way."""
    if room.peak(worker, sequence) <= limit:
        return list(sequence)
    leaving = _spillable_earlier_values(longer, worker, sequence, residency)
    size = longer.priced.size
    there = sum([size[value] for value in leaving])
    mark = longer.mark()
    tried = -1
    for share in STAYING_SHARES:
        stay = there if share == 1.0 else int(share * limit)
        count, left = 0, there
        while count < len(leaving) and left > stay:
            left -= size[leaving[count]]
            count += 1
        if count == tried:
            continue
        tried = count
        try:
            return EvictionSearch(
                longer, worker, sequence, residency, leaving[:count], limit - room.before[worker]
            ).run()
        except DoesNotFit:
            longer.back_to(mark)
    return None


def _spillable_earlier_values(
    longer: GraphRewriter, worker: int, sequence: Sequence[int], residency: Sequence[int]
) -> list[int]:
    """Return the values of earlier runs on a worker that can be spilled: what is read last, or never, comes first."""
    nodes, size = longer.priced.graph.nodes, longer.priced.size
    first: dict[int, int] = {}
    gone: set[int] = set()
    for place, index in enumerate(sequence):
        node = nodes[index]
        if isinstance(node, Spill):
            gone.update(node.inputs)
        for value in node.inputs:
            first.setdefault(value, place)
    some = [
        value
        for value, home in enumerate(residency)
        if home == worker and size[value] and value not in gone and longer.spills(value)
    ]
    return sorted(some, key=lambda value: (-first.get(value, len(sequence)), value))


def _smallest_limit(
    priced: PricedGraph,
    room: MemoryUse,
    worker: int,
    sequence: Sequence[int],
    node_worker: Sequence[int],
    residency: Sequence[int],
    limit: int | None,
    costs: Costs,
) -> int | None:
    """Return the smallest limit that was found to do for one worker, None if that which it has does."""
    if limit is None:
        return None
    before = room.before[worker]
    leaving = _spillable_earlier_values(GraphRewriter(priced, node_worker, costs), worker, sequence, residency)
    left = before - sum([priced.size[value] for value in leaving])

    def peak(tried: int) -> int | None:
        longer = GraphRewriter(priced, node_worker, costs)
        walk = EvictionSearch(longer, worker, sequence, residency, leaving, tried - before)
        try:
            walk.run()
        except DoesNotFit:
            return None
        return walk.peak + left

    if (
        _sequence_within(GraphRewriter(priced, node_worker, costs), room, worker, sequence, residency, limit)
        is not None
    ):
        return None
    low = limit
    high = room.peak(worker, sequence)
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
            high = found  # what it used, it can do with
    for _ in range(tries):  # a little less may do where more did not: no walk is the best there is
        found = peak(high - 1)
        if found is None:
            break
        high = found
    return high
