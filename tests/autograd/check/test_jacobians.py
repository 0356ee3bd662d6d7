"""Jacobians by differences and by backward."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.check import jacobians
from raygrad.autograd.check.jacobians import CheckedOutputs


def test_rows_are_inputs_and_columns_outputs():
    x = rg.tensor(np.array([2.0, 3.0]), requires_grad=True)

    def func(a):
        return rg.stack((a[0] * a[1], a[0], a[1] * 2)), a.detach()

    outputs = CheckedOutputs.of(func(x))
    assert outputs.positions == (0,)
    (found,) = jacobians.numerical(func, (x,), outputs, 0, 1e-6)
    np.testing.assert_allclose(found[""], [[3, 1, 0], [2, 0, 2]], atol=1e-8)
    (whole,) = jacobians.analytical(func(x)[0], [x], "")
    np.testing.assert_array_equal(whole, [[3, 1, 0], [2, 0, 2]])


def test_complex_inputs_give_the_gradient_of_each_part():
    z = rg.tensor(np.array([1 + 2j]), requires_grad=True)

    def func(a):
        return a * a

    (found,) = jacobians.numerical(func, (z,), CheckedOutputs.of(func(z)), 0, 1e-6)
    for name, gradient in {"real": 2 - 4j, "imaginary": 4 + 2j}.items():  # 2 * conj(z), times 1 and times 1j
        np.testing.assert_allclose(found[name], [[gradient]], atol=1e-8)
        np.testing.assert_allclose(jacobians.analytical(func(z), [z], name)[0], [[gradient]])


def test_an_input_that_is_an_output_is_read_where_it_stood():
    x = rg.tensor(np.array([1.0, 2.0]), requires_grad=True)
    (found,) = jacobians.numerical(lambda a: a, (x,), CheckedOutputs.of(x), 0, 1e-6)
    np.testing.assert_allclose(found[""], np.eye(2), atol=1e-8)


def test_other_values_stand_in_for_a_while_also_when_the_block_fails():
    x = rg.tensor([1.0])
    data = x._data

    def fails():
        with jacobians.holding_values(x, np.array([5.0])):
            assert x.tolist() == [5.0]
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert x._data is data


def test_outputs_of_another_dtype_are_refused():
    outputs = CheckedOutputs.of(rg.ones(2), every=True)
    with pytest.raises(AssertionError, match="same dtype when inputs are perturbed"):
        outputs.picked(rg.ones(2, dtype=rg.float64))
