"""Running a derivative rule on arrays and on tensors (AC-10, BW-07, BW-08; H19)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.registry.registry import AutogradConfig, Derivative, Op
from raygrad.autograd.registry.vjp_rules import OpContext, sum_to, vjp_arrays, vjp_tensors
from raygrad.errors import AutogradError


def run(backward, *, operands=("a",), grads=None, inputs=None, needs=None, outputs=1, tensors=False) -> list[Any]:
    """Run a rule of an op with float64 operands of shape (2, 3) unless `inputs` says otherwise."""
    op = Op("test_vjp_rules", operands, outputs=outputs)
    rule = Derivative(AutogradConfig(op="test_vjp_rules", device="*", backward=backward, saves="none"), op)
    metas = inputs or [((2, 3), np.dtype(np.float64))] * len(operands)
    context = OpContext([], (), needs or [True] * len(metas), metas, [((2, 3), np.dtype(np.float64))] * outputs)
    given = grads or [np.ones((2, 3))] * outputs
    if tensors:
        return vjp_tensors(op, rule, context, [rg.tensor(g) for g in given])
    return list(vjp_arrays(op, rule, context, given))


@pytest.mark.parametrize("tensors", [False, True])
def test_ac_10_gradients_come_by_name_in_order_or_alone(tensors):
    for backward in (lambda ctx, g: {"b": g * 2, "a": g}, lambda ctx, g: (g, g * 2)):
        a, b = run(backward, operands=("a", "b"), tensors=tensors)
        assert (a.sum().item(), b.sum().item()) == (6, 12)
    assert run(lambda ctx, g: g, tensors=tensors)[0].sum().item() == 6


@pytest.mark.parametrize("tensors", [False, True])
def test_ac_10_what_is_missing_or_unwanted_is_undefined(tensors):
    assert run(lambda ctx, g: {}, operands=("a", "b"), tensors=tensors) == [None, None]
    a, b = run(lambda ctx, g: g, operands=("a", "b"), tensors=tensors)
    assert b is None
    assert a is not None
    _, b = run(lambda ctx, g: (g, g), operands=("a", "b"), needs=[True, False], tensors=tensors)
    assert b is None
    _, b = run(lambda ctx, g: (g, g), operands=("a", "b"), inputs=[((2, 3), np.dtype(float)), None], tensors=tensors)
    assert b is None


def test_ac_10_variadic_operands_are_named_together():
    metas = [((2, 3), np.dtype(np.float64))] * 3
    a, b, c = run(lambda ctx, g: {"rest": (g * 2, g * 3), "a": g}, operands=("a", "*rest"), inputs=metas)
    assert [v[0, 0] for v in (a, b, c)] == [1, 2, 3]
    assert run(lambda ctx, g: {"a": g}, operands=("a", "*rest"), inputs=metas)[1:] == [None, None]


def test_ac_10_unknown_names_and_wrong_counts_raise():
    with pytest.raises(AutogradError, match=r"unknown inputs \['c'\]"):
        run(lambda ctx, g: {"c": g})
    with pytest.raises(AutogradError, match=r"incorrect number of gradients \(expected 1, got 2\)"):
        run(lambda ctx, g: (g, g))


def test_ac_11_several_outputs_give_a_tuple_of_gradients():
    seen = []
    run(lambda ctx, grads: seen.append(grads) or grads[0], outputs=2, grads=[np.ones((2, 3)), None])
    assert type(seen[0]) is tuple
    assert seen[0][1] is None


@pytest.mark.parametrize("tensors", [False, True])
def test_bw_07_08_gradients_are_fitted_to_their_operands(tensors):
    (summed,) = run(lambda ctx, g: g, inputs=[((1, 3), np.dtype(np.float32))], tensors=tensors)
    assert tuple(summed.shape) == (1, 3)
    assert summed.dtype == np.float32
    assert summed.tolist() == [[2, 2, 2]]
    (real,) = run(
        lambda ctx, g: g,
        grads=[np.full((2, 3), 1 + 2j)],
        inputs=[((2, 3), np.dtype(np.float64))],
        tensors=tensors,
    )
    assert real.dtype == np.float64
    assert real.sum().item() == 6


def test_zero_dimensional_results_are_arrays():
    (g,) = run(lambda ctx, g: g * 2, grads=[np.float64(1)], inputs=[((), np.dtype(np.float64))])
    assert type(g) is np.ndarray
    assert g.shape == ()


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((2, 3), (3,)),
        ((2, 3), (1, 3)),
        ((4, 2, 3), (2, 1)),
        ((2, 3), ()),
        ((1,), ()),
        ((0, 3), (1, 3)),
        ((2, 3), (2, 3)),
    ],
)
def test_a_sum_down_to_a_shape_that_broadcasts_to_it(shape, target):
    array = np.arange(float(np.prod(shape))).reshape(shape)
    expected = np.zeros(target)
    for index in np.ndindex(*shape):
        lead = len(shape) - len(target)
        expected[tuple(0 if target[i] == 1 else v for i, v in enumerate(index[lead:]))] += array[index]
    np.testing.assert_array_equal(np.asarray(sum_to(array, target)), expected)
    np.testing.assert_array_equal(sum_to(rg.tensor(array), target).numpy(), expected)


@pytest.mark.parametrize(("shape", "target"), [((3,), (2, 3)), ((2, 3), (2,)), ((2, 1), (2, 3)), ((2, 3), (0, 3))])
def test_a_sum_down_to_any_other_shape_raises(shape, target):
    with pytest.raises(AutogradError, match=r"expected shape"):
        sum_to(np.ones(shape), target)
