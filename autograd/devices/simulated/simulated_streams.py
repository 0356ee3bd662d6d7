"""Streams, events and pinned memory of simulated devices: their `cupy.cuda`.

It has the names of CuPy that raygrad uses, with their meaning, and no others (a test compares them). A copy from or to
pinned memory happens when its stream gets there; other host memory is read at once, or waited for, as with CUDA. If
streams are late, memory that is freed or read too early holds garbage.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .delayed_memory import GARBAGE
from .stream_queues import StreamKey, StreamMark, StreamQueues

if TYPE_CHECKING:
    from .simulated_array import StandInArray
    from .simulated_device import StandIn


class StandInCudaError(RuntimeError):
    """What CUDA refuses."""


class SimulatedStream:
    """A stream: its work runs in the order in which it was queued."""

    def __init__(self, cuda: SimulatedCuda, device_id: int, ptr: int) -> None:
        self._cuda = cuda
        self.device_id = device_id
        """-1 for the default stream, which each device has its own of."""
        self.ptr = ptr

    def place(self) -> StreamKey:
        """Return which queue it is."""
        return (self._cuda.current() if self.device_id < 0 else self.device_id, self.ptr)

    def record(self, event: SimulatedEvent | None = None) -> SimulatedEvent:
        """Record an event, which happens when all work queued before is done."""
        event = self._cuda.Event() if event is None else event
        event.happen_at(self.place())
        return event

    def wait_event(self, event: SimulatedEvent) -> None:
        """Do what follows after an event, as it was recorded last."""
        if event.mark is not None:
            self._cuda.queues.put(self.place(), after=event.mark)

    def synchronize(self) -> None:
        """Wait until all is done."""
        self._cuda.queues.finish(self._cuda.queues.put(self.place()))

    def __enter__(self) -> SimulatedStream:
        if self.device_id not in (-1, self._cuda.current()):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with the current device "
                f"({self._cuda.current()})"
            )
        self._cuda.use(self)
        return self

    def __exit__(self, *error: object) -> None:
        self._cuda.use(None)


class SimulatedEvent:
    """An event: it has happened when a stream got to where it was recorded, or if it never was."""

    def __init__(self, cuda: SimulatedCuda) -> None:
        self._cuda = cuda
        self._device = cuda.current()
        self.mark: StreamMark | None = None

    @property
    def done(self) -> bool:
        """Whether it has happened."""
        return self.mark is None or self._cuda.queues.is_done(self.mark)

    def synchronize(self) -> None:
        """Wait until it has happened."""
        if self.mark is not None:
            self._cuda.queues.finish(self.mark)

    def happen_at(self, place: StreamKey) -> None:
        """Be recorded on a stream."""
        if place[0] != self._device:
            raise StandInCudaError("cudaErrorInvalidResourceHandle: invalid resource handle")
        self.mark = self._cuda.queues.put(place)


class SimulatedPointer:
    """The memory of an array, as `ndarray.data` names it."""

    def __init__(self, array: StandInArray) -> None:
        self.array = array
        self.ptr = array._host.__array_interface__["data"][0]

    def copy_from_device_async(self, src: SimulatedPointer, size: int, stream: SimulatedStream | None = None) -> None:
        """Let a stream copy memory of another device."""
        self.array._owner.streams.between(self.array, src.array, size, stream)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int, list[SimulatedStream]] = {}
        self.entered: list[int] = []


class SimulatedCuda:
    """The simulated `cupy.cuda`.

    Attributes:
        queues: the pending work of its streams.
    """

    def __init__(self, owner: StandIn, queues: StreamQueues) -> None:
        self.queues = queues
        self.runtime = SimpleNamespace(CUDARuntimeError=StandInCudaError)
        self._owner = owner
        self._null = SimulatedStream(self, -1, 0)
        self._numbers = itertools.count(1)
        self._here = _OfThread()
        self._pinned: dict[int, np.ndarray[Any, Any]] = {}
        """Blocks by their address, for ever: what was given back is taken again."""
        self._unused: dict[int, list[np.ndarray[Any, Any]]] = {}

    # ---- names of CuPy's --------------------------------------------------------------------------------------------

    def Device(self, device: int) -> AbstractContextManager[Any]:
        """Return a block in which a device is the current one."""
        return self._owner.on(device)

    def Stream(self, *, non_blocking: bool) -> SimulatedStream:
        """Return a new stream of the current device. There are those alone that do not wait for the default stream."""
        if not non_blocking:
            raise NotImplementedError("simulated streams do not wait for the default stream: pass non_blocking=True")
        return SimulatedStream(self, self.current(), next(self._numbers))

    def Event(self, block: bool = False, disable_timing: bool = False) -> SimulatedEvent:
        """Return an event for streams of the current device."""
        return SimulatedEvent(self)

    def get_current_stream(self) -> SimulatedStream:
        """Return the current stream of this thread on the current device."""
        entered = self._here.streams.get(self.current())
        return entered[-1] if entered else self._null

    def alloc_pinned_memory(self, size: int) -> Any:
        """Return a buffer, which is taken back when nothing refers to it: as soon as that, whoever copies."""
        unused = self._unused.setdefault(size, [])
        block = unused.pop() if unused else np.empty(size, np.uint8)
        block.fill(GARBAGE)
        self._pinned[block.__array_interface__["data"][0]] = block
        memory = (ctypes.c_char * size).from_buffer(cast("Any", block))
        weakref.finalize(memory, self._taken_back, block).atexit = False
        return memory

    # ---- what its arrays ask for ------------------------------------------------------------------------------------

    def current(self) -> int:
        """Return the number of this thread's device."""
        return self._owner.current()

    def use(self, stream: SimulatedStream | None) -> None:
        """Let a stream be the current one, or end that."""
        if stream is None:
            self._here.streams[self._here.entered.pop()].pop()
        else:
            self._here.entered.append(self.current())
            self._here.streams.setdefault(self.current(), []).append(stream)

    def to_host(self, array: StandInArray, stream: SimulatedStream | None, out: Any, blocking: bool) -> None:
        """Let a stream copy an array to memory of the host."""
        if (out.dtype, out.shape) != (array.dtype, array.shape):
            raise TypeError(f"{array.dtype}{array.shape} cannot be copied to {out.dtype}{out.shape}")
        place, source = self.place_of(array, stream), self._owner.memory_of(array)
        pinned = self._pinned_at(out)
        target = out if pinned is None else pinned
        mark = self.queues.put(place, lambda: np.copyto(target, source))
        if blocking or pinned is None:
            self.queues.finish(mark)

    def from_host(self, array: StandInArray, host: Any, stream: SimulatedStream | None) -> None:
        """Let a stream copy memory of the host to an array."""
        if type(host) is not np.ndarray or (host.dtype, host.shape) != (array.dtype, array.shape):
            raise TypeError(f"{host!r} cannot be copied to {array.dtype}{array.shape}")
        place, target = self.place_of(array, stream), self._owner.memory_of(array)
        pinned = self._pinned_at(host)
        source = host.copy() if pinned is None else pinned
        if target is not array._host:
            np.copyto(array._host, host)
        self.queues.put(place, lambda: np.copyto(target, source))

    def between(self, array: StandInArray, source: StandInArray, size: int, stream: SimulatedStream | None) -> None:
        """Let a stream copy an array to another, of the same shape and dtype, on whichever device."""
        if not size == array.nbytes == source.nbytes:
            raise StandInCudaError(f"cudaErrorInvalidValue: {size} bytes of {source.nbytes} to {array.nbytes}")
        place, read, written = self.place_of(array, stream), self._owner.memory_of(source), self._owner.memory_of(array)
        if written is not array._host:
            np.copyto(array._host, source._host)
        self.queues.put(place, lambda: np.copyto(written, read))

    def place_of(self, array: StandInArray, stream: SimulatedStream | None = None) -> StreamKey:
        """Return where a copy of an array is queued: on the current stream if none is named."""
        stream = self.get_current_stream() if stream is None else stream
        with self._owner.on(array.device.id):
            place = stream.place()
        if place[0] != array.device.id:
            raise StandInCudaError("cudaErrorInvalidResourceHandle: the stream is of another device than the array")
        return place

    def _pinned_at(self, host: Any) -> Any:
        """Return the same part of pinned memory, which keeps it from nobody; None if it is not pinned."""
        start = host.__array_interface__["data"][0]
        for address, block in self._pinned.items():
            if address <= start < address + block.nbytes:
                return np.ndarray(host.shape, host.dtype, block, start - address, host.strides)
        return None

    def _taken_back(self, block: np.ndarray[Any, Any]) -> None:
        block.fill(GARBAGE)
        self._unused[block.nbytes].append(block)
