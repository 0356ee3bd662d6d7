from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture(params=["raygrad", pytest.param("torch", marks=pytest.mark.oracle)])
def T(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def _nodes(tensor: Any) -> list[Any]:
    return [node for node, _ in tensor.grad_fn.next_functions]


def test_en_20_no_node_converts_an_operand(T: Any) -> None:
    single = T.tensor(np.ones(2, "float32"), requires_grad=True)
    double = T.tensor(np.ones(2), requires_grad=True)
    product = single * double
    assert [node.variable is leaf for node, leaf in zip(_nodes(product), (single, double), strict=True)] == [True, True]
    product.sum().backward()
    assert "float32" in str(single.grad.dtype)
    assert "float64" in str(double.grad.dtype)


def test_gradient_through_an_operand_of_another_dtype_is_differentiated(T: Any) -> None:
    x = T.tensor(np.array([2.0, 3.0], "float32"), requires_grad=True)
    inner = x * x
    product = inner * T.tensor(np.array([5.0, 7.0]), requires_grad=True) * inner
    (first,) = T.autograd.grad(product.sum(), x, create_graph=True)
    (second,) = T.autograd.grad(first.sum(), x)
    assert "float32" in str(second.dtype)
    assert second.tolist() == [5 * 12 * 4, 7 * 12 * 9]


def test_what_was_saved_in_another_dtype_is_stale_after_a_change(T: Any) -> None:
    single = T.tensor(np.ones(2, "float32"), requires_grad=True) * 1
    product = single * T.tensor(np.ones(2), requires_grad=True)
    single.mul_(2)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        product.sum().backward()


def test_operand_of_another_dtype_must_not_be_detached_in_place(T: Any) -> None:
    single = T.tensor(np.ones(2, "float32"), requires_grad=True) * 1
    product = single * T.tensor(np.ones(2), requires_grad=True)
    single.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        product.sum().backward()


def test_each_op_that_saved_an_operand_in_another_dtype_sees_its_new_data(T: Any) -> None:
    single = T.tensor(np.array([2.0, 3.0], "float32"))
    double = T.tensor(np.ones(2), requires_grad=True)
    number = T.tensor(np.ones(2, "complex128"), requires_grad=True)
    first, second = single * double, single * number
    single.data = T.tensor(np.array([5.0, 7.0], "float32"))
    first.sum().backward()
    second.sum().real.backward()
    assert (double.grad.tolist(), number.grad.tolist()) == ([5, 7], [5, 7])
