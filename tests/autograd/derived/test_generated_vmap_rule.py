"""The Function that a generated vmap rule is (VM-09, VM-13)."""

from __future__ import annotations

from typing import Any

import numpy as np

import raygrad as rg
from raygrad.autograd.derived.generated_vmap_rule import vmapped


class Scaled(rg.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x * w

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.w = inputs[1]
        ctx.runs = 0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        ctx.runs += 1
        return g * ctx.w, g * ctx.saved_tensors[0]


def test_there_is_one_for_each_function():
    assert vmapped(Scaled) is vmapped(Scaled)
    assert vmapped(Scaled).__name__ == "VmappedScaled"


def test_attributes_are_seen_from_outside_and_kept_between_passes():  # CX-02
    x, w = rg.ones(3, 2).requires_grad_(), rg.tensor([2.0, 3.0], requires_grad=True)
    out = rg.vmap(Scaled.apply, in_dims=(0, None))(x, w)
    assert out.grad_fn is not None
    assert out.grad_fn.name() == "VmappedScaledBackward"
    for runs in (1, 2):
        out.sum().backward(retain_graph=True)
        assert out.grad_fn.runs == runs
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), [6, 6])


def test_inputs_kept_as_attributes_are_differentiated_again():
    x, w = rg.ones(3, 2).requires_grad_(), rg.tensor([2.0, 3.0], requires_grad=True)
    out = rg.vmap(Scaled.apply, in_dims=(0, None))(x, w)
    (g,) = rg.autograd.grad(out.sum(), x, create_graph=True)
    (h,) = rg.autograd.grad((g * g).sum(), w)
    np.testing.assert_allclose(h.numpy(), [12, 18])
