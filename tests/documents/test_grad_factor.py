"""The document of `GradFactor`: every member that an instance of it is documented to have."""

from __future__ import annotations

import inspect
from inspect import getattr_static
from types import SimpleNamespace
from typing import Any

import pytest

import raygrad as torch
from raygrad.autograd import Function, forward_ad as fwAD
from raygrad.functional import GradFactor

from .members import ATTRIBUTES, METHODS, without_a_test


def leaf(*values: float) -> Any:
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def context(x: Any = None, factor: Any = 2.0) -> Any:
    return GradFactor.apply(leaf(1, 2) if x is None else x, factor).grad_fn


def instance() -> Any:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        return GradFactor()


def test_each_member_has_its_test_here() -> None:
    assert without_a_test(globals(), METHODS + ATTRIBUTES) == []


def test_each_member_is_on_the_class_an_instance_and_the_context() -> None:
    missing = object()
    kinds = (GradFactor, type(instance()), type(context()), context())
    assert [m for m in METHODS + ATTRIBUTES if any(getattr_static(k, m, missing) is missing for k in kinds)] == []


# ---- what it does ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [None, {}, {"strict": True}], ids=["eager", "session", "strict"])
def test_apply(options: dict[str, Any] | None) -> None:
    def run() -> list[Any]:
        x = leaf(1, 2)
        y = GradFactor.apply(x, 0.5)
        (y * y).sum().backward()
        return [y.tolist(), x.grad.tolist()]

    if options is None:
        assert run() == [[1, 2], [1, 2]]
    else:
        with torch.Session(**options):
            assert run() == [[1, 2], [1, 2]]


def test_apply__of_an_instance() -> None:
    assert instance().apply(leaf(1, 2), 3).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        instance()(leaf(1, 2), 3)


def test_forward() -> None:
    x, ctx = leaf(1, 2), SimpleNamespace()
    assert GradFactor.forward(ctx, x, 3.0).tolist() == [1, 2]
    assert ctx.factor == 3
    assert instance().forward is GradFactor.forward
    assert list(inspect.signature(GradFactor.forward).parameters) == ["ctx", "x", "f"]


def test_setup_context() -> None:
    assert GradFactor.setup_context is Function.setup_context  # forward takes the ctx
    assert context(factor=4.0).factor == 4


def test_backward() -> None:
    gradient, none = GradFactor.backward(context(factor=4.0), torch.ones(2))
    assert gradient.tolist() == [4, 4]
    assert none is None


