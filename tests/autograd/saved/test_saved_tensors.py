"""Slots of nodes: read by name, and packed one by one (GR-14, CX-29)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg


def vector(T: Any, *values) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


def test_gr_14_saved_values_of_ops_have_names(T: Any):
    x, y = vector(T, 2), vector(T, 3)
    z = x * y
    assert z.grad_fn._saved_self.tolist() == [2]
    assert z.grad_fn._saved_other is y
    with pytest.raises(AttributeError):
        z.grad_fn._saved_nothing  # noqa: B018
    z.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        z.grad_fn._saved_self  # noqa: B018


def test_gr_14_an_op_in_which_one_slot_is_packed_can_be_differentiated_twice(T: Any):
    x, y = vector(T, 2), vector(T, 3)
    z = (x * y).exp()
    z.grad_fn._raw_saved_result.register_hooks(lambda t: t.detach().clone(), lambda kept: kept)
    (g,) = T.autograd.grad(z.sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), y)
    assert h.tolist() == pytest.approx([403.4287934927 * 7])


def test_cx_29_errors():
    class Save(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g + 0 * ctx.saved_tensors[0]

    y: Any = Save.apply(vector(rg, 1))
    first, second = y.grad_fn._raw_saved_tensors
    with pytest.raises(RuntimeError, match="None is forbidden"):
        second.register_hooks(lambda t: t, lambda kept: kept)
    with pytest.raises(TypeError):
        first.register_hooks(lambda t: t, None)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        first.register_hooks(lambda t: t, lambda kept: kept)
    with pytest.raises(RuntimeError, match="already been freed"):
        y.grad_fn._raw_saved_tensors  # noqa: B018
    with pytest.raises(RuntimeError, match="forbidden"):
        type(first)()


def test_a_slot_of_a_function_takes_hooks_once() -> None:
    class Saves(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    (slot,) = Saves.apply(rg.ones(2, requires_grad=True)).grad_fn._raw_saved_tensors
    slot.register_hooks(lambda tensor: tensor, lambda tensor: tensor)
    with pytest.raises(RuntimeError, match="hooks"):
        slot.register_hooks(lambda tensor: tensor, lambda tensor: tensor)


def test_each_unpacked_operand_has_its_own_tangent(T: Any):
    x, y = vector(T, 2), vector(T, 3)
    dual = T.autograd.forward_ad
    with dual.dual_level(), T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda kept: kept):
        a, b = dual.make_dual(x, vector(T, 5).detach()), dual.make_dual(y, vector(T, 7).detach())
        grads = T.autograd.grad((a * b).sum(), (x, y), create_graph=True)
        tangents = [dual.unpack_dual(grad).tangent.tolist() for grad in grads]
    assert tangents == [[7], [5]]
