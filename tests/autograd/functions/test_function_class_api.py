"""The members that Function classes and contexts share, and instances (FN-17, FN-24, FN-25)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd import Function

METHODS = (
    "apply forward setup_context backward vjp jvp vmap save_for_backward save_for_forward mark_dirty "
    "mark_non_differentiable mark_shared_storage set_materialize_grads name register_hook register_prehook"
).split()
ATTRIBUTES = (
    "dirty_tensors generate_vmap_rule materialize_grads metadata needs_input_grad next_functions non_differentiable "
    "requires_grad saved_for_forward saved_tensors saved_variables to_save"
).split()


class Double(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


@pytest.mark.parametrize("name", METHODS)
def test_fn_24_the_class_has_each_method(name: str) -> None:
    assert callable(getattr(Double, name))


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_fn_24_the_class_has_each_attribute(name: str) -> None:
    assert hasattr(Double, name)


def test_the_context_shows_the_methods_of_its_function_and_users_may_hide_them() -> None:
    y = Double.apply(rg.ones(2, requires_grad=True))
    ctx = y.grad_fn
    assert ctx.forward is Double.forward
    assert ctx.backward is Double.backward
    assert ctx.jvp is Function.jvp
    assert ctx.vmap is Function.vmap
    assert ctx.generate_vmap_rule is False
    ctx.forward = 3
    assert ctx.forward == 3


def test_fn_25_the_stubs_say_what_to_write() -> None:
    base: Any = Function
    with pytest.raises(NotImplementedError, match="must implement the jvp function"):
        base.jvp(None)
    with pytest.raises(NotImplementedError, match="override the vmap staticmethod or set generate_vmap_rule=True"):
        base.vmap(None, ())
    with pytest.raises(NotImplementedError, match="setup_context is not implemented"):
        base.setup_context(None, (), None)
    with pytest.raises(NotImplementedError, match="must implement the forward"):
        base.forward()
    for stub in (base.backward, base.vjp):
        with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
            stub(None)


def instance() -> Any:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        return Double()


def test_fn_17_an_instance_warns_cannot_be_called_and_can_apply() -> None:
    made = instance()
    with pytest.raises(RuntimeError, match=r"Legacy autograd function with non-static forward method is deprecated"):
        made(rg.ones(1))
    assert made.apply(rg.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("name", ["name", "next_functions", "register_hook", "register_prehook"])
def test_fn_17_members_of_a_node_are_invalid_on_an_instance(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"Attribute '{name}' is invalid"):
        getattr(instance(), name)


def test_fn_17_an_instance_has_no_metadata_but_can_save() -> None:
    made: Any = instance()
    with pytest.raises(RuntimeError, match="is gone"):
        made.metadata  # noqa: B018
    assert [made.to_save, made.saved_tensors] == [None, ()]
    tensor = rg.ones(2)
    made.save_for_backward(tensor)
    (saved,) = made.to_save
    assert saved is tensor
    made.to_save = (None,)
    assert made.to_save == (None,)
