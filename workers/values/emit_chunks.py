"""Chunks of emits: what a call has emitted so far, sent to the client before the call ends, in memory or on disk.

The emitting worker, the in-process executor and the client's run listener hold them while they wait for handlers.
Each holds a stated number of bytes in memory; what is beyond goes to an unnamed file until it is opened."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any, Final, NamedTuple, TypeAlias, cast

from raygrad.errors import ExecutionError
from raygrad.proto.codec.values import Packed

from .spill_file import FileRegion, SpillFile

CHUNK_BYTES: Final = 1024 * 1024
"""A call that has emitted so much sends it ahead of its record; what is less goes with the record."""

HELD_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of chunks that wait in one place: on a worker, on their way in this process, or at the client. A node
that emits more waits until handlers have taken some."""

STALL_SECONDS: Final = 60.0
"""Seconds for which a call waits for a client that takes nothing: its program does something else meanwhile."""

Emit: TypeAlias = "tuple[int, int, str, bytes]"
"""(node index, ordinal within the node, name, pickled value)."""

STREAMED: Final = "\0streamed"
"""The name of an entry in a record's emits that is no emit: its ordinal is the number of chunks that the worker has
sent by then, its value the pickled seconds for which the call has waited for handlers."""


class EmitChunk(NamedTuple):
    """Consecutive emits of one call that is going on."""

    run: int
    segment: int
    attempt: int
    worker: str
    emits: tuple[Emit, ...]
    nbytes: int
    """The bytes of the pickled values."""


class HeldChunk:
    """A chunk that waits, in memory or in a file, until it is taken."""

    __slots__ = ("_chunk", "_store", "nbytes", "run")

    def __init__(self, store: ChunkStore, run: int, chunk: EmitChunk | FileRegion, nbytes: int) -> None:
        self.run = run
        self.nbytes = nbytes
        self._store = store
        self._chunk = chunk

    def take(self) -> EmitChunk:
        """Return the chunk, which no longer waits. Called once."""
        chunk, self._chunk = self._chunk, cast("Any", None)
        return self._store.taken(chunk)


class ChunkStore:
    """The chunks that wait in one place: up to `limit` bytes in memory, the rest in a file that has no name.

    Who holds one may wait for room first. The wait ends once nothing was taken for `stall_seconds`, once `pass_on` or
    `close` is called; until the next is taken nobody waits then, and what has no room goes to the file."""

    def __init__(self, limit: int = HELD_BYTES, stall_seconds: float = STALL_SECONDS) -> None:
        self._limit = limit
        self._stall_seconds = stall_seconds
        self._in_memory = 0
        self._taken = 0
        """The number of chunks that were taken."""
        self._stalled = False
        self._closed = False
        self._changed = threading.Condition()
        self._file = SpillFile()

    @property
    def spilled(self) -> int:
        """Bytes in the file."""
        return self._file.used

    def wait_for_room(self) -> float:
        """Wait while the memory is full; return the seconds that it took."""
        if self._in_memory < self._limit:
            return 0.0
        with self._changed:
            began = now = time.monotonic()
            taken, due = self._taken, began + self._stall_seconds
            while self._in_memory >= self._limit and not self._stalled:
                self._changed.wait(due - now)
                now = time.monotonic()
                if self._taken != taken:
                    taken, due = self._taken, now + self._stall_seconds
                self._stalled |= now >= due
            return now - began

    def hold(self, chunk: EmitChunk, *, or_in_memory: bool = False) -> HeldChunk:
        """Hold a chunk until it is taken; with `or_in_memory`, in memory if it can be nowhere else.

        Raises:
            DiskFull: there is no room for it, neither in memory nor on disk.
        """
        if self._in_memory >= self._limit:
            heads = [emit[:3] for emit in chunk.emits]
            header = pickle.dumps((chunk._replace(emits=()), heads), pickle.HIGHEST_PROTOCOL)
            try:
                region = self._file.write(Packed(header, tuple([emit[3] for emit in chunk.emits])))
                return HeldChunk(self, chunk.run, region, chunk.nbytes)
            except ExecutionError:
                if not or_in_memory:
                    raise
        with self._changed:
            self._in_memory += chunk.nbytes
        return HeldChunk(self, chunk.run, chunk, chunk.nbytes)

    def taken(self, chunk: EmitChunk | FileRegion) -> EmitChunk:
        """Return a chunk that was held."""
        with self._changed:
            self._taken += 1
            self._stalled = self._closed
            if isinstance(chunk, EmitChunk):
                self._in_memory -= chunk.nbytes
            self._changed.notify_all()
        if isinstance(chunk, EmitChunk):
            return chunk
        packed = chunk.read()
        rest, heads = pickle.loads(packed.header)
        values = [bytes(cast("Any", one)) for one in packed.buffers]
        return rest._replace(emits=tuple([(*head, value) for head, value in zip(heads, values, strict=True)]))

    def pass_on(self) -> None:
        """End all waits, until a chunk is taken: who takes them waits himself for what emits."""
        with self._changed:
            self._stalled = True
            self._changed.notify_all()

    def close(self) -> None:
        """End all waits for good."""
        self._closed = True
        self.pass_on()
