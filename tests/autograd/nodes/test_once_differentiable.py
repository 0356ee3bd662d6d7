"""Backwards that are differentiable once (LG-01 to LG-03, FT-06): tests/conformance has the programs for sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import Function, grad
from raygrad.autograd.function import once_differentiable
from raygrad.autograd.nodes.once_differentiable import (
    DelayedError,
    check_differentiable,
    delayed_error_outputs,
    with_delayed_error,
)

TWICE = "differentiate twice a function that was marked with @once_differentiable"


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        """Three times the square."""
        assert not rg.is_grad_enabled()
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class Mixed(Cube):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Cube.backward(ctx, g) + g * ctx.saved_tensors[0]


def leaf() -> Any:
    return rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)


def test_lg_01_the_wrapper_keeps_name_and_doc() -> None:
    assert Cube.backward.__name__ == "backward"
    assert Cube.backward.__doc__ == "Three times the square."
    x = leaf()
    Cube.apply(x).sum().backward()
    assert x.grad.tolist() == [3, 12]


def test_lg_03_the_error_node_is_there_also_with_implicit_ones() -> None:
    x = leaf()
    (g,) = grad(Cube.apply(x).sum(), x, create_graph=True)
    assert g.requires_grad
    assert g.tolist() == [3, 12]
    assert isinstance(g.grad_fn, DelayedError)
    with pytest.raises(RuntimeError, match=TWICE):
        g.sum().backward()


def test_lg_02_a_certain_input_is_unused() -> None:
    x = leaf()
    (g,) = grad(Cube.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="not have been used"):
        grad(g.sum(), x)
    assert grad(g.sum(), x, allow_unused=True) == (None,)


def test_a_part_that_is_differentiable_once_is_not_lost_in_a_sum() -> None:
    x = leaf()
    (g,) = grad(Mixed.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=TWICE):
        grad(g.sum(), x, allow_unused=True)


def test_without_create_graph_nothing_is_added() -> None:
    x = leaf()
    (g,) = grad(Cube.apply(x).sum(), x)
    assert not g.requires_grad


def test_none_containers_and_arrays_in_a_result() -> None:
    given = (None, np.ones(2), [rg.ones(2)], {"a": rg.ones(1)}, "text")
    none, array, listed, named, text = with_delayed_error(given, "Node")
    assert none is None
    assert text == "text"
    assert all(t.requires_grad and isinstance(t.grad_fn, DelayedError) for t in (array, *listed, *named.values()))


def test_refusals_are_found_behind_other_operations() -> None:
    x = leaf()
    marked = with_delayed_error(rg.ones(2, dtype=rg.float64), "Node") * 2
    assert set(delayed_error_outputs([x * 2, marked, marked + x, None])) == {1}
    assert delayed_error_outputs([x * 2, None]) == {}
    check_differentiable([x * 2, None])
    with pytest.raises(RuntimeError, match=r"differentiate twice .* \(Node\)"):
        check_differentiable([marked + x])


def test_the_backward_of_a_registered_op_may_be_marked() -> None:
    from raygrad.autograd import AutogradConfig, register_autograd, register_kernel
    from raygrad.autograd.dispatch.dispatch import apply_op
    from raygrad.autograd.registry.registry import Op, declare

    op = declare(Op("test_once_square", ("a",)))
    register_kernel(op.name)(np.square)
    backward = once_differentiable(lambda ctx, g: {"a": 2 * ctx.saved_tensors[0] * g})
    register_autograd(AutogradConfig(op=op.name, device="*", backward=backward))
    x = leaf()
    (g,) = grad(apply_op(op.name, x).sum(), x, create_graph=True)
    assert g.tolist() == [2, 4]
    with pytest.raises(RuntimeError, match=TWICE):
        g.sum().backward()
