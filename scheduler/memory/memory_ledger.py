"""Memory ledger: bytes live on each worker for a given node order, and admission of nodes under a limit.

`execution_order` and `spill_planner` choose orders by it. A value takes memory on each worker that makes or reads it:
from the first such node to the end of the last, and to the end of the run if it is kept or was there before, unless the
plan spills it. So the need of a worker follows from the order of its own nodes alone, not from times or other workers.

`AdmissionLedger` keeps a limit without deadlock: it has one complete order that fits (the base order), and admits a
node out of that order only if the rest of the base order still fits. So an admitted run can always be completed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from raygrad.proto.ir.nodes import ROLE_FUNCTION, FunctionVjp, Spill
from raygrad.proto.ir.specs import UNSEEN, ContextSpec, is_sized

from ..model.arrays import offsets
from ..model.priced_graph import PricedGraph
from ..model.unseen_functions import estimated_bytes


class _HoldingArrays(NamedTuple):
    """What a `MemoryUse` knows, in arrays."""

    begins: NDArray[np.int64]
    """Per node, where what it touches begins in `touched`."""
    touched: NDArray[np.int64]
    size: NDArray[np.int64]
    stays: NDArray[np.bool_]


class SplitOrder(NamedTuple):
    """The order of one worker, cut into pieces that are run by one call each."""

    pieces: list[list[int]]
    peak: int
    """The most bytes that any of them holds, beside what is there from the start of the run to its end."""


class MemoryUse:
    """What each node touches on its worker: values as holdings, numbered, one per value and worker."""

    def __init__(self, priced: PricedGraph, node_worker: Sequence[int], residency: Sequence[int], workers: int) -> None:
        self.size: list[int] = []
        """Per holding, its bytes."""
        self.stays: list[bool] = []
        """Per holding, whether it is there to the end."""
        self.touched: list[list[int]] = []
        """Per node, the holdings that it makes or reads."""
        self.before = [0] * workers
        """Per worker, bytes that are there from the start to the end."""
        self._unseen = _unseen_bytes(priced)
        """Per node that may make or read more than is known, about how much: calls leave room for it, orders do not."""
        away = left_on_disk(priced, node_worker, residency)
        self._local: list[bool] = []
        """Per holding, whether no other worker touches it, nor did anybody before the run."""
        self._home: list[bool] = []
        """Per holding, whether it was made there, and calls there find it there (`crossing`)."""
        self._comes: list[bool] = []
        """Per holding, whether it is brought there."""
        self._arrays: _HoldingArrays | None = None
        same = first_contexts(priced, away)
        made = [value for value, _ in priced.graph.keep if priced.maker[value] >= 0]
        named = {(same.get(value, value), node_worker[priced.maker[value]]) for value in made}
        kept = {(same.get(value, value), node_worker[priced.maker[value]]) for value in made if value not in away}
        number: dict[tuple[int, int], int] = {}
        for value, home in enumerate(residency):
            if home >= 0 and value not in away:
                self.before[home] += priced.size[value]
        for index, node in enumerate(priced.graph.nodes):
            worker = node_worker[index]
            first = priced.first[index]
            mine: list[int] = []
            values = {*node.inputs, *range(first, first + len(node.outputs))}
            for value in {same.get(value, value) for value in values} if same else values:
                if value < 0 or (value < len(residency) and residency[value] == worker):
                    continue
                holding = number.setdefault((value, worker), len(number))
                if holding == len(self.size):
                    self.size.append(priced.size[value])
                    self.stays.append((value, worker) in kept)
                mine.append(holding)
            self.touched.append(sorted(mine))
        copies = Counter(value for value, _ in number)
        self._local = [priced.maker[value] >= 0 and copies[value] == 1 for value, _ in number]
        self._home = [one or key in named for one, key in zip(self._local, number, strict=True)]
        self._comes = [priced.maker[value] < 0 or node_worker[priced.maker[value]] != here for value, here in number]

    def needs(self, order: Sequence[int]) -> list[int]:
        """Return how many bytes an order of some nodes of one worker needs, after each of them begins."""
        return self._needs(order)[0].tolist()

    def gives(self, order: Sequence[int]) -> list[bool]:
        """Return, per node of the order, whether it leaves no more bytes behind than it found."""
        _, left = self._needs(order)
        return (np.diff(left, prepend=0) <= 0).tolist()

    def _needs(self, order: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return, per node of an order, the bytes in use while it runs and after it."""
        if self._arrays is None:
            counts = np.fromiter(map(len, self.touched), np.int64, len(self.touched))
            flat = np.fromiter(chain.from_iterable(self.touched), np.int64, int(counts.sum()))
            self._arrays = _HoldingArrays(
                offsets(counts), flat, np.array(self.size, np.int64), np.array(self.stays, np.bool_)
            )
        known = self._arrays
        nodes = np.array(order, np.int64)
        begin = known.begins[nodes]
        counts = known.begins[nodes + 1] - begin
        ends = np.cumsum(counts)
        place = np.repeat(np.arange(len(nodes)), counts)
        mine = known.touched[np.arange(len(place)) - np.repeat(ends - counts - begin, counts)]
        first, last = np.full(len(known.size), -1), np.full(len(known.size), -1)
        last[mine] = place  # of several assignments the last one stays
        first[mine[::-1]] = place[::-1]
        here = np.flatnonzero(first >= 0)
        comes = np.zeros(len(nodes), np.int64)
        goes = np.zeros(len(nodes), np.int64)
        np.add.at(comes, first[here], known.size[here])
        gone = here[~known.stays[here]]
        np.add.at(goes, last[gone], known.size[gone])
        left = np.cumsum(comes - goes)
        return left + goes, left

    def peak(self, worker: int, order: Sequence[int]) -> int:
        """Return the most bytes that a worker needs if it runs its nodes in this order."""
        return self.before[worker] + max(self.needs(order), default=0)

    def fullest(self, order: Sequence[int]) -> int:
        """Return the node of an order of some nodes of one worker that runs when most is there; -1 if there is none."""
        needs = self.needs(order)
        return order[needs.index(max(needs))] if needs else -1

    def peaks(self, sequences: Sequence[Sequence[int]]) -> list[int]:
        """Return the same of every worker."""
        return [self.peak(worker, order) for worker, order in enumerate(sequences)]

    def fit(
        self, order: Sequence[int], pieces: Sequence[Sequence[int]], limit: int, *, pinned: bool = True
    ) -> SplitOrder:
        """Cut pieces of the order of one worker further, where what they hold at once would pass a limit.

        A piece holds what its call brings from its start, and that and what it hands on to other workers until it ends.
        A piece of a single node holds no more than the node does, so that a limit which the order keeps can always be
        kept. Where nobody knows what a node saves, or finds saved, its call brings nothing else that would not leave
        much room for it. Without `pinned`, what one piece makes and another of this worker reads is brought by a call,
        too.
        """
        size, local, home, comes, stays = self.size, self._local, self._home, self._comes, self.stays
        last: dict[int, int] = {}
        for place, index in enumerate(order):
            for holding in self.touched[index]:
                last[holding] = place
        here: set[int] = set()
        used, place, peak = 0, 0, 0
        cut: list[list[int]] = []
        for piece in pieces:
            current: list[int] = []
            fresh: set[int] = set()  # what came since the current piece began
            over, most, tops = 0, 0, 0  # bytes that go when it ends; the most that it holds, and with what is estimated
            for index in piece:
                mine = self.touched[index]
                more = brought = 0
                for holding in mine:
                    if holding not in here:
                        more += size[holding]
                        if comes[holding]:
                            brought += size[holding]
                more_unseen = self._unseen.get(index, 0)
                if current and max(tops + brought, used + more + more_unseen) > limit:
                    cut.append(current)
                    peak = max(peak, most)
                    used -= over
                    current, over, most, tops = [], 0, 0, 0
                    fresh.clear()
                current.append(index)
                most = max(most + brought, used + more)
                tops = max(tops + brought, used + more + more_unseen)
                for holding in mine:
                    if holding not in here:
                        here.add(holding)
                        fresh.add(holding)
                        used += size[holding]
                    if last[holding] == place and not stays[holding]:
                        if local[holding] if holding in fresh else pinned and home[holding]:
                            used -= size[holding]
                        else:
                            over += size[holding]
                place += 1
            cut.append(current)
            peak = max(peak, most)
            used -= over
        return SplitOrder(cut, peak)


