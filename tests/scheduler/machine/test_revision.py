"""Revisions of plans as conversations with the machine; `tests/scheduler/simulation/test_revisions.py` draws them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raygrad.proto.ir.program import Pinned
from raygrad.scheduler.machine.commands import (
    Command,
    DropExport,
    ExportValue,
    FailReason,
    FailRun,
    FinishRun,
    PlanRest,
    ReviewPlan,
    RunSegment,
    Unpin,
    WithdrawSegments,
)
from raygrad.scheduler.machine.events import (
    Event,
    PlanReviewed,
    RestPlanned,
    RunAbandoned,
    RunSubmitted,
    SegmentFinished,
    SegmentsWithdrawn,
    SubmittedSegment,
    TimePassed,
    ValueRequested,
    WorkerDied,
)
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.machine.revision import MAX_REVISIONS
from raygrad.scheduler.machine.state import NEVER, SegmentState
from raygrad.scheduler.model.plan import Export, InStore, OnWorker, Plan, Segment

from .invariants import check_invariants


class Talk:
    """A machine with a clock; `tell` passes an event at the time `now` and keeps the commands."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.now = 0.0
        self.commands: list[Command] = []

    def tell(self, event: Event) -> Talk:
        self.commands = self.machine.handle(replace(event, at=self.now))
        check_invariants(self.machine)
        return self

    def only(self, kind: Any) -> list[Any]:
        return [one for one in self.commands if isinstance(one, kind)]

    def done(self, segment: int, seconds: float = 1.0, run: int = 0, attempt: int = 0, sizes: Any = ()) -> Talk:
        event = SegmentFinished(
            at=0.0, run=run, segment=segment, attempt=attempt, status="done", export_bytes=sizes, node_seconds=seconds
        )
        return self.tell(event)


def part(worker: int, seconds: float = 1.0, **given: Any) -> SubmittedSegment:
    return SubmittedSegment(worker=worker, seconds=seconds, priority=seconds, **given)


def piece(worker: int, node: int, **given: Any) -> Segment:
    empty = Segment(worker, (node,), (), (), (), (), (), (), 1, 0, 0, 0, 0, 0, 1.0)
    return empty._replace(**given)


def plan_of(*segments: Segment, kept: Any = ()) -> Plan:
    return Plan(
        hash=b"plan",
        workers=("worker 0", "worker 1"),
        segments=segments,
        node_worker=tuple(range(len(segments))),
        kept=dict(kept),
        open_ended=False,
        crossing_bytes=0,
        predicted_seconds=1.0,
    )


@pytest.fixture
def uneven() -> Talk:
    """Worker 0 runs its first of three seconds; worker 1 has run dry, and the plan is under review."""
    talk = Talk()
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0), part(0), part(0), part(1)), workers=2))
    talk.now = 1.0
    return talk.done(3)


def test_a_worker_that_runs_dry_while_another_has_much_to_begin_makes_the_plan_reviewed(uneven: Talk):
    (review,) = uneven.only(ReviewPlan)
    assert review.progress.rest == (1, 2)
    assert review.progress.running == ((0, 1.0),)
    assert review.progress.done == ((3, 1.0, 0.0),)
    assert review.gain == pytest.approx(0.05 * 4.0)


def test_work_that_takes_less_than_planning_it_again_is_not_reviewed():
    for nodes, reviewed in ((50_000, True), (70_000, False)):
        talk = Talk()
        segments = (part(0), part(0), part(0), part(1))
        talk.tell(RunSubmitted(at=0.0, run=0, segments=segments, workers=2, nodes=nodes))
        talk.now = 1.0
        talk.done(3)
        reviews = [one for one in talk.commands if isinstance(one, ReviewPlan)]
        assert [one.gain for one in reviews] == [pytest.approx(0.05 * 4.0 + 30e-6 * nodes)] * reviewed


def test_a_plan_that_is_worth_keeping_is_kept_and_looked_at_again_later_and_later(uneven: Talk):
    pauses: list[float] = []
    for _ in range(4):
        due = uneven.machine.state.review_at
        pauses.append(due - uneven.now)
        assert not uneven.tell(PlanReviewed(at=0.0, run=0, worth=False)).commands
        uneven.now = due
        assert uneven.tell(TimePassed(at=0.0)).only(ReviewPlan)
    assert pauses == pytest.approx([0.01, 0.02, 0.04, 0.08])


def test_what_has_not_begun_is_planned_again_and_goes_on_as_new_segments(uneven: Talk):
    uneven.tell(PlanReviewed(at=0.0, run=0, worth=True))
    assert uneven.commands == [WithdrawSegments(segments=((0, 0), (0, 1), (0, 2)), workers=(0, 0, 0))]
    uneven.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1), (0, 2))))
    (rest,) = uneven.only(PlanRest)
    assert (rest.progress.rest, rest.progress.running) == ((1, 2), ((0, 1.0),))
    plan = plan_of(
        piece(0, 0), *[piece(worker, 9)._replace(nodes=()) for worker in (0, 0, 1)], piece(0, 1), piece(1, 2)
    )
    uneven.tell(RestPlanned(at=0.0, run=0, plan=plan))
    assert [(one.segment, one.worker, one.attempt) for one in uneven.only(RunSegment)] == [(4, 0, 0), (5, 1, 0)]
    states = [one.state for one in uneven.machine.state.runs[0].segments[1:3]]
    assert states == [SegmentState.REPLACED] * 2
    uneven.done(5)
    uneven.done(0)
    assert uneven.done(4).commands == [FinishRun(run=0)]
    assert uneven.machine.state.runs == {}


