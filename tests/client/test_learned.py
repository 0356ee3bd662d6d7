"""What is known of Functions: by running, or by their infer."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import GraphError


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_a_static_infer_avoids_the_first_wait(session: Any) -> None:
    class Known(rg.autograd.Function):
        @staticmethod
        def infer(x: Any) -> Any:
            return x.shape, x.dtype

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0] * 2.0

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    y = Known.apply(x)
    assert session.last_run is None
    y.sum().backward()
    assert x.grad.numpy().tolist() == [2.0, 4.0]


def test_h5_an_undefined_gradient_is_learned_and_then_known_without_waiting(session: Any) -> None:
    class Half(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    for _ in range(2):
        a: Any = rg.tensor([1.0], requires_grad=True)
        b: Any = rg.tensor([1.0], requires_grad=True)
        Half.apply(a, b).sum().backward()
        assert b.grad is None
        assert a.grad.numpy().tolist() == [1.0]
    assert next(iter(session.undefined.values()))[0] == (1,)


def test_a_fixed_output_is_learned_and_then_known_without_waiting(session: Any) -> None:
    class Pair(rg.autograd.function.NestedIOFunction):
        def forward_extended(self, x: Any) -> Any:
            return {"double": x * 2, "none": [None]}

        def backward_extended(self, grads: Any) -> Any:
            return grads["double"] * 2

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    first = Pair.apply(x)
    run = session.last_run
    second = Pair.apply(x * 1)
    assert session.last_run is run
    assert second["none"] == [None]
    (first["double"] + second["double"]).sum().backward()
    assert x.grad.numpy().tolist() == [4.0, 4.0]


def test_an_infer_that_does_not_hold_is_told_so(session: Any) -> None:
    class Wrong(rg.autograd.Function):
        @staticmethod
        def infer(x: Any) -> Any:
            return (x.shape[0] + 1,), x.dtype

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

    y = Wrong.apply(rg.tensor([1.0, 2.0]))
    with pytest.raises(GraphError, match="infer said that its outputs are"):
        y.numpy()
