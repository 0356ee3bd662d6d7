"""Workers that die while a session works: what was lost is made again, with the same bits, and told."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import WorkerLost

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

Kills = dict[int, Callable[[rg.Session], None]]
"""By step, what happens at its begin."""


class Slow(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, branch: int) -> Any:
        time.sleep(0.02)
        rg.emit("forward", branch)
        y = rg.tanh(x * w + branch)
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        time.sleep(0.02)
        x, w, y = ctx.saved_tensors
        inner = grad * (1 - y * y)
        rg.emit("backward", float(inner.numpy().sum()))
        return inner * w, inner * x, None


def train(session: rg.Session, steps: int, kills: Kills | None = None) -> tuple[Any, list[float], list[Any]]:
    """Return the parameters after so many steps of Adam, the losses, and what was emitted, sorted."""
    emitted: list[Any] = []
    weights: Any = rg.from_numpy(np.linspace(0.1, 1.0, 1000)).requires_grad_()
    weights.register_hook(lambda grad: grad * 0.5)
    optimiser = rg.optim.Adam([weights], lr=0.01)
    losses: list[Any] = []
    with session:
        session.on("forward", lambda value: emitted.append(("forward", value)))
        session.on("backward", lambda value: emitted.append(("backward", value)))
        for step in range(steps):
            (kills or {}).get(step, lambda _: None)(session)
            x = rg.from_numpy(np.linspace(-1.0, 1.0, 1000) + step)
            loss: Any = sum([Slow.apply(x, weights, branch).sum() for branch in range(4)])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        found = weights.detach().numpy().copy(), [float(one) for one in losses]
    return *found, sorted(emitted)


def kill(worker: int, after: float = 0.0) -> Callable[[rg.Session], None]:
    """Return what kills a worker's process so many seconds from then on."""

    def begin(session: rg.Session) -> None:
        def strike() -> None:
            time.sleep(after)
            os.kill(session._driver.executor.pids()[worker], signal.SIGKILL)

        if after:
            threading.Thread(target=strike).start()
        else:
            strike()

    return begin


@pytest.mark.parametrize(
    ("workers", "kills"),
    [
        (2, {3: kill(0, 0.03)}),
        (2, {2: kill(0), 6: kill(1, 0.1)}),
        (1, {4: kill(0, 0.05)}),
    ],
    ids=["in-a-step", "twice", "the-only-worker"],
)
def test_a_training_goes_on_with_the_same_bits_when_workers_die(ray_started: Any, workers: int, kills: Kills) -> None:
    undisturbed = train(rg.Session("ray", workers=workers), 8)
    disturbed = train(rg.Session("ray", workers=workers), 8, kills)
    assert np.array_equal(disturbed[0], undisturbed[0])
    assert disturbed[1:] == undisturbed[1:]


def test_a_kill_between_forward_and_backward_runs_no_forward_again_whose_context_is_stored(ray_started: Any) -> None:
    def gradient(strikes: bool) -> tuple[Any, int]:
        forwards: list[int] = []
        with rg.Session("ray", workers=2) as session:
            session.on("forward", forwards.append)
            x: Any = rg.from_numpy(np.linspace(0.0, 1.0, 1000)).requires_grad_()
            w = rg.from_numpy(np.linspace(1.0, 2.0, 1000))
            Slow.apply(x, w, 0).sum().item()  # shows that its context pickles
            loss: Any = sum([Slow.apply(x, w, branch).sum() for branch in range(4)])
            loss.item()
            if strikes:
                kill(0)(session)
                kill(1)(session)
            loss.backward()
            grad: Any = x.grad
            found = grad.numpy().copy()
            run: Any = session.last_run
            again = [node for one in run.report().revisions for node in one.remade]
            names = [run._graph.nodes[node].fn for node in again]
            assert not [name for name in names if "Slow" in session._driver.executor.name_of(name)]
        return found, len(forwards)

    assert np.array_equal(gradient(True)[0], gradient(False)[0])


def test_what_is_not_needed_any_more_is_not_made_again_and_what_is_read_is(ray_started: Any, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    class Counted(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, name: str) -> Any:
            with calls.open("a") as file:
                file.write(name)
            return rg.from_numpy(x.numpy() * 2.0)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2.0, None

    with rg.Session("ray", workers=1) as session:
        x = rg.from_numpy(np.linspace(0.0, 1.0, 100_000))
        first, second = Counted.apply(x, "a"), Counted.apply(x, "b")
        session.run(first, second).wait()
        kill(0)(session)
        assert np.array_equal(second.numpy(), np.linspace(0.0, 1.0, 100_000) * 2.0)
        assert np.array_equal((second + 1.0).numpy(), second.numpy() + 1.0)
        assert sorted(calls.read_text()) in (["a", "b", "b"], ["a", "b", "a", "b"])
        assert np.array_equal(first.numpy(), second.numpy())


def test_code_that_kills_every_worker_is_named_after_three(ray_started: Any) -> None:
    class Deadly(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            os.kill(os.getpid(), signal.SIGKILL)
            return x

    with rg.Session("ray", workers=2) as session:
        x: Any = rg.tensor([1.0])
        (x * 2.0).numpy()
        with pytest.raises(WorkerLost, match=r"3 workers have died while they ran 'Deadly' .*test_recovery_on_ray\.py"):
            Deadly.apply(x).numpy()
        assert (x * 3.0).numpy().tolist() == [3.0]
        session.close(discard=True)


def test_the_report_says_what_ran_again_and_why(ray_started: Any) -> None:
    with rg.Session("ray", workers=2) as session:
        x: Any = rg.from_numpy(np.linspace(0.0, 1.0, 1000)).requires_grad_()
        w = rg.from_numpy(np.linspace(1.0, 2.0, 1000))
        Slow.apply(x, w, 0).sum().item()
        loss: Any = sum([Slow.apply(x, w, branch).sum() for branch in range(16)])
        run = session.run(loss)
        kill(0, 0.05)(session)
        run.wait()
        report = run.report()
        assert [one.lost for one in report.revisions] == [("worker 0",)]
        assert "for what was lost with worker 0" in str(report)
        assert np.isfinite(loss.item())


def test_retries_are_a_number(ray_started: Any) -> None:
    with pytest.raises(ValueError, match=r"retries=.*0 or more, not -1"):
        rg.Session("ray", retries=-1)
