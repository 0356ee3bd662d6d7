"""What a worker with too little memory spills to disk or makes again, so that the rest fits.

Rules of this file: from an order of one worker's nodes to another with more nodes in it: `spill` and `load` of a value,
and second runs of nodes. They are nodes like others of a longer graph: its first nodes are those of the graph that was
asked for, under their numbers, and read what was loaded or made again in the place of what was given up; only the order
in which nodes run, no longer their numbers, tells what comes before what. An open-ended graph's last node stays last.
Nothing here moves a node to another worker.

One walk through the order, holding what is alive. Where the next node does not fit, what costs least to have back for
its bytes and the time for which it is not needed goes first: a spill and a load at the measured bandwidth, or its node
and what else that reads and is not there, at their measured times. What is made again is what has the same bits for
certain: built-in ops, sums of gradients, and forwards of Functions that say they are pure (H2).

What outlives the run can only wait on disk: what it makes and the client keeps, from when it is spilled; what earlier
runs left there, from the start, but for as much of what is read first as leaves room for the rest.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from raygrad.proto.graph import (
    AGAIN,
    KIND_ARRAY,
    KIND_CONTEXT,
    LIVE,
    PURE,
    ROLE_FUNCTION,
    ROLE_MEMORY,
    ROLE_OP,
    ROLE_SUM,
    Graph,
    Node,
    Spec,
)

from .costs import Costs
from .priced import Priced, price
from .room import Room
from .spaces import Space

SMALL = 1000
"""Values below this part of the limit are given up only if all others were: there is nothing to win."""
DEEPEST = 32
"""So many nodes, one reading the other, are made again at most for one value."""
NEVER = float("inf")
MOST_NODES = 20_000
"""Graphs with more nodes are not rewritten: one walk takes about 0.1 ms per node."""
STAYING = (1.0, 0.5, 0.25, 0.0)
"""Shares of the limit that values of earlier runs may take from start to end, tried one after the other."""
TRIES = 24
"""Walks to find the smallest limit that would do."""


class Relieved(NamedTuple):
    """A longer graph that fits."""

    priced: Priced
    node_worker: tuple[int, ...]
    sequences: list[list[int]]
    """Per worker, its nodes in order."""


class TooSmall(Exception):
    """A walk found no way to keep to its limit."""


def make_room(given: Relieved, space: Space, residency: Sequence[int], costs: Costs) -> Relieved | list[int | None]:
    """Return a graph with what keeps each worker within its limit of one memory; if there is no way, per worker the
    smallest limit that would do, or None where its limit does. Each worker's nodes are given in an order that needs
    little.
    """
    whole, node_worker, sequences = given
    priced, limits = space.within(whole), space.limits
    room = Room(priced, node_worker, residency, len(limits))
    longer = _Longer(priced, node_worker, costs)
    made: list[list[int]] = []
    for worker, sequence in enumerate(sequences):
        limit = limits[worker]
        if limit is None:
            made.append(list(sequence))
            continue
        found = _within(longer, room, worker, sequence, residency, limit)
        if found is None:
            return [
                _smallest(priced, room, one, sequences[one], node_worker, residency, limit, costs)
                for one, limit in enumerate(limits)
            ]
        made.append(found)
    return longer.relieved(made)


def _within(
    longer: _Longer, room: Room, worker: int, sequence: Sequence[int], residency: Sequence[int], limit: int
) -> list[int] | None:
    """Return the nodes of one worker in order, with those that keep it within its limit; None if there is no way."""
    leaving = _leaving(longer, worker, sequence, residency)
    size = longer.priced.size
    there = sum([size[value] for value in leaving])
    mark = longer.mark()
    tried = -1
    for share in STAYING:
        stay = there if share == 1.0 else int(share * limit)
        count, left = 0, there
        while count < len(leaving) and left > stay:
            left -= size[leaving[count]]
            count += 1
        if count == tried:
            continue
        tried = count
        try:
            return _Walk(longer, worker, sequence, residency, leaving[:count], limit - room.before[worker]).run()
        except TooSmall:
            longer.back_to(mark)
    return None


def _leaving(longer: _Longer, worker: int, sequence: Sequence[int], residency: Sequence[int]) -> list[int]:
    """Return the values of earlier runs on a worker that can be spilled: what is read last, or never, comes first."""
    nodes, size = longer.priced.graph.nodes, longer.priced.size
    first: dict[int, int] = {}
    gone: set[int] = set()
    for place, index in enumerate(sequence):
        node = nodes[index]
        if node.role == ROLE_MEMORY and node.fn == "spill":
            gone.update(node.inputs)
        for value in node.inputs:
            first.setdefault(value, place)
    some = [
        value
        for value, home in enumerate(residency)
        if home == worker and size[value] and value not in gone and longer.spills(value)
    ]
    return sorted(some, key=lambda value: (-first.get(value, len(sequence)), value))


def _smallest(
    priced: Priced,
    room: Room,
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
    leaving = _leaving(_Longer(priced, node_worker, costs), worker, sequence, residency)
    left = before - sum([priced.size[value] for value in leaving])

    def peak(tried: int) -> int | None:
        longer = _Longer(priced, node_worker, costs)
        walk = _Walk(longer, worker, sequence, residency, leaving, tried - before)
        try:
            walk.run()
        except TooSmall:
            return None
        return walk.peak + left

    if _within(_Longer(priced, node_worker, costs), room, worker, sequence, residency, limit) is not None:
        return None
    low = limit
    high = room.peak(worker, sequence)
    for _ in range(TRIES):
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
    for _ in range(TRIES):  # a little less may do where more did not: no walk is the best there is
        found = peak(high - 1)
        if found is None:
            break
        high = found
    return high


class _Longer:
    """The longer graph while it is made."""

    def __init__(self, priced: Priced, node_worker: Sequence[int], costs: Costs) -> None:
        self.priced = priced
        self.costs = costs
        graph = priced.graph
        self.specs = [*graph.specs, Spec(KIND_ARRAY, (0,), "uint8")]
        self.handle = len(graph.specs)
        """The spec of what stands for a spilled value."""
        self.nodes = list(graph.nodes)
        self.values = len(priced.spec)
        self.node_worker = list(node_worker)
        self._memory: dict[tuple[str, int], float] = {}

    def mark(self) -> tuple[int, int]:
        """Return what `back_to` takes."""
        return len(self.nodes), self.values

    def back_to(self, mark: tuple[int, int]) -> None:
        """Drop the nodes that were added since; what nodes of the graph read is changed again by the next walk."""
        count, self.values = mark
        del self.nodes[count:], self.node_worker[count:]

    def spill(self, worker: int, value: int) -> tuple[int, int]:
        """Add a node that spills a value; return its number and the id of what stands for it."""
        return self.add(worker, Node(ROLE_MEMORY, "spill", (), (value,), (self.handle,), ()))

    def add(self, worker: int, node: Node) -> tuple[int, int]:
        """Add a node; return its number and the id of its first output."""
        self.nodes.append(node)
        self.node_worker.append(worker)
        first = self.values
        self.values += len(node.outputs)
        return len(self.nodes) - 1, first

    def seconds(self, what: str, spec: int) -> float:
        """Return what it takes to spill or load a value."""
        known = self._memory.get((what, spec))
        if known is None:
            value, handle = self.specs[spec], self.specs[self.handle]
            read, made = ((value,), (handle,)) if what == "spill" else ((handle,), (value,))
            node = Node(ROLE_MEMORY, what, (), (), (), ())
            known = self._memory[what, spec] = self.costs.node_seconds(node, read, made)
        return known

    def repeats(self, index: int) -> bool:
        """Tell whether a node may be run again."""
        node = self.priced.graph.nodes[index]
        if node.role == ROLE_FUNCTION:
            told: Any = node.params[2]
            return not node.transforms and bool(told & PURE) and node.params[3] is not None
        return node.role == ROLE_OP or (node.role == ROLE_SUM and node.fn == "sum")

    def spills(self, value: int) -> bool:
        """Tell whether a value can be written to disk; one of a device goes there through host memory (`transfers`)."""
        spec = self.priced.graph.specs[self.priced.spec[value]]
        if spec.kind == KIND_ARRAY:
            return True
        return spec.kind == KIND_CONTEXT and spec.shape[1:] != (LIVE,)

    def relieved(self, sequences: list[list[int]]) -> Relieved:
        """Return what was made."""
        before = self.priced.graph
        nodes, node_worker, keep, demands = self.nodes, self.node_worker, before.keep, before.demands
        if before.open_ended and len(nodes) > len(before.nodes):
            old, number, value = len(before.nodes) - 1, len(nodes) - 1, self.priced.first[-1]
            nodes = [*nodes[:old], *nodes[old + 1 :], nodes[old]]
            node_worker = [*node_worker[:old], *node_worker[old + 1 :], node_worker[old]]
            values = _moved_last(value, self.values - 1)
            nodes = [node._replace(inputs=tuple(map(values, node.inputs))) for node in nodes]
            keep = tuple([(values(one), where) for one, where in keep])
            demands = tuple([one._replace(node=number if one.node == old else one.node) for one in demands])
            places = _moved_last(old, number)
            sequences = [[places(index) for index in one] for one in sequences]
        graph = Graph(tuple(self.specs), before.externals, tuple(nodes), keep, before.open_ended, demands)
        return Relieved(price(graph, self.costs), tuple(node_worker), sequences)


def _moved_last(number: int, last: int) -> Callable[[int], int]:
    """Return what numbers are, when one of them has become the last."""
    return lambda one: one if one < number else last if one == number else one - 1


class _Walk:
    """One walk through the nodes of one worker. See the head of this file."""

    def __init__(
        self,
        longer: _Longer,
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
        self.stays -= {node.inputs[0] for node in map(priced.graph.nodes.__getitem__, sequence) if node.fn == "spill"}

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
            self._take(sum([priced.size[value] for value in outputs]))
            self._unlock(inputs)
            self.longer.nodes[index] = node._replace(inputs=self._renamed(node))
            self.order.append(index)
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
                raise TooSmall  # it was given up, and cannot be had back
            self._take(priced.size[value])
            self.here[value] = value  # it comes from the client, or from another worker
            return True
        self._take(priced.size[value])
        index, loaded = self.longer.add(
            self.worker, Node(ROLE_MEMORY, "load", (), (handle,), (priced.spec[value],), ())
        )
        self.order.append(index)
        self.here[value] = loaded
        return True

    def _repeat(self, index: int) -> None:
        """Run a node again, of which everything that it reads is here."""
        priced, here = self.priced, self.here
        node = priced.graph.nodes[index]
        params = node.params
        if node.role == ROLE_FUNCTION:
            told: Any = params[2]
            params = (*params[:2], told | AGAIN, *params[3:])
        outputs = self._outputs(index)
        self._take(sum([priced.size[value] for value in outputs]))
        again = node._replace(inputs=self._renamed(node), params=params, near=-1)
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

    # ---- giving up values -------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """Let go of the value that costs least to have back, for its bytes and the time until it is read.

        Raises:
            TooSmall: there is none.
        """
        size = self.priced.size
        free = [
            value
            for value in self.here
            if size[value] and value not in self.locked and (self.priced.maker[value] >= 0 or value in self.handles)
        ]
        large = [value for value in free if size[value] * SMALL >= self.limit]
        for some in (large, free):
            best: tuple[float, int, bool] | None = None
            for value in some:
                load, redo = self._costs(value)
                cost = min(load, redo)
                if cost < NEVER:
                    score = cost / (size[value] * (self._next_use(value) - self.place))
                    if best is None or (score, value) < best[:2]:
                        best = (score, value, redo < load)
            if best is not None:
                self._let_go(best[1], redo=best[2])
                return
        raise TooSmall

    def _let_go(self, value: int, *, redo: bool) -> None:
        if redo:
            self._hold_for(value, int(self._next_use(value)))
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
            load = longer.seconds("load", spec)
        elif longer.spills(value):
            load = longer.seconds("spill", spec) + longer.seconds("load", spec)
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
                seconds += self.longer.seconds("load", self.priced.spec[one])
            elif self._repeats(one):
                seconds += NEVER if depth >= DEEPEST else self._seconds_again(one, known, depth + 1)
            else:
                return NEVER
            if seconds == NEVER:
                break
        return seconds
