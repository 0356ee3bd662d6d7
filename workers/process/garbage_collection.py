"""Thresholds and schedule of Python's cyclic garbage collector in a worker, and while a segment runs.

The host enters `fewer_collections` around the steps of a segment. User code runs meanwhile, so the collector is never
switched off."""

from __future__ import annotations

import gc
import time
from typing import Final

YOUNG: Final = 25_000
"""Threshold of the youngest generation while a segment runs. Each node of a chain of Functions makes a dozen containers
that live until its backward has run. At Python's 700 they are walked repeatedly, reach the oldest generation, and cause
walks over all objects of the process."""

RECORDING: Final = 200_000
"""The same at a client while a session is ambient there. Each recorded node makes a dozen containers that live until
its backward is submitted: walks over them find no garbage."""

PAUSE: Final = 0.02
"""Seconds of steps after which the youngest generation is collected all the same: garbage of a few containers may hold
large arrays, and takes long to make."""


class CollectorSchedule:
    """The time of the next collection of the youngest generation between two steps."""

    def __init__(self, enabled: bool) -> None:
        self.due = time.perf_counter() + PAUSE if enabled else float("inf")
        """The time, by `time.perf_counter`."""

    def look(self) -> float:
        """Collect the youngest generation, and return the time at the end."""
        gc.collect(0)
        now = time.perf_counter()
        self.due = now + PAUSE
        return now


def freeze_loaded_modules() -> None:
    """Exclude all present objects from later collections: mostly modules, which stay until the process ends. A walk
    over them takes 60 ms, in the middle of an early run."""
    gc.freeze()


class fewer_collections:
    """A context manager under which the collector runs less often, by count and by time, while a segment runs. Does
    nothing if the user switched it off, or another thread has done this already."""

    __slots__ = ("_before",)

    def __enter__(self) -> CollectorSchedule:
        before, enabled = gc.get_threshold(), gc.isenabled()
        if enabled and 0 < before[0] < YOUNG:
            self._before = before
            gc.set_threshold(YOUNG, *before[1:])
            return CollectorSchedule(True)
        self._before = None
        return CollectorSchedule(enabled and before[0] in (YOUNG, RECORDING))

    def __exit__(self, *_: object) -> None:
        if self._before is not None and gc.get_threshold()[0] == YOUNG:  # else user code has set it meanwhile
            gc.set_threshold(*self._before)
