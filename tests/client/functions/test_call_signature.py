"""What is known of applications: looked up by what they were given, and for as long as the class is as it was."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.client.functions import call_signature
from raygrad.client.functions.call_signature import CONTEXTS_KEPT, context_of
from raygrad.client.functions.observed_signature import Known
from raygrad.proto.ir.specs import LIVE, STAYS


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_a_class_that_is_patched_is_looked_up_anew(session: Any) -> None:
    class Noisy(rg.autograd.Function):
        effects = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            rg.emit("ran", 1)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    seen: list[int] = []
    session.on("ran", seen.append)
    x = rg.tensor([1.0])
    for effects, times in ((False, 1), (False, 1), (True, 2), (False, 2)):  # the first time it runs to be resolved
        Noisy.effects = effects
        Noisy.apply(x)
        session.submit()
        session.wait_for_everything()
        assert len(seen) == times


def test_arguments_that_differ_in_what_is_recorded_are_not_taken_for_one_another(session: Any) -> None:
    class Twice(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float) -> Any:
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.factor, None

    for _ in range(2):
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        for factor in (2.0, 3.0):
            y = Twice.apply(x, factor)
            assert y.requires_grad
            (grad,) = rg.autograd.grad(y.sum(), x)
            assert grad.numpy().tolist() == [factor] * 2
        assert not Twice.apply(x.detach(), 2.0).requires_grad
        with rg.no_grad():
            assert not Twice.apply(x, 2.0).requires_grad
        long: Any = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        Twice.apply(long, 2.0).sum().backward()
        assert long.grad.numpy().tolist() == [2.0] * 3


def test_what_is_known_of_contexts_is_one_entry_per_size_and_no_more_than_so_many() -> None:
    def known(holds: int) -> Known:
        return Known((), (), (), (), None, None, False, saves=True, holds=holds)

    first = context_of(known(64), 0)
    assert context_of(known(64), 0) is first
    assert context_of(known(64), STAYS) is not first
    for size in range(CONTEXTS_KEPT + 8):
        context_of(known(size), LIVE)
    assert len(call_signature._contexts) <= CONTEXTS_KEPT
