"""The queue of a worker of the in-process executor: calls and fetches that have not started, and which is next.

No threads and no clock: the executor asks under its lock. Of what is ready, fetches go first, since others wait for
them; then the calls of the earliest run, of these the one with the highest priority, and of equals the one given first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from .base import ObjectId, SegmentId, Work


class Fetch:
    """Work that makes an object of a pinned value."""

    __slots__ = ("after", "requested", "run", "value", "worker")

    def __init__(self, worker: int, run: int, value: int, after: SegmentId | None, requested: bool) -> None:
        self.requested = requested
        self.worker = worker
        self.run = run
        self.value = value
        self.after = () if after is None else (after,)


@dataclass(slots=True)
class Outstanding:
    """What calls and fetches of all workers may wait for."""

    objects: set[ObjectId] = field(default_factory=set[ObjectId])
    """Objects that are not made yet."""
    segments: set[SegmentId] = field(default_factory=set[SegmentId])
    """Segments that have not ended."""
    ordered: deque[SegmentId] = field(default_factory=deque[SegmentId])
    """Of these, the ones whose code changes what it captures: one at a time, in the order given."""

    def is_ready(self, work: Work | Fetch) -> bool:
        """Tell whether nothing is outstanding that a call or fetch waits for.

        Each waits only for what was given before it, whichever worker that is on: so some work is always ready, as
        long as there is any and none is running.
        """
        if not self.segments.isdisjoint(work.after):
            return False
        if isinstance(work, Fetch):
            return True
        if not self.objects.isdisjoint(work.arguments):
            return False
        if not self.ordered:
            return True
        own = SegmentId(work.call.run, work.call.segment)
        return own == self.ordered[0] or own not in self.ordered

    def held_in_order(self, works: Iterable[Work]) -> set[SegmentId]:
        """Return which of these works, none of which has started, may not be withdrawn: those whose code changes what
        it captures, and what they wait for. Started again, they would come after calls that were given later."""
        waiting = {SegmentId(work.call.run, work.call.segment): work for work in works}
        held = [name for name in waiting if name in self.ordered] if self.ordered else []
        found = {*held}
        for name in held:
            work = waiting[name]
            for source in (*work.after, *[SegmentId(one.run, one.segment) for one in work.arguments]):
                if source in waiting and source not in found:
                    found.add(source)
                    held.append(source)
        return found

    def ended(self, segment: SegmentId) -> None:
        """Enter that a segment has ended."""
        self.segments.discard(segment)
        if self.ordered and segment in self.ordered:
            self.ordered.remove(segment)


class ReadyQueue:
    """Calls and fetches of one worker that have not started."""

    __slots__ = ("_heavy", "_works")

    def __init__(self) -> None:
        self._works: list[Work | Fetch] = []
        """In the order given."""
        self._heavy: set[int] = set()
        """By identity, the calls that are worth a hop to the worker's own thread."""

    def __len__(self) -> int:
        return len(self._works)

    @property
    def has_heavy(self) -> bool:
        """Whether a call is worth a hop to the worker's own thread."""
        return bool(self._heavy)

    def is_heavy(self, work: Work | Fetch) -> bool:
        """Tell whether work of this queue is worth a hop."""
        return id(work) in self._heavy

    def add(self, work: Work | Fetch, *, heavy: bool) -> None:
        """Add work as the last that was given."""
        self._works.append(work)
        if heavy:
            self._heavy.add(id(work))

    def make_heavy(self, work: Work | Fetch) -> None:
        """Take work of this queue to be worth a hop from here on."""
        self._heavy.add(id(work))

    def next(self, outstanding: Outstanding) -> Work | Fetch | None:
        """Return what is to run next, or None if nothing is ready."""
        works = self._works
        if len(works) == 1:
            return works[0] if outstanding.is_ready(works[0]) else None
        best: Work | None = None
        for work in works:
            if not outstanding.is_ready(work):
                continue
            if isinstance(work, Fetch):
                return work
            if best is None or (-work.call.run, work.priority) > (-best.call.run, best.priority):
                best = work
        return best

    def remove(self, work: Work | Fetch) -> None:
        """Take work out that starts now."""
        works = self._works
        if len(works) == 1:
            works.clear()
        else:
            del works[next(place for place, one in enumerate(works) if one is work)]
        self._heavy.discard(id(work))

    def find(self, name: SegmentId) -> Work | None:
        """Return the call of a segment that has not started; None if there is none."""
        for work in self._works:
            if isinstance(work, Work) and (work.call.run, work.call.segment) == name:
                return work
        return None

    def of_runs(self, runs: Collection[int]) -> list[Work]:
        """Return the calls of these runs that have not started."""
        return [work for work in self._works if isinstance(work, Work) and work.call.run in runs]

    def clear(self) -> None:
        """Forget all work."""
        self._works.clear()
        self._heavy.clear()
