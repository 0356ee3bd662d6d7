"""The faults of one worker, as its process has them: counts how often each point was reached, and has them happen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from raygrad.workers.process.fault_points import FaultNotes, PointName

from .faults import Fault


class WorkerFaults:
    """A `FaultHook`. It is pickled once, before anything was reached.

    Args:
        faults: by their number in the injection.
        notes: gets the number of each before it happens.
    """

    def __init__(self, faults: Mapping[int, Fault], notes: FaultNotes) -> None:
        self._faults = dict(faults)
        self._notes = notes
        self._counts: Counter[str] = Counter()

    def reached(self, point: PointName) -> None:
        """See `FaultHook`."""
        with _LOCK:
            self._counts[point] += 1
            occurrence = self._counts[point]
            due = [number for number, one in self._faults.items() if one.at.name == point]
            due = [number for number in due if self._faults[number].at.occurrence == occurrence]
            happening = [self._faults.pop(number) for number in due]
            for number in due:
                self._notes.add(str(number))
        for fault in happening:
            fault.strike()


_LOCK = threading.Lock()
"""Of what all hooks of this process count: replies are counted on other threads than nodes."""
