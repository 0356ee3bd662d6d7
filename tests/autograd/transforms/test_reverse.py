"""grad, grad_and_value, vjp: what only raygrad promises; the contract's programs compare the rest with torch."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad import func


def test_the_outermost_gradient_records_nothing() -> None:
    seen: list[bool] = []

    class Double(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(rg.is_grad_enabled())
            return g * 2

    func.grad(lambda x: Double.apply(x).sum())(rg.ones(2))
    func.grad(lambda x: func.grad(lambda x: (Double.apply(x) * x).sum())(x).sum())(rg.ones(2))
    assert seen[0] is False
    assert True in seen[1:]


def test_a_function_in_the_combined_style_can_be_transformed() -> None:  # VM-01
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    first = func.grad(lambda x: Cube.apply(x).sum())
    x = rg.tensor([2.0])
    assert first(x).tolist() == [12.0]
    assert func.grad(lambda x: first(x).sum())(x).tolist() == [12.0]


def test_a_pullback_can_be_differentiated_by_what_it_is_given() -> None:
    cotangent = rg.ones(2, requires_grad=True)
    _, pullback = func.vjp(lambda x: x * x, rg.tensor([2.0, 3.0]))
    pullback(cotangent)[0].sum().backward()
    assert cotangent.grad is not None
    assert cotangent.grad.tolist() == [4.0, 6.0]


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="must be Tensor"):
        func.grad(lambda x: x)(3.0)
    with pytest.raises(RuntimeError, match="can require gradients"):
        func.grad(lambda x: x.sum())(rg.ones(2, dtype=rg.int64))
    _, pullback = func.vjp(lambda x: x * x, rg.ones(1))
    with pytest.raises(RuntimeError, match="cotangents to be tensors"):
        pullback(1.0)


def test_an_error_leaves_no_transform_behind() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        func.grad(fails)(rg.ones(1))
    rg.ones(1, requires_grad=True).sum().backward()
