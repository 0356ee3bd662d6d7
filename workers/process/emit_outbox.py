"""The outbox of emits: chunks that calls of a worker's process have sent ahead, until the client takes them.

A call that has sent more than `HELD_BYTES` waits in `send`: a slow handler slows down what emits, and no queue
grows."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from ..values.emit_chunks import ChunkStore, EmitChunk, HeldChunk

TAKEN_BYTES: Final = 4 * 1024 * 1024
"""Bytes of chunks that the client takes at once, or one chunk."""


class EmitOutbox:
    """A queue of chunks between the thread that runs calls and the one that answers the client."""

    def __init__(self, store: ChunkStore) -> None:
        self._store = store
        self._chunks: deque[HeldChunk] = deque()
        self._sent = 0
        self._arrived = threading.Condition()

    def send(self, chunk: EmitChunk) -> tuple[float, int]:
        """Add a chunk, once there is room; return the seconds of waiting, and the number of chunks sent so far.

        Raises:
            DiskFull: nobody takes chunks, and the disk has no room for more.
        """
        waited = self._store.wait_for_room()
        held = self._store.hold(chunk)
        with self._arrived:
            self._chunks.append(held)
            self._sent += 1
            self._arrived.notify()
        return waited, self._sent

    def take(self) -> list[EmitChunk]:
        """Wait for chunks, and return the oldest."""
        with self._arrived:
            while not self._chunks:
                self._arrived.wait()
            taken = [self._chunks.popleft()]
            size = taken[0].nbytes
            while self._chunks and size + self._chunks[0].nbytes <= TAKEN_BYTES:
                taken.append(self._chunks.popleft())
                size += taken[-1].nbytes
        return [held.take() for held in taken]
