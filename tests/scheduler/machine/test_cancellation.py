"""Cancelled runs in the machine: what fails, what is stopped, and when a worker is replaced."""

from __future__ import annotations

from typing import Any

import pytest

from raygrad.scheduler.machine.commands import (
    FailReason,
    FailRun,
    FinishRun,
    ReplaceWorker,
    RunSegment,
    StopSegments,
)
from raygrad.scheduler.machine.events import (
    RunStopped,
    RunSubmitted,
    SegmentFinished,
    StopAnswered,
    SubmittedSegment,
    TimePassed,
    WorkerDied,
    WorkerReplaced,
)
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.machine.state import NEVER
from raygrad.scheduler.model.plan import OnWorker

GRACE = 1.0


@pytest.fixture
def machine() -> Machine:
    return Machine(window=2, grace=GRACE)


def submitted(run: int, *segments: SubmittedSegment, kept: Any = ()) -> RunSubmitted:
    return RunSubmitted(at=0.0, run=run, segments=segments, kept=tuple(kept), open_ended=False)


def on(worker: int, **given: Any) -> SubmittedSegment:
    return SubmittedSegment(worker=worker, **given)


def ended(run: int, segment: int, status: Any = "skipped", at: float = 0.0) -> SegmentFinished:
    return SegmentFinished(at=at, run=run, segment=segment, attempt=0, status=status)


def cancelled(run: int, at: float = 0.0) -> RunStopped:
    return RunStopped(at=at, run=run)


def failed(run: int, reason: FailReason = FailReason.CANCELLED, **given: int) -> FailRun:
    return FailRun(run=run, reason=reason, **given)


def stop(*names: tuple[int, int], workers: tuple[int, ...]) -> StopSegments:
    return StopSegments(segments=names, workers=workers)


def test_what_runs_is_stopped_and_what_waits_never_starts(machine: Machine) -> None:
    machine.handle(submitted(0, on(0), on(1), on(0), on(0)))  # the window leaves the last one waiting
    assert machine.handle(cancelled(0)) == [failed(0), stop((0, 0), (0, 1), (0, 2), workers=(0, 1, 0))]
    assert machine.handle(ended(0, 0), ended(0, 1), ended(0, 2)) == []
    assert not machine.state.runs
    assert not machine.state.stopping
    assert machine.state.stop_at == NEVER


def test_runs_that_read_from_it_are_cancelled_with_it_and_others_go_on(machine: Machine) -> None:
    machine.handle(submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]))
    machine.handle(submitted(1, on(0, reads=((0, 5),))))
    machine.handle(submitted(2, on(1)))
    assert machine.handle(cancelled(0)) == [
        failed(0),
        failed(1, FailReason.DEPENDENCY, cause=0),
        stop((0, 0), (1, 0), workers=(0, 0)),
    ]
    assert machine.handle(ended(2, 0, "done")) == [FinishRun(run=2)]


@pytest.mark.parametrize("status", ["done", "failed", "skipped"])
def test_however_a_stopped_segment_ends_its_result_does_not_count(machine: Machine, status: str) -> None:
    machine.handle(submitted(0, on(0)))
    machine.handle(cancelled(0))
    assert machine.handle(ended(0, 0, status)) == []
    assert not machine.state.runs
    assert machine.handle(submitted(1, on(0))) == [RunSegment(run=1, segment=0, attempt=0, worker=0)]


def test_cancelling_twice_or_after_the_end_does_nothing(machine: Machine) -> None:
    machine.handle(submitted(0, on(0)))
    machine.handle(cancelled(0))
    assert machine.handle(cancelled(0)) == []
    machine.handle(ended(0, 0))
    assert machine.handle(cancelled(0)) == []
    machine.handle(submitted(1, on(0), kept=[(3, OnWorker(0, 0))]))
    machine.handle(ended(1, 0, "done"))
    assert machine.handle(cancelled(1)) == []
    assert machine.state.runs[1].values[3].held


def test_a_run_that_waits_for_an_earlier_one_alone_can_be_cancelled(machine: Machine) -> None:
    machine.handle(submitted(0, on(0, pins=(5,)), on(1), kept=[(5, OnWorker(0, 0))]))
    machine.handle(submitted(1, on(0, reads=((0, 5),))))
    machine.handle(ended(0, 0, "done"), ended(1, 0, "done"))
    assert machine.handle(cancelled(1)) == [failed(1)]
    assert machine.handle(ended(0, 1, "done")) == [FinishRun(run=0)]


