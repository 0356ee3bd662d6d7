"""Which values on a worker make way, for a call or for a step whose device is full: they wait on disk until read.

Rules of this file: which, and no more; they are written and read where values are kept (`host`). What is read last goes
first; of what other runs pinned that is taken to be the oldest, as backward has it. Values that share memory go
together, or nothing is won.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from raygrad.proto.program import Step

from .contexts import LARGE
from .weighing import owners_of, shares_of

T = TypeVar("T")

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
    groups: dict[int, tuple[dict[str, int], list[tuple[int, int]]]] = {}
    stays: set[int] = set()
    for name, value in pins.items():
        shares = [share for share in shares_of(value) if share[2] and share[1] in over]
        if not shares:
            continue
        owner = shares[0][0]
        if name[0] == run or name in reads:
            stays.add(owner)
        else:
            sizes = {memory: size for _, memory, size in shares}
            groups.setdefault(owner, (sizes, []))[1].append(name)
    others = [group for owner, group in groups.items() if owner not in stays]
    for sizes, _ in others:
        for memory, size in sizes.items():
            over[memory] += size
    gone: list[tuple[int, int]] = []
    for is_large in (True, False):  # of small ones many have to go before anything is won
        for sizes, names in others:
            if (sum(sizes.values()) >= LARGE) is is_large and any([over[memory] > 0 for memory in sizes]):
                for memory, size in sizes.items():
                    over[memory] -= size
                gone.extend(names)
    return gone


class Reads:
    """At which steps slots are read."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._places: dict[int, list[int]] = {}
        for place, step in enumerate(steps):
            for slot in step.node.inputs:
                self._places.setdefault(slot, []).append(place)

    def next(self, slot: int, position: int) -> int:
        """Return the place of the first step from a position on that reads a slot, or `NEVER`."""
        places = self._places.get(slot, ())
        found = bisect_left(places, position)
        return places[found] if found < len(places) else NEVER


def to_leave(
    device: str,
    steps: Sequence[Step],
    position: int,
    slots: Sequence[Any],
    pins: Mapping[tuple[int, int], Any],
    *,
    want: int | None = None,
    stays: Container[int] = (),
    but: Container[int] = (),
    among: Iterable[int] | None = None,
    reads: Reads | None = None,
) -> tuple[list[int], list[tuple[int, int]], int]:
    """Return what is to leave a device while a step runs that does not read it: slots, names of pinned values, bytes.

    Without `want`, how many bytes are to leave, it is half of what can, so that who asks again while there is no room
    gets it all in the end.

    Args:
        device: the memory.
        steps: what is run.
        position: the place of the step.
        slots: the values of the steps.
        pins: what is pinned on the worker.
        want: see above.
        stays: the owners of memory (`owner_of`) that would not leave with them.
        but: slots that do not leave.
        among: the slots that hold something, if whoever asks knows.
        reads: the `Reads` of the steps, if there are.
    """
    read = Reads(steps) if reads is None else reads
    groups: dict[int, _Group] = {}
    for slot in range(len(slots) - 1) if among is None else among:
        value = slots[slot]
        if value is None:
            continue
        owner, size = _share_of(value, device)
        if size and owner not in stays:
            group = groups.setdefault(owner, _Group(size, [], []))
            group.slots.append(slot)
            group.read = min(group.read, position if slot in but else read.next(slot, position))
    for name, value in list(pins.items()):
        owner, size = _share_of(value, device)
        if size and owner not in stays:
            groups.setdefault(owner, _Group(size, [], [])).names.append(name)
    others = sorted([group for group in groups.values() if group.read > position], key=lambda group: -group.read)
    enough, gone = sum([group.size for group in others]) / 2 if want is None else want, 0
    leaving: list[_Group] = []
    for group in others:
        if gone >= enough:
            break
        leaving.append(group)
        gone += group.size
    return [slot for one in leaving for slot in one.slots], [name for one in leaving for name in one.names], gone


