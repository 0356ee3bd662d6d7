"""Where saved values are on a real local Ray: within a submission on their worker, copied if much work is at stake."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.session.session import executor_of
from raygrad.errors import WorkerLost

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

KEPT = 1_000_000
"""Numbers that each branch keeps for backward: 8 MB."""
BRANCHES = 8


class Branch(rg.autograd.Function):
    """Keeps a field of its own, which is neither an argument nor an output."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any) -> Any:
        time.sleep(0.002)
        ctx.field = np.full(KEPT, x.numpy()[0]) * scale.numpy()
        return rg.from_numpy(np.array([ctx.field[-1], x.numpy()[1]]))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        time.sleep(0.002)
        return rg.from_numpy(ctx.field[:2] * grad.numpy()), None


def loss_of(x: Any, function: Any = Branch) -> Any:
    """Return the loss of an ensemble, half of it on each of two workers."""
    total: Any = None
    for number in range(BRANCHES):
        scale = rg.tensor(1.0 + number, dtype=rg.float64)
        with rg.place(worker=number * 2 // BRANCHES):
            one = function.apply(x, scale).sum()
        total = one if total is None else total + one
    return total


def leaf() -> Any:
    return rg.tensor([0.5, 3.0], dtype=rg.float64, requires_grad=True)


def expected(squared: bool = False) -> bytes:
    x = leaf()
    total: Any = None
    for number in range(BRANCHES):
        one = Branch.apply(x, rg.tensor(1.0 + number, dtype=rg.float64)).sum()
        total = one if total is None else total + one
    (total.square() if squared else total).backward()
    return x.grad.numpy().tobytes()


def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


@pytest.fixture(scope="module")
def gradient() -> bytes:
    return expected()


def test_contexts_of_one_submission_are_not_stored(ray_started: Any, gradient: bytes) -> None:
    with rg.Session("ray", workers=2) as session:
        for _ in range(3):
            x = leaf()
            loss_of(x).backward()
            assert x.grad.numpy().tobytes() == gradient
            run: Any = session.last_run
            assert sum(segment.bytes_out for segment in run.report().run.segments) < KEPT
        x = leaf()
        before = session.peak_saved_bytes
        loss_of(x).backward()
        assert x.grad.numpy().tobytes() == gradient
        assert session.peak_saved_bytes == before, "the first run of all keeps what it does not know"
        assert session.stored_bytes() < KEPT
        session.close(discard=True)


def test_a_program_that_reads_the_loss_before_backward_finds_its_contexts_in_the_store(
    ray_started: Any, gradient: bytes
) -> None:
    with rg.Session("ray", workers=2) as session:
        loss_of(leaf()).backward()  # shows that contexts pickle
        x = leaf()
        loss = loss_of(x)
        loss.item()
        assert eventually(lambda: session.saved_bytes >= BRANCHES * KEPT * 8)
        loss.backward()
        assert x.grad.numpy().tobytes() == gradient
        del loss
        session.stored_bytes()  # tells the workers what the client has released
        assert eventually(lambda: session.saved_bytes == 0)
        session.close(discard=True)


def test_h18_what_stands_for_much_work_is_copied_once_its_worker_is_idle_and_dropped_with_its_value(
    ray_started: Any, tmp_path: Path
) -> None:
    gate, gradient = tmp_path / "gate", expected(squared=True)

    class Gated(Branch):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: Any) -> Any:
            if float(scale.numpy()) == BRANCHES:  # the other worker's: the first one waits for it with its contexts
                assert eventually(gate.exists)
            return Branch.forward(ctx, x, scale)

    with rg.Session("ray", workers=2, recovery_time=0.0) as session:
        copied: list[bool] = []

        def open_gate() -> None:
            copied.append(eventually(lambda: session.saved_bytes >= KEPT * 8))
            gate.touch()

        opener = Thread(target=open_gate)
        opener.start()
        for _ in range(2):
            x = leaf()
            loss_of(x, Gated).square().backward()  # square: so that backward reads what both workers made
            assert x.grad.numpy().tobytes() == gradient
        opener.join()
        assert copied == [True]
        session.stored_bytes()  # tells the workers what the client has released
        assert eventually(lambda: session.saved_bytes == 0)
        assert eventually(lambda: session.stored_bytes() < KEPT)
        session.close(discard=True)


def test_a_lost_worker_that_held_contexts_is_a_clear_error(ray_started: Any, tmp_path: Path) -> None:
    died = tmp_path / "died"

    class DiesInBackward(Branch):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if ctx.field[0] > 0.5 * (BRANCHES - 1):
                died.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return Branch.backward(ctx, grad)

    with rg.Session("ray", workers=2, recovery_time=0.0, retries=0) as session:
        x = leaf()
        pids = executor_of(session).pids()
        loss_of(x, DiesInBackward).backward()
        with pytest.raises(WorkerLost) as raised:
            x.grad.numpy()
        pid = int(died.read_text())  # of either worker: a vjp whose context is stored may move to the idle one
        assert f"worker {pids.index(pid)} (process {pid}:" in str(raised.value)
        assert eventually(lambda: session.saved_bytes == 0)
        session.close(discard=True)
