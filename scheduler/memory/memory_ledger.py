"""Memory ledger: bytes live on each worker for a given node order, and admission of nodes under a limit.

`execution_order` and `spill_limits` choose orders by it. A value takes memory on each worker that makes or reads it:
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
from ..model.unseen_function_bytes import estimated_bytes


class _HoldingArrays(NamedTuple):
    """The holdings of a `MemoryUse` as arrays."""

    begins: NDArray[np.int64]
    """Per node, where its holdings begin in `touched`."""
    touched: NDArray[np.int64]
    size: NDArray[np.int64]
    stays: NDArray[np.bool_]


class SplitOrder(NamedTuple):
    """The node order of one worker, split into pieces of one call each."""

    pieces: list[list[int]]
    peak: int
    """The most bytes that one of them holds, besides those that are live from the start of the run to its end."""


class MemoryUse:
    """The holdings that each node makes or reads, from which the bytes live under an order follow.

    A holding is a value on a worker; holdings are numbered.
    """

    def __init__(self, priced: PricedGraph, node_worker: Sequence[int], residency: Sequence[int], workers: int) -> None:
        self.size: list[int] = []
        """Per holding, its bytes."""
        self.stays: list[bool] = []
        """Per holding, whether it is live to the end of the run."""
        self.touched: list[list[int]] = []
        """Per node, the holdings that it makes or reads."""
        self.resident = [0] * workers
        """Per worker, bytes that are there from the start to the end."""
        self._assumed = _unseen_bytes(priced)
        """Per node that may make or read more than is known, about how much: calls leave room for it, orders do not."""
        on_disk = left_on_disk(priced, node_worker, residency)
        self._local: list[bool] = []
        """Per holding, whether its value is made in the run and no other worker reads it."""
        self._stays_home: list[bool] = []
        """Per holding, whether it is made there, and later calls read it there (`segments.transfers`)."""
        self._arrives: list[bool] = []
        """Per holding, whether it is transferred to its worker."""
        self._as_arrays: _HoldingArrays | None = None
        same = first_contexts(priced, on_disk)
        made = [value for value, _ in priced.graph.keep if priced.maker[value] >= 0]
        named = {(same.get(value, value), node_worker[priced.maker[value]]) for value in made}
        kept = {(same.get(value, value), node_worker[priced.maker[value]]) for value in made if value not in on_disk}
        number: dict[tuple[int, int], int] = {}
        for value, home in enumerate(residency):
            if home >= 0 and value not in on_disk:
                self.resident[home] += priced.size[value]
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
        self._stays_home = [one or key in named for one, key in zip(self._local, number, strict=True)]
        self._arrives = [priced.maker[value] < 0 or node_worker[priced.maker[value]] != here for value, here in number]

    def live_bytes(self, order: Sequence[int]) -> list[int]:
        """Return the bytes live while each node of an order of nodes of one worker runs."""
        return self._live_and_left(order)[0].tolist()

    def frees_memory(self, order: Sequence[int]) -> list[bool]:
        """Return, per node of the order, whether no more bytes are live after it than before it."""
        _, left = self._live_and_left(order)
        return (np.diff(left, prepend=0) <= 0).tolist()

    def _live_and_left(self, order: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return, per node of an order, the bytes live while it runs, and after it."""
        if self._as_arrays is None:
            counts = np.fromiter(map(len, self.touched), np.int64, len(self.touched))
            flat = np.fromiter(chain.from_iterable(self.touched), np.int64, int(counts.sum()))
            self._as_arrays = _HoldingArrays(
                offsets(counts), flat, np.array(self.size, np.int64), np.array(self.stays, np.bool_)
            )
        known = self._as_arrays
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
        """Return the most bytes live on a worker if it runs its nodes in this order."""
        return self.resident[worker] + max(self.live_bytes(order), default=0)

    def peak_node(self, order: Sequence[int]) -> int:
        """Return the node of an order of nodes of one worker at which most bytes are live; -1 if there is none."""
        live = self.live_bytes(order)
        return order[live.index(max(live))] if live else -1

    def split(
        self, order: Sequence[int], pieces: Sequence[Sequence[int]], limit: int, *, pinned: bool = True
    ) -> SplitOrder:
        """Split pieces of the node order of one worker further, where the bytes that they hold would exceed a limit.

        A piece holds all values that its call brings from its start to its end, and values for other workers from their
        making to its end. A piece of one node holds no more than the node does, so that a limit which the order keeps
        can always be kept. The call of a node with an unobserved context brings nothing else that would not leave
        memory for the assumed bytes. Without `pinned`, calls also bring values from one piece of the worker to another.
        """
        size, local, home, comes, stays = self.size, self._local, self._stays_home, self._arrives, self.stays
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
                assumed = self._assumed.get(index, 0)
                if current and max(tops + brought, used + more + assumed) > limit:
                    cut.append(current)
                    peak = max(peak, most)
                    used -= over
                    current, over, most, tops = [], 0, 0, 0
                    fresh.clear()
                current.append(index)
                most = max(most + brought, used + more)
                tops = max(tops + brought, used + more + assumed)
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
    """Return the values that outlive the run and that it leaves on their worker's disk. Values of earlier runs among
    them take no memory in this run; values that it makes take memory until they are spilled."""
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


