"""Sessions on Ray whose workers come and go: same bits, nothing attempted twice, values that outlive their worker."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.client.cancelling import SECONDS, Sleeps, learn
from tests.client.test_life_with_ray import run_alone

import raygrad as rg
from raygrad.client.session.session import executor_of
from raygrad.errors import ExecutionError, RunCancelled, SessionError, WaitTimeout

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

MEMBERS = 12


class Sleeper(rg.autograd.Function):
    """Squares its input, 0.3 s later. Each call of forward or backward adds a line to a file."""

    @staticmethod
    def forward(ctx: Any, x: rg.Tensor, seconds: float, calls: str) -> rg.Tensor:
        note(calls, "forward")
        time.sleep(seconds)
        ctx.save_for_backward(x)
        ctx.calls = calls
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: rg.Tensor) -> Any:
        note(ctx.calls, "backward")
        (x,) = ctx.saved_tensors
        return grad * 2.0 * x, None, None


class Unpicklable(rg.autograd.Function):
    """Keeps a lock in its context."""

    @staticmethod
    def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
        ctx.lock = threading.Lock()
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: rg.Tensor) -> Any:
        with ctx.lock:
            return grad * 2.0


class Flood(rg.autograd.Function):
    """Emits more than its record takes along."""

    @staticmethod
    def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
        for number in range(6):
            rg.emit("block", np.full(100_000, float(number)))
        return x + 1.0

    @staticmethod
    def backward(ctx: Any, grad: rg.Tensor) -> Any:
        return grad


def note(path: str, what: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(what + "\n")


def counted(path: str) -> dict[str, int]:
    lines = Path(path).read_text(encoding="utf-8").split()
    Path(path).write_text("", encoding="utf-8")
    return {what: lines.count(what) for what in sorted({*lines})}


def submit_ensemble(x: rg.Tensor, calls: str, seconds: float = 0.3) -> None:
    loss = rg.zeros(())
    for member in range(MEMBERS):
        loss = loss + (Sleeper.apply(x + 0.1 * member, seconds, calls) * 0.1).sum()
    loss.backward()


def taken(x: rg.Tensor) -> Any:
    assert x.grad is not None
    grad, x.grad = x.grad.numpy().copy(), None
    return grad


def test_an_ensemble_gives_the_same_bits_while_its_session_grows_and_shrinks(ray_started: Any, tmp_path: Path):
    calls = str(tmp_path / "calls")
    each = {"forward": MEMBERS, "backward": MEMBERS}
    times: dict[str, float] = {}
    with rg.Session("ray", workers=1) as session:
        x = rg.tensor(np.linspace(0.1, 0.7, 5), requires_grad=True)
        Sleeper.apply(x, 0.0, calls).tolist()
        counted(calls)
        gradients: list[Any] = []
        began = time.monotonic()
        submit_ensemble(x, calls)
        gradients.append(taken(x))
        times["one worker"] = time.monotonic() - began
        assert counted(calls) == each
        submit_ensemble(x, calls, 0.0)
        gradients.append(taken(x))
        assert session.add_workers(3) == ("worker 1", "worker 2", "worker 3")
        assert session.workers == 4
        counted(calls)
        began = time.monotonic()
        submit_ensemble(x, calls)
        session.remove_worker(0)
        session.remove_worker("worker 2")
        assert session.worker_names == ("worker 1", "worker 3")
        gradients.append(taken(x))
        times["four workers, then two"] = time.monotonic() - began
        assert counted(calls) == each
        submit_ensemble(x, calls)
        gradients.append(taken(x))
        for gradient in gradients:
            assert gradient.tobytes() == gradients[0].tobytes()
    print({name: round(seconds, 2) for name, seconds in times.items()})


def test_values_contexts_and_what_is_submitted_ahead_outlive_the_worker_that_is_removed(
    ray_started: Any, tmp_path: Path
):
    calls = str(tmp_path / "calls")
    with rg.Session("ray", workers=2) as session:
        w = rg.tensor(np.linspace(0.5, 1.5, 40_000), requires_grad=True)
        optimiser = rg.optim.SGD([w], lr=0.01, momentum=0.9)

        def train(steps: int) -> None:
            for _ in range(steps):
                optimiser.zero_grad()
                losses = [Sleeper.apply(w + 0.1 * member, 0.05, calls).mean() for member in range(4)]
                (losses[0] + losses[1] + losses[2] + losses[3]).backward()
                optimiser.step()

        train(1)
        w.tolist()
        start = w.detach().numpy().copy()
        counted(calls)
        kept = [Sleeper.apply(w.detach() + float(number), 0.0, calls) for number in range(6)]
        v = rg.tensor(start, requires_grad=True)
        loss = (Sleeper.apply(v, 0.0, calls) * 1.5).sum()
        assert loss.item() > 0.0
        train(12)
        session.remove_worker(1, timeout=60.0)
        assert session.last_run is not None
        assert not session.last_run.finished  # what was submitted ahead does not hold the worker
        train(2)
        loss.backward()
        for number, one in enumerate(kept):
            assert np.array_equal(one.numpy(), (start + float(number)) ** 2)
        found = w.detach().numpy().copy()
        assert np.array_equal(taken(v), 1.5 * 2.0 * start)
        assert counted(calls) == {"forward": 7 + 14 * 4, "backward": 14 * 4 + 1}
    with rg.Session():
        w = rg.tensor(np.linspace(0.5, 1.5, 40_000), requires_grad=True)
        optimiser = rg.optim.SGD([w], lr=0.01, momentum=0.9)
        train(15)
        assert found.tobytes() == w.detach().numpy().tobytes()


def test_a_worker_stays_while_it_has_a_context_that_cannot_be_pickled(ray_started: Any):
    with rg.Session("ray", workers=2) as session:
        x = rg.ones(3, requires_grad=True)
        with rg.place(worker=1):
            loss = Unpicklable.apply(x).sum()
        assert loss.item() == 6.0
        with pytest.raises(ExecutionError, match=r"worker 1 stays: .* cannot leave it"):
            session.remove_worker(1)
        assert session.workers == 2
        loss.backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0] * 3
        del loss
        session.remove_worker(1)
        assert session.workers == 1


def test_a_worker_that_is_not_empty_in_time_stays(ray_started: Any, tmp_path: Path):
    calls = str(tmp_path / "calls")
    with rg.Session("ray", workers=2) as session:
        Sleeper.apply(rg.ones(3), 0.0, calls).tolist()
        with rg.place(worker=1):
            slow = Sleeper.apply(rg.ones(3), 1.0, calls)
        session.run(slow)
        time.sleep(0.2)
        with pytest.raises(WaitTimeout):
            session.remove_worker(1, timeout=0.1)
        assert session.worker_names == ("worker 0", "worker 1")
        with rg.place(worker=1):
            assert Sleeper.apply(slow, 0.0, calls).tolist() == [1.0] * 3
        session.remove_worker(1)
        with pytest.raises(ExecutionError, match="last worker of this session"):
            session.remove_worker(0)
        with pytest.raises(ExecutionError, match="worker 1 is gone already"):
            session.remove_worker(1)
        assert slow.tolist() == [1.0] * 3
        assert counted(calls) == {"forward": 3}


def test_workers_for_which_there_is_no_room_are_given_up(ray_started: Any):
    with rg.Session("ray", workers=1) as session:
        with pytest.raises(WaitTimeout, match="0 of 1 workers have joined in time"):
            session.add_workers(timeout=1.0, num_cpus=64)
        with pytest.raises(ValueError, match="serve no GPUs"):
            session.add_workers(num_gpus=1)
        with pytest.raises(ValueError, match="'max_restarts'"):
            session.add_workers(max_restarts=3)
        assert session.add_workers(num_cpus=2) == ("worker 1",)
        assert (rg.ones(3) * 2.0).tolist() == [2.0] * 3
        assert session.workers == 2
    with rg.Session("ray", workers=1, memory=["1GiB"]) as session:
        with pytest.raises(SessionError, match="one for all"):
            session.add_workers()


def test_what_a_replaced_worker_emits_ahead_of_its_record_arrives(ray_started: Any):
    """The client asks the new process for its emits, and counts them from the first."""
    with rg.Session("ray", workers=1, timeout=60.0) as session:
        learn(Sleeps)
        x = rg.ones(3)
        for _ in range(2):
            assert Flood.apply(x).tolist() == [2.0] * 3
            pids = executor_of(session).pids()
            stuck = Sleeps.apply(x, SECONDS)
            run = session.run(stuck)
            time.sleep(0.3)
            assert run.cancel()
            with pytest.raises(RunCancelled):
                stuck.tolist()
            flooded = Flood.apply(x)
            emitted = session.run(flooded)
            assert flooded.tolist() == [2.0] * 3
            assert [float(block[0]) for _, block in emitted.wait().emits] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
            assert executor_of(session).pids() != pids


NODES = """
import collections, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from ray.core.generated.autoscaler_pb2 import DrainNodeReason

