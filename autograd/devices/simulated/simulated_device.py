"""Simulated GPU: a "cuda" backend for machines without one, with NumPy's results, counted transfers and limited memory.

`use_stand_in` or the environment variable RAYGRAD_STAND_IN (inherited by workers) enables it; it never replaces a
missing GPU by itself. Memory is the host's, counted per device and limited on request. Its streams execute at once, or
late as those of a GPU: then the device's values are in a block of `delayed_memory` per array, and NumPy's array has the
shape only.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, cast

import numpy as np

from raygrad.errors import DeviceError

from ...core.array_layout import overlaps_itself
from ..backends.backend import Backend, Memory, in_own_order, to_host_in_own_order
from ..backends.device import Device
from ..backends.serving_backends import serve
from ..backends.staging import Staging
from .delayed_memory import DelayedMemory, root_of
from .simulated_array import StandInArray, unwrap_arrays
from .simulated_namespace import SimulatedNamespace
from .simulated_streams import SimulatedCuda
from .stream_queues import StreamKey, StreamQueues

TOTAL = 16 * 1024**3
"""What a simulated device is said to have where no limit is given."""


class StandInMemoryError(MemoryError):
    """A simulated device has no memory left."""


@dataclass(slots=True)
class Transfers:
    """What was moved: how often and how many bytes, to devices, to the host and between devices."""

    to_device: int = 0
    to_device_bytes: int = 0
    to_host: int = 0
    to_host_bytes: int = 0
    between: int = 0
    between_bytes: int = 0
    questions: int = 0
    """How often the host asked for a single element's truth, and waited: no transfer of data, but a halt."""


class _Current(threading.local):
    index = 0
    counted = False
    """The transfer that is under way has been counted."""


