"""Garbage collection thresholds of the client's process while many records are made.

A session raises Python's threshold while it is ambient, and passes pause the collector. A program that disables the
collector or sets a high threshold itself keeps its setting.
"""

from __future__ import annotations

import gc
import time

from raygrad.workers.process.garbage_collection import PAUSE, RECORDING

REST = 30
"""Pause after a collection of the youngest generation, as a multiple of its time: it visits all live records."""


class GarbageCollectorTuning:
    """A higher collection threshold while a session is ambient. A recorded node is a dozen containers, which live until
    its backward is recorded: at Python's threshold of 700 they are traversed again and again, for a third of the time.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None
        self._due = 0.0

    def begin(self) -> None:
        """Raise the threshold."""
        before = gc.get_threshold()
        if gc.isenabled() and 0 < before[0] < RECORDING:
            gc.set_threshold(RECORDING, *before[1:])
            self._before = before
            self._due = time.perf_counter() + PAUSE

    def collect_if_due(self) -> None:
        """Collect the youngest generation if it is due: a few containers may hold large arrays."""
        if self._before is not None and (start := time.perf_counter()) > self._due and gc.isenabled():
            gc.collect(0)
            now = time.perf_counter()
            self._due = now + max(PAUSE, REST * (now - start))

    def end(self) -> None:
        """Restore the threshold."""
        if self._before is not None and gc.get_threshold()[0] == RECORDING:  # else the program has set it meanwhile
            gc.set_threshold(*self._before)
        self._before = None
