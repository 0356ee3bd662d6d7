"""Ready-made Functions; tests/documents/test_grad_factor.py walks through the members of GradFactor."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd import grad
from raygrad.functional import GradFactor


@pytest.mark.parametrize("factor", [2.5, 0, -1, rg.tensor([1.0, 0.5], dtype=rg.float64)])
def test_the_value_is_passed_on_and_the_gradient_scaled(factor: object) -> None:
    x = rg.tensor([[1.0, 2.0]], dtype=rg.float64, requires_grad=True)
    y = GradFactor.apply(x, factor)
    assert y.tolist() == x.tolist()
    (g,) = grad((y * 3).sum(), x)
    assert g.tolist() == (rg.tensor([[3.0, 3.0]], dtype=rg.float64) * factor).tolist()


def test_the_result_is_a_view() -> None:
    x = rg.ones(2, requires_grad=True)
    y = GradFactor.apply(x, 2)
    with rg.no_grad():
        x.mul_(3)
    assert y.detach().tolist() == [3, 3]


def test_the_factor_has_no_gradient_and_derivatives_of_any_order_are_scaled_once_each() -> None:
    x = rg.tensor([2.0], dtype=rg.float64, requires_grad=True)
    f = rg.tensor([3.0], dtype=rg.float64, requires_grad=True)
    (first,) = grad((GradFactor.apply(x, f) ** 3).sum(), x, create_graph=True)
    assert first.tolist() == [3 * 12]
    (second,) = grad(first.sum(), x)
    assert second.tolist() == [3 * 3 * 12]
    GradFactor.apply(x, f).sum().backward()
    assert f.grad is None


def test_a_batch_of_factors_lies_beside_its_batch() -> None:
    info = SimpleNamespace(batch_size=3, randomness="error")
    x = rg.ones(2, 3, dtype=rg.float64, requires_grad=True)
    y, where = GradFactor.vmap(info, (1, 0), x, rg.tensor([1.0, 2.0, 3.0], dtype=rg.float64))
    assert where == 0
    assert y.shape == (3, 2)
    (g,) = grad(y.sum(), x)
    assert g.tolist() == [[1, 2, 3], [1, 2, 3]]
    y, where = GradFactor.vmap(info, (1, None), x, 5)
    assert (y.shape, where) == ((2, 3), 1)
    y, where = GradFactor.vmap(info, (None, 0), x, rg.tensor([1.0, 2.0, 3.0], dtype=rg.float64))
    assert y.shape == (3, 2, 3)


def _transformed(lib: Any, scaled: Any) -> list[Any]:
    """GradFactor, or a Function like it, under each transform."""
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    f = lib.tensor([2.0, 0.5, -1.0])

    def loss(x: Any, f: Any) -> Any:
        return (scaled(x, f) ** 2).sum()

    func = lib.func
    found = [
        func.grad(loss)(x[0], 3.0),
        func.vmap(loss, in_dims=(0, None))(x, 3.0),
        func.vmap(func.grad(loss), in_dims=(0, None))(x, 3.0),
        func.vmap(func.grad(loss))(x, f),
        func.vmap(func.grad(loss), in_dims=(None, 0))(x[0], f),
        func.grad(lambda x: func.vmap(loss)(x, f).sum())(x),
        func.jacrev(lambda x: scaled(x, 3.0))(x[0]),
        func.jacfwd(lambda x: scaled(x, 3.0))(x[0]),
        func.vmap(lambda x: func.jvp(lambda x: loss(x, 3.0), (x,), (x,))[1])(x),
        func.vmap(func.jacrev(func.grad(loss)))(x, f),
    ]
    return [one.tolist() for one in found]


@pytest.mark.oracle
@pytest.mark.parametrize("in_session", [False, True], ids=["eager", "session"])
def test_transforms_go_through_it(in_session: bool) -> None:
    torch = pytest.importorskip("torch")

    class Scaled(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, f):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

        @staticmethod
        def jvp(ctx, t, _):
            return t.clone()

    expected = _transformed(torch, Scaled.apply)
    with rg.Session() if in_session else nullcontext():
        assert _transformed(rg, GradFactor.apply) == expected
