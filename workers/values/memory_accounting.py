"""How many bytes the values on a worker hold while a segment runs: for workers whose memory is limited.

Rules of this file: counting only. Memory that several values share (views, contexts and what was made of them, saved
tensors that are values of their own) counts once. What user code makes and drops within one node is not seen, nor what
is on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from raygrad.autograd.core.recorder import Resident
from raygrad.autograd.devices.backends.absent_device import AbsentArray
from raygrad.autograd.devices.serving import device_of, is_elsewhere
from raygrad.autograd.functions.function import FunctionNode
from raygrad.proto.codec.values import Blob
from raygrad.proto.ir.nodes import ROLE_FUNCTION
from raygrad.proto.ir.program import Step

from .contexts import Context, is_bare

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
        self._owners: dict[int, _Owner] = {}
        """By its identity, what owns memory that is held."""
        self._values: dict[int, tuple[int, list[int]]] = {}
        """By identity of a context, how many times it was put, and the identities of what it held then."""
        self._opened = len(slots)
        """Slots that there were: an open-ended step adds others, behind the one that takes what nobody reads."""
        self.opened_before = self._opened
        """Slots that there were before the step at hand."""
        self._last = len(slots) - 1
        """The slot that takes what nobody reads."""
        self.brought: frozenset[int] = frozenset()
        """The identities of what owns what was brought."""
        for values in (pinned, slots):
            for value in values:
                self.put(value)

    def bring(self, values: Sequence[Any], filled: Iterable[Any]) -> None:
        """A call brought values, which are there until it ends, and some fill slots besides."""
        self.brought = frozenset([owner for value in values for owner, _, _ in owners_of(value)])
        for some in (values, filled):
            for value in some:
                self.put(value)

    def more(self, values: Iterable[Any]) -> dict[str, int]:
        """Return, per memory, by how many bytes more would be held if these values were, too."""
        found = {owner: (memory, size) for value in values for owner, memory, size in owners_of(value) if size}
        sizes: dict[str, int] = {}
        for owner, (memory, size) in found.items():
            if owner not in self._owners:
                sizes[memory] = sizes.get(memory, 0) + size
        return sizes

    def put(self, value: Any) -> None:
        """A value is held once more."""
        if type(value) is Context:
            count, keys = self._values.get(id(value), (0, []))
            if not count:
                keys = [self._add(part) for part in value.parts()]
            self._values[id(value)] = count + 1, keys
        elif value is not None:
            self._add(value)

    def _look_again(self, context: Context) -> None:
        """A context may hold other memory than when it was put: its copies of what came packed."""
        count, before = self._values.get(id(context), (0, []))
        if count:
            for key in before:
                self._remove(key)
            self._values[id(context)] = count, [self._add(part) for part in context.parts()]

    def _add(self, value: Any) -> int:
        key, device, size = owner_of(value)
        if not size:
            return 0
        owner = self._owners.get(key)
        if owner is None:
            self._owners[key] = _Owner(device, size)
            held = self.held[device] = self.held.get(device, 0) + size
            self.peaks[device] = max(self.peaks.get(device, 0), held)
        else:
            owner.count += 1
        return key

    def take(self, value: Any) -> None:
        """A value that was put is held once less."""
        if type(value) is not Context:
            if value is not None:
                self._remove(owner_of(value)[0])
            return
        count, keys = self._values.pop(id(value), (0, []))
        if count > 1:
            self._values[id(value)] = count - 1, keys
        else:
            for key in keys:
                self._remove(key)

    def _remove(self, key: int) -> None:
        owner = self._owners.get(key)
        if owner is None:
            return
        owner.count -= 1
        if not owner.count:
            del self._owners[key]
            self.held[owner.device] -= owner.size

    def stepped(self, step: Step, slots: Sequence[Any]) -> None:
        """A step has run: what it made is held, and what it is the last to read no more."""
        self.made(step, slots)
        self.freed(step, slots)

    def made(self, step: Step, slots: Sequence[Any]) -> None:
        """A step has run: what it made is held."""
        if step.node.role == ROLE_FUNCTION:
            for slot in step.node.inputs:
                if slot >= 0 and type(slots[slot]) is Context:
                    self._look_again(slots[slot])
        for slot in step.outputs:
            self.put(slots[slot])
        for value in slots[self._opened :]:
            self.put(value)
        self.opened_before, self._opened = self._opened, len(slots)

    def freed(self, step: Step, slots: Sequence[Any]) -> None:
        """What a step was the last to read is held no more, nor what nobody reads of what it made."""
        for slot in step.frees:
            self.take(slots[slot])
        if -1 in step.outputs:
            self.take(slots[self._last])


@dataclass(slots=True)
class _Owner:
    """What owns memory, and how many values hold it."""

    device: str
    size: int
    count: int = 1


def holds(node: FunctionNode) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Return how many bytes a context alone holds, at least 1 if it holds anything but references, and how many of
    them on each device."""
    found = _by_memory(Context(node).parts())
    devices = tuple([(memory, size) for memory, size in sorted(found.items()) if memory != HOST and size])
    return max(sum(found.values()), int(not is_bare(node))), devices


def _by_memory(parts: Iterable[Any]) -> dict[str, int]:
    """Return per memory how many bytes values hold there."""
    found: dict[str, int] = {}
    for memory, size in {key: (memory, size) for key, memory, size in map(owner_of, parts)}.values():
        found[memory] = found.get(memory, 0) + size
    return found


def owner_of(value: Any) -> tuple[int, str, int]:
    """Return the identity of what owns a value's memory, which memory that is, and its bytes."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        while isinstance(array.base, np.ndarray):
            array = cast("np.ndarray[Any, Any]", array.base)
        return id(array if array.base is None else array.base), HOST, array.nbytes
    if isinstance(value, Context | AbsentArray | Resident):
        return id(value), HOST, value.nbytes
    if isinstance(value, Blob):
        return id(value), HOST, len(value.data)
    if is_elsewhere(value):
        base = value if value.base is None else value.base
        return id(base), str(device_of(value)), base.nbytes
    return 0, HOST, 0


def shares_of(value: Any) -> list[tuple[int, str, int]]:
    """Return the same per memory in which a value holds something: a context owns what it holds."""
    if type(value) is Context:
        return [(id(value), memory, size) for memory, size in _by_memory(value.parts()).items()]
    return [owner_of(value)]


def owners_of(value: Any) -> list[tuple[int, str, int]]:
    """Return the same of each piece of memory that a value holds: contexts may hold several."""
    return list(map(owner_of, value.parts())) if type(value) is Context else [owner_of(value)]
