"""Nodes of two operands: the path of their own makes the same node as the path for any number."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.dispatch.dispatch import call, call_few
from raygrad.autograd.functions.function import _described, _of_two
from raygrad.autograd.registry.registry import get_op

OPS = ["add", "sub", "mul", "div", "pow", "maximum", "atan2", "hypot"]
SHAPES = [(4,), (), (3, 1), (2, 1, 4)]


def operand(kind: str, shape: tuple[int, ...], seed: int) -> Any:
    """Return an operand: an inner value, a leaf, a constant, one of several outputs, a view, or one that was given
    other data since."""
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    if kind == "number":
        return 1.5
    leaf = rg.tensor(values, requires_grad=kind != "constant")
    if kind == "inner":
        return leaf * 1.0
    if kind == "changed":
        leaf.data = rg.tensor(np.ones((2, 1, 4)))
    if kind == "output":
        return rg.stack((leaf, leaf)).unbind(0)[1]
    if kind == "view":
        return (leaf * 1.0).reshape(*shape[::-1])
    return leaf


KINDS = ["inner", "leaf", "constant", "changed", "output", "view"]


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize(
    ("first", "second"), [pair for pair in itertools.product(KINDS, [*KINDS, "number"]) if pair[0] != "constant"]
)
def test_it_is_the_node_that_any_number_of_operands_gets(name: str, first: str, second: str):
    op = get_op(name)
    for a_shape, b_shape in itertools.product(SHAPES, SHAPES):
        a, b = operand(first, a_shape, 1), operand(second, b_shape, 2)
        try:
            one, other = call_few(op, a, b), call(op, (a, b))
        except RuntimeError:  # the shapes do not broadcast
            continue
        few, general = one.grad_fn, other.grad_fn
        assert few._edges == general._edges
        assert few.needs_input_grad == general.needs_input_grad
        assert few.inputs == general.inputs
        assert few._metas == general._metas
        assert few.versions == general.versions
        assert (few.op, few.rule, few.params, few._hooked) == (op, general.rule, general.params, False)
        assert len(few.saved_tensors) == len(general.saved_tensors)
        for held, same in zip(few.saved_tensors, general.saved_tensors, strict=True):
            assert held is same or held is one._data  # an output is its own
        gradient = np.ones(one.shape)
        for mine, theirs in zip(few._run_on_arrays([gradient]), general._run([gradient], False, None), strict=True):
            assert (mine is None) == (theirs is None)
            assert mine is None or (mine.tobytes(), mine.shape) == (theirs.tobytes(), theirs.shape)


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize(("first", "second"), list(itertools.product(KINDS, KINDS)))
def test_two_arguments_of_a_function_are_described_as_any(first: str, second: str, recording: bool):
    class Product(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * y

    for a_shape, b_shape in itertools.product(SHAPES, SHAPES):
        a, b = operand(first, a_shape, 1), operand(second, b_shape, 2)
        described = _described(Product, (a, b), recording, None, False, False)
        assert described is not None
        assert described[0][0] is a
        assert _of_two(a, b, recording) == described[1:]


def test_an_operand_that_was_changed_in_place_is_stale_in_both_positions():
    for position in (0, 1):
        operands = [operand("inner", (4,), seed) for seed in (1, 2)]
        product = operands[0] * operands[1]
        operands[position].add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()


def test_a_constant_that_a_function_saves_is_checked_for_changes():
    class Product(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            _, y = ctx.saved_tensors
            return grad * y, None

    x, y = operand("inner", (4,), 1), operand("constant", (4,), 2)
    made = Product.apply(x, y)
    assert made.grad_fn.saved_tensors[1] is y
    y.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()


@pytest.mark.parametrize("count", range(2, 9))
@pytest.mark.parametrize("shape", [(4,), ()])
def test_sums_of_contributions_are_those_of_the_balanced_tree(count: int, shape: tuple[int, ...]):
    x = rg.tensor(np.full(shape, 1.0), requires_grad=True)
    weights = np.random.default_rng(3).uniform(1e-8, 1e8, (count, *shape))
    inner = x * 1.0
    parts = [inner * rg.tensor(weight) for weight in weights]
    rg.autograd.backward(parts, [rg.ones(shape, dtype=rg.float64) for _ in parts])
    terms = [np.asarray(weight) for weight in reversed(weights)]  # the most recent node runs first
    while len(terms) > 1:
        pairs = [terms[i] + terms[i + 1] for i in range(0, len(terms) - 1, 2)]
        terms = pairs + terms[len(pairs) * 2 :]
    assert x.grad is not None
    assert x.grad.numpy().tobytes() == np.asarray(terms[0]).tobytes()
