"""The eviction search: the decision which values of a worker are spilled or rematerialised, and when, under a limit.

`spill_limits` starts one search per worker whose nodes do not fit in their order, and tries several limits. The search
goes through that order once and keeps the set of live values. Where the next node does not fit, it evicts the value
with the least cost per byte and time until its next use. The cost is the cheaper of two: a spill and a load at the
measured bandwidth, or running the node again, with all that is needed for that and not in memory. Only nodes that give
the same bits again are repeated: built-in ops, sums of gradients, and forwards of Functions declared pure (H2). Values
that are kept beyond the run can only be spilled.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import floor, log2

from raygrad.proto.ir.nodes import FunctionCall, Node, Spill, placed

from ..model.graph_rewriter import GraphRewriter
from .memory_ledger import previous_contexts

SMALL_PART = 1000
"""Values smaller than limit / `SMALL_PART` are evicted only after all larger ones: they free too little."""
MAX_REMATERIALISED_CHAIN = 32
"""The longest chain of nodes, each reading from the next, that is run again for one value."""
NEVER = float("inf")
RATES_PER_DOUBLING = 8
"""Rates (cost per byte) are compared by classes, so many per doubling."""
STALE_FACTOR = 4
"""Candidates are entered anew when there are this many times more entries than values."""


class DoesNotFit(Exception):
    """A search found no way to keep its limit."""


class EvictionSearch:
    """One pass over the nodes of one worker under one limit. See the head of this file."""

    def __init__(
        self,
        rewriter: GraphRewriter,
        worker: int,
        sequence: Sequence[int],
        residency: Sequence[int],
        leaving: Sequence[int],
        limit: int,
    ) -> None:
        """`leaving` are values of earlier runs that are spilled at the start. The limit does not include the values of
        earlier runs that stay."""
        self.rewriter = rewriter
        self.priced = priced = rewriter.priced
        self.worker = worker
        self.sequence = sequence
        self.leaving = leaving
        self.limit = limit + sum([priced.size[value] for value in leaving])
        self.peak = 0
        """The most bytes live at once so far."""
        self.order: list[int] = []
        self.position = 0
        """The position in `sequence` of the current node."""
        self.live: dict[int, int] = {}
        """Live values: by value id of the original graph, the id of the copy that is in memory."""
        self.handles: dict[int, int] = {}
        """By spilled value, the id of its handle."""
        self.locked: dict[int, int] = {}
        """Values that must not be evicted, since a node about to run reads them; with a count."""
        self.used = 0
        self.large_candidates: dict[int, list[tuple[float, int]]] = {}
        """Candidates for eviction: per class of rates (cost per byte) a heap of (-place of the next use, value), so
        that the furthest next use comes first. Entries that no longer hold are dropped when they come first."""
        self.small_candidates: dict[int, list[tuple[float, int]]] = {}
        """The same for values below `SMALL_PART`."""
        self.entries = 0
        """Entries made in both."""
        self.left_of = previous_contexts(priced)
        """By context that a vjp returns, the one that it read: both hold the same memory."""
        self.resident = {value for value, home in enumerate(residency) if home == worker}.difference(leaving)
        kept = {value for value, _ in priced.graph.keep}
        self.uses: dict[int, list[int]] = {}
        """By value, the places at which it is read, or at which a value rematerialised from it is; ascending."""
        self.own_nodes = set(sequence)
        self.kept_in_memory: set[int] = set()
        """Values made here that are kept beyond the run, and not on disk."""
        for place, index in enumerate(sequence):
            node = priced.graph.nodes[index]
            for value in {*node.inputs}:
                if value >= 0 and value not in self.resident:
                    self.uses.setdefault(value, []).append(place)
            first = priced.first[index]
            self.kept_in_memory.update(value for value in range(first, first + len(node.outputs)) if value in kept)
        self.kept_in_memory -= {
            node.inputs[0] for node in map(priced.graph.nodes.__getitem__, sequence) if isinstance(node, Spill)
        }

    def run(self) -> list[int]:
        """Return the worker's nodes in order, including the added ones.

        Raises:
            DoesNotFit: this search found no way to keep the limit.
        """
        priced, live = self.priced, self.live
        for value in self.leaving:
            index, self.handles[value] = self.rewriter.spill(self.worker, value)
            self.order.append(index)
        for place, index in enumerate(self.sequence):
            self.position = place
            node = priced.graph.nodes[index]
            inputs = self._inputs(index)
            self._lock(inputs)
            for value in inputs:
                self._bring_in(value)
            outputs = self._outputs(index)
            passed = self._taken_over(outputs)
            more = sum([priced.size[value] for value in outputs]) - sum([priced.size[value] for value in passed])
            self._reserve(max(more, 0))
            self._unlock(inputs)
            self.rewriter.nodes[index] = node._replace(inputs=self._renamed(node))
            self.order.append(index)
            self.used += min(more, 0)
            for value in passed:
                del live[value]
            for value in outputs:
                live[value] = value
            self._drop_dead((*inputs, *outputs))
        return self.order

    # ---- values in memory -------------------------------------------------------------------------------------------

    def _inputs(self, index: int) -> list[int]:
        """Return the values that a node reads, but for those of earlier runs that stay."""
        inputs = self.priced.graph.nodes[index].inputs
        return list(dict.fromkeys([value for value in inputs if value >= 0 and value not in self.resident]))

    def _outputs(self, index: int) -> range:
        first = self.priced.first[index]
        return range(first, first + len(self.priced.graph.nodes[index].outputs))

    def _taken_over(self, outputs: Iterable[int]) -> list[int]:
        """Return the live values whose memory the outputs of the current node take over."""
        sources = [self.left_of.get(value, -1) for value in outputs]
        return [
            one
            for one in sources
            if one in self.live and one not in self.kept_in_memory and self._next_use(one) == NEVER
        ]

    def _renamed(self, node: Node) -> tuple[int, ...]:
        return tuple([self.live.get(value, value) for value in node.inputs])

    def _bring_in(self, value: int) -> None:
        """Bring a value into memory; rematerialise it, and what that needs, if it is not on disk."""
        if self._bring_in_directly(value):
            return
        index = self.priced.maker[value]
        stack = [(index, self._inputs(index))]  # nodes to run again, with their inputs
        self._lock(stack[0][1])
        while stack:
            index, inputs = stack[-1]
            absent = next((one for one in inputs if not self._bring_in_directly(one)), -1)
            if absent >= 0:
                maker = self.priced.maker[absent]
                stack.append((maker, self._inputs(maker)))
                self._lock(stack[-1][1])
                continue
            stack.pop()
            self._run_again(index)
            self._unlock(inputs)
            self._drop_dead((*inputs, *self._outputs(index)), but=value)

    def _bring_in_directly(self, value: int) -> bool:
        """Bring a value into memory if no node has to run again for that; return whether it is there."""
        if value in self.live:
            return True
        priced = self.priced
        handle = self.handles.get(value)
        if handle is None:
            if self._can_rematerialise(value):
                return False
            if priced.maker[value] in self.own_nodes:
                raise DoesNotFit  # it was evicted, and cannot be brought back
            self._reserve(priced.size[value])
            self.live[value] = value  # it arrives from the client or from another worker
            return True
        self._reserve(priced.size[value])
        index, loaded = self.rewriter.load(self.worker, handle, priced.spec[value])
        self.order.append(index)
        self.live[value] = loaded
        return True

    def _run_again(self, index: int) -> None:
        """Add a node that runs a second time; all of its inputs are in memory."""
        priced, live = self.priced, self.live
        node = priced.graph.nodes[index]
        if isinstance(node, FunctionCall):
            node = node._replace(silent=True)
        outputs = self._outputs(index)
        self._reserve(sum([priced.size[value] for value in outputs]))
        repeated = placed(node, self._renamed(node), node.outputs, node.pin)
        number, first = self.rewriter.add(self.worker, repeated, index)
        self.order.append(number)
        for value, made in zip(outputs, range(first, first + len(outputs)), strict=True):
            if value in live:
                self.used -= priced.size[value]  # a copy is live already, and nobody reads this one
            else:
                live[value] = made

    def _reserve(self, size: int) -> None:
        """Reserve memory, evicting values as needed."""
        while self.used + size > self.limit:
            self._evict_one()
        self.used += size
        self.peak = max(self.peak, self.used)

    def _lock(self, values: Sequence[int]) -> None:
        for value in values:
            self.locked[value] = self.locked.get(value, 0) + 1

    def _unlock(self, values: Sequence[int]) -> None:
        for value in values:
            self.locked[value] -= 1
            if not self.locked[value]:
                del self.locked[value]

    def _next_use(self, value: int) -> float:
        """Return the place of a value's next use after the current node, `NEVER` if there is none."""
        uses = self.uses.get(value, ())
        after = bisect_right(uses, self.position)
        return uses[after] if after < len(uses) else NEVER

    def _drop_dead(self, values: Iterable[int], but: int = -1) -> None:
        """Drop values without a further use; enter the others as candidates for eviction."""
        for value in values:
            if value != but and value in self.live and value not in self.locked and value not in self.kept_in_memory:
                if self._next_use(value) == NEVER:
                    del self.live[value]
                    self.used -= self.priced.size[value]
                    continue
            if value in self.live and value not in self.locked:
                self._add_candidate(value)

    # ---- eviction ---------------------------------------------------------------------------------------------------

    def _evict_one(self) -> None:
        """Evict the value with the least cost to bring it back, per byte and time until its next use.

        Raises:
            DoesNotFit: there is no candidate.
        """
        for heaps in (self.large_candidates, self.small_candidates):
            while heaps:  # more than once if all entries have moved to another class of rates
                found = [one for one in [self._best_candidate(heaps, rate) for rate in list(heaps)] if one is not None]
                if found:
                    _, value, rematerialise = min(found)
                    self._evict(value, rematerialise=rematerialise)
                    return
        raise DoesNotFit

    def _add_candidate(self, value: int) -> None:
        """Enter a value as a candidate, after it came into memory or was read."""
        size = self.priced.size[value]
        if not size:
            return
        cost = min(self._eviction_costs(value))
        if cost < NEVER:
            heaps = self.large_candidates if size * SMALL_PART >= self.limit else self.small_candidates
            heappush(heaps.setdefault(_rate_class(cost, size), []), (-self._next_use(value), value))
            self.entries += 1
            if self.entries > STALE_FACTOR * (len(self.live) + 1000):
                self._rebuild_candidates()

    def _rebuild_candidates(self) -> None:
        """Enter each live value once, and drop all other entries."""
        self.large_candidates, self.small_candidates, self.entries = {}, {}, 0
        for value in self.live:
            if value not in self.locked:
                self._add_candidate(value)

    def _best_candidate(self, heaps: dict[int, list[tuple[float, int]]], rate: int) -> tuple[float, int, bool] | None:
        """Return the candidate of one class of rates with the furthest next use, or None.

        As (cost per byte and time until that use, value, whether to rematerialise it rather than spill it).
        """
        heap = heaps[rate]
        size = self.priced.size
        while heap:
            until, value = heap[0]
            if value not in self.live or value in self.locked:
                heappop(heap)  # it is entered again when it comes into memory, or was read
                continue
            load, rematerialise = self._eviction_costs(value)
            cost = min(load, rematerialise)
            if cost == NEVER:
                heappop(heap)
                continue
            now, next_use = _rate_class(cost, size[value]), self._next_use(value)
            if now == rate and -until == next_use:
                return cost / (size[value] * (next_use - self.position)), value, rematerialise < load
            heappop(heap)  # its inputs came or went, or a node to be run again reads it
            heappush(heaps.setdefault(now, []), (-next_use, value))
        del heaps[rate]
        return None

    def _evict(self, value: int, *, rematerialise: bool) -> None:
        next_use = self._next_use(value)
        if next_use == NEVER and value not in self.kept_in_memory:
            pass  # the value that it was held for has been rematerialised before
        elif rematerialise:
            self._need_until(value, int(next_use))
        elif value not in self.handles:
            index, self.handles[value] = self.rewriter.spill(self.worker, self.live[value])
            self.order.append(index)
            self.kept_in_memory.discard(value)
        del self.live[value]
        self.used -= self.priced.size[value]

    def _need_until(self, value: int, place: int) -> None:
        """Note that a value will be rematerialised at a place: the inputs for that have a use there."""
        stack = self._inputs(self.priced.maker[value])
        seen: set[int] = set()
        while stack:
            one = stack.pop()
            if one in seen or one in self.handles:
                continue
            seen.add(one)
            if one in self.live or not self._can_rematerialise(one):
                insort(self.uses.setdefault(one, []), place)
            else:
                stack.extend(self._inputs(self.priced.maker[one]))

    def _can_rematerialise(self, value: int) -> bool:
        """Return whether the node that makes a value can run again on this worker."""
        index = self.priced.maker[value]
        return index in self.own_nodes and self.rewriter.can_repeat(index)

    def _eviction_costs(self, value: int) -> tuple[float, float]:
        """Return the seconds to spill and load a value, and those to rematerialise it; `NEVER` where impossible."""
        rewriter, spec = self.rewriter, self.priced.spec[value]
        load = NEVER
        if value in self.handles:
            load = rewriter.load_seconds(spec)
        elif rewriter.can_spill(value):
            load = rewriter.spill_seconds(spec) + rewriter.load_seconds(spec)
        repeated = (
            self._can_rematerialise(value) and value not in self.kept_in_memory
        )  # a kept value is found under its own id only
        rematerialise = self._rematerialisation_seconds(value, {}, 0) if repeated else NEVER
        return load, rematerialise

    def _rematerialisation_seconds(self, value: int, known: dict[int, float], depth: int) -> float:
        """Return the seconds to rematerialise a value, including the inputs that are not in memory."""
        found = known.get(value)
        if found is not None:
            return 0.0  # counted once, however many read it
        index = self.priced.maker[value]
        seconds = self.priced.seconds[index]
        known[value] = seconds
        for one in self._inputs(index):
            if one in self.live:
                continue
            if one in self.handles:
                seconds += self.rewriter.load_seconds(self.priced.spec[one])
            elif self._can_rematerialise(one):
                seconds += (
                    NEVER
                    if depth >= MAX_REMATERIALISED_CHAIN
                    else self._rematerialisation_seconds(one, known, depth + 1)
                )
            else:
                return NEVER
            if seconds == NEVER:
                break
        return seconds


def _rate_class(cost: float, size: int) -> int:
    """Return the class of a rate: cost per byte, on a logarithmic scale."""
    return floor(log2(cost / size) * RATES_PER_DOUBLING)
