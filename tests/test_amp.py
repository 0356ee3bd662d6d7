"""`raygrad.amp` (LG-14); what it does in all modes is shown by the programs in `conformance`."""

# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import raygrad as rg
from raygrad.amp import autocast, custom_bwd, custom_fwd


class Pair(NamedTuple):
    left: Any
    right: Any


def applied(forward: Any, *args: Any) -> Any:
    """What a Function with this forward gives."""
    return type("Applied", (rg.autograd.Function,), {"forward": staticmethod(forward)}).apply(*args)


def test_it_is_a_name_of_the_package():
    import raygrad.amp

    assert rg.amp is raygrad.amp
    assert rg.amp.autocast is rg.autocast
    assert all(hasattr(rg.amp, name) for name in rg.amp.__all__)


def test_containers_are_cast_through_and_other_things_left():
    half, wide, whole = rg.ones(1, dtype=rg.float16), rg.ones(1, dtype=rg.float64), rg.ones(1, dtype=rg.int64)
    array = np.ones(1, np.float16)
    seen: list[Any] = []

    @custom_fwd(device_type="cpu", cast_inputs=rg.float32)
    def forward(ctx, *args):
        seen.extend(args)
        return args[0] * 1

    with autocast("cpu"):
        applied(forward, half, wide, whole, [half, (half,)], {"a": half}, Pair(half, 1), "text", array, 2.0)
    assert [t.dtype for t in seen[:3]] == [rg.float32, rg.float64, rg.int64]
    assert seen[3][0].dtype == seen[3][1][0].dtype == seen[4]["a"].dtype == rg.float32
    assert type(seen[5]) is Pair
    assert seen[5].left.dtype == rg.float32
    assert seen[6] == "text"
    assert seen[7] is array
    assert seen[8] == 2.0


def test_an_iterator_is_cast_as_it_is_read():
    @custom_fwd(device_type="cpu", cast_inputs=rg.float32)
    def forward(ctx, tensors):
        assert isinstance(tensors, Iterator)
        return next(tensors) * 1

    with autocast("cpu"):
        assert applied(forward, iter([rg.ones(1, dtype=rg.float16)])).dtype == rg.float32


def test_keywords_are_cast_by_position():
    class Scaled(rg.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs="float32")
        def forward(ctx, x, factor=3.0, *, shift=0.0):
            assert x.dtype == rg.float32
            return x * factor + shift

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            return g * 3, None

    x = rg.ones(2, dtype=rg.float16, requires_grad=True)
    with autocast("cpu"):
        y = Scaled.apply(x=x, shift=1.0)
    y.sum().backward()
    assert y.tolist() == [4.0, 4.0]
    assert (x.grad.tolist(), x.grad.dtype) == ([3.0, 3.0], rg.float16)


def test_outside_of_regions_nothing_is_cast():
    @custom_fwd(device_type="cpu", cast_inputs=rg.float32)
    def forward(ctx, x):
        assert ctx._fwd_used_autocast is False
        return x * 1

    assert applied(forward, rg.ones(1, dtype=rg.float16)).dtype == rg.float16
    with autocast("cpu"), autocast("cpu", enabled=False):
        assert applied(forward, rg.ones(1, dtype=rg.float16)).dtype == rg.float16


def test_on_another_device_nothing_is_cast():
    @custom_fwd(device_type="cuda", cast_inputs=rg.float32)
    def forward(ctx, x):
        assert (ctx._dtype, ctx._fwd_used_autocast) == (rg.float16, False)
        return x @ x

    with autocast("cpu"):
        assert applied(forward, rg.ones(1, 1)).dtype == rg.float16


def test_a_backward_says_when_its_forward_is_not_decorated():
    class Half(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            return g

    y = Half.apply(rg.ones(1, requires_grad=True))
    with pytest.raises(AttributeError, match=r"_fwd_used_autocast.*decorate the forward"):
        y.backward()


@pytest.mark.parametrize("style", ["combined", "separate"])
def test_once_differentiable_goes_around_or_inside(style: str):
    once = rg.autograd.function.once_differentiable
    seen: list[Any] = []

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        seen.append((rg.is_autocast_enabled("cpu"), rg.is_grad_enabled()))
        return g.to(x.dtype) * 2 * x

    def forward(x):
        return x @ x

    def saving(ctx, x):
        ctx.save_for_backward(x)
        return forward(x)

    members: dict[str, Any] = {"forward": staticmethod(custom_fwd(saving, device_type="cpu"))}
    if style == "separate":
        members = {
            "forward": staticmethod(custom_fwd(forward, device_type="cpu")),
            "setup_context": staticmethod(lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])),
        }
    for decorated in (once(custom_bwd(backward, device_type="cpu")), custom_bwd(once(backward), device_type="cpu")):
        cls: Any = type("Once", (rg.autograd.Function,), {**members, "backward": staticmethod(decorated)})
        x = rg.ones(1, 1, requires_grad=True)
        with autocast("cpu"):
            y = cls.apply(x)
        (g,) = rg.autograd.grad(y, x, rg.ones(1, 1, dtype=y.dtype, requires_grad=True), create_graph=True)
        with pytest.raises(RuntimeError, match="differentiate twice"):
            g.backward()
    assert seen == [(True, False)] * 2


@pytest.mark.parametrize("generated", [False, True])
def test_vmap_and_jvp_of_a_decorated_function_run_in_the_region(generated: bool):
    class Squared(rg.autograd.Function):
        generate_vmap_rule = generated

        @staticmethod
        @custom_fwd(device_type="cpu")
        def forward(x):
            return x @ x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (g @ x.mT + x.mT @ g).to(x.dtype)

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return t @ x + x @ t

        if not generated:

            @staticmethod
            def vmap(info, in_dims, x):
                return Squared.apply(x.movedim(in_dims[0], 0)), 0

    x = rg.tensor(np.arange(8, dtype=np.float32).reshape(2, 2, 2), requires_grad=True)
    with autocast("cpu"):
        y = rg.func.vmap(Squared.apply)(x)
        if not generated:
            assert rg.func.jvp(Squared.apply, (x,), (rg.ones(2, 2, 2),))[1].dtype == rg.float16
    assert y.dtype == rg.float16
    y.float().sum().backward()
    expected = rg.tensor(x.detach().numpy(), requires_grad=True)
    (expected @ expected).sum().backward()
    assert x.grad.tolist() == expected.grad.tolist()
    assert x.grad.dtype == rg.float32


def test_nested_functions_are_decorated_alike():
    class Nested(rg.autograd.NestedIOFunction):
        @custom_fwd(device_type="cpu")
        def forward_extended(self, pair):
            self.save_for_backward(pair)
            return [pair[0] @ pair[1]]

        @custom_bwd(device_type="cpu")
        def backward_extended(self, g):
            ((left, right),) = self.saved_tensors
            assert rg.is_autocast_enabled("cpu")
            return [(g @ right.mT).float(), (left.mT @ g).float()]

    a, b = rg.ones(2, 2, requires_grad=True), rg.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        y = Nested.apply([a, b])[0]
    assert y.dtype == rg.float16
    y.sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize("decorate", [custom_fwd, custom_bwd])
def test_what_is_no_device_is_refused(decorate: Any):
    with pytest.raises(ValueError, match=r"device_type.*int"):
        decorate(device_type=1)
    with pytest.raises(RuntimeError, match="'foo'"):
        decorate(device_type="foo")
    with pytest.raises(TypeError, match=r"bfloat16.*raygrad.float16"):
        custom_fwd(device_type="cpu", cast_inputs="bfloat16")
