"""The account of bytes that the values on a worker hold in each memory while a call runs with a memory limit.

Memory that several values share (views, contexts and what was made of them, saved tensors that are values of their
own) counts once. Memory that user code allocates and frees within one node is not counted, nor is the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from raygrad.autograd.core.recorder import ResidentMemory
from raygrad.autograd.devices.backends.absent_device import AbsentArray
from raygrad.autograd.devices.serving import device_of, is_device_array
from raygrad.autograd.functions.context_state import is_bare
from raygrad.autograd.functions.function import FunctionNode
from raygrad.proto.codec.values import Blob
from raygrad.proto.ir.nodes import ROLE_FUNCTION
from raygrad.proto.ir.program import Step
from raygrad.scheduler.model.memory_spaces import HOST

from ..values.contexts import Context


class MemoryAccount:
    """Counts the bytes held, step by step.

    Args:
        named: the values on the worker that outlive the call.
        slots: the values of the call; those that it starts with are counted now.
    """

    def __init__(self, named: Iterable[Any], slots: Sequence[Any]) -> None:
        self.held: dict[str, int] = {}
        """Per memory ("cpu", "cuda:0"), bytes held now."""
        self.peaks: dict[str, int] = {}
        """Per memory, the most bytes held at once."""
        self._owners: dict[int, _Owner] = {}
        """By identity, the owners of memory that is held."""
        self._contexts: dict[int, tuple[int, list[int]]] = {}
        """By identity of a context, how many times it was added, and the owners of what it held then."""
        self._slots = len(slots)
        """Slots so far: an open-ended step appends its outputs after the slot for values that no step reads."""
        self.slots_before = self._slots
        """Slots before the latest step."""
        self._unread = len(slots) - 1
        """The slot for values that no step reads."""
        self.inputs: frozenset[int] = frozenset()
        """The owners of what the call brought."""
        for values in (named, slots):
            for value in values:
                self.add(value)

    def add_inputs(self, values: Sequence[Any], filled: Iterable[Any]) -> None:
        """Count values that a call brought, which stay until it ends, and what they fill slots with."""
        self.inputs = frozenset([owner for value in values for owner, _, _ in owners_of(value)])
        for some in (values, filled):
            for value in some:
                self.add(value)

    def additional(self, values: Iterable[Any]) -> dict[str, int]:
        """Return, per memory, by how many bytes the account would grow if these values were added."""
        found = {owner: (memory, size) for value in values for owner, memory, size in owners_of(value) if size}
        sizes: dict[str, int] = {}
        for owner, (memory, size) in found.items():
            if owner not in self._owners:
                sizes[memory] = sizes.get(memory, 0) + size
        return sizes

    def add(self, value: Any) -> None:
        """Count a value that is held in one more place."""
        if type(value) is Context:
            count, keys = self._contexts.get(id(value), (0, []))
            if not count:
                keys = [self._add_owner(part) for part in value.parts()]
            self._contexts[id(value)] = count + 1, keys
        elif value is not None:
            self._add_owner(value)

    def _recount(self, context: Context) -> None:
        """Count a context again that may hold other memory than when it was added: its copies of what came packed."""
        count, before = self._contexts.get(id(context), (0, []))
        if count:
            for key in before:
                self._remove_owner(key)
            self._contexts[id(context)] = count, [self._add_owner(part) for part in context.parts()]

    def _add_owner(self, value: Any) -> int:
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

    def remove(self, value: Any) -> None:
        """Count a value that is held in one place less."""
        if type(value) is not Context:
            if value is not None:
                self._remove_owner(owner_of(value)[0])
            return
        count, keys = self._contexts.pop(id(value), (0, []))
        if count > 1:
            self._contexts[id(value)] = count - 1, keys
        else:
            for key in keys:
                self._remove_owner(key)

    def _remove_owner(self, key: int) -> None:
        owner = self._owners.get(key)
        if owner is None:
            return
        owner.count -= 1
        if not owner.count:
            del self._owners[key]
            self.held[owner.device] -= owner.size

    def step_made(self, step: Step, slots: Sequence[Any]) -> None:
        """Count what a step made."""
        if step.node.role == ROLE_FUNCTION:
            for slot in step.node.inputs:
                if slot >= 0 and type(slots[slot]) is Context:
                    self._recount(slots[slot])
        for slot in step.outputs:
            self.add(slots[slot])
        for value in slots[self._slots :]:
            self.add(value)
        self.slots_before, self._slots = self._slots, len(slots)

    def step_freed(self, step: Step, slots: Sequence[Any]) -> None:
        """Count no longer what a step was the last to read, nor outputs of it that no step reads."""
        for slot in step.frees:
            self.remove(slots[slot])
        if -1 in step.outputs:
            self.remove(slots[self._unread])


@dataclass(slots=True)
class _Owner:
    """An object that owns memory, and how many values hold it."""

    device: str
    size: int
    count: int = 1


def held_by_context(node: FunctionNode) -> tuple[int, tuple[tuple[str, int], ...]]:
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
    """Return the identity of the object that owns a value's memory, the memory's name, and its bytes."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        while isinstance(array.base, np.ndarray):
            array = cast("np.ndarray[Any, Any]", array.base)
        return id(array if array.base is None else array.base), HOST, array.nbytes
    if isinstance(value, Context | AbsentArray | ResidentMemory):
        return id(value), HOST, value.nbytes
    if isinstance(value, Blob):
        return id(value), HOST, len(value.data)
    if is_device_array(value):
        base = value if value.base is None else value.base
        return id(base), str(device_of(value)), base.nbytes
    return 0, HOST, 0


def shares_of(value: Any) -> list[tuple[int, str, int]]:
    """Return (owner, memory, bytes) per memory in which a value holds something; a context owns what it holds."""
    if type(value) is Context:
        return [(id(value), memory, size) for memory, size in _by_memory(value.parts()).items()]
    return [owner_of(value)]


def owners_of(value: Any) -> list[tuple[int, str, int]]:
    """Return (owner, memory, bytes) of each piece of memory that a value holds: contexts may hold several."""
    return list(map(owner_of, value.parts())) if type(value) is Context else [owner_of(value)]
