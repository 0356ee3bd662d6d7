"""List scheduling under memory limits: an order in which each worker's nodes keep its limits, found in virtual time.

`execution_order` tries it under the workers' limits, or under assumed ones. A node that needs more memory starts only
if the rest of a base order still fits (`memory_ledger`), so that a worker never waits for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from ..model.priced_graph import NodeEdges, PricedGraph
from ..segments.block_cuts import input_arrivals
from .memory_ledger import AdmissionLedger, AdmissionLedgers, MemoryUse

MAX_CANDIDATES = 8
"""The most ready nodes that are tried for admission, before a worker waits for memory."""


def sequences_of_order(order: Sequence[int], node_worker: Sequence[int], workers: int) -> list[list[int]]:
    """Return, per worker, its nodes in a given order of all nodes."""
    sequences: list[list[int]] = [[] for _ in range(workers)]
    for index in order:
        sequences[node_worker[index]].append(index)
    return sequences


class LimitedListScheduler:
    """List scheduling in virtual time: each idle worker starts the best ready node that its ledger admits."""

    def __init__(
        self,
        priced: PricedGraph,
        links: NodeEdges,
        node_worker: Sequence[int],
        residency: Sequence[int],
        uses: Sequence[MemoryUse],
        base: Sequence[int],
    ) -> None:
        """`base` is an order of all nodes that keeps every limit given to `run`."""
        self._priced = priced
        self._links = links
        self._node_worker = node_worker
        self._uses = uses
        self._base = sequences_of_order(base, node_worker, len(uses[0].resident))
        self._key = [(True, 0)] * len(node_worker)
        """Per node, (whether more bytes are live after it than before, its place in the base order): least first."""
        for place, index in enumerate(base):
            self._key[index] = (True, place)
        for mine in self._base:
            for index, *gives in zip(mine, *[use.frees_memory(mine) for use in uses], strict=True):
                self._key[index] = (not all(gives), self._key[index][1])
        self._last_arrival = input_arrivals(priced, node_worker, residency)

    def run(self, limits: Sequence[Sequence[int | None]]) -> list[list[int]]:
        """Return, per worker, its nodes in the order in which they start, without the last one of an open-ended graph.
        `limits` has, per memory space, the limit of each worker."""
        nodes, seconds, node_worker = self._priced.graph.nodes, self._priced.seconds, self._node_worker
        last_arrival = self._last_arrival
        missing = [len(one) for one in self._links.before]
        finish = [0.0] * len(nodes)
        ledgers = [self._ledger(worker, [one[worker] for one in limits]) for worker in range(len(self._base))]
        ready: list[list[tuple[tuple[bool, int], int]]] = [[] for _ in ledgers]
        came: list[set[int]] = [set() for _ in ledgers]
        busy = [False] * len(ledgers)
        made: list[list[int]] = [[] for _ in ledgers]
        held_back = len(nodes) - 1 if self._priced.graph.open_ended else -1
        events: list[tuple[float, int, int]] = []  # (time, node that is ready or -1 - node that ended, its worker)
        for index, count in enumerate(missing):
            if not count and index != held_back:
                heappush(events, (last_arrival(index, finish), index, node_worker[index]))
        while events:
            now = events[0][0]
            changed: set[int] = set()
            while events and events[0][0] == now:
                _, index, worker = heappop(events)
                changed.add(worker)
                if index < 0:
                    busy[worker] = False
                else:
                    came[worker].add(index)
                    heappush(ready[worker], (self._key[index], index))
            for worker in sorted(changed):
                index = -1 if busy[worker] else self._choose(ready[worker], came[worker], ledgers[worker])
                if index < 0:
                    continue
                busy[worker] = True
                made[worker].append(index)
                finish[index] = now + seconds[index]
                heappush(events, (finish[index], -1 - index, worker))
                for reader in self._links.after[index]:
                    missing[reader] -= 1
                    if not missing[reader] and reader != held_back:
                        heappush(events, (last_arrival(reader, finish), reader, node_worker[reader]))
        return made

    def _ledger(self, worker: int, limits: Sequence[int | None]) -> AdmissionLedger | AdmissionLedgers | None:
        """Return the ledger of a worker, None if it has no limits."""
        base = self._base[worker]
        pairs = zip(self._uses, limits, strict=True)
        found = [AdmissionLedger(use, worker, base, limit) for use, limit in pairs if limit is not None]
        return AdmissionLedgers(found) if len(found) > 1 else found[0] if found else None

    @staticmethod
    def _choose(
        ready: list[tuple[tuple[bool, int], int]], came: set[int], ledger: AdmissionLedger | AdmissionLedgers | None
    ) -> int:
        """Remove and return the best ready node that the ledger admits; -1 if there is none."""
        refused: list[tuple[tuple[bool, int], int]] = []
        chosen = -1
        while ready and chosen < 0 and len(refused) < MAX_CANDIDATES:
            one = heappop(ready)
            if one[1] not in came:
                continue  # it was started before, as the front of the base order
            if ledger is None or ledger.admit(one[1]):
                chosen = one[1]
            else:
                refused.append(one)
        for one in refused:
            heappush(ready, one)
        if chosen < 0 and ledger is not None and ledger.front in came:
            chosen = ledger.front
            ledger.admit(chosen)
        came.discard(chosen)
        return chosen
