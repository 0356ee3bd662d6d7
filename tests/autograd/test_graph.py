"""The names of `autograd.graph`."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg


def test_nd_01_node_is_a_virtual_base(T: Any):
    class Own(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert isinstance(ctx, node)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    node = T.autograd.graph.Node
    x = T.ones(1, requires_grad=True)
    built_in, own = (x * 2).grad_fn, Own.apply(x).grad_fn
    for made in (built_in, own, built_in.next_functions[0][0]):
        assert isinstance(made, node)
        assert issubclass(type(made), node)
        assert node not in type(made).__mro__
    for other in (Own, x, None, 3):
        assert not isinstance(other, node)
    assert not issubclass(Own, node)


def test_nd_01_it_makes_no_nodes(T: Any):
    with pytest.raises(TypeError):
        T.autograd.graph.Node()


def test_it_has_two_names():
    assert rg.autograd.graph.Node is rg.autograd.Node
