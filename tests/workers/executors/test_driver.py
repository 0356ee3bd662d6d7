from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import ExecutionError, PlanError, WaitTimeout, WorkerLost
from raygrad.proto.ir.program import INLINE_RESULT_BYTES, Record
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.workers.code.shipping import unpack_exception
from raygrad.workers.executors.base import Report, SegmentReturned, WorkerGone
from raygrad.workers.executors.calls import KeptExternal, SuppliedExternal
from raygrad.workers.executors.inprocess import InProcessExecutor
from raygrad.workers.executors.read_ahead import GRAPHS_KEPT, ReadAhead
from raygrad.workers.values.packed_values import POISON

BIG = (INLINE_RESULT_BYTES // 8 + 1,)
"""A shape whose arrays are too large to come in a record."""
GATE = threading.Event()


class Broken(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        raise ArithmeticError("broken")


class Interrupted(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        raise KeyboardInterrupt


class AddOne(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return Tensor(x.numpy() + 1)


class Held(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        assert GATE.wait(20)
        return Tensor(x.numpy())


@pytest.fixture(params=[(1, False), (1, True), (2, False), (3, True)], ids=["1", "1 strict", "2", "3 strict"])
def session(request: Any, open_session: Callable[..., Any]) -> Any:
    workers, strict = request.param
    return open_session(InProcessExecutor(workers, strict=strict))


def last(session: Any) -> int:
    """The highest worker: another one than worker 0 where there is one."""
    return len(session.executor.cluster.workers) - 1


# ---- running and reading --------------------------------------------------------------------------------------------


def test_a_run_is_recorded_then_finished_and_its_small_results_are_here(session: Any, graphs: Any):
    g = graphs(2)
    out = g.mul(0, 1)
    g.keep(out)
    run = session.submit(g.graph(), np.arange(4.0), np.full(4, 3.0))
    assert session.log.told == []
    assert session.driver.read(run, out).tolist() == [0, 3, 6, 9]
    session.wait(run)
    assert session.log.told == [("record", 1, 0), ("finished", 1)]


def test_a_graph_that_reads_what_is_not_held_is_refused_and_others_go_on(session: Any, graphs: Any):
    g = graphs(2)
    out = g.mul(0, 1)
    g.keep(out)
    run = session.submit(g.graph(), np.arange(4.0), np.full(4, 3.0))
    session.wait(run)
    for missing in (KeptExternal(run, out + 1), KeptExternal(run + 50, out)):
        with pytest.raises(ExecutionError, match="never kept, or let go of"):
            session.submit(g.graph(), np.arange(4.0), missing)
    session.driver.drop([(run, out)])
    with pytest.raises(ExecutionError, match="never kept, or let go of"):
        session.submit(g.graph(), np.arange(4.0), KeptExternal(run, out))
    again = session.submit(g.graph(), np.arange(4.0), np.full(4, 2.0))
    assert session.driver.read(again, out).tolist() == [0, 2, 4, 6]


def test_a_value_too_large_for_a_record_is_fetched_from_its_worker(session: Any, graphs: Any):
    g = graphs(shape=BIG)
    out = g.mul(0, 0, pin=last(session))
    g.keep(out)
    run = session.submit(g.graph(), np.full(BIG, 3.0))
    session.wait(run)
    assert session.executor.stored_bytes() == 0
    for _ in range(2):
        assert session.driver.read(run, out)[-1] == 9.0
    assert session.executor.stored_bytes() >= 8 * BIG[0]
    session.driver.drop([(run, out)])
    assert session.executor.stored_bytes() == 0
    assert session.driver.read(run, out) is POISON


def test_whether_there_is_a_value_is_told_without_bringing_it(session: Any, graphs: Any):
    g = graphs(shape=BIG)
    large = g.mul(0, 0, pin=last(session))
    g.keep(large)
    run = session.submit(g.graph(), np.full(BIG, 3.0))
    assert session.driver.stays_on_worker(run, large)
    h = graphs()
    small, stored = h.mul(0, 0), h.mul(0, 0)
    h.keep(small)
    h.keep(stored, in_store=True)
    other = session.submit(h.graph(), np.ones(4))
    assert not session.driver.stays_on_worker(other, small), "it came in the record"
    assert not session.driver.stays_on_worker(other, stored)
    session.driver.drop([(run, large), (other, stored)])
    assert session.executor.stored_bytes() == 0
    assert not session.driver.stays_on_worker(run, large), "it was dropped"


def test_a_value_in_the_store_is_read_there(session: Any, graphs: Any):
    g = graphs()
    first, second = g.mul(0, 0), g.mul(0, 0)
    g.keep(first, second, in_store=True)
    run = session.submit(g.graph(), np.full(4, 2.0))
    assert session.driver.read(run, second).tolist() == [4.0] * 4
    assert session.driver.read(run, first).tolist() == [4.0] * 4
    session.driver.drop([(run, first), (run, second)])
    assert session.executor.stored_bytes() == 0


def test_segments_on_several_workers_hand_values_to_each_other(session: Any, graphs: Any):
    g = graphs()
    value = 0
    for step in range(6):
        value = g.mul(value, value, pin=step % (last(session) + 1))
    g.keep(value)
    run = session.submit(g.graph(), np.full(4, 1.01))
    expected = 1.01
    for _ in range(6):
        expected *= expected
    assert session.driver.read(run, value).tolist() == [expected] * 4
    session.wait(run)
    assert session.executor.stored_bytes() == 0


def test_a_later_run_reads_kept_values_wherever_they_are(session: Any, graphs: Any):
    g = graphs(shape=BIG)
    pinned, stored = g.mul(0, 0, pin=last(session)), g.mul(0, 0)
    g.keep(pinned)
    g.keep(stored, in_store=True)
    first = session.submit(g.graph(), np.full(BIG, 2.0))
    for worker in (0, last(session)):
        h = graphs(3, shape=BIG)
        out = h.mul(h.mul(0, 1, pin=worker), 2, pin=worker)
        h.keep(out)
        run = session.submit(h.graph(), KeptExternal(first, pinned), KeptExternal(first, stored), np.full(BIG, 3.0))
        assert session.driver.read(run, out)[0] == 48.0
        session.driver.drop([(run, out)])
    session.driver.drop([(first, pinned), (first, stored)])
    session.driver.poll()
    assert session.executor.stored_bytes() == 0


def test_what_was_dropped_before_its_reader_started_is_still_read(session: Any, graphs: Any):
    g = graphs()
    kept = g.mul(0, 0, pin=last(session))
    g.keep(kept)
    first = session.submit(g.graph(), np.full(4, 2.0))
    h = graphs()
    out = h.mul(0, 0, pin=0)
    h.keep(out)
    second = session.submit(h.graph(), KeptExternal(first, kept))
    session.driver.drop([(first, kept)])
    assert session.driver.read(second, out).tolist() == [16.0] * 4


def test_nothing_is_left_after_many_runs(session: Any, graphs: Any):
    g = graphs()
    a = g.mul(0, 0, pin=0)
    b = g.mul(a, a, pin=last(session))
    g.keep(a, b)
    for _ in range(5):
        run = session.submit(g.graph(), np.ones(4))
        session.wait(run)
        session.driver.drop([(run, a), (run, b)])
    session.driver.poll()
    assert session.driver._runs == {}
    assert session.executor.stored_bytes() == 0
    assert all(worker.host.pinned == 0 for worker in session.executor._workers)
    assert session.driver.saved_bytes == 0


def test_a_plan_is_made_once_for_runs_of_one_graph(session: Any, graphs: Any):
    g = graphs()
    g.keep(g.mul(0, 0))
    for _ in range(3):
        session.wait(session.submit(g.graph(), np.ones(4)))
    assert session.driver.planner.misses == 1


def test_the_planner_is_told_what_a_run_before_made_by_the_same_graph(session: Any, graphs: Any, monkeypatch: Any):
    told: list[Any] = []
    planner = session.driver.planner
    monkeypatch.setattr(planner, "due", True)
    monkeypatch.setattr(planner, "reconsider", lambda loop: told.append(loop()))
    g = graphs(2)
    after = g.mul(0, 1, pin=last(session))
    g.keep(after)
    graph = g.graph()
    first = session.submit(graph, np.full(4, 3.0), np.ones(4))
    second = session.submit(graph, KeptExternal(first, after), np.ones(4))
    h = graphs(2)
    h.keep(h.mul(0, 1), h.mul(1, 0))
    session.wait(session.submit(h.graph(), KeptExternal(first, after), KeptExternal(second, after)))
    assert told == [[], [(0, after)], []]


def test_outputs_of_a_function_not_seen_before_are_kept_and_read(session: Any, graphs: Any):
    g = graphs()
    context = g.call(session.learn(AddOne), 0, pin=last(session), open_ended=True)
    run = session.submit(g.graph(open_ended=True), np.zeros(4))
    session.wait(run)
    assert session.log.records[0].observations
    assert session.driver.read(run, context + 1).tolist() == [1.0] * 4
    h = graphs()
    out = h.mul(0, 0)
    h.keep(out)
    second = session.submit(h.graph(), KeptExternal(run, context + 1))
    assert session.driver.read(second, out).tolist() == [1.0] * 4


# ---- failures -------------------------------------------------------------------------------------------------------


def test_a_failure_fails_its_run_and_those_that_read_from_it_only(session: Any, graphs: Any):
    g = graphs()
    bad = g.call(session.learn(Broken), 0, pin=last(session))
    kept = g.mul(bad, bad, pin=0)
    g.keep(kept)
    failed = session.submit(g.graph(), np.ones(4))
    h = graphs()
    out = h.mul(0, 0)
    h.keep(out)
    dependent = session.submit(h.graph(), KeptExternal(failed, kept))
    fine = session.submit(h.graph(), np.full(4, 2.0))
    for run in (failed, dependent, fine):
        session.wait(run)
    record, reason = session.log.failures[failed]
    assert isinstance(record, Record)
    assert reason == "raised"
    assert type(unpack_exception(record.failure.exception)) is ArithmeticError  # type: ignore[union-attr]
    assert session.log.failures[dependent] == (None, f"dependency on run {failed}")
    assert session.driver.read(failed, kept) is POISON
    assert session.driver.read(dependent, out) is POISON
    assert session.driver.read(fine, out).tolist() == [4.0] * 4
    session.driver.drop([(failed, kept), (dependent, out)])  # of failed runs: dropped already


def test_a_value_that_cannot_travel_fails_its_run_and_is_named(open_session: Callable[..., Any], graphs: Any):
    session = open_session(InProcessExecutor(strict=True))
    g = graphs()
    g.keep(g.mul(0, 0))
    run = session.submit(g.graph(), SuppliedExternal(threading.Lock()))
    session.wait(run)
    record, _ = session.log.failures[run]
    assert "cannot travel" in record.failure.message


def test_an_impossible_placement_is_refused_at_submission(session: Any, graphs: Any):
    g = graphs()
    g.keep(g.mul(0, 0, pin=7))
    with pytest.raises(PlanError):
        session.submit(g.graph(), np.ones(4))


def test_ctrl_c_in_a_segment_is_raised_once_and_leaves_the_driver_usable(open_session: Callable[..., Any], graphs: Any):
    session = open_session(InProcessExecutor())
    g = graphs()
    g.keep(g.call(session.learn(Interrupted), 0))
    run = session.submit(g.graph(), np.ones(4))
    with pytest.raises(KeyboardInterrupt):
        session.wait(run)
    session.wait(run)
    assert session.log.failures[run] == (None, "cancelled")
    h = graphs()
    out = h.mul(0, 0)
    h.keep(out)
    assert session.driver.read(session.submit(h.graph(), np.ones(4)), out).tolist() == [1.0] * 4


def test_an_abandoned_run_is_not_run(open_session: Callable[..., Any], graphs: Any):
    session = open_session(InProcessExecutor(), window=1)
    g = graphs()
    g.keep(g.mul(0, 0))
    first, second = (session.submit(g.graph(), np.ones(4)) for _ in range(2))
    session.driver.abandon(second)
    session.wait(first)
    session.wait(second)
    assert session.log.failures == {second: (None, "abandoned")}


class FailuresLast(InProcessExecutor):
    """Reports what has failed only when there is nothing else to report, as an answer on another connection may."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.failures: list[Report] = []

    def poll(self, timeout: float) -> list[Report]:
        arrived = super().poll(timeout)
        failed = [one for one in arrived if isinstance(one, SegmentReturned) and one.record.status == "failed"]
        self.failures += failed
        others = [one for one in arrived if one not in failed]
        if not arrived:
            others, self.failures = self.failures, []
        return others


def test_a_value_that_was_skipped_is_not_looked_for_before_the_failure_is_known(
    open_session: Callable[..., Any], graphs: Any
):
    session = open_session(FailuresLast(2))
    g = graphs(shape=BIG)
    made = g.mul(g.call(session.learn(Broken), 0, pin=0), 0, pin=1)
    g.keep(made)
    run = session.submit(g.graph(), np.ones(BIG))
    assert session.driver.read(run, made) is POISON
    assert [one[:2] for one in session.log.told if one[0] == "failed"] == [("failed", run)]


class Mortal(InProcessExecutor):
    """Says that a worker is lost when told to."""

    lost: int = -1

    def poll(self, timeout: float) -> list[Report]:
        reports = super().poll(timeout)
        if self.lost >= 0:
            reports.append(WorkerGone(self.lost, "killed"))
            self.lost = -1
        return reports


def test_a_lost_worker_takes_along_what_was_pinned_there(open_session: Callable[..., Any], graphs: Any):
    executor = Mortal(2)
    session = open_session(executor)
    g = graphs(shape=BIG)
    gone, safe = g.mul(0, 0, pin=1), g.mul(0, 0, pin=0)
    g.keep(gone, safe)
    run = session.submit(g.graph(), np.ones(BIG))
    session.wait(run)
    executor.lost = 1
    session.driver.poll()
    assert session.driver.stays_on_worker(run, safe)
    assert not session.driver.stays_on_worker(run, gone)
    with pytest.raises(WorkerLost, match="worker 1"):
        session.driver.read(run, gone)
    assert session.driver.read(run, safe)[0] == 1.0
    h = graphs(shape=BIG)
    h.keep(h.mul(0, 0))
    second = session.submit(h.graph(), KeptExternal(run, gone))
    session.wait(second)
    assert session.log.failures[second][1] == "worker lost: worker 1 (killed)"


class Counting(InProcessExecutor):
    """Notes what it is given, what is unpinned by a call of its own, and what along with the call of a segment."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.alone: list[int] = []
        self.along: list[int] = []
        self.works: list[Any] = []

    def unpin(self, worker: int, values: Any) -> None:
        self.alone.append(worker)
        super().unpin(worker, values)

    def start(self, work: Any) -> None:
        self.works.append(work)
        if work.call.unpin:
            self.along.append(work.worker)
        super().start(work)


class Fetching(InProcessExecutor):
    """Notes what is fetched; its values are to be fetched before they are read, as those of other processes."""

    remote = True

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, worker: int, run: int, value: int, *rest: Any, **more: Any) -> None:
        self.fetched.append((run, value))
        super().fetch(worker, run, value, *rest, **more)


def test_values_that_were_read_are_fetched_ahead_in_later_runs_of_the_graph(
    open_session: Callable[..., Any], graphs: Any
):
    session = open_session(Fetching(2))
    fetched, driver = session.executor.fetched, session.driver

    def submitted() -> int:
        run = session.submit(graph, np.full(BIG, 3.0))
        session.wait(run)
        return run

    g = graphs(shape=BIG)
    first, second, third = (g.mul(0, 0, pin=worker) for worker in (0, 1, 1))
    g.keep(first, second, third)
    graph = g.graph()
    one = submitted()
    assert fetched == []
    assert [driver.read(one, value)[0] for value in (first, third)] == [9.0, 9.0]
    driver.drop([(one, value) for value in (first, second, third)])
    two = submitted()
    assert sorted(fetched[2:]) == [(two, first), (two, third)]
    assert [driver.read(two, value)[0] for value in (first, second)] == [9.0, 9.0]
    driver.drop([(two, value) for value in (first, second, third)])
    three = submitted()
    assert sorted(fetched[5:]) == [(three, first), (three, second)], "the third was fetched in vain"
    driver.drop([(three, value) for value in (first, second, third)])
    driver.poll()
    assert session.executor.stored_bytes() == 0
    fetched.clear()
    submitted()
    assert fetched == []


def test_samples_that_are_submitted_one_by_one_run_on_different_workers(open_session: Callable[..., Any], graphs: Any):
    session = open_session(Fetching(2))
    driver = session.driver
    driver.planner.use_costs(Costs(epoch=1, op_seconds=0.05))

    def sample(*total: Any) -> tuple[Any, int]:
        g = graphs(1 + len(total))
        value = g.mul(0, 0)
        for _ in range(3):
            value = g.mul(value, value)
        if total:
            value = g.mul(1, value)
        g.keep(value)
        return g.graph(), value

    first, out = sample()
    runs = [session.submit(first, np.full(4, 1.0))]
    for factor in (2.0, 3.0):
        graph, value = sample(out)
        runs.append(session.submit(graph, np.full(4, factor), KeptExternal(runs[-1], out)))
        out = value
    workers = [driver._runs[run].planned.plan.node_worker for run in runs]
    assert [set(some) for some in workers] == [{0}, {1}, {0}]
    assert driver.read(runs[-1], out).tolist() == [6.0**16] * 4


def test_it_is_remembered_of_the_latest_graphs_what_was_read():
    ahead = ReadAhead()
    ahead.of_graph(b"first").add(7)
    for number in range(GRAPHS_KEPT - 1):
        ahead.of_graph(bytes([number]))
    assert ahead.of_graph(b"first") == {7}
    for number in range(GRAPHS_KEPT):
        ahead.of_graph(bytes([number]))
    assert ahead.of_graph(b"first") == set()


def test_the_programs_of_what_follows_on_a_worker_are_known_with_its_first_call(
    open_session: Callable[..., Any], graphs: Any
):
    session = open_session(Counting(2))
    g = graphs()
    value = 0
    for worker in (0, 1, 0, 1):
        value = g.mul(value, value, pin=worker)
    g.keep(value)
    session.wait(session.submit(g.graph(), np.ones(4)))
    first, second, third, last = session.executor.works
    assert dict(first.upcoming()) == {third.call.program: third.program}
    assert dict(second.upcoming()) == {last.call.program: last.program}
    assert not dict(third.upcoming())


def test_what_is_unpinned_before_a_submission_goes_along_with_its_calls(open_session: Callable[..., Any], graphs: Any):
    executor = Counting(2)
    session = open_session(executor)
    g = graphs(shape=BIG)
    pinned = [g.mul(0, 0, pin=0), g.mul(0, 0, pin=1)]
    g.keep(*pinned)
    run = session.submit(g.graph(), np.ones(BIG))
    session.wait(run)
    session.driver.drop([(run, value) for value in pinned])
    session.driver.poll(submits=True)
    assert executor.alone == []
    h = graphs(shape=BIG)
    h.keep(h.mul(0, 0, pin=1))
    session.wait(session.submit(h.graph(), np.ones(BIG)))
    assert executor.along == [1]
    assert executor.alone == [0]  # nothing was submitted to that one


def test_what_is_dropped_with_a_submission_goes_along_with_its_calls(open_session: Callable[..., Any], graphs: Any):
    executor = Counting(2)
    session = open_session(executor)
    g = graphs(shape=BIG)
    pinned = [g.mul(0, 0, pin=0), g.mul(0, 0, pin=1)]
    g.keep(*pinned)
    run = session.submit(g.graph(), np.ones(BIG))
    session.wait(run)
    h = graphs(shape=BIG)
    h.keep(h.mul(0, 0, pin=1))
    second = session.submit(h.graph(), np.ones(BIG), dropped=[(run, value) for value in pinned])
    assert (executor.along, executor.alone) == ([1], [0])
    session.wait(second)
    assert [worker.host.pinned for worker in executor._workers] == [0, 1]


def test_what_is_dropped_with_a_submission_that_cannot_be_planned_is_dropped_all_the_same(
    open_session: Callable[..., Any], graphs: Any, monkeypatch: pytest.MonkeyPatch
):
    session = open_session(InProcessExecutor(1))
    g = graphs(shape=BIG)
    pinned = g.mul(0, 0)
    g.keep(pinned)
    run = session.submit(g.graph(), np.ones(BIG))
    session.wait(run)

    def refuse(*asked: Any) -> Any:
        raise PlanError("no worker can run it")

    with monkeypatch.context() as changed:
        changed.setattr(session.driver.planner, "plan", refuse)
        with pytest.raises(PlanError):
            session.submit(g.graph(), np.ones(BIG), dropped=[(run, pinned)])
    session.driver.poll()
    assert session.executor._workers[0].host.pinned == 0


# ---- waiting --------------------------------------------------------------------------------------------------------


def test_a_wait_ends_at_its_deadline_and_the_work_goes_on(open_session: Callable[..., Any], graphs: Any):
    GATE.clear()
    session = open_session(InProcessExecutor(2))
    g = graphs(shape=(200_000,))  # long enough to be given to the worker's own thread
    value = g.call(session.learn(Held, in_process=True), 0, pin=1)
    g.keep(value)
    run = session.submit(g.graph(), np.ones(200_000))
    with pytest.raises(WaitTimeout):
        session.wait(run, 0.01)
    GATE.set()
    session.wait(run)
    assert run not in session.log.failures


def test_waiting_for_what_nothing_can_bring_about_is_an_error_not_a_hang(session: Any):
    with pytest.raises(ExecutionError, match="nothing is running"):
        session.driver.wait(lambda: False)


def test_a_handler_may_use_the_session(session: Any, graphs: Any):
    g = graphs()
    out = g.mul(0, 0)
    g.keep(out)
    seen: list[Any] = []
    plain = session.log.record

    def record(called: TimedRecord, finished: bool) -> None:
        plain(called, finished)
        if called.record.run == 1:
            seen.append(session.driver.read(session.submit(g.graph(), np.full(4, 2.0)), out))

    session.log.record = record
    run = session.submit(g.graph(), np.ones(4))
    session.wait(run)
    assert seen[0].tolist() == [4.0] * 4


def test_a_record_tells_its_times_between_sending_and_coming(session: Any, graphs: Any):
    g = graphs()
    g.keep(g.mul(0, 0))
    before = session.driver._clock()
    run = session.submit(g.graph(), np.ones(4))
    session.wait(run)
    (record,) = session.log.records
    sent, came = session.log.times[run, record.segment]
    timing = record.timing
    assert before <= sent <= timing.began
    assert timing.began + timing.inputs + timing.steps + timing.outputs <= came <= session.driver._clock()


def test_a_record_tells_whether_somebody_was_waiting_and_what_the_call_cost(session: Any, graphs: Any):
    called: list[TimedRecord] = []
    plain = session.log.record
    session.log.record = lambda one, finished: (called.append(one), plain(one, finished))
    for run in (1, 2):
        g = graphs()
        g.keep(g.mul(0, 0))
        assert session.submit(g.graph(), np.ones(4)) == run
        if run == 1:
            session.wait(run)
        while not session.log.over(run):
            session.driver.poll()
    assert [one.record.run for one in called] == [1, 2]
    assert all(0 < one.spent < 60 for one in called)
    assert not called[1].awaited


def test_an_error_in_a_handler_is_raised_to_who_polls_and_loses_nothing(session: Any, graphs: Any):
    g = graphs()
    g.keep(g.mul(0, 0))
    plain = session.log.record

    def record(called: TimedRecord, finished: bool) -> None:
        plain(called, finished)
        session.log.record = plain
        raise LookupError("in a handler")

    session.log.record = record
    run = session.submit(g.graph(), np.ones(4))
    with pytest.raises(LookupError):
        session.wait(run)
    session.wait(run)
    assert session.log.told == [("record", run, 0), ("finished", run)]


def test_several_client_threads_may_use_one_driver(session: Any, graphs: Any):
    g = graphs()
    out = g.mul(g.mul(0, 0, pin=0), 0, pin=last(session))
    g.keep(out)
    submitting = threading.Lock()
    wrong: list[Any] = []

    def client(number: float) -> None:
        for _ in range(10):
            with submitting:
                run = session.submit(g.graph(), np.full(4, number))
            got = session.driver.read(run, out, session.driver._clock() + 30)
            if got.tolist() != [number**3] * 4:
                wrong.append(got)
            session.driver.drop([(run, out)])

    threads = [threading.Thread(target=client, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)


def test_a_closed_driver_takes_no_more(session: Any, graphs: Any):
    g = graphs()
    out = g.mul(0, 0)
    g.keep(out)
    run = session.submit(g.graph(), np.ones(4))
    session.driver.close()
    session.driver.close()
    assert session.driver.read(run, out) is POISON
    with pytest.raises(ExecutionError, match="closed"):
        session.submit(g.graph(), np.ones(4))


# ---- what is remembered ----------------------------------------------------------------------------------------------


def test_of_a_dropped_value_nothing_is_remembered_and_of_the_others_all(session: Any, graphs: Any):
    g = graphs()
    a, b = g.mul(0, 0), g.mul(0, 0)
    g.keep(a, b)
    run = session.submit(g.graph(), np.full(4, 3.0))
    session.wait(run)
    session.driver.drop([(run, a), (run, a)])
    session.driver.drop([(run, a), (run + 7, a)])
    known = session.driver._runs[run]
    assert (sorted(known.places), sorted(known.results)) == ([b], [b])
    assert session.driver.read(run, a) is POISON
    assert session.driver.read(run, b).tolist() == [9.0] * 4
    session.driver.drop([(run, b)])
    assert session.driver._runs == {}


def test_a_result_that_comes_after_its_value_was_dropped_is_not_kept(open_session: Callable[..., Any], graphs: Any):
    session = open_session(InProcessExecutor(2))
    g = graphs()
    a, b = g.mul(0, 0), g.mul(0, 0)
    g.keep(a, b)
    run = session.submit(g.graph(), np.ones(4))
    session.driver.drop([(run, a)])
    session.wait(run)
    assert sorted(session.driver._runs[run].results) == [b]


def test_an_object_that_was_made_to_read_a_value_is_forgotten_with_it(session: Any, graphs: Any):
    g = graphs(shape=BIG)
    a = g.mul(0, 0)
    g.keep(a)
    run = session.submit(g.graph(), np.ones(BIG))
    assert session.driver.read(run, a).shape == BIG
    assert len(session.driver._ready) == 1
    assert session.driver._runs[run].requested == {a}
    session.driver.drop([(run, a)])
    session.driver.poll()
    assert (session.driver._ready, session.driver._runs) == (set(), {})
    assert session.executor.stored_bytes() == 0


def test_of_a_lost_worker_no_calls_are_counted_and_nothing_is_unpinned(open_session: Callable[..., Any], graphs: Any):
    class Both(Mortal, Counting):
        """Notes what it is given, and loses a worker when told to."""

    executor = Both(2)
    session = open_session(executor)
    g = graphs(shape=BIG)
    gone, safe = g.mul(0, 0, pin=1), g.mul(0, 0, pin=0)
    g.keep(gone, safe)
    run = session.submit(g.graph(), np.ones(BIG))
    session.wait(run)
    assert set(session.driver._running.values()) == {0}
    session.driver._unpins[1] = []
    executor.lost = 1
    session.driver.poll()
    assert set(session.driver._running) == {0}
    assert session.driver._unpins == {}
    assert session.driver._runs[run].lost == {gone: 1}
    session.driver.drop([(run, gone), (run, safe)])
    session.driver.poll()
    assert session.driver._runs == {}
    assert executor.alone == [0]


def test_a_failed_run_is_forgotten_with_all_that_reads_from_it(session: Any, graphs: Any):
    g = graphs()
    out = g.call(session.learn(Broken), 0)
    g.keep(out)
    run = session.submit(g.graph(), np.ones(4))
    h = graphs()
    h.keep(after := h.mul(0, 0))
    second = session.submit(h.graph(), KeptExternal(run, out))
    session.wait(second)
    assert session.driver._runs == {}
    session.driver.drop([(run, out), (second, after)])
    assert session.driver.read(second, after) is POISON
    session.driver.wait(lambda: not session.executor.busy)
    assert set(session.driver._running.values()) == {0}


def test_a_run_whose_values_were_dropped_before_it_ended_is_forgotten_when_it_does(session: Any, graphs: Any):
    g = graphs()
    a = g.mul(0, 0)
    g.keep(a)
    run = session.submit(g.graph(), np.ones(4))
    session.driver.drop([(run, a)])
    assert list(session.driver._runs) == [run]
    session.wait(run)
    assert session.driver._runs == {}
