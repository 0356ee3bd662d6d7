"""How many bytes the values on a worker hold while a segment runs: for workers whose memory is limited.

Rules of this file: counting only. Memory that several values share (views, saved tensors that are values of their own)
counts once. What user code makes and drops within one node is not seen, nor what is on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from raygrad.autograd.devices.absent import AbsentArray
from raygrad.autograd.devices.serving import device_of, is_elsewhere
from raygrad.proto.program import Step

from .contexts import Context

HOST = "cpu"


class Scales:
    """Counts what is held, step by step.

    Args:
        pinned: what is on the worker before and after.
        slots: the values of the segment; those that it begins with are counted now.
    """

    def __init__(self, pinned: Iterable[Any], slots: Sequence[Any]) -> None:
        self.held: dict[str, int] = {}
        """Per memory ("cpu", "cuda:0"), bytes that are held now."""
        self.peaks: dict[str, int] = {}
        """Per memory, the most bytes that were."""
        self._holders: dict[int, tuple[str, int]] = {}
        """By identity of what owns memory, which that is, and its bytes."""
        self._counts: dict[int, int] = {}
        """And how many values hold it."""
        self._opened = len(slots)
        """Slots that there were: an open-ended step adds others, behind the one that takes what nobody reads."""
        for value in pinned:
            self.put(value)
        for value in slots:
            self.put(value)

    def put(self, value: Any) -> None:
        """A value is held once more."""
        key, device, size = owner_of(value)
        if not size:
            return
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == 1:
            self._holders[key] = device, size
            held = self.held[device] = self.held.get(device, 0) + size
            self.peaks[device] = max(self.peaks.get(device, 0), held)

    def take(self, value: Any) -> None:
        """A value that was put is held once less."""
        key = owner_of(value)[0]
        count = self._counts.get(key, 0)
        if count > 1:
            self._counts[key] = count - 1
        elif count:
            del self._counts[key]
            device, size = self._holders.pop(key)
            self.held[device] -= size

    def stepped(self, step: Step, slots: Sequence[Any]) -> None:
        """A step has run: what it made is held, and what it is the last to read no more."""
        for slot in step.outputs:
            self.put(slots[slot])
        for value in slots[self._opened :]:
            self.put(value)
        self._opened = len(slots)
        for slot in step.frees:
            self.take(slots[slot])
        if -1 in step.outputs:
            self.take(slots[-1])


def owner_of(value: Any) -> tuple[int, str, int]:
    """Return the identity of what owns a value's memory, which memory that is, and its bytes."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        while isinstance(array.base, np.ndarray):
            array = cast("np.ndarray[Any, Any]", array.base)
        return id(array if array.base is None else array.base), HOST, array.nbytes
    if isinstance(value, Context | AbsentArray):
        return id(value), HOST, value.nbytes
    if is_elsewhere(value):
        base = value if value.base is None else value.base
        return id(base), str(device_of(value)), base.nbytes
    return 0, HOST, 0
