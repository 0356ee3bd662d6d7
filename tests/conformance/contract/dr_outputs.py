"""DR, continued: outputs that are an input, a view of one or one changed in place, on workers (DR-01, DR-03)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..programs.registry import Log, leaf, program, raises


def _in_place(T: Any) -> Any:
    """A Function `x -> 3 x`, in place."""

    class Triple(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(3.0)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3.0

    return Triple


@program("DR-01", "DR-03", "OU-16", "CX-01")
def a_dirty_input_is_what_apply_returns(T: Any, log: Log) -> Any:
    """A new object for a changed input, an old value in it, or a version that did not move."""
    Triple = _in_place(T)
    results = []
    for _ in range(3):
        x = leaf(T, 3)
        y = x * 1.0
        before, producer = y._version, y.grad_fn
        z = Triple.apply(y)
        below = z.grad_fn.next_functions[0][0] is producer
        (y * 2.0).sum().backward()
        results.append([z is y, y._version - before, below, y.detach(), x.grad])
    return results


@program("DR-03", "OU-17", "CX-16")
def a_dirty_input_that_did_not_require_grad(T: Any, log: Log) -> Any:
    """A changed constant that stays one, or whose saved value is the old one."""

    class AddInto(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            x.add_(y)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x, y)
            return x

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g, g * x * y

    y = leaf(T, 3)
    results = []
    for seed in (5, 6):
        y.grad = None
        x = T.tensor(np.random.default_rng(seed).standard_normal(3))
        z = AddInto.apply(x, y)
        (z * z).sum().backward()
        results.append([z is x, x.requires_grad, x.is_leaf, x, y.grad])
    return results


@program("DR-03", "OU-18", "OU-22", "OU-19")
def dirty_inputs_that_must_not_be(T: Any, log: Log) -> Any:
    """A leaf changed in place, a view beside other outputs, a dirty input that is not returned."""
    Triple = _in_place(T)

    class Forgets(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2.0

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2.0), x * 3.0

        @staticmethod
        def backward(ctx, g, h):
            return g

    x = leaf(T, 4)
    with raises(RuntimeError, "a leaf Variable that requires grad"):
        Triple.apply(x)
    with raises(RuntimeError, "a view of a leaf Variable"):
        Triple.apply(x[1:])
    with raises(RuntimeError, "marked as dirty", "were not returned"):
        Forgets.apply(x * 1.0)
    with raises(RuntimeError, "modifies inplace an input"):
        Two.apply((x * 1.0)[1:])


@program("DR-03", "OU-16", "CX-13")
def arguments_of_one_memory(T: Any, log: Log) -> Any:
    """A change that forward does not see by the other name, or a saved value from before it."""

    class AddInto(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            ctx.save_for_backward(y)
            x.add_(y.sum())
            return x, y * y

        @staticmethod
        def backward(ctx, g, h):
            (y,) = ctx.saved_tensors
            log("saved", y)
            return g, 2.0 * y * h + g.sum()

    w = leaf(T, 3)
    results = []
    for _ in range(3):
        for second in (lambda x: x[1:], lambda x: x.detach()[:2], lambda x: x.detach(), lambda x: x.data[::2]):
            w.grad = None
            x = T.zeros(3, dtype=T.float64) + w.detach()
            y = second(x)
            a, b = AddInto.apply(x, y)
            results += [a is x, x.detach(), y.detach(), b.detach()]
        x = w * 1.0
        y = x.detach()[1:]
        a, b = AddInto.apply(x, y)
        (a.sum() + b.sum() * 3.0).backward()
        results += [x.detach(), y, w.grad]
    return results


@program("DR-03", "DR-01")
def views_of_one_memory_that_have_gaps(T: Any, log: Log) -> Any:
    """Views that are made dense one by one, so that they are of one memory no more."""

    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            return x.mul_(2.0), y * 1.0

    results = []
    for _ in range(2):
        base = T.arange(12.0, dtype=T.float64).reshape(3, 4)
        first, second = base[:, 1:3], base[:, 2]
        x, y = Double.apply(first, second)
        results += [x is first, x, y, second, base]
    return results


@program("DR-03", "OU-21")
def a_dirty_view(T: Any, log: Log) -> Any:
    """A changed view whose base keeps its old value or history."""
    Triple = _in_place(T)
    x = leaf(T, 4)
    results = []
    for _ in range(2):
        x.grad = None
        base = x * 1.0
        view = base[1:3]
        out = Triple.apply(view)
        (base * T.arange(4.0, dtype=T.float64)).sum().backward()
        results.append([out is view, base.detach(), view.detach(), x.grad])
    return results


@program("DR-01", "OU-09", "OU-10")
def an_input_returned_unchanged(T: Any, log: Log) -> Any:
    """An input that loses its own history, or an alias that is the input itself."""

    class Same(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10.0

    class Both(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x, x, x * y

        @staticmethod
        def backward(ctx, a, b, c):
            return a + 2.0 * b, c

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    results = []
    for _ in range(2):
        x.grad = y.grad = None
        a = x * 2.0
        b = Same.apply(a)
        facts = [b is a, b._base is a, b.grad_fn is a.grad_fn, a.grad_fn is not None]
        (a + b).sum().backward()
        results.append([facts, b.detach(), x.grad])
    first, second, third = Both.apply(x, y)
    facts = [first is second, first.output_nr, second.output_nr, third.output_nr]
    x.grad = None
    (first + 5.0 * second + third).sum().backward()
    constant_alias = Both.apply(T.ones(3, dtype=T.float64), y)[0]
    with T.no_grad():
        plain = Same.apply(x)
    return [results, facts, x.grad, y.grad, constant_alias.requires_grad, plain is x, plain.requires_grad, plain]


@program("DR-01", "OU-11", "OU-12", "OU-13")
def views_of_inputs_that_a_function_returned(T: Any, log: Log) -> Any:
    """A view made by a Function that may be rewritten behind its backward."""

    class Tail(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[1:]

        @staticmethod
        def backward(ctx, g):
            return T.cat([T.zeros(1, dtype=T.float64), g * 2.0])

    class Halves(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:2], x[2:]

        @staticmethod
        def backward(ctx, a, b):
            return T.cat([a, b])

    x = leaf(T, 4)
    results = []
    for _ in range(2):
        x.grad = None
        base = x * 1.0
        view = Tail.apply(base)
        facts = [view._base is base, view.grad_fn.name()]
        view.sum().backward()
        with raises(RuntimeError, "is a view and is being modified", "created inside a custom Function"):
            view.mul_(2.0)
        results.append([facts, view.detach(), x.grad])
    base = x * 1.0
    view = Tail.apply(base)
    base.mul_(2.0)
    with raises(RuntimeError, "its base or another view of its base"):
        _ = view + 1.0
    one, _ = Halves.apply(x * 1.0)
    with raises(RuntimeError, "function that returns multiple views"):
        one.mul_(2.0)
    return results


@program("DR-01", "OU-09", "OU-12")
def an_alias_follows_its_input(T: Any, log: Log) -> Any:
    """The value of an input returned as it is, after the input was changed in place."""

    class Same(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    x = T.tensor(np.arange(3.0))
    alias = Same.apply(x)
    x.add_(1.0)
    alias.mul_(2.0)
    y = leaf(T, 3)
    base = y * 1.0
    other = Same.apply(base)
    base.mul_(2.0)
    with raises(RuntimeError, "its base or another view of its base"):
        _ = other * 1.0
    return [x, alias]


@program("DR-03", "OU-23", torch=False)
def a_write_without_mark_dirty(T: Any, log: Log) -> Any:
    """An argument that is changed silently, and whose history then is wrong."""

    class Writes(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, write):
            if write:
                x.add_(1.0)
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return g * 2.0, None

    x = leaf(T, 3)
    with raises(RuntimeError, "mark_dirty"):
        Writes.apply(x * 1.0, True)
    results = [Writes.apply(x, False)]
    with raises(RuntimeError, "mark_dirty"):
        Writes.apply(x * 1.0, True)
    return results


@program("DR-03", "OU-16", tags={"numpy"})
def a_dirty_input_written_by_numpy(T: Any, log: Log) -> Any:
    """A write by NumPy before the input is marked, to memory that a worker gives read-only."""

    class Clip(T.autograd.Function):
        @staticmethod
        def forward(x, limit):
            data = x.detach().numpy()
            np.clip(data, -limit, limit, out=data)
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, limit = inputs
            ctx.mark_dirty(x)
            ctx.save_for_backward(output)
            ctx.limit = limit

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            inside = np.abs(y.detach().numpy()) < ctx.limit
            return T.from_numpy(g.numpy() * inside), None

    x = leaf(T, 5)
    results = []
    for limit in (0.5, 0.1, 0.5):
        x.grad = None
        y = x * 1.0
        z = Clip.apply(y, limit)
        z.sum().backward()
        results.append([z is y, y.detach(), x.grad])
    return results


@program("OU-24", "OU-26")
def dirty_or_unchanged_and_without_derivative(T: Any, log: Log) -> Any:
    """A marked input whose history is lost although its output carries no gradient."""

    class Marks(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_non_differentiable(x)
            return x, x * y

        @staticmethod
        def backward(ctx, a, b):
            return b, b

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    results = []
    for _ in range(2):
        x.grad = y.grad = None
        inner = x * 2.0
        a, b = Marks.apply(inner, y)
        b.sum().backward(retain_graph=True)
        inner.sum().backward()
        results.append([a is inner, a.requires_grad, inner.requires_grad, a, x.grad, y.grad])
    return results


@program("CX-13", "CX-14", "DR-04")
def a_saved_output_changed_in_place(T: Any, log: Log) -> Any:
    """A saved output that is changed after apply, and used as it was."""

    class Root(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2.0
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    x = leaf(T, 3)
    for _ in range(2):
        y = Root.apply(x)
        y.detach().add_(1.0)
        with raises(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()
    return x.grad is None
