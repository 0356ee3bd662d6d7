"""A user's backward inside vmap that works on arrays (VM-10, EN-17)."""

from __future__ import annotations

from typing import Any

import numpy as np

import raygrad as rg


class Half(rg.autograd.Function):
    """Tensors in forward, arrays in backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x / 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        assert x.shape == g.shape == (2,)
        return rg.tensor(g.numpy() * x.detach().numpy())


def test_outside_and_inside_it_runs_for_each_example():
    values = np.arange(6.0).reshape(3, 2)
    x = rg.tensor(values, requires_grad=True)
    rg.vmap(Half.apply)(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), values)
    inside = rg.vmap(rg.func.grad(lambda x: Half.apply(x).sum()))(rg.tensor(values))
    np.testing.assert_array_equal(inside.numpy(), values)
