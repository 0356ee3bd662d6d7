"""Forward mode through a user's Function (FW-06 to FW-13)."""

# pyright: reportOptionalMemberAccess=false, reportOptionalOperand=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg
import raygrad.autograd.forward_ad as fw
from raygrad.autograd.tensor.tangent_levels import open_tangent_level

Made = Callable[..., Any]


def made(forward: Made, jvp: Made | None = None, **others: Made) -> Any:
    """A Function class of these methods."""
    methods = {"forward": forward, **({} if jvp is None else {"jvp": jvp}), **others}
    return type("Made", (rg.autograd.Function,), {name: staticmethod(fn) for name, fn in methods.items()})


def dual(*values: float, tangent: float = 2.0, requires_grad: bool = False) -> Any:
    x = rg.tensor(list(values), requires_grad=requires_grad)
    return fw.make_dual(x, rg.full((len(values),), tangent))


def test_jvp_is_called_after_setup_context_with_one_argument_per_argument() -> None:  # FN-03, FW-06
    order: list[Any] = []

    def forward(x: Any, y: Any, n: Any, s: Any) -> Any:
        order.append("forward")
        return x * 1

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        order.append("setup_context")
        ctx.save_for_forward(inputs[0])

    def jvp(ctx: Any, *tangents: Any) -> Any:
        order.append([None if t is None else t.tolist() for t in tangents])
        order.append([fw.unpack_dual(s).tangent for s in ctx.saved_tensors])
        order.append((rg.is_grad_enabled(), ctx.needs_input_grad))
        return tangents[0]

    with fw.dual_level():
        out = made(forward, jvp, setup_context=setup_context).apply(
            dual(1.0), rg.ones(2), rg.ones(1, dtype=rg.int64), "s"
        )
        assert fw.unpack_dual(out).tangent.tolist() == [2.0]
    assert order == [
        "forward",
        "setup_context",
        [[2.0], [0.0, 0.0], None, None],
        [None],
        (True, (False, False, False, False)),
    ]


def test_without_materialisation_missing_tangents_are_none() -> None:  # CX-20, FW-06
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * y

    with fw.dual_level():
        made(forward, lambda ctx, a, b: (seen.append(b), a)[1]).apply(dual(1.0), rg.ones(1))
    assert seen == [None]


def test_a_missing_jvp_is_an_error_only_where_it_is_needed() -> None:  # FW-07
    only_backward = made(lambda ctx, x: x * 2, backward=lambda ctx, g: g * 2)
    only_jvp = made(lambda ctx, x: x * 2, lambda ctx, t: t * 2)
    with fw.dual_level():
        assert only_backward.apply(rg.ones(1)).tolist() == [2.0]
        with pytest.raises(NotImplementedError, match="must implement the jvp function"):
            only_backward.apply(dual(1.0))
        out = only_jvp.apply(dual(1.0, requires_grad=True))
        with pytest.raises(NotImplementedError, match="must implement either the backward"):
            out.sum().backward()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda t: (t, t, t), r"invalid number of forward gradients \(expected 2 but got 3\)"),
        (lambda t: t, r"invalid number of forward gradients \(expected 2 but got 1\)"),
        (lambda t: (t[:1] * 1, None), "has a different size"),
        (lambda t: ([t], None), "expected Variable or None"),
        (lambda t: (t, t), "return None at that position"),
    ],
)
def test_what_jvp_may_not_return(returned: Made, message: str) -> None:  # FW-08, FW-09
    def forward(ctx: Any, x: Any) -> Any:
        marked = x * 2
        ctx.mark_non_differentiable(marked)
        return x * 1, marked

    with fw.dual_level(), pytest.raises(RuntimeError, match=message):
        made(forward, lambda ctx, t: returned(t)).apply(dual(1.0, 2.0))


def test_none_means_no_tangent_and_arrays_are_taken() -> None:  # FW-08, FW-10
    with fw.dual_level():
        nothing = made(lambda ctx, x: x * 1, lambda ctx, t: None).apply(dual(1.0))
        assert fw.unpack_dual(nothing).tangent is None
        array = made(lambda ctx, x: x * 1, lambda ctx, t: np.array([7.0])).apply(dual(1.0))
        assert fw.unpack_dual(array).tangent.tolist() == [7.0]
        text = made(lambda ctx, x: (x * 1, "text"), lambda ctx, t: (t, t)).apply(dual(1.0))
        assert text[1] == "text"


@pytest.mark.parametrize(
    ("forward", "jvp", "message"),
    [
        (lambda x: x, lambda t: t, "jvp is not returning a view"),
        (lambda x: x, lambda t: t * 1, "jvp is not returning a view"),
        (lambda x: x[:1], lambda t: t[:1] * 1, "jvp is not returning a view"),
        (lambda x: x[:1], lambda t: rg.ones(2)[:1], "of the given"),
    ],
)
def test_a_view_needs_a_view(forward: Made, jvp: Made, message: str) -> None:  # FW-11
    with fw.dual_level(), pytest.raises(RuntimeError, match=message):
        made(lambda ctx, x: forward(x), lambda ctx, t: jvp(t)).apply(dual(1.0, 2.0))