class StandIn(Backend):
    """The simulated devices.

    Args:
        count: how many devices there are.
        memory: how many bytes the arrays of each may hold, None for no limit.
        late: the seed for streams that execute late; None for streams that execute at once.

    Attributes:
        transfers: what was moved since the start, or since `forget_transfers`.
        streams: what stands in for `cupy.cuda`.
        staging: the copies.

    Raises:
        RuntimeError: fewer than one device.
    """

    kind: ClassVar[str] = "cuda"
    simulated: ClassVar[bool] = True
    array = StandInArray
    exhausted = StandInMemoryError

    def __init__(self, count: int = 1, *, memory: int | None = None, late: int | None = None) -> None:
        if count < 1:
            raise DeviceError(f"a stand-in has at least one device, got {count}")
        self._queues = StreamQueues(late)
        self._late = DelayedMemory(self._queues) if self._queues.late else None
        self.streams = SimulatedCuda(self, self._queues)
        self.xp = SimulatedNamespace(self, "")
        self.staging = Staging(self.xp)
        self.transfers = Transfers()
        self._devices = [Device("cuda", index) for index in range(count)]
        self._allocated = [0] * count
        self._peak = [0] * count
        self._limits: list[int | None] = [memory] * count
        self._current = _Current()
        self._lock = self._queues.lock
        self._live: dict[int, int] = {}
        """By identity of memory that is counted, its bytes."""
        self._before: Backend | None = None

    def forget_transfers(self) -> None:
        """Start counting transfers anew."""
        self.transfers = Transfers()

    # ---- the interface ----------------------------------------------------------------------------------------------

    def count(self) -> int:
        return len(self._devices)

    def numerics(self) -> str:
        return "simulated"

    def current(self) -> int:
        return self._current.index

    @contextmanager
    def on(self, index: int) -> Generator[None]:
        before, self._current.index = self._current.index, index
        try:
            yield
        finally:
            self._current.index = before

    def index_of(self, array: Any) -> int:
        return int(array._index)

    def device_of(self, array: Any) -> Device:
        return array._owner._devices[array._index]

    def from_host(self, array: Any, index: int) -> Any:
        self.count_to_device(array.nbytes)
        with self._counted():
            return in_own_order(array, lambda dense: self.staging.to_device(dense, index))

    def to_host(self, array: Any) -> Any:
        self.count_to_host(array.nbytes)
        with self._counted(), self.on(array._index):
            return to_host_in_own_order(array, self.staging.to_host)

    def copy_to(self, array: Any, index: int) -> Any:
        with self._lock:
            self.transfers.between += 1
            self.transfers.between_bytes += array.nbytes
        with self.on(array._index):
            self.check((array,))
            return in_own_order(array, lambda dense: self.staging.between(dense, index))

    def memory(self, index: int) -> Memory:
        total = self._limits[index] or TOTAL
        used = self._allocated[index]
        return Memory(used, self._peak[index], max(total - used, 0), total)

    def reset_peak(self, index: int) -> None:
        self._peak[index] = self._allocated[index]

    def limit(self, index: int, size: int | None) -> None:
        self._limits[index] = size

    def limit_of(self, index: int) -> int | None:
        """Return what `limit` has set."""
        return self._limits[index]

    def synchronize(self, index: int) -> None:
        self._queues.finish_all(index)

    def empty_cache(self) -> None:
        self.staging.clear()

    def start_of(self, array: Any) -> int:
        return array._host.__array_interface__["data"][0]

    def writable(self, array: Any) -> bool:
        return array._host.flags.writeable and not overlaps_itself(array.shape, array.strides)

    # ---- switched on and off ----------------------------------------------------------------------------------------

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let what served "cuda" before serve it again."""
        serve(self._before)

    # ---- what its arrays ask for ------------------------------------------------------------------------------------

    @property
    def is_counted(self) -> bool:
        """Whether a copy is part of a transfer that has been counted."""
        return self._current.counted

    @contextmanager
    def _counted(self) -> Generator[None]:
        self._current.counted = True
        try:
            yield
        finally:
            self._current.counted = False

    def count_to_device(self, size: int) -> None:
        """Count a copy from the host."""
        with self._lock:
            self.transfers.to_device += 1
            self.transfers.to_device_bytes += size

    def count_to_host(self, size: int) -> None:
        """Count a copy to the host."""
        with self._lock:
            self.transfers.to_host += 1
            self.transfers.to_host_bytes += size

    def count_question(self) -> None:
        """Count that the host asked for an element, and waited."""
        with self._lock:
            self.transfers.questions += 1

    def check(self, values: Sequence[Any]) -> None:
        """Check that what an operation is given lies on the current device.

        Raises:
            TypeError: an array of NumPy's is among it.
            ValueError: an array of another device, or of another simulated backend.
        """
        for value in values:
            if type(value) is StandInArray:
                if value._owner is not self:
                    raise ValueError("an array of a stand-in that was switched off is used with another's")
                if value._index != self._current.index:
                    raise ValueError(
                        f"The device where the array resides ({value._index}) is different from the current device "
                        f"({self._current.index})."
                    )
            elif isinstance(value, np.ndarray):
                raise TypeError(f"Unsupported type {np.ndarray}")
            elif type(value) is tuple or type(value) is list:
                self.check(cast("list[Any]", value))

    def run(self, function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return what a function of NumPy's gives for arrays of this device, as arrays of this device."""
        self.check(args)
        self.check(list(options.values()))
        out = options.get("out")
        given = unwrap_arrays(tuple(args))
        result = function(*given, **{name: unwrap_arrays(value) for name, value in options.items()})
        if out is not None:
            self.follow(function, args, options, None)
            return cast("Any", out[0] if type(out) is tuple else out)
        arrays = [value for value in _flat([*args, *options.values()]) if type(value) is StandInArray]
        made = self.wrapped(result, arrays, self._current.index)
        self.follow(function, args, options, made)
        return made

    def follow(self, function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], made: Any) -> None:
        """Tell the current stream, if it is late, to do what NumPy has done: with what the device's memory holds then.
        What was made anew, and not as a view, it writes to the memory of that."""
        if self._late is None:
            return
        given = unwrap_arrays(tuple(args), self.memory_of)
        chosen = {name: unwrap_arrays(value, self.memory_of) for name, value in options.items()}
        known = {id(one) for one in _flat([*args, *options.values()])}
        targets = [
            self.memory_of(one) if type(one) is StandInArray and one._base is None and id(one) not in known else None
            for one in _flat([made])
        ]

        def work() -> None:
            with np.errstate(all="ignore"):
                for target, value in zip(targets, _flat([function(*given, **chosen)]), strict=True):
                    if target is not None:
                        np.copyto(target, value)

        self._queues.put(self._place(), work)

    def fill(self, array: StandInArray) -> StandInArray:
        """Tell the current stream, if it is late, to write what an array begins with; return the array."""
        if self._late is not None:
            target, values = self.memory_of(array), array._host.copy()
            self._queues.put(self._place(), lambda: np.copyto(target, values))
        return array

    def memory_of(self, array: StandInArray) -> np.ndarray[Any, Any]:
        """Return the memory of the device that an array is."""
        return array._host if self._late is None else self._late.device_block(array._host)

    def read(self, array: StandInArray) -> np.ndarray[Any, Any]:
        """Wait for the current stream, and return the values of an array."""
        if self._late is not None:
            self._queues.finish(self._queues.put(self.streams.place_of(array)))
        return self.memory_of(array)

    def _place(self) -> StreamKey:
        return self.streams.get_current_stream().place()

    def wrapped(self, result: Any, operands: Sequence[StandInArray], index: int) -> Any:
        """Return a result with its arrays, and NumPy's scalars, as arrays of a device; views know their bases."""
        if isinstance(result, np.generic):
            return self._owned(np.asarray(cast("Any", result)), index)
        if isinstance(result, np.ndarray):
            array = cast("np.ndarray[Any, Any]", result)
            root = root_of(array)
            for operand in operands:
                if array is operand._host:
                    return operand
                if root is root_of(operand._host):
                    base = operand if operand._base is None else operand._base
                    if operand._host.flags.writeable and 0 not in array.strides:
                        array.flags.writeable = True  # diagonals: CuPy has no arrays that are read-only
                    return StandInArray.around(array, index, self, base)
            return self._owned(array, index)
        if isinstance(result, tuple | list):  # named tuples too, as `slogdet` and `svd` give
            kind: Any = list if isinstance(result, list) else tuple
            return kind([self.wrapped(item, operands, index) for item in cast("list[Any]", result)])
        return result

    def _owned(self, host: np.ndarray[Any, Any], index: int) -> StandInArray:
        """Return an array around new memory, which is counted until nothing refers to it.

        Raises:
            StandInMemoryError: it is more than the device has left.
        """
        root: Any = root_of(host)
        with self._lock:
            if id(root) not in self._live:
                size = int(root.nbytes)
                limit = self._limits[index]
                if limit is not None and self._allocated[index] + size > limit:
                    raise StandInMemoryError(
                        f"out of memory allocating {size} bytes on device {index} (allocated so far: "
                        f"{self._allocated[index]} bytes, limit set to: {limit} bytes)"
                    )
                self._live[id(root)] = size
                self._allocated[index] += size
                self._peak[index] = max(self._peak[index], self._allocated[index])
                if self._late is not None:
                    self._late.allocate(root, self._place())
                weakref.finalize(root, self._released, id(root), index).atexit = False
        return StandInArray.around(host, index, self)

    def _released(self, memory: int, index: int) -> None:
        with self._lock:
            self._allocated[index] -= self._live.pop(memory)
            if self._late is not None:
                self._late.release(memory)


def use_stand_in(count: int = 1, *, memory: int | None = None, late: int | None = None) -> StandIn:
    """Let simulated devices serve "cuda" until the `close` of what is returned, or the end of its `with` block.

    Args:
        count: how many devices there are.
        memory: how many bytes the arrays of each may hold, None for no limit.
        late: the seed for streams that execute late, as those of a GPU; None for streams that execute at once.
    """
    stand_in = StandIn(count, memory=memory, late=late)
    stand_in._before = serve(stand_in)
    return stand_in


def _flat(values: Sequence[Any]) -> Generator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(cast("list[Any]", value))
        else:
            yield value
