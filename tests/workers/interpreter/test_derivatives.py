"""The derivatives of user Functions as a worker runs them."""

from __future__ import annotations

from typing import Any

import numpy as np

import raygrad as rg
from raygrad.proto.ir.graph import KEEP_ON_WORKER, Graph
from raygrad.proto.ir.nodes import UNDEFINED, FunctionVjp, ObservedGradients

from ...graph_nodes import function_node, function_vjp_node
from .test_compiler import CONTEXT, VECTOR, host_with, run


def test_h7_the_third_derivative_comes_from_one_backward() -> None:
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * x * 3.0

    host, (fn,) = host_with(Cube)
    forward = function_node(fn, (0,), (1, 0), (1,))
    level1 = (1, 0, -1)  # cotangent, x, (y not saved)
    level2 = (1, *level1)
    level3 = (UNDEFINED, 1, UNDEFINED, *level2)

    def vjp(depth: int, level: tuple[int, ...], wanted: int, *requires_grad: int) -> FunctionVjp:
        inputs = (2, *level)
        return function_vjp_node(
            fn, inputs, (1, 0), depth=depth, wanted=(wanted,), requires_grad=requires_grad, retained=True, near=2
        )

    first, second, third = vjp(1, level1, 0, 1), vjp(2, level2, 1, 2), vjp(3, level3, 2, 3, 5)
    graph = Graph(
        (VECTOR, CONTEXT), (0, 0), (forward, first, second, third), tuple((v, KEEP_ON_WORKER) for v in (5, 7, 9))
    )
    record, values = run(graph, [np.array([1.0, 2.0]), np.array([1.0, 1.0])], host)
    assert record.failure is None, record.failure
    assert values[5].tolist() == [3.0, 12.0]  # 3 x^2
    assert values[7].tolist() == [6.0, 12.0]  # 6 x
    assert values[9].tolist() == [6.0, 6.0]


class Sometimes(rg.autograd.Function):
    """Its backward leaves a gradient undefined where the gradient that it is given is zero."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad if float(grad.numpy()[0]) else None


def backward_of(known: Any, grad: float) -> Any:
    """Run `Sometimes` forward and backward and return the record."""
    host, (fn,) = host_with(Sometimes)
    forward = function_node(fn, (0,), (1, 0), (1,))
    backward = function_vjp_node(fn, (2, 1, 0, UNDEFINED), (1, 0), requires_grad=(1,), expected=known, near=2)
    graph = Graph((VECTOR, CONTEXT), (0, 0), (forward, backward), ((5, KEEP_ON_WORKER),))
    record, _ = run(graph, [np.array([1.0, 2.0]), np.array([grad, 1.0])], host)
    assert record.failure is None, record.failure
    return record


def test_h5_what_a_backward_leaves_undefined_is_reported_where_nothing_is_known() -> None:
    assert backward_of(None, 1.0).undefined == ((1, (), ()),)
    assert backward_of(None, 0.0).undefined == ((1, (0,), ()),)


def test_h5_what_a_backward_leaves_undefined_is_reported_again_only_where_it_had_not_been() -> None:
    assert backward_of(ObservedGradients((), ()), 1.0).undefined == ()
    assert backward_of(ObservedGradients((), ()), 0.0).undefined == ((1, (0,), ()),)
    assert backward_of(ObservedGradients((0,), ()), 0.0).undefined == ()
    assert backward_of(ObservedGradients((0,), ()), 1.0).undefined == ()


def test_the_context_that_backward_is_given_is_its_own() -> None:
    class Counts(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.runs = 0
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            ctx.runs += 1
            return grad * ctx.runs

    host, (fn,) = host_with(Counts)
    forward = function_node(fn, (0,), (1, 0), (1,))
    twice = [
        function_vjp_node(fn, (context, 1, 0, UNDEFINED), (1, 0), requires_grad=(1,), retained=True, near=context)
        for context in (2, 4)  # the second reads what the first left behind
    ]
    graph = Graph((VECTOR, CONTEXT), (0, 0), (forward, *twice), ((5, KEEP_ON_WORKER), (7, KEEP_ON_WORKER)))
    record, values = run(graph, [np.array([1.0, 2.0]), np.array([1.0, 1.0])], host)
    assert record.failure is None, record.failure
    assert values[5].tolist() == [1.0, 1.0]
    assert values[7].tolist() == [2.0, 2.0]
    assert [entry.index for entry in record.observations] == [0, 1, 2]  # each changed it, and says so
