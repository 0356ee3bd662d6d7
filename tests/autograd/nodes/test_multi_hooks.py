"""Hooks over several tensors, and what they keep alive (HK-18 to HK-21)."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.graph import register_multi_grad_hook


def vector(T: Any, *values) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


def register(T: Any, tensors, fn, **options) -> Any:
    return T.autograd.graph.register_multi_grad_hook(tensors, fn, **options)


def test_hk_18_it_fires_once_all_are_ready(T: Any):
    x, y = vector(T, 1), vector(T, 2)
    seen = []
    handle = register(T, (x, y), lambda grads: seen.append([g.tolist() for g in grads]))
    (x * y).sum().backward()
    assert seen == [[[2], [1]]]
    handle.remove()
    (x * y).sum().backward()
    assert len(seen) == 1


def test_hk_18_it_does_not_fire_if_nothing_is_produced(T: Any):
    x, y = vector(T, 1), vector(T, 2)
    seen = []
    register(T, (x,), seen.append)
    (y * 2).sum().backward()
    assert seen == []


def test_hk_18_one_tensor_in_two_places(T: Any):
    x = vector(T, 1)
    seen = []
    register(T, (x, x), lambda grads: seen.append([g.tolist() for g in grads]))
    (x * 2).sum().backward()
    assert seen == [[[2], [2]]]


def test_hk_19_any_is_the_first_that_is_ready(T: Any):
    x = vector(T, 1)
    y = x * 2
    seen = []
    register(T, (x, y), lambda grad: seen.append(grad.tolist()), mode="any")
    (y * 3).sum().backward()
    assert seen == [[3]]


def test_hk_20_errors():
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        register(rg, (vector(rg, 1),), print, mode="none")
    with pytest.raises(RuntimeError, match="tensor 1 does not"):
        register(rg, (vector(rg, 1), rg.zeros(1)), print)
    with pytest.raises(TypeError, match="callable"):
        register(rg, (vector(rg, 1),), 3)


def test_hk_21_passes_of_two_threads_do_not_count_for_each_other():
    x, y = vector(rg, 1), vector(rg, 2)
    seen = []
    register(rg, (x, y), lambda grads: seen.append(len(grads)))
    together = threading.Barrier(2, timeout=10)
    early = [x * 1, x * 1]
    for tensor in early:
        tensor.register_hook(lambda g: (together.wait(), None)[1])
    losses = [(tensor * y).sum() for tensor in early]
    threads = [threading.Thread(target=loss.backward) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [2, 2]


def test_hk_18_it_keeps_no_graph_alive():
    x = vector(rg, 1)
    y = x * 2
    handle = register(rg, (x, y), print)
    node = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert node() is None
    finally:
        gc.enable()
    handle.remove()


def test_handles_are_context_managers(T: Any):
    x = vector(T, 1)
    seen = []
    with register(T, (x,), seen.append):
        (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert len(seen) == 1


def test_hooks_over_several_tensors_see_gradients_that_are_only_captured() -> None:
    seen: list[list[Any]] = []
    leaf = rg.ones(2, requires_grad=True)
    middle = leaf * 2
    register_multi_grad_hook((leaf, middle), lambda grads: seen.append([g if g is None else g.tolist() for g in grads]))
    rg.autograd.grad((middle * 3).sum(), middle)
    assert seen == [[None, [3.0, 3.0]]]
