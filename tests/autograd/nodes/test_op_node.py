"""Nodes of built-in ops: what they say of what was saved, and of rules that are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.nodes.node import Node
from raygrad.errors import MissingDerivative


def vector(T: Any, *values, requires_grad=True) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=requires_grad)


def test_a_built_in_node_says_which_of_its_values_is_stale():
    x = vector(rg, 1, 2) * 1
    y = x * x
    x.add_(1)
    with pytest.raises(
        RuntimeError, match=r"\[float64 \[2\]\], which is output 0 of MulBackward0, saved by MulBackward0"
    ):
        y.sum().backward()


def test_ac_07_an_op_without_derivative_runs_forward_and_raises_in_backward():
    from raygrad.autograd.registry.registry import Op, declare, get_op, register_kernel

    if "test_node_opaque" not in rg.autograd.list_ops():
        declare(Op("test_node_opaque", ("a",)))
        register_kernel("test_node_opaque")(np.negative)
    from raygrad.autograd.dispatch.dispatch import call

    y = call(get_op("test_node_opaque"), (vector(rg, 1),))
    assert y.tolist() == [-1]
    with pytest.raises(MissingDerivative, match="derivative for 'test_node_opaque' is not implemented"):
        y.sum().backward()
    assert isinstance(y.grad_fn, Node)
