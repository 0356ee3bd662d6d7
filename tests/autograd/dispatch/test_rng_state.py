"""The state of random numbers goes into a tensor and back: what is drawn afterwards is the same."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import AutogradError


class Noise(rg.autograd.Function):
    """Draws in forward and in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x + rg.rand(3)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * rg.rand(3)


def draws() -> list[Any]:
    x = rg.zeros(3, requires_grad=True)
    Noise.apply(x).sum().backward()
    assert x.grad is not None
    return [rg.randn(3).tolist(), x.grad.tolist(), rg.randint(9, size=4).tolist(), rg.generator().random()]


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "session"])
def test_draws_of_the_program_and_of_functions_are_repeated(inside: bool) -> None:
    rg.manual_seed(5)
    with rg.Session() if inside else nullcontext():
        rg.rand(1, dtype=rg.float32)  # half of a word of the generator is left over
        draws()
        before = rg.get_rng_state()
        first = draws()
        rg.manual_seed(6)
        assert draws() != first
        rg.set_rng_state(before)
        assert draws() == first


def test_the_generator_that_the_program_holds_goes_back_too() -> None:
    held = rg.generator()
    before = rg.get_rng_state()
    first = held.random()
    rg.set_rng_state(before)
    assert held.random() == first


def test_anything_else_is_refused_and_changes_nothing() -> None:
    before = rg.get_rng_state().tolist()
    for value, error in ((rg.ones(3), TypeError), ("state", TypeError), (rg.zeros(3, dtype=rg.uint8), AutogradError)):
        with pytest.raises(error, match="get_rng_state"):
            rg.set_rng_state(value)  # pyright: ignore[reportArgumentType]
    assert rg.get_rng_state().tolist() == before


def test_user_code_has_no_state_of_the_program() -> None:
    class Asks(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            rg.get_rng_state()
            return x.clone()

    with pytest.raises(AutogradError, match="of the program"):
        Asks.apply(rg.ones(1))
