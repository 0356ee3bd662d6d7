"""Modules as functions of their parameters: the same as PyTorch's, eagerly and in sessions, and in transforms."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad import nn
from raygrad.func import functional_call, stack_module_state


def drawn(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def make_net(T: Any) -> Any:
    """Return a network of either library, with a buffer that forward assigns to."""

    class Net(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below, self.above = T.nn.Linear(3, 4), T.nn.Linear(4, 1)
            self.register_buffer("count", T.zeros(()))

        def forward(self, x: Any, scale: float = 1.0) -> Any:
            self.count = self.count + 1
            return self.above(T.tanh(self.below(x))) * scale

    return Net()


def program(T: Any) -> list[Any]:
    """Call a network with other parameters: plainly, in `grad`, and as an ensemble in `vmap`."""
    net, x = make_net(T), T.tensor(drawn(0, 5, 3))
    shapes = {"below.weight": (4, 3), "below.bias": (4,), "above.weight": (1, 4), "above.bias": (1,)}
    given = {name: T.tensor(drawn(number, *shape)) for number, (name, shape) in enumerate(shapes.items())}
    before = [parameter.detach().clone() for parameter in net.parameters()]
    call = T.func.functional_call
    found = [call(net, given, x), call(net, given, (x,), {"scale": 2.0})]
    grads = T.func.grad(lambda one: call(net, one, (x,)).pow(2).mean())(given)
    found += [grads[name] for name in shapes]
    with_buffer = {**given, "count": T.tensor(4.0)}
    found += [call(net, with_buffer, x), with_buffer["count"]]
    assert all(bool((old == new).all()) for old, new in zip(before, net.parameters(), strict=True))

    models = [T.nn.Linear(3, 2) for _ in range(3)]
    for number, model in enumerate(models):
        with T.no_grad():
            model.weight.copy_(T.tensor(drawn(number, 2, 3)))
            model.bias.copy_(T.tensor(drawn(number, 2)))
    parameters, buffers = T.func.stack_module_state(models)
    assert not buffers
    assert all(stacked.is_leaf for stacked in parameters.values())
    x = x.to(parameters["weight"].dtype)
    outputs = T.func.vmap(lambda one: call(models[0], one, (x,)))(parameters)
    outputs.sum().backward()
    return [np.asarray(one.detach()) for one in (*found, outputs, parameters["weight"].grad, parameters["bias"].grad)]


@pytest.mark.oracle
@pytest.mark.parametrize("mode", [nullcontext, rg.Session, lambda: rg.Session(strict=True)])
def test_calls_are_those_of_pytorch(mode: Any) -> None:
    torch = pytest.importorskip("torch")
    expected = program(torch)
    with mode():
        found = program(rg)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


class Tied(nn.Module):
    """Two layers that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x))


@pytest.mark.parametrize(("tied", "expected"), [(True, 4.0), (False, 2.0)])
def test_a_tensor_of_two_names_is_replaced_under_both(tied: bool, expected: float) -> None:
    net = Tied()
    with rg.no_grad():
        net.first.weight.copy_(rg.eye(2))
    twice = rg.eye(2) * 2.0
    found = functional_call(net, {"first.weight": twice}, rg.ones(1, 2), tie_weights=tied)
    assert found.tolist() == [[expected] * 2]
    assert net.second.weight is net.first.weight


def test_own_parameters_are_back_after_an_error() -> None:
    layer = nn.Linear(2, 1)
    own = layer.weight
    with pytest.raises(RuntimeError):
        functional_call(layer, {"weight": rg.ones(1, 3)}, rg.ones(1, 2))
    assert layer.weight is own


ONE = rg.ones(1)


@pytest.mark.parametrize(
    ("given", "strict", "error", "words"),
    [
        (3, False, ValueError, "to be a dict, or a list/tuple of dicts, but got int"),
        ([3], False, ValueError, "to be dictionaries"),
        ([{"bias": ONE}, {"bias": ONE}], False, ValueError, r"\['bias'\] appeared in multiple dictionaries"),
        ({"bias": 3}, False, TypeError, "3 is not an instance of raygrad.Tensor"),
        ({"foo": ONE}, False, RuntimeError, r"Unexpected key\(s\): 'foo'"),
        ({"bias": ONE}, True, RuntimeError, r"Missing key\(s\): 'weight'"),
    ],
)
def test_wrong_tensors_are_refused(given: Any, strict: bool, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        functional_call(nn.Linear(2, 1), given, rg.ones(1, 2), strict=strict)


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ([], "at least one model, got 0"),
        ([nn.Linear(2, 1), nn.Linear(2, 1).eval()], "the same training/eval mode"),
        ([nn.Linear(2, 1), nn.Tanh()], "of the same class"),
        ([nn.Linear(2, 1), nn.Linear(2, 1).requires_grad_(False)], "weight from each model to have the same"),
        ([nn.Linear(2, 1), nn.Linear(3, 1)], "stack expects each tensor to be equal size"),
    ],
)
def test_models_that_differ_are_refused(models: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        stack_module_state(models)
