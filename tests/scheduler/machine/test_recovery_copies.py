"""Saved values that stay on their worker are copied once losing them would cost more than the recovery time."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from raygrad.proto.ir.specs import ContextSpec
from raygrad.scheduler.machine.commands import (
    Command,
    CopyValues,
    DropCopy,
    DropValue,
    FailReason,
    FailRun,
    FinishRun,
    RunSegment,
    UseObject,
)
from raygrad.scheduler.machine.events import (
    Event,
    RunAbandoned,
    RunSubmitted,
    SegmentFinished,
    SubmittedSegment,
    ValueCopied,
    ValueDropped,
    ValueExported,
    ValueRequested,
    WorkerDied,
    run_submitted,
)
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, OnWorker
from raygrad.scheduler.planning.planner import make_plan

from .invariants import check_invariants


class Told:
    """A machine, checked after each event."""

    def __init__(self, recovery_time: float, *segments: SubmittedSegment) -> None:
        self.machine = Machine(recovery_time=recovery_time)
        self.tell(RunSubmitted(at=0.0, run=0, segments=segments))

    def tell(self, event: Event) -> list[Command]:
        commands = self.machine.handle(event)
        check_invariants(self.machine)
        return [command for command in commands if not isinstance(command, RunSegment)]

    def done(self, segment: int, seconds: float = 1.0) -> list[Command]:
        return self.tell(SegmentFinished(at=0.0, run=0, segment=segment, attempt=0, status="done", seconds=seconds))

    def copied(self, value: int, size: int = 8, *, ok: bool = True) -> list[Command]:
        return self.tell(ValueCopied(at=0.0, run=0, value=value, ok=ok, size=size))

    @property
    def bytes(self) -> tuple[int, int]:
        return self.machine.state.saved_bytes, self.machine.state.exported_bytes


def forward(*saved: int, worker: int = 0) -> SubmittedSegment:
    return SubmittedSegment(worker=worker, pins=saved, copied_pins=saved)


def backward(*read: int, worker: int = 0, after: tuple[int, ...] = ()) -> SubmittedSegment:
    return SubmittedSegment(worker=worker, drops=read, after=after)


def copy(*values: int, worker: int = 0) -> CopyValues:
    return CopyValues(worker=worker, values=tuple([(0, value) for value in values]))


def drop(value: int) -> DropCopy:
    return DropCopy(run=0, value=value)


def test_nothing_is_copied_before_the_recovery_time_is_passed():
    told = Told(10.0, forward(5), forward(6), backward(6, after=(1,)), backward(5, after=(0,)))
    assert told.done(0, 5.0) == []
    assert told.done(1, 5.0) == [], "ten seconds are not more than ten"
    assert told.done(2, 0.0) == []
    assert told.done(3, 9.0) == [FinishRun(run=0)]
    assert told.bytes == (0, 0)


def test_what_is_still_to_be_read_is_copied_at_one_moment_and_dropped_with_its_value():
    told = Told(
        10.0, forward(5), forward(6, 7), backward(5, after=(0,)), backward(6, after=(1,)), backward(7, after=(1,))
    )
    assert told.done(0, 8.0) == []
    assert told.done(1, 4.0) == [copy(5, 6, 7)]
    assert told.copied(5) == []
    assert told.bytes == (8, 8)
    assert told.done(2) == [drop(5)]
    assert told.bytes == (0, 0)
    assert told.copied(6, 20) == []
    assert told.done(3) == [drop(6)]
    assert told.copied(7) == []
    assert told.done(4) == [drop(7), FinishRun(run=0)]
    assert told.bytes == (0, 0)
    assert told.machine.state.peak_saved_bytes == 20


def test_seconds_of_segments_that_save_nothing_count_too_but_not_those_of_other_workers():
    told = Told(10.0, SubmittedSegment(worker=0), forward(5), forward(6, worker=1), backward(5), backward(6, worker=1))
    assert told.done(0, 9.0) == []
    assert told.done(2, 9.0) == []
    assert told.done(1, 2.0) == [copy(5)]


def test_the_clock_starts_again_when_copies_are_due():
    told = Told(10.0, forward(5), forward(6), forward(7), backward(5, 6, 7, after=(0, 1, 2)))
    assert told.done(0, 11.0) == [copy(5)]
    assert told.copied(5) == []
    assert told.done(1, 6.0) == []
    assert told.done(2, 6.0) == [copy(6, 7)]


def test_what_is_due_while_a_worker_makes_copies_comes_after_them_unless_it_was_read():
    told = Told(1.0, forward(5), forward(6, 7), backward(6, after=(1,)), backward(5, 7, after=(0, 1)))
    assert told.done(0, 2.0) == [copy(5)]
    assert told.done(1, 2.0) == []
    assert told.done(2, 0.0) == []
    assert told.copied(5) == [copy(7)]
    assert told.done(3) == [drop(5), FinishRun(run=0)]
    assert told.copied(7) == [drop(7)], "it came too late"
    assert told.bytes == (0, 0)


def test_the_kept_values_of_all_workers_are_copied_at_once():
    kept = tuple([(value, OnWorker(worker, worker)) for worker, value in enumerate((5, 6))])
    machine = Machine(recovery_time=1.0, retries=1)
    segments = (SubmittedSegment(worker=0, pins=(5,)), SubmittedSegment(worker=1, pins=(6,)))
    machine.handle(RunSubmitted(at=0.0, run=0, segments=segments, kept=kept))
    commands: list[Command] = []
    for segment, seconds in ((1, 0.5), (0, 2.0)):
        event = SegmentFinished(at=0.0, run=0, segment=segment, attempt=0, status="done", seconds=seconds)
        commands += machine.handle(event)
    assert copy(5) in commands
    assert copy(6, worker=1) in commands


def test_what_cannot_be_copied_stays_on_its_worker_and_is_no_failure():
    told = Told(1.0, forward(5, 6), backward(5, 6, after=(0,)))
    assert told.done(0, 2.0) == [copy(5, 6)]
    assert told.copied(5, 0, ok=False) == [drop(5)]
    assert told.copied(6) == []
    assert told.done(1) == [drop(6), FinishRun(run=0)]


def test_the_copies_of_a_failed_run_are_dropped():
    told = Told(1.0, forward(5, 6), backward(5, 6, after=(0,)))
    told.done(0, 2.0)
    told.copied(5)
    assert told.tell(RunAbandoned(at=0.0, run=0)) == [FailRun(run=0, reason=FailReason.ABANDONED), drop(5)]
    assert told.bytes == (0, 0)
    assert told.copied(6) == [drop(6)]
    assert told.tell(SegmentFinished(at=0.0, run=0, segment=1, attempt=0, status="done", seconds=5.0))
    assert told.machine.state.runs == {}


def test_a_lost_worker_makes_no_copies_and_fails_the_run():
    told = Told(1.0, forward(5, 6), forward(8, worker=1), backward(5, 6, after=(0,)), backward(8, worker=1))
    told.done(0, 2.0)
    told.copied(5)
    told.done(1, 2.0)
    lost = FailRun(run=0, reason=FailReason.WORKER_LOST, segment=2, worker=0)
    assert told.tell(WorkerDied(at=0.0, worker=0))[:2] == [lost, drop(5)]
    assert told.bytes == (0, 0)
    assert told.copied(8) == [drop(8)]
    assert told.machine.state.runs[0].copies == {}


def test_without_a_recovery_time_nothing_is_copied():
    told = Told(math.inf, forward(5), backward(5, after=(0,)))
    assert told.done(0, 1e9) == []
    assert told.done(1, 1e9) == [FinishRun(run=0)]


@pytest.mark.parametrize("stays", [False, True])
def test_of_a_plan_the_contexts_are_copied_that_its_vjps_will_read(builder: Any, stays: bool):
    build = builder()
    if stays:
        build.specs[0] = ContextSpec(100, 1)
    context, y = build.function("f", 0, pin=0)
    z = build.op("sin", y, pin=1)
    build.function_vjp("f", context, z, 0, y)
    plan = make_plan(build.graph(), (-1,), Costs(), Cluster.of(2), 0, b"").plan
    assert {value for segment in plan.segments for value in segment.saved_pins} == (set() if stays else {context})
    machine = Machine(recovery_time=1.0)
    machine.handle(run_submitted(plan, at=0.0, run=0, sources=[None]))
    sizes = tuple(8 for _ in plan.segments[0].exports)
    event = SegmentFinished(at=0.0, run=0, segment=0, attempt=0, status="done", export_bytes=sizes, seconds=2.0)
    assert (copy(context) in machine.handle(event)) is not stays


@pytest.mark.slow
@given(data=st.data())
def test_whatever_comes_when_each_copy_is_dropped_once_and_a_worker_has_one_command_at_a_time(data: st.DataObject):
    count = data.draw(st.integers(1, 6))
    workers = [data.draw(st.integers(0, 1)) for _ in range(count)]
    saved = [tuple(range(3 * number, 3 * number + data.draw(st.integers(0, 3)))) for number in range(count)]
    segments = [forward(*saved[number], worker=workers[number]) for number in range(count)]
    segments += [backward(*saved[number], worker=workers[number], after=(number,)) for number in range(count)]
    told = Told(data.draw(st.sampled_from([0.0, 1.5, 4.0])), *segments)
    running = list(range(2 * count))
    packing: dict[int, set[int]] = {0: set(), 1: set()}  # by worker, the values
    copies: set[int] = set()
    lost: set[int] = set()
    ended: set[int] = set()

    def obey(commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, CopyValues):
                values = {value for _, value in command.values}
                assert not packing[command.worker]
                assert command.worker not in lost
                assert copies.isdisjoint(values)
                packing[command.worker] = values
                copies.update(values)
            elif isinstance(command, DropCopy):
                copies.remove(command.value)

    while running or any(packing.values()):
        ready = [one for one in running if one < count or one - count in ended]
        acts = [("done", one) for one in ready] + [("copied", one) for some in packing.values() for one in sorted(some)]
        acts += [("lose", worker) for worker in {0, 1} - lost] if data.draw(st.integers(0, 20)) == 0 else []
        act, which = data.draw(st.sampled_from(acts))
        if act == "done":
            running.remove(which)
            ended.add(which)
            obey(told.done(which))
        elif act == "copied":
            for some in packing.values():
                some.discard(which)
            obey(told.copied(which, ok=data.draw(st.booleans())))
        else:
            lost.add(which)
            copies -= packing[which]  # they are not answered, and so not dropped
            packing[which] = set()
            ended |= {one for one in running if segments[one].worker == which}
            running = [one for one in running if segments[one].worker != which]
            obey(told.tell(WorkerDied(at=0.0, worker=which)))
    assert copies == set()
    assert told.bytes == (0, 0)
    assert told.machine.state.runs == {}


def test_what_is_in_the_store_when_copies_are_due_stays_there_until_nothing_may_be_made_again_from_it():
    machine = Machine(recovery_time=1.0, retries=1)
    here = OnWorker(0, 0)

    def tell(*events: Event) -> list[Command]:
        commands = machine.handle(*events)
        check_invariants(machine)
        return [command for command in commands if not isinstance(command, RunSegment)]

    def done(run: int, seconds: float) -> SegmentFinished:
        return SegmentFinished(at=0.0, run=run, segment=0, attempt=0, status="done", seconds=seconds)

    tell(RunSubmitted(at=0.0, run=0, segments=(SubmittedSegment(worker=0, pins=(5,)),), kept=((5, here),)))
    tell(done(0, 0.5), ValueRequested(at=0.0, run=0, value=5), ValueExported(at=0.0, run=0, value=5, size=8))
    reads = SubmittedSegment(worker=0, reads=((0, 5),), pins=(6,))
    tell(RunSubmitted(at=0.0, run=1, segments=(reads,), kept=((6, here),)))
    later = SubmittedSegment(worker=1, pins=(7,))
    tell(RunSubmitted(at=0.0, run=2, segments=(later,), kept=((7, OnWorker(1, 0)),)))
    assert CopyValues(worker=1, values=((2, 7),)) in tell(done(2, 2.0))
    assert not any(isinstance(one, DropValue) for one in tell(ValueDropped(at=0.0, run=0, value=5)))
    commands = tell(done(1, 0.1))
    assert UseObject(run=0, value=5) in commands
    assert not any(isinstance(one, DropValue) for one in commands), "6 would be made again from it"
    assert DropValue(run=0, value=5) in tell(ValueDropped(at=0.0, run=1, value=6))
