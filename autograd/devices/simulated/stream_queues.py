"""Work queues of simulated streams, executed at once or as late as streams and events allow.

Simulated streams put their work here; nothing knows arrays or memory. Work of one stream runs in order, and work that
waits for a mark runs after it; nothing else is guaranteed. Late work runs when somebody waits for it, and then no more
than needed, except for what a seed draws at random.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

StreamKey: TypeAlias = tuple[int, int]
"""A stream: the number of its device, and its own."""

EAGERNESS: Final = (0.0, 0.0, 0.3, 0.8)
"""Probabilities with which work runs that nobody waits for; a seed draws one of these."""


class StreamMark:
    """A point in a stream's queue, done when all work before it is done."""

    __slots__ = ("done", "place")

    def __init__(self, place: StreamKey) -> None:
        self.place = place
        self.done = False


class _Task(NamedTuple):
    work: Callable[[], None] | None
    after: StreamMark | None
    mark: StreamMark


class StreamQueues:
    """The pending work of all streams. Safe for use by several threads.

    Args:
        seed: draws what is done early; None does everything at once.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.lock = threading.RLock()
        """Held while something late is put, or done."""
        self._chance = None if seed is None else random.Random(seed)
        self._eagerness = 0.0 if self._chance is None else self._chance.choice(EAGERNESS)
        self._queues: dict[StreamKey, deque[_Task]] = {}

    @property
    def late(self) -> bool:
        """Whether work may run later than it is queued."""
        return self._chance is not None

    def put(
        self, place: StreamKey, work: Callable[[], None] | None = None, after: StreamMark | None = None
    ) -> StreamMark:
        """Queue work on a stream, to run after a mark; return the mark of its completion."""
        mark = StreamMark(place)
        if self._chance is None:
            if work is not None:
                work()
            mark.done = True
            return mark
        with self.lock:
            self._queues.setdefault(place, deque()).append(_Task(work, after, mark))
            self._stir()
        return mark

    def finish(self, mark: StreamMark) -> None:
        """Wait until a mark is done."""
        with self.lock:
            self._stir()
            while not mark.done:
                held_up_by = mark
                while (after := self._queues[held_up_by.place][0].after) is not None and not after.done:
                    held_up_by = after
                self._do_next(held_up_by.place)
                self._stir()

    def is_done(self, mark: StreamMark) -> bool:
        """Tell whether a mark is done by now."""
        with self.lock:
            self._stir()
            return mark.done

    def finish_all(self, device: int) -> None:
        """Wait until all work queued on a device is done."""
        with self.lock:
            for place in [place for place in self._queues if place[0] == device]:
                self.finish(self.put(place))

    def _stir(self) -> None:
        """Run some of the work that is ready, in random order."""
        chance = self._chance
        while chance is not None and chance.random() < self._eagerness:
            ready = [
                place
                for place, queue in self._queues.items()
                if queue and (queue[0].after is None or queue[0].after.done)
            ]
            if not ready:
                return
            self._do_next(chance.choice(ready))

    def _do_next(self, place: StreamKey) -> None:
        task = self._queues[place].popleft()
        try:
            if task.work is not None:
                task.work()
        finally:
            task.mark.done = True
