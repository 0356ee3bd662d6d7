"""The eviction policy of a worker: which values leave a memory, for a call or a step that needs it.

Values whose next use is furthest leave first; of values that are used equally late, large ones, and then the oldest, as
backward uses those last. Values that share memory leave together. `evictor` carries evictions out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from raygrad.proto.ir.program import Step

from ..values.contexts import LARGE
from .accounting import owners_of

T = TypeVar("T")

NEVER: Final = 1 << 62
"""The next use of a value that no step of the call uses: after every step."""


class Location(NamedTuple):
    """Where a value is held."""

    holder: Any
    """The slots of the call, the named values, a list of inputs, or the inputs of a recipe."""
    key: Any
    value: Any
    """The value that was found there."""


class NextUses:
    """The steps of a program at which each slot is read."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._positions: dict[int, list[int]] = {}
        for position, step in enumerate(steps):
            for slot in step.node.inputs:
                self._positions.setdefault(slot, []).append(position)

    def next(self, slot: int, position: int) -> int:
        """Return the first step at or after a position that reads a slot, or `NEVER`."""
        positions = self._positions.get(slot, ())
        found = bisect_left(positions, position)
        return positions[found] if found < len(positions) else NEVER


class Victims(NamedTuple):
    """What is to leave a memory."""

    locations: list[Location]
    size: int
    """The bytes that this makes free."""


def choose_victims(
    memory: str,
    candidates: Iterable[tuple[Location, int]],
    position: int,
    *,
    want: int | None = None,
    fixed: Container[int] = (),
) -> Victims:
    """Return the values that are to leave a memory: enough of them to free `want` bytes; without it, to free half of
    what can be freed, so that repeated calls free all of it in the end.

    Args:
        memory: "cpu", "cuda:0".
        candidates: where values are held, each with the step that uses it next.
        position: values that are used at this step stay.
        want: see above.
        fixed: owners of memory (`owner_of`) that stay.
    """
    return _victims(_evictable(memory, candidates, position, fixed), want)


def headroom_victims(
    named: Iterable[Location],
    run: int,
    reads: Container[tuple[int, int]],
    memory: str,
    headroom: int,
) -> Victims:
    """Return the named values that are to leave a memory so that those which stay hold no more than its `headroom`.

    Args:
        named: the named values of the worker, the oldest first.
        run: the run of the call. Its values do not count, since its plan counts them, nor does what the call `reads`.
        reads: see above.
        memory: "cpu", "cuda:0".
        headroom: see `Call.headroom`; -1 for any.
    """
    if headroom < 0:
        return Victims([], 0)
    candidates = [(place, 0 if place.key[0] == run or place.key in reads else NEVER) for place in named]
    groups = _evictable(memory, candidates, 0, ())
    return _victims(groups, sum([one.size for one in groups]) - headroom)


def _evictable(
    memory: str, candidates: Iterable[tuple[Location, int]], position: int, fixed: Container[int]
) -> list[_Sharing]:
    """Return what can leave a memory, in the order in which it does: this is the policy."""
    groups = [one for one in _groups(memory, candidates, fixed) if one.next_use > position and not one.stays]
    groups.sort(key=lambda one: (-one.next_use, one.size < LARGE))
    return groups


def _victims(groups: Iterable[_Sharing], want: int | None) -> Victims:
    chosen = until_freed(groups, lambda one: one.size, want)
    return Victims([place for one in chosen for place in one.locations], sum([one.size for one in chosen]))


def until_freed(found: Iterable[T], size: Callable[[T], int], want: int | None = None) -> list[T]:
    """Return the first of some that have so many bytes together, or half of the bytes of all of them."""
    found = list(found)
    enough, freed = sum([size(one) for one in found]) / 2 if want is None else want, 0
    chosen: list[T] = []
    for one in found:
        if freed >= enough:
            break
        chosen.append(one)
        freed += size(one)
    return chosen


def locations_in(holders: Iterable[dict[Any, Any] | list[Any]]) -> Iterator[Location]:
    """Yield what some holders hold."""
    for holder in holders:
        items: Any = list(holder.items()) if isinstance(holder, dict) else enumerate(holder)
        for key, value in items:
            yield Location(holder, key, value)


def _groups(memory: str, candidates: Iterable[tuple[Location, int]], fixed: Container[int]) -> list[_Sharing]:
    """Return the values in a memory by the memory that they share."""
    groups: dict[int, _Sharing] = {}
    for place, next_use in candidates:
        owners = [(owner, size) for owner, where, size in owners_of(place.value) if size and where == memory]
        if not owners:
            continue
        mine = _Sharing()
        for owner, size in owners:
            known = groups.get(owner)
            if known is None:
                mine.owners.append(owner)
                mine.size += size
                mine.stays = mine.stays or owner in fixed
            elif known is not mine:
                mine = mine.joined(known)
            for one in mine.owners:
                groups[one] = mine
        mine.locations.append(place)
        mine.next_use = min(mine.next_use, next_use)
    return list({id(group): group for group in groups.values()}.values())


@dataclass(slots=True)
class _Sharing:
    """Values that share memory."""

    owners: list[int] = field(default_factory=list[int])
    locations: list[Location] = field(default_factory=list[Location])
    size: int = 0
    next_use: int = NEVER
    """The first step that uses one of them."""
    stays: bool = False

    def joined(self, other: _Sharing) -> _Sharing:
        """Return both as one."""
        other.owners.extend(self.owners)
        other.locations.extend(self.locations)
        other.size += self.size
        other.next_use = min(other.next_use, self.next_use)
        other.stays = other.stays or self.stays
        return other
