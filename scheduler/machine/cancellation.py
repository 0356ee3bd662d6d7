"""Cancellation: which segments are stopped when a run is given up, and which worker is replaced because one is not.

The machine calls it. A run that is cancelled, or has passed a deadline, fails at once, with all that read from it; what
of them was commanded is stopped (`StopSegments`). Workers skip what they have not begun and interrupt what they run,
and report either as skipped. What has begun and does not end within the grace period (it sleeps, or computes in C) is
ended with its worker: `ReplaceWorker`. A worker is spared while it may be running something else. Nothing more is
commanded on a worker that is stopping something: it would be lost with it.
"""

from __future__ import annotations

from typing import Final

from .commands import ReplaceWorker, StopSegments
from .liveness import Liveness
from .state import NEVER, LiveRun, LiveSegment, SegmentState, State, Stopping

STOP_GRACE: Final = 1.0
"""Seconds that user code has to end once it is interrupted, before its worker is replaced."""


class Canceller:
    """Stops segments of one machine's state."""

    def __init__(self, state: State, liveness: Liveness, grace: float) -> None:
        self._state = state
        self._liveness = liveness
        self._grace = grace

    def stop(self, runs: list[LiveRun], at: float) -> None:
        """Have the running segments of runs that have failed stopped."""
        running = [one for run in runs for one in run.segments if one.state is SegmentState.RUNNING]
        if running:
            names = tuple([(one.run, one.index) for one in running])
            workers = tuple([one.given.worker for one in running])
            for name, worker in zip(names, workers, strict=True):
                self._state.stopping[name] = Stopping(worker, at + self._grace)
            self._state.stop_at = min(self._state.stop_at, at + self._grace)
            self._liveness.commands.append(StopSegments(segments=names, workers=workers))

    def begun(self, name: tuple[int, int], at: float) -> None:
        """Enter that a worker was running a segment when it was told to stop it."""
        stopping = self._state.stopping.get(name)
        if stopping is not None:
            stopping.begun = True
            stopping.due = at + self._grace
            self._state.stop_at = min(self._state.stop_at, stopping.due)

    def ended(self, segment: LiveSegment) -> None:
        """Enter that a segment is final."""
        if self._state.stopping.pop((segment.run, segment.index), None) is not None and not self._state.stopping:
            self._state.stop_at = NEVER

    def replaced(self, worker: int) -> None:
        """Enter that a worker was replaced, or cannot be."""
        self._state.replacing.discard(worker)
        self._state.lost_workers.discard(worker)
        self._state.stirred.add(worker)

    def look(self, at: float) -> None:
        """Have each worker replaced that still runs what it was to stop."""
        state = self._state
        overdue = [(name, one) for name, one in state.stopping.items() if one.due <= at]
        for name, one in overdue:
            if name not in state.stopping:
                continue  # its worker is replaced already
            if one.begun or self._runs_nothing_else(one.worker):
                for other in [other for other, found in state.stopping.items() if found.worker == one.worker]:
                    del state.stopping[other]
                state.replacing.add(one.worker)
                self._liveness.commands.append(ReplaceWorker(worker=one.worker, run=name[0], segment=name[1]))
            else:
                one.due = at + self._grace
        state.stop_at = min([one.due for one in state.stopping.values()], default=NEVER)

    def _runs_nothing_else(self, worker: int) -> bool:
        """Tell whether all that a worker was given is to be stopped."""
        asked = sum([one.worker == worker for one in self._state.stopping.values()])
        return self._state.in_flight.get(worker, 0) <= asked
