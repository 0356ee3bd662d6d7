"""Stopped processes are told from waiting ones by the kernel's state for them (H22)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator

import pytest

from raygrad.workers.executors.ray.actor_processes import ActorProcess
from raygrad.workers.executors.ray.stopped_processes import StoppedProcesses, end_if_stopped, is_stopped


@pytest.fixture
def process() -> Generator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as started:
        yield started
        started.kill()


def stop(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def test_a_process_that_waits_is_not_stopped_and_one_that_is_gone_neither(process: subprocess.Popen[bytes]) -> None:
    assert not is_stopped(process.pid)
    assert end_if_stopped([process.pid], 0.0) == []
    stop(process)
    assert is_stopped(process.pid)
    os.kill(process.pid, signal.SIGCONT)
    os.waitid(os.P_PID, process.pid, os.WCONTINUED)
    assert not is_stopped(process.pid)
    process.kill()
    process.wait()
    assert not is_stopped(process.pid)


def test_a_process_that_stays_stopped_is_ended(process: subprocess.Popen[bytes]) -> None:
    stop(process)
    assert end_if_stopped([process.pid], 0.0) == [process.pid]
    assert process.wait() == -signal.SIGKILL


def test_a_worker_is_told_once_it_has_been_stopped_for_long(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    watch = StoppedProcesses("here", lambda index: 0.0)
    workers = [ActorProcess("worker 0", None, "", pid=process.pid, node_id="here")]

    def look(after: float) -> list[int]:
        clock[0] += after
        return watch.look(workers, lambda: [0])

    stop(process)
    assert look(0.0) == []
    assert look(4.0) == []
    assert look(0.5) == [], "not every look looks"
    assert look(2.0) == [0]
    workers[0].lost = True
    assert look(2.0) == []
