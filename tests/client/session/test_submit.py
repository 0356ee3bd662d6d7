"""Sending off what was recorded: when, in which runs, and what is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import DroppedError

from .test_session import Cube, FailsFromThree


def test_recording_runs_nothing_until_a_value_is_read(session: Any) -> None:
    with session:
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2.0
        assert session.last_run is None
        assert y.numpy(force=True).tolist() == [2.0, 4.0]
        assert session.last_run is not None


def test_backward_submits_and_does_not_wait(session: Any) -> None:
    with session:
        x: Any = rg.tensor(2.0, dtype=rg.float64, requires_grad=True)
        loss = Cube.apply(x)
        loss.backward()
        run = session.last_run
        assert float(x.grad) == 12.0
        assert run.done()


def test_sync_raises_inside_the_call_that_fails() -> None:
    with rg.Session(workers=1, sync=True):
        x: Any = rg.tensor(1.0, requires_grad=True)
        y = FailsFromThree.apply(x, rg.tensor(3.0))
        with pytest.raises(ArithmeticError):
            y.backward()


def test_dr_08_what_reads_a_dropped_value_is_refused_where_it_is_submitted() -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise LookupError

    with rg.Session() as session:
        x: Any = rg.tensor([1.0], requires_grad=True)
        first = Fails.apply(x)
        second = Fails.apply(x)  # recorded with the pass that fails
        first.sum().backward()
        with pytest.raises(LookupError):
            session._waiter.wait_for_everything()
        with pytest.raises(DroppedError, match="was dropped: run"):
            second.sum().backward()
        assert x.grad is None
        Fails.apply(x)
