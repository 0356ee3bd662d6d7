import pytest

from raygrad.errors import InvalidTransition, InvariantViolation
from raygrad.proto.ir.program import Pinned
from raygrad.scheduler.machine.commands import (
    DropExport,
    DropValue,
    ExportValue,
    FailReason,
    FailRun,
    FinishRun,
    LoseValue,
    RunSegment,
    Unpin,
)
from raygrad.scheduler.machine.events import (
    PlanSubmitted,
    RunAbandoned,
    RunSubmitted,
    SegmentFinished,
    SubmittedSegment,
    ValueDropped,
    ValueExported,
    ValueRequested,
    WorkerDied,
    run_submitted,
)
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, InStore, OnWorker
from raygrad.scheduler.planning.planner import make_plan


def submitted(run, *segments, kept=(), open_ended=False):
    return RunSubmitted(at=0.0, run=run, segments=segments, kept=tuple(kept), open_ended=open_ended)


def on(worker, **given):
    return SubmittedSegment(worker=worker, **given)


def start(run, segment, worker, attempt=0):
    return RunSegment(run=run, segment=segment, attempt=attempt, worker=worker)


def done(run, segment, *sizes, opened=(), attempt=0):
    return SegmentFinished(
        at=0.0, run=run, segment=segment, attempt=attempt, status="done", export_bytes=sizes, opened=opened
    )


def failed(run, segment):
    return SegmentFinished(at=0.0, run=run, segment=segment, attempt=0, status="failed")


def skipped(run, segment):
    return SegmentFinished(at=0.0, run=run, segment=segment, attempt=0, status="skipped")


def raised(run, segment):
    return FailRun(run=run, reason=FailReason.RAISED, segment=segment)


def dependency(run, cause):
    return FailRun(run=run, reason=FailReason.DEPENDENCY, cause=cause)


def lost(run, segment, worker):
    return FailRun(run=run, reason=FailReason.WORKER_LOST, segment=segment, worker=worker)


def drop(run, value):
    return ValueDropped(at=0.0, run=run, value=value)


def unpin(worker, *values):
    return Unpin(worker=worker, values=tuple(Pinned(*value) for value in values))


# ---- dispatch ahead ------------------------------------------------------------------------------------------------


def test_h13_all_segments_are_commanded_at_once_in_plan_order(playbook):
    p = playbook >> submitted(
        0, on(0, exports=(False,)), on(1, imports=((0, 0),), exports=(True,)), on(0, imports=((1, 0),))
    )
    assert p << start(0, 0, 0) << start(0, 1, 1) << start(0, 2, 0)
    assert p >> done(0, 0, 10)
    assert p >> done(0, 1, 100) << DropExport(run=0, segment=0, export=0)
    assert (p.machine.state.saved_bytes, p.machine.state.exported_bytes) == (100, 100)
    assert p >> done(0, 2) << DropExport(run=0, segment=1, export=0) << FinishRun(run=0)
    p.end()
    assert (p.machine.state.saved_bytes, p.machine.state.exported_bytes) == (0, 0)
    assert (p.machine.state.peak_saved_bytes, p.machine.state.peak_exported_bytes) == (100, 110)
    assert p.machine.state.runs == {}


def test_what_is_dropped_with_a_submission_is_unpinned_before_the_segments_on_its_worker():
    machine = Machine()
    kept = ((7, OnWorker(0, 0)), (8, OnWorker(1, 1)))
    machine.handle(submitted(0, on(0, pins=(7,)), on(1, pins=(8,)), kept=kept))
    machine.handle(done(0, 0), done(0, 1))
    assert machine.handle(drop(0, 7), drop(0, 8), submitted(1, on(0))) == [
        unpin(0, (0, 7)),
        start(1, 0, 0),
        unpin(1, (0, 8)),
    ]


