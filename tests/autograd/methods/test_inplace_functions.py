"""In-place functions of the package, which call the methods of their names."""

from __future__ import annotations

import pickle

import pytest

import raygrad as rg
from raygrad import _HOMES

NAMES = [name for name, home in _HOMES.items() if home.endswith("inplace_functions")]


def test_they_change_their_tensor_and_return_it():
    x = rg.tensor([1.5, -2.5])
    assert rg.zero_(x) is x
    assert x.tolist() == [0.0, 0.0]
    assert rg.fill_(x, 4.0).sqrt_().tolist() == [2.0, 2.0]
    assert rg.clamp_(x, max=1.0).tolist() == [1.0, 1.0]


def test_their_change_is_part_of_the_graph():
    x = rg.tensor([0.5, 1.5], requires_grad=True)
    y = x * 1
    rg.sin_(y)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx(x.detach().cos().tolist())


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_method_and_can_be_pickled(name: str):
    function = getattr(rg, name)
    assert hasattr(rg.Tensor, name)
    assert pickle.loads(pickle.dumps(function)) is function


def test_numbers_are_refused_by_name():
    with pytest.raises(TypeError, match="zero_"):
        rg.zero_(1.0)
