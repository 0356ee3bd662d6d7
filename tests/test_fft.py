"""`raygrad.fft`: the names of PyTorch's, as the catalogue has them."""

from __future__ import annotations

import inspect

import pytest

import raygrad as rg
from raygrad.autograd import ops


def test_names_are_those_of_the_catalogue():
    for name, function in ops.FFT.items():
        assert inspect.unwrap(getattr(rg.fft, name)) is inspect.unwrap(function)
        assert inspect.getdoc(function), name


@pytest.mark.oracle
def test_each_name_is_one_of_torch():
    torch = pytest.importorskip("torch")
    assert [name for name in rg.fft.__all__ if not hasattr(torch.fft, name)] == []
