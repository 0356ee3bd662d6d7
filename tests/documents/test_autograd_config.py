"""The document of `AutogradConfig`: each field of an entry, the wildcards, and which entry wins."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import raygrad as torch
from raygrad.autograd import AutogradConfig, declare_op, grad, list_undeclared, register_autograd, register_kernel

_numbers = itertools.count()

MODES = pytest.mark.parametrize("options", [None, {}, {"strict": True}], ids=["eager", "session", "strict"])


def leaf(*values: float, dtype: Any = torch.float64) -> Any:
    return torch.tensor(list(values), dtype=dtype, requires_grad=True)


def op_of(kernel: Any, operands: tuple[str, ...] = ("a",), **options: Any) -> Any:
    op = declare_op(f"documented_{next(_numbers)}", operands, **options)
    register_kernel(op.name)(kernel)
    return op


def run_in(options: dict[str, Any] | None, run: Any) -> Any:
    if options is None:
        return run()
    with torch.Session(**options):
        return run()


def test_op_is_required_and_may_be_declared_later() -> None:
    with pytest.raises(TypeError, match="op"):
        AutogradConfig(device="*", backward=lambda ctx, g: g)  # type: ignore[call-arg]
    name = f"documented_{next(_numbers)}"
    register_autograd(AutogradConfig(op=name, device="*", backward=lambda ctx, g: g * 2))
    assert name in list_undeclared()
    op = declare_op(name, ("a",))
    register_kernel(name)(lambda a: a * 2)
    assert name not in list_undeclared()
    x = leaf(1)
    op(x).backward()
    assert x.grad.tolist() == [2]


def test_dtype_restricts_an_entry_and_is_any_by_default() -> None:
    op = op_of(lambda a: a * 1)
    for dtype, factor in (("float32", 2), ("*", 3)):
        register_autograd(AutogradConfig(op=op.name, device="*", dtype=dtype, backward=lambda ctx, g, f=factor: g * f))
    with pytest.raises(ValueError, match="registered already"):
        register_autograd(AutogradConfig(op=op.name, device="*", dtype=None, backward=lambda ctx, g: g))
    with pytest.raises(ValueError, match=r"unknown dtype 'float7'; known: float16"):
        register_autograd(AutogradConfig(op=op.name, device="*", dtype="float7", backward=lambda ctx, g: g))
    x, y = leaf(1, dtype=torch.float32), leaf(1)
    op(x).backward()
    op(y).backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([2], [3])


def test_device_is_required_and_may_be_any() -> None:
    with pytest.raises(TypeError, match="device"):
        AutogradConfig(op="add", backward=lambda ctx, g: g)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="unknown device 'abacus'; known: cpu, cuda"):
        register_autograd(AutogradConfig(op="add", device="abacus", backward=lambda ctx, g: g))


def test_the_most_specific_entry_wins_and_dtype_counts_for_more_than_device() -> None:
    entries = [("*", "*", 2), ("cpu", "*", 3), ("*", "float64", 5), ("cpu", "float64", 7)]
    for count in range(1, 5):
        op = op_of(lambda a: a * 1)
        for device, dtype, factor in entries[:count]:
            config = AutogradConfig(op=op.name, device=device, dtype=dtype, backward=lambda ctx, g, f=factor: g * f)
            register_autograd(config)
        x = leaf(1)
        op(x).backward()
        assert x.grad.tolist() == [entries[count - 1][2]]


@MODES
def test_setup_context_sees_inputs_output_and_meta(options: dict[str, Any] | None) -> None:
    op = declare_op(f"documented_{next(_numbers)}", ("values", "weights"), params=("top",))

    @register_kernel(op.name, returns_meta=True)
    def kernel(values: Any, weights: Any, top: int) -> Any:
        chosen = np.argsort(-values)[:top]
        return (values * weights)[chosen], {"chosen": chosen}

    def setup_context(ctx: Any, inputs: Any, output: Any, meta: Any = None) -> None:
        assert sorted(inputs) == ["top", "values", "weights"]
        assert output.shape == (inputs["top"],)
        ctx.chosen = meta["chosen"]
        ctx.save_for_backward(inputs["values"], inputs["weights"])

    def backward(ctx: Any, grad_output: Any) -> Any:
        values, weights = ctx.saved_tensors
        spread = torch.zeros_like(values)
        spread[torch.tensor(ctx.chosen)] = grad_output
        return {"weights": spread * values, "values": spread * weights}

    register_autograd(AutogradConfig(op=op.name, device="*", setup_context=setup_context, backward=backward))

    def run() -> Any:
        values, weights = leaf(1, 5, 3), leaf(2, 3, 4)
        out = op(values, weights, top=2)
        out.sum().backward()
        return [out.tolist(), values.grad.tolist(), weights.grad.tolist()]

    assert run_in(options, run) == [[15, 12], [0, 3, 4], [0, 5, 3]]


@MODES
def test_backward_returns_a_mapping_a_tuple_or_one_gradient(options: dict[str, Any] | None) -> None:
    def run() -> Any:
        found = []
        for backward in (
            lambda ctx, g: {"b": g * ctx.saved_tensors[0], "a": g * ctx.saved_tensors[1]},
            lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0]),
        ):
            op = op_of(np.multiply, ("a", "b"))
            register_autograd(AutogradConfig(op=op.name, device="*", backward=backward))
            a, b = leaf(2), leaf(3)
            op(a, b).backward()
            found.append([a.grad.tolist(), b.grad.tolist()])
        op = op_of(np.square)
        register_autograd(AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: g * 2 * ctx.saved_tensors[0]))
        a = leaf(2)
        op(a).backward()
        return [*found, a.grad.tolist()]

    assert run_in(options, run) == [[[3], [2]], [[3], [2]], [4]]


def test_backward_that_names_an_unknown_input_is_refused() -> None:
    op = op_of(np.multiply, ("a", "b"))
    register_autograd(AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: {"c": g}))
    with pytest.raises(RuntimeError, match=r"unknown inputs \['c'\]"):
        op(leaf(1), leaf(1)).backward()


def test_saves_says_in_a_word_what_to_keep() -> None:
    for saves, kept in (("inputs", 2), ("output", 1), ("a", 1), ("b", 1), ("none", 0), (("b", "output"), 2)):
        op = op_of(np.multiply, ("a", "b"))
        seen = []

        def backward(ctx: Any, g: Any, seen: Any = seen) -> Any:
            seen.append(len(ctx.saved_tensors))
            return {}

        register_autograd(AutogradConfig(op=op.name, device="*", saves=saves, backward=backward))
        op(leaf(1), leaf(1)).backward()
        assert seen == [kept]


def test_saved_for_keeps_a_value_only_where_its_gradient_is_wanted() -> None:
    op = op_of(np.multiply, ("a", "b"))
    seen = []

    def backward(ctx: Any, g: Any) -> Any:
        seen.extend(value is None for value in ctx.saved_tensors)
        return {"a": g * ctx.saved_tensors[1]}

    register_autograd(AutogradConfig(op=op.name, device="*", saved_for={"a": "b", "b": "a"}, backward=backward))
    op(leaf(1), leaf(1).detach()).backward()
    assert seen == [True, False]


def test_an_entry_cannot_be_changed_but_replaced() -> None:
    op = op_of(lambda a: a * 1)
    config = register_autograd(AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: g))
    with pytest.raises(AttributeError):
        config.device = "cpu"  # type: ignore[misc]
    x = leaf(1)
    y = op(x)
    register_autograd(AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: g * 9), replace=True)
    y.backward()
    assert x.grad.tolist() == [1]  # what was chosen in forward
    op(x).backward()
    assert x.grad.tolist() == [10]


def test_without_an_entry_backward_names_what_is_registered() -> None:
    op = op_of(lambda a: a * 1)
    register_autograd(AutogradConfig(op=op.name, device="cuda", backward=lambda ctx, g: g))
    with pytest.raises(NotImplementedError, match=r"derivative for .* is not implemented for device cpu .*cuda"):
        op(leaf(1)).backward()


def test_a_backward_written_with_operations_has_derivatives_of_any_order() -> None:
    op = op_of(lambda a: a**3)
    register_autograd(AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g))
    x = leaf(2)
    (first,) = grad(op(x), x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    (third,) = grad(second, x)
    assert [first.tolist(), second.tolist(), third.tolist()] == [[12], [12], [6]]
