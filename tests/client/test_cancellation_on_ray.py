"""Cancelled runs on Ray: workers are idle afterwards, by interrupts or replaced, and the session goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from tests.client.cancelling import SECONDS, Sleeps, Spins, SpinsBack, Stubborn, check_idle, later, learn

import raygrad as rg
from raygrad.client.session.session import executor_of
from raygrad.errors import DroppedError, RunCancelled

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def session(ray_started: Any) -> Any:
    session = rg.Session("ray", workers=2)
    yield session
    session.close(discard=True)


@pytest.fixture
def recording(session: Any) -> Any:
    """Make the module's session ambient for one test, and leave it open."""
    from raygrad.autograd.core.modes import state

    state.recorder = session._recorder
    yield session
    state.recorder = None


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_interrupts_user_code_on_all_workers_and_keeps_them(recording: Any) -> None:
    learn(Spins)
    pids = executor_of(recording).pids()
    kept = rg.ones(1000) * 3.0
    recording.run(kept).wait()
    values = [Spins.apply(rg.ones(3) * index, SECONDS) for index in range(6)]
    recording.run(*values)
    thread = later(0.5, interrupt)
    with pytest.raises(KeyboardInterrupt):
        values[0].tolist()
    thread.join()
    assert Spins.apply(rg.ones(3), 0.0).tolist() == [2.0] * 3
    for value in values:
        with pytest.raises(RunCancelled):
            value.tolist()
    assert kept.tolist() == [3.0] * 1000
    check_idle(recording)
    assert executor_of(recording).pids() == pids


def test_a_run_that_waits_behind_another_is_cancelled_and_that_one_goes_on(recording: Any) -> None:
    learn(Spins)
    with rg.place(worker=0):
        first = Spins.apply(rg.ones(3), 1.0)
        running = recording.run(first)
        second = Spins.apply(rg.ones(3), SECONDS)
        behind = recording.run(second)
    assert behind.cancel()
    assert first.tolist() == [2.0] * 3
    assert running.wait().finished
    with pytest.raises(RunCancelled):
        second.tolist()
    check_idle(recording)


def test_cancelling_in_backward_and_while_fetching_frees_what_was_stored(recording: Any) -> None:
    learn(SpinsBack)
    objects = cast("Any", executor_of(recording))._objects
    recording._submitter.release_dropped()
    before = len(objects)
    SpinsBack.apply(rg.ones(50_000, requires_grad=True), 0.0).sum().backward()
    w = rg.ones(50_000, requires_grad=True)
    loss = SpinsBack.apply(w, SECONDS).sum()
    assert loss.item() == 100_000.0
    loss.backward()
    thread = later(0.5, recording.cancel)
    with pytest.raises(RunCancelled):  # whether a gradient is defined is waited for
        w.grad  # noqa: B018
    thread.join()
    assert w.grad is None
    del loss
    check_idle(recording)
    recording._submitter.release_dropped()
    recording._waiter.poll()
    assert len(objects) == before
    assert recording.saved_bytes == 0


def test_a_worker_that_does_not_stop_is_replaced_and_what_lived_elsewhere_stays(recording: Any) -> None:
    learn(Sleeps)
    pids = executor_of(recording).pids()
    with rg.place(worker=1):
        stays = rg.ones(100_000) * 3.0
    with rg.place(worker=0):
        goes = rg.ones(100_000) * 5.0
    recording.run(stays, goes).wait()
    with rg.place(worker=0):
        slow = Sleeps.apply(rg.ones(3), SECONDS)
    run = recording.run(slow)
    time.sleep(0.5)
    assert run.cancel()
    assert not run.cancel()
    assert stays.numpy()[0] == 3.0
    with pytest.raises(RunCancelled):
        slow.tolist()
    with rg.place(worker=0):
        again = Sleeps.apply(rg.ones(3), 0.0)
    assert again.tolist() == [2.0] * 3
    after = executor_of(recording).pids()
    assert after[1] == pids[1]
    assert after[0] not in pids
    check_idle(recording)


def test_code_that_takes_no_notice_of_one_interrupt_is_ended_after_its_node(recording: Any) -> None:
    learn(Stubborn)
    pids = executor_of(recording).pids()
    y = Stubborn.apply(Stubborn.apply(rg.ones(3), SECONDS), SECONDS)
    run = recording.run(y)
    time.sleep(0.5)
    assert run.cancel()
    with pytest.raises(DroppedError):
        y.tolist()
    check_idle(recording)
    assert executor_of(recording).pids() == pids


def test_runs_that_are_batched_and_not_sent_are_cancelled(recording: Any) -> None:
    learn(Spins)
    for _ in range(3):
        recording.run(*[Spins.apply(rg.ones(3), 0.0)]).wait()
    with rg.place(worker=0):
        blocking = recording.run(Spins.apply(rg.ones(3), SECONDS))
        batched = [recording.run(rg.ones(3) * float(index)) for index in range(20)]
    assert recording.cancel()
    assert blocking.done()
    for run in batched:
        assert run.done()
    check_idle(recording)


PROGRAM = """
import os, signal, sys, threading
import raygrad as rg
from tests.client.cancelling import SECONDS, Sleeps, later

if __name__ == "__main__":
    when = sys.argv[1]
    if when == "start":
        later(float(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        session = rg.Session("ray", workers=2).start()
        y = Sleeps.apply(rg.ones(3), 0.0)
        y = Sleeps.apply(y, SECONDS)
        session.run(y)
        if when == "close":
            later(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        session.close()
    except KeyboardInterrupt:
        print("interrupted")
    import ray
    if ray.is_initialized():
        from ray.util.state import list_actors
        print("initialised")
"""


@pytest.mark.parametrize("when", [("close", "0"), ("start", "0.3"), ("start", "2.5")])
def test_ctrl_c_at_the_start_and_in_close_leaves_no_process(tmp_path: Path, when: tuple[str, str]) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(PROGRAM)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(script), *when], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert "interrupted" in done.stdout, done.stderr
    assert "initialised" not in done.stdout
    assert time.monotonic() - began < SECONDS
