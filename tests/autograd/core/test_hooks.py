"""Handles of registered hooks (ND-11, ND-12, ND-17, HK-12)."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.core.hooks import HookDict, RemovableHandle


def vector(T: Any, *values) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


def registrars(T: Any, x: Any):
    """Each way to register a hook on a graph over `x`, with a value to run backward on."""
    y = x * 2
    return y, {
        "tensor": lambda fn: y.register_hook(lambda g: fn()),
        "leaf": lambda fn: x.register_hook(lambda g: fn()),
        "pre": lambda fn: y.grad_fn.register_prehook(lambda grads: fn()),
        "post": lambda fn: y.grad_fn.register_hook(lambda ins, outs: fn()),
    }


KINDS = ["tensor", "leaf", "pre", "post"]


@pytest.mark.parametrize("kind", KINDS)
def test_nd_12_handles_remove_their_hook_once_and_for_all(T: Any, kind):
    seen: list[str] = []
    y, register = registrars(T, vector(T, 1))
    first = register[kind](lambda: seen.append("first"))
    second = register[kind](lambda: seen.append("second"))
    assert first.id != second.id
    assert isinstance(first.id, int)
    y.sum().backward(retain_graph=True)
    first.remove()
    first.remove()
    y.sum().backward(retain_graph=True)
    assert seen == ["first", "second", "second"]


@pytest.mark.parametrize("kind", KINDS)
def test_nd_12_handles_are_context_managers(T: Any, kind):
    seen: list[int] = []
    y, register = registrars(T, vector(T, 1))
    with register[kind](lambda: seen.append(1)):
        y.sum().backward(retain_graph=True)
    y.sum().backward(retain_graph=True)
    assert seen == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_nd_12_a_hook_removed_by_an_earlier_one_still_runs_in_this_pass(T: Any, kind):
    seen: list[str] = []
    y, register = registrars(T, vector(T, 1))
    handles: list[Any] = []
    register[kind](lambda: handles[0].remove())
    handles.append(register[kind](lambda: seen.append("removed")))
    y.sum().backward(retain_graph=True)
    assert seen == ["removed"]
    y.sum().backward()
    assert seen == ["removed"]


def test_nd_12_removing_a_hook_leaves_one_registered_twice_in_place(T: Any):
    x = vector(T, 1)

    def double(g):
        return g * 2

    handles = [x.register_hook(double) for _ in range(3)]
    handles[1].remove()
    (x * 1).sum().backward()
    assert x.grad.tolist() == [4]


def test_nd_17_a_handle_keeps_neither_hook_nor_node_alive():
    class Closure:
        def __call__(self, *grads):
            return None

    gc.disable()
    try:
        hook = Closure()
        alive = weakref.ref(hook)
        y = vector(rg, 1) * 2
        handles = [y.register_hook(hook), y.grad_fn.register_hook(hook), y.grad_fn.register_prehook(hook)]
        del hook
        assert alive() is not None
        del y
        assert alive() is None
        for handle in handles:
            handle.remove()
    finally:
        gc.enable()


def test_nd_17_a_hook_that_refers_to_its_node_lives_as_long_as_the_graph_and_can_be_collected():
    def build():
        y = vector(rg, 1) * 2
        node = y.grad_fn
        y.register_hook(lambda g: seen.append(node.name()))
        return y, weakref.ref(node)

    seen: list[str] = []
    y, alive = build()
    gc.collect()
    y.sum().backward()
    assert seen == ["MulBackward0"]
    del y
    gc.collect()
    assert alive() is None


def test_a_hook_must_be_callable():
    x = vector(rg, 1)
    y = x * 2
    for register in (x.register_hook, y.register_hook, y.grad_fn.register_hook, y.grad_fn.register_prehook):
        with pytest.raises(TypeError, match="a hook must be callable, got int"):
            register(3)


def test_hooks_keep_their_order():
    hooks = HookDict()
    handles = [RemovableHandle(hooks, name) for name in "abc"]
    handles[1].remove()
    assert list(hooks.values()) == ["a", "c"]


def test_dr_06_without_a_session_hooks_of_the_client_are_like_any_other():
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3.0
    y.register_hook(lambda g: g * 2.0, client=True)
    y.grad_fn.register_prehook(lambda grads: (grads[0] + 1.0,), client=True)
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * outputs[0],), client=True)
    seen: list[Any] = []
    rg.autograd.graph.register_multi_grad_hook([x], seen.extend, client=True)
    y.sum().backward()
    assert x.grad.tolist() == [27.0, 27.0]
    assert seen[0].tolist() == [27.0, 27.0]


def test_dr_06_a_hook_of_the_client_goes_by_its_own_name():
    def shortens(grad: Any) -> Any:
        return grad[:1]

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(shortens, client=True)
    with pytest.raises(RuntimeError, match="hook 'shortens' has changed the size"):
        x.sum().backward()
    with pytest.raises(TypeError, match="callable"):
        x.register_hook(3, client=True)
