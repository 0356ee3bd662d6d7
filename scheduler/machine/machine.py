"""The state machine of all runs of a session: the driver passes events in and carries out the commands that come out.

`Machine.handle` is the only entry; it never waits, and equal events give equal commands. Answers to commands may come
in any order.

- *Dispatch ahead.* A segment is commanded as soon as everything that it reads has been commanded (`dispatch`).
- *Liveness.* An object is dropped, and a pinned value unpinned, as soon as the client does not hold it and no segment
  that is not final reads it.
- *Recovery copies.* What stays on a worker is copied at one moment, where losing it would cost more than the recovery
  time (`recovery_copies`).
- *Failure.* A run fails once, at its first failure. Its running segments end by themselves (workers pass poison on, so
  they are reported as skipped), and the others are not started. Runs that read from a failed run fail too. A run
  finishes only after the runs that it reads from, so that its outcome does not depend on timing.
- *Revision.* A plan that turns out wrong is left while it runs: what has not started is withdrawn and planned again
  (`revision`).
- *Cancellation.* A run that is cancelled or has passed a deadline fails, and what of it runs is stopped
  (`cancellation`).
- *Loss.* Values pinned on a worker are lost with it, and what it ran. Attempts are numbered, and results of old ones
  are only counted.
- *Recovery.* What was lost and is needed is planned again, with what has not begun (`recovery`); runs that have ended
  are remembered as long as something of them may have to be made again (`lineage`).
- *Workers that come and go.* New workers take over work of runs that go on, and a worker that is to leave is emptied
  before (`draining`).
"""

from __future__ import annotations

from collections import deque
from math import inf

from raygrad.errors import InvariantViolation

from ..model.plan import InStore, OnWorker, Plan
from .cancellation import STOP_GRACE, Canceller
from .commands import Command, DropValue, FailReason, FailRun, FinishRun, LoseValue, RestartWorker
from .dispatch import Dispatcher
from .draining import Drainer
from .events import (
    DrainCancelled,
    DrainRequested,
    Event,
    ObjectsLost,
    PlanReviewed,
    PlanSubmitted,
    RecoveryPlanned,
    RestPlanned,
    RunAbandoned,
    RunStopped,
    RunSubmitted,
    SegmentFinished,
    SegmentsWithdrawn,
    StopAnswered,
    TimePassed,
    ValueCopied,
    ValueDropped,
    ValueExported,
    ValueRequested,
    WorkerDied,
    WorkerReplaced,
    WorkersAdded,
    run_submitted,
)
from .liveness import Liveness
from .lost_objects import LostObjects
from .recovery import Recoverer
from .recovery_copies import RecoveryCopies
from .revision import Reviser, new_outlook
from .state import LiveExport, LiveRun, LiveSegment, LiveValue, Move, ObjectState, Recovery, SegmentState, State

DEFAULT_WINDOW = 16
"""Segments in flight per worker: enough that a worker never waits for a command, few enough that the inputs of
queued segments are not all held at once."""

_NOTHING_ASKED = Recovery(frozenset())

_MOVES = {"done": Move.DONE, "failed": Move.FAILED, "skipped": Move.SKIPPED}


