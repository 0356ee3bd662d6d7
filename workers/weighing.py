"""How many bytes the values on a worker hold while a segment runs: for workers whose memory is limited.

Rules of this file: counting only. Memory that several values share (views, saved tensors that are values of their own)
counts once. What user code makes and drops within one node is not seen, nor what is on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from raygrad.autograd.devices.serving import is_elsewhere
from raygrad.proto.program import Step

from .contexts import Context
from .staged import Staged


class Scales:
    """Counts what is held, step by step.

    Args:
        pinned: what is on the worker before and after.
        slots: the values of the segment; those that it begins with are counted now.
    """

    def __init__(self, pinned: Iterable[Any], slots: Sequence[Any]) -> None:
        self.held = 0
        """Bytes that are held now."""
        self.peak = 0
        """The most bytes that were."""
        self._holders: dict[int, list[int]] = {}
        """By identity of what owns memory, how many values hold it, and its bytes."""
        self._opened = len(slots)
        """Slots that there were: an open-ended step adds others, behind the one that takes what nobody reads."""
        for value in pinned:
            self.put(value)
        for value in slots:
            self.put(value)

    def put(self, value: Any) -> None:
        """A value is held once more."""
        key, size = _owner(value)
        if not size:
            return
        known = self._holders.get(key)
        if known is not None:
            known[0] += 1
            return
        self._holders[key] = [1, size]
        self.held += size
        self.peak = max(self.peak, self.held)

    def take(self, value: Any) -> None:
        """A value that was put is held once less."""
        key, _ = _owner(value)
        known = self._holders.get(key)
        if known is None:
            return
        known[0] -= 1
        if not known[0]:
            del self._holders[key]
            self.held -= known[1]

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


def _owner(value: Any) -> tuple[int, int]:
    """Return the identity of what owns a value's memory, and its bytes."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        while isinstance(array.base, np.ndarray):
            array = cast("np.ndarray[Any, Any]", array.base)
        return id(array if array.base is None else array.base), array.nbytes
    if isinstance(value, Context | Staged) or is_elsewhere(value):
        return id(value), value.nbytes
    return 0, 0
