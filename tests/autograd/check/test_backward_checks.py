"""The checks of backward, one by one."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.check.backward_checks import GradientCheck, UndefinedGrad, unit
from raygrad.errors import GradcheckError


def check_of(func, *inputs) -> GradientCheck:
    return GradientCheck(func, inputs, 1e-6, 1e-5, 1e-3, 0.0, False)


def test_a_gradient_that_is_kept_back_is_undefined():
    x = rg.ones(2, requires_grad=True)
    assert rg.autograd.grad(UndefinedGrad.apply(x).sum(), x, allow_unused=True) == (None,)


def test_weights_are_positive_and_of_length_one():
    weights = unit(np.random.default_rng(0), (3, 2))
    assert weights.min() > 0
    assert abs(np.linalg.norm(weights) - 1) < 1e-12
    assert unit(np.random.default_rng(0), ()) == 1


def test_a_constant_that_is_none_names_output_and_input():
    x = rg.tensor(np.array([1.0]), requires_grad=True)
    check = check_of(lambda a: (rg.ones(1), a.detach() * 2), x)
    with pytest.raises(GradcheckError, match="output 1 with respect to input 0 expected to be zero") as caught:
        check.constant()
    assert caught.value.kind == "graph"


def test_what_a_gradient_of_zero_gives_is_shown():
    class Adds(rg.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            return g + 7

    x = rg.tensor(np.array([1.0]), requires_grad=True)
    with pytest.raises(GradcheckError, match=r"backward not multiplied by grad_output.*\n\[7\.\]") as caught:
        check_of(Adds.apply, x).linear()
    assert caught.value.kind == "linearity"
    with pytest.raises(GradcheckError, match=r"handle undefined output grads.*expected to be undefined or zero"):
        check_of(Adds.apply, x).undefined()
