"""Recovery: what was lost with a worker, and is needed, is made again on the workers that remain (H2, H13, H18).

The machine calls it when a worker dies, and when a segment comes back as skipped because something that it reads was
lost. Nothing is planned until all that was commanded in vain has come back:

1. *Take back.* Segments that ran on the dead worker wait again, and so does each one that comes back as skipped. Values
   that were pinned there are lost, but for those with an object or a copy in the object store.
2. *Withdraw.* Workers withdraw what they have not begun, of all runs. What has begun goes on.
3. *Wait* for what reads something that is lost and has been commanded: it comes back as skipped.
4. *Plan.* For all runs at once, the planner finds the nodes that have to run again to make what is needed, from what is
   there, in runs that have ended too (`lineage`), and plans them with all that has not begun (`PlanRecovery`). The new
   segments take their place as in a revision.

What nobody needs now is not made again: a value that the client holds is made when it is read. While no worker is left
and another process is to come, the recovery waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model.plan import InStore, OnWorker
from ..model.progress import RunRemains
from .commands import DropCopy, LoseValue, PlanRecovery, WithdrawSegments
from .events import RecoveryPlan, RecoveryPlanned
from .liveness import Liveness
from .revision import MIN_SECONDS, Reviser
from .state import LiveRun, LiveSegment, LiveValue, Move, ObjectState, Recovery, SegmentState, State, last_drops

Fail = Callable[[LiveRun, int, int], object]
"""Fails a run, for want of what was to be made by a segment of it on a lost worker; or -1."""


Void = Callable[[Sequence[tuple[int, int]]], None]
"""Drops what segments, (run, segment), have returned that count no more."""


class Recoverer:
    """Recovers what the runs of one machine's state have lost.

    Args:
        state: of the machine.
        liveness: collects the commands.
        reviser: puts new segments in the place of others.
        retries: how often what is lost of one run may be planned again; 0 for never.
        fail: fails a run for a loss.
        void: drops what segments have returned.
    """

    def __init__(
        self, state: State, liveness: Liveness, reviser: Reviser, retries: int, fail: Fail, void: Void
    ) -> None:
        self._state = state
        self._liveness = liveness
        self._reviser = reviser
        self._retries = retries
        self._fail = fail
        self._void = void

    def recovers(self, run: LiveRun) -> bool:
        """Tell whether what is lost of a run is made again."""
        return run.recoverable and not run.failed and run.recoveries < self._retries

    def can_remake(self, run: LiveRun) -> bool:
        """Tell whether values of a run can be made again: what one has read that has ended, and does not count in the
        lineage of that any more, may be gone."""
        return self.recovers(run) and not (run.finished and run.reads and not run.retained)

    # ---- take back -------------------------------------------------------------------------------------------------

    def worker_lost(self, run: LiveRun, worker: int, at: float) -> None:
        """Enter what a run has lost with a worker."""
        run.spreads = False
        for segment in run.segments:
            if segment.given.worker != worker or not segment.dispatched:
                continue
            if segment.state is SegmentState.RUNNING:
                self.take_back(run, segment, at)
            elif segment.state is SegmentState.DONE and not segment.orphaned:
                segment.orphaned = True
                self._keep_copies(run, segment)
        for value in run.values.values():
            if value.pinned_on == worker and not value.lost and self._liveness.maker(value).dispatched:
                self._lose(run, value)
            elif value.pinned_on == worker and value.object is ObjectState.REQUESTED:
                value.object = ObjectState.ABSENT  # its maker was taken back
                value.readers -= 1
        for segment in run.segments:  # what reads that was pinned there cannot run as planned, on no other process
            if segment.given.worker == worker and segment.state is SegmentState.WAITING:
                run.damaged = run.damaged or any([run.segments[one].orphaned for one in segment.given.after])

    def take_back(self, run: LiveRun, segment: LiveSegment, at: float) -> None:
        """Enter that a segment was lost, or skipped: it waits to be planned again, in no queue."""
        worker = segment.given.worker
        segment.move(Move.TAKEN_BACK, at)
        segment.attempt += 1  # whatever that attempt still reports comes too late
        segment.dispatched = False
        segment.stale = True
        run.damaged, run.spreads = True, False
        self._state.in_flight[worker] -= 1
        self._state.stirred.add(worker)
        if run.outlook is not None:
            run.outlook.running[worker].discard(segment.index)

    def skipped(self, run: LiveRun, segment: LiveSegment, at: float) -> None:
        """Enter that a segment was skipped: something that it reads was lost, or has failed, which is reported next."""
        self.take_back(run, segment, at)
        self._state.skipped = True

    def look(self, at: float) -> None:
        """Have what was skipped planned again if no failure explains it: a worker has died before, or nothing is
        running any more."""
        if self._state.losses or not any(self._state.in_flight.values()):
            self._state.skipped = False
            self._state.damaged = True

    def replaced(self) -> None:
        """Have what was planned while a worker was lost, and has not begun, planned again for all that are there."""
        for run in self._state.runs.values():
            if run.recoveries and run.unfinished and not run.damaged and self.recovers(run):
                waiting = [one.given.seconds for one in run.segments if one.state is SegmentState.WAITING]
                run.damaged = run.spreads = sum(waiting) > MIN_SECONDS

    def _keep_copies(self, run: LiveRun, segment: LiveSegment) -> None:
        """Take the copies of saved values that a segment had pinned for later ones as what is there of them."""
        for value_id in [one for one in segment.given.copied_pins if one not in run.values]:
            copy = run.copies.pop(value_id, None)
            if copy is not None and copy.object is ObjectState.LIVE:
                place = OnWorker(segment.given.worker, segment.index)
                value = run.values[value_id] = LiveValue(run.run, value_id, place, held=False)
                segment.kept.append(value_id)
                self._liveness.use_copy(run, value, copy)
        for exposed in run.exposed.values():
            for value_id in segment.given.copied_pins:
                exposed.values.pop(value_id, None)

    def _lose(self, run: LiveRun, value: LiveValue) -> None:
        """Enter that the worker is lost on which a value was pinned."""
        copy = run.copies.pop(value.value, None)
        if value.object is ObjectState.REQUESTED:
            value.object = ObjectState.ABSENT
            value.readers -= 1
        if value.object is ObjectState.LIVE:
            value.place = OnWorker(-1, value.place.segment)
            if copy is not None and copy.object is ObjectState.LIVE:
                self._state.account(-copy.size, saved=True)
                self._liveness.commands.append(DropCopy(run=run.run, value=value.value))
        elif copy is not None and copy.object is ObjectState.LIVE:
            self._liveness.use_copy(run, value, copy)
        else:
            value.lost = True
            if value.irreplaceable or not self.can_remake(run):
                self.lose(run, value)

    # ---- what is needed --------------------------------------------------------------------------------------------

    def lacks(self, run: LiveRun) -> bool:
        """Tell whether something that is needed of a run is lost, or is to be made on a worker that is."""
        if run.failed:
            return False
        if run.damaged or any([self._is_needed(value) for value in run.values.values()]):
            return True
        lost = self._state.lost_workers
        return bool(lost and run.unfinished) and any(
            [one.given.worker in lost and one.state is SegmentState.WAITING for one in run.segments]
        )

    def is_hurt(self, run: LiveRun) -> bool:
        """Tell whether a run that was just submitted lacks something."""
        reads = [self._state.runs[source].values[value] for source, value in run.reads]
        return self.lacks(run) or any([self._is_needed(value) for value in reads])

    def _is_needed(self, value: LiveValue) -> bool:
        return (
            value.lost
            and not value.irreplaceable
            and bool(value.readers or ((value.wanted or value.void) and value.held))
        )

    # ---- withdraw --------------------------------------------------------------------------------------------------

    def begin(self, at: float) -> None:
        """Begin a recovery if one is due."""
        state = self._state
        if state.recovery is not None or state.revision is not None:
            return
        state.damaged = False
        if not any([self.lacks(run) for run in state.runs.values()]):
            self._drop_unneeded()
            state.stirred.update(state.queues)
            return
        asked = self._to_withdraw()
        state.recovery = Recovery(frozenset(asked))
        if asked:
            segments = tuple(sorted(asked))
            workers = tuple([state.runs[run].segments[index].given.worker for run, index in segments])
            self._liveness.commands.append(WithdrawSegments(segments=segments, workers=workers))
        else:
            self.withdrawn(at)

    def _to_withdraw(self) -> set[tuple[int, int]]:
        """Return the running segments of all runs, of those that have failed too, which may wait for others; but for
        what makes values that are being exported: whoever waits for these has to get them, or to hear that they are
        lost."""
        runs = [*self._state.runs.values()]
        asked = {(run.run, one.index) for run in runs for one in run.segments if one.state is SegmentState.RUNNING}
        keep = [
            (run.run, value.place.segment)
            for run in runs
            for value in run.values.values()
            if value.object is ObjectState.REQUESTED
        ]
        for one in keep:
            if one in asked:
                asked.discard(one)
                segment = self._state.runs[one[0]].segments[one[1]]
                keep.extend([source for source in self._reviser.sources(segment) if source in asked])
        return asked

    def withdrawn(self, at: float) -> None:
        """Enter that workers have withdrawn what they had not begun."""
        recovery = self._state.recovery
        assert recovery is not None
        recovery.withdrawn = True
        self._reviser.export_wanted(recovery.asked)
        recovery.asked = frozenset()
        self._reviser.sort_queues()
        self.proceed(at)

    # ---- wait ------------------------------------------------------------------------------------------------------

    def proceed(self, at: float) -> None:
        """Have everything planned, if nothing is waited for any more."""
        state, recovery = self._state, self._state.recovery
        if recovery is None or not recovery.withdrawn or recovery.planning or self._waits():
            return
        if len(state.lost_workers) >= state.workers:
            if not state.replacing:
                self._give_up()
            return
        for run in [one for one in state.runs.values() if self.lacks(one) and not self.recovers(one)]:
            self._give_up_run(run)
        recovery.planning, recovery.lost = True, frozenset(state.lost_workers)
        runs = sorted([run.run for run in state.runs.values() if not run.failed])
        self._liveness.commands.append(PlanRecovery(runs=tuple([self._remains(state.runs[one], at) for one in runs])))

    def _waits(self) -> bool:
        """Tell whether something that was commanded will come back in vain."""
        assert self._state.recovery is not None
        for number, index in self._state.recovery.waits_for:
            run = self._state.runs.get(number)
            if run is not None and not run.failed and run.segments[index].state is SegmentState.RUNNING:
                return True
        if any([self._is_being_copied(*one) for one in self._state.recovery.void]):
            return True
        vain: set[tuple[int, int]] = set()
        for run in sorted([one for one in self._state.runs.values() if not one.failed], key=lambda one: one.run):
            for segment in run.segments if run.unfinished else ():
                if segment.state is SegmentState.RUNNING and self._is_vain(segment, vain):
                    vain.add((run.run, segment.index))
        return bool(vain) or any(
            [
                value.object is ObjectState.REQUESTED and not self._liveness.maker(value).dispatched
                for run in self._state.runs.values()
                if not run.failed
                for value in run.values.values()
            ]
        )

    def _is_being_copied(self, number: int, index: int) -> bool:
        """Tell whether an object or a copy is being made of something that a segment pins."""
        run = self._state.runs.get(number)
        if run is None:
            return False
        segment = run.segments[index]
        values = [one for one in run.values.values() if one.place.segment == index]
        copies = [run.copies[value] for value in {*segment.given.pins, *segment.kept} & run.copies.keys()]
        return any([one.object is ObjectState.REQUESTED for one in [*values, *copies]])

    def _is_vain(self, segment: LiveSegment, vain: set[tuple[int, int]]) -> bool:
        """Tell whether a running segment reads what will not be there."""
        for name in self._reviser.sources(segment):
            source = self._state.runs[name[0]].segments[name[1]]
            if name in vain or not source.dispatched:
                return True
        if any([self._state.runs[segment.run].exports[source].lost for source in segment.given.imports]):
            return True
        return any(
            [
                value_id in self._state.runs[source].values and self._state.runs[source].values[value_id].lost
                for source, value_id in segment.given.reads
                if source in self._state.runs
            ]
        )

    # ---- plan ------------------------------------------------------------------------------------------------------

    def _remains(self, run: LiveRun, at: float) -> RunRemains:
        """Return what is left of a run."""
        there = [one for one in run.segments if one.state in (SegmentState.DONE, SegmentState.RUNNING)]
        rest = [one.index for one in run.segments if one.state is SegmentState.WAITING]
        running = [one for one in there if one.state is SegmentState.RUNNING]
        running.sort(key=lambda one: -one.given.priority)
        dropped = last_drops(there)
        pins: dict[int, tuple[int, int]] = {}
        for one in there:
            for value_id in one.given.pins if not one.orphaned else ():
                value = run.values.get(value_id)
                if value is not None and not value.lost and value.place.segment == one.index:
                    pins[value_id] = one.index, one.given.worker
                elif value_id not in one.kept and dropped.get(value_id, -1) < one.index:
                    pins[value_id] = one.index, one.given.worker
        for value_id, value in run.values.items():
            if value.pinned_on < 0 and isinstance(value.place, OnWorker) and not value.lost:
                pins[value_id] = value.place.segment, -1
        return RunRemains(
            run=run.run,
            progress=self._reviser.progress(run, [one.index for one in running], rest, at),
            exports=frozenset(
                [key for key, one in run.exports.items() if run.segments[key[0]].dispatched and not one.lost]
            ),
            pins=pins,
            alive=frozenset([one.value for one in run.values.values() if self._is_there(run, one)]),
            wanted=frozenset([one.value for one in run.values.values() if self._is_needed(one)]),
            owned=frozenset(
                [one.value for one in run.values.values() if not self._is_there(run, one) and (one.held or one.readers)]
            ),
            gone=frozenset([one.index for one in run.segments if one.orphaned]),
            void=frozenset([one.index for one in run.segments if one.void]),
            dead=frozenset(self._state.lost_workers),
            damaged=self.lacks(run),
            unrepeatable=not self.can_remake(run),
        )

    def _is_there(self, run: LiveRun, value: LiveValue) -> bool:
        """Tell whether a kept value exists, or will be made by what is running."""
        return not value.lost and run.segments[value.place.segment].dispatched

    def planned(self, event: RecoveryPlanned) -> None:
        """Put new segments in the place of what waits, and give up what cannot be made again."""
        state = self._state
        for plan in event.plans:
            run = state.runs[plan.run]
            if not run.failed:
                self._take_over(run, plan, event.at)
        recovery = state.recovery
        assert recovery is not None
        if event.waits_for or event.void:
            recovery.planning, recovery.waits_for, recovery.void = False, event.waits_for, event.void
            if not any([self._is_being_copied(*one) for one in event.void]):
                self._void(event.void)
            return
        state.recovery = None
        come = recovery.lost - state.lost_workers
        for number in event.hopeless if not (state.replacing or come) else ():  # else what comes may do
            if number in state.runs:
                self._give_up_run(state.runs[number])
        self._reviser.sort_queues()
        self._drop_unneeded()
        waiting = () if come else event.hopeless
        if any([self.lacks(run) and number not in waiting for number, run in state.runs.items()]):
            state.damaged = True

    def _drop_unneeded(self) -> None:
        """Drop what nobody needs of what was entered for a recovery."""
        for run in list(self._state.runs.values()):
            for value in list(run.values.values()):
                self._liveness.drop_if_unneeded(value)
            self._liveness.forget(run)

    def _take_over(self, run: LiveRun, plan: RecoveryPlan, at: float) -> None:
        remains = [one for one in run.segments if one.state in (SegmentState.DONE, SegmentState.RUNNING)]
        dropped = last_drops(remains)
        for one in remains:  # what earlier segments have pinned for later ones is counted from here on
            for value_id in one.given.pins if not one.orphaned else ():
                if value_id in one.kept or dropped.get(value_id, -1) >= one.index:
                    continue
                place, value = OnWorker(one.given.worker, one.index), run.values.get(value_id)
                if value is None:
                    run.values[value_id] = LiveValue(run.run, value_id, place, held=False)
                elif value.lost and not value.irreplaceable:  # nobody needed it, and it was made again for others
                    value.place, value.lost = place, False
                else:
                    continue
                one.kept.append(value_id)
        rest = [one.index for one in run.segments if one.state is SegmentState.WAITING]
        if run.finished:
            run.exposed.clear()
        run.recoveries += not run.spreads
        run.damaged = run.spreads = False
        self._reviser.take_over(run, plan.plan, plan.sources, rest, at)
        self._open_again(run, plan)
        for key in list(run.exports):
            self._liveness.drop_export(run, key)

    def _open_again(self, run: LiveRun, plan: RecoveryPlan) -> None:
        """Enter where the values of an open-ended node are made that runs again."""
        last = len(plan.plan.node_worker) - 1
        for index, segment in enumerate(plan.plan.segments):
            if run.opened and segment.nodes and segment.nodes[-1] == last and not run.segments[index].state.final:
                for value_id in run.opened & run.values.keys():
                    value = run.values[value_id]
                    if value.lost:
                        value.place, value.lost = OnWorker(segment.worker, index), False
                        run.segments[index].kept.append(value_id)

    def _give_up(self) -> None:
        """Give up all that needs what is lost: no worker is left, and none is to come."""
        self._state.recovery = None
        self._state.damaged = False
        for run in list(self._state.runs.values()):
            if self.lacks(run):
                self._give_up_run(run)
        self._drop_unneeded()

    def _give_up_run(self, run: LiveRun) -> None:
        """Fail a run, or the readers of what was lost of it if it has finished, since that cannot be made again."""
        if run.failed:
            return
        lost = self._state.lost_workers
        if not run.finished:
            waiting = [one for one in run.segments if one.state is SegmentState.WAITING]
            bad = next((one for one in waiting if one.stale or one.given.worker in lost), None)
            bad = bad or next(iter(waiting), None)
            self._fail(run, -1 if bad is None else bad.index, -1 if bad is None else bad.given.worker)
            return
        self._give_up_waiting(run)

    def failed(self, run: LiveRun) -> None:
        """Enter that a segment failed that was to make something again of a run that has finished."""
        run.recoveries = self._retries
        self._give_up_waiting(run)

    def _give_up_waiting(self, run: LiveRun) -> None:
        """Give up what was to be made again of a run that has finished."""
        run.damaged = False
        for segment in run.segments:
            if segment.state is SegmentState.WAITING:
                segment.move(Move.GIVEN_UP, segment.moves[-1][0] if segment.moves else 0.0)
                run.unfinished -= 1
                if run.outlook is not None:
                    run.outlook.left[segment.given.worker] -= segment.given.seconds
                self._liveness.segment_final(run, segment)
        if not run.unfinished:
            self._liveness.unpin_inner(run)
        for value in list(run.values.values()):
            if value.lost or self._liveness.maker(value).state not in (SegmentState.DONE, SegmentState.RUNNING):
                self.lose(run, value)
        self._liveness.forget(run)

    def lose(self, run: LiveRun, value: LiveValue) -> None:
        """Give up a value of a finished run that is lost, and all that needs it."""
        place = value.place
        if isinstance(place, InStore) and not value.lost:
            run.exports[place.segment, place.export].kept -= 1
            self._liveness.drop_export(run, (place.segment, place.export))
        value.lost = value.irreplaceable = True
        if value.object is ObjectState.REQUESTED:
            self._liveness.object_failed(value)
        maker = self._liveness.maker(value)
        if value.held:
            self._liveness.commands.append(LoseValue(run=run.run, value=value.value, worker=maker.given.worker))
        for number in sorted(run.dependants):
            reader = self._state.runs.get(number)
            if reader is None or reader.failed:
                continue
            for segment in reader.segments:
                if not segment.state.final and (run.run, value.value) in segment.given.reads:
                    if reader.finished:  # a part of it was to run again
                        self._give_up_waiting(reader)
                    else:
                        self._fail(reader, segment.index, maker.given.worker)
                    break
