"""Memory pool of a simulated GPU with late streams: device blocks whose contents lag behind the program.

Each NumPy array, which has its result at once, has a block that receives it when the simulated stream executes. As on a
GPU, queued work keeps no block from being handed out again: each stream reuses and overwrites the blocks freed on it,
so that a missing synchronisation shows as a wrong value.
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
        """Allocate the block of a NumPy array: the one freed last on that stream, if its size fits."""
        size = -(-max(root.nbytes, 1) // UNIT) * UNIT
        free = self._free.get((place, size))
        memory = free.pop() if free else np.full(size, GARBAGE, np.uint8)
        self._blocks[id(root)] = _Block(memory, np.lib.array_utils.byte_bounds(root)[0], place)

    def release(self, root: int) -> None:
        """Free a block, even if queued work still uses it."""
        memory, _, place = self._blocks.pop(root)
        self._free.setdefault((place, memory.nbytes), []).append(memory)
        self._queues.put(place, lambda: memory.fill(GARBAGE))

    def device_block(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the part of a block that has the device's values of an array, without retaining the block."""
        block = self._blocks[id(root_of(array))]
        start = array.__array_interface__["data"][0] - block.start if array.size else 0
        return np.ndarray(array.shape, array.dtype, block.memory, start, array.strides)


def root_of(array: Any) -> Any:
    """Return the array whose memory an array is a view of, or itself."""
    while isinstance(array.base, np.ndarray):
        array = cast("Any", array.base)
    return array