def test_a_plan_that_is_not_better_after_all_goes_on_in_new_attempts(uneven: Talk):
    uneven.tell(PlanReviewed(at=0.0, run=0, worth=True))
    uneven.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1), (0, 2))))
    uneven.tell(RestPlanned(at=0.0, run=0, plan=None))
    assert [(one.segment, one.worker, one.attempt) for one in uneven.only(RunSegment)] == [(1, 0, 1), (2, 0, 1)]
    uneven.done(1, attempt=0)
    assert uneven.machine.state.late_results == 1
    for segment, attempt in ((0, 0), (1, 1), (2, 1)):
        uneven.done(segment, attempt=attempt)
    assert uneven.commands == [FinishRun(run=0)]


def test_nothing_of_the_run_is_commanded_while_it_is_revised_and_other_runs_go_on(uneven: Talk):
    uneven.tell(PlanReviewed(at=0.0, run=0, worth=True))
    assert uneven.done(0).commands == []
    uneven.tell(RunSubmitted(at=0.0, run=1, segments=(part(1),)))
    assert [one.run for one in uneven.only(RunSegment)] == [1]


def test_later_runs_that_read_what_is_withdrawn_are_withdrawn_with_it_and_run_as_they_were():
    talk = Talk()
    kept = ((7, OnWorker(0, 2)),)
    talk.tell(
        RunSubmitted(at=0.0, run=0, segments=(part(0), part(0), part(0, pins=(7,)), part(1)), kept=kept, workers=2)
    )
    talk.tell(RunSubmitted(at=0.0, run=1, segments=(part(0, reads=((0, 7),)), part(1))))
    talk.now = 1.0
    talk.done(1, run=1)
    talk.done(3)
    (review,) = talk.only(ReviewPlan)
    assert review.progress.fixed == {7}
    talk.tell(PlanReviewed(at=0.0, run=0, worth=True))
    (asked,) = talk.only(WithdrawSegments)
    assert (1, 0) in asked.segments
    talk.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1), (0, 2), (1, 0))))
    gone = piece(0, 0)._replace(nodes=())
    plan = plan_of(piece(0, 0), gone, gone, piece(1, 3), piece(1, 1), piece(0, 2, pins=(7,)), kept={7: OnWorker(0, 5)})
    talk.tell(RestPlanned(at=0.0, run=0, plan=plan))
    assert [(one.run, one.segment, one.attempt) for one in talk.only(RunSegment)] == [(0, 4, 0), (0, 5, 0), (1, 0, 1)]
    assert talk.machine.state.runs[0].values[7].place == OnWorker(0, 5)


def test_what_makes_a_value_that_is_being_exported_is_not_withdrawn(uneven: Talk):
    talk = Talk()
    kept = ((7, OnWorker(0, 1)),)
    segments = (part(0), part(0, pins=(7,)), part(0), part(1))
    talk.tell(RunSubmitted(at=0.0, run=0, segments=segments, kept=kept, workers=2))
    talk.tell(ValueRequested(at=0.0, run=0, value=7))
    assert talk.only(ExportValue)
    talk.now = 1.0
    talk.done(3)
    talk.tell(PlanReviewed(at=0.0, run=0, worth=True))
    assert talk.commands == [WithdrawSegments(segments=((0, 0), (0, 2)), workers=(0, 0))]


def test_a_value_that_is_requested_meanwhile_is_exported_when_its_segment_had_begun(uneven: Talk):
    talk = Talk()
    kept = ((7, OnWorker(0, 0)),)
    talk.tell(
        RunSubmitted(at=0.0, run=0, segments=(part(0, pins=(7,)), part(0), part(0), part(1)), kept=kept, workers=2)
    )
    talk.now = 1.0
    talk.done(3)
    talk.tell(PlanReviewed(at=0.0, run=0, worth=True))
    assert not talk.tell(ValueRequested(at=0.0, run=0, value=7)).commands
    talk.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1), (0, 2))))
    assert talk.only(ExportValue) == [ExportValue(worker=0, run=0, value=7)]


