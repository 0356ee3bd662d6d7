"""Jacobians: shapes at the edges; the contract's programs compare the rest with torch."""

from __future__ import annotations

import pytest

import raygrad as rg
from raygrad import func


@pytest.mark.parametrize("jac", [func.jacrev, func.jacfwd])
def test_empty_and_zero_dimensional_tensors(jac: type) -> None:
    empty = rg.zeros(0, dtype=rg.float64)
    assert jac(lambda x: x * 2)(empty).shape == (0, 0)
    assert jac(lambda x: x.sum())(empty).shape == (0,)
    assert jac(lambda x: x[:0])(rg.ones(3)).shape == (0, 3)
    assert jac(lambda x: x * x)(rg.tensor(3.0)).item() == 6.0


def test_jacrev_and_jacfwd_agree_whatever_the_chunks() -> None:
    x = rg.tensor([1.0, 2.0, 3.0])

    def f(x: rg.Tensor) -> rg.Tensor:
        return x[:2] * x[1:] * x.sum()

    forward = func.jacfwd(f)(x)
    for size in (None, 1, 2, 7):
        assert (func.jacrev(f, chunk_size=size)(x) - forward).abs().max().item() < 1e-6


def test_a_hessian_is_symmetric() -> None:
    h = func.hessian(lambda x: x[0] * x[1] ** 2 + x[2].sin() * x[0])(rg.tensor([1.0, 2.0, 3.0]))
    assert (h - h.T).abs().max().item() < 1e-6
