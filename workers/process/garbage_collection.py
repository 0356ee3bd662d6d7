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
"""Containers that a segment may make before the collector looks at them. Of a chain of Functions each node leaves a
dozen, which live until its backward has run: at Python's 700, they are walked again and again, are taken for old, and
bring about a walk over everything that the process holds."""

RECORDING: Final = 200_000
"""The same at a client while a session is ambient there. Each recorded node leaves a dozen containers that live until
its backward was submitted: of all that a walk over them costs, none finds anything."""

PAUSE: Final = 0.02
"""Seconds of steps after which the youngest are looked at all the same: garbage of a few containers may hold large
arrays, and who makes such takes his time."""


class CollectorSchedule:
    """When to look at the youngest between two steps."""

    def __init__(self, enabled: bool) -> None:
        self.due = time.perf_counter() + PAUSE if enabled else float("inf")
        """When it is time to, by `time.perf_counter`."""

    def look(self) -> float:
        """Look, and return when that was done."""
        gc.collect(0)
        now = time.perf_counter()
        self.due = now + PAUSE
        return now


def freeze_loaded_modules() -> None:
    """Leave everything that the process holds now out of all later walks: modules, mostly, which stay to its end. A
    walk over them takes 60 ms, and comes in the middle of an early run."""
    gc.freeze()


@contextmanager
def fewer_collections() -> Generator[CollectorSchedule, None, None]:
    """Let the collector run less often while a segment runs, by count and by time. Leaves it alone where its user has
    switched it off, or another thread does this already."""
    before = gc.get_threshold()
    if not gc.isenabled() or not 0 < before[0] < YOUNG:
        yield CollectorSchedule(gc.isenabled() and before[0] in (YOUNG, RECORDING))
        return
    gc.set_threshold(YOUNG, *before[1:])
    try:
        yield CollectorSchedule(True)
    finally:
        if gc.get_threshold()[0] == YOUNG:  # else somebody has set it meanwhile
            gc.set_threshold(*before)