def test_pinned_and_exported_values_live_until_their_new_readers_have_ended():
    talk = Talk()
    segments = (
        part(0, exports=(False,), pins=(5,)),
        part(0, imports=((0, 0),), after=(0,)),
        part(0, after=(0, 1)),
        part(1),
    )
    talk.tell(RunSubmitted(at=0.0, run=0, segments=segments, workers=2))
    talk.done(0, sizes=(8,))
    talk.now = 1.0
    talk.done(3)
    talk.tell(PlanReviewed(at=0.0, run=0, worth=True))
    talk.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1), (0, 2))))
    gone = piece(0, 0)._replace(nodes=())
    made = piece(0, 0, exports=(Export((4,), (4,), saved=False, kept=False),), pins=(5,))
    plan = plan_of(made, gone, gone, piece(1, 3), piece(1, 1, imports=((0, 0),)), piece(1, 2, externals=(5,)))
    talk.tell(RestPlanned(at=0.0, run=0, plan=plan))
    assert talk.only(ExportValue) == [ExportValue(worker=0, run=0, value=5)]
    assert talk.done(4).only(DropExport) == [DropExport(run=0, segment=0, export=0)]
    talk.tell(SegmentFinished(at=0.0, run=0, segment=5, attempt=0, status="failed"))
    assert talk.only(FailRun)


def test_kept_values_move_with_what_makes_them():
    talk = Talk()
    kept = ((7, InStore(1, 0, 0)), (8, OnWorker(0, 2)))
    segments = (part(0), part(0, exports=(False,)), part(0, pins=(8,)), part(1))
    talk.tell(RunSubmitted(at=0.0, run=0, segments=segments, kept=kept, workers=2))
    talk.now = 1.0
    talk.done(3)
    talk.tell(PlanReviewed(at=0.0, run=0, worth=True))
    talk.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1), (0, 2))))
    gone = piece(0, 0)._replace(nodes=())
    export = Export((7,), (), saved=False, kept=True)
    plan = plan_of(
        piece(0, 0), gone, gone, piece(1, 3), piece(1, 1, exports=(export,), pins=(8,)),
        kept={7: InStore(4, 0, 0), 8: OnWorker(1, 4)},
    )  # fmt: skip
    talk.tell(RestPlanned(at=0.0, run=0, plan=plan))
    talk.done(0)
    assert talk.done(4, sizes=(8,)).commands == [FinishRun(run=0)]
    assert talk.machine.state.runs[0].values[8].place == OnWorker(1, 4)


def test_a_run_that_fails_while_it_is_revised_ends_when_workers_have_answered(uneven: Talk):
    uneven.tell(PlanReviewed(at=0.0, run=0, worth=True))
    uneven.tell(RunAbandoned(at=0.0, run=0))
    assert uneven.commands == [FailRun(run=0, reason=FailReason.ABANDONED)]
    uneven.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1), (0, 2))))
    assert uneven.commands == []
    uneven.done(0)
    assert uneven.machine.state.runs == {}
    assert uneven.machine.state.revision is None


def test_a_worker_that_dies_while_it_withdraws_fails_the_run(uneven: Talk):
    uneven.tell(PlanReviewed(at=0.0, run=0, worth=True))
    uneven.tell(WorkerDied(at=0.0, worker=0))
    assert uneven.only(FailRun)
    uneven.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1),)))
    assert uneven.machine.state.runs == {}


def test_the_review_of_a_run_that_is_over_changes_nothing(uneven: Talk):
    for segment in range(3):
        uneven.done(segment)
    assert not uneven.tell(PlanReviewed(at=0.0, run=0, worth=True)).commands


@pytest.mark.parametrize(
    "segments",
    [
        (part(0, 0.004), part(0, 0.004), part(0, 0.004), part(1, 0.001)),
        (part(0), part(1), part(1)),
        (part(0), part(0, after=(0,)), part(1), part(1)),
    ],
    ids=["little work", "nobody is idle", "others are busy"],
)
def test_a_plan_is_left_alone_where_there_is_no_reason(segments: Any):
    talk = Talk()
    talk.tell(RunSubmitted(at=0.0, run=0, segments=segments, workers=2))
    talk.now = 0.001
    assert not talk.done(2 if len(segments) > 3 else 1).only(ReviewPlan)


def test_plans_under_a_limit_of_memory_and_on_one_worker_are_never_reviewed():
    talk = Talk()
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0), part(0), part(0), part(1))))
    talk.now = 1.0
    assert talk.done(3).commands == []
    assert talk.machine.state.review_at == NEVER


def test_a_run_is_revised_a_bounded_number_of_times(uneven: Talk):
    outlook = uneven.machine.state.runs[0].outlook
    assert outlook is not None
    outlook.revisions = MAX_REVISIONS
    uneven.now = 2.0
    assert not uneven.tell(TimePassed(at=0.0)).commands


def test_a_late_pin_is_unpinned_by_its_last_reader_wherever_that_runs():
    talk = Talk()
    segments = (part(0, pins=(5,)), part(0, after=(0,)), part(0), part(1))
    talk.tell(RunSubmitted(at=0.0, run=0, segments=segments, workers=2))
    talk.done(0)
    talk.now = 1.0
    talk.done(3)
    talk.tell(PlanReviewed(at=0.0, run=0, worth=True))
    talk.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1), (0, 2))))
    gone = piece(0, 0)._replace(nodes=())
    plan = plan_of(piece(0, 0, pins=(5,)), gone, gone, piece(1, 3), piece(0, 1, externals=(5,)), piece(1, 2))
    talk.tell(RestPlanned(at=0.0, run=0, plan=plan))
    assert talk.done(4).only(Unpin) == [Unpin(worker=0, values=(Pinned(0, 5),))]
