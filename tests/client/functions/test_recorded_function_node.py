"""The node of a Function applied in a session, as its user sees it."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import AutogradError


def square(**more: Any) -> Any:
    """A Function that saves its input, with what `more` says."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        more.get("forward", lambda _: None)(ctx)
        return x * x

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        more.get("backward", lambda _: None)(ctx)
        return grad * x * 2.0

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), "pinned": more.get("pinned", False)}
    return type("Square", (rg.autograd.Function,), body)


def sets_k(ctx: Any) -> None:
    ctx.k = 7


def sets_a_lock(ctx: Any) -> None:
    ctx.lock = threading.Lock()


def uses_the_lock(ctx: Any) -> None:
    with ctx.lock:
        pass


@pytest.fixture(params=[False, True], ids=["plain", "strict"])
def session(request: Any) -> Any:
    with rg.Session(workers=2, strict=request.param) as session:
        yield session


def leaf() -> Any:
    return rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)


def test_dr_05_an_attribute_outlives_a_pass_that_frees_what_was_saved(session: Any) -> None:
    for _ in range(3):  # learned, known, known
        x = leaf()
        y = square(forward=sets_k).apply(x)
        y.sum().backward()
        session._waiter.wait_for_everything()
        assert y.grad_fn.k == 7
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            _ = y.grad_fn.saved_tensors


def test_a_context_without_attributes_is_not_kept_for_reading(session: Any) -> None:
    Square = square()
    Square.apply(leaf()).sum().backward()
    session._waiter.wait_for_everything()
    y = Square.apply(leaf())
    y.sum().backward()
    session._waiter.wait_for_everything()
    assert y.grad_fn._left is None
    assert not hasattr(y.grad_fn, "k")


def test_reading_a_context_after_the_session_says_that_it_is_gone() -> None:
    with rg.Session():
        y = square(forward=sets_k).apply(leaf())
    with pytest.raises(RuntimeError, match="when its session was closed"):
        _ = y.grad_fn.k


def test_h10_a_context_that_cannot_be_pickled_stays_where_it_is(session: Any) -> None:
    Locks = square(forward=sets_a_lock, backward=uses_the_lock)
    for _ in range(3):
        x = leaf()
        with rg.place(worker=1):
            y = Locks.apply(x)
        session.run(y)
        session._waiter.wait_for_everything()
        y.sum().backward()  # another run: the context was kept
        assert x.grad.numpy().tolist() == [2.0, 4.0]


def test_h10_pinned_says_so_beforehand(session: Any) -> None:
    Pinned = square(forward=sets_k, pinned=True)
    for _ in range(2):
        x = leaf()
        y = Pinned.apply(x)
        session.run(y)
        session._waiter.wait_for_everything()
        assert session.saved_bytes == 0
        assert y.grad_fn._pinned
        y.sum().backward()
        assert x.grad.numpy().tolist() == [2.0, 4.0]


def test_a_change_of_ctx_that_earlier_runs_did_not_show_is_said_not_to_be_kept(session: Any) -> None:
    def sets_sometimes(ctx: Any) -> None:
        if float(ctx.saved_tensors[0].detach().sum()) > 100.0:
            ctx.large = True

    Square = square(backward=sets_sometimes)
    Square.apply(leaf()).sum().backward()
    session._waiter.wait_for_everything()
    x = rg.tensor([1000.0, 2.0], dtype=rg.float64, requires_grad=True)
    y = Square.apply(x)
    y.sum().backward()
    with pytest.warns(UserWarning, match="had not in earlier runs"):
        session._waiter.wait_for_everything()
    y = Square.apply(x)
    y.sum().backward()
    assert y.grad_fn.large


@pytest.mark.parametrize("said", [False, True], ids=["learned", "inferred"])
@pytest.mark.parametrize("what", ["argument", "output"])
def test_gr_05_only_what_was_saved_must_not_be_changed(session: Any, said: bool, what: str) -> None:
    class Sine(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x)
            return x.sin() + y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x.cos(), grad

        if said:

            @staticmethod
            def infer(x: Any, y: Any) -> Any:
                return x.shape, x.dtype

    with session:
        x = rg.tensor([0.5, 1.0], dtype=rg.float64, requires_grad=True)
        one, other = x * 1.0, x * 2.0
        z = Sine.apply(one, other)
        (z if what == "output" else other).mul_(3.0)
        z.sum().backward()
        factor = 3.0 if what == "output" else 1.0
        expected = factor * (np.cos([0.5, 1.0]) + 2.0)
        gradient: Any = x.grad
        np.testing.assert_allclose(gradient.numpy(), expected)
        z = Sine.apply(one, other)
        one.mul_(3.0)
        with pytest.raises(AutogradError, match="modified by an inplace operation"):
            z.sum().backward()


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_a_retained_region_is_passed_as_often_as_is_asked_for(strict: bool) -> None:
    class Counts(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.passes = 0
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            ctx.passes += 1
            x, w = ctx.saved_tensors
            return grad * w * float(ctx.passes), grad * x * float(ctx.passes)

    def run() -> list[Any]:
        w: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        y: Any = rg.checkpoint(lambda x: Counts.apply(Counts.apply(x, w), w), w * 3.0)
        made: list[Any] = []
        for retain in (True, True, False):
            w.grad = None
            (y * y).sum().backward(retain_graph=retain)
            gradient: Any = w.grad
            made.append(gradient.tolist())
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            y.sum().backward()
        return made

    expected = run()
    with rg.Session(workers=2, strict=strict):
        assert run() == expected


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "session"])
def test_a_backward_reads_the_tensor_to_which_a_variable_was_rebound_since(inside: bool) -> None:
    weight = rg.full((2,), 2.0)

    class Weighted(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * weight

    with rg.Session() if inside else nullcontext():
        for value in (20.0, 30.0):
            x = rg.ones(2, requires_grad=True)
            y = Weighted.apply(x)
            weight = rg.full((2,), value)
            y.sum().backward()
            assert x.grad is not None
            assert x.grad.tolist() == [value, value]


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "session"])
def test_cx_18_what_forward_set_as_needs_input_grad_is_what_backward_reads(inside: bool) -> None:
    class Decides(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.needs_input_grad = (False, True)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return (grad * 5 if ctx.needs_input_grad[0] else None), grad * 7

    with rg.Session() if inside else nullcontext():
        x, y = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
        Decides.apply(x, y).sum().backward()
        assert x.grad is None
        assert y.grad is not None
        assert y.grad.tolist() == [7.0, 7.0]
