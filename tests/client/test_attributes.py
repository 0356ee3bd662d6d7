"""Attributes of contexts that are also something else: what was saved, an argument, an output, or one another.

Rules of this file: each program runs eagerly, in a session, in a strict one, and in one where the context waits on
disk in between; what it returns is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg

SIZE = 9_000
"""Items of arrays of more than `LARGE` bytes: their references are let go of."""
ROOM = 10 * 8 * SIZE
"""Memory in which contexts of a few of these arrays wait on disk."""

Program = Callable[[Callable[[], None]], list[Any]]


def leaf(scale: float = 1.0) -> Any:
    return rg.tensor(np.linspace(1.0, 2.0, SIZE) * scale, requires_grad=True)


def function(forward: Any, backward: Any) -> Any:
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (rg.autograd.Function,), body)


def plain(value: Any) -> Any:
    if isinstance(value, rg.Tensor):
        return value.detach().numpy()[:3].tolist()
    if isinstance(value, np.ndarray):
        return value[:3].tolist()
    return value


def is_what_was_saved(between: Any) -> list[Any]:
    def forward(ctx: Any, x: Any) -> Any:
        middle = x * 3.0
        ctx.save_for_backward(x, middle)
        ctx.x, ctx.middle = x, middle
        return middle * 2.0

    def backward(ctx: Any, g: Any) -> Any:
        x, middle = ctx.saved_tensors
        rg.emit("same", [ctx.x is x, np.array_equal(ctx.middle.detach().numpy(), middle.detach().numpy())])
        return g * ctx.x + ctx.middle

    x = leaf()
    y = function(forward, backward).apply(x)
    between()
    y.sum().backward()
    return [x.grad]


def is_an_input(between: Any) -> list[Any]:
    def forward(ctx: Any, first: Any, second: Any) -> Any:
        ctx.second, ctx.first, ctx.also = second, first, second
        return first * second

    def backward(ctx: Any, g: Any) -> Any:
        rg.emit("one", ctx.second is ctx.also)
        return g * ctx.second, g * ctx.first * 1.0 + ctx.also

    first, second = leaf(2.0), leaf(3.0)
    y = function(forward, backward).apply(first * 1.0, second * 1.0)
    between()
    y.sum().backward()
    return [first.grad, second.grad]


def is_an_output(between: Any) -> list[Any]:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.later, ctx.early = x * 5.0, x * 7.0
        return ctx.early, ctx.later

    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return g * ctx.early + h * ctx.later

    x = leaf()
    early, late = function(forward, backward).apply(x)
    between()
    (early.sum() + (late * 2.0).sum()).backward()
    return [x.grad]


def is_another_attribute(between: Any) -> list[Any]:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.one = {"held": [x.numpy() * 2.0]}
        ctx.one["again"] = ctx.one["held"]
        return x * 1.0

    def backward(ctx: Any, g: Any) -> Any:
        rg.emit("one", ctx.one["again"] is ctx.one["held"])
        ctx.one["again"].append(4.0)
        return g * rg.from_numpy(ctx.one["held"][0]) * ctx.one["held"][1]

    x = leaf()
    y = function(forward, backward).apply(x)
    between()
    y.sum().backward()
    return [x.grad]


def is_in_a_list(between: Any) -> list[Any]:
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.all = [x, {"w": w}, (x, w), x.numpy() * 3.0]
        return x * w

    def backward(ctx: Any, g: Any) -> Any:
        x, held, both, array = ctx.all
        rg.emit("one", [both[0] is x, both[1] is held["w"]])
        return g * held["w"] * x, g * both[0] * rg.from_numpy(array)

    x, w = leaf(), leaf(2.0)
    y = function(forward, backward).apply(x, w)
    between()
    y.sum().backward()
    return [x.grad, w.grad]


def set_by_the_client(between: Any) -> list[Any]:
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.x, ctx.w, ctx.factor, ctx.inner = x, w, 1.0, x.numpy() * 2.0
        return x * w

    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.w * ctx.factor, g * ctx.x * rg.from_numpy(ctx.inner)

    x, w, other = leaf(), leaf(2.0), leaf(9.0)
    y = function(forward, backward).apply(x * 1.0, w * 1.0)
    between()
    y.grad_fn.w, y.grad_fn.factor = other.detach(), 5.0
    seen = [y.grad_fn.w, y.grad_fn.x, y.grad_fn.factor]
    y.sum().backward()
    return [*seen, x.grad, w.grad, y.grad_fn.w, y.grad_fn.inner]


def set_by_an_earlier_backward(between: Any) -> list[Any]:
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.w, ctx.x, ctx.count, ctx.inner = w, x, 0, x.numpy() * 2.0
        return x * w

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        ctx.count += 1
        grad = g * ctx.w * float(ctx.count), g * ctx.x + rg.from_numpy(ctx.inner)
        ctx.w = x if ctx.count == 1 else ctx.w
        ctx.x, ctx.inner = x * 3.0, ctx.inner + 1.0
        return grad

    x, w = leaf(), leaf(2.0)
    y = function(forward, backward).apply(x * 1.0, w * 1.0)
    found: list[Any] = []
    for number in range(3):
        between()
        x.grad = w.grad = None
        y.sum().backward(retain_graph=number < 2)
        found += [x.grad, w.grad, y.grad_fn.count, y.grad_fn.w, y.grad_fn.x, y.grad_fn.inner]
    return found


def deleted_and_set_to_something_else(between: Any) -> list[Any]:
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.w, ctx.x, ctx.inner = w, x, x.numpy() * 2.0
        return x * w

    def backward(ctx: Any, g: Any) -> Any:
        had = hasattr(ctx, "w")
        grad = g * (ctx.w if had else ctx.x), g * rg.from_numpy(ctx.inner)
        if had:
            del ctx.w
        ctx.x = "told" if isinstance(ctx.x, str) else ctx.x * 2.0
        return grad

    x, w = leaf(), leaf(2.0)
    y = function(forward, backward).apply(x * 1.0, w * 1.0)
    found: list[Any] = []
    for number in range(2):
        between()
        x.grad = w.grad = None
        y.sum().backward(retain_graph=not number)
        found += [x.grad, w.grad, hasattr(y.grad_fn, "w"), y.grad_fn.x]
    return found


def is_an_input_that_was_changed(between: Any) -> list[Any]:
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.x, ctx.w = x, w
        x.mul_(w)
        ctx.mark_dirty(x)
        return x

    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.w, g * ctx.x

    x, w = leaf(), leaf(2.0)
    y = function(forward, backward).apply(x * 1.0, w * 1.0)
    between()
    y.sum().backward()
    return [x.grad, w.grad]


def is_what_was_saved_and_in(contain: Callable[[Any], Any], found: Callable[[Any], Any]) -> Program:
    """Return a program in which a container on ctx holds what was saved."""

    def program(between: Any) -> list[Any]:
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.held = contain(x)
            return x * 2.0

        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            rg.emit("one", found(ctx.held) is x)
            return g * x * found(ctx.held)

        x = leaf()
        y = function(forward, backward).apply(x * 1.0)
        between()
        y.sum().backward()
        return [x.grad]

    return program


CONTAINERS: dict[str, Program] = {
    "in a list": is_what_was_saved_and_in(lambda x: [x], lambda held: held[0]),
    "in a tuple": is_what_was_saved_and_in(lambda x: (1, x), lambda held: held[1]),
    "in a dict": is_what_was_saved_and_in(lambda x: {"x": x}, lambda held: held["x"]),
    "in a set": is_what_was_saved_and_in(lambda x: {x}, lambda held: next(iter(held))),
    "in a dict in a list": is_what_was_saved_and_in(lambda x: [{"x": x}], lambda held: held[0]["x"]),
    "in a list in a dict": is_what_was_saved_and_in(lambda x: {"x": [0, x]}, lambda held: held["x"][1]),
}

PROGRAMS: dict[str, Program] = {
    one.__name__: one
    for one in (
        is_what_was_saved,
        is_an_input,
        is_an_output,
        is_another_attribute,
        is_in_a_list,
        set_by_the_client,
        set_by_an_earlier_backward,
        deleted_and_set_to_something_else,
        is_an_input_that_was_changed,
    )
} | CONTAINERS
SESSIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strict": {"strict": True},
    "two workers": {"strict": True, "workers": 2},
    "little memory": {"memory": ROOM},
}


@pytest.mark.parametrize("where", SESSIONS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_attributes_are_what_they_are_eagerly(name: str, where: str) -> None:
    program, heard = PROGRAMS[name], list[Any]()
    expected = [plain(one) for one in program(lambda: None)]
    options: dict[str, Any] = {"workers": 1, **SESSIONS[where]}
    with rg.Session(**options) as session:
        for event in ("same", "one"):
            session.on(event, heard.append)
        made: list[Any] = []

        def between() -> None:
            """End a run, and have another take the memory."""
            session.run()
            if "memory" in SESSIONS[where]:
                others = [(leaf(float(number + 1)).detach() * 2.0).sin() for number in range(8)]
                session.run(*others)
                session._waiter.wait_for_everything()
            made.append(1)

        for _ in range(2):  # learned, and known
            assert [plain(one) for one in program(between)] == expected
        assert made
        session._waiter.wait_for_everything()
    assert all([value is True or value == [True, True] for value in heard]), heard
