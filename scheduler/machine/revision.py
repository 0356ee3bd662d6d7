"""Revision of a plan while it runs: what has not started is withdrawn, planned again, and goes on as new segments.

The machine calls it after each segment that comes back. Undisturbed runs pay for a few comparisons.

1. *Look.* A worker of the run has run dry: it has nothing that could run now. Another has more predicted work that has
   not started than `MIN_SECONDS`, or `MIN_SHARE` of the run's time, and than planning it again takes. Then the planner
   says, from what is known now, whether another plan of the rest would end earlier by more than that (`ReviewPlan`).
2. *Withdraw.* If so, workers withdraw segments of the run that have not begun (`WithdrawSegments`), and those of later
   runs that read from them: what was commanded and reads what a withdrawn segment makes is withdrawn, too. A worker
   decides for each of its segments, under its own lock: it has begun, or is withdrawn.
3. *Plan.* What was withdrawn and what was not commanded is planned again (`PlanRest`), and takes its place as new
   segments of the run, which the client never sees end twice. Segments of later runs wait again as they were.

At most one run is revised at a time, and each at most `MAX_REVISIONS` times. Where something was lost, `recovery` does
the second and third step for all runs at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from ..model.plan import InStore, OnWorker, Plan, ValueLocation
from ..model.progress import RunProgress
from .commands import PlanRest, ReviewPlan, WithdrawSegments
from .events import PlanReviewed, RestPlanned, RunSubmitted, submitted_segments
from .liveness import Liveness
from .state import (
    NEVER,
    LiveExport,
    LiveRun,
    LiveSegment,
    LiveValue,
    Move,
    ObjectState,
    Outlook,
    Revision,
    SegmentState,
    State,
)

MIN_SECONDS: Final = 0.010
"""The least work that is worth a revision: some messages to each worker and a plan take a tenth of that."""

MIN_SHARE: Final = 0.05
"""The least part of a run's time that is worth a revision."""

PLANNING_SECONDS_PER_NODE: Final = 30e-6
"""What planning the rest takes for each node of the graph."""

REVISIONS_PER_DOUBLING: Final = 4
"""The number of revisions of a run after which the next has to gain twice as much: where costs are wrong, a plan may
only seem to be better each time."""

NOTHING: Final = 1e-9
"""Predicted seconds that are none: sums are not exact."""

MAX_REVISIONS: Final = 32
"""Revisions of one run: a bound on what a run costs whose times are never as predicted."""


def new_outlook(event: RunSubmitted) -> Outlook:
    """Return the outlook of a run at its submission."""
    left = [0.0] * event.workers
    for segment in event.segments:
        left[segment.worker] += segment.seconds
    return Outlook(
        began=event.at,
        left=left,
        running=[set() for _ in left],
        latest=[event.at] * event.workers,
        review_at=event.at,
        pause=MIN_SECONDS,
    )


