"""Saved-tensor hooks as context managers, and packed values (SEMANTICS GR)."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in


def vector(T: Any, *values) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


def hooks(T: Any, pack=lambda t: t, unpack=lambda kept: kept) -> Any:
    return T.autograd.graph.saved_tensors_hooks(pack, unpack)


def test_gr_01_integers_are_packed_and_none_is_not(T: Any):
    class Pick(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, index):
            ctx.save_for_backward(index, None)
            return x[index]

        @staticmethod
        def backward(ctx, g):
            return T.zeros(3, dtype=T.float64).index_add(0, ctx.saved_tensors[0], g), None

    packed = []
    x = vector(T, 1, 2, 3)
    with hooks(T, lambda t: packed.append(t.dtype) or t):
        y = Pick.apply(x, T.tensor([2, 0]))
    y.sum().backward()
    assert packed == [T.int64]
    assert x.grad.tolist() == [1, 0, 1]


@pytest.mark.parametrize("retain", [False, True])
def test_gr_02_values_are_unpacked_in_each_pass_and_freed_after_the_last(T: Any, retain):
    unpacked = []
    x = vector(T, 2)
    with hooks(T, lambda t: t.detach(), lambda kept: unpacked.append(1) or kept):
        y = (x * x).sum()
    y.backward(retain_graph=retain)
    once = len(unpacked)
    if retain:
        y.backward()
        assert len(unpacked) == 2 * once
    else:
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            y.backward()


def test_gr_03_an_output_that_comes_back_is_in_its_place(T: Any):
    x = vector(T, 0.5)
    with hooks(T, lambda t: t.detach().numpy().copy(), lambda kept: T.from_numpy(kept)):
        y = x.exp()
        (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x)
    assert h.tolist() == pytest.approx([1.6487212707])


def test_gr_05_an_op_in_place_keeps_what_it_saved(T: Any):
    x = vector(T, 0.5)
    y = x * 1
    with hooks(T):
        y.sin_()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([0.8775825619])


def test_gr_08_they_must_be_callable(T: Any):
    with pytest.raises(TypeError), hooks(T, 3):
        pass


def test_gr_10_leaving_twice_does_no_harm():
    manager = hooks(rg, lambda t: (_ for _ in ()).throw(AssertionError))
    with manager:
        manager.__exit__(None, None, None)
        (vector(rg, 1) * vector(rg, 2)).sum().backward()
    (vector(rg, 1) * vector(rg, 2)).sum().backward()


def test_gr_11_a_decorated_function_refuses_hooks(T: Any):
    @T.autograd.graph.disable_saved_tensors_hooks("not here")
    def work():
        with hooks(T):
            pass

    with pytest.raises(RuntimeError, match="not here"):
        work()
    with hooks(T):
        pass


@pytest.mark.parametrize("pinned", [False, True])
def test_gr_12_nothing_is_copied_on_the_host(pinned: bool):
    x = vector(rg, 1, 2)
    with rg.autograd.graph.save_on_cpu(pin_memory=pinned):
        y: Any = x * x
    assert y.grad_fn._saved_self._data is x._data
    with pytest.raises(TypeError, match=r"save_on_cpu\(pin_memory=...\) takes True or False, got 1"):
        rg.autograd.graph.save_on_cpu(pin_memory=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("pinned", [False, True])
def test_gr_12_what_is_saved_on_a_gpu_is_kept_on_the_host(pinned: bool):
    with use_stand_in(1) as device:
        x = vector(rg, 1, 2).detach().cuda().requires_grad_()
        device.forget_transfers()
        with rg.autograd.graph.save_on_cpu(pin_memory=pinned):
            y: Any = x.exp()
        assert (device.transfers.to_host, device.transfers.to_device) == (1, 0)
        y.sum().backward()
        assert device.transfers.to_device == 1
        assert x.grad.tolist() == y.tolist()


@pytest.mark.parametrize("make", [lambda x: x.exp(), lambda x: x * x])
def test_gr_02_packed_values_make_no_cycle(make):
    x = vector(rg, 1, 2)
    gc.disable()
    try:
        with hooks(rg):
            y = make(x)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()