class Machine:
    """See the head of this file. Not safe for use by several threads at once."""

    def __init__(
        self,
        *,
        window: int = DEFAULT_WINDOW,
        recovery_time: float = inf,
        grace: float = STOP_GRACE,
        retries: int = 0,
    ) -> None:
        """With a `recovery_time` in seconds, values are copied as `recovery_copies` says. `grace`: the seconds
        that a segment has to end once it is stopped; see `cancellation`. `retries`: how often what is lost of one run
        with a worker is planned again; 0 for a run to fail at its first loss.

        Raises ValueError if the window is less than 1, or `retries` is negative.
        """
        if window < 1:
            raise ValueError(f"the window must be at least 1, not {window}")
        if retries < 0:
            raise ValueError(f"there cannot be fewer than 0 retries: {retries}")
        self.window = window
        self.state = State()
        self._liveness = Liveness(self.state)
        self._copies = RecoveryCopies(self.state, self._liveness, recovery_time)
        self.dispatcher = Dispatcher(self.state, self._liveness, window)
        self._reviser = Reviser(self.state, self._liveness)
        self.retries = retries
        self._recoverer = Recoverer(
            self.state,
            self._liveness,
            self._reviser,
            retries,
            self._fail_for_loss,
            lambda segments: self._lost_objects.void(segments),
        )
        self._lost_objects = LostObjects(self.state, self._liveness, self._recoverer)
        self._drainer = Drainer(self.state, self._liveness, self._reviser)
        self._canceller = Canceller(self.state, self._liveness, grace)
        self._at = 0.0
        self._came_back: tuple[LiveRun, int] | None = None
        """The run of the segment that has come back, and its worker, if the run's plan may be revised."""
        self._latest: tuple[Plan, RunSubmitted] | None = None
        """The plan submitted last, and what it consists of, unless that depends on the run."""

    def handle(self, *events: Event) -> list[Command]:
        """Take what has happened, in that order; return what is to be done, in that order.

        Raises InvalidTransition or InvariantViolation if an event cannot be: a bug, after which the machine is not
        to be used again.
        """
        for event in events:
            self._at = event.at
            match event:
                case PlanSubmitted():
                    self._submitted(event.run, self._segments_of(event))
                case RunSubmitted():
                    self._submitted(event.run, event)
                case SegmentFinished():
                    self._finished(event)
                case ValueRequested():
                    self._requested(event)
                case ValueExported():
                    self._exported(event)
                case ValueCopied():
                    self._copies.answered(event)
                case ValueDropped():
                    self._dropped(event)
                case WorkerDied():
                    self._lost(event.worker)
                    self._drainer.gone(event.worker)
                case ObjectsLost():
                    self._lost_objects.enter(event)
                case WorkersAdded():
                    self.state.workers = max(self.state.workers, event.workers)
                    self._drainer.add(event.workers, event.at)
                case DrainRequested():
                    self._drainer.begin(event.worker)
                case DrainCancelled():
                    self._drainer.cancel(event.worker)
                case RunAbandoned():
                    self._abandoned(event)
                case RunStopped():
                    self._cancelled(event)
                case StopAnswered():
                    self._canceller.begun((event.run, event.segment), event.at)
                case WorkerReplaced():
                    self._replaced(event)
                case PlanReviewed():
                    self._reviser.reviewed(event)
                case SegmentsWithdrawn():
                    self._withdrawn(event)
                case RestPlanned():
                    self._reviser.planned(event)
                case RecoveryPlanned():
                    self._recoverer.planned(event)
                case TimePassed():
                    self._reviser.look_at_all(event.at)
                    if event.at >= self.state.stop_at:
                        self._canceller.look(event.at)
            if self.state.skipped:
                self._recoverer.look(event.at)
            if self.state.damaged:
                self._recoverer.begin(event.at)
            if self.state.recovery is not None:
                self._recoverer.proceed(event.at)
            if self.state.draining and self.state.recovery is None and not self.state.damaged:
                self._drainer.look(event.at)
            if self.state.stirred:
                self.dispatcher.dispatch(event.at)
            if self._came_back is not None:
                run, worker = self._came_back
                self._came_back = None
                self._reviser.look(run, event.at, worker)
        return self._liveness.take()

    # ---- a run comes in --------------------------------------------------------------------------------------------

    def _segments_of(self, event: PlanSubmitted) -> RunSubmitted:
        """Return what a plan consists of: what it did before, for the same plan, if no segment reads a kept value."""
        if self._latest is not None and self._latest[0] is event.plan and not any(event.sources):
            return self._latest[1]
        made = run_submitted(
            event.plan,
            at=event.at,
            run=event.run,
            sources=event.sources,
            supplied_bytes=event.supplied_bytes,
        )
        self._latest = None if any([segment.reads for segment in made.segments]) else (event.plan, made)
        return made

    def _submitted(self, number: int, event: RunSubmitted) -> None:
        state = self.state
        if number <= state.last_run:
            raise InvariantViolation(f"run {number} was submitted after run {state.last_run}")
        state.last_run = number
        segments = [LiveSegment(number, index, given) for index, given in enumerate(event.segments)]
        run = LiveRun(number, segments, event.open_ended, len(segments))
        run.replans = event.replans
        run.recoverable = self.retries > 0
        run.supplied_bytes, run.nodes = event.supplied_bytes, event.nodes
        state.workers = max(state.workers, event.workers)
        if event.replans and event.workers > 1:
            run.outlook = new_outlook(event)
        for segment in segments:
            for index, saved in enumerate(segment.given.exports):
                run.exports[segment.index, index] = LiveExport(segment.index, index, saved)
            for source in segment.given.imports:
                run.exports[source].readers += 1
            state.queues.setdefault(segment.given.worker, deque()).append(segment)
            state.stirred.add(segment.given.worker)
        for value, place in event.kept:
            run.values[value] = LiveValue(number, value, place)
            segments[place.segment].kept.append(value)
            if isinstance(place, InStore):
                run.exports[place.segment, place.export].kept += 1
        state.runs[number] = run
        trouble = self._claim(run)
        if trouble is not None:
            self._fail(run, trouble)
            return
        if run.recoverable:
            self._liveness.retain(run)
            self._copies.retained(run)
            if state.lost_workers or any([self.state.runs[source].values[value].lost for source, value in run.reads]):
                state.damaged = state.damaged or self._recoverer.is_hurt(run)
        self._settle_if_over(run)

    def _claim(self, run: LiveRun) -> FailRun | None:
        """Count the run as a reader of the kept values that it reads; return why it cannot run, if it cannot."""
        trouble: FailRun | None = None
        reads: set[tuple[int, int]] = set()
        for segment in run.segments:
            worker = segment.given.worker
            if worker in self.state.lost_workers and not (run.recoverable and self._has_workers()):
                trouble = trouble or _loss(run, segment.index, worker)
            for source, value_id in segment.given.reads:
                earlier = self.state.runs.get(source)
                value = earlier.values.get(value_id) if earlier is not None else None
                if source in self.state.failed_runs:
                    trouble = trouble or _dependency(run, source)
                elif earlier is None or value is None:
                    raise InvariantViolation(f"run {run.run} reads value {value_id} of run {source}: not held")
                elif value.lost and (value.irreplaceable or not earlier.recoverable):
                    trouble = trouble or _loss(run, segment.index, value.pinned_on)
                if earlier is not None and value is not None:
                    value.readers += 1
                    if earlier is not run:
                        reads.add((source, value_id))
                        earlier.dependants.add(run.run)
                        if not earlier.finished:
                            run.waits_for.add(source)
        run.reads = tuple(sorted(reads))
        return trouble

    def _has_workers(self) -> bool:
        """Tell whether there are workers, or will be."""
        return len(self.state.lost_workers) < self.state.workers or bool(self.state.replacing)

    # ---- results ---------------------------------------------------------------------------------------------------

    def _finished(self, event: SegmentFinished) -> None:
        run = self.state.runs.get(event.run)
        if run is None:
            if event.run > self.state.last_run:
                raise InvariantViolation(f"a result of run {event.run}, which was not submitted")
            self.state.late_results += 1
            return
        segment = run.segments[event.segment]
        if event.attempt < segment.attempt:
            self.state.late_results += 1
            return
        if event.attempt > segment.attempt:
            raise InvariantViolation(f"a result of an attempt that was not commanded: {event}")
        if event.status == "skipped" and self._recoverer.recovers(run):
            self._recoverer.skipped(run, segment, event.at)
            return
        segment.move(_MOVES[event.status], event.at)
        if event.status == "done":
            self._done(run, segment, event)
        elif run.finished:
            self._recoverer.failed(run)
        elif event.status == "failed" and not run.failed:
            self._fail(run, FailRun(run=run.run, reason=FailReason.RAISED, segment=segment.index))
        self._end(run, segment)

    def _done(self, run: LiveRun, segment: LiveSegment, event: SegmentFinished) -> None:
        """Enter the exports and opened values of a successful current attempt."""
        segment.seconds = event.node_seconds
        if run.outlook is not None:
            run.outlook.predicted += segment.given.seconds
            run.outlook.taken += event.node_seconds
        if len(event.export_bytes) != len(segment.given.exports):
            raise InvariantViolation(f"{len(segment.given.exports)} exports, but {event}")
        self._liveness.exported(run, segment, event.export_bytes)
        self._copies.segment_done(run, segment, event.seconds)
        if event.opened and not run.open_ended:
            raise InvariantViolation(f"segment {segment.index} of run {run.run} ends with no open-ended node")
        for value in event.opened:
            place = OnWorker(segment.given.worker, segment.index)
            before = run.values.get(value)
            if before is None and run.opened:  # the client has dropped it since it was first made
                self._liveness.unpin(segment.given.worker, run.run, value)
                continue
            if before is None:
                run.values[value] = LiveValue(run.run, value, place, held=not run.failed)
            else:
                before.place, before.lost = place, False
            segment.kept.append(value)
        run.opened |= {*event.opened}

    def _end(self, run: LiveRun, segment: LiveSegment) -> None:
        """Enter that a segment is final."""
        worker = segment.given.worker
        if segment.dispatched:
            self.state.in_flight[worker] -= 1
        if run.failed and self.state.stopping:
            self._canceller.ended(segment)
        if run.outlook is not None:
            outlook = run.outlook
            outlook.left[worker] -= segment.given.seconds
            outlook.running[worker].discard(segment.index)
            outlook.latest[worker] = self._at
            if segment.dispatched:
                self._came_back = run, worker
        self.state.stirred.add(worker)
        self.state.stirred.update(self.state.awaited.pop((segment.run, segment.index), ()))
        run.unfinished -= 1
        self._liveness.segment_final(run, segment)
        self._settle_if_over(run)

    def _settle_if_over(self, run: LiveRun) -> None:
        """If all segments of a run are final: finish it and those that waited only for it, unless it waits itself for
        a run that it reads from; or clean up after a failed one."""
        pending = [run]
        for current in pending:
            if current.unfinished:
                continue
            if current.finished:  # a part of it has run again
                if any([not one.state.successful for one in current.segments]):
                    self._liveness.unpin_inner(current)
                self._liveness.forget(current)
                continue
            if current.failed:
                self._liveness.unpin_inner(current)
                self._liveness.forget(current)
                continue
            if current.waits_for:
                continue
            bad = next((one for one in current.segments if not one.state.successful), None)
            if bad is not None:  # skipped, and no failure was reported that explains it: better an error than a hang
                self._fail(current, FailRun(run=current.run, reason=FailReason.RAISED, segment=bad.index))
                continue
            current.finished = True
            self._liveness.commands.append(FinishRun(run=current.run))
            for number in sorted(current.dependants):
                reader = self.state.runs.get(number)
                if reader is not None and not reader.failed:
                    reader.waits_for.discard(current.run)
                    pending.append(reader)
            self._liveness.forget(current)

    def _withdrawn(self, event: SegmentsWithdrawn) -> None:
        """Enter which segments were withdrawn; those of runs that have failed meanwhile are given up."""
        for number, index in event.segments:
            run = self.state.runs.get(number)
            if run is None:
                continue
            segment = run.segments[index]
            if segment.state is not SegmentState.RUNNING:  # its worker was lost meanwhile
                continue
            self._reviser.withdraw(run, segment, event.at)
            if run.failed:
                segment.move(Move.GIVEN_UP, event.at)
                self._end(run, segment)
        if self.state.recovery is not None:
            self._recoverer.withdrawn(event.at)
        else:
            self._reviser.withdrawn(event.at)

    # ---- failures --------------------------------------------------------------------------------------------------

    def _fail(self, run: LiveRun, why: FailRun) -> list[LiveRun]:
        """Fail a run and every run that reads from it; start nothing more of them and release their values. Return
        them."""
        failing: list[tuple[LiveRun, FailRun]] = [(run, why)]
        run.failed = True
        for current, reason in failing:
            self.state.failed_runs.add(current.run)
            self._liveness.commands.append(reason)
            for number in sorted(current.dependants):
                reader = self.state.runs.get(number)
                if reader is not None and not reader.failed:
                    reader.failed = True
                    failing.append((reader, _dependency(reader, current.run)))
        for current, _ in failing:
            self._liveness.drop_copies(current)
            for value in list(current.values.values()):
                self._liveness.release(value)
            waiting = [segment for segment in current.segments if segment.state is SegmentState.WAITING]
            for segment in waiting:
                segment.move(Move.GIVEN_UP, self._at)
                self._end(current, segment)
            if not waiting:
                self._settle_if_over(current)
        return [current for current, _ in failing]

    def _lost(self, worker: int) -> None:
        """Enter that a worker died. What it ran and had pinned is to be made again; runs that cannot be recovered fail,
        and their values are lost."""
        state = self.state
        if worker in state.lost_workers:
            return
        state.lost_workers.add(worker)
        state.losses += 1
        self._liveness.worker_lost(worker)
        self._copies.worker_lost(worker)
        if self.retries and worker not in state.replacing:
            state.replacing.add(worker)
            state.damaged = True
            self._liveness.commands.append(RestartWorker(worker=worker))
        others: list[LiveRun] = []
        for run in list(state.runs.values()):
            if self._recoverer.recovers(run):  # one may have failed for what an earlier one has lost for good
                self._recoverer.worker_lost(run, worker, self._at)
            else:
                others.append(run)
        for run in others:
            for value in list(run.values.values()):
                if value.pinned_on == worker and value.object is not ObjectState.LIVE:
                    if worker in state.replacing and not self._liveness.maker(value).dispatched:
                        continue  # it can be made on the worker that comes
                    self._lose(run, value)
        for run in others:
            mine = [one for one in run.segments if one.given.worker == worker and not one.state.final]
            if worker in state.replacing and not any(
                one.dispatched and one.given.worker == worker for one in run.segments
            ):
                mine = []  # it can begin on the worker that comes
            trouble = mine[0].index if mine else self._misses(run)
            if trouble >= 0 and not run.failed:
                self._fail(run, _loss(run, trouble, worker))
            for segment in mine:
                if segment.state is SegmentState.RUNNING:
                    segment.move(Move.LOST, self._at)
                    segment.attempt += 1  # whatever that attempt still reports comes too late
                    self._end(run, segment)
        for run in list(state.runs.values()):
            self._liveness.forget(run)  # an object may be all that there is now of what had to be made again

    def _replaced(self, event: WorkerReplaced) -> None:
        """Enter that another process has taken the place of a worker, or that none does."""
        if event.ok:
            self._canceller.replaced(event.worker)
        else:
            self.state.replacing.discard(event.worker)
        if self.retries:
            self.state.damaged = True
            if event.ok:
                self._recoverer.replaced()

    def _fail_for_loss(self, run: LiveRun, segment: int, worker: int) -> None:
        """Fail a run because what it lacks cannot be made again."""
        self._fail(run, _loss(run, segment, worker))

    def _lose(self, run: LiveRun, value: LiveValue) -> None:
        """Enter that a pinned value is lost, unless there is a copy of it."""
        copy = run.copies.get(value.value) if run.finished else None
        if copy is not None and copy.object is ObjectState.LIVE and value.object is ObjectState.ABSENT:
            del run.copies[value.value]
            self._liveness.use_copy(run, value, copy)
            return
        value.lost = value.irreplaceable = True
        if run.finished and value.held:
            self._liveness.commands.append(LoseValue(run=run.run, value=value.value, worker=value.pinned_on))
        if value.object is ObjectState.REQUESTED:
            self._liveness.object_failed(value)

    def _misses(self, run: LiveRun) -> int:
        """Return a segment of an unfinished run that lacks a lost value, because it reads it or has made it for the
        client; -1 if there is none."""
        if run.finished:
            return -1
        for segment in run.segments:
            if not segment.state.final and any(
                self.state.runs[source].values[value].lost
                for source, value in segment.given.reads
                if source not in self.state.failed_runs
            ):
                return segment.index
        return next((value.place.segment for value in run.values.values() if value.lost and value.held), -1)

    def _abandoned(self, event: RunAbandoned) -> None:
        run = self.state.runs.get(event.run)
        if run is None or not run.finished:
            if run is not None and not run.failed:
                self._fail(run, FailRun(run=run.run, reason=FailReason.ABANDONED))
            return
        self.state.failed_runs.add(run.run)
        for value in list(run.values.values()):
            self._liveness.release(value)

    def _cancelled(self, event: RunStopped) -> None:
        run = self.state.runs.get(event.run)
        if run is not None and not run.finished and not run.failed:
            reason = FailReason.TIMED_OUT if event.expired else FailReason.CANCELLED
            failed = self._fail(run, FailRun(run=run.run, reason=reason, segment=event.segment))
            self._canceller.stop(failed, event.at)

    # ---- values ----------------------------------------------------------------------------------------------------

    def _value(self, run: int, value: int) -> LiveValue | None:
        """Return a value that the client holds, or None if its run has failed.

        Raises InvariantViolation if it was dropped before, or never kept.
        """
        if run in self.state.failed_runs:
            return None
        live = self.state.runs.get(run)
        found = live.values.get(value) if live is not None else None
        if found is None or not found.held:
            raise InvariantViolation(f"value {value} of run {run} is not held")
        return found

    def _requested(self, event: ValueRequested) -> None:
        value = self._value(event.run, event.value)
        if value is not None and value.lost and not value.irreplaceable:
            value.wanted = True
            self.state.damaged = True
        elif value is not None and value.pinned_on >= 0:
            value.wanted = True
            maker, state = self._liveness.maker(value), self.state
            asked = (state.revision or state.recovery or _NOTHING_ASKED).asked
            if maker.dispatched and (maker.run, maker.index) not in asked:  # else when that is answered
                self._liveness.make_object(value)

    def _exported(self, event: ValueExported) -> None:
        live = self.state.runs.get(event.run)
        value = live.values.get(event.value) if live is not None else None
        if value is not None and value.object is ObjectState.LIVE:
            raise InvariantViolation(f"value {event.value} of run {event.run} became an object twice")
        if value is None or value.object is ObjectState.ABSENT:  # its worker was lost meanwhile
            self.state.late_results += 1
            if event.ok:
                self._liveness.commands.append(DropValue(run=event.run, value=event.value))
        elif event.ok:
            self._liveness.object_made(value, event.size)
        else:
            if live is None or self._liveness.maker(value).state.final:  # else that was lost
                self._fail_readers(value)
                self._drainer.not_exported(value)
            self._liveness.object_failed(value)

    def _fail_readers(self, value: LiveValue) -> None:
        """Fail the runs that need a value on another worker, after its export failed."""
        for number in sorted(self.state.runs[value.run].dependants):
            run = self.state.runs.get(number)
            if run is None or run.failed:
                continue
            for segment in run.segments:
                away = segment.given.worker != value.pinned_on and not segment.state.final
                if away and (value.run, value.value) in segment.given.reads:
                    self._fail(run, FailRun(run=number, reason=FailReason.RAISED, segment=segment.index))
                    break

    def _dropped(self, event: ValueDropped) -> None:
        value = self._value(event.run, event.value)
        if value is not None:
            self._liveness.release(value)


def _dependency(run: LiveRun, cause: int) -> FailRun:
    return FailRun(run=run.run, reason=FailReason.DEPENDENCY, cause=cause)


def _loss(run: LiveRun, segment: int, worker: int) -> FailRun:
    return FailRun(run=run.run, reason=FailReason.WORKER_LOST, segment=segment, worker=worker)
