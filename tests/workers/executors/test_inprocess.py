from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import ExecutionError, WaitTimeout
from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.program import Call, Pinned, Program, Record
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import Planned, Planner
from raygrad.workers.code.shipping import ship
from raygrad.workers.executors.base import (
    ObjectId,
    SegmentId,
    SegmentReturned,
    ValueReady,
    Work,
    WorksWithdrawn,
    value_object,
)
from raygrad.workers.executors.heavy_calls import HeavyCalls
from raygrad.workers.executors.inprocess import InProcessExecutor
from raygrad.workers.values.packed_values import POISON

pytestmark = pytest.mark.filterwarnings("ignore:.*captures.*RAN_ON")

RAN_ON: list[Any] = []
"""Threads on which `Watched` ran. Used by reference only: a copy has a list of its own."""
GATE = threading.Event()
ENTERED = threading.Event()
MEETING = threading.Barrier(2)
ALONE = threading.Lock()
OVERLAPS: list[Any] = []


class Watched(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        RAN_ON.append(threading.current_thread())
        return Tensor(x.numpy() + 1)


class Waiting(Function):
    """Waits for the test to open the gate."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ENTERED.set()
        assert GATE.wait(20)
        return Tensor(x.numpy() + 1)


class Meeting(Function):
    """Waits for another run of itself."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        MEETING.wait(20)
        return Tensor(x.numpy() + 1)


class Counting(Function):
    """Notes the thread at its start, and whether another run had not ended."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        RAN_ON.append(threading.current_thread())
        if not ALONE.acquire(blocking=False):
            OVERLAPS.append(threading.current_thread())
        else:
            threading.Event().wait(0.01)
            ALONE.release()
        return Tensor(x.numpy() + 1)


class Light(HeavyCalls):
    """Takes every call to be light."""

    def is_heavy(self, key: bytes, predicted: float) -> bool:
        return False


class Interrupted(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        raise KeyboardInterrupt


class Broken(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        raise ArithmeticError("broken")


def planned(graph: Graph, workers: int = 1) -> Planned:
    return Planner(Cluster.of(workers)).plan(graph, (-1,) * len(graph.externals), encode_graph(graph))


def start(
    executor: InProcessExecutor, plan: Planned, segment: int, *externals: Any, run: int = 1, predicted: float = 0.0
) -> None:
    """Start one segment of a plan as the driver would."""
    given = plan.plan.segments[segment]
    call = Call(run, segment, 0, plan.plan.hash + bytes([segment]), tuple(externals[i] for i in given.externals))
    executor.start(
        Work(
            worker=given.worker,
            call=call,
            program=plan.programs[segment],
            arguments=tuple(ObjectId(run, *source) for source in given.imports),
            after=tuple(SegmentId(run, source) for source in given.after),
            predicted_seconds=predicted,
        )
    )


def records(executor: InProcessExecutor, count: int) -> list[Record]:
    """Poll until so many segments have returned."""
    found: list[Record] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        found.extend(report.record for report in executor.poll(1.0) if isinstance(report, SegmentReturned))
    return found


@pytest.fixture(autouse=True)
def _reset() -> None:
    RAN_ON.clear()
    OVERLAPS.clear()
    GATE.clear()
    ENTERED.clear()


@pytest.fixture(params=[False, True], ids=["plain", "strict"])
def strict(request: Any) -> bool:
    return request.param


def learn(executor: InProcessExecutor, function: Any, *, strict: bool = False) -> str:
    shipped = ship(function, in_process=not strict)
    executor.learn(shipped.fingerprint, shipped.shipment)
    return shipped.fingerprint


def test_a_segment_returns_its_record_and_its_objects(graphs: Any, strict: bool):
    g = graphs(2)
    g.keep(g.mul(0, 1), in_store=True)
    g.keep(g.mul(0, 0))
    executor = InProcessExecutor(strict=strict)
    start(executor, planned(g.graph()), 0, np.arange(4.0), np.full(4, 2.0))
    (record,) = records(executor, 1)
    assert record.status == "done"
    assert dict(record.results)[3].tolist() == [0, 1, 4, 9]
    (values,) = [executor.read(ObjectId(1, 0, 0), 1.0)]
    assert values[0].tolist() == [0, 2, 4, 6]
    assert executor.stored_bytes() == 32
    executor.drop(ObjectId(1, 0, 0))
    assert executor.stored_bytes() == 0
    with pytest.raises(ExecutionError, match="dropped"):
        executor.read(ObjectId(1, 0, 0), 1.0)
    executor.close()


def test_with_one_worker_segments_run_on_the_thread_that_waits(graphs: Any):
    executor = InProcessExecutor()
    g = graphs()
    g.keep(g.call(learn(executor, Watched), 0))
    start(executor, planned(g.graph()), 0, np.zeros(4), predicted=1.0)
    assert RAN_ON == []
    assert records(executor, 1)[0].status == "done"
    assert RAN_ON == [threading.current_thread()]
    executor.close()


def start_long_and_short(executor: InProcessExecutor, graphs: Any) -> None:
    """Start a long segment on worker 0, which ends once the gate is open, and then a short one on worker 1."""
    g = graphs()
    g.keep(g.call(learn(executor, Waiting), 0, pin=0), g.call(learn(executor, Watched), 0, pin=1))
    plan = planned(g.graph(), 2)
    assert [segment.worker for segment in plan.plan.segments] == [0, 1]
    start(executor, plan, 0, np.zeros(4), predicted=1.0)
    assert ENTERED.wait(20)
    start(executor, plan, 1, np.zeros(4))


def test_with_several_workers_a_long_segment_runs_on_its_worker_s_thread_a_short_one_here(graphs: Any):
    executor = InProcessExecutor(2)
    start_long_and_short(executor, graphs)
    assert [record.segment for record in records(executor, 1)] == [1]
    assert RAN_ON == [threading.current_thread()]
    GATE.set()
    assert [record.segment for record in records(executor, 1)] == [0]
    executor.close()


def test_a_worker_s_thread_runs_a_short_segment_after_its_long_one_while_nobody_waits(graphs: Any):
    executor = InProcessExecutor(2)
    start_long_and_short(executor, graphs)
    GATE.set()
    deadline = time.monotonic() + 20
    while not RAN_ON and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [(thread.name, thread.daemon) for thread in RAN_ON] == [("raygrad worker 0", True)]
    assert len(records(executor, 2)) == 2
    executor.close()


def test_with_several_workers_light_segments_run_on_the_thread_that_waits(graphs: Any):
    executor = InProcessExecutor(2)
    g = graphs()
    g.keep(g.mul(0, 0, pin=0), g.mul(0, 0, pin=1))
    plan = planned(g.graph(), 2)
    before = set(threading.enumerate())
    for segment in range(2):
        start(executor, plan, segment, np.zeros(4))
    assert executor.poll(0.0) == []  # a look runs nothing
    assert len(records(executor, 2)) == 2
    assert not [one for one in set(threading.enumerate()) - before if one.name.startswith("raygrad worker")]
    executor.close()


def test_user_code_stays_on_the_thread_that_waits_where_it_is_to(graphs: Any):
    executor = InProcessExecutor(2, user_threads=False)
    name = learn(executor, Watched)
    g = graphs()
    g.keep(g.call(name, 0, pin=0), g.mul(0, 0, pin=1), g.call(name, 0, pin=1))
    plan = planned(g.graph(), 2)
    for segment in range(len(plan.programs)):
        start(executor, plan, segment, np.zeros(4), predicted=1.0)
    g = graphs()
    g.keep(g.mul(0, 0, pin=0))
    start(executor, planned(g.graph(), 2), 0, np.zeros(4), predicted=1.0, run=2)
    assert len(records(executor, len(plan.programs) + 1)) == len(plan.programs) + 1
    assert set(RAN_ON) == {threading.current_thread()}
    executor.close()


def test_heavy_segments_of_two_workers_run_at_the_same_time(graphs: Any):
    executor = InProcessExecutor(2)
    name = learn(executor, Meeting)
    g = graphs()
    g.keep(g.call(name, 0, pin=0), g.call(name, 0, pin=1))
    plan = planned(g.graph(), 2)
    for run in (1, 2):
        for segment in range(2):
            start(executor, plan, segment, np.zeros(4), run=run)
        assert [record.status for record in records(executor, 2)] == ["done", "done"]
    executor.close()


def test_calls_taken_to_be_light_that_take_long_do_not_hold_up_other_workers(graphs: Any):
    executor = InProcessExecutor(3)
    name = learn(executor, Meeting)
    g = graphs()
    for worker in range(2):
        for _ in range(2):
            g.keep(g.call(name, 0, pin=worker))
    plan = planned(g.graph(), 3)
    segments = len(plan.programs)
    for run in range(1, 4):
        for segment in range(segments):
            start(executor, plan, segment, np.zeros(4), run=run)
        assert [record.status for record in records(executor, segments)] == ["done"] * segments
        executor._heavy = Light()
    executor.close()


def test_a_call_is_withdrawn_or_runs_never_both(graphs: Any):
    executor = InProcessExecutor(2)
    g = graphs()
    g.keep(g.call(learn(executor, Waiting), 0, pin=0), in_store=True)
    first = planned(g.graph(), 2)
    g = graphs()
    g.keep(g.mul(0, 0, pin=0), in_store=True)
    second = planned(g.graph(), 2)
    start(executor, first, 0, np.zeros(4), predicted=1.0)
    assert ENTERED.wait(20)
    start(executor, second, 0, np.zeros(4), run=2)
    executor.drop(ObjectId(2, 0, 0))
    executor.withdraw([(0, SegmentId(1, 0)), (0, SegmentId(2, 0)), (1, SegmentId(3, 0))])
    (report,) = executor.poll(1.0)
    assert isinstance(report, WorksWithdrawn)
    assert [work.call.run for work in report.works] == [2]
    GATE.set()
    assert [record.run for record in records(executor, 1)] == [1]
    assert not executor.busy
    with pytest.raises(ExecutionError, match="dropped, or never asked for"):
        executor.read(ObjectId(2, 0, 0), 1.0)
    executor.close()


def test_a_value_in_memory_is_fetched_while_its_worker_runs_something_else(graphs: Any):
    executor = InProcessExecutor(2)
    g = graphs()
    g.keep(g.mul(0, 0, pin=1))
    start(executor, planned(g.graph(), 2), 0, np.full(4, 3.0))
    assert len(records(executor, 1)) == 1
    g = graphs()
    g.keep(g.call(learn(executor, Waiting), 0, pin=1))
    start(executor, planned(g.graph(), 2), 0, np.zeros(4), run=2, predicted=1.0)
    assert ENTERED.wait(20)
    executor.fetch(1, 1, 1, SegmentId(1, 0))
    assert executor.poll(0.0) == [ValueReady(1, 1, True, 32)]
    assert executor.read(value_object(1, 1), 1.0)[0].tolist() == [9.0] * 4
    GATE.set()
    assert len(records(executor, 1)) == 1
    executor.close()


def test_segments_that_change_what_they_capture_keep_the_order_given(graphs: Any):
    executor = InProcessExecutor(3)
    name = learn(executor, Counting)
    g = graphs()
    for worker in (1, 0, 2, 1):
        g.keep(g.call(name, 0, pin=worker))
    plan = planned(g.graph(), 3)
    order = [segment.worker for segment in plan.plan.segments]
    for segment in range(len(order)):
        start(executor, plan, segment, np.zeros(4), predicted=1.0)
    assert len(records(executor, len(order))) == len(order)
    ran = [worker for segment in plan.plan.segments for worker in [segment.worker] * len(segment.nodes)]
    assert [thread.name for thread in RAN_ON] == [f"raygrad worker {worker}" for worker in ran]
    assert OVERLAPS == []
    executor.close()


def test_code_that_changes_what_it_captures_is_not_withdrawn_nor_is_what_it_waits_for(graphs: Any):
    executor = InProcessExecutor(2)
    g = graphs()
    g.keep(g.call(learn(executor, Waiting), 0, pin=0), in_store=True)
    start(executor, planned(g.graph(), 2), 0, np.zeros(4), predicted=1.0)
    assert ENTERED.wait(20)
    g = graphs()
    read = g.call(learn(executor, Counting), g.mul(0, 0, pin=0), pin=1)
    g.keep(g.mul(read, read, pin=0))
    plan = planned(g.graph(), 2)
    assert [segment.worker for segment in plan.plan.segments] == [0, 1, 0]
    for segment in range(3):
        start(executor, plan, segment, np.zeros(4), run=2, predicted=1.0)
    executor.withdraw([(0, SegmentId(2, 0)), (1, SegmentId(2, 1)), (0, SegmentId(2, 2))])
    (report,) = executor.poll(1.0)
    assert isinstance(report, WorksWithdrawn)
    assert [work.call.segment for work in report.works] == [2]
    GATE.set()
    assert sorted([(one.run, one.segment) for one in records(executor, 3)]) == [(1, 0), (2, 0), (2, 1)]
    assert not executor.busy
    executor.close()


def test_a_segment_waits_for_what_it_reads_from_another_worker(graphs: Any, strict: bool):
    executor = InProcessExecutor(2, strict=strict)
    g = graphs()
    a = g.mul(0, 0, pin=1)
    b = g.mul(a, a, pin=0)
    g.keep(g.mul(b, b, pin=1))
    plan = planned(g.graph(), 2)
    assert len(plan.programs) == 3
    for segment in range(3):
        start(executor, plan, segment, np.full(4, 2.0), predicted=1.0)
    assert [record.segment for record in records(executor, 3)] == [0, 1, 2]
    assert executor.read(ObjectId(1, 1, 0), 1.0)[0].tolist() == [16.0] * 4
    executor.close()


def test_a_segment_waits_for_the_one_that_pins_what_it_reads(graphs: Any):
    executor = InProcessExecutor(2)
    g = graphs()
    g.keep(g.call(learn(executor, Waiting), 0, pin=1))
    first = planned(g.graph(), 2)
    start(executor, first, 0, np.zeros(4), predicted=1.0)
    assert ENTERED.wait(20)
    executor.fetch(1, 1, 2, SegmentId(1, 0))
    assert executor.poll(0.0) == []
    assert executor.poll(0.0) == []
    GATE.set()
    reports = executor.poll(20.0) + executor.poll(0.5)
    assert [type(report) for report in reports] == [SegmentReturned, ValueReady]
    assert executor.read(value_object(1, 2), 1.0)[0].tolist() == [1.0] * 4
    executor.close()


def test_looking_once_runs_nothing_looking_again_does(graphs: Any):
    """`poll(0)` is for submission points; but a loop over it must get on."""
    executor = InProcessExecutor()
    g = graphs()
    g.keep(g.mul(0, 0))
    start(executor, planned(g.graph()), 0, np.zeros(4))
    assert executor.poll(0.0) == []
    assert len(executor.poll(0.0)) == 1
    executor.close()


def test_poison_skips_what_reads_it(graphs: Any, strict: bool):
    executor = InProcessExecutor(2, strict=strict)
    g = graphs()
    bad = g.call(learn(executor, Broken, strict=strict), 0, pin=0)
    g.keep(g.mul(bad, bad, pin=1))
    plan = planned(g.graph(), 2)
    for segment in range(2):
        start(executor, plan, segment, np.zeros(4))
    first, second = records(executor, 2)
    assert (first.status, second.status) == ("failed", "skipped")
    assert first.failure is not None
    assert (first.failure.type, first.failure.node) == ("ArithmeticError", "Broken")
    assert executor.read(ObjectId(1, 0, 0), 1.0) is POISON
    executor.close()


def test_an_interrupt_ends_the_segment_is_raised_here_and_leaves_the_executor_usable(graphs: Any):
    executor = InProcessExecutor()
    g = graphs()
    g.keep(g.call(learn(executor, Interrupted), 0))
    start(executor, planned(g.graph()), 0, np.zeros(4))
    with pytest.raises(KeyboardInterrupt):
        executor.poll(1.0)
    (record,) = records(executor, 1)
    assert record.failure is not None
    assert (record.status, record.failure.type) == ("failed", "KeyboardInterrupt")
    g = graphs()
    g.keep(g.mul(0, 0))
    start(executor, planned(g.graph()), 0, np.zeros(4), run=2)
    assert records(executor, 1)[0].status == "done"
    executor.close()


def test_a_value_that_was_never_pinned_cannot_be_fetched(graphs: Any):
    executor = InProcessExecutor()
    executor.fetch(0, 1, 2, None)
    assert executor.poll(1.0) == [ValueReady(1, 2, False, 0, "it was never made")]
    assert executor.read(value_object(1, 2), 1.0) is POISON
    executor.close()


def test_a_pinned_value_that_cannot_be_restored_is_reported_with_the_reason(graphs: Any, monkeypatch: Any):
    g = graphs()
    g.keep(g.mul(0, 0))
    executor = InProcessExecutor(strict=True)
    start(executor, planned(g.graph()), 0, np.ones(4))
    records(executor, 1)

    def broken(run: int, value: int) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(executor._workers[0].host, "fetch", broken)
    executor.fetch(0, 1, 1, None)
    (report,) = executor.poll(1.0)
    assert isinstance(report, ValueReady)
    assert not report.ok
    assert "OSError" in report.reason
    assert not executor.busy
    executor.close()


def test_pinned_values_are_forgotten_on_request(graphs: Any):
    executor = InProcessExecutor()
    g = graphs()
    g.keep(g.mul(0, 0))
    start(executor, planned(g.graph()), 0, np.zeros(4))
    records(executor, 1)
    executor.unpin(0, [Pinned(1, 1)])
    executor.fetch(0, 1, 1, None)
    assert not executor.poll(1.0)[0].ok  # type: ignore[union-attr]
    executor.close()


def test_an_object_dropped_before_it_is_made_is_never_stored(graphs: Any):
    executor = InProcessExecutor()
    g = graphs()
    g.keep(g.mul(0, 0), in_store=True)
    start(executor, planned(g.graph()), 0, np.zeros(4))
    executor.drop(ObjectId(1, 0, 0))
    records(executor, 1)
    assert executor.stored_bytes() == 0
    executor.close()


def test_reading_past_the_deadline_is_an_error(graphs: Any):
    executor = InProcessExecutor(2)
    g = graphs()
    g.keep(g.call(learn(executor, Waiting), 0, pin=1), in_store=True)
    start(executor, planned(g.graph(), 2), 0, np.zeros(4), predicted=1.0)
    with pytest.raises(WaitTimeout):
        executor.read(ObjectId(1, 0, 0), 0.01)
    GATE.set()
    assert executor.read(ObjectId(1, 0, 0), 20.0)[0].tolist() == [1.0] * 4
    executor.close()


def test_blas_threads_are_limited_while_work_is_under_way_and_restored_after(graphs: Any):
    libraries = [one for one in ThreadpoolController().lib_controllers if one.user_api == "blas"]
    before = [one.get_num_threads() for one in libraries]
    for one in libraries:
        one.set_num_threads(4)
    try:
        executor = InProcessExecutor()
        g = graphs()
        g.keep(g.mul(0, 0))
        start(executor, planned(g.graph()), 0, np.zeros(4))
        assert {one.get_num_threads() for one in libraries} == {1}
        records(executor, 1)
        assert {one.get_num_threads() for one in libraries} == {4}
        start(executor, planned(g.graph()), 0, np.zeros(4), run=2)
        executor.close()
        assert {one.get_num_threads() for one in libraries} == {4}
    finally:
        for one, threads in zip(libraries, before, strict=True):
            one.set_num_threads(threads or 1)


def test_in_process_arguments_are_the_client_s_own_arrays_in_strict_mode_copies(graphs: Any, strict: bool):
    executor = InProcessExecutor(strict=strict)
    g = graphs()
    g.keep(0)
    program = Program(1, g.specs, ((0, 0),), (), (), (), ((0,),), (), ())
    array = np.ones(4)
    executor.start(Work(worker=0, call=Call(1, 0, 0, b"k", (array,)), program=program, arguments=(), after=()))
    records(executor, 1)
    (value,) = executor.read(ObjectId(1, 0, 0), 1.0)
    assert (value is array) is not strict
    executor.close()


def test_unknown_arguments_and_use_after_close_are_errors(graphs: Any):
    executor = InProcessExecutor()
    g = graphs()
    g.keep(g.mul(0, 0))
    plan = planned(g.graph())
    work = Work(
        worker=0, call=Call(1, 0, 0, b"k", ()), program=plan.programs[0], arguments=(ObjectId(9, 9, 9),), after=()
    )
    with pytest.raises(ExecutionError, match="dropped, or never asked for"):
        executor.start(work)
    executor.close()
    executor.close()
    with pytest.raises(ExecutionError, match="closed"):
        start(executor, plan, 0, np.zeros(4))


def test_closing_ends_the_threads_of_workers(graphs: Any):
    executor = InProcessExecutor(2)
    g = graphs()
    g.keep(g.call(learn(executor, Watched), 0, pin=1))
    start(executor, planned(g.graph(), 2), 0, np.zeros(4), predicted=1.0)
    records(executor, 1)
    (thread,) = RAN_ON
    executor.close()
    assert not thread.is_alive()


def test_closing_while_heavy_segments_run_does_not_wait_for_them_for_ever(graphs: Any):
    executor = InProcessExecutor(2)
    name = learn(executor, Waiting)
    g = graphs()
    g.keep(g.call(name, 0, pin=0), g.call(name, 0, pin=1))
    plan = planned(g.graph(), 2)
    for segment in range(2):
        start(executor, plan, segment, np.zeros(4), predicted=1.0)
    assert ENTERED.wait(20)
    opening = threading.Timer(0.1, GATE.set)
    opening.start()
    executor.close()
    opening.join()
    assert {report.record.status for report in executor.poll(1.0) if isinstance(report, SegmentReturned)} <= {"done"}
    assert not executor.busy


def test_every_worker_is_this_process():
    import os

    executor = InProcessExecutor(3)
    assert executor.pids() == (os.getpid(),) * 3
    assert not executor.busy
    executor.close()
