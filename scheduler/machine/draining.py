"""Draining: how a worker is emptied before it ends, so that nothing is lost with it; and how runs take to new workers.

The machine calls it after each event while a worker is drained. Other sessions pay for one comparison per event.

1. *Export.* What is pinned on the worker and still needed is brought to the object store (`ExportValue`), as soon as
   the segment that makes it has been commanded and is not to be withdrawn.
2. *Plan again.* Of each run that has segments there, what has not begun is withdrawn and planned again, one run after
   the other, as any revision (`revision`). Once per run: what then is still there has to run there (it is tied to what
   cannot leave the worker, or its plan keeps limits of memory, or it has been recovered), and the worker waits for it.
3. *End.* Once nothing runs or waits there, and nothing that is needed is there alone, the worker ends (`EndWorker`).

A value that cannot leave the worker, such as a context that cannot be pickled, keeps it: `KeepWorker`.

Workers that are added are idle: the rest of each run that goes on is reviewed, as for a worker that has run dry.
"""

from __future__ import annotations

from .commands import EndWorker, KeepWorker
from .liveness import Liveness
from .revision import MIN_SECONDS, Reviser
from .state import LiveRun, LiveSegment, LiveValue, ObjectState, Outlook, SegmentState, State


class Drainer:
    """Empties workers of one machine's state, and enters new ones; see the head of this file."""

    def __init__(self, state: State, liveness: Liveness, reviser: Reviser) -> None:
        self._state = state
        self._liveness = liveness
        self._reviser = reviser

    def add(self, workers: int, at: float) -> None:
        """Enter that there are `workers` now, counting those that are gone; review the runs that go on."""
        for run in list(self._state.runs.values()):
            if run.replans and not run.failed and run.unfinished:
                outlook = run.outlook
                if outlook is None:
                    outlook = run.outlook = _outlook_of(run, workers, at)
                _widen(outlook, workers, at)
                outlook.review_at, outlook.pause = at, MIN_SECONDS
                self._reviser.look(run, at)

    def begin(self, worker: int) -> None:
        """Enter that a worker is to be emptied; nothing if it is lost or is emptied already."""
        if worker not in self._state.lost_workers:
            self._state.draining.setdefault(worker, set())

    def cancel(self, worker: int) -> None:
        """Enter that a worker stays after all."""
        self._state.draining.pop(worker, None)
        self._state.stirred.update(self._state.queues)

    def gone(self, worker: int) -> None:
        """Enter that a worker is gone."""
        if worker not in self._state.replacing:  # what comes in its place is drained in turn
            self._state.draining.pop(worker, None)
            self._state.ending.discard(worker)

    def not_exported(self, value: LiveValue) -> None:
        """Enter that a pinned value cannot be made an object: a worker that is drained for it is kept."""
        worker = value.pinned_on
        if worker in self._state.draining and worker not in self._state.ending:
            self.cancel(worker)
            self._liveness.commands.append(KeepWorker(worker=worker, run=value.run, value=value.value))

    def look(self, at: float) -> None:
        """Go on with what is drained."""
        for worker in sorted(self._state.draining.keys() - self._state.ending - self._state.lost_workers):
            there = self._export(worker)
            run = self._to_plan_again(worker)
            if run is not None and self._state.revision is None:
                self._state.draining[worker].add(run.run)
                self._reviser.revise(run, at)
            elif not there and self._state.revision is None and not self._segments_on(worker):
                self._state.ending.add(worker)
                self._liveness.commands.append(EndWorker(worker=worker))

    def _export(self, worker: int) -> bool:
        """Have what is needed of a worker exported; return whether some of it is there alone still."""
        alone = False
        for run in list(self._state.runs.values()):
            for value in list(run.values.values()):
                if value.pinned_on == worker and not value.lost and value.object is not ObjectState.LIVE:
                    alone = True
                    if self._stays_commanded(self._liveness.maker(value)):
                        self._liveness.make_object(value)
        return alone

    def _stays_commanded(self, segment: LiveSegment) -> bool:
        """Tell whether a segment has ended well or is going to, and not to be withdrawn before it begins."""
        if segment.state is SegmentState.DONE:
            return True
        run, revision = self._state.runs[segment.run], self._state.revision
        if segment.state is not SegmentState.RUNNING or run.failed:
            return False
        asked = revision is not None and (segment.run, segment.index) in revision.asked
        return not asked and not self._is_to_be_planned_again(run, segment.given.worker)

    def _to_plan_again(self, worker: int) -> LiveRun | None:
        """Return the first run whose rest is to be planned again without a worker."""
        for _, run in sorted(self._state.runs.items()):
            if self._is_to_be_planned_again(run, worker):
                if any(one.given.worker == worker and not one.state.final for one in run.segments):
                    return run
        return None

    def _is_to_be_planned_again(self, run: LiveRun, worker: int) -> bool:
        planned = run.run in self._state.draining.get(worker, ())
        may_be = run.outlook is not None and not run.failed and not run.recoveries
        return may_be and bool(run.unfinished) and not planned

    def _segments_on(self, worker: int) -> bool:
        """Tell whether something runs or waits on a worker."""
        if self._state.in_flight.get(worker, 0):
            return True
        return any(not one.state.final for one in self._state.queues.get(worker, ()))


def _outlook_of(run: LiveRun, workers: int, at: float) -> Outlook:
    """Return the outlook of a run that had one worker, and may be planned again on more."""
    outlook = Outlook(began=at, left=[], running=[], latest=[], review_at=at, pause=MIN_SECONDS)
    _widen(outlook, workers, at)
    for segment in run.segments:
        worker = segment.given.worker
        if segment.state is SegmentState.RUNNING:
            outlook.running[worker].add(segment.index)
        if not segment.state.final:
            outlook.left[worker] += segment.given.seconds
        elif segment.state is SegmentState.DONE:
            outlook.predicted += segment.given.seconds
            outlook.taken += segment.seconds
            outlook.latest[worker] = max(outlook.latest[worker], segment.moves[-1][0])
        if segment.moves:
            outlook.began = min(outlook.began, segment.moves[0][0])
    return outlook


def _widen(outlook: Outlook, workers: int, at: float) -> None:
    """Give an outlook as many workers as there are."""
    while len(outlook.left) < workers:
        outlook.left.append(0.0)
        outlook.running.append(set())
        outlook.latest.append(at)
