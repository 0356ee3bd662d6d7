"""DR: sessions and workers: programs that show each id."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..programs.registry import Log, leaf, program


@program("DR-05", "CX-02")
def attributes_set_in_backward_stay(T: Any, log: Log) -> Any:
    """A counter on ctx that starts anew in each pass, or that nobody can read after it."""

    class Counts(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.passes = 0
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            ctx.passes += 1
            ctx.last = g * 2.0
            (x,) = ctx.saved_tensors
            return 2.0 * x * g

    x = leaf(T, 3)
    y = Counts.apply(x)
    seen = [y.grad_fn.passes]
    y.sum().backward(retain_graph=True)
    seen.append(y.grad_fn.passes)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return [seen, y.grad_fn.passes, y.grad_fn.last, x.grad]


@program("DR-05", "CX-02")
def attributes_changed_in_place_in_backward_stay(T: Any, log: Log) -> Any:
    """A list or array on ctx that backward fills, lost with the worker's copy."""

    class Fills(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.sums = []
            ctx.total = np.zeros(2)
            return x * 3.0

        @staticmethod
        def backward(ctx, g):
            ctx.sums.append(float(g.sum()))
            ctx.total += g.detach().numpy()
            return g * 3.0

    x = leaf(T, 2)
    y = Fills.apply(x)
    y.sum().backward(retain_graph=True)
    (y * 2.0).sum().backward(retain_graph=True)
    y.sum().backward()
    return [y.grad_fn.sums, y.grad_fn.total.tolist(), x.grad]


@program("DR-05", "CX-02")
def attributes_set_through_grad_fn(T: Any, log: Log) -> Any:
    """An attribute that the caller sets on the node, and backward does not find."""

    class Factor(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.factor = 2.0
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            ctx.seen = ctx.factor
            return g * ctx.factor + ctx.shift

    x = leaf(T, 3)
    y = Factor.apply(x)
    node = y.grad_fn
    node.shift = T.ones(3, dtype=T.float64)
    y.sum().backward(retain_graph=True)
    node.factor = 5.0
    before = node.factor
    y.sum().backward()
    return [before, node.seen, node.shift, x.grad]


@program("DR-05", "CX-30", "CX-09", "CX-10")
def what_was_saved_read_through_grad_fn(T: Any, log: Log) -> Any:
    """Saved values that the caller of apply cannot see, or sees after they were freed."""

    class Keeps(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            z = x * y
            ctx.save_for_backward(x, None, z, x + y)
            return z

        @staticmethod
        def backward(ctx, g):
            _, _, z, middle = ctx.saved_tensors
            return g * z, g * middle.detach()

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = Keeps.apply(x, y)
    a, nothing, b, c = z.grad_fn.saved_tensors
    same = [a is x, nothing is None, b is z, b.grad_fn is z.grad_fn, c.requires_grad, c.grad_fn is None]
    node = z.grad_fn
    facts = [
        node.name(),
        list(node.needs_input_grad),
        len(node.next_functions),
        node.next_functions[0][0].variable is x,
    ]
    z.sum().backward()
    message = ""
    try:
        node.saved_tensors  # noqa: B018
    except RuntimeError as error:
        message = str(error)
    return [same, a, b, c, facts, "Specify retain_graph=True" in message, x.grad]


@program("DR-05", "ND-05", "CX-02")
def what_a_stranger_is_told_of_an_attribute_that_is_not_there(T: Any, log: Log) -> Any:
    """A node that answers for any name at all."""

    class Plain(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.there = "yes"
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g

    y = Plain.apply(leaf(T, 2))
    found = [y.grad_fn.there, hasattr(y.grad_fn, "there"), hasattr(y.grad_fn, "missing")]
    y.sum().backward()
    return [*found, y.grad_fn.there]


@program("DR-05", "CX-02", "H7")
def attributes_under_create_graph(T: Any, log: Log) -> Any:
    """A second derivative that counts as another run of backward, or runs it without what the caller set."""

    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.runs = 0
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            ctx.runs += 1
            (x,) = ctx.saved_tensors
            return g * x * x * ctx.three

    x = leaf(T, 3)
    y = Cube.apply(x)
    y.grad_fn.three = 3.0
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x, retain_graph=True)
    return [g, h, y.grad_fn.runs]


@program("CX-18", "PP-03", torch=False)
def only_what_a_pass_needs(T: Any, log: Log) -> Any:
    """A backward that works for gradients that the pass throws away, on a worker too."""

    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            log("needs", list(ctx.needs_input_grad))
            return g * y if ctx.needs_input_grad[0] else None, g * x if ctx.needs_input_grad[1] else None

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = Product.apply(x, y)
    z.sum().backward(inputs=[x], retain_graph=True)
    (gy,) = T.autograd.grad(z.sum(), y, retain_graph=True)
    after = list(z.grad_fn.needs_input_grad)
    (gx,) = T.autograd.grad(z.sum(), x, create_graph=True)
    z.sum().backward()
    return [gy, gx, after, x.grad, y.grad]


@program("CX-18", torch=False)
def an_assigned_needs_input_grad_wins(T: Any, log: Log) -> Any:
    """The engine's narrowing that overwrites what the user said."""

    class Says(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.needs_input_grad = (False, True)
            return x * 2.0 + y

        @staticmethod
        def backward(ctx, g):
            log("needs", list(ctx.needs_input_grad))
            return g * 2.0, g

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = Says.apply(x, y)
    z.sum().backward(inputs=[x])
    return [x.grad, y.grad is None]


@program("FN-05", torch=False)
def keyword_only_arguments(T: Any, log: Log) -> Any:
    """Keyword-only arguments that a session drops, or remembers from the first call."""

    class Power(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, *, power, scale=1.0):
            ctx.power, ctx.scale = power, scale
            ctx.save_for_backward(x)
            return x**power * scale

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x ** (ctx.power - 1) * ctx.power * ctx.scale

    x = leaf(T, 3)
    results = []
    for power, more in ((2, {}), (3, {"scale": 0.5}), (2, {"scale": 2.0})):
        x.grad = None
        y = Power.apply(x, power=power, **more)
        y.sum().backward()
        results.append([y, x.grad])
    return results