def first_contexts(priced: PricedGraph, on_disk: Container[int]) -> dict[int, int]:
    """Return, by context that a vjp returns with its saved values, the first context that holds the same memory."""
    found = {value: before for value, before in previous_contexts(priced).items() if before not in on_disk}
    for value, before in list(found.items()):  # nodes that were added may read what has a higher number
        while before in found:
            before = found[before]
        found[value] = before
    return found


def previous_contexts(priced: PricedGraph) -> dict[int, int]:
    """Return, by context that a vjp returns with its saved values, the one that it read: both hold the same memory."""
    specs = [is_sized(spec) for spec in priced.graph.specs]
    found: dict[int, int] = {}
    for first, node in zip(priced.first, priced.graph.nodes, strict=True):
        if isinstance(node, FunctionVjp) and node.outputs and specs[node.outputs[0]]:
            if priced.size[first] and node.inputs[0] >= 0:
                found[first] = node.inputs[0]
    return found


class AdmissionLedger:
    """Admits the nodes of one worker one by one under a limit. See the head of this file."""

    def __init__(self, use: MemoryUse, worker: int, base: Sequence[int], limit: int) -> None:
        """`base` is an order of all nodes of the worker under which no more bytes than the limit are live."""
        self._use = use
        self._limit = limit - use.resident[worker]
        self._base = base
        self._place = {index: place for place, index in enumerate(base)}
        self._needed: NDArray[np.int64] = np.array(use.live_bytes(base), np.int64)
        """Per place in the base order, the bytes live at its node after all before it and those admitted early."""
        self._places: dict[int, list[int]] = {}
        """By holding, the places of the nodes that touch it and have not run, ascending."""
        for place, index in enumerate(base):
            for holding in use.touched[index]:
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
        """Return whether a node may run now."""
        found, changes = self._admissible(index)
        if found and changes:
            self._enter([(first, last, -size) for first, last, size in changes])
        return found

    def admit(self, index: int) -> bool:
        """Admit a node to run now, if it fits; return whether it does."""
        found, _ = self._admissible(index)
        if found:
            self._run(index, self._place[index])
        return found

    def _admissible(self, index: int) -> tuple[bool, list[tuple[int, int, int]]]:
        """Return whether a node fits, and the changes entered for it if it does."""
        place = self._place[index]
        changes: list[tuple[int, int, int]] = []
        more = 0
        for holding in self._use.touched[index]:
            size = self._use.size[holding]
            places = self._places[holding]
            if holding not in self._here:
                more += size
                changes.append((self._front, places[0], size))
            if places[-1] == place and not self._use.stays[holding]:
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
        for holding in self._use.touched[index]:
            places = self._places[holding]
            if holding not in self._here:
                self._here.add(holding)
                self._used += self._use.size[holding]
            places.remove(place)
            if not places and not self._use.stays[holding]:
                self._used -= self._use.size[holding]
        self._done[place] = 1
        while self._front < len(self._done) and self._done[self._front]:
            self._front += 1


class AdmissionLedgers:
    """Admits the nodes of a worker with limits in several memory spaces: a node must fit in each."""

    def __init__(self, ledgers: Sequence[AdmissionLedger]) -> None:
        """All have the same base order."""
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
