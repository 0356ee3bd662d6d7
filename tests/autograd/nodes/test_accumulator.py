"""Accumulators of leaves: one for each, above all other nodes, and what they store (ND, EN)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.nodes.accumulator import ACCUMULATOR_RANK, AccumulateGrad


def vector(T: Any, *values, requires_grad=True) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=requires_grad)


def accumulator_of(leaf) -> Any:
    return (leaf * 1).grad_fn.next_functions[0][0]


def test_nd_04_one_accumulator_per_leaf(T: Any):
    class Sum(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, number, b):
            return a * number + b

        @staticmethod
        def backward(ctx, g):
            return g * 2, None, g

    x = vector(T, 1)
    a, b = x * 2, Sum.apply(x, 2.0, x)
    accumulator = a.grad_fn.next_functions[0][0]
    assert [edge[0] for edge in b.grad_fn.next_functions] == [accumulator] * 2
    assert accumulator.variable is x


def test_nd_06_accumulators_rank_above_all():
    assert accumulator_of(vector(rg, 1))._sequence_nr() == ACCUMULATOR_RANK
    assert isinstance(accumulator_of(vector(rg, 1)), AccumulateGrad)


def test_nd_14_hooks_of_accumulators(T: Any):
    seen = []
    x = vector(T, 1)
    accumulator = accumulator_of(x)
    accumulator.register_prehook(lambda grads: seen.append(("pre", grads[0].item(), x.grad)))
    accumulator.register_hook(lambda ins, outs: seen.append(("post", ins, outs[0].item(), x.grad.item())))
    x.register_hook(lambda g: g * 10)
    (x * 2).sum().backward()
    assert seen == [("pre", 20, None), ("post", (), 20, 20)]


def test_en_32_the_first_gradient_takes_the_axis_order_of_its_leaf():
    x: Any = rg.from_numpy(np.asfortranarray(np.ones((3, 4)))).requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.numpy().strides == (8, 24)


@pytest.mark.parametrize("where", ["eager", "recorded", "compiled"])
@pytest.mark.parametrize(
    "make",
    [
        lambda flat: flat[:2],
        lambda flat: flat.view(2, 2)[0],
        lambda flat: flat[:2].detach(),
        lambda flat: flat.data[:2],
    ],
    ids=["slice", "view", "detached", "data"],
)
def test_gradients_that_are_parts_of_one_buffer_are_added_to_there(make: Any, where: str):
    one, other = (rg.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))

    def step(x: Any) -> None:
        (one * x + other * x * x).sum().backward()

    with nullcontext() if where == "eager" else rg.Session() as session:
        flat = rg.ones(4)
        one.grad, other.grad = make(flat), flat[2:]
        run = session.compile(step) if session is not None and where == "compiled" else step
        for factor in (1.0, 2.0, 3.0):
            run(rg.tensor([10.0 * factor, 1.0]))
        assert one.grad.tolist() == [61.0, 4.0]
        assert other.grad.tolist() == [1401.0, 4.0]
        assert flat.tolist() == [61.0, 4.0, 1401.0, 4.0]


def test_a_leaf_that_no_longer_requires_grad_gets_none() -> None:
    x = rg.ones(2, requires_grad=True)
    y = (x * 2).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None