def test_a_plan_is_taken_as_the_segments_that_it_has(builder):
    build = builder()
    build.keep_on_worker(build.op("sin", build.op("cos", 0, pin=0), pin=1))
    plan = make_plan(build.graph(), (-1,), Costs(), Cluster.of(2), 0, b"").plan
    machines = Machine(), Machine()
    commands = [
        machine.handle(event)
        for machine, event in zip(
            machines,
            (
                run_submitted(plan, at=0.0, run=0, sources=(None,)),
                PlanSubmitted(at=0.0, run=0, plan=plan, sources=(None,)),
            ),
            strict=True,
        )
    ]
    assert commands[0] == commands[1] != []
    assert machines[0].state == machines[1].state


def test_a_plan_that_runs_again_may_read_what_it_made_before(builder):
    build = builder()
    made = build.op("sin", 0)
    build.keep_in_store(made)
    plan = make_plan(build.graph(), (-1,), Costs(), Cluster.of(1), 0, b"").plan
    machine = Machine()
    machine.handle(PlanSubmitted(at=0.0, run=0, plan=plan, sources=(None,)))
    machine.handle(PlanSubmitted(at=0.0, run=1, plan=plan, sources=((0, made),)))
    assert machine.handle(done(0, 0, 64), drop(0, made)) == [FinishRun(run=0)]
    assert machine.handle(done(1, 0, 64)) == [DropExport(run=0, segment=0, export=0), FinishRun(run=1)]


def test_h13_results_may_come_in_any_order(playbook):
    p = playbook >> submitted(0, on(0), on(1)) << start(0, 0, 0) << start(0, 1, 1)
    assert p >> done(0, 1) >> done(0, 0) << FinishRun(run=0)
    p.end()


def test_no_more_than_a_window_of_segments_is_in_flight_on_a_worker(playbooks):
    p = playbooks(Machine(window=2)) >> submitted(0, *[on(0)] * 4, on(1))
    assert p << start(0, 0, 0) << start(0, 1, 0) << start(0, 4, 1)
    assert p >> done(0, 1) << start(0, 2, 0)
    assert p >> done(0, 0) << start(0, 3, 0)
    assert p >> done(0, 4) >> done(0, 2) >> done(0, 3) << FinishRun(run=0)
    p.end()


def test_a_segment_is_not_commanded_before_what_it_reads_is(playbooks):
    p = playbooks(Machine(window=1)) >> submitted(0, on(0), on(0, exports=(False,)), on(1, imports=((1, 0),)))
    assert p << start(0, 0, 0)
    assert p >> done(0, 0) << start(0, 1, 0) << start(0, 2, 1)
    assert p >> done(0, 1, 1) >> done(0, 2) << DropExport(run=0, segment=1, export=0) << FinishRun(run=0)
    p.end()


def test_a_window_must_let_something_through():
    with pytest.raises(ValueError, match="at least 1"):
        Machine(window=0)


def test_a_run_without_segments_finishes_at_once(playbook):
    (playbook >> submitted(0) << FinishRun(run=0)).end()


def test_several_events_may_come_at_once():
    machine = Machine()
    commands = machine.handle(submitted(0, on(0)), submitted(1, on(0)))
    assert commands == [start(0, 0, 0), start(1, 0, 0)]


# ---- values that outlive their run ---------------------------------------------------------------------------------


def test_h14_a_later_run_is_dispatched_while_the_one_it_reads_from_runs(playbook):
    p = playbook >> submitted(0, on(0, exports=(True,)), kept=[(5, InStore(0, 0, 0))]) << start(0, 0, 0)
    assert p >> submitted(1, on(1, reads=((0, 5),))) << start(1, 0, 1)
    assert p >> drop(0, 5)
    assert p >> done(0, 0, 64) << FinishRun(run=0)
    assert p.machine.state.saved_bytes == 64
    assert p >> done(1, 0) << DropExport(run=0, segment=0, export=0) << FinishRun(run=1)
    p.end()
    assert p.machine.state.runs == {}


def test_a_run_finishes_only_after_those_it_reads_from(playbook):
    p = playbook >> submitted(0, on(0, exports=(True,)), on(1), kept=[(5, InStore(0, 0, 0))])
    assert p << start(0, 0, 0) << start(0, 1, 1)
    assert p >> submitted(1, on(0, reads=((0, 5),))) << start(1, 0, 0)
    assert p >> submitted(2, on(0)) << start(2, 0, 0)
    assert p >> done(0, 0, 8) >> done(1, 0)
    assert p >> done(2, 0) << FinishRun(run=2)
    assert p >> done(0, 1) << FinishRun(run=0) << FinishRun(run=1)
    p.end()


