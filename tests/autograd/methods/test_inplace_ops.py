"""Changes in place with a rule of their own: what they check, fill and refuse, as PyTorch does."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import AutogradError


@pytest.fixture(params=["raygrad", pytest.param("torch", marks=pytest.mark.oracle)])
def T(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def test_they_change_the_memory_that_views_share_and_are_differentiated(T: Any) -> None:
    x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1.0
    part = y[1:]
    part.mul_(3.0).add_(T.tensor([1.0, 1.0]), alpha=2.0)
    assert y.tolist() == [1.0, 8.0, 11.0]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 3.0, 3.0]


def test_a_value_that_is_smaller_is_stretched_and_one_that_is_larger_refused(T: Any) -> None:
    x = T.zeros(2, 3)
    x.copy_(T.tensor([1.0, 2.0, 3.0]))
    assert x.tolist() == [[1.0, 2.0, 3.0]] * 2
    with pytest.raises(RuntimeError, match="shape"):
        x.copy_(T.zeros(1, 2, 3))
    with pytest.raises(RuntimeError, match="shape"):
        x.add_(T.zeros(4, 2, 3))


@pytest.mark.parametrize(("shape", "wrap"), [((3, 3), False), ((5, 2), False), ((5, 2), True), ((2, 2, 2), False)])
def test_diagonals_are_filled(T: Any, shape: tuple[int, ...], wrap: bool) -> None:
    x = T.zeros(*shape).fill_diagonal_(1.0, wrap)
    extent = min(shape) + (2 if wrap else 0)
    assert x.sum().item() == extent
    assert x[(0,) * len(shape)].item() == 1.0


def test_diagonals_of_what_has_none_are_refused(T: Any) -> None:
    with pytest.raises(RuntimeError, match="dimensions must larger than 1"):
        T.zeros(3).fill_diagonal_(1.0)
    with pytest.raises(RuntimeError, match="all dimensions of input must be of equal length"):
        T.zeros(2, 3, 2).fill_diagonal_(1.0)


def test_draws_are_of_distributions_that_exist(T: Any) -> None:
    x = T.zeros(1000).uniform_(2.0, 3.0)
    assert 2.0 <= x.min().item() <= x.max().item() < 3.0
    with pytest.raises(RuntimeError, match=r"normal expects std >= 0\.0, but found std -1"):
        T.zeros(3).normal_(0.0, -1.0)
    with pytest.raises(RuntimeError, match=r"uniform_ expects to return a \[from, to\) range"):
        T.zeros(3).uniform_(2.0, 1.0)


def test_a_complex_tensor_keeps_its_dtype() -> None:
    with pytest.raises(AutogradError, match="In-place abs is not supported for complex tensors"):
        rg.zeros(2, dtype=rg.complex64).abs_()
