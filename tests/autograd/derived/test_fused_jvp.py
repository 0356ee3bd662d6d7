"""A Function together with its jvp as one Function: forward mode in a session."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
import raygrad.autograd.forward_ad as fw
from raygrad import func
from raygrad.autograd import forward_ad
from raygrad.autograd.derived.fused_jvp import fused_with_jvp


class Cube(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x * x

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return t * 3 * x * x


class Parts(rg.autograd.Function):
    """One output in a tuple; several; one without a tangent."""

    @staticmethod
    def forward(ctx: Any, x: Any, count: int) -> Any:
        marked = x * 0
        ctx.mark_non_differentiable(marked)
        return (x * 2,) if count == 1 else (x * 2, marked, "text", x * 3)

    @staticmethod
    def jvp(ctx: Any, t: Any, _: Any) -> Any:
        return (t * 2,) if ctx.non_differentiable is None or t.shape == (1,) else (t * 2, None, None, None)


@pytest.fixture(params=[False, True], ids=["by reference", "strict"])
def session(request: pytest.FixtureRequest) -> Generator[rg.Session]:
    with rg.Session("local", workers=2, strict=request.param) as opened:
        yield opened


def test_the_derived_class_is_made_once_and_has_the_functions_name() -> None:
    assert fused_with_jvp(Cube) is fused_with_jvp(Cube)
    assert fused_with_jvp(Cube).__name__ == "Cube"


def test_outputs_come_back_as_the_function_returned_them(session: rg.Session) -> None:
    with fw.dual_level():
        one = Parts.apply(fw.make_dual(rg.ones(1), rg.ones(1)), 1)
        assert isinstance(one, tuple)
        assert len(one) == 1
        assert fw.unpack_dual(one[0]).tangent.tolist() == [2.0]  # pyright: ignore[reportOptionalMemberAccess]
        doubled, marked, text, tripled = Parts.apply(fw.make_dual(rg.ones(2), rg.ones(2)), 4)
        assert fw.unpack_dual(doubled).tangent.tolist() == [2.0, 2.0]  # pyright: ignore[reportOptionalMemberAccess]
        assert [fw.unpack_dual(marked).tangent, text, fw.unpack_dual(tripled).tangent] == [None, "text", None]


def test_every_mixture_of_modes_to_third_order(session: rg.Session) -> None:
    x = rg.tensor([1.0, 2.0], dtype=rg.float64)
    t = rg.tensor([1.0, 10.0], dtype=rg.float64)

    def f(x: Any) -> Any:
        return Cube.apply(x).sum()

    def along(g: Any) -> Any:
        return lambda x: func.jvp(g, (x,), (t,))[1]

    second, third = 6 * np.array([1.0, 20.0]), 6 * np.array([1.0, 100.0])
    close = np.testing.assert_allclose
    close(func.grad(along(f))(x).numpy(), second)
    close(along(func.grad(f))(x).numpy(), second)
    close(along(along(func.grad(f)))(x).numpy(), third)
    close(along(func.grad(along(f)))(x).numpy(), third)
    close(func.grad(along(along(f)))(x).numpy(), third)
    close(func.grad(lambda x: (along(func.grad(f))(x) * t).sum())(x).numpy(), third)


def test_a_second_level_of_forward_mode_does_not_go_through_a_change_in_place() -> None:
    class Context:
        overwritten = True

    with pytest.raises(NotImplementedError, match="changes its input in place"):
        fused_with_jvp(Cube).jvp(Context(), None)


def test_an_output_without_derivative_requires_no_grad_in_a_session() -> None:
    class Two(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            one, other = x * 2, x * 3
            ctx.mark_non_differentiable(other)
            return one, other

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * 2, None

        @staticmethod
        def backward(ctx: Any, grad: Any, _: Any) -> Any:
            return grad * 2

    with rg.Session(), forward_ad.dual_level():
        x = forward_ad.make_dual(rg.ones(2, requires_grad=True), rg.ones(2))
        assert [out.requires_grad for out in Two.apply(x)] == [True, False]
