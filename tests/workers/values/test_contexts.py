"""Contexts taken apart and rebuilt: what a later segment gets is what forward saved."""

from __future__ import annotations

import threading
from typing import Any, cast

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.recorder import ResidentMemory
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.serving import device_of
from raygrad.autograd.functions.context_state import WANTED
from raygrad.autograd.functions.function import run_backward, run_forward
from raygrad.errors import NotShippable
from raygrad.proto.codec.values import Blob
from raygrad.proto.ir.specs import LIVE, STAYS
from raygrad.workers.process.host import WorkerHost
from raygrad.workers.values.contexts import Context, bound_to
from raygrad.workers.values.packed_values import unpack_all


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
    (value,) = unpack_all(host.pack([context]))  # type: ignore[misc]
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


class Store(ResidentMemory):
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
    assert context.packed()["attributes"]["array"] is packed["attributes"]["array"]
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


class Placed(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, x + 1.0)
        ctx.held = [x + 2.0, {"a": x + 3.0}]
        ctx.number = 4
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


class Closed(Placed):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.table = {"by": lambda grad: grad * x}
        return x * 2.0


def on_device(cls: Any) -> Context:
    x = rg.ones(5, dtype=rg.float64, device="cuda:0")
    node, _ = forward(cls, x)
    node._input_places, node._places = [x.device], [x.device]
    return Context(node)


def test_what_a_context_alone_holds_on_a_device_is_told() -> None:
    with use_stand_in(1):
        context = on_device(Placed)
        assert [float(array[0].get()) for array in context.parts()] == [2.0, 3.0, 4.0]
        assert context.nbytes == 3 * 40
        assert not context.hides("cuda:0")
    assert not Context(forward(Closed, rg.ones(2))[0]).parts()


def test_what_may_hold_more_than_is_seen_is_told_by_its_device() -> None:
    with use_stand_in(1):
        context = on_device(Closed)
        assert context.parts() == []
        assert [context.hides(), context.hides("cuda:0"), context.hides("cuda:1")] == [True, True, False]
    assert not Context(forward(Closed, rg.ones(2))[0]).hides(), "it is of the host"


def test_where_a_context_can_go_is_told() -> None:
    assert bound_to(forward(Placed, rg.ones(2))[0]) == 0
    assert bound_to(forward(Closed, rg.ones(2))[0]) == 0
    with use_stand_in(1):
        assert bound_to(cast("Any", on_device(Placed)._live)) == STAYS, "to the disk of its worker"
        assert bound_to(cast("Any", on_device(Closed)._live)) == LIVE, "nobody sees what it holds"
        lent: Any = on_device(Placed)._live
        lent._lent = {0: rg.ones(2)}
        assert bound_to(lent) == LIVE


def test_a_context_of_a_device_is_packed_with_its_places_where_it_was_asked_for() -> None:
    with use_stand_in(1):
        context = on_device(Placed)
        with pytest.raises(NotShippable, match="is on cuda:0, and does not leave its worker"):
            context.packed()
        there: Any = Context(packed=context.packed(asked=True)).live(Placed)
        assert there._input_places == there._places == [rg.device("cuda:0")]
        assert [str(array.device) for array in (there.held[0], there.held[1]["a"])] == ["cuda:0", "cuda:0"]
        assert there.held[1]["a"].tolist() == [4.0] * 5


def test_a_context_that_came_packed_settles_on_its_devices() -> None:
    with use_stand_in(1) as device:
        context = Context(packed=on_device(Placed).packed(asked=True))
        context.settle()
        parts: list[Any] = [part for part in context.parts() if not isinstance(part, Blob)]
        assert [str(device_of(array)) for array in parts] == ["cuda:0"] * 3
        device.forget_transfers()
        there: Any = context.live(Placed)
        assert there.held[1]["a"].tolist() == [4.0] * 5
        assert device.transfers.to_device == 0
        context.settle()
        assert context.live(Placed) is there


def test_a_context_of_another_version_of_its_class_serves_the_class_that_is_there_now() -> None:
    class Newer(Closed):
        pass

    context = Context(forward(Closed, rg.ones(2))[0])
    assert context.live(Closed)._function is Closed
    assert context.live(Newer)._function is Newer
