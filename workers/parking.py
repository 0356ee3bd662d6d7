"""Which values on a worker make way, for a call or for a step whose device is full: they wait on disk until read.

Rules of this file: which, and no more; they are written and read where values are kept (`host`). What is read last goes
first; of what other runs pinned that is taken to be the oldest, as backward has it. Values that share memory go
together, or nothing is won.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from raygrad.proto.program import Step

from .contexts import LARGE
from .weighing import owner_of

NEVER: Final = 1 << 62
"""After every step."""


def in_the_way(
    pins: Mapping[tuple[int, int], Any],
    run: int,
    reads: Container[tuple[int, int]],
    rooms: Sequence[tuple[str, int]],
) -> list[tuple[int, int]]:
    """Return, by their names, the pinned values that have to go so that those which stay take no more than `rooms` say.

    Args:
        pins: what is pinned on the worker, the oldest first.
        run: the run of the call; its own values are its plan's affair, and so is what the call `reads`.
        reads: see there.
        rooms: see `Call.beside`.
    """
    over = {memory: -room for memory, room in rooms if room >= 0}
    if not over:
        return []
    groups: dict[int, tuple[str, int, list[tuple[int, int]]]] = {}
    stays: set[int] = set()
    for name, value in pins.items():
        owner, memory, size = owner_of(value)
        if not size or memory not in over:
            continue
        if name[0] == run or name in reads:
            stays.add(owner)
        else:
            groups.setdefault(owner, (memory, size, []))[2].append(name)
    others = [group for owner, group in groups.items() if owner not in stays]
    for memory, size, _ in others:
        over[memory] += size
    gone: list[tuple[int, int]] = []
    for is_large in (True, False):  # of small ones many have to go before anything is won
        for memory, size, names in others:
            if over[memory] > 0 and (size >= LARGE) is is_large:
                over[memory] -= size
                gone.extend(names)
    return gone


def to_leave(
    device: str, steps: Sequence[Step], position: int, slots: Sequence[Any], pins: Mapping[tuple[int, int], Any]
) -> tuple[list[int], list[tuple[int, int]], int]:
    """Return what is to leave a device while a step runs that does not read it: slots, names of pinned values, bytes.

    It is half of what can leave, so that who asks again while there is no room gets it all in the end.
    """
    read: dict[int, int] = {}
    for place in range(len(steps) - 1, position - 1, -1):
        read.update(dict.fromkeys(steps[place].node.inputs, place))
    groups: dict[int, _Group] = {}
    for slot, value in enumerate(slots[: len(slots) - 1]):
        owner, memory, size = owner_of(value)
        if size and memory == device:
            group = groups.setdefault(owner, _Group(size, [], []))
            group.slots.append(slot)
            group.read = min(group.read, read.get(slot, NEVER))
    for name, value in list(pins.items()):
        owner, memory, size = owner_of(value)
        if size and memory == device:
            groups.setdefault(owner, _Group(size, [], [])).names.append(name)
    others = sorted([group for group in groups.values() if group.read > position], key=lambda group: -group.read)
    total, gone = sum([group.size for group in others]), 0
    leaving: list[_Group] = []
    for group in others:
        if 2 * gone >= total:
            break
        leaving.append(group)
        gone += group.size
    return [slot for one in leaving for slot in one.slots], [name for one in leaving for name in one.names], gone


@dataclass(slots=True)
class _Group:
    """What shares memory on a device."""

    size: int
    slots: list[int]
    names: list[tuple[int, int]]
    read: int = NEVER
    """The place of the step that reads one of them next."""
