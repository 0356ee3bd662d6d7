"""Backwards under vmap that make a tensor like their gradient, and fill it from what was saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad

X = np.random.default_rng(0).normal(size=(2, 4, 3))

MADE = ["T.zeros_like(g)", "g.new_zeros(g.shape)", "T.empty_like(g)", "g.new_full(g.shape, 2.0)", "g.clone()"]

CALLS = [
    "T.func.vmap(T.func.grad(lambda x: F.apply(x).sum()))(x[0])",
    "T.func.vmap(T.func.jacrev(F.apply))(x[0])",
    "T.func.vmap(T.func.vmap(T.func.grad(lambda x: F.apply(x).sum())))(x)",
    "T.func.vmap(T.func.grad(lambda x, c: (c * F.apply(x)).sum()), in_dims=(0, None))(x[0], x[1, 0])",
    "T.func.vmap(T.func.jacrev(T.func.grad(lambda x: (F.apply(x) ** 3).sum())))(x[0])",
]


def doubled(T: Any, made: str) -> Any:
    class Doubled(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            out = eval(made, {"T": T, "g": g})
            out[0] = g[0] * x[0]
            out[1:] = g[1:]
            return out

    return Doubled


@pytest.mark.oracle
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("call", CALLS)
def test_as_torch(made: str, call: str):
    torch: Any = pytest.importorskip("torch")
    found, expected = (eval(call, {"T": T, "F": doubled(T, made), "x": T.tensor(X)}) for T in (raygrad, torch))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
