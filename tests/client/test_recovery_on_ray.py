"""Workers that die while a session works: what was lost is made again, with the same bits, and told."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.session.session import executor_of
from raygrad.errors import PlanError, WorkerLost

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
            os.kill(executor_of(session).pids()[worker], signal.SIGKILL)

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
            assert not [name for name in names if "Slow" in executor_of(session).name_of(name)]
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


@pytest.mark.parametrize("known", [False, True], ids=["before-its-death-is-known", "after"])
def test_what_is_placed_on_a_worker_that_died_waits_for_the_process_that_takes_its_place(
    ray_started: Any, known: bool
) -> None:
    with rg.Session("ray", workers=2) as session:
        x: Any = rg.from_numpy(np.linspace(0.0, 1.0, 1000))
        (x * 2.0).numpy()
        for worker in (0, 1, 0):
            dead = executor_of(session).pids()[worker]
            kill(worker)(session)
            while Path(f"/proc/{dead}").exists():
                time.sleep(0.01)
            if known:  # by a call; Ray takes longer to start a process than to tell that one has died
                driver: Any = session._driver
                state = driver._machine.state
                losses = state.losses
                with rg.place(worker=worker):
                    w: Any = x * 3.0
                session.run(w)
                while state.losses == losses:
                    driver.poll(1.0)
            with rg.place(worker=worker):
                y = Slow.apply(x, x, worker)
            z = y * 2.0
            assert np.array_equal(z.numpy(), 2.0 * np.tanh(x.numpy() * x.numpy() + worker))
        with pytest.raises(PlanError, match=r"this session has workers 0 to 1"), rg.place(worker=2):
            pass


def test_retries_are_a_number(ray_started: Any) -> None:
    with pytest.raises(ValueError, match=r"retries=.*0 or more, not -1"):
        rg.Session("ray", retries=-1)


class Deadly(rg.autograd.Function):
    """Writes down where its forward runs. The backward that runs first kills its worker."""

    @staticmethod
    def forward(ctx: Any, x: Any, branch: Any, folder: str) -> Any:
        time.sleep(0.01)
        with Path(folder, "forwards").open("a") as file:
            file.write(f"{int(branch.item())} {os.getpid()}\n")
        y = rg.tanh(x + branch)
        ctx.save_for_backward(y)
        ctx.folder = folder
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        time.sleep(0.01)
        with contextlib.suppress(FileExistsError):
            with Path(ctx.folder, "killed").open("x") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y), None, None


@pytest.mark.parametrize("between", [True, False], ids=["between-two-submissions", "within-one"])
def test_a_kill_in_backward_runs_those_forwards_again_whose_contexts_were_not_stored(
    ray_started: Any, tmp_path: Path, between: bool
) -> None:
    """All contexts of an earlier submission are in the store; within one, without copies, all are on their workers."""
    with rg.Session("ray", workers=2, recovery_time=None) as session:
        x: Any = rg.from_numpy(np.linspace(0.0, 1.0, 30_000)).requires_grad_()
        (tmp_path / "killed").touch()
        Deadly.apply(x, rg.tensor(0.0), str(tmp_path)).sum().backward()  # shows that its context pickles
        x.grad.numpy()
        x.grad = cast(Any, None)
        (tmp_path / "killed").unlink()
        (tmp_path / "forwards").unlink()
        members = [Deadly.apply(x, rg.tensor(float(branch)), str(tmp_path)) for branch in range(8)]
        loss: Any = sum([member.sum() for member in members])
        if between:
            loss.item()
        loss.backward()
        grad = x.grad.numpy().copy()
        session.run().wait()
    killed = int((tmp_path / "killed").read_text())
    ran = [(int(branch), int(pid)) for branch, pid in map(str.split, (tmp_path / "forwards").read_text().splitlines())]
    times = Counter([branch for branch, _ in ran])
    there = {branch for branch, pid in ran if pid == killed}
    assert there
    assert {*times} == {*range(8)}
    assert {branch: count for branch, count in times.items() if count > 1} == (
        {} if between else dict.fromkeys(there, 2)
    )
    expected = sum([1 - np.tanh(np.linspace(0.0, 1.0, 30_000) + branch) ** 2 for branch in range(8)])
    assert np.allclose(grad, expected)


def test_a_kill_costs_what_was_done_since_the_last_copies(ray_started: Any) -> None:
    """All steps are submitted ahead, so that no worker has nothing to do, and the kills find many steps sent."""
    steps, pieces = 40, 8
    again: list[int] = []

    def trained(session: rg.Session, *kills: Callable[[rg.Session], None]) -> Any:
        w: Any = rg.from_numpy(np.linspace(0.1, 1.0, 20_000)).requires_grad_()
        with session:
            optimiser = rg.optim.Adam([w], lr=0.01)
            for step in range(steps):
                x = rg.from_numpy(np.linspace(-1.0, 1.0, 20_000) + step)
                optimiser.zero_grad()
                loss: Any = sum([Slow.apply(x, w, branch).sum() for branch in range(4)])
                loss.backward()
                optimiser.step()
                if step == 1:
                    w.detach().numpy()  # times are known
                    for one in kills:
                        one(session)
            return w.detach().numpy().copy()

    def counting(session: rg.Session) -> rg.Session:
        lost_work: Any = cast(Any, session._driver)._lost_work
        replanned = lost_work._replanned

        def counted(number: int, plan: Any, revision: Any) -> None:
            graph = cast(Any, session._driver)._runs[number].planned.graph
            names = [executor_of(session).name_of(graph.nodes[node].fn) for node in revision.remade]
            again.append(len([name for name in names if "Slow" in name]))
            replanned(number, plan, revision)

        lost_work._replanned = counted
        return session

    expected = trained(rg.Session(workers=2))
    session = counting(rg.Session("ray", workers=2, recovery_time=0.3))
    assert np.array_equal(trained(session, kill(0, 2.5), kill(1, 2.5)), expected)
    assert again
    assert sum(again) < steps * pieces / 4
