"""What simulated streams were told to do: done at once, or as late as the rules of streams and events allow.

Rules of this file: order alone; it knows neither arrays nor memory. A stream does what it was told in that order; what
waits for a mark is done after it; nothing else is promised. What is late is done when somebody waits for it, and then
no more than that needs, but for what is drawn by chance from a seed.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

StreamKey: TypeAlias = tuple[int, int]
"""A stream: the number of its device, and its own."""

HASTE: Final = (0.0, 0.0, 0.3, 0.8)
"""How likely something is done that nobody has asked for yet; a seed draws one of these."""


class StreamMark:
    """A point in what a stream was told: done when all before it is."""

    __slots__ = ("done", "place")

    def __init__(self, place: StreamKey) -> None:
        self.place = place
        self.done = False


class _Task(NamedTuple):
    work: Callable[[], None] | None
    after: StreamMark | None
    mark: StreamMark


class StreamQueues:
    """What streams were told and have not done. Safe for use by several threads.

    Args:
        seed: draws what is done early; None does everything at once.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.lock = threading.RLock()
        """Held while something late is put, or done."""
        self._chance = None if seed is None else random.Random(seed)
        self._haste = 0.0 if self._chance is None else self._chance.choice(HASTE)
        self._queues: dict[StreamKey, deque[_Task]] = {}

    @property
    def late(self) -> bool:
        """Whether anything is done later than it is told."""
        return self._chance is not None

    def put(
        self, place: StreamKey, work: Callable[[], None] | None = None, after: StreamMark | None = None
    ) -> StreamMark:
        """Tell a stream to do something, once a mark is done; return the mark that follows it."""
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
        """Tell whether a mark is done; the next to ask may hear otherwise."""
        with self.lock:
            self._stir()
            return mark.done

    def finish_all(self, device: int) -> None:
        """Wait until all streams of a device have done what they were told."""
        with self.lock:
            for place in [place for place in self._queues if place[0] == device]:
                self.finish(self.put(place))

    def _stir(self) -> None:
        """Do some of what may be done now, in any order."""
        chance = self._chance
        while chance is not None and chance.random() < self._haste:
            ready = [place for place, queue in self._queues.items() if queue and _is_ready(queue[0])]
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


def _is_ready(task: _Task) -> bool:
    return task.after is None or task.after.done
