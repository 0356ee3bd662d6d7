"""`raygrad.special`: the names of PyTorch's, as the catalogue has them."""

from __future__ import annotations

import inspect

import pytest

import raygrad as rg
from raygrad.autograd import ops


def test_names_are_those_of_the_catalogue():
    for name, function in ops.SPECIAL.items():
        assert inspect.unwrap(getattr(rg.special, name)) is inspect.unwrap(function)
        assert inspect.getdoc(function), name
    assert set(rg.special.__all__) == set(ops.SPECIAL)


@pytest.mark.oracle
def test_names_are_all_of_torch():
    torch = pytest.importorskip("torch")
    public = {name for name in dir(torch.special) if not name.startswith("_")} & set(torch.special.__all__)
    assert set(rg.special.__all__) == public