def test_a_view_of_a_tangent_that_is_a_view() -> None:  # FW-11
    cls = made(lambda ctx, x: x[:1], lambda ctx, t: t[:1])
    wrong = made(lambda ctx, x: x[:1], lambda ctx, t: rg.ones(2)[:1])
    with fw.dual_level():
        part = dual(1.0, 2.0, 3.0)[:2]
        assert fw.unpack_dual(cls.apply(part)).tangent.tolist() == [2.0]
        with pytest.raises(RuntimeError, match="of the same base"):
            wrong.apply(part)


def test_saved_outputs_can_be_differentiated_in_jvp() -> None:  # FW-13, CX-22
    def forward(ctx: Any, x: Any) -> Any:
        out = x.exp()
        ctx.save_for_forward(out)
        ctx.save_for_backward(out)
        return out

    def jvp(ctx: Any, t: Any) -> Any:
        (out,) = ctx.saved_tensors
        return out * t

    def backward(ctx: Any, g: Any) -> Any:
        (out,) = ctx.saved_tensors
        return out * g

    cls = made(forward, jvp, backward=backward)
    x = rg.tensor([0.5, 1.5], requires_grad=True)
    with fw.dual_level():
        out = cls.apply(fw.make_dual(x, rg.tensor([1.0, 2.0])))
        assert out.grad_fn.saved_for_forward is None
        tangent = fw.unpack_dual(out).tangent
        (over_forward,) = rg.autograd.grad(tangent.sum(), x, retain_graph=True)
        (first,) = rg.autograd.grad(out.sum(), x)
        forward_over = fw.unpack_dual(first).tangent
    want = np.exp([0.5, 1.5]) * [1.0, 2.0]
    np.testing.assert_allclose(over_forward.numpy(), want)
    np.testing.assert_allclose(forward_over.numpy(), want)


def test_nested_levels_are_right() -> None:  # FT-05
    def forward(ctx: Any, x: Any) -> Any:
        out = x**3
        ctx.save_for_forward(x, out)
        return out

    def jvp(ctx: Any, t: Any) -> Any:
        x, out = ctx.saved_tensors
        return 3 * out / x * t

    cls = made(forward, jvp)
    x = rg.tensor([2.0])
    with open_tangent_level() as outer, open_tangent_level() as inner:
        outer.carry(x, rg.ones(1))
        inner.carry(x, rg.ones(1))
        out = cls.apply(x)
        assert outer.of(out).tolist() == [12.0]
        assert inner.of(out).tolist() == [12.0]
        assert outer.of(inner.of(out)).tolist() == [12.0]


def test_an_error_in_jvp_comes_out_as_it_is() -> None:  # FW-15
    def jvp(ctx: Any, t: Any) -> Any:
        raise KeyError("mine")

    with fw.dual_level():
        with pytest.raises(KeyError, match="mine"):
            made(lambda ctx, x: x * 1, jvp).apply(dual(1.0))
        assert fw.unpack_dual(dual(1.0)).tangent is not None


@pytest.mark.parametrize("pack", [lambda t: t, lambda t: t.numpy(force=True)], ids=["as it is", "as an array"])
def test_saved_tensor_hooks_leave_tangents_where_they_are(pack: Made) -> None:  # FW-13, GR
    def forward(ctx: Any, x: Any) -> Any:
        out = x.exp()
        ctx.save_for_backward(x, out)
        ctx.save_for_forward(out)
        return out

    def jvp(ctx: Any, t: Any) -> Any:
        return ctx.saved_tensors[0] * t

    def backward(ctx: Any, g: Any) -> Any:
        x, out = ctx.saved_tensors
        return out * g + x * 0

    def unpack(kept: Any) -> Any:
        return kept if isinstance(kept, rg.Tensor) else rg.tensor(kept)

    cls = made(forward, jvp, backward=backward)
    x = rg.tensor([0.5, 1.5], requires_grad=True)
    with fw.dual_level():
        with rg.autograd.graph.saved_tensors_hooks(pack, unpack):
            given = fw.make_dual(x, rg.ones(2))
            outs = [cls.apply(given), given**3]
        found = [fw.unpack_dual(rg.autograd.grad(out.sum(), x)[0]).tangent for out in outs]
    np.testing.assert_allclose(found[0].numpy(), np.exp([0.5, 1.5]), rtol=1e-6)
    np.testing.assert_allclose(found[1].numpy(), [3.0, 9.0], rtol=1e-6)


@pytest.mark.parametrize("pack", [lambda t: t, lambda t: t.clone(), lambda t: t.numpy().copy()])
def test_tangents_of_saved_inputs_are_there_again_after_unpacking(pack: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    def jvp(ctx: Any, t: Any) -> Any:
        return t

    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * g

    def unpack(kept: Any) -> Any:
        return kept if isinstance(kept, rg.Tensor) else rg.tensor(kept)

    x = rg.tensor([0.5, 1.5], requires_grad=True)
    with fw.dual_level():
        with rg.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = made(forward, jvp, backward=backward).apply(fw.make_dual(x, rg.tensor([3.0, 4.0])))
        tangent = fw.unpack_dual(rg.autograd.grad(y.sum(), x)[0]).tangent
    assert tangent is not None
    assert tangent.tolist() == [6.0, 8.0]