def left_on_disk(priced: PricedGraph, node_worker: Sequence[int], residency: Sequence[int]) -> set[int]:
    """Return the values that outlive the run, and which it leaves on disk where they are: those that were there before
    do not take room in it, those that it makes do so until they are spilled."""
    kept = {value for value, _ in priced.graph.keep}
    found: set[int] = set()
    for index, node in enumerate(priced.graph.nodes):
        if isinstance(node, Spill):
            value = node.inputs[0]
            home = residency[value] if value < len(residency) else -1
            if value in kept or home == node_worker[index]:
                found.add(value)
    return found


def _unseen_bytes(priced: PricedGraph) -> dict[int, int]:
    """Return, per node whose Function is unseen, the estimate of what its context holds. Its vjp is taken to find
    as much there, for what it reads besides."""
    unknown = [isinstance(spec, ContextSpec) and spec.nbytes == UNSEEN for spec in priced.graph.specs]
    if not any(unknown):
        return {}
    size, found = priced.size, dict[int, int]()
    for index, node in enumerate(priced.graph.nodes):
        if node.role == ROLE_FUNCTION:
            contexts = [priced.spec[one] for one in node.inputs[:1] if one >= 0] if node.depth else node.outputs[:1]
            if contexts and unknown[contexts[0]]:
                found[index] = estimated_bytes(sum([size[value] for value in {*node.inputs} if value >= 0]))
    return found


