"""Long chains and wide sums: recorded, run, differentiated and released, eagerly and in a session."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

import raygrad as rg

LONG = 100_000
SHORT = 10_000


class Scale(rg.autograd.Function):
    pure = True

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1.0001

    @staticmethod
    def backward(ctx, g):
        return g * 1.0001


def chain(x: Any, nodes: int) -> Any:
    for _ in range(nodes):
        x = x * 1.0001
    return x.sum()


def chain_of_functions(x: Any, nodes: int) -> Any:
    for _ in range(nodes):
        x = Scale.apply(x)
    return x.sum()


def loss_in_a_loop(x: Any, nodes: int) -> Any:
    loss: Any = 0.0
    for number in range(nodes):
        loss = loss + (x * float(number % 7)).sum()
    return loss


def stacked(x: Any, nodes: int) -> Any:
    return rg.stack([Scale.apply(x) for _ in range(nodes)]).sum()


@pytest.mark.parametrize("make", [chain, chain_of_functions, loss_in_a_loop, stacked])
@pytest.mark.parametrize("retain", [False, True])
def test_a_deep_graph_is_differentiated_and_released_eagerly(make: Callable[[Any, int], Any], retain: bool) -> None:
    x: Any = rg.ones(2, dtype=rg.float64, requires_grad=True)
    loss = make(x, SHORT if retain else LONG)
    node = weakref.ref(loss.grad_fn)
    loss.backward(retain_graph=retain)
    assert (x.grad.numpy() > 0).all()
    del loss
    gc.collect()
    assert node() is None


@pytest.mark.parametrize("make", [chain, chain_of_functions])
def test_a_deep_graph_is_differentiated_twice_eagerly(make: Callable[[Any, int], Any]) -> None:
    x: Any = rg.ones(2, dtype=rg.float64, requires_grad=True)
    y = make(x * x, SHORT)
    (g,) = rg.autograd.grad(y, x, create_graph=True)
    (second,) = rg.autograd.grad(g.sum(), x)
    assert second.numpy() == pytest.approx(g.detach().numpy(), rel=1e-12)


@pytest.mark.parametrize("make", [chain, chain_of_functions])
def test_a_deep_graph_that_is_never_differentiated_is_released(make: Callable[[Any, int], Any]) -> None:
    for session in (nullcontext, rg.Session):
        with session():
            x = rg.ones(2, requires_grad=True)
            loss = make(x, SHORT)
            del loss, x
            gc.collect()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("make", [chain, chain_of_functions, loss_in_a_loop, stacked])
def test_a_session_has_the_bits_of_an_eager_program(make: Callable[[Any, int], Any], workers: int) -> None:
    def gradient() -> bytes:
        x: Any = rg.tensor([0.5, 0.25], dtype=rg.float64, requires_grad=True)
        make(x, SHORT).backward()
        return x.grad.numpy().tobytes()

    expected = gradient()
    with rg.Session(workers=workers):
        assert gradient() == expected


def test_a_long_chain_is_run_in_a_session() -> None:
    x: Any = rg.ones(2, dtype=rg.float64, requires_grad=True)
    chain(x, LONG).backward()
    expected = x.grad.numpy().tobytes()
    x.grad = None
    with rg.Session(workers=2):
        chain(x, LONG).backward()
        grad: Any = x.grad
        assert grad.numpy().tobytes() == expected


def test_many_workers_in_one_process_are_served() -> None:
    with rg.Session(workers=1000) as session:
        assert session.workers == 1000
        x: Any = rg.ones(2, requires_grad=True)
        loss_in_a_loop(x, 100).backward()
        assert x.grad.tolist() == [sum(number % 7 for number in range(100))] * 2
