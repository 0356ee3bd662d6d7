"""Questions about the pass that is under way, and callbacks after it (EN-24, EN-26, EN-36)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd import graph


def vector(T: Any, *values) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


def test_en_24_callbacks_run_in_order_after_the_gradients_and_may_queue_more(T: Any):
    engine = T.autograd.Variable._execution_engine
    x = vector(T, 2)
    seen = []

    def first():
        seen.append(("first", x.grad.tolist()))
        engine.queue_callback(lambda: seen.append(("third", None)))

    def queue(g):
        engine.queue_callback(first)
        engine.queue_callback(lambda: seen.append(("second", None)))

    x.register_hook(queue)
    (x * x).sum().backward()
    assert seen == [("first", [4]), ("second", None), ("third", None)]


def test_en_24_an_inner_pass_runs_its_own(T: Any):
    engine = T.autograd.Variable._execution_engine
    x, y = vector(T, 2), vector(T, 3)
    order = []

    def inner(g):
        engine.queue_callback(lambda: order.append("outer"))
        with T.enable_grad():
            loss = (y * 2).sum()
        y.register_hook(lambda g: engine.queue_callback(lambda: order.append("inner")))
        loss.backward()
        order.append("hook")

    x.register_hook(inner)
    (x * x).sum().backward()
    assert order == ["inner", "hook", "outer"]


def test_en_24_a_failed_pass_runs_none_and_leaves_none():
    engine = rg.autograd.Variable._execution_engine
    x = vector(rg, 2)
    y = x * 2

    def fail(g):
        engine.queue_callback(pytest.fail)
        raise KeyError("on purpose")

    y.register_hook(fail)
    with pytest.raises(KeyError):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="during backward pass"):
        engine.queue_callback(pytest.fail)
    assert graph.current_pass_id() == -1


def test_en_36_passes_have_numbers_of_their_own():
    x = vector(rg, 2)
    numbers = []

    def ask(g):
        numbers.append(graph.current_pass_id())
        if len(numbers) == 1:
            with rg.enable_grad():
                loss = (x * 2).sum()
            loss.backward()
            numbers.append(graph.current_pass_id())

    x.register_hook(ask)
    (x * x).sum().backward()
    outer, inner, again = numbers
    assert outer == again != inner
    assert graph.current_pass_id() == -1
    assert graph.current_node() is None


def test_en_36_what_will_run():
    x, y = vector(rg, 2), vector(rg, 3)
    a, b = x * 2, y * 2
    seen = []
    a.register_hook(lambda g: seen.append([graph.will_run(n.grad_fn) for n in (a, b)]))
    loss = (a * b).sum()
    loss.backward(inputs=[x], retain_graph=True)
    rg.autograd.grad(loss, a)
    assert seen == [[True, False], [True, False]]
    with pytest.raises(RuntimeError, match="during the backward pass"):
        graph.will_run(a.grad_fn)
    with pytest.raises(RuntimeError, match="during the backward pass"):
        graph.is_graph_retained()


def test_en_26_without_engine_threads_deep_passes_stay_on_this_one():
    import threading

    depth, here, seen = 60, threading.get_ident(), set()

    class Deep(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, level):
            ctx.level = level
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.add(threading.get_ident() == here)
            if ctx.level:
                with rg.enable_grad():
                    x = g.detach().requires_grad_()
                    Deep.apply(x, ctx.level - 1).sum().backward()
            return g, None

    with rg.autograd.set_multithreading_enabled(False):
        Deep.apply(vector(rg, 1), depth).sum().backward()
    assert seen == {True}
    assert rg.autograd.is_multithreading_enabled()
    Deep.apply(vector(rg, 1), depth).sum().backward()
    assert seen == {True, False}
