"""The memory of simulated devices whose streams are late, as CuPy's pool hands it out.

Rules of this file: beside each array of NumPy's, which holds at once what a program makes in its own order, there is a
block of the device that comes to hold it when the streams get there. Nothing that is queued keeps a block from being
given to the next who asks: as on a GPU, which knows addresses and no owners. A pool is a stream's: what was freed is
taken again by what is made on the same stream, and overwritten there.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np

from .stream_queues import StreamKey, StreamQueues

UNIT: Final = 512
"""Bytes to whose multiples blocks are rounded, as CuPy's pool does."""

GARBAGE: Final = 0xAB
"""What memory holds that belongs to nobody."""


class _Block(NamedTuple):
    memory: np.ndarray[Any, Any]
    start: int
    """The address at which the array of NumPy's begins that it stands beside."""
    place: StreamKey


class DelayedMemory:
    """The blocks of the devices. Used with the lock of the queues."""

    def __init__(self, queues: StreamQueues) -> None:
        self._queues = queues
        self._blocks: dict[int, _Block] = {}
        """By identity of the memory of NumPy's that they stand beside."""
        self._free: dict[tuple[StreamKey, int], list[np.ndarray[Any, Any]]] = {}

    def allocate(self, root: np.ndarray[Any, Any], place: StreamKey) -> None:
        """Give memory of NumPy's its block: what was freed last on that stream, if one fits."""
        size = -(-max(root.nbytes, 1) // UNIT) * UNIT
        free = self._free.get((place, size))
        memory = free.pop() if free else np.full(size, GARBAGE, np.uint8)
        self._blocks[id(root)] = _Block(memory, np.lib.array_utils.byte_bounds(root)[0], place)

    def release(self, root: int) -> None:
        """Take a block back, whoever may still be at work on it."""
        memory, _, place = self._blocks.pop(root)
        self._free.setdefault((place, memory.nbytes), []).append(memory)
        self._queues.put(place, lambda: memory.fill(GARBAGE))

    def beside(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the part of a block that stands beside an array, which keeps the block from no one."""
        block = self._blocks[id(root_of(array))]
        start = array.__array_interface__["data"][0] - block.start if array.size else 0
        return np.ndarray(array.shape, array.dtype, block.memory, start, array.strides)


def root_of(array: Any) -> Any:
    """Return the array whose memory an array is a view of, or itself."""
    while isinstance(array.base, np.ndarray):
        array = cast("Any", array.base)
    return array
