"""Nodes whose outputs are on a device: gradients that are on another are refused; hooks, packing, in-place changes."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import StandIn, use_stand_in
from raygrad.autograd.nodes.device_nodes import OnDevice


@pytest.fixture(autouse=True)
def devices() -> Iterator[StandIn]:
    with use_stand_in(2) as devices:
        yield devices


def on(device: str, *values: float, grad: bool = False) -> Any:
    return rg.tensor([float(value) for value in values], device=device, requires_grad=grad)


class Elsewhere(rg.autograd.Function):
    """Returns a gradient on the wrong device."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.cpu()


class Split(rg.autograd.Function):
    """Two outputs, of which the second gets no gradient; arrays are returned."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return (first * 2 + second * 3).read()


class Back(rg.autograd.Function):
    """Moves to the host, and forgets to move the gradient back."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.cpu()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def test_a_gradient_on_another_device_is_refused():
    x = on("cuda:1", 1, 2, grad=True)
    with pytest.raises(RuntimeError, match="invalid gradient at index 0 - expected device cuda:1 but got cpu"):
        Elsewhere.apply(x).sum().backward()
    with pytest.raises(RuntimeError, match="expected device cuda:1 but got cpu"):
        Back.apply(x).sum().backward()
    with pytest.raises(RuntimeError, match="expected device cuda:1 but got cpu"):
        Back.apply(x * 2).sum().backward()
    assert x.grad is None
    Split.apply(x)[0].sum().backward()
    assert (x.grad.device, x.grad.tolist()) == (x.device, [2, 2])


def test_hooks_see_gradients_on_their_device():
    seen: list[Any] = []
    x = on("cuda:1", 1, 2, grad=True)
    y = x * 2

    def watch(grad: Any) -> Any:
        seen.append(grad.device)
        return grad * 2

    x.register_hook(watch)
    y.register_hook(watch)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.extend(g.device for g in (*inputs, *outputs)))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.device))
    assert y.grad_fn is not None
    y.retain_grad()
    (y * y).sum().backward()
    assert set(seen) == {rg.device("cuda:1")}
    assert len(seen) == 5
    assert (x.grad.tolist(), y.grad.device) == ([32, 64], x.device)


def test_a_hook_keeps_gradients_on_their_device():
    x = on("cuda:1", 1, 2, grad=True)
    x.register_hook(lambda grad: grad.cpu())
    with pytest.raises(RuntimeError, match="changed the type of value"):
        (x * 2).sum().backward()


def test_what_is_saved_may_wait_on_the_host(devices: StandIn):
    x = on("cuda:1", 1, 2, grad=True)
    with rg.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    assert devices.transfers.to_host > 0
    y.backward()
    assert x.grad.device == x.device
    np.testing.assert_allclose(x.grad.cpu().numpy(), [2 * np.e, 3 * np.e**2], rtol=1e-6)


def test_nodes_of_a_device_keep_their_names_and_kinds():
    x = on("cuda:1", 1, 2, grad=True)
    y: Any = x * 2
    assert isinstance(y.grad_fn, OnDevice)
    assert y.grad_fn.name() == "MulBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"
    y[0] = x[1]
    assert isinstance(y.grad_fn, OnDevice)
    assert y.grad_fn.name() == "CopySlices"
    with rg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        z = y * y
    assert isinstance(z.grad_fn, OnDevice)
    z.sum().backward()
    assert x.grad.tolist() == [0, 20]
    assert not isinstance((rg.ones(1).requires_grad_() * 2).grad_fn, OnDevice)
