"""Ops with a user's entries, applied as Functions (AC); tests/conformance/contract/ac.py has the programs."""

# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import cloudpickle
import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import AutogradConfig, declare_op, forward_ad, list_undeclared, register_autograd, register_kernel
from raygrad.autograd.derived import custom_op
from raygrad.autograd.derived.custom_op import DeclaredOp, OpFunction
from raygrad.autograd.registry.registry import Op, get_op
from raygrad.errors import AutogradError


def leaf(*values: float, dtype: Any = rg.float64) -> Any:
    return rg.tensor(list(values), dtype=dtype, requires_grad=True)


def scaled(name: str, factor: float = 2.0) -> DeclaredOp:
    op = declare_op(f"test_registered_{name}", ("a",))
    register_kernel(op.name)(lambda a: a * factor)
    register_autograd(AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: g * factor))
    return op


def test_a_declared_op_is_applied_as_a_function_named_after_it() -> None:
    op = scaled("named")
    x = leaf(1)
    y = op(x)
    assert y.grad_fn.name() == "TestRegisteredNamedBackward"
    assert issubclass(type(y.grad_fn)._function, OpFunction)
    assert op(x).grad_fn.__class__ is type(y.grad_fn)
    assert repr(op) == "<declared <op test_registered_named(a)>>"


def test_operands_and_parameters_are_bound_by_name() -> None:
    op = declare_op("test_registered_bound", ("a", "b"), params=("power",))
    register_kernel(op.name)(lambda a, b, power: a**power + b)
    a, b = leaf(2), leaf(3)
    assert op(a, b=b, power=2).tolist() == [7]
    assert op(b=b, a=a, power=3).tolist() == [11]
    with pytest.raises(TypeError, match=r"takes 2 operands \(a, b\), got 1"):
        op(a, power=2)
    with pytest.raises(TypeError, match="missing: power; unknown: root"):
        op(a, b, root=2)


def test_parameters_have_no_gradient_and_needs_says_so() -> None:
    op = declare_op("test_registered_needs", ("a",), params=("power",))
    register_kernel(op.name)(lambda a, power: a**power)
    seen = []

    def backward(ctx: Any, g: Any) -> Any:
        seen.append((ctx.needs_input_grad, ctx.params, ctx.inputs[0][0], ctx.outputs[0][0]))
        (a,) = ctx.saved_tensors
        return {"a": g * ctx.params[0] * a ** (ctx.params[0] - 1)}

    register_autograd(AutogradConfig(op=op.name, device="*", backward=backward))
    a = leaf(2)
    op(a, power=3).sum().backward()
    assert a.grad.tolist() == [12]
    assert seen == [((True, False), (3,), (1,), (1,))]


def test_bare_arrays_go_to_the_kernel_without_meta() -> None:
    op = declare_op("test_registered_bare", ("a",))
    register_kernel(op.name, returns_meta=True)(lambda a: (a * 2, "meta"))
    result = op(np.ones(2))
    assert type(result) is np.ndarray
    assert result.tolist() == [2, 2]


def test_a_kernel_with_a_wrong_number_of_outputs_is_named() -> None:
    op = declare_op("test_registered_outputs", ("a",), outputs=2)
    register_kernel(op.name)(lambda a: (a, a, a))
    with pytest.raises(AutogradError, match="'test_registered_outputs' returned 3 outputs, but the op has 2"):
        op(leaf(1))


def test_a_value_is_not_kept_for_a_gradient_that_nobody_wants() -> None:
    op = declare_op("test_registered_gates", ("a", "b"))
    register_kernel(op.name)(np.multiply)
    seen = []

    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        seen.append((a is None, b is None))
        return {"a": g * b}

    config = AutogradConfig(op=op.name, device="*", saves=("a", "b"), saved_for={"a": "b", "b": "a"}, backward=backward)
    register_autograd(config)
    op(leaf(2), rg.ones(1, dtype=rg.float64)).sum().backward()
    assert seen == [(True, False)]


def test_an_early_registration_that_does_not_fit_is_refused_at_the_declaration() -> None:
    name = "test_registered_early"
    register_autograd(AutogradConfig(op=name, device="*", saves="c", backward=lambda ctx, g: g))
    assert name in list_undeclared()
    with pytest.raises(ValueError, match="has no operand 'c'"):
        declare_op(name, ("a",))


def test_an_unknown_promotion_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown promotion 'up'; known: None, 'arith', 'float'"):
        declare_op("test_registered_promotion", ("a",), promotes="up")


@pytest.fixture
def undone() -> Iterator[Callable[[str], None]]:
    """What takes the name of a built-in op whose registrations are undone after the test."""
    kept: list[tuple[Any, dict[str, Any]]] = []

    def keep(name: str) -> None:
        op = get_op(name)
        kept.append((op, {slot: copy(getattr(op, slot)) for slot in Op.__slots__}))

    yield keep
    for op, state in kept:
        for slot, value in state.items():
            setattr(op, slot, value)


