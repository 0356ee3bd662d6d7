"""The custom Functions of random programs, built for one library.

Each shows a way of saving or returning; all log what their backward gets. Those whose outputs share
memory with their inputs are in `aliasing`. No backward reads `needs_input_grad`, which SEMANTICS lets differ in partial
passes (CX-18).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import raygrad

from .aliasing import CHANGING, PASSING, VIEWING, Log, make_changing, make_passing, make_viewing

ARITY = {
    "square": 1,
    "cube": 1,
    "exponential": 1,
    "scale": 1,
    "mix": 2,
    "mix_undefined": 2,
    "sign": 1,
    "nothing": 1,
    "half_nothing": 2,
    "intermediate": 1,
    **CHANGING,
    **VIEWING,
    **PASSING,
    "sum_to": 2,
    **dict.fromkeys(("noisy",) if "generator" in raygrad.__all__ else (), 1),
}
"""How many tensors each Function takes."""

SAVED = {
    "square": (0,),
    "cube": (0,),
    "mix": (0, 1),
    "mix_undefined": (0, 1),
    "exp_": (0,),
    "change_": (1,),
    "passing_second": (1,),
}
"""Which of them those save that save any; what is changed is saved as it became."""


def _drawn(T: Any) -> float:
    return float(T.generator().uniform(0.5, 1.0) + T.rand(1).item()) if T is raygrad else 1.5


def make_functions(T: Any, log: Log) -> dict[str, Callable[..., Any]]:
    """Return the Functions by name, each as a callable of its tensors."""

    class Square(T.autograd.Function):
        """Saves its input, in the separate style."""

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            log("square", g)
            (x,) = ctx.saved_tensors
            return 2 * x * g

    class Cube(T.autograd.Function):
        """Saves its input twice, in the combined style."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            log("cube", g)
            x, same = ctx.saved_tensors
            return 3 * x * same * g

    class Exponential(T.autograd.Function):
        """Saves its output."""

        @staticmethod
        def forward(ctx, x):
            y = T.exp(-x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            log("exponential", g)
            (y,) = ctx.saved_tensors
            return -y * g

    class Scale(T.autograd.Function):
        """Takes a number, saves no tensor."""

        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g):
            log("scale", g)
            return g * ctx.factor, None

    class Mix(T.autograd.Function):
        """Two inputs and two outputs; missing gradients arrive as zeros."""

        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b, a + 2 * b

        @staticmethod
        def backward(ctx, g, h):
            log("mix", [g, h])
            a, b = ctx.saved_tensors
            return g * b + h, g * a + 2 * h

    class MixUndefined(T.autograd.Function):
        """Two inputs and two outputs; missing gradients arrive as None."""

        @staticmethod
        def forward(ctx, a, b):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(a, b)
            return a * b, a - b

        @staticmethod
        def backward(ctx, g, h):
            log("mix_undefined", [g, h])
            a, b = ctx.saved_tensors
            da = db = None
            if g is not None:
                da, db = g * b, g * a
            if h is not None:
                da, db = h if da is None else da + h, -h if db is None else db - h
            return da, db

    class Sign(T.autograd.Function):
        """Its second output is not differentiable."""

        @staticmethod
        def forward(ctx, x):
            where = (x > 0).to(x.dtype)
            ctx.mark_non_differentiable(where)
            ctx.save_for_backward(where)
            return x * where, where

        @staticmethod
        def backward(ctx, g, unused):
            log("sign", [g, unused])
            (where,) = ctx.saved_tensors
            return g * where

    class Nothing(T.autograd.Function):
        """Its gradient is undefined."""

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            log("nothing", g)
            return None

    class HalfNothing(T.autograd.Function):
        """One of its two gradients is undefined."""

        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            log("half_nothing", g)
            return g, None

    class Intermediate(T.autograd.Function):
        """Saves a value made in forward."""

        @staticmethod
        def forward(ctx, x):
            middle = x * 2
            ctx.save_for_backward(middle)
            return middle * middle

        @staticmethod
        def backward(ctx, g):
            log("intermediate", g)
            (middle,) = ctx.saved_tensors
            return 4 * middle * g

    class SumTo(T.autograd.Function):
        """Its gradients have the shape of the output: they are summed to those of the inputs."""

        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            log("sum_to", g)
            return g, 2 * g

    class Noisy(T.autograd.Function):
        """Draws in forward and backward; under torch, whose numbers are others, it has fixed ones."""

        @staticmethod
        def forward(ctx, x):
            return x * _drawn(T)

        @staticmethod
        def backward(ctx, g):
            log("noisy", g)
            return g * _drawn(T)

    return {
        "noisy": Noisy.apply,
        "square": Square.apply,
        "cube": Cube.apply,
        "exponential": Exponential.apply,
        "scale": lambda x: Scale.apply(x, 2.5),
        "mix": Mix.apply,
        "mix_undefined": MixUndefined.apply,
        "sign": Sign.apply,
        "nothing": Nothing.apply,
        "half_nothing": HalfNothing.apply,
        "intermediate": Intermediate.apply,
        "sum_to": SumTo.apply,
        **make_changing(T, log),
        **make_viewing(T, log),
        **make_passing(T, log),
    }
