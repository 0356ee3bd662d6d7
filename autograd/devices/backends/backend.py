"""Abstract backend: the interface by which an array library serves a kind of device.

NumPy, CuPy and the simulated devices implement it; also here are the copies in an array's own axis order that they
share. Arrays need `shape`, `dtype`, `strides`, `flags`, `transpose` and NumPy's protocols (`__array_ufunc__`,
`__array_function__`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .device import Device


class Memory(NamedTuple):
    """The memory of one device, in bytes.

    Attributes:
        allocated: what living arrays hold.
        peak: the most that they held since the start, or since `reset_peak`.
        free: what can still be allocated.
        total: what there is, or may be used.
    """

    allocated: int
    peak: int
    free: int
    total: int


class Backend(ABC):
    """Arrays of one kind of device.

    Attributes:
        kind: the kind that it serves.
        array: the type of its arrays.
        xp: its namespace, named as NumPy's: what it makes lies on the current device.
        exhausted: what its allocator raises when there is no memory left.
        simulated: whether its devices are simulated.
    """

    kind: ClassVar[str]
    simulated: ClassVar[bool] = False
    array: type[Any]
    xp: Any
    exhausted: type[Exception]

    @abstractmethod
    def count(self) -> int:
        """Return how many devices there are."""

    def numbers(self) -> Sequence[int]:
        """Return the numbers of the devices; they count from 0, unless a session has numbered them."""
        return range(self.count())

    def ordinal(self, index: int) -> int:
        """Return the number that other libraries in this process have for a device."""
        return index

    @abstractmethod
    def numerics(self) -> str:
        """Return what decides over the bits of results, in words: the library, and the model of its devices."""

    @abstractmethod
    def current(self) -> int:
        """Return the number of this thread's current device."""

    @abstractmethod
    def on(self, index: int) -> AbstractContextManager[Any]:
        """Return a block in which a device is the current one."""

    @abstractmethod
    def index_of(self, array: Any) -> int:
        """Return the number of the device that holds an array."""

    @abstractmethod
    def device_of(self, array: Any) -> Device:
        """Return the device that holds an array."""

    @abstractmethod
    def from_host(self, array: Any, index: int) -> Any:
        """Return a copy of a NumPy array on a device, in its own axis order."""

    @abstractmethod
    def to_host(self, array: Any) -> Any:
        """Return a copy of an array as a NumPy array, in its own axis order."""

    @abstractmethod
    def copy_to(self, array: Any, index: int) -> Any:
        """Return a copy of an array on another device of this kind."""

    @abstractmethod
    def memory(self, index: int) -> Memory:
        """Return what is known of a device's memory."""

    @abstractmethod
    def reset_peak(self, index: int) -> None:
        """Start the measurement of the peak anew."""

    @abstractmethod
    def limit(self, index: int, size: int | None) -> None:
        """Let arrays on a device hold at most so many bytes; None for no limit but the device's own."""

    @abstractmethod
    def synchronize(self, index: int) -> None:
        """Wait until all work given to a device is done."""

    @abstractmethod
    def empty_cache(self) -> None:
        """Give memory back that no array holds."""

    @abstractmethod
    def start_of(self, array: Any) -> int:
        """Return the address of an array's first element, in the memory of its device."""

    @abstractmethod
    def writable(self, array: Any) -> bool:
        """Tell whether an array may be written to."""


def to_host_in_own_order(array: Any, move: Callable[[Any], Any]) -> Any:
    """Return what `in_own_order` does for a move to the host, without materialising expanded axes on the device.

    The device may lack the memory for the full array.
    """
    if 0 not in array.strides or not array.size:
        return in_own_order(array, move)
    one = array[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in array.strides])]
    axes, back = _own_order(array)
    there = np.broadcast_to(in_own_order(one, move), array.shape).transpose(axes)
    return there.copy(order="C").transpose(back)


def in_own_order(array: Any, move: Callable[[Any], Any]) -> Any:
    """Return what `move` makes of an array in C order, in the array's own axis order (H1)."""
    if array.flags.c_contiguous:
        return move(array)
    axes, back = _own_order(array)
    ordered = array.transpose(axes)
    return move(ordered if ordered.flags.c_contiguous else ordered.copy(order="C")).transpose(back)


def _own_order(array: Any) -> tuple[list[int], list[int]]:
    """Return the axes of an array by their strides, the longest first, and where each went."""
    axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    return axes, [axes.index(axis) for axis in range(array.ndim)]
