"""The ways out of a tensor; most of them are tested in test_tensor, as a user meets them."""

from __future__ import annotations

import copy
import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import raygrad as rg


def test_en_33_an_array_of_a_tensor_that_requires_grad_is_refused(T: Any):
    x = T.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    with T.no_grad():
        assert (x * 1).numpy().tolist() == [1.0, 1.0]


def test_what_shows_a_gradient_cannot_be_written_through_its_array():
    class Peeking(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            with pytest.raises(ValueError, match="read-only"):
                g.numpy()[0] = 5
            return g * 2

    x = rg.ones(2, requires_grad=True)
    Peeking.apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_numbers_and_lists(T: Any):
    assert T.tensor([2.5]).item() == 2.5
    assert int(T.tensor(3)) == 3
    assert T.tensor([[1.0, 2.0]]).tolist() == [[1.0, 2.0]]
    with pytest.raises(RuntimeError):
        bool(T.tensor([1.0, 2.0]))


def test_en_34_copies_and_pickles_are_of_leaves():
    x = rg.ones(2, requires_grad=True)
    assert copy.deepcopy(x).requires_grad
    assert np.array_equal(pickle.loads(pickle.dumps(x)).detach().numpy(), [1.0, 1.0])
    for taking in (copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError):
            taking(x * 2)


def test_a_deep_copy_of_a_leaf_has_a_copy_of_its_gradient() -> None:
    x = rg.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    copied = deepcopy(x)
    assert copied.grad is not None
    assert copied.grad is not x.grad
    assert copied.grad.tolist() == [2.0, 2.0]
