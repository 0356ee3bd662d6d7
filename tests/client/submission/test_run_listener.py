"""What the driver reports: emits, what is learned of Functions, and runs that have ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import GraphError


@pytest.fixture(params=[{"workers": 1}, {"workers": 2}, {"workers": 1, "strict": True}], ids=["one", "two", "strict"])
def session(request: pytest.FixtureRequest) -> Any:
    session = rg.Session(**request.param)
    yield session
    session.close(discard=True)


def test_emits_reach_handlers_and_the_run_in_order(session: Any) -> None:
    heard: list[Any] = []
    with session:
        session.on("grad", lambda value: heard.append(np.asarray(value).tolist()))
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2.0
        y.register_hook(lambda grad: rg.emit("grad", grad))
        x.register_hook(lambda grad: rg.emit("grad", grad))
        y.sum().backward()
        session.last_run.wait()
        emits = [(name, np.asarray(value).tolist()) for name, value in session.last_run.emits]
    assert heard == [[1.0, 1.0], [2.0, 2.0]]
    assert emits == [("grad", [1.0, 1.0]), ("grad", [2.0, 2.0])]


def test_an_infer_that_said_otherwise_than_forward_is_an_error(session: Any) -> None:
    class Lies(rg.autograd.Function):
        @staticmethod
        def infer(x: Any) -> Any:
            return ((3,), "float32")

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

    with session:
        y = Lies.apply(rg.ones(2))
        with pytest.raises(GraphError, match=r"the infer of .*Lies.* said that its outputs are .*3.*returned .*2"):
            y.tolist()


def test_what_a_backward_did_to_its_context_is_known_to_later_passes(session: Any) -> None:
    class Counts(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, seen: bool) -> Any:
            ctx.seen = seen
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if ctx.seen:
                ctx.count = 1
            return grad, None

    with session:
        x: Any = rg.tensor([1.0], requires_grad=True)
        for seen in (False, True):
            Counts.apply(x, seen).sum().backward()
            generation = session._observed.generation
            if seen:
                with pytest.warns(UserWarning, match="a user's backward changed its ctx, and had not in earlier runs"):
                    session._waiter.wait_for_everything()
                assert session._observed.generation > generation
            else:
                session._waiter.wait_for_everything()


def test_runs_that_have_ended_are_forgotten_in_order(session: Any) -> None:
    with session:
        for number in range(3):
            (rg.ones(2) * float(number)).tolist()
        session._waiter.wait_for_everything()
        assert session._runs.history == []
        assert session._runs.active == {}
        assert session.last_run.finished


def test_gradients_that_were_undefined_once_are_known_to_be_so_at_times(session: Any) -> None:
    class EndsAt(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, place: int) -> Any:
            ctx.place = place
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return (None, grad, None) if ctx.place == 0 else (grad, None, None)

    with session:
        for place in (0, 1, 1):
            inputs: Any = [rg.ones(2, requires_grad=True) for _ in range(2)]
            EndsAt.apply(inputs[0], inputs[1], place).sum().backward()
            assert [one.grad is None for one in inputs] == [place == 0, place == 1]
            session._waiter.wait_for_everything()
        assert [observed.undefined for observed in session._observed.gradients.values()] == [(0, 1)]
