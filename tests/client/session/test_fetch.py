"""Reading what was recorded: what waits for what, on which thread, and what is told of values that will not come."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import DroppedError

from .test_session import Cube, Root


class HalfOf(rg.autograd.Function):
    """Gives its second argument a gradient only if asked to."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, both: bool) -> Any:
        ctx.both = both
        return x + y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, grad if ctx.both else None, None


def test_whether_a_gradient_is_defined_is_told_without_bringing_it(session: Any) -> None:
    with session:
        for both in (True, False):
            x: Any = rg.zeros(100_000, requires_grad=True)
            y: Any = rg.zeros(100_000, requires_grad=True)
            HalfOf.apply(x, y, both).sum().backward()
            assert (x.grad is None, y.grad is None) == (False, not both)
            assert session.stored_bytes() == 0
            assert x.grad[0].item() == 1.0


def test_h14_reading_the_loss_before_backward_changes_nothing(session: Any) -> None:
    grads = []
    with session:
        for read in (False, True):
            x: Any = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
            loss = (Cube.apply(x) * x).sum()
            if read:
                assert str(loss)
            loss.backward()
            grads.append(x.grad.numpy())
    assert grads[0].tobytes() == grads[1].tobytes()


def test_reading_a_dropped_value_says_why(session: Any) -> None:
    with session:
        assert Root.apply(rg.tensor(4.0)).item() == 2.0
        y = Root.apply(rg.tensor(-4.0))
        with pytest.raises(ArithmeticError):
            y.numpy()
        with pytest.raises(DroppedError, match="ArithmeticError"):
            y.numpy()


def test_a_pending_value_brings_its_session_into_any_thread(session: Any) -> None:
    results: list[Any] = []
    with session:
        x: Any = rg.tensor([1.0, 2.0]) * 2.0
        thread = threading.Thread(target=lambda: results.append((x + 1.0).numpy()))
        thread.start()
        thread.join(30)
    assert results[0].tolist() == [3.0, 5.0]


def test_awaiting_a_pending_value(session: Any) -> None:
    async def program() -> float:
        loss = (rg.tensor([1.0, 2.0]) * 2.0).sum()
        return float(await loss)

    with session:
        assert asyncio.run(program()) == 6.0


def test_what_was_read_of_a_gpu_does_not_come_again_when_its_session_ends() -> None:
    with use_stand_in(1) as device:
        with rg.Session(workers=1, gpus=1, strict=True):
            x = rg.ones(3).cuda()
            y, z = x + 1.0, x + 2.0
            there = y.read()
            device.forget_transfers()
        assert device.transfers.to_host == 2, "x and z are held, too"
        assert y.read() is there
        assert z.cpu().tolist() == [3.0, 3.0, 3.0]


class Doubled(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


def test_the_repr_of_a_value_that_is_here_shows_it_and_waits_for_none(session: Any) -> None:
    with session:
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        y = Doubled.apply(x)
        assert repr(y) == "tensor([2., 4.], grad_fn=<DoubledBackward>)"  # its first run was waited for
        loss = y.sum()
        assert repr(loss) == "tensor(pending, shape=(), dtype=float32, grad_fn=<SumBackward0>)"
        loss.backward()
        session.last_run.wait()
        assert repr(loss) == "tensor(6., grad_fn=<SumBackward0>)"
        assert repr(loss.detach()) == "tensor(6.)"
        assert repr(x.grad) == "tensor([2., 2.])"
        with session.deferred():
            later = x.grad * 3.0
            before = session.last_run
            assert repr(later).startswith("tensor(pending, shape=(2,)")
            assert session.last_run is before
        optimizer = rg.optim.SGD([x], lr=0.5)
        optimizer.step()
        session.last_run.wait()
        assert repr(x) == "tensor([0., 1.], requires_grad=True)"
    assert repr(x) == "tensor([0., 1.], requires_grad=True)"
    assert repr(later) == "tensor([6., 6.])"


def test_the_repr_of_a_large_value_shows_it_once_it_is_in_this_process() -> None:
    modes: list[dict[str, Any]] = [{}, {"workers": 2}, {"strict": True}, {"saved": "worker"}]
    for options in modes:
        with rg.Session(**options) as session:
            x: Any = rg.ones(100_000, requires_grad=True)
            large = (x * 2.0).exp()
            large.sum().backward()
            assert session.last_run is not None
            session.last_run.wait()
            here = repr(large).startswith("tensor([7.3891, 7.3891")
            assert here or "strict" in options
            large.tolist()
            assert repr(large).startswith("tensor([7.3891, 7.3891")


def test_what_is_compiled_shows_no_value_of_its_first_call(session: Any) -> None:
    shown: list[str] = []

    def step(x: Any) -> Any:
        y = x * 2.0
        shown.append(repr(y))
        return y

    with session:
        compiled = session.compile(step)
        assert [compiled(rg.tensor([value])).tolist() for value in (1.0, 2.0)] == [[2.0], [4.0]]
    assert all("pending" in text for text in shown)
