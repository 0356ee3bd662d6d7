"""Asynchronous copies on streams of their own: between host and devices through pinned memory, and between devices.

The backends call it with dense arrays in C order. CuPy's pool gives freed memory to the next allocation on the same
stream, whoever else still uses it. So

- a copying stream never owns an array, and starts after all work that was queued on the array's stream: memory that was
  just allocated may be in use there until then;
- the array's stream waits for the copy, from the array as to it, so that the array may be changed and freed at any
  time. For a copy to the host the host waits instead, so that other work on that stream continues.

The user orders a kernel's own stream against the current one, as with CuPy.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from .pinned import COUNT, SIZE, PinnedBuffer, PinnedBuffers

DIRECT: Final = 64 << 10
"""Bytes below which an array goes by CuPy's own copy, on the current stream: for so little, events cost more than they
save."""

AHEAD: Final = 2
"""How many parts of an array are on their way at a time: one is copied by the device, one read by the host."""


class _UnderWay(NamedTuple):
    copied: Any
    """The event after which the part is in the buffer."""
    buffer: PinnedBuffer
    target: Any
    """Where the host wants it."""


class Staging:
    """The copies of one library of arrays. Safe for use by several threads.

    Args:
        xp: the library, with CuPy's names.
        size: bytes of a pinned buffer.
        count: how many buffers there may be.
        direct: bytes below which no buffer is used.
    """

    def __init__(self, xp: Any, *, size: int = SIZE, count: int = COUNT, direct: int = DIRECT) -> None:
        self._xp = xp
        self._cuda = xp.cuda
        self._direct = max(direct, 1)
        self.buffers = PinnedBuffers(xp.cuda, size, count)
        self._lock = threading.Lock()
        self._streams: dict[tuple[int, str], Any] = {}

    # ---- the copies -------------------------------------------------------------------------------------------------

    def to_device(self, host: Any, index: int) -> Any:
        """Return a copy of an array of the host on a device. The array may be changed at once."""
        cuda = self._cuda
        with cuda.Device(index):
            if host.nbytes < self._direct:
                return self._xp.array(host, order="C")
            there = self._xp.empty(host.shape, host.dtype)
            current, copying = cuda.get_current_stream(), self._stream(index, "in")
            self._follow(copying, current)
            try:
                for target, source in self._parts(there, host):
                    buffer = self.buffers.take()
                    assert buffer is not None
                    try:
                        pinned = buffer.like(source)
                        np.copyto(pinned, source)
                        target.set(pinned, stream=copying)
                    finally:
                        self.buffers.give(buffer, self._event(copying))
            finally:  # also where it went wrong: what was begun still writes
                self._follow(current, copying)
        return there

    def to_host(self, array: Any) -> Any:
        """Return a copy of an array on the host."""
        cuda, index = self._cuda, int(array.device.id)
        with cuda.Device(index):
            if array.nbytes < self._direct:
                return array.get(order="C")
            found = np.empty(array.shape, array.dtype)
            copying = self._stream(index, "out")
            self._follow(copying, cuda.get_current_stream())
            under_way: deque[_UnderWay] = deque()
            try:
                for source, target in self._parts(array, found):
                    if len(under_way) == AHEAD:
                        self._arrive(under_way)
                    while (buffer := self.buffers.take(wait=not under_way)) is None:
                        self._arrive(under_way)
                    try:
                        source.get(stream=copying, out=buffer.like(target), blocking=False)
                    finally:
                        under_way.append(_UnderWay(self._event(copying), buffer, target))
                while under_way:
                    self._arrive(under_way)
            finally:  # where it went wrong: what was begun still reads the array and writes to buffers
                for copied, buffer, _ in under_way:
                    self.buffers.give(buffer, copied, array)
        return found

    def between(self, array: Any, index: int) -> Any:
        """Return a copy of an array on another device: from one to the other, where they can, without the host."""
        cuda, source = self._cuda, int(array.device.id)
        with cuda.Device(source):
            before = cuda.get_current_stream()
            made = self._event(before)
        with cuda.Device(index):
            there = self._xp.empty(array.shape, array.dtype)
            current, copying = cuda.get_current_stream(), self._stream(index, "in")
            copying.wait_event(made)
            self._follow(copying, current)
            try:
                there.data.copy_from_device_async(array.data, array.nbytes, stream=copying)
            finally:
                copied = self._event(copying)
                current.wait_event(copied)
                with cuda.Device(source):
                    before.wait_event(copied)
        return there

    def clear(self) -> None:
        """Let go of what no copy needs."""
        self.buffers.clear()

    # ---- streams and events -----------------------------------------------------------------------------------------

    def _stream(self, index: int, way: str) -> Any:
        """Return the stream of a device, which is current, for copies that come in or go out."""
        with self._lock:
            found = self._streams.get((index, way))
            if found is None:
                found = self._streams[index, way] = self._cuda.Stream(non_blocking=True)
            return found

    def _event(self, stream: Any) -> Any:
        """Record an event on a stream of the current device, after all work queued so far, and return it."""
        event = self._cuda.Event(block=True, disable_timing=True)
        stream.record(event)
        return event

    def _follow(self, later: Any, earlier: Any) -> None:
        """Make work queued on `later` from now on wait for all work queued on `earlier`."""
        later.wait_event(self._event(earlier))

    def _arrive(self, under_way: deque[_UnderWay]) -> None:
        """Wait for the oldest part, and read it."""
        copied, buffer, target = under_way[0]
        copied.synchronize()
        np.copyto(target, buffer.like(target))
        under_way.popleft()
        self.buffers.give(buffer)

    def _parts(self, array: Any, other: Any) -> Iterator[tuple[Any, Any]]:
        """Return two arrays of one shape in parts that fit a buffer."""
        step = max(self.buffers.size // array.itemsize, 1)
        flat, same = array.reshape(-1), other.reshape(-1)
        for start in range(0, array.size, step):
            yield flat[start : start + step], same[start : start + step]
