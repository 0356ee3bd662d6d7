"""Functions that many programs use, as classes made for one `T`; each computes in NumPy unless it says otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np


def np_tanh(T: Any) -> Any:
    """tanh, from its saved output."""

    class Tanh(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = T.from_numpy(np.tanh(x.numpy()))
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return T.from_numpy(g.numpy() * (1 - y.numpy() ** 2))

    return Tanh


def np_square(T: Any) -> Any:
    """x², from its saved input, in the style with `setup_context`."""

    class Square(T.autograd.Function):
        @staticmethod
        def forward(x):
            return T.from_numpy(np.square(x.numpy()))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return T.from_numpy(2 * x.numpy() * g.numpy())

    return Square


def np_scale(T: Any) -> Any:
    """x times a Python number, kept as a plain attribute of ctx."""

    class Scale(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return T.from_numpy(x.numpy() * factor)

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * ctx.factor), None

    return Scale


def np_mul(T: Any) -> Any:
    """x · y of equal shapes, from both inputs, only as far as they are needed."""

    class Mul(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return T.from_numpy(x.numpy() * y.numpy())

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            need_x, need_y = ctx.needs_input_grad
            return (
                T.from_numpy(g.numpy() * y.numpy()) if need_x else None,
                T.from_numpy(g.numpy() * x.numpy()) if need_y else None,
            )

    return Mul


def np_linear(T: Any) -> Any:
    """x @ w, in BLAS."""

    class Linear(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return T.from_numpy(x.numpy() @ w.numpy())

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return T.from_numpy(g.numpy() @ w.numpy().T), T.from_numpy(x.numpy().T @ g.numpy())

    return Linear


def np_sin_cos(T: Any) -> Any:
    """(sin x, cos x), from both saved outputs."""

    class SinCos(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            sin, cos = T.from_numpy(np.sin(x.numpy())), T.from_numpy(np.cos(x.numpy()))
            ctx.save_for_backward(sin, cos)
            return sin, cos

        @staticmethod
        def backward(ctx, g_sin, g_cos):
            sin, cos = ctx.saved_tensors
            return T.from_numpy(g_sin.numpy() * cos.numpy() - g_cos.numpy() * sin.numpy())

    return SinCos


def square(T: Any) -> Any:
    """x² in tensor operations, from its saved input: differentiable again and again."""

    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * g * x

    return Square


def cube(T: Any) -> Any:
    """x³ in tensor operations, from its saved input: differentiable again and again."""

    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    return Cube


def tanh_of_output(T: Any) -> Any:
    """tanh in tensor operations, from its saved output: differentiable again."""

    class TanhOfOutput(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.tanh()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * (1 - y * y)

    return TanhOfOutput


def no_gradient(T: Any) -> Any:
    """2x, whose backward returns None for its tensor input."""

    class NoGradient(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.as_tensor(2 * x.numpy())

        @staticmethod
        def backward(ctx, g):
            return None

    return NoGradient
