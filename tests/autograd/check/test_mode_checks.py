"""The checks of forward mode and of batches."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import gradcheck, gradgradcheck
from raygrad.autograd.check import mode_checks
from raygrad.autograd.check.jacobians import CheckedOutputs
from raygrad.errors import GradcheckError


def test_the_tangent_of_an_output_that_has_none_is_zero():
    x = rg.tensor(np.array([1.0, 2.0]), requires_grad=True)
    y = rg.tensor(np.array([3.0]), requires_grad=True)

    def func(a, b):
        return a * 2, b * 3

    tangents = mode_checks.pushforward(func, (x, y), CheckedOutputs.of(func(x, y)), 0, rg.ones(2, dtype=rg.float64))
    assert [t.tolist() for t in tangents] == [[2, 2], [0]]


def test_forward_mode_is_checked_in_a_session():
    x = rg.tensor(np.array([0.5, -1.0]), requires_grad=True)
    with rg.Session():
        assert gradcheck(lambda a: rg.sin(a) * a, x, check_forward_ad=True)
        assert gradgradcheck(lambda a: rg.sin(a) * a, x, check_fwd_over_rev=True, fast_mode=True)


def test_a_wrong_tangent_is_named():
    class Wrong(rg.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 5

    x = rg.tensor(np.array([0.5]), requires_grad=True)
    assert gradcheck(Wrong.apply, x)
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch for output 0") as caught:
        gradcheck(Wrong.apply, x, check_forward_ad=True, check_backward_ad=False)
    assert caught.value.kind == "formula"


def test_a_batch_that_gives_something_else_than_its_elements_is_named(monkeypatch):
    def mixing(function):
        return lambda seeds: tuple([rg.flip(g, 0) for g in vmap(function)(seeds)])

    vmap = mode_checks.vmap
    monkeypatch.setattr(mode_checks, "vmap", mixing)
    x = rg.tensor(np.array([0.5, 1.0]), requires_grad=True)
    with pytest.raises(GradcheckError, match="while testing batched gradient computation of output 0") as caught:
        gradcheck(rg.sin, x, check_batched_grad=True)
    assert caught.value.kind == "batched gradients"
    with pytest.raises(GradcheckError, match="while testing batched forward gradient computation by input 0"):
        gradcheck(rg.sin, x, check_forward_ad=True, check_batched_forward_grad=True)


def test_batches_are_checked_where_an_input_is_not_used():
    x = rg.tensor(np.array([0.5]), requires_grad=True)
    y = rg.tensor(np.array([1.5, 2.0]), requires_grad=True)
    assert gradcheck(
        lambda a, b: (a * 2, b * b),
        (x, y),
        check_batched_grad=True,
        check_forward_ad=True,
        check_batched_forward_grad=True,
    )
