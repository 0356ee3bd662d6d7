"""What torch has not, or does otherwise: programs for raygrad alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from .registry import Log, leaf, program


@program("H3", tags={"numpy", "infer"}, torch=False)
def outputs_inferred(T: Any, log: Log) -> Any:
    """A static `infer`: results that differ from those of a Function resolved by running."""

    class Total(T.autograd.Function):
        @staticmethod
        def infer(x, factor):
            return (x.shape[1:], x.dtype)

        @staticmethod
        def forward(ctx, x, factor):
            ctx.rows, ctx.factor = x.shape[0], factor
            return T.from_numpy(x.numpy().sum(0) * factor)

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(np.repeat(g.numpy()[None] * ctx.factor, ctx.rows, 0)), None

    x = leaf(T, 4, 3)
    y = Total.apply(x, 2.0)
    shape = list(y.shape)
    (y * y).sum().backward()
    return [shape, y, x.grad]


@program("BW-18", "H7", tags={"create_graph"}, torch=False, errors=RuntimeError)
def saved_intermediate_under_create_graph(T: Any, log: Log) -> Any:
    """A second derivative that silently lacks the terms through a saved intermediate."""

    class Gaussian(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            square = x * x
            ctx.save_for_backward(x, square)
            return (-square).exp()

        @staticmethod
        def backward(ctx, g):
            x, square = ctx.saved_tensors
            return -2 * x * (-square).exp() * g

    x = leaf(T, 3)
    (g,) = T.autograd.grad(Gaussian.apply(x).sum(), x, create_graph=True)
    return T.autograd.grad(g.sum(), x)


@program("H1", "BW-14", tags={"numpy"}, torch=False, errors=ValueError)
def writing_into_an_argument(T: Any, log: Log) -> Any:
    """Arrays given to user code that can be written to."""

    class Careless(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            array = g.numpy()
            array *= 2
            return T.from_numpy(array)

    x = leaf(T, 3)
    Careless.apply(x).sum().backward()
    return [x.grad]
