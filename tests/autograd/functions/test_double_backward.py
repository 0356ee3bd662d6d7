"""A backward that is differentiated again is one node over a tape of its own (H7, BW-18)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd import forward_ad
from raygrad.autograd.functions.double_backward import PackedBackward


class Cube(rg.autograd.Function):
    runs = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        Cube.runs += 1
        (x,) = ctx.saved_tensors
        return grad * x * x * 3.0


def point() -> Any:
    return rg.tensor(2.0, dtype=rg.float64, requires_grad=True)


def test_derivatives_to_third_order_come_from_one_run_of_the_backward() -> None:
    Cube.runs = 0
    x = point()
    (first,) = rg.autograd.grad(Cube.apply(x), x, create_graph=True)
    assert isinstance(first.grad_fn, PackedBackward)
    (second,) = rg.autograd.grad(first, x, create_graph=True)
    (third,) = rg.autograd.grad(second, x)
    assert (float(first), float(second), float(third)) == (12.0, 12.0, 6.0)
    assert Cube.runs == 1


def test_a_linear_backward_does_not_require_grad_through_its_input() -> None:
    class Doubles(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2.0

    (g,) = rg.autograd.grad(Doubles.apply(x := point()), x, create_graph=True)
    assert not g.requires_grad


def test_a_freed_node_says_so() -> None:
    x = point()
    (g,) = rg.autograd.grad(Cube.apply(x), x, create_graph=True)
    g.backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        g.backward()


def with_saved_value(as_attribute: bool) -> Any:
    class Masked(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            mask = x * 0.0 + 5.0
            if as_attribute:
                ctx.mask = mask
                ctx.save_for_backward(x)
            else:
                ctx.save_for_backward(x, mask)
            return x * x * mask

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            mask = ctx.mask if as_attribute else ctx.saved_tensors[1]
            return grad * ctx.saved_tensors[0] * mask * 2.0

    x = point()
    (g,) = rg.autograd.grad(Masked.apply(x), x, create_graph=True)
    return rg.autograd.grad(g, x)[0]


def test_bw_18_a_derivative_through_a_saved_intermediate_is_refused_not_silently_short() -> None:
    with pytest.raises(RuntimeError, match="value saved in slot 1"):
        with_saved_value(as_attribute=False)


def test_a_constant_kept_as_an_attribute_is_a_constant() -> None:
    assert float(with_saved_value(as_attribute=True)) == 10.0


def scaled_by(weight: Any) -> Any:
    """A Function whose backward reads a tensor that is none of its arguments."""

    class Scaled(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * weight

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * weight * weight / weight

    return Scaled


def test_derivatives_reach_a_leaf_that_backward_captures() -> None:
    x, w = point(), rg.tensor(3.0, dtype=rg.float64, requires_grad=True)
    (g,) = rg.autograd.grad(scaled_by(w).apply(x), x, create_graph=True)
    (second,) = rg.autograd.grad(g**3, w, create_graph=True)
    (third,) = rg.autograd.grad(second, w)
    assert (float(g), float(second), float(third)) == (3.0, 27.0, 18.0)


def test_derivatives_go_on_behind_what_backward_captures() -> None:
    x, w = point(), rg.tensor(3.0, dtype=rg.float64, requires_grad=True)
    inner = w * w
    seen: list[float] = []
    inner.register_hook(lambda grad: seen.append(float(grad)))
    (g,) = rg.autograd.grad(scaled_by(inner).apply(x), x, create_graph=True)
    (g * g).backward()
    assert w.grad is not None
    assert (float(w.grad), seen) == (108.0, [18.0])  # d w^4 / dw; the hook is called once, with all that arrives


def test_derivatives_reach_arguments_that_are_kept_in_a_list() -> None:
    class Product(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *factors: Any) -> Any:
            ctx.factors = list(factors)
            return factors[0] * factors[1]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            left, right = ctx.factors
            return grad * right, grad * left

    x, w = point(), rg.tensor(3.0, dtype=rg.float64, requires_grad=True)
    (g,) = rg.autograd.grad(Product.apply(x * x, w * w), x, create_graph=True)
    (g * g).backward()
    assert w.grad is not None
    assert x.grad is not None
    assert (float(x.grad), float(w.grad)) == (1296.0, 1728.0)  # of (2 x w^2)^2: 8 x w^4 and 16 x^2 w^3
    assert rg.autograd.gradgradcheck(Product.apply, (point(), w))


def test_a_captured_tensor_that_is_returned_as_it_is_has_its_gradient() -> None:
    w = rg.tensor(3.0, dtype=rg.float64, requires_grad=True)

    class Hands(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 3.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return w

    (g,) = rg.autograd.grad(Hands.apply(x := point()), x, create_graph=True)
    g.backward(rg.tensor(5.0, dtype=rg.float64))
    assert w.grad is not None
    assert float(w.grad) == 5.0


def test_the_tangent_of_what_a_function_saved_reaches_its_gradient() -> None:
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0] * 2.0

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * ctx.saved_tensors[0] * 2.0

    x = point()
    with forward_ad.dual_level():
        y = Square.apply(forward_ad.make_dual(x, rg.tensor(3.0, dtype=rg.float64)))
        incoming = rg.ones((), dtype=rg.float64)  # without a tangent
        (first,) = rg.autograd.grad(y, x, incoming, create_graph=True)
        tangent = forward_ad.unpack_dual(first).tangent
    assert tangent is not None
    assert (first.item(), tangent.item()) == (4.0, 6.0)
