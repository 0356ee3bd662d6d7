"""Gradients of gradients: Functions whose backward is differentiated (H7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions import cube, np_sin_cos, tanh_of_output
from .registry import Log, leaf, program

AGAIN = {"create_graph"}


@program("H7", "BW-17", tags=AGAIN)
def gradient_then_backward_of_both(T: Any, log: Log) -> Any:
    """Freeing a node's buffers that takes them from its vjp node, too."""
    Cube = cube(T)
    x = leaf(T, 3)
    y = Cube.apply(x).sum()
    (g,) = T.autograd.grad(y, x, create_graph=True)
    y.backward()
    first = x.grad.clone()
    g.sum().backward()
    return [g, first, x.grad]


@program("H7", "BW-17", tags=AGAIN)
def second_derivative_through_a_saved_output(T: Any, log: Log) -> Any:
    """A saved output that comes back without its place in the graph."""
    Tanh = tanh_of_output(T)
    x = leaf(T, 3)
    (g,) = T.autograd.grad(Tanh.apply(x).sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x)
    return [g, h]


@program("H7", "CX-03", tags=AGAIN)
def second_derivative_through_a_plain_attribute(T: Any, log: Log) -> Any:
    """An input kept as `ctx.x` that comes back as a constant."""

    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.x**2 * g

    x = leaf(T, 3)
    (g,) = T.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    (h,) = T.autograd.grad((g * g).sum(), x)
    return [g, h]


@program("H7", tags=AGAIN)
def third_derivative(T: Any, log: Log) -> Any:
    """A vjp of a vjp that has no derivative of its own."""
    Cube = cube(T)
    x = leaf(T, 3)
    y = Cube.apply(x) * x
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = T.autograd.grad(h.sum(), x)
    return [g, h, k]


@program("H7", tags=AGAIN)
def linear_backward_requires_no_grad(T: Any, log: Log) -> Any:
    """A gradient that requires grad through an input on which it does not depend."""

    class Twice(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = leaf(T, 3)
    (g,) = T.autograd.grad(Twice.apply(x).sum(), x, create_graph=True)
    return [g, g.requires_grad]


@program("H7", "EN-33", tags=AGAIN, errors=RuntimeError)
def numpy_in_backward_under_create_graph(T: Any, log: Log) -> Any:
    """A backward in NumPy whose derivative would be silently wrong."""

    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return T.from_numpy(np.square(x.numpy()))

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * T.from_numpy(2 * x.numpy())

    x = leaf(T, 3)
    (g,) = T.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
    return [g]


@program("H7", "BW-17", tags=AGAIN)
def gradient_penalty(T: Any, log: Log) -> Any:
    """A loss of values and gradients: both paths into one parameter."""
    Tanh = tanh_of_output(T)
    x, w = leaf(T, 5, 3), leaf(T, 3, 2, seed=1)
    y = Tanh.apply(x @ w)
    (g,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
    loss = y.sum() + (g * g).sum()
    loss.backward()
    return [loss, w.grad, x.grad]


@program("H7", tags=AGAIN)
def hessian_vector_product(T: Any, log: Log) -> Any:
    """A vector that meets the gradient: cotangents and inputs mixed up."""
    Cube = cube(T)
    x, v = leaf(T, 4), leaf(T, 4, seed=1)
    y = (Cube.apply(x) * x.roll(1, 0)).sum()
    (g,) = T.autograd.grad(y, x, create_graph=True)
    hx, hv = T.autograd.grad((g * v).sum(), [x, v])
    return [g, hx, hv]


@program("H7", tags=AGAIN)
def mixed_partial_derivatives(T: Any, log: Log) -> Any:
    """Two inputs whose second derivatives land in the other's slot, or need only one of them."""

    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, factor):
            ctx.save_for_backward(x, y)
            ctx.factor = factor
            return x * x * y * factor

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return 2 * x * y * g * ctx.factor, x * x * g * ctx.factor, None

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    gx, gy = T.autograd.grad(Product.apply(x, y, 3.0).sum(), [x, y], create_graph=True)
    xx, xy = T.autograd.grad(gx.sum(), [x, y], retain_graph=True)
    (yx,) = T.autograd.grad(gy.sum(), [x])
    return [gx, gy, xx, xy, yx]


@program("H7", "OU-07", tags={"create_graph", "multi_output"})
def second_derivative_of_two_outputs(T: Any, log: Log) -> Any:
    """Saved outputs of a node with several, one of them unused."""

    class ExpPair(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            up, down = x.exp(), (-x).exp()
            ctx.save_for_backward(up, down)
            return up, down

        @staticmethod
        def backward(ctx, g, h):
            up, down = ctx.saved_tensors
            return g * up - h * down

    x = leaf(T, 3)
    up, down = ExpPair.apply(x)
    (g,) = T.autograd.grad((up * up + down).sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x, create_graph=True)
    (alone,) = T.autograd.grad(ExpPair.apply(x)[1].sum(), x, create_graph=True)
    (second,) = T.autograd.grad(alone.sum(), x)
    return [g, h, alone, second]


@program("H7", "HK-13", tags=AGAIN)
def hooks_take_part_in_the_derivative(T: Any, log: Log) -> Any:
    """Arithmetic of a hook that is left out of the derivative."""
    Cube = cube(T)
    x = leaf(T, 3)
    y = Cube.apply(x)
    y.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g * g)
    (g,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x)
    return [g, h]


@program("H7", tags=AGAIN)
def rerun_is_silent(T: Any, log: Log) -> Any:
    """What backward logs, seen again when it is run again to be differentiated."""

    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            log("backward", g)
            return g * 3 * x * x

    x = leaf(T, 3)
    (g,) = T.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x)
    return [g, h]


