"""Pool of pinned host buffers for copies to and from a GPU.

`staging` takes its buffers here. Their number is fixed for all devices and threads of the process, and a buffer is free
again when the event of its copy has happened. A thread that still has a copy under way takes a buffer without waiting:
two threads that wait for each other's buffers would deadlock.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final, final

import numpy as np

from raygrad.errors import DeviceError

SIZE: Final = 4 << 20
"""Bytes of a buffer: so many that the bus is at full speed, so few that the host soon has the first part to read."""

COUNT: Final = 8
"""Buffers of a process: each thread uses two at a time."""

LOOK: Final = 1.0
"""Seconds after which who waits for another thread looks whether that has lost its buffer."""


@final
class PinnedBuffer:
    """A piece of pinned memory."""

    __slots__ = ("__weakref__", "memory")

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def like(self, array: Any) -> Any:
        """Return its beginning as an array of NumPy's, with the size and dtype of another of one dimension."""
        return np.frombuffer(self.memory, array.dtype, array.size)


class PinnedBuffers:
    """The buffers.

    Args:
        cuda: CuPy's part for streams and pinned memory, or what stands in for it.
        size: bytes of each.
        count: how many there may be.
    """

    def __init__(self, cuda: Any, size: int = SIZE, count: int = COUNT) -> None:
        self.size = size
        self._cuda = cuda
        self._count = count
        self._changed = threading.Condition()
        """Over all that follows; notified when a buffer comes back."""
        self._alive: weakref.WeakSet[PinnedBuffer] = weakref.WeakSet()
        """All of them: one whose holder was interrupted before it could give it back is none any more."""
        self._free: list[PinnedBuffer] = []
        self._busy: list[tuple[Any, PinnedBuffer, Any]] = []
        """With the event after which each is free, and what must live until then."""

    def take(self, *, wait: bool = True) -> PinnedBuffer | None:
        """Return a buffer that is nobody's; None if there is none and nobody is to `wait` for one.

        Raises:
            RuntimeError: the host has no pinned memory left.
        """
        while True:
            with self._changed:
                self._settle()
                if self._free:
                    return self._free.pop()
                if self.made < self._count and (made := self._new()) is not None:
                    return made
                if not wait:
                    return None
                if not self._busy:
                    self._changed.wait(LOOK)
                    continue
                event = self._busy[0][0]
            event.synchronize()

    def give(self, buffer: PinnedBuffer, event: Any = None, held: Any = None) -> None:
        """Give a buffer back: free at once, or after an event, until which `held` lives, too."""
        with self._changed:
            if event is None:
                self._free.append(buffer)
            else:
                self._busy.append((event, buffer, held))
            self._changed.notify()

    def clear(self) -> None:
        """Let go of the buffers that nobody uses."""
        with self._changed:
            self._settle()
            self._free.clear()

    @property
    def made(self) -> int:
        """How many buffers there are."""
        return len(self._alive)

    def _settle(self) -> None:
        """Find out which buffers have become free."""
        still: list[tuple[Any, PinnedBuffer, Any]] = []
        for entry in self._busy:
            if entry[0].done:
                self._free.append(entry[1])
            else:
                still.append(entry)
        self._busy = still

    def _new(self) -> PinnedBuffer | None:
        """Return a new buffer; None if the host gives no more, and there are some to wait for."""
        try:
            memory = self._cuda.alloc_pinned_memory(self.size)
        except self._cuda.runtime.CUDARuntimeError as error:
            if self.made:
                self._count = self.made
                return None
            raise DeviceError(
                f"the host has no {self.size} bytes of memory left that a GPU may copy from and to ({error}); free "
                "memory of the host, or raise the limit of locked memory (ulimit -l)"
            ) from error
        made = PinnedBuffer(memory)
        self._alive.add(made)
        return made
