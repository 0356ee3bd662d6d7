"""What was made in a session that is closed: values that can be read, and no graph."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg


class Triple(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 3


MADE: dict[str, Any] = {
    "linear": lambda x: x * 2,
    "saving": lambda x: x * x,
    "view": lambda x: x.reshape(2, 1),
    "Function": Triple.apply,
}


@pytest.mark.parametrize("make", MADE.values(), ids=list(MADE))
@pytest.mark.parametrize("use", [lambda y: y * 3, Triple.apply], ids=["operation", "Function"])
def test_backward_says_that_the_session_is_closed(make: Any, use: Any) -> None:
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    with rg.Session():
        y = make(x)
    after = use(y)
    assert after.tolist() == use(make(x)).tolist()
    assert after.requires_grad
    with pytest.raises(RuntimeError, match=r"the session that recorded \w+ is closed.*inside the session"):
        after.sum().backward()
    assert x.grad is None
    assert not use(y.detach()).requires_grad


def test_a_parameter_that_a_session_moved_is_a_leaf_as_before() -> None:
    w: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = rg.optim.SGD([w], lr=0.5)
    with rg.Session():
        (w * w).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
