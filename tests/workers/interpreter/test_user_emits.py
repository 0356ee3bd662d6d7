"""Emits go to the sink of the thread that runs the node; at the client, into the session that records."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import NotShippable
from raygrad.workers.interpreter.user_emits import emitting_to


def test_without_a_sink_emit_does_nothing() -> None:
    rg.emit("name", 1)


def test_sinks_nest_and_none_discards() -> None:
    heard: list[tuple[str, Any]] = []
    with emitting_to(lambda name, value: heard.append((name, value))):
        rg.emit("a", 1)
        with emitting_to(None):
            rg.emit("b", 2)
        rg.emit("c", 3)
    rg.emit("d", 4)
    assert heard == [("a", 1), ("c", 3)]


def test_other_threads_do_not_share_the_sink() -> None:
    heard: list[str] = []
    with emitting_to(lambda name, value: heard.append(name)):
        thread = threading.Thread(target=rg.emit, args=("elsewhere", 1))
        thread.start()
        thread.join(10)
    assert heard == []


def test_code_at_the_client_emits_in_program_order_without_waiting() -> None:
    heard: list[Any] = []
    with rg.Session() as session:
        session.on("told", lambda value: heard.append(value))
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2.0
        y.register_hook(lambda grad: rg.emit("told", "by a worker"))
        rg.emit("told", {"first": [y, (3, "plain")], "again": y})
        y.sum().backward()
        rg.emit("told", "last")
        assert session.last_run is not None
        assert session.last_run.records == []
    first, *rest = heard
    assert first["first"][0].tolist() == [2.0, 4.0]
    assert first["again"].tolist() == [2.0, 4.0]
    assert first["first"][1] == (3, "plain")
    assert rest == ["by a worker", "last"]


def test_a_recorded_emit_is_of_its_own_moment() -> None:
    heard: list[Any] = []
    with rg.Session() as session:
        session.on("told", heard.append)
        counts, x = [1], rg.tensor([1.0])
        rg.emit("told", (counts, x))
        counts.append(2)
        x.add_(1.0)
    assert [(some, tensor.tolist()) for some, tensor in heard] == [([1], [1.0])]


def test_what_cannot_travel_is_refused_where_it_is_emitted() -> None:
    with rg.Session():
        with pytest.raises(NotShippable, match="lock"):
            rg.emit("told", {"lock": threading.Lock()})


def test_a_pass_on_another_thread_emits_into_the_session_of_its_graph() -> None:
    heard: list[Any] = []
    with rg.Session() as session:
        session.on("told", heard.append)
        x: Any = rg.tensor([1.0], requires_grad=True)
        loss = (x * 3.0).sum()
        x.register_post_accumulate_grad_hook(lambda leaf: rg.emit("told", leaf.grad))
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join(30)
    assert [grad.tolist() for grad in heard] == [[3.0]]


def test_a_gradient_that_proves_undefined_is_emitted_as_none() -> None:
    class Stops(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    heard: list[Any] = []
    with rg.Session() as session:
        session.on("told", heard.append)
        x: Any = rg.tensor([1.0], requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda leaf: rg.emit("told", leaf.grad))
        Stops.apply(x).sum().backward()
    assert heard == [None]
