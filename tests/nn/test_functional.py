"""`raygrad.nn.functional`: the names of PyTorch's, as the catalogue has them."""

from __future__ import annotations

import inspect

import pytest

import raygrad as rg
from raygrad.autograd import ops


def test_names_are_those_of_the_catalogue():
    functional = rg.nn.functional
    for name, function in ops.FUNCTIONAL.items():
        assert inspect.unwrap(getattr(functional, name)) is inspect.unwrap(function)
        assert inspect.getdoc(function), name
    assert set(functional.__all__) == set(ops.FUNCTIONAL)


@pytest.mark.oracle
def test_each_name_is_one_of_torch():
    torch = pytest.importorskip("torch")
    assert [name for name in rg.nn.functional.__all__ if not hasattr(torch.nn.functional, name)] == []
