"""User Functions as a worker runs them: forward, and what is reported of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.proto.ir.graph import KEEP_ON_WORKER, Graph
from raygrad.proto.ir.nodes import UNDEFINED
from raygrad.proto.ir.signatures import ObservedArray, ObservedSignature
from raygrad.workers.interpreter.derivatives import CONDUCT, READS

from ...graph_nodes import function_node, function_vjp_node
from .test_compiler import CONST, CONTEXT, VECTOR, host_with, run


class Scale(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        assert ctx.saved_tensors[0].requires_grad
        return grad * ctx.factor, None


def test_a_function_and_its_vjp_share_a_live_context() -> None:
    host, (fn,) = host_with(Scale)
    forward = function_node(fn, (0, 1), (1, 0), (1, -1))
    backward = function_vjp_node(
        fn,
        (2, 0, 0, UNDEFINED, UNDEFINED),
        (1, 0),
        items=4,
        arguments=2,
        requires_grad=(1,),
        reports_effects=True,
        near=2,
    )
    graph = Graph((VECTOR, CONTEXT, CONST), (0, 2), (forward, backward), ((3, KEEP_ON_WORKER), (5, KEEP_ON_WORKER)))
    record, values = run(graph, [np.array([1.0, 2.0]), 5.0], host)
    assert record.failure is None
    assert values[3].tolist() == [5.0, 10.0]
    assert values[5].tolist() == [5.0, 10.0]
    learned, changes = record.observations
    assert changes.outputs == ((CONDUCT, READS),)
    assert learned.saved_inputs == (0,)
    assert learned.outputs[0][0] == "array"


def test_h3_an_open_ended_function_reports_and_pins_its_outputs() -> None:
    host, (fn,) = host_with(Scale)
    forward = function_node(fn, (0, 1), (1,), (1, -1))
    graph = Graph((VECTOR, CONTEXT, CONST), (0, 2), (forward,), ((2, 1),), True)
    record, _ = run(graph, [np.array([1.0, 2.0]), 5.0], host)
    assert host.fetch(1, 3).tolist() == [5.0, 10.0]
    assert dict(record.results)[3].tolist() == [5.0, 10.0]
    facts = {"tuple": 0, "saves": 1, "attributes": 1, "bound": 0, "unchecked": (), "holds": (1, ()), "bumps": ()}
    assert dict(record.observations[0].outputs[1:]) == facts


def test_arrays_given_to_user_code_are_read_only() -> None:
    class Writes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.numpy()[0] = 7.0
            return x

    host, (fn,) = host_with(Writes)
    shown = signature(("same", 0))
    for known in (None, shown):  # the first time it gets a copy, and what it did is compared
        forward = function_node(fn, (0,), (1, 0), (0,), recorded=False, expected=known)
        record, _ = run(Graph((VECTOR, CONTEXT), (0,), (forward,), ()), [np.array([1.0, 2.0])], host)
        assert record.failure is not None
        assert "call ctx.mark_dirty(...)" in record.failure.message


def signature(origin: tuple[Any, ...]) -> ObservedSignature:
    """What a Function shows that saves nothing and returns one array."""
    return ObservedSignature((ObservedArray((2,), "float64", True, -1, origin, "cpu"),), (), (), False, False)


class Shrinks(rg.autograd.Function):
    """Behaves alike until its argument is negative."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        first = float(x.numpy()[0])
        if first == -1.0:
            return rg.from_numpy(x.numpy()[:1].copy())
        if first == -2.0:
            ctx.save_for_backward(x)
        if first == -3.0:
            return rg.from_numpy(x.numpy().copy()), rg.from_numpy(x.numpy().copy())
        if first == -4.0:
            y = rg.from_numpy(x.numpy().copy())
            ctx.mark_non_differentiable(y)
            return y
        return x if first == -5.0 else rg.from_numpy(x.numpy().copy())

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


@pytest.mark.parametrize("how", [-1.0, -2.0, -3.0, -4.0, -5.0])
def test_h3_a_run_that_differs_is_noticed_after_many_that_agreed(how: float) -> None:
    host, (fn,) = host_with(Shrinks)
    shown = signature(())
    forward = function_node(fn, (0,), (1, 0), (1,), expected=shown)
    graph = Graph((VECTOR, CONTEXT), (0,), (forward,), ((2, KEEP_ON_WORKER),))
    for _ in range(3):
        record, _ = run(graph, [np.array([1.0, 2.0])], host)
        assert record.failure is None
    record, _ = run(graph, [np.array([how, 2.0])], host)
    assert record.failure is not None
    assert "behaved differently from its first run" in record.failure.message
