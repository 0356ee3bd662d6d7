"""The registry: declarations, kernels, derivatives, and which entry wins (AC)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import AutogradConfig, list_ops, register_autograd, register_kernel
from raygrad.autograd.dispatch.dispatch import apply_op
from raygrad.autograd.registry.entries import UserKernel
from raygrad.autograd.registry.registry import Op, declare, get_op
from raygrad.errors import GraphError


def fresh(name, operands=("a",), **options):
    """Declare an op for one test; names stay taken for the rest of the run."""
    return declare(Op(f"test_registry_{name}", operands, **options))


def vector(*values: float, dtype: Any = None) -> Any:
    return rg.tensor(list(values), dtype=dtype or rg.float64, requires_grad=True)


def test_an_op_is_declared_once():
    op = fresh("once")
    assert get_op(op.name) is op
    assert op.name in list_ops()
    assert list_ops() == sorted(list_ops())
    with pytest.raises(ValueError, match="declared already"):
        declare(Op(op.name, ("a",)))
    with pytest.raises(GraphError, match="no op named 'test_registry_unknown'"):
        get_op("test_registry_unknown")


def test_ac_02_03_05_the_most_specific_entry_wins():
    op = fresh("specific")
    for device, dtype, result in (("*", "*", 1), ("cpu", "*", 2), ("*", "float32", 3), ("cpu", "float32", 4)):
        register_kernel(op.name, device=device, dtype=dtype)(lambda a, r=result: a * 0 + r)
        register_autograd(
            AutogradConfig(
                op=op.name, device=device, dtype=dtype, backward=lambda ctx, g, r=result: g * r, saves="none"
            )
        )
    assert op.kernel("cpu", np.dtype(np.float32))(np.ones(1)) == 4
    assert op.kernel("cpu", np.dtype(np.float64))(np.ones(1)) == 2
    assert op.kernel("cuda:1", np.dtype(np.float32))(np.ones(1)) == 3
    assert op.kernel("cuda:0", np.dtype(np.float64))(np.ones(1)) == 1
    for dtype, factor in ((rg.float32, 4), (rg.float64, 2)):
        x = vector(1, dtype=dtype)
        apply_op(op.name, x).sum().backward()
        assert x.grad.tolist() == [factor]


def test_ac_06_a_duplicate_key_must_ask_for_replacement():
    op = fresh("duplicate")
    first = AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: g)
    register_autograd(first)
    with pytest.raises(ValueError, match=r"'test_registry_duplicate' for device \* and dtype \* is registered already"):
        register_autograd(AutogradConfig(op=op.name, device="*", dtype="*", backward=lambda ctx, g: g))
    register_autograd(AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: g * 5), replace=True)
    register_kernel(op.name)(np.negative)
    with pytest.raises(ValueError, match="a kernel of 'test_registry_duplicate'"):
        register_kernel(op.name)(np.negative)
    x = vector(1)
    apply_op(op.name, x).sum().backward()
    assert x.grad.tolist() == [5]


def test_ac_01_entries_are_immutable_and_name_op_and_device():
    config = AutogradConfig(op="add", device="*", backward=lambda ctx, g: g)
    with pytest.raises(AttributeError):
        config.device = "cpu"  # type: ignore[misc]
    with pytest.raises(TypeError, match="device"):
        AutogradConfig(op="add", backward=lambda ctx, g: g)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("device", "dtype", "message"),
    [
        ("tpu", "*", "unknown device 'tpu'; known: cpu"),
        ("cpu", "float8", "unknown dtype 'float8'; known: float16"),
        ("cpu", "str", "unknown dtype"),
    ],
)
def test_ac_06_unknown_names_list_the_known_ones(device, dtype, message):
    with pytest.raises(ValueError, match=message):
        register_kernel("add", device=device, dtype=dtype)
    with pytest.raises(ValueError, match=message):
        register_autograd(AutogradConfig(op="add", device=device, dtype=dtype, backward=lambda ctx, g: g))


def test_ac_07_a_missing_kernel_names_what_is_registered():
    op = fresh("missing")
    register_kernel(op.name, dtype="float32")(np.negative)
    with pytest.raises(
        GraphError, match=r"no kernel of 'test_registry_missing' for device cpu and dtype float64.*float32"
    ):
        apply_op(op.name, vector(1))


def test_ac_08_setup_context_chooses_what_backward_gets():
    op = fresh("configured", ("a", "b"))
    register_kernel(op.name)(lambda a, b: a * b + 1)
    seen = []

    def setup_context(ctx, inputs, output, meta=None):
        seen.append((rg.is_grad_enabled(), sorted(inputs), meta))
        ctx.save_for_backward(inputs["a"], inputs["b"])
        ctx.half = output * 0.5

    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return {"b": g * a, "a": g * b + 0 * ctx.half}

    register_autograd(AutogradConfig(op=op.name, device="*", setup_context=setup_context, backward=backward))
    a, b = vector(2, 3), vector(5, 7)
    y = apply_op(op.name, a, b)
    assert y.tolist() == [11, 22]
    (da, db) = rg.autograd.grad(y.sum(), [a, b], create_graph=True)
    assert (da.tolist(), db.tolist()) == ([5, 7], [2, 3])
    (second,) = rg.autograd.grad((da * da).sum(), b)
    assert second.tolist() == [10, 14]
    y = apply_op(op.name, a, b)
    y.sum().backward()
    assert a.grad.tolist() == [5, 7]
    assert seen == [(False, ["a", "b"], None)] * 2


def test_ac_08_operands_that_take_all_that_follow_are_one_name():
    op = fresh("variadic", ("first", "*rest"))
    register_kernel(op.name)(lambda first, *rest: first + sum(rest))
    seen = []

    def setup_context(ctx, inputs, output, meta=None):
        seen.append((sorted(inputs), len(inputs["rest"])))

    config = AutogradConfig(
        op=op.name, device="*", setup_context=setup_context, backward=lambda ctx, g: {"rest": (g * 2, g * 3)}
    )
    register_autograd(config)
    a, b, c = vector(1), vector(2), vector(3)
    apply_op(op.name, a, b, c).sum().backward()
    assert (a.grad, b.grad.tolist(), c.grad.tolist()) == (None, [2], [3])
    assert seen == [(["first", "rest"], 2)]


def test_ac_12_saves_names_operands_and_outputs():
    op = fresh("saving", ("a", "b"), outputs=2)
    register_kernel(op.name)(lambda a, b: (a * 2, b * 3))
    seen = []

    def backward(ctx, grads):
        seen.append([value.tolist() for value in ctx.saved_tensors])
        return tuple(grads)

    register_autograd(AutogradConfig(op=op.name, device="*", saves=("output1", "b", "output"), backward=backward))
    a, b = vector(1), vector(1)
    first, second = apply_op(op.name, a, b)
    (first + second).sum().backward()
    assert seen == [[[3], [1], [2]]]
    with pytest.raises(ValueError, match="has no operand 'c'; it has a, b"):
        register_autograd(AutogradConfig(op=op.name, device="cpu", saves="c", backward=backward))


def test_ac_03_the_dtype_of_an_entry_counts_before_its_device():
    op = fresh("dtype_first")
    register_kernel(op.name, device="cpu")(lambda a: a * 2)
    register_kernel(op.name, device="*", dtype="float64")(lambda a: a * 3)
    assert apply_op(op.name, vector(1)).tolist() == [3]
    assert apply_op(op.name, vector(1).float()).tolist() == [2]


def test_what_was_chosen_before_a_registration_is_chosen_anew():
    op = fresh("chosen_anew")
    for factor in (2, 3):
        register_kernel(op.name, replace=True)(lambda a, f=factor: a * f)
        config = AutogradConfig(op=op.name, device="*", saves="none", backward=lambda ctx, g, f=factor: g * f)
        register_autograd(config, replace=True)
        x = vector(1)
        y = apply_op(op.name, x)
        y.sum().backward()
        assert (y.tolist(), x.grad.tolist()) == ([factor], [factor])


def test_a_users_kernel_counts_before_raygrads_own_of_the_same_device_and_dtype():
    op = Op("test_registry_own", ("a",))
    op.add_kernel("cpu", "*", np.negative)
    assert op.kernel("cpu", "float64") is np.negative
    given = UserKernel(np.exp, False)
    op.add_user_kernel("cpu", "*", given, True)
    assert op.kernel("cpu", "float64") is given
    assert op.builtin_kernel("cpu", "float64") is np.negative
    op.remove_user_entries()
    assert op.kernel("cpu", "float64") is np.negative


def test_a_rule_that_serves_all_is_known_at_once_and_no_other_is():
    op = Op("test_registry_sole", ("a",))
    op.add_derivative(AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: g))
    assert op.sole_rule is op.derivative("cpu", "float64") is not None
    op.add_derivative(AutogradConfig(op=op.name, device="*", dtype="float64", backward=lambda ctx, g: g * 2))
    assert op.sole_rule is None
    assert op.derivative("cpu", "float64") is not op.derivative("cpu", "float32")
