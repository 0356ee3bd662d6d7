"""Batches of gradients (EN-17)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import raygrad as rg


class Scale(rg.autograd.Function):
    """Its backward works on arrays, and vmap may run it for one example after the other."""

    generate_vmap_rule = True

    seen: ClassVar[list[tuple[int, ...]]] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        Scale.seen.append(tuple(g.shape))
        return rg.tensor(2 * g.numpy() * x.detach().numpy())


def test_a_batch_of_gradients_gives_the_jacobian():
    x = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x**2).cumsum(0)
    (jacobian,) = rg.autograd.grad(y, x, rg.eye(3), is_grads_batched=True)
    np.testing.assert_allclose(jacobian.numpy(), [[2, 0, 0], [2, 4, 0], [2, 4, 6]])


def test_a_custom_backward_sees_one_gradient_of_the_batch():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    Scale.seen.clear()
    (g,) = rg.autograd.grad(Scale.apply(x), x, rg.eye(2), is_grads_batched=True)
    np.testing.assert_allclose(g.numpy(), [[2, 0], [0, 4]])
    assert set(Scale.seen) == {(2,)}


def test_unused_inputs_and_second_passes():
    x, z = rg.tensor([1.0, 2.0], requires_grad=True), rg.tensor([3.0], requires_grad=True)
    y = x * x * x
    g, none = rg.autograd.grad(y, [x, z], rg.eye(2), is_grads_batched=True, allow_unused=True, create_graph=True)
    assert none is None
    (h,) = rg.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(h.numpy(), [6, 12])
    g, zeros = rg.autograd.grad(x * x, [x, z], rg.eye(2), is_grads_batched=True, materialize_grads=True)
    assert zeros.shape == (2, 1)


@pytest.mark.parametrize("grads", [None, rg.ones(3), rg.ones(3, 4)])
def test_what_does_not_fit_is_said(grads: Any):
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="is_grads_batched=True"):
        rg.autograd.grad(x * 2, x, grads, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="GradientEdge"):
        rg.autograd.grad(rg.autograd.graph.get_gradient_edge(x * 2), x, rg.ones(3, 2), is_grads_batched=True)
