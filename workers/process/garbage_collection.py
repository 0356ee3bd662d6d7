"""Thresholds and schedule of Python's cyclic garbage collector in a worker, and while a segment runs.

The host enters `fewer_collections` around the steps of a segment. User code runs meanwhile, so the collector is never
switched off."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator
from contextlib import contextmanager
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


@contextmanager
def fewer_collections() -> Generator[CollectorSchedule, None, None]:
    """Have the collector run less often while a segment runs, by count and by time. Does nothing if the user switched
    it off, or another thread has done this already."""
    before = gc.get_threshold()
    if not gc.isenabled() or not 0 < before[0] < YOUNG:
        yield CollectorSchedule(gc.isenabled() and before[0] in (YOUNG, RECORDING))
        return
    gc.set_threshold(YOUNG, *before[1:])
    try:
        yield CollectorSchedule(True)
    finally:
        if gc.get_threshold()[0] == YOUNG:  # else user code has set it meanwhile
            gc.set_threshold(*before)
