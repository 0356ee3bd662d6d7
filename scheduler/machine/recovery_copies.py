"""Recovery copies: copies of pinned values in the object store, which bound the work that a worker's death costs (H18).

Within a run, what only later segments of the same worker read stays pinned there (`Segment.copied_pins`).
Once a worker has worked on a run for more than `recovery_time` seconds since its values of that run were last due to be
copied, those that later segments still read are due. A copy is dropped with its value: when the last reader is final,
or the run fails.

Values that the client keeps on workers, as parameters of a training, are copied likewise, those of all workers at once,
after so many seconds of work of one of them on all runs; or sooner, once `MOST_RETAINED` runs, or `MOST_SUPPLIED` bytes
of the client's arrays, are remembered to make them again (`lineage`). With that these runs are forgotten. Without a
recovery time nothing is copied, and they are forgotten all the same.

All that is due on a worker is copied at one moment, by one command: a training replaces its parameters at each step,
and parameters of one step are of no use with the optimiser's state of another one.
"""

from __future__ import annotations

from math import inf
from typing import Final

from .commands import CopyValues, DropCopy
from .events import ValueCopied
from .lineage import may_be_made_again
from .liveness import Liveness
from .state import ExposedWork, LiveRun, LiveSegment, ObjectState, RecoveryCopy, State

MOST_RETAINED: Final = 256
"""Runs that are remembered after which values are copied, so that they can be forgotten."""

MOST_SUPPLIED: Final = 256 << 20
"""Bytes of arrays that these runs were given, likewise."""


class RecoveryCopies:
    """Decides which pinned values of one machine's state are copied, and when. `Liveness` drops copies.

    Args:
        state: of the machine.
        liveness: collects the commands.
        recovery_time: seconds of a worker's work on one run for which nothing is copied; infinity for never.
    """

    def __init__(self, state: State, liveness: Liveness, recovery_time: float) -> None:
        self._state = state
        self._liveness = liveness
        self._recovery_time = recovery_time
        self._due: dict[int, list[tuple[int, int]]] = {}
        """Per worker, (run, value) of copies to be made; those that are no longer needed are passed over."""
        self._packing: dict[int, set[tuple[int, int]]] = {}
        """Per worker, (run, value) of copies that were commanded and are not answered."""
        self._worked: dict[int, float] = {}
        """Per worker, seconds of its work since its kept values were last due."""
        self._most = 1.0
        """The share of `MOST_RETAINED` and `MOST_SUPPLIED` with which all kept values are due next."""

    def segment_done(self, run: LiveRun, segment: LiveSegment, seconds: float) -> None:
        """Enter that a worker has spent `seconds` on a segment, which is done; before `segment_final`."""
        if self._recovery_time == inf or run.failed:
            return
        worker = segment.given.worker
        exposed = run.exposed.get(worker)
        if exposed is None:
            exposed = run.exposed[worker] = ExposedWork()
        exposed.seconds += seconds
        exposed.values.update(dict.fromkeys(segment.given.copied_pins))
        for value in segment.given.drops:  # of which `Liveness` drops the copies
            exposed.values.pop(value, None)
        if exposed.seconds > self._recovery_time and exposed.values:
            due = self._due.setdefault(worker, [])
            for value in [one for one in exposed.values if one not in run.copies]:
                run.copies[value] = RecoveryCopy()
                due.append((run.run, value))
            run.exposed[worker] = ExposedWork()
            self._next(worker)
        self._worked[worker] = worked = self._worked.get(worker, 0.0) + seconds
        if worked > self._recovery_time:
            self._copy_kept()

    def retained(self, run: LiveRun) -> None:
        """Enter that a run is remembered, to make again what it makes."""
        state = self._state
        state.retained_runs += 1
        state.retained_bytes += run.supplied_bytes
        if state.retained_runs <= MOST_RETAINED and state.retained_bytes <= MOST_SUPPLIED:
            self._most = 1.0
        elif state.retained_runs > self._most * MOST_RETAINED or state.retained_bytes > self._most * MOST_SUPPLIED:
            self._most *= 2.0  # copies take their time
            if self._recovery_time == inf:
                self._end_lineage()
                return
            self._copy_kept()

    def _end_lineage(self) -> None:
        """Forget runs that have ended, where nothing is copied: what they have made is lost with its worker. What is
        lost already can still be made again."""
        ended = [one for one in self._state.runs.values() if one.finished and not one.unfinished]
        for run in sorted(ended, key=lambda one: -one.run):
            for value in run.values.values():
                value.irreplaceable = value.irreplaceable or (not value.lost and may_be_made_again(run, value))
            self._liveness.forget(run)

    def _copy_kept(self) -> None:
        """Have the kept values copied that somebody needs and that one worker alone has. What is in the store stays."""
        self._worked.clear()
        for run in self._state.runs.values():
            for value in run.values.values() if not run.failed and run.recoverable else ():
                maker = self._liveness.maker(value)
                if not (value.held or value.readers) or value.value in run.copies or not maker.state.final:
                    continue
                if value.stored:
                    value.stays = True
                elif value.pinned_on >= 0 and maker.dispatched and not (value.lost or value.uncopyable):
                    run.copies[value.value] = RecoveryCopy()
                    self._due.setdefault(value.pinned_on, []).append((run.run, value.value))
        for worker in list(self._due):
            self._next(worker)
        for run in [one for one in self._state.runs.values() if any([value.stays for value in one.values.values()])]:
            self._liveness.forget(run)

    def worker_lost(self, worker: int) -> None:
        """Enter that a worker died: it makes no more copies."""
        self._due.pop(worker, None)
        self._worked.pop(worker, None)
        self._packing.pop(worker, None)

    def answered(self, event: ValueCopied) -> None:
        """Enter that a copy was made, or could not be; after the last of a command, give the next."""
        name = event.run, event.value
        worker = next((worker for worker, packing in self._packing.items() if name in packing), None)
        run = self._state.runs.get(event.run)
        copy = run.copies.get(event.value) if run is not None else None
        if copy is not None and event.ok:
            copy.object, copy.size = ObjectState.LIVE, event.size
            self._state.account(event.size, saved=True)
        else:  # not needed any more, or it cannot be packed: then the value is on its worker alone
            if run is not None:
                run.copies.pop(event.value, None)
            self._liveness.commands.append(DropCopy(run=event.run, value=event.value))
        if run is not None:
            value = run.values.get(event.value)
            if value is not None:
                value.uncopyable = value.uncopyable or not (event.ok or value.lost)
                self._liveness.drop_if_unneeded(value)
            self._liveness.forget(run)
        if worker is not None:
            self._packing[worker].discard(name)
            self._next(worker)

    def _next(self, worker: int) -> None:
        """Command the copies that are due on a worker, unless it makes some."""
        packing = self._packing.setdefault(worker, set())
        if packing:
            return
        for number, value in self._due.pop(worker, ()):
            run = self._state.runs.get(number)
            copy = run.copies.get(value) if run is not None else None
            if copy is not None and copy.object is ObjectState.ABSENT:
                copy.object = ObjectState.REQUESTED
                packing.add((number, value))
        if packing:
            self._liveness.commands.append(CopyValues(worker=worker, values=tuple(sorted(packing))))
