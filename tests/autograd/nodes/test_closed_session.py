"""What was made in a session that is closed: values that can be read, and no graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
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


class Opens(rg.autograd.Function):
    """Has a session of its own in its forward and its backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        with rg.Session():
            return (Triple.apply(rg.tensor([5.0, 6.0])) + x.tolist()[0]).detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return closed_tensor()


def closed_tensor() -> Any:
    with rg.Session():
        return rg.tensor([5.0, 6.0]) * 1.0


def hook(x: Any) -> Any:
    x.register_hook(lambda grad: closed_tensor())
    return x.sum().backward()


def prehook(x: Any) -> Any:
    y = x * 2.0
    y.grad_fn.register_prehook(lambda grads: (closed_tensor(),))
    return y.sum().backward()


def posthook(x: Any) -> Any:
    y = x * 2.0
    y.grad_fn.register_hook(lambda grads, _outer: (closed_tensor(), *grads[1:]))
    return y.sum().backward()


def unpack(x: Any) -> Any:
    with rg.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: closed_tensor()):
        y = x * x
    return y.sum().backward()


def pack(x: Any) -> Any:
    with rg.autograd.graph.saved_tensors_hooks(lambda saved: closed_tensor(), lambda packed: packed):
        y = x * x
    return y.sum().backward()


READS: dict[str, Callable[[Any], Any]] = {
    "backward": lambda x: (x * 2.0).backward(closed_tensor()),
    "grad": lambda x: rg.autograd.grad(x * 2.0, x, closed_tensor())[0],
    "functional": lambda x: rg.autograd.functional.vjp(lambda t: t * t, x, closed_tensor())[1],
    "a session in user code": lambda x: Opens.apply(x).sum().backward(),
    "hook": hook,
    "prehook": prehook,
    "posthook": posthook,
    "unpack": unpack,
    "pack": pack,
}
TWICE = {"backward", "grad", "prehook", "pack", "unpack"}


@pytest.mark.parametrize("mode", [nullcontext, rg.Session, lambda: rg.Session(strict=True)], ids=["", "here", "strict"])
@pytest.mark.parametrize("name", READS)
def test_values_of_a_closed_session_are_taken_wherever_a_tensor_is(name: str, mode: Any) -> None:
    with mode():
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        returned = READS[name](x)
        found = (x.grad if returned is None else returned).tolist()
    factors = [2.0, 4.0] if name == "functional" else [2.0, 2.0] if name in TWICE else [1.0, 1.0]
    assert found == [5.0 * factors[0], 6.0 * factors[1]]


def test_an_operation_on_values_of_a_closed_session_can_be_recorded_again_and_again() -> None:
    with rg.Session():
        assert [(closed_tensor() + 1.0).tolist() for _ in range(4)] == [[6.0, 7.0]] * 4
        assert [Triple.apply(closed_tensor()).tolist() for _ in range(4)] == [[15.0, 18.0]] * 4
