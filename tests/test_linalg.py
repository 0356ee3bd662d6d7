"""`raygrad.linalg`: the names of PyTorch's, as the catalogue has them."""

from __future__ import annotations

import inspect

import pytest

import raygrad as rg
from raygrad.autograd import ops


def test_names_are_those_of_the_catalogue():
    for name, function in ops.LINALG.items():
        assert inspect.unwrap(getattr(rg.linalg, name)) is inspect.unwrap(function)
        assert inspect.getdoc(function), name
    assert set(rg.linalg.__all__) == set(ops.LINALG)


@pytest.mark.oracle
def test_each_name_is_one_of_torch():
    torch = pytest.importorskip("torch")
    own = {"matrix_transpose", "outer", "trace", "tensordot"}  # of the array API standard
    assert {name for name in rg.linalg.__all__ if not hasattr(torch.linalg, name)} <= own