def first_contexts(priced: PricedGraph, away: Container[int]) -> dict[int, int]:
    """Return, by context that a vjp leaves with all that was saved, the first one that holds the same memory."""
    found = {value: before for value, before in previous_contexts(priced).items() if before not in away}
    for value, before in list(found.items()):  # nodes that were added may read what has a higher number
        while before in found:
            before = found[before]
        found[value] = before
    return found


def previous_contexts(priced: PricedGraph) -> dict[int, int]:
    """Return, by context that a vjp leaves with all that was saved, the one that it read: they hold the same memory."""
    specs = [is_sized(spec) for spec in priced.graph.specs]
    found: dict[int, int] = {}
    for first, node in zip(priced.first, priced.graph.nodes, strict=True):
        if isinstance(node, FunctionVjp) and node.outputs and specs[node.outputs[0]]:
            if priced.size[first] and node.inputs[0] >= 0:
                found[first] = node.inputs[0]
    return found


class AdmissionLedger:
    """The accounts of one worker with a limit, while its nodes are admitted one by one. See the head of this file."""

    def __init__(self, room: MemoryUse, worker: int, base: Sequence[int], limit: int) -> None:
        """`base` is an order of all nodes of the worker that needs no more than the limit."""
        self._room = room
        self._limit = limit - room.before[worker]
        self._base = base
        self._place = {index: place for place, index in enumerate(base)}
        self._needed: NDArray[np.int64] = np.array(room.needs(base), np.int64)
        """Per place in the base order, what its node needs when all before it has run, with what was run early."""
        self._places: dict[int, list[int]] = {}
        """By holding, the places of the nodes that touch it and have not run, ascending."""
        for place, index in enumerate(base):
            for holding in room.touched[index]:
                self._places.setdefault(holding, []).append(place)
        self._here: set[int] = set()
        self._used = 0
        self._done = bytearray(len(base))
        self._front = 0

    @property
    def front(self) -> int:
        """The first node of the base order that has not run, or -1. It is always admitted."""
        return self._base[self._front] if self._front < len(self._base) else -1

    def fits(self, index: int) -> bool:
        """Tell whether a node may run now."""
        found, changes = self._admissible(index)
        if found and changes:
            self._enter([(first, last, -size) for first, last, size in changes])
        return found

    def admit(self, index: int) -> bool:
        """Enter that a node runs now, if it fits; return whether it does."""
        found, _ = self._admissible(index)
        if found:
            self._run(index, self._place[index])
        return found

    def _admissible(self, index: int) -> tuple[bool, list[tuple[int, int, int]]]:
        """Return whether a node fits, and what was entered of it if it does."""
        place = self._place[index]
        changes: list[tuple[int, int, int]] = []
        more = 0
        for holding in self._room.touched[index]:
            size = self._room.size[holding]
            places = self._places[holding]
            if holding not in self._here:
                more += size
                changes.append((self._front, places[0], size))
            if places[-1] == place and not self._room.stays[holding]:
                newest = places[-2] if len(places) > 1 else self._front - 1
                changes.append((max(newest + 1, self._front), place + 1, -size))
        if place != self._front:
            if self._used + more > self._limit:
                return False, []
            self._enter(changes)
            if int(self._needed[self._front : place].max()) > self._limit:
                self._enter([(first, last, -size) for first, last, size in changes])
                return False, []
            return True, changes
        return True, []

    def _enter(self, changes: Sequence[tuple[int, int, int]]) -> None:
        for first, last, size in changes:
            if first < last:
                self._needed[first:last] += size

    def _run(self, index: int, place: int) -> None:
        for holding in self._room.touched[index]:
            places = self._places[holding]
            if holding not in self._here:
                self._here.add(holding)
                self._used += self._room.size[holding]
            places.remove(place)
            if not places and not self._room.stays[holding]:
                self._used -= self._room.size[holding]
        self._done[place] = 1
        while self._front < len(self._done) and self._done[self._front]:
            self._front += 1


class AdmissionLedgers:
    """The accounts of a worker several of whose memories are limited: a node is admitted if it fits in each."""

    def __init__(self, ledgers: Sequence[AdmissionLedger]) -> None:
        """They have one base."""
        self._ledgers = ledgers

    @property
    def front(self) -> int:
        """See `AdmissionLedger.front`."""
        return self._ledgers[0].front

    def admit(self, index: int) -> bool:
        """See `AdmissionLedger.admit`."""
        if not all([one.fits(index) for one in self._ledgers]):
            return False
        return all([one.admit(index) for one in self._ledgers])
