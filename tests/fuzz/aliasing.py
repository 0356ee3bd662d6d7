"""The custom Functions of random programs whose outputs share the memory of their inputs, built for one library.

Those that change an input in place, that return one as it is, and that return a view of one; what
makes new outputs is in `functions`. All log what their backward gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Log = Callable[[str, Any], None]

CHANGING = {"double_": 1, "exp_": 1, "overwrite_": 2, "change_": 2}
"""Those that change their first input in place, and how many tensors they take."""

VIEWING = {"sliced": 1, "turned": 1, "flat": 1}
"""Those that return a view."""

PASSING = {"passing": 1, "passing_second": 2, "passing_both": 2, "passing_beside": 1}
"""Those that return inputs as they are."""


def make_changing(T: Any, log: Log) -> dict[str, Callable[..., Any]]:
    """Return the Functions that change an input, by name."""

    class Double(T.autograd.Function):
        """Saves nothing."""

        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            log("double_", g)
            return 2 * g

    class Exp(T.autograd.Function):
        """Saves what it has made of its input, in the separate style."""

        @staticmethod
        def forward(x):
            return x.exp_()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(output)
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            log("exp_", g)
            (y,) = ctx.saved_tensors
            return y * g

    class Overwrite(T.autograd.Function):
        """Replaces the first input by the second: only that gets gradient."""

        @staticmethod
        def forward(ctx, x, y):
            x.copy_(y)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            log("overwrite_", g)
            return None, g * 1

    class Change(T.autograd.Function):
        """Has an output beside the one that is its input, and saves the other input."""

        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            ctx.mark_dirty(x)
            x.add_(y)
            return y * y, x

        @staticmethod
        def backward(ctx, g, h):
            log("change_", [g, h])
            (y,) = ctx.saved_tensors
            return h * 1, h + 2 * y * g

    return {"double_": Double.apply, "exp_": Exp.apply, "overwrite_": Overwrite.apply, "change_": Change.apply}


def make_viewing(T: Any, log: Log) -> dict[str, Callable[..., Any]]:
    """Return the Functions that return a view of their input, by name."""

    class Sliced(T.autograd.Function):
        """Returns all but the last along the first dimension; of a number its only element."""

        @staticmethod
        def forward(ctx, x):
            ctx.rest = (1, *x.shape[1:]) if len(x.shape) and x.shape[0] else None
            return x[:-1] if ctx.rest else x.view(x.shape)

        @staticmethod
        def backward(ctx, g):
            log("sliced", g)
            return T.cat([3 * g, T.zeros(ctx.rest, dtype=g.dtype)], 0) if ctx.rest else 3 * g

    class Turned(T.autograd.Function):
        """Exchanges the first dimension and the last, in the separate style, and saves its output."""

        @staticmethod
        def forward(x):
            return x.transpose(0, -1) if len(x.shape) else x.view(())

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            log("turned", g)
            (y,) = ctx.saved_tensors
            g = g * y
            return g.transpose(0, -1) if len(g.shape) else g

    class Flat(T.autograd.Function):
        """Returns its input as a vector: a view where it is dense, else a copy."""

        @staticmethod
        def forward(ctx, x):
            ctx.shape = tuple(x.shape)
            return x.reshape((-1,))

        @staticmethod
        def backward(ctx, g):
            log("flat", g)
            return (2 * g).reshape(ctx.shape)

    return {"sliced": Sliced.apply, "turned": Turned.apply, "flat": Flat.apply}


def make_passing(T: Any, log: Log) -> dict[str, Callable[..., Any]]:
    """Return the Functions that return inputs as they are, by name."""

    class Passing(T.autograd.Function):
        """Returns its input, and scales the gradient."""

        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            log("passing", g)
            return g * 3

    class PassingSecond(T.autograd.Function):
        """Returns one of two inputs, which need not require grad."""

        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            log("passing_second", g)
            (y,) = ctx.saved_tensors
            return g * y, g * 2

    class PassingBoth(T.autograd.Function):
        """Returns two inputs in the other order: two views."""

        @staticmethod
        def forward(ctx, x, y):
            return y, x

        @staticmethod
        def backward(ctx, g, h):
            log("passing_both", [g, h])
            return h * 2, g * 3

    class PassingBeside(T.autograd.Function):
        """Returns its input beside something new."""

        @staticmethod
        def forward(ctx, x):
            return x * 2, x

        @staticmethod
        def backward(ctx, g, h):
            log("passing_beside", [g, h])
            return g * 2 + h

    return {
        "passing": Passing.apply,
        "passing_second": PassingSecond.apply,
        "passing_both": PassingBoth.apply,
        "passing_beside": PassingBeside.apply,
    }
