"""Contexts taken apart and rebuilt: what a later segment gets is what forward saved."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.function import run_backward, run_forward
from raygrad.autograd.recording import Resident
from raygrad.errors import NotShippable
from raygrad.workers.contexts import WANTED, Context
from raygrad.workers.host import WorkerHost


class Keeps(rg.autograd.Function):
    """Saves an input, an output, a value of its own and attributes of many kinds."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any) -> Any:
        y = x * scale
        ctx.save_for_backward(x, y, x + 1.0, None)
        ctx.x = x
        ctx.scale, ctx.name, ctx.table = scale, "k", {"a": [1, 2]}
        ctx.array = np.arange(3.0)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y, more, nothing = ctx.saved_tensors
        assert nothing is None
        assert ctx.name == "k"
        assert ctx.table == {"a": [1, 2]}
        assert ctx.array.tolist() == [0.0, 1.0, 2.0]
        assert ctx.x is x
        return grad * ctx.scale + y + more, None


def crossed(context: Context) -> Context:
    """Return a context as another process gets it."""
    host = WorkerHost("w")
    (value,) = host.unpack(host.pack([context]))  # type: ignore[misc]
    assert isinstance(value, Context)
    return value


def forward(cls: Any, *args: Any) -> Any:
    return run_forward(cls, args, True, [WANTED if isinstance(a, rg.Tensor) else None for a in args])


def test_a_context_that_crossed_gives_the_same_gradient_as_the_live_one() -> None:
    x = rg.tensor([1.0, 2.0], dtype=rg.float64)
    node, y = forward(Keeps, x, 3.0)
    there = crossed(Context(node))
    results = []
    for context in (Context(node), there):
        again = context.live(Keeps).replay([x, None], [y])
        results.append(run_backward(again, [rg.ones(2, dtype=rg.float64)], False)[0])
    assert results[0] is not None
    assert results[1] is not None
    assert results[0].numpy().tolist() == results[1].numpy().tolist() == [8.0, 12.0]


class Store(Resident):
    nbytes = 5000


def test_an_attribute_that_holds_memory_says_how_much() -> None:
    class Stores(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.store = Store()
            return x * 1.0

    context, _ = run_forward(Stores, (rg.tensor([1.0], requires_grad=True),), True)
    assert Context(context).nbytes == 5000


def test_saved_inputs_and_outputs_are_references_and_carry_no_bytes() -> None:
    x = rg.tensor(np.zeros(1000))
    node, _ = forward(Keeps, x, 3.0)
    assert crossed(Context(node)).nbytes < 2 * x.numpy().nbytes  # only x + 1.0, and small attributes


def test_a_context_that_was_put_away_holds_nothing_and_is_brought_for_each_who_asks() -> None:
    node, _ = forward(Keeps, rg.tensor([1.0, 2.0], dtype=rg.float64), 3.0)
    context, brought = Context(node), []
    packed = context.packed()

    def bring() -> dict[str, Any]:
        brought.append(1)
        return packed

    assert context.nbytes > 0
    context.put_away(bring)
    assert context.nbytes == 0
    seen: Any = context.seen(Keeps)
    assert seen.array.tolist() == [0.0, 1.0, 2.0]
    assert context.packed() is packed
    assert len(brought) == 2
    assert context.live(Keeps) is context.live(Keeps)
    assert len(brought) == 3


def test_an_attribute_that_cannot_be_pickled_is_named() -> None:
    class Locks(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.lock = threading.Lock()
            return x * 1.0

    node, _ = forward(Locks, rg.tensor([1.0]))
    with pytest.raises(NotShippable, match=r"'ctx\.lock' of LocksBackward is a lock"):
        Context(node).packed()
