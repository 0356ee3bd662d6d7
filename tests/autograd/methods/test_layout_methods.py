"""Methods that select and rearrange elements are the functions of their names."""

from __future__ import annotations

import inspect

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.methods.layout_methods import LayoutMethods


def test_methods_are_functions_of_the_catalogue():
    assert inspect.unwrap(vars(LayoutMethods)["gather"]) is inspect.unwrap(ops.gather)
    x = rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.gather(1, rg.tensor([[1], [0]])).tolist() == [[2.0], [3.0]]
    assert x.repeat(1, 2).shape == (2, 4)


def test_other_names_of_a_method_are_that_method():
    assert LayoutMethods.swapaxes is LayoutMethods.swapdims is LayoutMethods.transpose
    assert rg.ones(2, 3).swapdims(dim0=0, dim1=1).shape == (3, 2)
