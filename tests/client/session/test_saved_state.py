"""A session saves named state and restores it in place; its journal lets a program that was killed go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import LoadError, SaveError


def model() -> dict[str, Any]:
    return {"layers": [{"w": rg.randn(3, 4, requires_grad=True)}, {"w": rg.randn(4, requires_grad=True)}], "epoch": 0}


def leaves(weights: dict[str, Any]) -> list[rg.Tensor]:
    return [layer["w"] for layer in weights["layers"]]


def train(weights: dict[str, Any], optimizer: Any, steps: int) -> None:
    first, second = leaves(weights)
    for _ in range(steps):
        optimizer.zero_grad()
        (rg.randn(5, 3) @ first + second).square().sum().backward()
        optimizer.step()
        weights["epoch"] += 1


def bits(tensors: list[rg.Tensor]) -> list[bytes]:
    return [one.detach().numpy().tobytes() for one in tensors]


def test_named_state_and_random_numbers_are_restored_in_place(session: Any, tmp_path: Path) -> None:
    with session:
        rg.manual_seed(1)
        weights = model()
        held = leaves(weights)
        optimizer = rg.optim.Adam(held, lr=0.1)
        train(weights, optimizer, 2)
        session.save(tmp_path / "file", model=weights, optimizer=optimizer, note="two")
        train(weights, optimizer, 3)
        expected = bits(held)
        found = session.load(tmp_path / "file", {"model": weights}, optimizer=optimizer, note="")
        assert (weights["epoch"], found["note"]) == (2, "two")
        assert found["model"] is weights
        assert all(a is b for a, b in zip(held, leaves(weights), strict=True))
        train(weights, optimizer, 3)
        assert bits(held) == expected


def test_gradients_that_are_being_summed_are_restored(session: Any, tmp_path: Path) -> None:
    x, y = rg.ones(3, requires_grad=True), rg.ones(3, requires_grad=True)
    with session:
        (x * 2).sum().backward()
        session.save(tmp_path / "file", x=x, y=y)
        (x * y).sum().backward()
        session.load(tmp_path / "file", x=x, y=y)
        assert x.grad is not None
        assert x.grad.tolist() == [2, 2, 2]
        assert y.grad is None


def test_what_is_loaded_stays_when_a_later_run_fails(tmp_path: Path) -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            raise ValueError("this batch is bad")

    x = rg.ones(2)
    with rg.Session() as session:
        session.save(tmp_path / "file", x=x * 3)
        session.load(tmp_path / "file", x=x)
        with pytest.raises(ValueError, match="bad"):
            Fails.apply(x)
        assert x.tolist() == [3, 3]


def test_what_does_not_fit_is_named_and_changes_nothing(session: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with session:
        session.save(path, a=rg.zeros(2), b={"c": rg.zeros(3)}, n=1)
        a, c = rg.ones(2), rg.ones(4)
        for named, message in (
            ({"a": a, "b": {"c": c}, "n": 2}, r"size mismatch for b\.c: .*\[3\].*\[4\]"),
            ({"a": a, "b": {"d": rg.ones(3)}, "n": 2}, r"missing name\(s\) in b: 'd'; unexpected name\(s\) in b: 'c'"),
            ({"a": a, "n": 2}, r"unexpected name\(s\): 'b'"),
            ({"a": a, "b": {"c": rg.ones(3)}, "n": 2, "m": 1}, r"missing name\(s\): 'm'"),
            ({"a": a, "b": [rg.ones(3)], "n": 2}, r"b is a list of 1 values, and a dict"),
            ({"a": a, "b": {"c": rg.ones(3, dtype=rg.int64)}, "n": 2}, r"dtype mismatch for b\.c"),
        ):
            with pytest.raises(LoadError, match=message):
                session.load(path, named)
        assert a.tolist() == [1, 1]
        assert session.load(path, a=a, more=3, strict=False) == {"a": a, "more": 3}
        assert a.tolist() == [0, 0]


def test_an_optimiser_that_refuses_its_state_leaves_the_tensors(tmp_path: Path) -> None:
    x, y = rg.zeros(2, requires_grad=True), rg.zeros(2, requires_grad=True)
    with rg.Session() as session:
        session.save(tmp_path / "file", x=x, optimizer=rg.optim.SGD([x]))
        other = rg.ones(2, requires_grad=True)
        with pytest.raises(ValueError, match="doesn't match the size") as raised:
            session.load(tmp_path / "file", x=other, optimizer=rg.optim.SGD([other, y]))
        assert "the state of optimizer" in "".join(raised.value.__notes__)
        assert other.tolist() == [1, 1]


def test_files_of_others_and_missing_names_are_refused(tmp_path: Path) -> None:
    rg.save({"a": 1}, tmp_path / "file")
    with rg.Session() as session:
        with pytest.raises(LoadError, match=r"not written by session\.save"):
            session.load(tmp_path / "file", a=1)
        with pytest.raises(TypeError, match="by name"):
            session.save(tmp_path / "file")
        with pytest.raises(TypeError, match="mapping"):
            session.save(tmp_path / "file", [rg.ones(1)])  # pyright: ignore[reportArgumentType]
        with pytest.raises(SaveError, match=r"model\['of'\]\[0\]|model\.of\[0\]"):
            session.save(tmp_path / "file", model={"of": [object()]})
        with pytest.raises(TypeError, match="put numbers into a dict"):
            session.track(epoch=3)
    assert rg.load(tmp_path / "file") == {"a": 1}


def test_what_is_tracked_is_saved_and_loaded_without_names(tmp_path: Path) -> None:
    x = rg.ones(2)
    with rg.Session() as session:
        session.track(x=x)
        session.save(tmp_path / "file")
        x.add_(1)
        session.load(tmp_path / "file")
        assert x.tolist() == [1, 1]


def test_results_that_a_program_collects_come_back_into_the_same_containers(tmp_path: Path) -> None:
    losses: list[float] = []
    info: dict[str, Any] = {"n": 0}
    outputs: list[rg.Tensor] = []
    results: dict[str, Any] = {}
    with rg.Session() as session:
        session.track(losses=losses, info=info, outputs=outputs, results=results)
        losses += [1.0, 2.0]
        info.update(n=2, best=1.0)
        outputs.append(rg.ones(2) * 2)
        results.update(last={"x": rg.zeros(1, requires_grad=True), "t": (1, None)})
        session.save(tmp_path / "file")
        losses.append(3.0)
        info["later"] = True
        session.load(tmp_path / "file", losses=losses, info=info, strict=False)
        assert (losses, info) == ([1.0, 2.0], {"n": 2, "best": 1.0})
        losses.clear()
        info.clear()
        info["n"] = 0
        outputs.clear()
        results.clear()
        session.load(tmp_path / "file")
        assert (losses, info, outputs[0].tolist()) == ([1.0, 2.0], {"n": 2, "best": 1.0}, [2, 2])
        assert results["last"]["t"] == (1, None)
        assert results["last"]["x"].requires_grad
        outputs.append(rg.ones(2))
        with pytest.raises(LoadError, match="outputs is a list of 2 values"):
            session.load(tmp_path / "file")


def test_a_traced_step_can_not_save(tmp_path: Path) -> None:
    with rg.Session() as session:
        x = rg.ones(2)

        def step() -> rg.Tensor:
            session.save(tmp_path / "file", x=x)
            return x * 2

        with pytest.raises(Exception, match=r"session\.save\(\) is called"):
            session.compile(step)()


# ---- steps and the journal ------------------------------------------------------------------------------------------


def trained(journal: Any, steps: int, dies_in: int = -1) -> tuple[list[int], list[bytes], list[Any]]:
    """Train with a journal; the step `dies_in` raises at its end."""
    rg.manual_seed(2)
    weights = model()
    optimizer = rg.optim.Adam(leaves(weights), lr=0.1)
    schedule = rg.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    told: list[Any] = []
    made: list[int] = []
    with rg.Session(journal=journal) as session:
        session.track(weights=weights, optimizer=optimizer, schedule=schedule)
        session.on("step", told.append)
        for step in session.steps(steps):
            made.append(step)
            train(weights, optimizer, 1)
            schedule.step()
            rg.emit("step", step)
            if step == dies_in:
                break
    return made, bits(leaves(weights)), told


def test_a_loop_goes_on_after_the_last_completed_step(tmp_path: Path) -> None:
    whole = trained(None, 5)
    journal = tmp_path / "journal"
    assert trained(journal, 5, dies_in=3)[0] == [0, 1, 2, 3]
    made, found, told = trained(journal, 5)
    assert made == told == [3, 4]
    assert found == whole[1]
    assert trained(journal, 5) == ([], whole[1], [])
    assert trained(journal, 7)[0] == [5, 6]


def test_a_failing_step_is_not_completed(tmp_path: Path) -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, fail: Any) -> Any:
            if fail.numpy():
                raise ValueError("this batch is bad")
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    def run(fail_at: int, made: list[int]) -> Any:
        x = rg.ones(2, requires_grad=True)
        optimizer = rg.optim.SGD([x], lr=0.5)
        with rg.Session(journal=tmp_path / "journal") as session:
            session.track(x=x, optimizer=optimizer)
            for step in session.steps(4):
                made.append(step)
                optimizer.zero_grad()
                Fails.apply(x, rg.tensor(step == fail_at)).square().sum().backward()
                optimizer.step()
        return x.tolist()

    with pytest.raises(ValueError, match="bad"):
        run(2, [])
    made: list[int] = []
    run(-1, made)
    assert made == [2, 3]


def test_a_name_can_be_tracked_again_for_what_a_step_made(tmp_path: Path) -> None:
    def run(dies_in: int) -> Any:
        x = rg.ones(2)
        with rg.Session(journal=tmp_path / "journal") as session:
            session.track(x=x)
            for step in session.steps(4):
                x = x * 3 + step
                session.track(x=x)
                if step == dies_in:
                    break
        return x.tolist()

    run(2)
    assert run(-1) == [((1 * 3 + 0) * 3 + 1) * 9 + 2 * 3 + 3] * 2


def test_loops_of_one_program_are_told_apart(tmp_path: Path) -> None:
    def run(stop: tuple[int, int]) -> tuple[list[Any], Any]:
        made: list[Any] = []
        x = {"sum": 0}
        with rg.Session(journal=tmp_path / "journal") as session:
            session.track(x=x)
            for loop in range(2):
                for step in session.steps(3):
                    made.append((loop, step))
                    x["sum"] += 10**loop
                    if (loop, step) == stop:
                        return made, x
        return made, x

    run((1, 1))
    assert run((9, 9)) == ([(1, 1), (1, 2)], {"sum": 33})


def test_a_loop_inside_another_is_refused_with_a_journal(tmp_path: Path) -> None:
    with rg.Session(journal=tmp_path / "journal") as session:
        session.track(x={"n": 0})
        for _ in session.steps(1):
            with pytest.raises(rg.errors.SessionError, match="inside another"):
                next(iter(session.steps(1)))
        assert list(session.steps(2)) == [0, 1]
    with rg.Session() as session:
        assert [list(session.steps(2)) for _ in session.steps(2)] == [[0, 1], [0, 1]]


def test_steps_are_written_as_often_as_asked(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with rg.Session(journal=journal) as session:
        session.track(x={"n": 0})
        positions = [(step, rg.load(journal)["position"]["step"]) for step in session.steps(5, every=2)]
        assert positions == [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4)]
        assert rg.load(journal)["position"]["step"] == 5


def test_a_journal_that_cannot_serve_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        rg.Session(journal=tmp_path / "none" / "journal")
    with pytest.raises(TypeError, match="journal"):
        rg.Session(journal=3)  # pyright: ignore[reportArgumentType]
    journal = tmp_path / "journal"
    with rg.Session(journal=journal) as session:
        with pytest.raises(ValueError, match="track"):
            next(iter(session.steps(3)))
        session.track(x={"n": 0})
        list(session.steps(2))
    with rg.Session(journal=journal) as session:
        session.track(y={"n": 0})
        with pytest.raises(LoadError, match="missing name") as raised:
            next(iter(session.steps(3)))
        assert "remove the journal" in "".join(raised.value.__notes__)
        session.save(journal, y=1)
    with rg.Session(journal=journal) as session:
        session.track(y={"n": 0})
        with pytest.raises(LoadError, match="no journal"):
            next(iter(session.steps(3)))


SCRIPT = """
import os, signal, sys
import numpy as np
import raygrad as rg

