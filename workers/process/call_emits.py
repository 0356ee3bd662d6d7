"""The emits of one call: numbered within their node, and sent ahead of the record where they become many.

What is less than a chunk goes with the record, as before. What was sent ahead is not sent again when a step runs a
second time on this worker; of a later attempt the run listener drops it."""

from __future__ import annotations

import pickle
from collections.abc import Callable

from raygrad.proto.ir.program import Call

from ..values.emit_chunks import CHUNK_BYTES, STREAMED, Emit, EmitChunk

Send = Callable[[EmitChunk], "tuple[float, int]"]
"""Sends a chunk; returns the seconds of waiting for room, and the number of chunks that the worker has sent."""


class CallEmits:
    """What the nodes of one call emit."""

    __slots__ = ("_attempt", "_chunks", "_node", "_ordinal", "_send", "_sent", "_size", "_worker", "pending", "waited")

    def __init__(self, call: Call, worker: str, send: Send | None) -> None:
        self.pending: list[Emit] = []
        """What was not sent ahead."""
        self.waited = 0.0
        """The seconds of waiting for handlers."""
        self._attempt = call.run, call.segment, call.attempt  # and not the call, whose inputs are in the store
        self._worker = worker
        self._send = send
        self._chunks = 0
        self._size = 0
        self._node = -1
        self._ordinal = 0
        self._sent = 0
        """The number of emits of the current node that were sent ahead."""

    def add(self, node: int, name: str, value: bytes) -> None:
        """Add what the running node emits; send a chunk if there is enough for one, which may wait.

        Raises:
            DiskFull: nobody takes chunks, and the disk has no room for more.
        """
        if node != self._node:
            self._node, self._ordinal, self._sent = node, 0, 0
        ordinal = self._ordinal
        self._ordinal += 1
        if ordinal < self._sent:
            return
        self.pending.append((node, ordinal, name, value))
        self._size += len(value)
        if self._size >= CHUNK_BYTES and self._send is not None:
            chunk = EmitChunk(*self._attempt, self._worker, tuple(self.pending), self._size)
            waited, self._chunks = self._send(chunk)
            self.waited += waited
            self._size, self._sent = 0, self._ordinal
            self.pending.clear()

    def rerun(self, node: int) -> None:
        """Forget what a node has emitted: it runs again from its beginning."""
        if node == self._node:
            self.pending = [one for one in self.pending if one[0] != node]
            self._size = sum([len(one[3]) for one in self.pending])
            self._ordinal = 0

    def recorded(self) -> tuple[Emit, ...]:
        """Return what goes with the record."""
        if not self._chunks:
            return tuple(self.pending)
        waited = pickle.dumps(self.waited, pickle.HIGHEST_PROTOCOL)
        return (*self.pending, (0, self._chunks, STREAMED, waited))