def test_vjp() -> None:
    with pytest.raises(NotImplementedError, match="backward or vjp"):
        GradFactor.vjp(context(), torch.ones(2))  # backward is the one of the two names that it writes

    class ByItsOtherName(Function):
        forward = staticmethod(GradFactor.forward)
        vjp = staticmethod(GradFactor.backward)

    x = leaf(1, 2)
    ByItsOtherName.apply(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_jvp() -> None:
    with fwAD.dual_level():
        x = fwAD.make_dual(leaf(1, 2).detach(), torch.tensor([5.0, 6.0], dtype=torch.float64))
        tangent: Any = fwAD.unpack_dual(GradFactor.apply(x, 3.0)).tangent
    assert tangent.tolist() == [5, 6]


def test_vmap() -> None:
    out, where = GradFactor.vmap(None, (1, None), torch.ones(2, 3), 4.0)
    assert (out.shape, where) == ((2, 3), 1)


def test_generate_vmap_rule() -> None:
    assert GradFactor.generate_vmap_rule is False
    assert context().generate_vmap_rule is False


# ---- what its context offers to forward, setup_context and backward --------------------------------------------------


def in_setup(act: Any) -> Any:
    """Apply a GradFactor whose forward also calls `act(ctx, inputs, output)`; return its context."""

    class Acting(GradFactor):
        @staticmethod
        def forward(ctx: Any, x: Any, f: Any) -> Any:
            output = GradFactor.forward(ctx, x, f)
            act(ctx, (x, f), output)
            return output

    return Acting.apply(leaf(1, 2), 2.0).grad_fn


def test_save_for_backward() -> None:
    factor = torch.tensor([2.0, 3.0], dtype=torch.float64)
    assert context(factor=factor).saved_tensors[0] is factor
    made = instance()
    made.save_for_backward(factor)
    assert made.to_save[0] is factor


def test_save_for_forward() -> None:
    in_setup(lambda ctx, inputs, output: ctx.save_for_forward(inputs[0], None))
    with pytest.raises(AssertionError):
        in_setup(lambda ctx, inputs, output: ctx.save_for_forward(inputs[1]))


def test_mark_dirty() -> None:
    with pytest.raises(RuntimeError, match="mark_dirty can only accept"):
        in_setup(lambda ctx, inputs, output: ctx.mark_dirty(3))
    with pytest.raises(RuntimeError):  # it changes no input in place
        in_setup(lambda ctx, inputs, output: ctx.mark_dirty(inputs[0]))


def test_mark_non_differentiable() -> None:
    assert in_setup(lambda ctx, inputs, output: ctx.mark_non_differentiable(output)) is None


def test_mark_shared_storage() -> None:
    with pytest.warns(FutureWarning):
        in_setup(lambda ctx, inputs, output: ctx.mark_shared_storage((inputs[0], output)))


def test_set_materialize_grads() -> None:
    ctx = in_setup(lambda ctx, inputs, output: ctx.set_materialize_grads(False))
    assert ctx.materialize_grads is False
    with pytest.raises(TypeError):
        ctx.set_materialize_grads(1)


def test_maybe_clear_saved_tensors() -> None:
    seen = []

    class Clears(GradFactor):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            result = GradFactor.backward(ctx, *grads)
            seen.append(ctx.maybe_clear_saved_tensors())
            return result

    y = Clears.apply(leaf(1, 2), torch.ones(2, dtype=torch.float64)).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert seen == [None, None]


def test_materialize_grads() -> None:
    assert context().materialize_grads is True


def test_needs_input_grad() -> None:
    assert context().needs_input_grad == (True, False)


def test_dirty_tensors() -> None:
    assert context().dirty_tensors is None
    assert instance().dirty_tensors is None


def test_non_differentiable() -> None:
    seen = []
    in_setup(lambda ctx, inputs, output: (ctx.mark_non_differentiable(output), seen.append(ctx.non_differentiable)))
    assert len(seen[0]) == 1


def test_requires_grad() -> None:
    seen = []
    in_setup(lambda ctx, inputs, output: seen.append(ctx.requires_grad))
    with torch.no_grad():
        in_setup_without_gradient = in_setup(lambda ctx, inputs, output: seen.append(ctx.requires_grad))
    assert in_setup_without_gradient is None
    assert seen == [True, False]


def test_saved_for_forward() -> None:
    seen = []
    in_setup(lambda ctx, inputs, output: (ctx.save_for_forward(output), seen.append(len(ctx.saved_for_forward))))
    assert seen == [1]
    assert context().saved_for_forward is None


def test_saved_tensors() -> None:
    assert context().saved_tensors == ()
    x = leaf(1, 2)
    y = GradFactor.apply(x, torch.ones(2, dtype=torch.float64)).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        y.backward()


def test_saved_variables() -> None:
    with pytest.warns(DeprecationWarning, match="saved_variables"):
        assert context().saved_variables == ()


def test_to_save() -> None:
    seen = []
    in_setup(lambda ctx, inputs, output: (seen.append(ctx.to_save), ctx.save_for_backward(output)))
    assert seen == [None]
    assert context(factor=torch.ones(2, dtype=torch.float64)).to_save is None


# ---- the node --------------------------------------------------------------------------------------------------------


def test_name() -> None:
    assert context().name() == "GradFactorBackward"
    with pytest.raises(RuntimeError, match="Attribute 'name' is invalid"):
        instance().name()


def test_next_functions() -> None:
    x = leaf(1, 2)
    ((node, _),) = context(x).next_functions
    assert node.variable is x
    with pytest.raises(RuntimeError, match="Attribute 'next_functions' is invalid"):
        instance().next_functions  # noqa: B018


def test_metadata() -> None:
    ctx = context()
    ctx.metadata["layer"] = "embedding"
    assert ctx.metadata == {"layer": "embedding"}


def test_register_hook() -> None:
    x = leaf(1, 2)
    y = GradFactor.apply(x, 2.0)
    assert y.grad_fn is not None
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + outputs[0], *inputs[1:]))
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_register_prehook() -> None:
    x = leaf(1, 2)
    y = GradFactor.apply(x, 2.0)
    assert y.grad_fn is not None
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    y.sum().backward()
    assert x.grad.tolist() == [20, 20]
