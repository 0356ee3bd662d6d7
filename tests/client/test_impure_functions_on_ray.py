"""Functions that do not return the same when they run again (H2), on workers that die."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import ImpureFunctionError

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


class Drawn(rg.autograd.Function):
    """Draws with NumPy's generator, which is another one in each process; its context cannot leave its worker."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.noise = rg.from_numpy(np.random.default_rng().random(x.shape))
        ctx.stays = lambda: (open, os.fork)
        return x * ctx.noise

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.noise


def kill(session: rg.Session, worker: int = 0) -> None:
    os.kill(cast("Any", session._driver).executor.pids()[worker], signal.SIGKILL)


@pytest.mark.parametrize("size", [10, 400_000], ids=["small", "large"])
def test_what_does_not_return_the_same_again_is_named_while_its_first_results_are_in_use(
    ray_started: Any, size: int
) -> None:
    with rg.Session("ray", workers=2, recovery_time=None, saved="worker") as session:
        x: Any = rg.from_numpy(np.linspace(1.0, 2.0, size)).requires_grad_()
        loss: Any = Drawn.apply(x).sum()
        first = loss.item()
        kill(session, 0)
        kill(session, 1)
        loss.backward()
        with pytest.raises(ImpureFunctionError, match="Drawn") as caught:
            x.grad.numpy()
        assert caught.value.function == "Drawn"
        text = str(caught.value)
        assert "worker" in text
        assert "rg.rand" in text
        assert "pure = False" in text
        assert first == first
        assert (x * 2.0).sum().item() > 0.0
        session.close(discard=True)


class Streamed(Drawn):
    """Draws with raygrad's."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.noise = rg.rand(*x.shape, dtype=rg.float64)
        ctx.stays = lambda: (open, os.fork)
        return x * ctx.noise


def test_what_draws_from_raygrads_streams_returns_the_same_again(ray_started: Any) -> None:
    def gradient(strikes: bool) -> tuple[float, Any]:
        rg.manual_seed(3)
        with rg.Session("ray", workers=2, recovery_time=None, saved="worker") as session:
            x: Any = rg.from_numpy(np.linspace(1.0, 2.0, 1000)).requires_grad_()
            loss: Any = Streamed.apply(x).sum()
            first = loss.item()
            if strikes:
                kill(session, 0)
                kill(session, 1)
            loss.backward()
            return first, x.grad.numpy().copy()

    found, expected = gradient(True), gradient(False)
    assert found[0] == expected[0]
    assert np.array_equal(found[1], expected[1])


class Impure(Drawn):
    """Says so."""

    pure = False


def test_what_the_program_has_seen_of_an_impure_function_cannot_change(ray_started: Any) -> None:
    with rg.Session("ray", workers=2, recovery_time=None, saved="worker") as session:
        x: Any = rg.from_numpy(np.linspace(1.0, 2.0, 1000)).requires_grad_()
        loss: Any = Impure.apply(x).sum()
        loss.item()
        kill(session, 0)
        kill(session, 1)
        loss.backward()
        with pytest.raises(ImpureFunctionError, match="Impure"):
            x.grad.numpy()
        session.close(discard=True)


def test_what_the_program_holds_unseen_of_an_impure_function_is_made_again_with_it(ray_started: Any) -> None:
    with rg.Session("ray", workers=2, recovery_time=None, saved="worker") as session:
        x: Any = rg.from_numpy(np.linspace(1.0, 2.0, 1000)).requires_grad_()
        loss: Any = Impure.apply(x).sum()
        session.run(loss).wait()
        kill(session, 0)
        kill(session, 1)
        loss.backward()
        noise = x.grad.numpy()
        assert loss.item() == pytest.approx(float((x.detach().numpy() * noise).sum()))


class Numbered(rg.autograd.Function):
    """Multiplies by 2 when it runs first, by 3 the second time; its worker dies in its first backward, if told to."""

    pure = False

    @staticmethod
    def forward(ctx: Any, x: Any, folder: str, dies: float) -> Any:
        runs = Path(folder) / str(dies)
        with runs.open("a") as file:
            file.write(".")
        ctx.factor, ctx.dies = len(runs.read_text()) + 1, dies
        ctx.stays = lambda: (open, os.fork)
        return x * float(ctx.factor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.dies and ctx.factor == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return grad * float(ctx.factor), None, None


class Squared(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0 * ctx.saved_tensors[0]


def test_what_was_computed_from_an_impure_function_is_computed_again_with_it(ray_started: Any, tmp_path: Path) -> None:
    def gradient(x: Any, dies: float) -> Any:
        """Return the gradient of sum((factor x)^2): 2 factor^2 x, in which both factors are of one run."""
        with rg.place(worker=0):
            made = Numbered.apply(x, str(tmp_path), dies)
        with rg.place(worker=1):
            squared = Squared.apply(made)
        return rg.autograd.grad(squared.sum(), x)[0]

    with rg.Session("ray", workers=2, recovery_time=None, saved="worker"):
        x: Any = rg.from_numpy(np.linspace(1.0, 2.0, 1000)).requires_grad_()
        values = x.detach().numpy()
        assert np.allclose(gradient(x, 0.0).numpy(), 2.0 * 4.0 * values)  # what first runs tell is known now
        assert np.allclose(gradient(x, 1.0).numpy(), 2.0 * 9.0 * values)
    assert (tmp_path / "1.0").read_text() == ".."
