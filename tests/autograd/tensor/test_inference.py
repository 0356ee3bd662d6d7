"""Inference mode (MD-04)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import raygrad as rg


def vector(T: Any, *values) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


@pytest.mark.parametrize("how", ["with", "call", "plain"])
def test_md_04_it_is_a_manager_and_a_decorator(T: Any, how: str):
    x = vector(T, 1)

    def double(t):
        return t * 2

    if how == "with":
        with T.inference_mode():
            y = double(x)
    else:
        y = (T.inference_mode()(double) if how == "call" else T.inference_mode(double))(x)
    assert y.is_inference()
    assert not y.requires_grad
    assert not T.is_inference_mode_enabled()
    assert T.is_grad_enabled()


def test_md_04_it_nests_and_is_restored_on_exceptions(T: Any):
    with T.inference_mode():
        with T.inference_mode(False):
            assert T.is_grad_enabled()
            assert not T.is_inference_mode_enabled()
        assert T.is_inference_mode_enabled()

    @T.inference_mode()
    def fail():
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not T.is_inference_mode_enabled()
    assert T.is_grad_enabled()


def test_md_04_results_never_require_grad_whatever_the_gradient_mode(T: Any):
    x = vector(T, 1)
    with T.inference_mode(), T.enable_grad():
        assert not (x * 2).requires_grad
    with T.inference_mode():
        with T.set_grad_enabled(True):
            assert not (x * 2).requires_grad


def test_md_04_views_are_what_their_base_is(T: Any):
    x = T.zeros(4)
    with T.inference_mode():
        ours = T.zeros(4)
        assert not x[:2].is_inference()
        assert ours[:2].is_inference()
        x[:2].add_(1)
    assert ours.view(2, 2).is_inference()
    assert ours.detach().is_inference()
    assert x._version == 1
    with pytest.raises(RuntimeError, match="Inplace update"):
        ours[:2].add_(1)
    with pytest.raises(RuntimeError, match="Inplace update"):
        ours[0] = 1.0


def test_md_04_a_non_contiguous_one_is_not_saved_either():
    x = rg.ones(2, 3, requires_grad=True)

    class Save(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g, None

    with rg.inference_mode():
        y = rg.ones(2, 6)[:, ::2]
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        Save.apply(x, y)


def test_md_04_coroutines_and_generators_apply_it_to_their_own_code():
    x = vector(rg, 1)

    @rg.inference_mode()
    async def compute():
        first = (x * 2).is_inference()
        await asyncio.sleep(0)
        return first, (x * 2).is_inference(), rg.is_inference_mode_enabled()

    async def both():
        task = asyncio.ensure_future(compute())
        await asyncio.sleep(0)
        return rg.is_inference_mode_enabled(), await task

    assert asyncio.run(both()) == (False, (True, True, True))
