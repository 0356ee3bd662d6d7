"""Measurement of the time for which a segment waited for the interpreter's lock (GIL), from thread and process clocks.

The host subtracts it from node times, by which the planner predicts. While another thread holds the lock, a node
stands still and looks heavier than it is. A node that sleeps, reads a file or waits for a device stands still as well,
and that is its own time. The CPU time that other threads of the process used meanwhile distinguishes the two: it bounds
the wait."""

from __future__ import annotations

import time
from typing import Final

SUSPECT_SECONDS: Final = 200e-6
"""The waits of nodes that took this long are measured: reading both clocks takes some microseconds."""


class GilWaitClock:
    """The waits of the thread that makes this object, during one segment.

    Attributes:
        seconds: the sum of all measured waits.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._wall = time.perf_counter()
        self._own = time.thread_time()
        self._whole = time.process_time()

    def since(self) -> float:
        """Return how long this thread has waited for others since the last time, or since the start."""
        wall, own, whole = time.perf_counter(), time.thread_time(), time.process_time()
        stood = (wall - self._wall) - (own - self._own)
        others = (whole - self._whole) - (own - self._own)
        self._wall, self._own, self._whole = wall, own, whole
        waited = max(min(stood, others), 0.0)
        self.seconds += waited
        return waited
