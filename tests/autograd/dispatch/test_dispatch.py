"""Calling built-in ops: which node they get, what it keeps, and operands that do not fit."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.dispatch.dispatch import apply_op, call
from raygrad.autograd.nodes.op_node import OpNode
from raygrad.autograd.registry.registry import get_op
from raygrad.errors import DtypeError


def vector(*values: float, requires_grad: bool = True) -> Any:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=requires_grad)


def test_arrays_give_arrays_and_tensors_give_tensors():
    array = np.array([1.0, 2.0])
    assert type(ops.add(array, array)) is np.ndarray
    assert type(ops.add(vector(1, 2), 3.0)) is rg.Tensor
    assert type(ops.exp(np.array(1.0))) is np.ndarray  # NumPy alone would make a scalar


def test_zero_dimensional_results_are_arrays_inside():
    x: Any = rg.tensor(2.0, requires_grad=True)
    for y in (x * 2, x + x, x.exp(), x.sum(), vector(1, 2).sum(), vector(1, 2)[0]):
        assert type(y._data) is np.ndarray
        assert y.shape == ()


def test_a_node_is_made_only_where_gradient_can_flow():
    x, plain = vector(1, 2), vector(1, 2, requires_grad=False)
    assert isinstance((x * plain).grad_fn, OpNode)
    assert (plain * 2).grad_fn is None
    assert (x > 0).grad_fn is None
    with rg.no_grad():
        assert (x * 2).grad_fn is None
        assert not (x * 2).requires_grad


def test_only_what_the_rule_needs_is_kept():
    x, w = vector(1, 2), vector(3, 4)
    assert (x + w).grad_fn.saved_tensors == ()
    y = x.exp()
    assert [data is y._data for data in y.grad_fn.saved_tensors] == [True]


def test_cx_14_views_share_the_version_counter_of_their_base():
    x = vector(1, 2, 3, requires_grad=False)
    view = x.reshape(3, 1)[1:]
    assert view._base is x
    view.add_(1)
    assert x._version == 1
    assert x.tolist() == [1, 3, 4]
    copy = x.reshape(3, 1).T.clone()
    assert copy._base is None
    copy.add_(1)
    assert x._version == 1


def test_operands_meet_in_torchs_dtype():
    single = rg.tensor([1.0, 2.0])
    assert (single * vector(1, 2)).dtype == rg.float64
    assert (single * rg.tensor(2.0, dtype=rg.float64)).dtype == rg.float32
    assert (rg.tensor([1, 2]) * 2.5).dtype == rg.float32
    assert (rg.tensor([1, 2]) / 2).dtype == rg.float32
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    (x * vector(3, 4)).sum().backward()
    assert x.grad.dtype == rg.float32


def test_operands_of_other_types_raise():
    with pytest.raises(DtypeError, match="wrap it with"):
        ops.add(vector(1, 2), np.ones(2))
    with pytest.raises(DtypeError, match="unsupported operand of type str"):
        ops.add(vector(1), "x")
    with pytest.raises(RuntimeError, match=r"add.*\[2\].*\[3\]"):
        _ = vector(1, 2) + vector(1, 2, 3)


def test_an_op_is_called_by_its_name():
    assert apply_op("mul", vector(2), 3.0).tolist() == [6]
    assert call(get_op("mul"), (vector(2), 3.0)).tolist() == [6]


@pytest.mark.parametrize("inside", [False, True], ids=["eagerly", "in a session"])
def test_an_operand_that_is_no_tensor_is_named(inside: bool):
    with rg.Session() if inside else nullcontext():
        for given in (None, "a"):
            with pytest.raises(
                TypeError, match=rf"exp\(\): argument 'input' \(position 1\).* not {type(given).__name__}"
            ):
                ops.exp(given)
        for given in (None, "a", [1.0], (1.0,), {}):
            with pytest.raises(TypeError, match=r"position 2|unsupported operand"):
                ops.add(vector(1.0), given)


def test_a_leaf_whose_data_were_exchanged_gets_a_gradient_of_their_shape() -> None:
    x = rg.ones(2, requires_grad=True)
    before = x * 1
    x.data = rg.ones(3)
    x.exp().sum().backward()
    assert x.grad is not None
    assert (x.grad.shape, before.shape) == ((3,), (2,))
