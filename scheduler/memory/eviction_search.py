"""The eviction search: the decision which values of a worker are spilled or rematerialised, and when, under a limit.

`spill_planner` starts one search per worker whose nodes do not fit in their order, and tries several limits. The search
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
"""Values below this part of the limit are given up only if all others were: there is nothing to win."""
MAX_REMATERIALISED_CHAIN = 32
"""So many nodes, one reading the other, are made again at most for one value."""
NEVER = float("inf")
RATES_PER_DOUBLING = 8
"""Costs for the bytes that they give back count as equal within this part of a doubling."""
STALE_FACTOR = 4
"""Entries of what may be given up are made anew when there are this many times more than values."""


class DoesNotFit(Exception):
    """A walk found no way to keep to its limit."""


class EvictionSearch:
    """One walk through the nodes of one worker. See the head of this file."""

    def __init__(
        self,
        longer: GraphRewriter,
        worker: int,
        sequence: Sequence[int],
        residency: Sequence[int],
        leaving: Sequence[int],
        limit: int,
    ) -> None:
        """`leaving` are values of earlier runs that wait on disk from the start; the limit is for all but what stays of
        those."""
        self.longer = longer
        self.priced = priced = longer.priced
        self.worker = worker
        self.sequence = sequence
        self.leaving = leaving
        self.limit = limit + sum([priced.size[value] for value in leaving])
        self.peak = 0
        """The most bytes that were there at once."""
        self.order: list[int] = []
        self.place = 0
        """Of the node of `sequence` at hand."""
        self.here: dict[int, int] = {}
        """By value, under which id it is here."""
        self.handles: dict[int, int] = {}
        """By value that was spilled, the id of what stands for it."""
        self.locked: dict[int, int] = {}
        """Values that a node which is to run now reads, and how often."""
        self.used = 0
        self.large: dict[int, list[tuple[float, int]]] = {}
        """Values that may be given up, by what they cost for their bytes: among those of one rate, what is read last is
        given up first, whenever that is. As (-place at which it is read next, value); what no longer holds is found out
        when it comes first."""
        self.small: dict[int, list[tuple[float, int]]] = {}
        """The same of those below `SMALL_PART`."""
        self.offered = 0
        """Entries that were made in both."""
        self.left_of = previous_contexts(priced)
        """By context that a vjp leaves, the one that it read, of which it holds the memory."""
        self.resident = {value for value, home in enumerate(residency) if home == worker}.difference(leaving)
        kept = {value for value, _ in priced.graph.keep}
        self.uses: dict[int, list[int]] = {}
        """By value, the places at which it is read, or what was made of it may have to be made again; ascending."""
        self.mine = set(sequence)
        self.stays: set[int] = set()
        """What is made here and kept to the end, and not on disk."""
        for place, index in enumerate(sequence):
            node = priced.graph.nodes[index]
            for value in {*node.inputs}:
                if value >= 0 and value not in self.resident:
                    self.uses.setdefault(value, []).append(place)
            first = priced.first[index]
            self.stays.update(value for value in range(first, first + len(node.outputs)) if value in kept)
        self.stays -= {
            node.inputs[0] for node in map(priced.graph.nodes.__getitem__, sequence) if isinstance(node, Spill)
        }

    def run(self) -> list[int]:
        """Return the worker's nodes in order, those that were added among them.

        Raises:
            TooSmall: there is no way.
        """
        priced, here = self.priced, self.here
        for value in self.leaving:
            index, self.handles[value] = self.longer.spill(self.worker, value)
            self.order.append(index)
        for place, index in enumerate(self.sequence):
            self.place = place
            node = priced.graph.nodes[index]
            inputs = self._inputs(index)
            self._lock(inputs)
            for value in inputs:
                self._fetch(value)
            outputs = self._outputs(index)
            passed = self._passed_on(outputs)
            more = sum([priced.size[value] for value in outputs]) - sum([priced.size[value] for value in passed])
            self._take(max(more, 0))
            self._unlock(inputs)
            self.longer.nodes[index] = node._replace(inputs=self._renamed(node))
            self.order.append(index)
            self.used += min(more, 0)
            for value in passed:
                del here[value]
            for value in outputs:
                here[value] = value
            self._forget((*inputs, *outputs))
        return self.order

    # ---- having values here -----------------------------------------------------------------------------------------

    def _inputs(self, index: int) -> list[int]:
        """Return what a node reads and is not there all the time."""
        inputs = self.priced.graph.nodes[index].inputs
        return list(dict.fromkeys([value for value in inputs if value >= 0 and value not in self.resident]))

    def _outputs(self, index: int) -> range:
        first = self.priced.first[index]
        return range(first, first + len(self.priced.graph.nodes[index].outputs))

    def _passed_on(self, outputs: Iterable[int]) -> list[int]:
        """Return what is here whose memory is that of outputs of the node at hand, and of nobody else after it."""
        sources = [self.left_of.get(value, -1) for value in outputs]
        return [one for one in sources if one in self.here and one not in self.stays and self._next_use(one) == NEVER]

    def _renamed(self, node: Node) -> tuple[int, ...]:
        return tuple([self.here.get(value, value) for value in node.inputs])

    def _fetch(self, value: int) -> None:
        """Have a value here, whatever has to be made again for it."""
        if self._is_at_hand(value):
            return
        index = self.priced.maker[value]
        stack = [(index, self._inputs(index))]  # nodes that are to run again, and what they read
        self._lock(stack[0][1])
        while stack:
            index, inputs = stack[-1]
            absent = next((one for one in inputs if not self._is_at_hand(one)), -1)
            if absent >= 0:
                maker = self.priced.maker[absent]
                stack.append((maker, self._inputs(maker)))
                self._lock(stack[-1][1])
                continue
            stack.pop()
            self._repeat(index)
            self._unlock(inputs)
            self._forget((*inputs, *self._outputs(index)), but=value)

    def _is_at_hand(self, value: int) -> bool:
        """Have a value here if no node has to run again for it; return whether it is."""
        if value in self.here:
            return True
        priced = self.priced
        handle = self.handles.get(value)
        if handle is None:
            if self._repeats(value):
                return False
            if priced.maker[value] in self.mine:
                raise DoesNotFit  # it was given up, and cannot be had back
            self._take(priced.size[value])
            self.here[value] = value  # it comes from the client, or from another worker
            return True
        self._take(priced.size[value])
        index, loaded = self.longer.load(self.worker, handle, priced.spec[value])
        self.order.append(index)
        self.here[value] = loaded
        return True

    def _repeat(self, index: int) -> None:
        """Run a node again, of which everything that it reads is here."""
        priced, here = self.priced, self.here
        node = priced.graph.nodes[index]
        if isinstance(node, FunctionCall):
            node = node._replace(silent=True)
        outputs = self._outputs(index)
        self._take(sum([priced.size[value] for value in outputs]))
        again = placed(node, self._renamed(node), node.outputs, node.pin)
        number, first = self.longer.add(self.worker, again)
        self.order.append(number)
        for value, made in zip(outputs, range(first, first + len(outputs)), strict=True):
            if value in here:
                self.used -= priced.size[value]  # it is there, and nobody reads this one
            else:
                here[value] = made

    def _take(self, size: int) -> None:
        """Find room for more bytes."""
        while self.used + size > self.limit:
            self._give_up()
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
        """Return the place at which a value is read next after the node at hand."""
        uses = self.uses.get(value, ())
        after = bisect_right(uses, self.place)
        return uses[after] if after < len(uses) else NEVER

    def _forget(self, values: Iterable[int], but: int = -1) -> None:
        """Let go of values that nobody reads any more."""
        for value in values:
            if value != but and value in self.here and value not in self.locked and value not in self.stays:
                if self._next_use(value) == NEVER:
                    del self.here[value]
                    self.used -= self.priced.size[value]
                    continue
            if value in self.here and value not in self.locked:
                self._offer(value)

    # ---- giving up values -------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """Let go of the value that costs least to have back, for its bytes and the time until it is read.

        Raises:
            TooSmall: there is none.
        """
        for heaps in (self.large, self.small):
            while heaps:  # more than once, if all that were found are of another rate now
                found = [one for one in [self._first_of(heaps, rate) for rate in list(heaps)] if one is not None]
                if found:
                    _, value, redo = min(found)
                    self._let_go(value, redo=redo)
                    return
        raise DoesNotFit

    def _offer(self, value: int) -> None:
        """Enter that a value may be given up, now that it is here, or was read."""
        size = self.priced.size[value]
        if not size:
            return
        cost = min(self._costs(value))
        if cost < NEVER:
            heaps = self.large if size * SMALL_PART >= self.limit else self.small
            heappush(heaps.setdefault(_rate_class(cost, size), []), (-self._next_use(value), value))
            self.offered += 1
            if self.offered > STALE_FACTOR * (len(self.here) + 1000):
                self._offer_anew()

    def _offer_anew(self) -> None:
        """Enter all that is here once, and nothing else."""
        self.large, self.small, self.offered = {}, {}, 0
        for value in self.here:
            if value not in self.locked:
                self._offer(value)

    def _first_of(self, heaps: dict[int, list[tuple[float, int]]], rate: int) -> tuple[float, int, bool] | None:
        """Return, of the values here of one rate, that which is read last: what it costs for its bytes and the time
        until then, and whether it is to be made again; None if there is none."""
        heap = heaps[rate]
        size = self.priced.size
        while heap:
            until, value = heap[0]
            if value not in self.here or value in self.locked:
                heappop(heap)  # it is offered again when it comes, or was read
                continue
            load, redo = self._costs(value)
            cost = min(load, redo)
            if cost == NEVER:
                heappop(heap)
                continue
            now, next_use = _rate_class(cost, size[value]), self._next_use(value)
            if now == rate and -until == next_use:
                return cost / (size[value] * (next_use - self.place)), value, redo < load
            heappop(heap)  # what it reads has come or gone, or it is read by what is to be made again
            heappush(heaps.setdefault(now, []), (-next_use, value))
        del heaps[rate]
        return None

    def _let_go(self, value: int, *, redo: bool) -> None:
        next_use = self._next_use(value)
        if next_use == NEVER and value not in self.stays:
            pass  # what it was held for has been made again before
        elif redo:
            self._hold_for(value, int(next_use))
        elif value not in self.handles:
            index, self.handles[value] = self.longer.spill(self.worker, self.here[value])
            self.order.append(index)
            self.stays.discard(value)
        del self.here[value]
        self.used -= self.priced.size[value]

    def _hold_for(self, value: int, place: int) -> None:
        """Enter that a value will be made again at a place: what that reads is needed until then."""
        stack = self._inputs(self.priced.maker[value])
        seen: set[int] = set()
        while stack:
            one = stack.pop()
            if one in seen or one in self.handles:
                continue
            seen.add(one)
            if one in self.here or not self._repeats(one):
                insort(self.uses.setdefault(one, []), place)
            else:
                stack.extend(self._inputs(self.priced.maker[one]))

    def _repeats(self, value: int) -> bool:
        """Tell whether the node that makes a value can run again here."""
        index = self.priced.maker[value]
        return index in self.mine and self.longer.repeats(index)

    def _costs(self, value: int) -> tuple[float, float]:
        """Return the seconds to have a value back from disk, and by making it again."""
        longer, spec = self.longer, self.priced.spec[value]
        load = NEVER
        if value in self.handles:
            load = longer.load_seconds(spec)
        elif longer.spills(value):
            load = longer.spill_seconds(spec) + longer.load_seconds(spec)
        again = self._repeats(value) and value not in self.stays  # who keeps it looks for it under its own name
        redo = self._seconds_again(value, {}, 0) if again else NEVER
        return load, redo

    def _seconds_again(self, value: int, known: dict[int, float], depth: int) -> float:
        """Return the seconds to make a value again, with what that reads and is not here."""
        found = known.get(value)
        if found is not None:
            return 0.0  # counted once, however many read it
        index = self.priced.maker[value]
        seconds = self.priced.seconds[index]
        known[value] = seconds
        for one in self._inputs(index):
            if one in self.here:
                continue
            if one in self.handles:
                seconds += self.longer.load_seconds(self.priced.spec[one])
            elif self._repeats(one):
                seconds += NEVER if depth >= MAX_REMATERIALISED_CHAIN else self._seconds_again(one, known, depth + 1)
            else:
                return NEVER
            if seconds == NEVER:
                break
        return seconds


def _rate_class(cost: float, size: int) -> int:
    """Return which costs for a size count as equal."""
    return floor(log2(cost / size) * RATES_PER_DOUBLING)
