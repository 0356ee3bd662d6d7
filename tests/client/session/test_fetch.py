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