def _share_of(value: Any, device: str) -> tuple[int, int]:
    """Return the identity of what owns a value's memory on a device, and its bytes there."""
    return next(((owner, size) for owner, memory, size in shares_of(value) if memory == device), (0, 0))


@dataclass(slots=True)
class _Group:
    """What shares memory on a device."""

    size: int
    slots: list[int]
    names: list[tuple[int, int]]
    read: int = NEVER
    """The place of the step that reads one of them next."""


# ---- wherever values are held ------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a value is held."""

    holder: Any
    """Slots, pinned values by name, or what a recipe reads."""
    key: Any

    @property
    def value(self) -> Any:
        """What is held."""
        return self.holder[self.key]

    def put(self, value: Any) -> None:
        """Hold something else."""
        self.holder[self.key] = value


def places_to_leave(
    device: str,
    steps: Sequence[Step],
    position: int,
    slots: list[Any],
    others: Iterable[dict[Any, Any] | list[Any]],
    stays: Container[int] = (),
) -> list[Place]:
    """Return what is to leave a device while a step runs that does not read it.

    It is half of what can leave, so that who asks again while there is no room gets it all in the end.

    Args:
        device: the device.
        steps: the steps of the program that is run; `position` is that at hand.
        position: see there.
        slots: its values.
        others: where else values are held: what is pinned, what came with the call, and what recipes read.
        stays: by identity, values that cannot leave, and so nothing that shares memory with them.
    """
    groups: dict[int, _Shared] = {}
    for place, until in _held(steps, position, slots, others):
        value = place.value
        owners = [(owner, size) for owner, memory, size in owners_of(value) if size and memory == device]
        if not owners:
            continue
        mine = _Shared()
        for owner, size in owners:
            known = groups.get(owner)
            if known is None:
                mine.owners.append(owner)
                mine.size += size
            elif known is not mine:
                mine = mine.joined(known)
            for one in mine.owners:
                groups[one] = mine
        mine.places.append(place)
        mine.read = min(mine.read, until)
        mine.stays = mine.stays or id(value) in stays
    found = {id(group): group for group in groups.values() if group.read > position and not group.stays}
    leaving = half_of(sorted(found.values(), key=lambda one: -one.read), lambda one: one.size)
    return [place for group in leaving for place in group.places]


def half_of(found: Sequence[T], size: Callable[[T], int]) -> list[T]:
    """Return the first of these that make up half of their bytes."""
    total, gone = sum([size(one) for one in found]), 0
    leaving: list[T] = []
    for one in found:
        if 2 * gone >= total:
            break
        leaving.append(one)
        gone += size(one)
    return leaving


def until_read(steps: Sequence[Step], position: int) -> dict[int, int]:
    """Return, by slot, the step from `position` on that reads it next."""
    read: dict[int, int] = {}
    for place in range(len(steps) - 1, position - 1, -1):
        read.update(dict.fromkeys(steps[place].node.inputs, place))
    return read


def _held(
    steps: Sequence[Step], position: int, slots: list[Any], others: Iterable[dict[Any, Any] | list[Any]]
) -> Iterator[tuple[Place, int]]:
    """Yield where values are held, and the step that reads each next."""
    read = until_read(steps, position)
    for slot in range(len(slots) - 1):
        yield Place(slots, slot), read.get(slot, NEVER)
    for place in held_by(others):
        yield place, NEVER


def held_by(holders: Iterable[dict[Any, Any] | list[Any]]) -> Iterator[Place]:
    """Yield where values are held."""
    for holder in holders:
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield Place(holder, key)


@dataclass(slots=True)
class _Shared:
    """What shares memory on a device."""

    owners: list[int] = field(default_factory=list[int])
    places: list[Place] = field(default_factory=list[Place])
    size: int = 0
    read: int = NEVER
    """The place of the step that reads one of them next."""
    stays: bool = False

    def joined(self, other: _Shared) -> _Shared:
        """Return both as one."""
        other.owners.extend(self.owners)
        other.places.extend(self.places)
        other.size += self.size
        other.read = min(other.read, self.read)
        other.stays = other.stays or self.stays
        return other
