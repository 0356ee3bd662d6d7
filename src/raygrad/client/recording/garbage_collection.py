"""Python's cyclic collector while many records are made.

Rules of this file: how often it runs in the client's process, and nothing else. Who has switched it off, or lets it run
rarely himself, is left alone.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Generator
from contextlib import contextmanager

from raygrad.workers.process.garbage_collection import PAUSE, RECORDING

REST = 30
"""Times as long as a look at the youngest took, nobody looks again: it finds all records that are alive."""


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """Pause the cyclic collector: a pass that makes 100,000 records would have it walk all of them again and again,
    for half of the time. Records are freed by reference counting alone."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Rarely:
    """Lets the collector run less often while a session is ambient. A node that is recorded is a dozen containers,
    which live until its backward is recorded: at Python's 700, they are walked again and again, for a third of the
    time."""

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None
        self._due = 0.0

    def begin(self) -> None:
        """Let it run less often from here on."""
        before = gc.get_threshold()
        if gc.isenabled() and 0 < before[0] < RECORDING:
            gc.set_threshold(RECORDING, *before[1:])
            self._before = before
            self._due = time.perf_counter() + PAUSE

    def look(self) -> None:
        """Look at the youngest all the same, if it is time: a few containers may hold large arrays."""
        if self._before is not None and (start := time.perf_counter()) > self._due and gc.isenabled():
            gc.collect(0)
            now = time.perf_counter()
            self._due = now + max(PAUSE, REST * (now - start))

    def end(self) -> None:
        """Let it run as before."""
        if self._before is not None and gc.get_threshold()[0] == RECORDING:  # else somebody has set it meanwhile
            gc.set_threshold(*self._before)
        self._before = None
