"""Simulated workers as data: their calls, the objects that calls wait for, and their memory over time.

`virtual_event_loop` changes them; nothing happens here by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify
from typing import TypeAlias

from ..model.plan import InStore, OnWorker, ValueLocation
from ..planning.planner import Planned
from .scenario import VirtualSubmission

AwaitedKey: TypeAlias = tuple[int, int, int]
"""The name of an object or event that calls wait for: (run, segment, export), an exported object; (run, segment, -1),
the end of the segment; (run, -1, value), the object of a pinned value; (run, COPY, value), a copy of one; (-1, run,
external), an external input that was on a worker before."""

COPY = -2
"""In the place of a segment: a copy of a pinned value."""


@dataclass(slots=True)
class AwaitedObject:
    """An object (or the end of a segment) that calls wait for, on the worker that makes it."""

    worker: int
    size: int = 0
    made: bool = False
    saved: bool = False
    """It holds contexts and residuals."""
    poisoned: bool = False
    """It will never be made."""
    here: set[int] = field(default_factory=set[int])
    """Other workers at which it has arrived."""
    waiting: dict[int, list[VirtualCall]] = field(default_factory=dict[int, "list[VirtualCall]"])
    """By worker, the calls that wait for it there."""


@dataclass(slots=True)
class VirtualCall:
    """A call to a worker: a segment, (segment -1) the export of a value, or (segment COPY) its copy."""

    order: int
    worker: int
    run: int
    segment: int
    attempt: int
    value: int
    commanded: float
    seconds: float
    rank: tuple[int, float] = (-1, 0.0)
    """Its run and its priority with the sign changed; exports go before all runs."""
    missing: int = 0
    ready: float = -1.0
    start: float = -1.0
    poisoned: bool = False
    over: bool = False
    done: bool = False
    """It has made what it was to make."""


@dataclass(slots=True)
class VirtualWorker:
    """A worker in virtual time."""

    alive: bool = True
    running: VirtualCall | None = None
    idle_since: float = 0.0
    busy: float = 0.0
    queue: deque[VirtualCall] = field(default_factory=deque["VirtualCall"])
    """With `in_order`: what has come and not started."""
    open: dict[int, VirtualCall] = field(default_factory=dict[int, "VirtualCall"])
    """Calls not over, sent or running, by their order."""
    ready: list[tuple[tuple[int, float], int, VirtualCall]] = field(
        default_factory=list[tuple[tuple[int, float], int, "VirtualCall"]]
    )
    """Without `in_order`: a heap of those whose inputs have come, by rank and order."""
    pinned: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    """By (run, value), bytes."""
    saved_pins: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Those of `pinned` that are contexts and residuals."""
    saved: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    stored: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])

    def store(self, now: float, size: int, *, saved: bool) -> None:
        """Add (or with a negative size take off) bytes that its segments have left."""
        if not size:
            return
        self.stored.append((now, self.stored[-1][1] + size))
        if saved:
            self.saved.append((now, self.saved[-1][1] + size))

    def count_no_more_as_saved(self, now: float, size: int) -> None:
        """Enter that a copy of a saved value is an object like others from here on."""
        if size:
            self.saved.append((now, self.saved[-1][1] - size))

    def forget(self, task: VirtualCall) -> None:
        """Forget a call that was withdrawn."""
        if task in self.queue:
            self.queue.remove(task)
        self.ready = [one for one in self.ready if one[2] is not task]
        heapify(self.ready)

    def pin(self, now: float, run: int, value: int, size: int, *, saved: bool) -> None:
        """Hold a value that a segment pins."""
        self.pinned[run, value] = size
        if saved:
            self.saved_pins.add((run, value))
        self.store(now, size, saved=saved)

    def unpin(self, now: float, run: int, value: int) -> None:
        """Drop a pinned value."""
        saved = (run, value) in self.saved_pins
        self.saved_pins.discard((run, value))
        self.store(now, -self.pinned.pop((run, value), 0), saved=saved)


def place_of(plans: Sequence[Planned], moved: Container[tuple[int, int, int]], run: int, value: int) -> ValueLocation:
    """Return where a value is that is kept, or that a segment has pinned for later ones; on worker -1 if it was `moved`
    from there to the store."""
    plan = plans[run].plan
    place = plan.kept.get(value)
    if place is None:
        index = max(index for index, segment in enumerate(plan.segments) if value in segment.pins)
        place = OnWorker(plan.segments[index].worker, index)
    if isinstance(place, OnWorker) and (run, value, place.segment) in moved:
        return OnWorker(-1, place.segment)
    return place


def awaited_keys(
    task: VirtualCall,
    submissions: Sequence[VirtualSubmission],
    plans: Sequence[Planned],
    moved: Container[tuple[int, int, int]],
) -> Iterable[AwaitedKey]:
    """Return what a call reads or waits for, by the current plans."""
    run, one, plan = task.run, submissions[task.run], plans[task.run].plan
    if task.segment == COPY:
        return ()
    if task.segment < 0:
        return ((run, place_of(plans, moved, run, task.value).segment, -1),)
    segment = plan.segments[task.segment]
    keys: list[AwaitedKey] = [(run, source, export) for source, export in segment.imports]
    keys += [(run, source, -1) for source in segment.after]
    externals = len(plans[run].graph.externals)
    for external in segment.externals:
        if external >= externals:
            source = (run, external)
        else:
            source = one.sources[external] if one.sources else None
        if source is None:
            if one.residency and one.residency[external] >= 0:
                keys.append((-1, run, external))
            continue
        place = place_of(plans, moved, *source)
        if isinstance(place, InStore):
            keys.append((source[0], place.segment, place.export))
        elif place.worker == task.worker:
            keys.append((source[0], place.segment, -1))
        else:
            keys.append((source[0], -1, source[1]))
    return keys


def name_of(key: AwaitedKey) -> str:
    """Return how messages name what is waited for."""
    run, segment, export = key
    if run < 0:
        return f"external {export}"
    if segment < 0:
        return f"value {export}"
    return f"segment {segment}, export {export}" if export >= 0 else f"segment {segment}"
