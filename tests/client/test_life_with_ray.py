"""The life of sessions on Ray beside that of threads, forked processes and Ray itself, in processes of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs raygrad[ray]")
pytestmark = [pytest.mark.ray, needs_ray]

PRELUDE = """
import multiprocessing, os, sys, threading, time
import numpy as np
import raygrad as rg
from raygrad.workers.executors.ray import connection

connection._running_ray = lambda: ""  # whatever else runs on this machine


class Double(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return rg.from_numpy(x.numpy() * 2.0)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0


x = rg.tensor(np.arange(3.0), requires_grad=True)
options = {"workers": 1, "object_store_memory": 100_000_000}
"""


def run_alone(program: str, folder: Path) -> str:
    """Run a program in a process of its own, which is not connected to any Ray; return what it prints."""
    script = folder / "alone.py"
    script.write_text(PRELUDE + textwrap.dedent(program))
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    tests = str(Path(__file__).parent / "session")
    environment["PYTHONPATH"] = os.pathsep.join([*filter(None, [environment.get("PYTHONPATH")]), tests])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=170,
        env=environment,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_ray_started_by_a_thread_outlives_the_thread(tmp_path: Path):
    """Another thread's session goes on when the thread has ended, and so does the next one."""
    program = """
    sessions = []

    def start():
        sessions.append(rg.Session("ray", **options))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    first = sessions.pop()
    with rg.Session("ray", workers=1):
        assert Double.apply(x).tolist() == [0.0, 2.0, 4.0]
        with first:
            assert Double.apply(x).tolist() == [0.0, 2.0, 4.0]
    with rg.Session("ray", **options):
        assert Double.apply(x).tolist() == [0.0, 2.0, 4.0]
    import ray
    assert not ray.is_initialized()
    """
    run_alone(program, tmp_path)


def test_a_forked_process_refuses_the_session_and_leaves_it_and_ray_to_its_parent(tmp_path: Path):
    program = """
    from forks import in_child
    import ray

    REFUSED = "SessionError: this session belongs to process "

    def leave(status):
        sys.exit(status)

    with rg.Session("ray", **options) as session:
        read = Double.apply(x)
        assert read.tolist() == [0.0, 2.0, 4.0]
        large = rg.from_numpy(np.ones(100_000)) * 2.0
        loss = (Double.apply(x) * Double.apply(x)).sum()
        run = session.run(loss, large)
        pending = x * 5.0
        uses = {
            "apply": lambda: Double.apply(x),
            "operation": lambda: pending * 2.0,
            "read": pending.tolist,
            "read what is on a worker": large.numpy,
            "backward": loss.backward,
            "close": session.close,
            "close at once": lambda: session.close(discard=True),
            "stored bytes": session.stored_bytes,
            "run": run.wait,
        }
        said = {name: in_child(use) for name, use in uses.items()}
        wrong = {name: text for name, text in said.items() if not text.startswith(REFUSED)}
        assert not wrong, wrong
        assert in_child(read.tolist) == "[0.0, 2.0, 4.0]"
        said = in_child(lambda: rg.Session("ray"))
        assert said.startswith("SessionError: process ") and "had used Ray" in said and "'spawn'" in said, said
        assert in_child(lambda: rg.Session(workers=2).close()) == "None"

        # children that end as programs do, with what Ray does at exit, and what is dropped there
        forked = multiprocessing.get_context("fork")
        child = forked.Process(target=leave, args=(7,))
        child.start()
        child.join(60)
        assert child.exitcode == 7, child.exitcode
        pid = os.fork()
        if pid == 0:
            del session, pending, large, loss, run
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5

        loss.backward()
        np.testing.assert_array_equal(x.grad.numpy(), 8 * np.arange(3.0))
        assert large.numpy().sum() == 200_000.0 and pending.tolist() == [0.0, 5.0, 10.0]
        assert len(ray.nodes()) == 1 and ray.nodes()[0]["Alive"]
    assert not ray.is_initialized()
    print("done")
    """
    assert run_alone(program, tmp_path) == "done\n"


def test_a_ray_that_was_shut_down_under_a_session_is_said_and_not_started_again(tmp_path: Path):
    program = """
    import ray
    from raygrad.errors import ExecutionError

    def raised(use):
        try:
            use()
        except ExecutionError as error:
            assert "Ray was shut down under this session" in str(error), error
            assert not ray.is_initialized() or ray.get_runtime_context().namespace == "mine"
            return True
        raise AssertionError("nothing was raised")

    with rg.Session("ray", **options) as session:
        read = Double.apply(x)
        assert read.tolist() == [0.0, 2.0, 4.0]
        there = rg.from_numpy(np.ones(100_000)) * 2.0
        session.run(there).wait()
        unread = Double.apply(x) * 3.0
        ray.shutdown()
        assert raised(Double.apply(x).tolist) and raised(there.numpy) and raised(session.stored_bytes)
        assert raised((x * 2.0).tolist)
        assert read.tolist() == [0.0, 2.0, 4.0]
        # another Ray has taken its place, which the session leaves alone
        ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level=40, log_to_driver=False,
                 namespace="mine", object_store_memory=100_000_000)
        assert raised((x * 2.0).tolist)
    try:
        unread.tolist()
        raise AssertionError("nothing was raised")
    except rg.errors.SessionError as error:
        assert "Ray was shut down under this session" in str(error), error
    assert ray.is_initialized()

    # work under way is lost: the end of the session says so, once
    with rg.Session("ray", workers=1) as session:
        assert Double.apply(x).tolist() == [0.0, 2.0, 4.0]
        assert ray.is_initialized()
        slow = Double.apply(x) + 1.0
        session.run(slow)
        ray.shutdown()
        assert raised(session.close)
        session.close()
    """
    run_alone(program, tmp_path)