@program("H7", "FN-10", tags={"create_graph"})
def numpy_functions_that_are_each_others_derivative(T: Any, log: Log) -> Any:
    """NumPy pieces that are differentiable again because backward applies Functions."""

    class Sin(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return T.from_numpy(np.sin(x.numpy()))

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * Cos.apply(x)

    class Cos(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return T.from_numpy(np.cos(x.numpy()))

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return -g * Sin.apply(x)

    x = leaf(T, 3)
    (g,) = T.autograd.grad(Sin.apply(x).sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = T.autograd.grad(h.sum(), x)
    return [g, h, k]


@program("H7", "EN-37", tags=AGAIN)
def second_derivative_of_built_in_ops(T: Any, log: Log) -> Any:
    """A built-in op whose derivative has no derivative."""
    x, w = leaf(T, 4, 3, dtype="float32"), leaf(T, 3, 3, seed=1, dtype="float32")
    y = ((x @ w).tanh().exp() / (1 + x * x)).log_softmax(1)[:, 1:].mean(0).sum()
    gx, gw = T.autograd.grad(y, [x, w], create_graph=True)
    hx, hw = T.autograd.grad((gx * gx).sum() + gw.sin().sum(), [x, w])
    return [gx, gw, hx, hw]


@program("H7", "CX-09", tags=AGAIN)
def context_read_after_forward(T: Any, log: Log) -> Any:
    """A first and a second derivative that read a plain array and a saved tensor of one ctx."""

    class Scaled(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.weights = np.arange(1.0, 4.0)
            ctx.save_for_backward(x)
            return x * x * T.from_numpy(ctx.weights)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g * T.from_numpy(ctx.weights)

    x = leaf(T, 3)
    (g,) = T.autograd.grad(Scaled.apply(x).sum(), x, create_graph=True)
    (h,) = T.autograd.grad((g * x).sum(), x)
    return [g, h]


@program("H7", tags={"create_graph"})
def linear_backward_in_a_longer_chain(T: Any, log: Log) -> Any:
    """A derivative that is linear in one link only: the other links' terms lost."""
    SinCos, Cube = np_sin_cos(T), cube(T)

    class Twice(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = leaf(T, 3)
    y = Cube.apply(Twice.apply(Cube.apply(x)))
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x, create_graph=True)
    sin, _ = SinCos.apply(h.detach())
    return [g, h, sin]
