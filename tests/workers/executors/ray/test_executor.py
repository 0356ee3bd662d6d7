from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import ExecutionError, WaitTimeout, WorkerLost
from raygrad.proto.ir.program import INLINE_RESULT_BYTES
from raygrad.workers.code.shipping import unpack_exception
from raygrad.workers.executors.calls import KeptExternal, SuppliedExternal
from raygrad.workers.executors.ray.actor_processes import is_alive
from raygrad.workers.executors.ray.connection import store_statistics
from raygrad.workers.executors.ray.executor import RayExecutor
from raygrad.workers.values.packed_values import POISON

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs raygrad[ray]")
pytestmark = [pytest.mark.ray, needs_ray]

BIG = (INLINE_RESULT_BYTES // 8 + 1,)
LARGE = (200_000,)
"""A shape whose arrays are too large to live in their owner's memory: they are in the store."""


class Diverged(ArithmeticError):
    pass


class Pid(Function):
    """Returns the process that it ran in."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return Tensor(np.full(4, float(os.getpid())))


class Raises(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        raise Diverged("at step 3")


class Leaves(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        sys.exit(3)


class Sleeps(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        time.sleep(float(x.numpy()[0]))
        return Tensor(x.numpy() + 1)


class Imports(Function):
    """Tells how many rooms of raygrad are found under their bare names: `proto` may be another project's."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        import importlib.util

        import raygrad.proto

        root = Path(raygrad.proto.__file__).resolve().parents[1]
        specs = [importlib.util.find_spec(name) for name in ("autograd", "proto", "scheduler", "workers")]
        origins = [Path(spec.origin).resolve() for spec in specs if spec is not None and spec.origin is not None]
        return Tensor(np.full(4, float(sum(origin.parents[1] == root for origin in origins))))


@pytest.fixture
def session(ray_started: None, share_session: Callable[..., Any]) -> Any:
    return share_session(lambda: RayExecutor("ray", 2))


def emptied(bytes_allowed: int = 0) -> bool:
    """Wait until Ray's statistics show an empty store: they lag by some tenths of a second."""
    deadline = time.monotonic() + 5
    while store_statistics()["bytes_used"] > bytes_allowed and time.monotonic() < deadline:
        time.sleep(0.02)
    return store_statistics()["bytes_used"] <= bytes_allowed


def settled(session: Any) -> bool:
    """Wait until all calls are answered, those too that failed with a worker."""
    deadline = time.monotonic() + 10
    while session.executor.busy and time.monotonic() < deadline:
        session.driver.poll(0.1)
    return not session.executor.busy


# ---- running --------------------------------------------------------------------------------------------------------


def test_segments_run_in_processes_of_their_own_and_hand_values_to_each_other(session: Any, graphs: Any):
    name = session.learn(Pid)
    g = graphs()
    first, second = g.call(name, 0, pin=0), g.call(name, 0, pin=1)
    product = g.mul(first, second, pin=0)
    g.keep(first, second, product)
    run = session.submit(g.graph(), np.ones(4))
    pids = [int(session.driver.read(run, value)[0]) for value in (first, second)]
    assert tuple(pids) == session.executor.pids()
    assert os.getpid() not in pids
    assert session.driver.read(run, product)[0] == float(pids[0]) * pids[1]
    assert len(set(session.executor.node_ids())) == 1


def test_values_of_all_sizes_come_back_and_nothing_stays_in_the_store(session: Any, graphs: Any):
    for shape in ((4,), BIG, LARGE):
        g = graphs(shape=shape)
        pinned, stored = g.mul(0, 0, pin=1), g.mul(0, 0, pin=0)
        crossed = g.mul(pinned, stored, pin=0)
        g.keep(pinned, crossed)
        g.keep(stored, in_store=True)
        run = session.submit(g.graph(), np.full(shape, 3.0))
        values = [session.driver.read(run, value) for value in (pinned, stored, crossed)]
        assert [value[-1] for value in values] == [9.0, 9.0, 81.0]
        if shape == LARGE:
            assert store_statistics()["bytes_used"] >= 8 * LARGE[0]
        session.driver.drop([(run, value) for value in (pinned, stored, crossed)])
        session.driver.poll()
        assert emptied(), "what the client has read must not hold its place in the store"
        assert session.executor.stored_bytes() == 0
    assert len(session.executor._objects) == 0
    assert not any(channel.in_flight for channel in session.executor._channels)


def test_the_store_s_bytes_are_told_at_once_where_it_holds_what_is_held(
    session: Any, graphs: Any, monkeypatch: pytest.MonkeyPatch
):
    g = graphs(shape=LARGE)
    kept = [g.mul(0, 0, pin=0), g.mul(0, 0, pin=1)]
    g.keep(*kept, in_store=True)
    run = session.submit(g.graph(), np.full(LARGE, 3.0))
    session.wait(run)
    assert session.executor.stored_bytes() >= 2 * 8 * LARGE[0]
    asked: list[int] = []

    def counted() -> dict[str, int]:
        asked.append(1)
        return store_statistics()

    monkeypatch.setattr("raygrad.workers.executors.ray.executor.store_statistics", counted)
    assert session.executor.stored_bytes() >= 2 * 8 * LARGE[0]
    assert len(asked) == 1, "what surrounds arrays in the store is not something that will go"


def test_a_later_run_reads_kept_values_of_either_worker(session: Any, graphs: Any):
    g = graphs(shape=BIG)
    kept = [g.mul(0, 0, pin=0), g.mul(0, 0, pin=1)]
    g.keep(*kept)
    first = session.submit(g.graph(), np.full(BIG, 2.0))
    h = graphs(2, shape=BIG)
    out = h.mul(0, 1, pin=0)
    h.keep(out)
    second = session.submit(h.graph(), KeptExternal(first, kept[0]), KeptExternal(first, kept[1]))
    assert session.driver.read(second, out)[0] == 16.0


def test_a_late_argument_does_not_hold_up_independent_calls(session: Any, graphs: Any):
    """H13: an actor that runs in order would keep the second run waiting for the first one's argument."""
    g = graphs()
    late = g.call(session.learn(Sleeps), 0, pin=1)
    g.keep(g.mul(late, late, pin=0))
    slow = session.submit(g.graph(), np.full(4, 3.0))
    h = graphs()
    out = h.mul(0, 0, pin=0)
    h.keep(out)
    quick = session.submit(h.graph(), np.full(4, 2.0))
    assert session.driver.read(quick, out).tolist() == [4.0] * 4
    assert not session.log.over(slow)
    session.wait(slow)


def test_ray_which_takes_less_than_a_millisecond_for_none_is_asked_to_wait_for_whole_ones(
    session: Any, graphs: Any, monkeypatch: pytest.MonkeyPatch
):
    name = session.learn(Sleeps)
    g = graphs()
    slow = g.call(name, 0, pin=0)
    g.keep(slow)
    session.wait(session.submit(g.graph(), np.zeros(4)))
    run = session.submit(g.graph(), np.full(4, 0.5))
    asked: list[float] = []
    wait = session.executor._ray.wait

    def counted(*args: Any, timeout: float, **options: Any) -> Any:
        asked.append(timeout)
        return wait(*args, timeout=timeout, **options)

    monkeypatch.setattr(session.executor._ray, "wait", counted)
    for part in (0.0004, 0.0029, 0.0087):
        with pytest.raises(WaitTimeout):
            session.driver.read(run, slow, deadline=time.monotonic() + part)
    assert min(timeout for timeout in asked if timeout > 0) >= 0.001, "else it is asked again and again meanwhile"
    monkeypatch.undo()
    assert session.driver.read(run, slow)[0] == 1.5


def test_calls_of_one_worker_that_depend_by_pins_keep_their_order(session: Any, graphs: Any):
    name = session.learn(Sleeps)
    g = graphs()
    slow = g.call(name, 0, pin=0)
    g.keep(slow)
    first = session.submit(g.graph(), np.full(4, 0.3))
    h = graphs()
    out = h.mul(0, 0)
    h.keep(out)
    second = session.submit(h.graph(), KeptExternal(first, slow))
    assert session.driver.read(second, out).tolist() == [1.3 * 1.3] * 4


def test_short_calls_that_follow_each_other_go_together_and_each_has_its_own_record(
    session: Any, graphs: Any, monkeypatch: pytest.MonkeyPatch
):
    g = graphs()
    out = g.mul(0, 0, pin=0)
    g.keep(out)
    first = session.submit(g.graph(), np.full(4, 1.5))
    session.wait(session.submit(g.graph(), KeptExternal(first, out)))  # what is short has to be known
    messages: list[int] = []
    channel = session.executor._channels[0]
    asked = channel._on_sent

    def counted(reference: Any, number: int, what: Any) -> None:
        messages.append(len(what))
        asked(reference, number, what)

    monkeypatch.setattr(channel, "_on_sent", counted)
    before = len(session.log.records)
    runs = [first]
    for _ in range(6):
        runs.append(session.submit(g.graph(), KeptExternal(runs[-1], out)))
    del runs[0]
    assert session.driver.read(runs[-1], out).tolist() == [1.5**128] * 4
    assert sum(messages) == 6
    assert max(messages) > 1
    for run in runs:  # a message may be answered before an earlier one: the worker's threads end when they do
        session.wait(run)
    assert sorted(record.run for record in session.log.records[before:]) == runs


def test_what_was_held_back_is_sent_without_anybody_waiting(session: Any, graphs: Any):
    g = graphs()
    out = g.mul(0, 0, pin=0)
    g.keep(out)
    session.wait(session.submit(g.graph(), np.ones(4)))
    slow = graphs()
    slow.keep(slow.call(session.learn(Sleeps), 0, pin=0))
    for seconds in (0.2, 0.2):
        session.submit(slow.graph(), np.full(4, seconds))
    held = session.submit(g.graph(), np.ones(4))
    channel = session.executor._channels[0]
    assert channel.batch is not None
    deadline = time.monotonic() + 10
    while channel.batch is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert channel.batch is None
    session.wait(held)


def test_what_follows_a_call_whose_argument_was_lost_is_skipped_and_its_worker_goes_on(session: Any, graphs: Any):
    """The worker never hears of the first of them, and must not wait for it."""
    name = session.learn(Sleeps)
    g = graphs()
    late = g.call(name, 0, pin=1)
    pinned = g.mul(late, late, pin=0)
    g.keep(pinned)
    first = session.submit(g.graph(), np.full(4, 60.0))
    h = graphs()
    out = h.mul(0, 0, pin=0)
    h.keep(out)
    second = session.submit(h.graph(), KeptExternal(first, pinned))
    session.driver.poll(0.3)
    os.kill(session.executor.pids()[1], signal.SIGKILL)
    for run in (first, second):
        session.wait(run, 10.0)
        assert run in session.log.failures
    k = graphs()
    other = k.mul(0, 0, pin=0)
    k.keep(other)
    assert session.driver.read(session.submit(k.graph(), np.full(4, 3.0)), other).tolist() == [9.0] * 4
    assert settled(session), "all calls are answered, the late ones too"


def test_a_plan_is_shipped_once(session: Any, graphs: Any):
    class Own(Pid):
        """No other test's."""

    channel = session.executor._channels[0]
    programs, code = set(channel.programs), set(channel.code)
    g = graphs()
    out = g.call(session.learn(Own), 0, pin=0)
    g.keep(out)
    for _ in range(3):
        session.wait(session.submit(g.graph(), np.ones(4)))
    assert len(set(channel.programs) - programs) == 1
    assert len(set(channel.code) - code) == 1


def test_a_large_constant_is_put_into_the_store_once_while_it_lives(session: Any, graphs: Any):
    g = graphs(shape=LARGE)
    out = g.mul(0, 0)
    g.keep(out)
    constant = np.full(LARGE, 2.0)
    constant.flags.writeable = False
    for _ in range(3):
        run = session.submit(g.graph(), constant)
        assert session.driver.read(run, out)[0] == 4.0
        session.driver.drop([(run, out)])
    assert session.executor.constant_bytes == constant.nbytes
    session.driver.poll()
    assert emptied(constant.nbytes + 4096)
    del constant
    gc.collect()  # the codec's writer refers to itself, and so holds what it wrote until the collector comes round
    assert session.executor.constant_bytes == 0
    assert emptied()


def test_rooms_cannot_be_imported_under_their_bare_names(session: Any, graphs: Any):
    g = graphs()
    out = g.call(session.learn(Imports), 0)
    g.keep(out)
    assert session.driver.read(session.submit(g.graph(), np.ones(4)), out)[0] == 0.0


# ---- failures -------------------------------------------------------------------------------------------------------


def test_an_exception_of_the_user_s_own_class_comes_back_as_that_class(session: Any, graphs: Any):
    g = graphs()
    bad = g.call(session.learn(Raises), 0, pin=1)
    kept = g.mul(bad, bad, pin=0)
    g.keep(kept)
    run = session.submit(g.graph(), np.ones(4))
    session.wait(run)
    record, reason = session.log.failures[run]
    error = unpack_exception(record.failure.exception)
    assert type(error) is Diverged
    assert (error.args, record.failure.node, reason) == (("at step 3",), "Raises", "raised")
    assert session.driver.read(run, kept) is POISON


def test_code_that_calls_exit_fails_its_run_and_leaves_the_worker(session: Any, graphs: Any):
    g = graphs()
    g.keep(g.call(session.learn(Leaves), 0, pin=1))
    run = session.submit(g.graph(), np.ones(4))
    session.wait(run)
    assert session.log.failures[run][0].failure.type == "SystemExit"
    h = graphs()
    out = h.mul(0, 0, pin=1)
    h.keep(out)
    assert session.driver.read(session.submit(h.graph(), np.ones(4)), out)[0] == 1.0


def test_a_value_that_cannot_travel_fails_its_run(session: Any, graphs: Any):
    g = graphs()
    g.keep(g.mul(0, 0))
    run = session.submit(g.graph(), SuppliedExternal(one for one in ()))
    session.wait(run)
    assert "generator" in session.log.failures[run][0].failure.message


def test_a_killed_worker_ends_its_runs_within_ten_seconds_and_never_hangs(session: Any, graphs: Any):
    name = session.learn(Sleeps)
    g = graphs(shape=BIG)
    kept = g.mul(0, 0, pin=1)
    g.keep(kept)
    before = session.submit(g.graph(), np.ones(BIG))
    session.wait(before)
    h = graphs()
    long = h.call(name, 0, pin=1)
    h.keep(h.mul(long, long, pin=0))
    running = session.submit(h.graph(), np.full(4, 60.0))
    queued = session.submit(h.graph(), np.full(4, 60.0))
    k = graphs()
    other = k.mul(0, 0, pin=0)
    k.keep(other)
    session.driver.poll(0.3)
    os.kill(session.executor.pids()[1], signal.SIGKILL)
    started = time.monotonic()
    for run in (running, queued):
        session.wait(run, 10.0)
        record, reason = session.log.failures[run]
        assert record is None
        assert reason.startswith("worker lost: worker 1")
    assert time.monotonic() - started < 10
    with pytest.raises(WorkerLost, match="worker 1"):
        session.driver.read(before, kept, session.driver._clock() + 10)
    assert session.driver.read(session.submit(k.graph(), np.full(4, 3.0)), other).tolist() == [9.0] * 4
    assert settled(session)


def test_what_a_dead_worker_had_returned_survives_it(session: Any, graphs: Any):
    g = graphs(shape=LARGE)
    stored = g.mul(0, 0, pin=1)
    g.keep(stored, in_store=True)
    run = session.submit(g.graph(), np.full(LARGE, 2.0))
    session.wait(run)
    os.kill(session.executor.pids()[1], signal.SIGKILL)
    assert session.driver.read(run, stored)[0] == 4.0


# ---- starting and closing -------------------------------------------------------------------------------------------


def test_close_ends_the_worker_processes_and_leaves_a_ray_that_was_running(
    ray_started: None, open_session: Callable[..., Any]
):
    import ray

    executor = RayExecutor("ray", 2)
    pids = executor.pids()
    executor.close()
    executor.close()
    assert not any(map(is_alive, pids))
    assert ray.is_initialized()
    with pytest.raises(ExecutionError, match="closed"):
        executor.fetch(0, 1, 1, None)


def test_options_reach_ray(ray_started: None, graphs: Any, open_session: Callable[..., Any]):
    class Reads(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return Tensor(np.full(4, float(os.environ["RAYGRAD_TEST"])))

    environment = {"env_vars": {"RAYGRAD_TEST": "7"}}
    session = open_session(RayExecutor("ray", 1, runtime_env=environment, worker_options={"num_cpus": 0.5}))
    g = graphs()
    out = g.call(session.learn(Reads), 0)
    g.keep(out)
    assert session.driver.read(session.submit(g.graph(), np.ones(4)), out)[0] == 7.0


@pytest.mark.ray
def test_links_are_measured_between_workers_that_answer(ray_started: None):
    executor = RayExecutor("ray", 2)
    try:
        figures = executor.links()
        (host,) = {worker.host for worker in executor.cluster.workers}
        assert host == executor.host
        assert executor.cluster.workers[0].resources == (("num_cpus", 1.0),)
        assert figures["links"].keys() == {(host, host)}
        assert all(figures[name] > 0 for name in ("hop_seconds", "bandwidth", "call_seconds", "submit_seconds"))
    finally:
        executor.close()