calls = Path("calls")
held = Path("held").absolute()  # members wait while it exists

class Member(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, path):
        with open(path, "a") as file:
            file.write("forward ")
        time.sleep(0.3)
        end = time.monotonic() + 60.0
        while held.exists() and time.monotonic() < end:
            time.sleep(0.02)
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2.0 * x, None

def ensemble():
    path = str(calls.absolute())
    sum([(Member.apply(x + 0.1 * index, path) * 0.1).sum() for index in range(12)]).backward()

def taken():
    grad, x.grad = x.grad.numpy().tobytes(), None
    forwards = calls.read_text().count("forward")
    calls.write_text("")
    return grad, forwards

def drain(node, seconds):
    gcs = ray._private.worker.global_worker.gcs_client
    reason = DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION
    assert gcs.drain_node(node.node_id, reason, "a spot machine", int((time.time() + seconds) * 1000))[0]

def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)

small = {"num_cpus": 1, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
x = rg.tensor(np.linspace(0.1, 0.7, 50_000), requires_grad=True)
"""


def test_a_session_takes_what_nodes_bring_and_leaves_a_node_that_announces_its_end(tmp_path: Path):
    """The rest of a run on one worker is divided when a node joins; when that announces its end, its worker is emptied
    before the deadline: no forward runs twice, and what its store held is there when the node is gone."""
    program = (
        NODES
        + """
with rg.Session("ray:" + cluster.address, workers=(1, 3)) as session:
    assert session.workers == 1
    Member.apply(x, str(calls.absolute())).sum().item()
    ensemble()
    wanted = taken()[0]
    held.touch()  # however long a process takes to start
    ensemble()
    node = cluster.add_node(**small)
    run = session.last_run
    until(lambda: session.workers == 2, 60.0)
    held.unlink()
    assert taken() == (wanted, 12)
    assert session.worker_names == ("worker 0", "worker 1"), session.worker_names
    table = str(run.report())
    assert "Planned again while it ran" in table and "worker 1" in table, table
    kept = [Member.apply(x.detach() + float(index), str(calls.absolute())) for index in range(4)]
    session.run(*kept).wait()
    calls.write_text("")
    ensemble()
    time.sleep(0.5)
    drain(node, 15.0)
    until(lambda: session.workers == 1)  # nobody waits for the session meanwhile
    assert taken() == (wanted, 12)
    until(lambda: not session._driver.workers.leaving)  # a node that went before it was empty would take the rest along
    cluster.remove_node(node)
    for index, one in enumerate(kept):
        assert np.array_equal(one.numpy(), (np.linspace(0.1, 0.7, 50_000) + index) ** 2)
    ensemble()
    assert taken() == (wanted, 12)
cluster.shutdown()
"""
    )
    run_alone(program, tmp_path)
