"""The derivatives of user Functions in a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg


class Both(rg.autograd.Function):
    """Two outputs, computed in NumPy; the second is an integer."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float = 2.0) -> Any:
        ctx.factor = factor
        return rg.from_numpy(x.numpy() * factor), rg.from_numpy(np.argsort(x.numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        return rg.from_numpy(grad.numpy() * ctx.factor), None


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_h7_freeing_drops_one_claim_only(session: Any) -> None:
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * 2.0

    x: Any = rg.tensor(3.0, dtype=rg.float64, requires_grad=True)
    y = Square.apply(x)
    (g,) = rg.autograd.grad(y, x, create_graph=True)
    y.backward()
    g.backward()
    assert float(x.grad) == 8.0


def test_a_function_applied_before_the_session_is_differentiated_in_it() -> None:
    x: Any = rg.tensor([3.0, 1.0], dtype=rg.float64, requires_grad=True)
    y, _ = Both.apply(x, 5.0)
    with rg.Session(workers=1):
        (y * 2.0).sum().backward()
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [10.0, 10.0]


def test_a_second_backward_without_retaining_raises_as_it_does_eagerly(session: Any) -> None:
    class Keeps(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    x: Any = rg.tensor([1.0], requires_grad=True)
    y = Keeps.apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.sum().backward()
