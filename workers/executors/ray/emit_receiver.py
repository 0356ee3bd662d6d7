"""The receiver of emits: the client's requests for chunks that running calls send ahead of their records.

One request per worker is open, which the worker answers when there are chunks. The next is sent once handlers have
taken these: until then what the worker emits waits there, and its calls with it. Requests and answers overtake records,
so that a record which says that chunks come before it is held back until they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...values.emit_chunks import STREAMED, ChunkStore, EmitChunk
from ..base import EmitsArrived, Report, SegmentReturned


class EmitReceiver:
    """What one executor has asked its workers for, and received; used under the executor's lock."""

    def __init__(self, send: Sequence[Callable[[], Any]]) -> None:
        """`send` has, per worker, what sends a request and returns the reference of its answer."""
        self.asked: dict[Any, int] = {}
        """By the reference of its answer, the worker of each open request."""
        self._send = list(send)
        self._store = ChunkStore()
        self._received = [0] * len(send)
        """Per worker, the number of chunks that have arrived."""
        self._idle: set[int] = set()
        """Workers that have answered, and are not asked again yet."""
        self._known: set[int] = set()
        """Workers that were ever asked."""
        self._held: dict[int, list[tuple[int, SegmentReturned]]] = {}
        """Per worker, records that are held back, with the number of chunks that come before each."""

    def add(self, send: Callable[[], Any]) -> None:
        """Take in another worker, with what sends it a request."""
        self._send.append(send)
        self._received.append(0)

    def restart(self, worker: int, send: Callable[[], Any]) -> None:
        """Take in that another process has taken the place of a worker that is lost: it counts its chunks from the
        first, and was never asked."""
        self._send[worker] = send
        self._received[worker] = 0
        self._known.discard(worker)

    def begin(self, worker: int) -> None:
        """Ask a worker for chunks for the first time, if that was not done."""
        if worker not in self._known:
            self._known.add(worker)
            self.ask(worker)

    def ask(self, worker: int) -> None:
        """Ask a worker for chunks that has no open request."""
        self._idle.discard(worker)
        self.asked[self._send[worker]()] = worker

    def answered(self, reference: Any) -> int:
        """Note that a request was answered; return its worker."""
        return self.asked.pop(reference)

    def take(self, worker: int, chunks: Sequence[EmitChunk]) -> list[Report]:
        """Take in an answer; return what is to be reported."""
        self._received[worker] += len(chunks)
        self._idle.add(worker)
        reports: list[Report] = [EmitsArrived(self._store.hold(chunk, or_in_memory=True)) for chunk in chunks]
        held = self._held.pop(worker, [])
        here = [report for count, report in held if count <= self._received[worker]]
        if len(here) < len(held):
            self._held[worker] = [one for one in held if one[0] > self._received[worker]]
        return reports + here

    def holds_back(self, worker: int, report: SegmentReturned) -> bool:
        """Hold a record back if chunks that come before it have not arrived; tell whether that is so."""
        emits = report.record.emits
        if not emits or emits[-1][2] != STREAMED or emits[-1][1] <= self._received[worker]:
            return False
        self._held.setdefault(worker, []).append((emits[-1][1], report))
        return True

    @property
    def holds(self) -> bool:
        """Whether a record is held back."""
        return bool(self._held)

    def resumable(self) -> list[int]:
        """Return the workers that have answered and were not asked again."""
        return list(self._idle)

    def lose(self, worker: int) -> None:
        """Forget what a worker that is lost has not answered. Records that are held back are lost with the chunks."""
        self.asked = {reference: one for reference, one in self.asked.items() if one != worker}
        self._idle.discard(worker)
        self._held.pop(worker, None)

    def close(self) -> None:
        """Forget everything."""
        self.asked.clear()
        self._held.clear()
