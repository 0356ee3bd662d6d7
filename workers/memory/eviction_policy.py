"""Which values on a worker make way, for a call or for a step whose memory is full: they wait on disk until read.

Rules of this file: which, and no more; they are written where values are kept (`making_way`). What is read last goes
first; of what other runs pinned that is taken to be the oldest, as backward has it. Values that share memory go
together, or nothing is won.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from raygrad.proto.ir.program import Step

from ..values.contexts import LARGE
from ..values.memory_accounting import owners_of

T = TypeVar("T")

NEVER: Final = 1 << 62
"""After every step."""


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


def in_the_way(
    pins: dict[tuple[int, int], Any], run: int, reads: Container[tuple[int, int]], memory: str, room: int
) -> list[Place]:
    """Return the pinned values that have to leave a memory so that those of other runs which stay take no more than its
    `room`.

    Args:
        pins: what is pinned on the worker, the oldest first.
        run: the run of the call; its own values are its plan's affair, and so is what the call `reads`.
        reads: see there.
        memory: which.
        room: see `Call.beside`.
    """
    if room < 0:
        return []
    held = [(Place(pins, name), 0 if name[0] == run or name in reads else NEVER) for name in list(pins)]
    others = [group for group in _groups(memory, held) if group.read == NEVER]
    over = sum([group.size for group in others]) - room
    gone: list[Place] = []
    for is_large in (True, False):  # of small ones many have to go before anything is won
        for group in others:
            if over > 0 and (group.size >= LARGE) is is_large:
                over -= group.size
                gone.extend(group.places)
    return gone


def places_to_leave(
    memory: str,
    reads: Reads,
    position: int,
    slots: list[Any],
    others: Iterable[dict[Any, Any] | list[Any]],
    *,
    want: int | None = None,
    stays: Container[int] = (),
    but: Container[int] = (),
    among: Iterable[int] | None = None,
) -> tuple[list[Place], int]:
    """Return what is to leave a memory while a step runs that does not read it, and the bytes that it holds there.

    Without `want`, how many bytes are to leave, it is half of what can, so that who asks again while there is no room
    gets it all in the end.

    Args:
        memory: which.
        reads: the `Reads` of the steps that are run; `position` is the place of that at hand.
        position: see there.
        slots: their values.
        others: where else values are held: what is pinned, what came with the call, and what recipes read.
        want: see above.
        stays: the owners of memory (`owner_of`) that would not leave with what holds them.
        but: slots that do not leave.
        among: the slots that hold something, if whoever asks knows.
    """
    found = range(len(slots) - 1) if among is None else among
    held = [(Place(slots, slot), position if slot in but else reads.next(slot, position)) for slot in found]
    held += [(place, NEVER) for place in held_by(others)]
    may_go = [group for group in _groups(memory, held, stays) if group.read > position and not group.stays]
    may_go.sort(key=lambda group: -group.read)
    leaving = _first_of(may_go, lambda group: group.size, want)
    return [place for group in leaving for place in group.places], sum([group.size for group in leaving])


def half_of(found: Sequence[T], size: Callable[[T], int]) -> list[T]:
    """Return the first of these that make up half of their bytes."""
    return _first_of(found, size, None)


def _first_of(found: Sequence[T], size: Callable[[T], int], want: int | None) -> list[T]:
    """Return the first of these that make up so many bytes, or half of them all."""
    enough, gone = sum([size(one) for one in found]) / 2 if want is None else want, 0
    leaving: list[T] = []
    for one in found:
        if gone >= enough:
            break
        leaving.append(one)
        gone += size(one)
    return leaving


def held_by(holders: Iterable[dict[Any, Any] | list[Any]]) -> Iterator[Place]:
    """Yield where values are held."""
    for holder in holders:
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield Place(holder, key)


def _groups(memory: str, held: Iterable[tuple[Place, int]], stays: Container[int] = ()) -> list[_Shared]:
    """Return what is held in a memory, by what shares it: places, each with the step that reads it next."""
    groups: dict[int, _Shared] = {}
    for place, until in held:
        owners = [(owner, size) for owner, where, size in owners_of(place.value) if size and where == memory]
        if not owners:
            continue
        mine = _Shared()
        for owner, size in owners:
            known = groups.get(owner)
            if known is None:
                mine.owners.append(owner)
                mine.size += size
                mine.stays = mine.stays or owner in stays
            elif known is not mine:
                mine = mine.joined(known)
            for one in mine.owners:
                groups[one] = mine
        mine.places.append(place)
        mine.read = min(mine.read, until)
    return list({id(group): group for group in groups.values()}.values())


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
