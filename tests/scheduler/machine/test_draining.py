"""Workers that are emptied before they end, and workers that are added, as conversations with the machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raygrad.scheduler.machine.commands import (
    Command,
    EndWorker,
    ExportValue,
    FailRun,
    FinishRun,
    KeepWorker,
    LoseValue,
    PlanRest,
    ReviewPlan,
    RunSegment,
    WithdrawSegments,
)
from raygrad.scheduler.machine.events import (
    DrainCancelled,
    DrainRequested,
    Event,
    PlanReviewed,
    RestPlanned,
    RunSubmitted,
    SegmentFinished,
    SegmentsWithdrawn,
    SubmittedSegment,
    ValueDropped,
    ValueExported,
    WorkerDied,
    WorkersAdded,
)
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.machine.state import ObjectState
from raygrad.scheduler.model.plan import OnWorker, Plan, Segment

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

    def done(self, segment: int, run: int = 0, attempt: int = 0) -> Talk:
        return self.tell(
            SegmentFinished(at=0.0, run=run, segment=segment, attempt=attempt, status="done", node_seconds=1.0)
        )

    def drain(self, worker: int) -> Talk:
        return self.tell(DrainRequested(at=0.0, worker=worker))

    def died(self, worker: int) -> Talk:
        return self.tell(WorkerDied(at=0.0, worker=worker))


def part(worker: int, **given: Any) -> SubmittedSegment:
    return SubmittedSegment(worker=worker, seconds=1.0, priority=1.0, **given)


def piece(worker: int, *nodes: int, **given: Any) -> Segment:
    empty = Segment(worker, nodes, (), (), (), (), (), (), len(nodes), 0, 0, 0, 0, 0, float(len(nodes)))
    return empty._replace(**given)


def plan_of(*segments: Segment, workers: int = 2, kept: Any = ()) -> Plan:
    return Plan(
        hash=b"plan",
        workers=tuple(f"worker {index}" for index in range(workers)),
        segments=segments,
        node_worker=tuple(range(len(segments))),
        kept=dict(kept),
        open_ended=False,
        crossing_bytes=0,
        predicted_seconds=1.0,
    )


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_a_worker_on_which_nothing_is_ends_at_once(talk: Talk):
    assert talk.drain(0).commands == [EndWorker(worker=0)]
    assert talk.drain(0).commands == []
    talk.died(0)
    assert not talk.machine.state.draining
    assert not talk.machine.state.ending


def test_a_kept_value_is_exported_before_its_worker_ends_and_survives_it(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0, pins=(7,)), part(1)), kept=((7, OnWorker(0, 0)),)))
    talk.done(0)
    assert talk.done(1).only(FinishRun)
    assert talk.drain(0).commands == [ExportValue(worker=0, run=0, value=7)]
    talk.tell(ValueExported(at=0.0, run=0, value=7, size=24))
    assert talk.commands == [EndWorker(worker=0)]
    assert not talk.died(0).only(LoseValue)
    talk.tell(RunSubmitted(at=0.0, run=1, segments=(part(1, reads=((0, 7),)),)))
    assert [one.run for one in talk.only(RunSegment)] == [1]
    talk.done(0, run=1)
    assert talk.only(FinishRun)
    talk.tell(ValueDropped(at=0.0, run=0, value=7))
    assert talk.machine.state.runs == {}
    assert talk.machine.state.exported_bytes == 0


def test_what_runs_ends_there_and_what_has_not_begun_goes_elsewhere_in_its_first_attempt(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0), part(0), part(1)), workers=2))
    assert talk.drain(0).commands == [WithdrawSegments(segments=((0, 0), (0, 1), (0, 2)), workers=(0, 0, 1))]
    talk.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1),)))
    (rest,) = talk.only(PlanRest)
    assert rest.progress.lost == {0}
    assert (rest.progress.rest, [one for one, _ in rest.progress.running]) == ((1,), [0, 2])
    gone = piece(0)
    talk.tell(RestPlanned(at=0.0, run=0, plan=plan_of(piece(0, 0), gone, piece(1, 2), piece(1, 1))))
    assert [(one.segment, one.worker, one.attempt) for one in talk.only(RunSegment)] == [(3, 1, 0)]
    assert talk.done(0).only(EndWorker) == [EndWorker(worker=0)]
    assert not talk.died(0).only(FailRun)
    talk.done(2)
    assert talk.done(3).commands == [FinishRun(run=0)]
    assert talk.machine.state.late_results == 0


def test_a_value_of_a_segment_that_has_begun_is_exported_after_the_rest_was_planned_again(talk: Talk):
    """Asked for before, it would keep the segment from being withdrawn."""
    kept = ((7, OnWorker(0, 0)),)
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0, pins=(7,)), part(0)), kept=kept, workers=2))
    assert not talk.drain(0).only(ExportValue)
    assert not talk.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1),))).only(ExportValue)
    plan = plan_of(piece(0, 0, pins=(7,)), piece(0), piece(1, 1), kept=kept)
    assert talk.tell(RestPlanned(at=0.0, run=0, plan=plan)).only(ExportValue)
    assert not talk.done(0).only(EndWorker)
    assert talk.tell(ValueExported(at=0.0, run=0, value=7, size=8)).commands == [EndWorker(worker=0)]


def test_a_value_that_one_segment_leaves_for_a_later_one_goes_along_to_its_new_worker(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0, pins=(5,)), part(0, after=(0,), drops=(5,))), workers=2))
    talk.drain(0).tell(SegmentsWithdrawn(at=0.0, segments=((0, 1),)))
    plan = plan_of(piece(0, 0, pins=(5,)), piece(0), piece(1, 1, externals=(5,)))
    talk.tell(RestPlanned(at=0.0, run=0, plan=plan))
    assert talk.only(ExportValue) == [ExportValue(worker=0, run=0, value=5)]
    assert not talk.done(0).only(EndWorker)
    assert talk.tell(ValueExported(at=0.0, run=0, value=5, size=8)).only(EndWorker)
    assert not talk.died(0).only(FailRun)
    assert talk.done(2).only(FinishRun)
    assert talk.machine.state.runs == {}


def test_runs_are_planned_again_one_after_the_other_and_each_once(talk: Talk):
    for run in range(2):
        talk.tell(RunSubmitted(at=0.0, run=run, segments=(part(0), part(0)), workers=2))
    assert {run for run, _ in talk.drain(0).only(WithdrawSegments)[0].segments} == {0}
    talk.tell(SegmentsWithdrawn(at=0.0, segments=((0, 1),)))
    talk.tell(RestPlanned(at=0.0, run=0, plan=None))  # all of it is tied to the worker
    assert [(one.segment, one.attempt) for one in talk.only(RunSegment)] == [(1, 1)]
    assert {run for run, _ in talk.only(WithdrawSegments)[0].segments} == {1}
    talk.tell(SegmentsWithdrawn(at=0.0, segments=()))
    assert not talk.tell(RestPlanned(at=0.0, run=1, plan=None)).only(WithdrawSegments)
    talk.done(0)
    talk.done(1, attempt=1)
    talk.done(0, run=1)
    assert talk.done(1, run=1).only(EndWorker)


def test_a_worker_waits_for_segments_of_runs_that_keep_limits_of_memory(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0), part(0)), replans=False))
    assert talk.drain(0).commands == []
    talk.done(0)
    assert talk.done(1).commands == [FinishRun(run=0), EndWorker(worker=0)]


def test_a_value_that_cannot_leave_keeps_its_worker(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0, pins=(7,)),), kept=((7, OnWorker(0, 0)),)))
    talk.done(0)
    assert talk.drain(0).only(ExportValue)
    talk.tell(ValueExported(at=0.0, run=0, value=7, ok=False))
    assert talk.commands == [KeepWorker(worker=0, run=0, value=7)]
    assert not talk.machine.state.draining
    talk.tell(RunSubmitted(at=0.0, run=1, segments=(part(0, reads=((0, 7),)),)))
    talk.done(0, run=1)
    assert talk.only(FinishRun)


def test_a_drain_that_is_cancelled_leaves_all_as_it_is(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0),), replans=False))
    talk.drain(0)
    assert talk.tell(DrainCancelled(at=0.0, worker=0)).commands == []
    assert talk.done(0).commands == [FinishRun(run=0)]


def test_a_worker_that_dies_while_it_is_emptied_is_lost_as_any(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0), part(1)), replans=False))
    talk.drain(0)
    assert talk.died(0).only(FailRun)
    assert not talk.machine.state.draining
    talk.done(1)
    assert talk.machine.state.runs == {}


def test_the_rest_of_a_run_with_one_worker_is_reviewed_when_others_join_and_divided_among_all(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0), part(0), part(0), part(0)), workers=1))
    talk.now = 0.5
    talk.done(0)
    assert not talk.only(ReviewPlan)
    (review,) = talk.tell(WorkersAdded(at=0.0, workers=3)).only(ReviewPlan)
    assert review.progress.running == ((1, 0.0),)
    assert review.progress.rest == (2, 3)
    talk.tell(PlanReviewed(at=0.0, run=0, worth=True))
    talk.tell(SegmentsWithdrawn(at=0.0, segments=((0, 2), (0, 3))))
    plan = plan_of(piece(0, 0), piece(0, 1), piece(0), piece(0), piece(1, 2), piece(2, 3), workers=3)
    talk.tell(RestPlanned(at=0.0, run=0, plan=plan))
    assert [(one.segment, one.worker) for one in talk.only(RunSegment)] == [(4, 1), (5, 2)]
    for segment in (1, 4, 5):
        talk.done(segment)
    assert talk.only(FinishRun)


def test_a_run_under_limits_of_memory_is_not_divided_among_workers_that_join(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0), part(0)), replans=False))
    assert talk.tell(WorkersAdded(at=0.0, workers=2)).commands == []
    assert talk.machine.state.runs[0].outlook is None


def test_a_failed_export_after_the_worker_died_changes_nothing(talk: Talk):
    talk.tell(RunSubmitted(at=0.0, run=0, segments=(part(0, pins=(7,)),), kept=((7, OnWorker(0, 0)),)))
    talk.done(0)
    talk.drain(0)
    assert talk.died(0).only(LoseValue)
    assert talk.machine.state.runs[0].values[7].object is ObjectState.ABSENT