class Noisy(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + rg.rand(*x.shape, dtype=rg.float64) * 0.1

    @staticmethod
    def backward(ctx, grad):
        return grad * rg.rand(*grad.shape, dtype=rg.float64)

journal, out, address, dies_in = sys.argv[1:]
rg.manual_seed(7)
w = rg.randn(4, 3, dtype=rg.float64, requires_grad=True)
optimizer = rg.optim.NAdam([w], lr=0.05)
schedule = rg.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
with rg.Session(address, workers=2, journal=journal or None) as session:
    session.track(w=w, optimizer=optimizer, schedule=schedule)
    for step in session.steps(6):
        x = rg.randn(5, 4, dtype=rg.float64)
        Noisy.apply(x @ w).square().sum().backward()
        if step % 2:  # gradients of two steps are summed
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()
        if step == int(dies_in):
            session.run()
            os.kill(os.getpid(), signal.SIGKILL)
np.save(out, w.detach().numpy())
"""


def killed_and_started_again(tmp_path: Path, address: str, *, cwd: Path) -> None:
    def start(journal: Any, out: str, address: str, dies_in: int) -> int:
        arguments = [str(journal), str(tmp_path / out), address, str(dies_in)]
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, *arguments],
            capture_output=True, text=True, timeout=150, check=False, cwd=cwd, env={**os.environ},
        )  # fmt: skip
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode

    assert start("", "whole.npy", "local", -1) == 0
    for dies_in in (0, 3):  # the second time, in what the first left
        assert start(tmp_path / "journal", "found.npy", address, dies_in) == -signal.SIGKILL
    assert rg.load(tmp_path / "journal")["position"] == {"loop": 0, "step": 3}
    assert start(tmp_path / "journal", "found.npy", address, -1) == 0
    assert np.load(tmp_path / "whole.npy").tobytes() == np.load(tmp_path / "found.npy").tobytes()


@pytest.mark.slow
def test_a_program_that_is_killed_and_started_again_ends_with_the_same_bits(tmp_path: Path) -> None:
    killed_and_started_again(tmp_path, "local", cwd=tmp_path)


@pytest.mark.ray
@pytest.mark.timeout(300)
def test_a_program_on_ray_that_is_killed_and_started_again_ends_with_the_same_bits(
    ray_started: Any, tmp_path: Path
) -> None:
    killed_and_started_again(tmp_path, "ray", cwd=tmp_path)
