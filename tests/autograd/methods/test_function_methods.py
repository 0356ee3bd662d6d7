"""Methods that are functions of the catalogue as they are."""

from __future__ import annotations

import inspect

import pytest

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.methods.function_methods import FunctionMethods


def test_each_is_the_function_of_its_name():
    for name in FunctionMethods.__annotations__:
        assert inspect.unwrap(vars(FunctionMethods)[name]) is inspect.unwrap(getattr(ops, name))
    x = rg.tensor([-4.0, 9.0])
    assert x.absolute().tolist() == [4, 9]


@pytest.mark.oracle
def test_each_is_a_method_of_torch():
    torch = pytest.importorskip("torch")
    assert [name for name in FunctionMethods.__annotations__ if not hasattr(torch.Tensor, name)] == []
