"""Jacobians: shapes at the edges; the contract's programs compare the rest with torch."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

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


class OnArrays(rg.autograd.Function):
    """A cube computed by NumPy, in every method."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return rg.tensor(x.detach().numpy() ** 3)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return rg.tensor(g.numpy() * 3 * x.numpy() ** 2)

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return rg.tensor(t.numpy() * 3 * x.numpy() ** 2)


@pytest.mark.parametrize("jac", [func.jacrev, func.jacfwd])
@pytest.mark.parametrize("inside", [False, True])
def test_code_on_arrays_is_run_for_one_basis_vector_after_the_other(jac: type, inside: bool) -> None:
    x = rg.tensor([1.0, 2.0], dtype=rg.float64)
    with rg.Session("local") if inside else nullcontext():
        assert jac(OnArrays.apply)(x).tolist() == [[3.0, 0.0], [0.0, 12.0]]
        assert jac(OnArrays.apply)(rg.zeros(0)).shape == (0, 0)


@pytest.mark.parametrize("inner", [lambda x: x, OnArrays.apply], ids=["at once", "one by one"])
def test_random_numbers_in_a_jacobian(inner: Any) -> None:  # FT-03
    x = rg.tensor([1.0, 1.0])
    with pytest.raises(RuntimeError, match="randomness error mode"):
        func.jacfwd(lambda x: inner(x) * rg.rand(2))(x)
    rg.manual_seed(0)
    same = func.jacfwd(lambda x: inner(x) * rg.rand(1), randomness="same")(x).diagonal()
    assert (same[0] == same[1]).item()
    different = func.jacfwd(lambda x: inner(x) * rg.rand(1), randomness="different")(x).diagonal()
    assert (different[0] != different[1]).item()