def test_a_worker_that_does_not_stop_is_replaced_after_the_grace_period_once(machine: Machine) -> None:
    machine.handle(submitted(0, on(0), on(0), on(1)))
    machine.handle(cancelled(0, at=5.0), ended(0, 2))
    assert machine.state.stop_at == 5.0 + GRACE
    assert machine.handle(TimePassed(at=5.5)) == []
    assert machine.handle(TimePassed(at=6.0)) == [ReplaceWorker(worker=0, run=0, segment=0)]
    assert machine.handle(TimePassed(at=9.0)) == []
    assert machine.handle(WorkerDied(at=9.0, worker=0, reason="")) == []
    assert not machine.state.runs
    machine.handle(WorkerReplaced(at=9.0, worker=0))
    assert machine.handle(submitted(1, on(0))) == [RunSegment(run=1, segment=0, attempt=0, worker=0)]


def test_nothing_is_commanded_on_a_worker_that_is_stopping_or_being_replaced(machine: Machine) -> None:
    machine.handle(submitted(0, on(0)))
    machine.handle(cancelled(0))
    kept = [(4, OnWorker(0, 0))]
    assert machine.handle(submitted(1, on(0, pins=(4,)), on(1), kept=kept)) == [
        RunSegment(run=1, segment=1, attempt=0, worker=1)
    ]
    assert machine.handle(TimePassed(at=1.0)) == [ReplaceWorker(worker=0, run=0, segment=0)]
    assert machine.handle(WorkerDied(at=1.0, worker=0, reason="")) == []
    assert machine.handle(WorkerReplaced(at=1.0, worker=0)) == [RunSegment(run=1, segment=0, attempt=0, worker=0)]


def test_what_had_begun_on_a_worker_that_is_replaced_is_lost(machine: Machine) -> None:
    machine.handle(submitted(0, on(0, pins=(5,)), on(0, after=(0,))), submitted(1, on(0)))
    machine.handle(ended(0, 0, "done"))
    machine.handle(cancelled(1), StopAnswered(at=0.0, run=1, segment=0), TimePassed(at=1.0))
    told = machine.handle(WorkerDied(at=1.0, worker=0, reason=""))
    assert told == [FailRun(run=0, reason=FailReason.WORKER_LOST, segment=1, worker=0)]


def test_a_segment_that_has_stopped_lets_the_next_begin(machine: Machine) -> None:
    machine.handle(submitted(0, on(0)))
    machine.handle(cancelled(0))
    assert machine.handle(submitted(1, on(0))) == []
    assert machine.handle(ended(0, 0)) == [RunSegment(run=1, segment=0, attempt=0, worker=0)]


def test_a_worker_that_may_run_something_else_is_spared_until_it_says_that_it_does_not(machine: Machine) -> None:
    machine.handle(submitted(0, on(0)), submitted(1, on(0)))
    machine.handle(cancelled(1))  # run 0 may be what the worker is at
    assert machine.handle(TimePassed(at=1.0)) == []
    assert machine.state.stop_at == 2.0
    machine.handle(StopAnswered(at=1.5, run=1, segment=0))
    assert machine.handle(TimePassed(at=2.0)) == []
    assert machine.handle(TimePassed(at=2.5)) == [ReplaceWorker(worker=0, run=1, segment=0)]


def test_a_segment_that_ended_meanwhile_costs_no_worker(machine: Machine) -> None:
    machine.handle(submitted(0, on(0)))
    machine.handle(cancelled(0), ended(0, 0))
    machine.handle(StopAnswered(at=0.0, run=0, segment=0))  # the answers overtook each other
    assert machine.handle(TimePassed(at=50.0)) == []


def test_a_deadline_names_the_segment_that_took_too_long(machine: Machine) -> None:
    machine.handle(submitted(0, on(0), on(1)))
    told = machine.handle(RunStopped(at=0.0, run=0, expired=True, segment=1))
    assert told == [failed(0, FailReason.TIMED_OUT, segment=1), stop((0, 0), (0, 1), workers=(0, 1))]