def test_a_users_entry_for_a_built_in_op_serves_its_dtype_only(undone: Callable[[str], None]) -> None:
    undone("cosh")
    config = AutogradConfig(op="cosh", device="*", dtype="float16", saves="none", backward=lambda ctx, g: g * 7)
    register_autograd(config)
    half, double = leaf(0, dtype=rg.float16), leaf(0)
    y = rg.cosh(half)
    assert y.grad_fn.name() == "CoshBackward"
    y.sum().backward()
    assert half.grad.tolist() == [7]
    assert rg.cosh(double).grad_fn.name() == "CoshBackward0"


def test_a_view_that_a_users_entry_serves_is_a_copy(undone: Callable[[str], None]) -> None:
    undone("reshape")
    config = AutogradConfig(op="reshape", device="*", dtype="float16", backward=lambda ctx, g: {"a": g.reshape(2, 1)})
    register_autograd(config)
    x = leaf(1, 2, dtype=rg.float16)
    y = x.reshape(1, 2)
    assert not np.shares_memory(y.detach().numpy(), x.detach().numpy())


def test_ac_15_a_declared_op_comes_back_as_itself_where_it_was_declared() -> None:
    op = scaled("itself")
    again = cloudpickle.loads(cloudpickle.dumps(op))
    assert again(leaf(1)).grad_fn.__class__ is op(leaf(1)).grad_fn.__class__


def test_ac_15_elsewhere_it_has_the_entries_that_it_had_when_it_was_sent(monkeypatch: Any) -> None:
    op = scaled("elsewhere")
    sent = cloudpickle.dumps(op)
    register_kernel(op.name, replace=True)(lambda a: a * 100)
    home = get_op(op.name)
    monkeypatch.setattr(custom_op, "_PROCESS", "another")
    there = cloudpickle.loads(sent)
    assert get_op(op.name) is not home
    assert there(leaf(1)).tolist() == [2]
    assert cloudpickle.loads(sent)._op is there._op


def test_forward_mode_turns_the_backward_round() -> None:
    op = declare_op("test_registered_forward", ("a", "b"), outputs=2)
    register_kernel(op.name)(lambda a, b: (a**3 * b, a + b))

    def backward(ctx: Any, grads: Any) -> Any:
        a, b = ctx.saved_tensors
        return 3 * a**2 * b * grads[0] + grads[1], a**3 * grads[0] + grads[1]

    register_autograd(AutogradConfig(op=op.name, device="*", backward=backward))
    x, y = rg.tensor([1.0, 2.0], dtype=rg.float64), rg.tensor([3.0, 4.0], dtype=rg.float64)
    with forward_ad.dual_level():
        outputs = op(forward_ad.make_dual(x, rg.ones_like(x)), y)
        tangents: list[Any] = [forward_ad.unpack_dual(output).tangent for output in outputs]
    assert [tangent.tolist() for tangent in tangents] == [[9, 48], [1, 1]]

    def total(x: Any) -> Any:
        return op(x, y)[0].sum()

    expected = [[18, 0], [0, 48]]
    assert rg.func.hessian(total)(x).tolist() == expected
    assert rg.func.jacrev(rg.func.jacfwd(total))(x).tolist() == expected
    assert rg.func.jacfwd(rg.func.jacfwd(total))(x).tolist() == expected


def test_a_users_kernel_goes_with_raygrads_own_derivative(undone: Callable[[str], None]) -> None:
    undone("pow")
    register_kernel("pow", dtype="float16")(lambda a, b: a**b + 1)
    x = leaf(2, dtype=rg.float16)
    y = x**1.0  # the exponent is a number, whose gradient nobody wants
    y.backward()
    assert (y.tolist(), x.grad.shape) == ([3], (1,))


def test_entries_are_chosen_by_device_and_dtype_and_by_whether_there_are_parameters() -> None:
    name = "test_registered_chosen"
    declare_op(name, ("a",))
    for device, factor in (("cpu", 2), ("cuda", 3)):
        register_kernel(name, device=device, dtype="float64")(lambda a, *params, f=factor: a * f + sum(params))
        register_kernel(name, device=device, dtype="float32")(lambda a, *params, f=factor: a * f * 10 + sum(params))
    expected = {("cpu", "float64"): 2, ("cuda", "float64"): 3, ("cpu", "float32"): 20, ("cuda", "float32"): 30}
    for _ in range(2):
        for (device, dtype), factor in expected.items():
            x = leaf(1, dtype=getattr(rg, dtype))
            for params in ((), (5,)):
                found = custom_op.applied(get_op(name), [x], params, np.dtype(dtype), device)
                assert found.tolist() == [factor + sum(params)]


def test_ac_15_an_op_that_is_sent_again_has_the_entries_that_it_has_by_then(monkeypatch: Any) -> None:
    op = scaled("again")
    sent = [cloudpickle.dumps(op)]
    register_kernel(op.name, replace=True)(lambda a: a * 100)
    sent.append(cloudpickle.dumps(op))
    monkeypatch.setattr(custom_op, "_PROCESS", "another")
    assert [cloudpickle.loads(sent[number])(leaf(1)).tolist() for number in (0, 1, 1, 0)] == [[2], [100], [100], [2]]