class Reviser:
    """Revises the runs of one machine's state; see the head of this file."""

    def __init__(self, state: State, liveness: Liveness) -> None:
        self._state = state
        self._liveness = liveness

    # ---- look ------------------------------------------------------------------------------------------------------

    def look(self, run: LiveRun, at: float, worker: int = -1) -> None:
        """Have the plan of a run reviewed if it has turned out wrong. `worker`, if given, has just come back."""
        outlook = run.outlook
        if outlook is None or run.unfinished < 2 or run.failed or self._state.revision is not None:
            return
        if self._state.recovery is not None or run.damaged or run.finished or run.recoveries:
            return  # segments of a run that was recovered may have made what is not there any more
        pace = outlook.taken / outlook.predicted if outlook.taken > outlook.predicted > 0.0 else 1.0
        most = max(outlook.left) * pace
        if most <= MIN_SECONDS:
            return
        least = max(MIN_SECONDS, MIN_SHARE * (at - outlook.began + most))
        planning = PLANNING_SECONDS_PER_NODE * run.nodes
        if most <= least + planning or outlook.revisions >= MAX_REVISIONS:
            return
        if worker >= 0 and min(outlook.left) > NOTHING and self._started(run, worker) >= 0:
            return  # others that had run dry before are looked at when their review is due
        started = [self._started(run, worker) for worker in range(len(outlook.left))]
        if all(one >= 0 or self._unavailable(outlook, worker) for worker, one in enumerate(started)):
            return  # nobody is idle
        waits = max(
            [
                left - (run.segments[one].given.seconds if one >= 0 else 0.0)
                for left, one in zip(outlook.left, started, strict=True)
            ]
        )
        if waits * pace <= least + planning:
            return
        if at >= outlook.review_at:
            outlook.review_at = at + outlook.pause
            outlook.pause *= 2.0
            running = [one for one in started if one >= 0]
            rest = [one.index for one in run.segments if not one.state.final and one.index not in running]
            progress = self.progress(run, running, rest, at)
            gain = least * (1.0 + outlook.revisions / REVISIONS_PER_DOUBLING) + planning
            self._liveness.commands.append(ReviewPlan(run=run.run, progress=progress, gain=gain))
        self._state.review_at = min(self._state.review_at, outlook.review_at)

    def look_at_all(self, at: float) -> None:
        """Look at all runs for which a review is due."""
        self._state.review_at = NEVER
        for run in [one for one in self._state.runs.values() if one.outlook is not None and not one.finished]:
            self.look(run, at)

    def _started(self, run: LiveRun, worker: int) -> int:
        """Return the segment of a run that a worker is running, as far as is known: of those that can run the one with
        the highest priority; -1 if there is none."""
        assert run.outlook is not None
        best = -1
        for index in run.outlook.running[worker]:
            given = run.segments[index].given
            if best >= 0 and (given.priority, -index) <= (run.segments[best].given.priority, -best):
                continue
            if self._inputs_are_there(run, run.segments[index]):
                best = index
        return best

    def _inputs_are_there(self, run: LiveRun, segment: LiveSegment) -> bool:
        given, segments = segment.given, run.segments
        for source, _ in given.imports:
            if not segments[source].state.final:
                return False
        for source in given.after:
            if not segments[source].state.final:
                return False
        for source_run, value in given.reads:
            earlier = self._state.runs.get(source_run)
            if earlier is not None and not self._liveness.maker(earlier.values[value]).state.final:
                return False
        return True

    def _unavailable(self, outlook: Outlook, worker: int) -> bool:
        """Return whether a worker without work of a run is lost, or has work of other runs."""
        lost = worker in self._state.lost_workers or worker in self._state.draining
        return lost or self._state.in_flight.get(worker, 0) > len(outlook.running[worker])

    def progress(self, run: LiveRun, running: list[int], rest: list[int], at: float) -> RunProgress:
        """Return how far a run has come."""
        elapsed: list[tuple[int, float]] = []
        for index in running:
            segment = run.segments[index]
            began = segment.moves[-1][0]
            if run.outlook is not None:
                began = max(began, run.outlook.latest[segment.given.worker])
            elapsed.append((index, at - began))
        return RunProgress(
            done=tuple(
                [
                    (one.index, one.seconds, at - one.moves[-1][0])
                    for one in run.segments
                    if one.state is SegmentState.DONE
                ]
            ),
            running=tuple(elapsed),
            rest=tuple(rest),
            fixed=frozenset(self._read_later(run, rest)) if run.dependants else frozenset(),
            lost=frozenset(self._state.lost_workers) | self._state.draining.keys(),
            kept=frozenset(run.values),
            run=run.run,
        )

    def _read_later(self, run: LiveRun, rest: list[int]) -> set[int]:
        """Return the values that segments make and leave on their workers, and runs submitted later read."""
        made = {value for index in rest for value in run.segments[index].kept if value in run.values}
        mine = {(run.run, value) for value in made if isinstance(run.values[value].place, OnWorker)}
        read: set[int] = set()
        for number in run.dependants:
            later = self._state.runs.get(number)
            for segment in later.segments if later is not None and not later.failed else ():
                if not segment.state.final:
                    read.update([value for source, value in segment.given.reads if (source, value) in mine])
        return read

    # ---- withdraw --------------------------------------------------------------------------------------------------

    def reviewed(self, event: PlanReviewed) -> None:
        """Begin a revision if the planner has found that it is worth it."""
        run = self._state.runs.get(event.run)
        if run is not None and run.outlook is not None and not run.failed and event.worth:
            if self._state.revision is None and self._state.recovery is None and run.unfinished and not run.damaged:
                self.revise(run, event.at)

    def revise(self, run: LiveRun, at: float) -> None:
        """Withdraw what of a run has not begun, for it to be planned again."""
        asked = self._to_withdraw(run)
        self._state.revision = Revision(run.run, frozenset(asked))
        if asked:
            segments = tuple(sorted(asked))
            workers = tuple([self._segment(one).given.worker for one in segments])
            self._liveness.commands.append(WithdrawSegments(segments=segments, workers=workers))
        else:
            self.withdrawn(at)

    def _to_withdraw(self, run: LiveRun) -> set[tuple[int, int]]:
        """Return the running segments of a run, and what of later runs was commanded and reads what they make. A value
        that is being exported is waited for by others: what makes it is not withdrawn, nor what that waits for."""
        asked = {(run.run, one.index) for one in run.segments if one.state is SegmentState.RUNNING}
        later = {run.run: run}
        for number in sorted(self._later_runs(run)):
            other = later[number] = self._state.runs[number]
            for segment in other.segments:
                if segment.state is SegmentState.RUNNING and not asked.isdisjoint(self.sources(segment)):
                    asked.add((number, segment.index))
        keep = [
            (number, segment.index)
            for number, other in later.items()
            for value in other.values.values()
            if value.object is ObjectState.REQUESTED
            for segment in (other.segments[value.place.segment],)
            if (number, segment.index) in asked
        ]
        for one in keep:
            if one in asked:
                asked.discard(one)
                keep.extend([source for source in self.sources(self._segment(one)) if source in asked])
        return asked

    def _later_runs(self, run: LiveRun) -> set[int]:
        """Return the runs that read from a run, and those that read from these."""
        found = [run.run]
        seen: set[int] = set()
        for number in found:
            one = self._state.runs.get(number)
            for other in one.dependants if one is not None else ():
                if other not in seen and other in self._state.runs:
                    seen.add(other)
                    found.append(other)
        return seen

    def _segment(self, name: tuple[int, int]) -> LiveSegment:
        return self._state.runs[name[0]].segments[name[1]]

    def sources(self, segment: LiveSegment) -> list[tuple[int, int]]:
        """Return (run, segment) of what makes what a segment reads, as far as it is remembered."""
        given = segment.given
        found = [(segment.run, source) for source, _ in given.imports]
        found += [(segment.run, source) for source in given.after]
        for source_run, value in given.reads:
            earlier = self._state.runs.get(source_run)
            if earlier is not None and value in earlier.values:
                found.append((source_run, earlier.values[value].place.segment))
        return found

    def withdraw(self, run: LiveRun, segment: LiveSegment, at: float) -> None:
        """Enter that a segment was withdrawn before it began: it waits again, in the queue of its worker."""
        worker = segment.given.worker
        segment.move(Move.WITHDRAWN, at)
        segment.attempt += 1
        segment.dispatched = False
        self._state.in_flight[worker] -= 1
        if run.outlook is not None:
            run.outlook.running[worker].discard(segment.index)
        self._state.queues[worker].append(segment)

    def withdrawn(self, at: float) -> None:
        """Have the rest of the run planned again, now that workers have withdrawn what they had not begun."""
        revision = self._state.revision
        assert revision is not None
        self.export_wanted(revision.asked)
        self.sort_queues()
        run = self._state.runs.get(revision.run)
        if run is None or run.failed or not run.unfinished or self._state.damaged:
            self._over()
            return
        rest = [one.index for one in run.segments if one.state is SegmentState.WAITING]
        running = [one for one in run.segments if one.state is SegmentState.RUNNING]
        running.sort(key=lambda one: -one.given.priority)
        progress = self.progress(run, [one.index for one in running], rest, at)
        revision.rest = tuple(rest)
        self._liveness.commands.append(PlanRest(run=run.run, progress=progress))

    def export_wanted(self, asked: Collection[tuple[int, int]]) -> None:
        """Command values to be exported that were requested meanwhile, of segments that were not withdrawn."""
        for number, index in sorted(asked):
            run = self._state.runs.get(number)
            for value_id in run.segments[index].kept if run is not None and run.segments[index].dispatched else ():
                value = run.values.get(value_id) if run is not None else None
                if value is not None and value.wanted and value.pinned_on >= 0:
                    self._liveness.make_object(value)

    def sort_queues(self) -> None:
        """Put what waits for each worker in the order of submission."""
        for worker, queue in self._state.queues.items():
            waiting = {(one.run, one.index): one for one in queue if one.state is SegmentState.WAITING}
            self._state.queues[worker] = deque([waiting[name] for name in sorted(waiting)])
        self._state.stirred.update(self._state.queues)

    def _over(self) -> None:
        """End the revision: segments are commanded again."""
        self._state.revision = None
        self._state.stirred.update(self._state.queues)

    # ---- plan ------------------------------------------------------------------------------------------------------

    def planned(self, event: RestPlanned) -> None:
        """Put new segments in the place of those that wait, if there is a new plan."""
        run = self._state.runs.get(event.run)
        revision = self._state.revision
        if run is not None and run.outlook is not None and not run.failed and event.plan is not None:
            assert revision is not None
            self.take_over(run, event.plan, event.sources, revision.rest, event.at)
            run.outlook.revisions += 1
            run.outlook.pause = MIN_SECONDS
            run.outlook.review_at = event.at + MIN_SECONDS
            self.sort_queues()
        self._over()

    def take_over(
        self,
        run: LiveRun,
        plan: Plan,
        sources: Sequence[tuple[int, int] | None],
        rest: Sequence[int],
        at: float,
    ) -> None:
        """Put the new segments of a plan in the place of those in `rest`, which wait."""
        first, old, outlook = len(run.segments), [run.segments[index] for index in rest], run.outlook
        given = submitted_segments(plan, run.run, sources, first)
        new = [LiveSegment(run.run, first + index, one) for index, one in enumerate(given)]
        run.segments.extend(new)
        run.unfinished += len(new)
        pinned = {
            value: one
            for one in run.segments[:first]
            if one.dispatched and not one.orphaned
            for value in one.given.pins
        }
        for segment in new:
            self._enter(run, segment, pinned)
            if outlook is not None:
                outlook.left[segment.given.worker] += segment.given.seconds
        self._share_pins(run, plan, first)
        self._move_kept(run, plan, first)
        for segment in old:
            segment.kept.clear()
            segment.move(Move.REPLACED, at)
            run.unfinished -= 1
            if outlook is not None:
                outlook.left[segment.given.worker] -= segment.given.seconds
            self._state.stirred.update(self._state.awaited.pop((run.run, segment.index), ()))
            self._liveness.segment_final(run, segment)

    def _enter(self, run: LiveRun, segment: LiveSegment, pinned: dict[int, LiveSegment]) -> None:
        """Enter a new segment: its exports, and that it reads what it reads. `pinned` has the segment of this run that
        pins each value which earlier segments leave for others."""
        state = self._state
        for index, saved in enumerate(segment.given.exports):
            run.exports[segment.index, index] = LiveExport(segment.index, index, saved)
        for source in segment.given.imports:
            run.exports[source].readers += 1
        for source_run, value_id in segment.given.reads:
            values = state.runs[source_run].values
            if source_run == run.run and value_id not in values:
                maker = pinned[value_id]
                place = OnWorker(maker.given.worker, maker.index)
                values[value_id] = LiveValue(run.run, value_id, place, held=False)
                maker.kept.append(value_id)
            values[value_id].readers += 1
        state.queues.setdefault(segment.given.worker, deque()).append(segment)

    def _share_pins(self, run: LiveRun, plan: Plan, first: int) -> None:
        """Count running segments as readers of the pinned values that they share with new ones."""
        for segment in run.segments[:first]:
            if segment.state is not SegmentState.RUNNING:
                continue
            known = {*segment.given.reads}
            reads = [
                (run.run, value)
                for value, _ in plan.segments[segment.index].unpins
                if value in run.values and (run.run, value) not in known
            ]
            if reads:
                segment.given = replace(segment.given, reads=tuple(sorted([*known, *reads])))
                for _, value in reads:
                    run.values[value].readers += 1

    def _is_found(self, run: LiveRun, value: LiveValue, place: ValueLocation) -> bool:
        """Tell whether a value that was lost is in an object that an earlier segment has made."""
        export = run.exports.get((place.segment, place.export)) if isinstance(place, InStore) else None
        return value.lost and export is not None and not export.lost

    def _move_kept(self, run: LiveRun, plan: Plan, first: int) -> None:
        """Enter where kept values are made now."""
        for value_id, place in plan.kept.items():
            value = run.values.get(value_id)
            if value is None or (place.segment < first and not self._is_found(run, value, place)):
                continue
            if isinstance(value.place, InStore) and not value.lost:
                run.exports[value.place.segment, value.place.export].kept -= 1
            value.place, value.lost = place, False
            run.segments[place.segment].kept.append(value_id)
            if isinstance(place, InStore):
                run.exports[place.segment, place.export].kept += 1