def test_an_object_lives_while_any_kept_value_in_it_is_held(playbook):
    kept = [(5, InStore(0, 0, 0)), (6, InStore(0, 0, 1))]
    p = playbook >> submitted(0, on(0, exports=(True,)), kept=kept) << start(0, 0, 0)
    assert p >> done(0, 0, 64) << FinishRun(run=0)
    assert p >> drop(0, 5)
    assert p >> drop(0, 6) << DropExport(run=0, segment=0, export=0)
    p.end()


def test_a_pinned_value_is_unpinned_when_dropped_and_read_by_nobody(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> submitted(1, on(0, reads=((0, 5),))) << start(1, 0, 0)
    assert p >> drop(0, 5)
    assert p >> done(1, 0) << FinishRun(run=1) << unpin(0, (0, 5))
    p.end()


def test_a_pinned_value_is_not_unpinned_while_a_segment_of_its_own_run_reads_it(playbook):
    first, second = on(0, pins=(5,)), on(0, after=(0,), reads=((0, 5),))
    p = playbook >> submitted(0, first, second, kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0) << start(0, 1, 0)
    assert p >> done(0, 0)
    assert p >> drop(0, 5)
    assert p >> done(0, 1) << FinishRun(run=0) << unpin(0, (0, 5))
    p.end()


def test_a_value_dropped_before_it_is_made_is_unpinned_when_it_is(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> drop(0, 5)
    assert p >> done(0, 0) << FinishRun(run=0) << unpin(0, (0, 5))
    p.end()


def test_h14_a_pinned_value_read_on_another_worker_becomes_an_object_once(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> submitted(1, on(1, reads=((0, 5),)), on(2, reads=((0, 5),)), on(0, reads=((0, 5),)))
    assert p << ExportValue(worker=0, run=0, value=5) << start(1, 0, 1) << start(1, 1, 2) << start(1, 2, 0)
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> ValueExported(at=0.0, run=0, value=5, size=16)
    assert p.machine.state.exported_bytes == 16
    assert p >> submitted(2, on(1, reads=((0, 5),))) << start(2, 0, 1)
    assert p >> drop(0, 5)
    assert p >> done(1, 0) >> done(1, 1) >> done(1, 2) << FinishRun(run=1)
    assert p >> done(2, 0) << DropValue(run=0, value=5) << FinishRun(run=2) << unpin(0, (0, 5))
    p.end()
    assert p.machine.state.exported_bytes == 0


def test_a_value_that_the_client_reads_becomes_an_object_as_soon_as_its_segment_is_commanded(playbooks):
    p = playbooks(Machine(window=1)) >> submitted(0, on(0), on(0, pins=(5,)), kept=[(5, OnWorker(0, 1))])
    assert p << start(0, 0, 0)
    request = ValueRequested(at=0.0, run=0, value=5)
    assert p >> request
    assert p >> done(0, 0) << start(0, 1, 0) << ExportValue(worker=0, run=0, value=5)
    assert p >> request  # asked for already
    assert p >> done(0, 1) << FinishRun(run=0)
    assert p >> ValueExported(at=0.0, run=0, value=5)
    assert p >> drop(0, 5) << DropValue(run=0, value=5) << unpin(0, (0, 5))
    p.end()


def test_a_value_is_not_unpinned_while_it_is_being_exported(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> ValueRequested(at=0.0, run=0, value=5) << ExportValue(worker=0, run=0, value=5)
    assert p >> drop(0, 5)
    assert p >> ValueExported(at=0.0, run=0, value=5) << DropValue(run=0, value=5) << unpin(0, (0, 5))
    p.end()


def test_a_request_for_a_value_in_the_store_needs_nothing(playbook):
    p = playbook >> submitted(0, on(0, exports=(True,)), kept=[(5, InStore(0, 0, 0))]) << start(0, 0, 0)
    (p >> ValueRequested(at=0.0, run=0, value=5)).end()


def test_h3_what_an_open_ended_node_made_is_held_from_its_result_on(playbook):
    p = playbook >> submitted(0, on(0), on(1), open_ended=True) << start(0, 0, 0) << start(0, 1, 1)
    assert p >> done(0, 1, opened=(7, 8))
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> submitted(1, on(1, reads=((0, 7),))) << start(1, 0, 1)
    assert p >> drop(0, 8) << unpin(1, (0, 8))
    assert p >> drop(0, 7)
    assert p >> done(1, 0) << FinishRun(run=1) << unpin(1, (0, 7))
    p.end()


# ---- failures ------------------------------------------------------------------------------------------------------


def test_a_failed_segment_fails_its_run_once_and_what_runs_is_let_run_out(playbook):
    p = playbook >> submitted(0, on(0, exports=(True,), pins=(4,)), on(1, imports=((0, 0),)), on(0, after=(0,)))
    assert p << start(0, 0, 0) << start(0, 1, 1) << start(0, 2, 0)
    assert p >> failed(0, 0) << raised(0, 0)
    assert p >> failed(0, 2)
    assert p >> skipped(0, 1) << DropExport(run=0, segment=0, export=0) << unpin(0, (0, 4))
    p.end()
    assert p.machine.state.runs == {}


def test_a_skipped_segment_waits_for_the_failure_that_explains_it(playbook):
    p = playbook >> submitted(0, on(0, exports=(False,)), on(1, imports=((0, 0),)))
    assert p << start(0, 0, 0) << start(0, 1, 1)
    assert p >> skipped(0, 1)
    assert p >> failed(0, 0) << raised(0, 0) << DropExport(run=0, segment=0, export=0)
    p.end()


def test_a_skipped_run_that_nothing_explains_fails_all_the_same(playbook):
    p = playbook >> submitted(0, on(0)) << start(0, 0, 0)
    (p >> skipped(0, 0) << raised(0, 0)).end()
    assert p.machine.state.runs == {}


def test_what_of_a_failed_run_was_not_started_is_not(playbooks):
    p = playbooks(Machine(window=1)) >> submitted(0, on(0), on(0, exports=(True,), pins=(4,))) << start(0, 0, 0)
    assert p >> submitted(1, on(0))
    assert p >> failed(0, 0) << raised(0, 0) << start(1, 0, 0)
    assert p >> done(1, 0) << FinishRun(run=1)
    p.end()


def test_h8_runs_that_read_from_a_failed_run_fail_with_it_causes_first(playbook):
    p = (
        playbook
        >> submitted(0, on(0, pins=(5,)), on(1), kept=[(5, OnWorker(0, 0))])
        << start(0, 0, 0)
        << start(0, 1, 1)
    )
    assert p >> submitted(1, on(0, reads=((0, 5),), pins=(6,)), kept=[(6, OnWorker(0, 0))]) << start(1, 0, 0)
    assert p >> submitted(2, on(0, reads=((1, 6),))) << start(2, 0, 0)
    assert p >> submitted(3, on(0)) << start(3, 0, 0)
    assert p >> done(0, 0) >> done(1, 0)  # run 1 has done all it can, and still depends on run 0
    assert p >> failed(0, 1) << raised(0, 1) << dependency(1, 0) << dependency(2, 1) << unpin(0, (0, 5))
    assert p >> drop(0, 5) >> drop(1, 6)  # a client that does not know yet
    assert p >> submitted(4, on(0, reads=((0, 5), (1, 6)))) << dependency(4, 0)
    assert p >> done(3, 0) << FinishRun(run=3)
    assert p >> skipped(2, 0) << unpin(0, (1, 6))
    p.end()
    assert p.machine.state.runs == {}


def test_what_an_open_ended_node_made_for_a_failed_run_is_unpinned(playbook):
    p = playbook >> submitted(0, on(0), on(1), open_ended=True) << start(0, 0, 0) << start(0, 1, 1)
    assert p >> failed(0, 0) << raised(0, 0)
    assert p >> done(0, 1, opened=(7,)) << unpin(1, (0, 7))
    p.end()


def test_an_abandoned_run_fails_and_nothing_more_of_it_starts(playbooks):
    p = playbooks(Machine(window=1)) >> submitted(0, on(0, pins=(5,)), on(0), kept=[(5, OnWorker(0, 0))])
    assert p << start(0, 0, 0)
    assert p >> RunAbandoned(at=0.0, run=0) << FailRun(run=0, reason=FailReason.ABANDONED)
    assert p >> RunAbandoned(at=0.0, run=0)
    assert p >> ValueRequested(at=0.0, run=0, value=5)
    assert p >> done(0, 0) << unpin(0, (0, 5))
    p.end()


def test_a_finished_run_that_is_abandoned_lets_go_of_its_values(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> RunAbandoned(at=0.0, run=0) << unpin(0, (0, 5))
    assert p >> drop(0, 5)
    p.end()


# ---- lost workers --------------------------------------------------------------------------------------------------


def test_what_ran_on_a_lost_worker_fails_and_its_late_result_is_counted_and_dropped(playbook):
    p = playbook >> submitted(0, on(0, exports=(False,)), on(1, imports=((0, 0),))) << start(0, 0, 0) << start(0, 1, 1)
    assert p >> WorkerDied(at=0.0, worker=0, reason="died") << lost(0, 0, 0)
    assert p >> WorkerDied(at=0.0, worker=0)
    assert p >> done(0, 0, 8)
    assert p.machine.state.late_results == 1
    assert p >> skipped(0, 1) << DropExport(run=0, segment=0, export=0)
    assert p >> done(0, 0, 8)
    p.end()
    assert p.machine.state.late_results == 2


def test_what_a_lost_worker_returned_before_survives(playbook):
    p = playbook >> submitted(0, on(0, exports=(True,)), kept=[(5, InStore(0, 0, 0))]) << start(0, 0, 0)
    assert p >> done(0, 0, 8) << FinishRun(run=0)
    assert p >> WorkerDied(at=0.0, worker=0)
    assert p >> submitted(1, on(1, reads=((0, 5),))) << start(1, 0, 1)
    assert p >> done(1, 0) << FinishRun(run=1)
    assert p >> drop(0, 5) << DropExport(run=0, segment=0, export=0)
    p.end()


def test_what_was_pinned_on_a_lost_worker_is_lost_with_those_who_read_it(playbooks):
    p = playbooks(Machine(window=1)) >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> submitted(1, on(1, reads=((0, 5),))) << ExportValue(worker=0, run=0, value=5) << start(1, 0, 1)
    assert p >> WorkerDied(at=0.0, worker=0) << LoseValue(run=0, value=5, worker=0) << lost(1, 0, 0)
    assert p >> submitted(2, on(1, reads=((0, 5),))) << lost(2, 0, 0)
    assert p >> skipped(1, 0)
    assert p >> ValueExported(at=0.0, run=0, value=5) << DropValue(run=0, value=5)  # it was on its way; nobody needs it
    assert p >> ValueRequested(at=0.0, run=0, value=5)
    assert p >> drop(0, 5)
    p.end()
    assert p.machine.state.runs == {}


def test_a_pinned_value_that_became_an_object_survives_its_worker(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> ValueRequested(at=0.0, run=0, value=5) << ExportValue(worker=0, run=0, value=5)
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> ValueExported(at=0.0, run=0, value=5)
    assert p >> WorkerDied(at=0.0, worker=0)
    assert p >> submitted(1, on(1, reads=((0, 5),))) << start(1, 0, 1)
    assert p >> done(1, 0) << FinishRun(run=1)
    assert p >> drop(0, 5) << DropValue(run=0, value=5)
    p.end()


def test_an_unfinished_run_fails_if_what_it_has_pinned_for_the_client_is_lost(playbook):
    p = (
        playbook
        >> submitted(0, on(0, pins=(5,)), on(1), kept=[(5, OnWorker(0, 0))])
        << start(0, 0, 0)
        << start(0, 1, 1)
    )
    assert p >> done(0, 0)
    assert p >> WorkerDied(at=0.0, worker=0) << lost(0, 0, 0)
    assert p >> done(0, 1)
    p.end()
    assert p.machine.state.runs == {}


def test_a_run_submitted_to_a_lost_worker_fails_at_once(playbook):
    p = playbook >> WorkerDied(at=0.0, worker=1)
    assert p >> submitted(0, on(0), on(1)) << lost(0, 1, 1)
    p.end()
    assert p.machine.state.runs == {}


def test_a_value_that_cannot_become_an_object_fails_those_who_need_it_elsewhere(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> submitted(1, on(0, reads=((0, 5),)), on(1, reads=((0, 5),)))
    assert p << start(1, 0, 0) << ExportValue(worker=0, run=0, value=5) << start(1, 1, 1)
    assert p >> submitted(2, on(0, reads=((0, 5),))) << start(2, 0, 0)
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> ValueExported(at=0.0, run=0, value=5, ok=False) << raised(1, 1)
    assert p >> done(1, 0) >> skipped(1, 1)
    assert p >> done(2, 0) << FinishRun(run=2)
    assert p >> drop(0, 5) << unpin(0, (0, 5))
    p.end()


# ---- what cannot be ------------------------------------------------------------------------------------------------


def test_a_second_result_of_an_attempt_is_refused_with_the_story(playbook):
    p = playbook >> submitted(0, on(0), on(0)) << start(0, 0, 0) << start(0, 1, 0)
    assert p >> done(0, 0)
    with pytest.raises(InvalidTransition, match="running -> done"):
        assert p >> done(0, 0)


def test_events_that_cannot_be_are_refused(playbook):
    p = playbook >> submitted(3, on(0, exports=(True,)), on(0, pins=(5,)), kept=[(5, OnWorker(0, 1))])
    assert p << start(3, 0, 0) << start(3, 1, 0)
    assert p >> ValueRequested(at=0.0, run=3, value=5) << ExportValue(worker=0, run=3, value=5)
    assert p >> ValueExported(at=0.0, run=3, value=5)
    impossible = [
        (submitted(3, on(0)), "after run 3"),
        (submitted(4, on(0, reads=((3, 6),))), "not held"),
        (done(9, 0), "was not submitted"),
        (done(3, 0, attempt=1), "not commanded"),
        (done(3, 0), "1 exports"),
        (done(3, 1, opened=(9,)), "no open-ended node"),
        (drop(3, 6), "not held"),
        (drop(2, 6), "not held"),
        (ValueExported(at=0.0, run=3, value=5), "twice"),
    ]
    for event, why in impossible:
        with pytest.raises(InvariantViolation, match=why):
            p.machine.handle(event)


def test_a_value_is_dropped_once(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> drop(0, 5)
    with pytest.raises(InvariantViolation, match="not held"):
        assert p >> drop(0, 5)


def test_a_thousand_runs_that_wait_for_one_finish_with_it(playbooks):
    machine = Machine(window=5000)
    machine.handle(submitted(0, on(0, exports=(True,)), on(1), kept=[(5, InStore(0, 0, 0))]))
    for run in range(1, 1001):
        reads = ((run - 1, 5),)
        machine.handle(submitted(run, on(0, reads=reads, exports=(True,)), kept=[(5, InStore(0, 0, 0))]))
    machine.handle(*(done(run, 0, 8) for run in range(1001)))
    commands = machine.handle(done(0, 1))
    assert commands == [FinishRun(run=run) for run in range(1001)]


# ---- what is left ----------------------------------------------------------------------------------------------------


def test_what_segments_of_a_failed_run_left_for_each_other_is_unpinned_where_a_worker_lives(playbook):
    p = (
        playbook
        >> submitted(0, on(0, pins=(5,)), on(1, pins=(6, 7)), kept=[(7, OnWorker(1, 1))])
        << start(0, 0, 0)
        << start(0, 1, 1)
    )
    assert p >> WorkerDied(at=0.0, worker=0) << lost(0, 0, 0)
    assert p >> done(0, 1) << unpin(1, (0, 6), (0, 7))
    p.end()
    assert p.machine.state.runs == {}


def test_nothing_is_unpinned_on_a_worker_that_is_lost_in_the_same_moment():
    machine = Machine()
    machine.handle(submitted(0, on(0, pins=(5,)), on(1, pins=(6,)), kept=[(5, OnWorker(0, 0)), (6, OnWorker(1, 1))]))
    assert machine.handle(done(0, 0), done(0, 1)) == [FinishRun(run=0)]
    assert machine.handle(drop(0, 5), drop(0, 6), WorkerDied(at=0.0, worker=0)) == [unpin(1, (0, 6))]
    assert machine.state.runs == {}


def test_a_lost_worker_holds_nobody_up_and_leaves_no_account(playbooks):
    p = playbooks(Machine(window=1)) >> submitted(0, on(0, exports=(True,))) << start(0, 0, 0)
    assert p >> submitted(1, on(0))
    assert p >> submitted(2, on(1, exports=(False,)), on(0, imports=((0, 0),))) << start(2, 0, 1)
    assert p >> submitted(3, on(1)) >> submitted(4, on(2)) << start(4, 0, 2)
    assert p >> WorkerDied(at=0.0, worker=0) << lost(0, 0, 0) << DropExport(run=0, segment=0, export=0)
    assert p << lost(1, 0, 0) << lost(2, 1, 0)
    assert p >> done(2, 0, 8) << DropExport(run=2, segment=0, export=0) << start(3, 0, 1)
    assert p >> done(3, 0) << FinishRun(run=3)
    assert p >> done(4, 0) << FinishRun(run=4)
    p.end()
    state = p.machine.state
    assert (state.runs, state.awaited, state.stirred) == ({}, {}, set())
    assert set(state.in_flight.values()) == {0}
    assert (state.exported_bytes, state.saved_bytes, state.peak_exported_bytes) == (0, 0, 8)
    assert state.failed_runs == {0, 1, 2}


def test_bytes_of_a_pinned_value_that_became_an_object_are_counted_until_it_is_dropped(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> ValueRequested(at=0.0, run=0, value=5) << ExportValue(worker=0, run=0, value=5)
    assert p >> ValueExported(at=0.0, run=0, value=5, size=24)
    assert (p.machine.state.exported_bytes, p.machine.state.saved_bytes) == (24, 0)
    assert p >> drop(0, 5) << DropValue(run=0, value=5) << unpin(0, (0, 5))
    p.end()
    assert (p.machine.state.exported_bytes, p.machine.state.peak_exported_bytes, p.machine.state.runs) == (0, 24, {})


def test_what_a_failed_run_saved_is_dropped_and_counted_off(playbook):
    p = (
        playbook
        >> submitted(0, on(0, exports=(True, False)), on(1, imports=((0, 1),)), kept=[(5, InStore(0, 0, 0))])
        << start(0, 0, 0)
        << start(0, 1, 1)
    )
    assert p >> done(0, 0, 16, 8)
    assert (p.machine.state.saved_bytes, p.machine.state.exported_bytes) == (16, 24)
    assert p >> failed(0, 1) << raised(0, 1) << DropExport(run=0, segment=0, export=0)
    assert p << DropExport(run=0, segment=0, export=1)
    p.end()
    assert (p.machine.state.saved_bytes, p.machine.state.exported_bytes, p.machine.state.peak_saved_bytes) == (0, 0, 16)
    assert p.machine.state.runs == {}


def test_nobody_waits_for_a_segment_that_was_given_up(playbooks):
    p = playbooks(Machine(window=1)) >> submitted(0, on(0)) << start(0, 0, 0)
    assert p >> submitted(1, on(0, exports=(False,)), on(1, imports=((0, 0),)))
    assert p.machine.state.awaited == {(1, 0): [1]}
    assert p >> submitted(2, on(1))
    assert p >> RunAbandoned(at=0.0, run=1) << FailRun(run=1, reason=FailReason.ABANDONED) << start(2, 0, 1)
    p.end()
    assert p.machine.state.awaited == {}


def test_a_worker_is_lost_once(playbook):
    p = playbook >> submitted(0, on(0, pins=(5,)), kept=[(5, OnWorker(0, 0))]) << start(0, 0, 0)
    assert p >> done(0, 0) << FinishRun(run=0)
    assert p >> WorkerDied(at=0.0, worker=0) << LoseValue(run=0, value=5, worker=0)
    assert p >> WorkerDied(at=0.0, worker=0)
    p.end()
