"""OU: inputs that a Function changes in place, OU-16 to OU-24: programs that show each id."""

from __future__ import annotations

import warnings
from typing import Any

from ..programs.registry import Log, constant, leaf, program, raises, warns
from .making import function, is_function


def doubles_in_place(ctx: Any, x: Any) -> Any:
    """A forward that doubles its argument in place."""
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


def doubling(T: Any) -> Any:
    """A Function that doubles its argument in place."""
    return function(T, doubles_in_place, lambda ctx, g: g * 2, name="Double")


@program("OU-16")
def a_dirty_input_is_the_output(T: Any, log: Log) -> Any:
    """A dirty input that is not the output, keeps its old place in the graph, or whose version does not move."""
    x = leaf(T, 3)
    y = x * 3
    producer, before = y.grad_fn, y._version
    z = doubling(T).apply(y)
    place = [z is y, is_function(y, "Double"), z.grad_fn.next_functions[0][0] is producer, z._version - before]

    def untouched(ctx, x):
        ctx.mark_dirty(x)
        return x

    w = x * 1
    before = w._version
    function(T, untouched, lambda ctx, g: g).apply(w)
    moved = w._version - before
    (z * z).sum().backward()
    return [*place, moved, z, x.grad]


@program("OU-16", "CX-13")
def a_dirty_input_that_others_saved(T: Any, log: Log) -> Any:
    """A value saved before it was changed by a Function that is used after it."""
    x = leaf(T, 3)
    y = x * 3
    squared = y * y
    doubling(T).apply(y)
    with raises(RuntimeError, "modified by an inplace operation"):
        squared.sum().backward()
    return []


@program("OU-17")
def a_dirty_input_that_begins_to_require_grad(T: Any, log: Log) -> Any:
    """A dirty input without a gradient of its own that stays a leaf."""

    def forward(ctx, x, y):
        x.add_(y)
        ctx.mark_dirty(x)
        return x

    def backward(ctx, g):
        return None, g * 2

    x, y = constant(T, 3), leaf(T, 3)
    z = function(T, forward, backward).apply(x, y)
    flags = [z is x, x.requires_grad, x.is_leaf]
    (z * z).sum().backward()
    return [*flags, y.grad, x]


@program("OU-18")
def dirty_leaves(T: Any, log: Log) -> Any:
    """A leaf that requires grad, or a view of one, that is changed in place."""
    with raises(RuntimeError, "a leaf Variable that requires grad"):
        doubling(T).apply(leaf(T, 3))
    with raises(RuntimeError, "a view of a leaf Variable"):
        doubling(T).apply(leaf(T, 3)[:2])
    x = constant(T, 3)
    doubling(T).apply(x)
    with T.no_grad():
        y = leaf(T, 3)
        doubling(T).apply(y)
    return [x, y, y.is_leaf]


@program("OU-19")
def dirty_and_not_returned(T: Any, log: Log) -> Any:
    """A dirty input that is not returned, recorded or not."""

    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x + 1

    for x in (leaf(T, 3) * 1, constant(T, 3)):
        with raises(RuntimeError, "marked as dirty", "were not returned"):
            function(T, forward, lambda ctx, g: g).apply(x)
    return []


@program("OU-20")
def dirty_and_no_input(T: Any, log: Log) -> Any:
    """Something else than an input that is marked and stops the run, or a list that is taken for a tensor."""

    def other(ctx, x):
        y = x * 2
        ctx.mark_dirty(y)
        return y

    def listed(ctx, x):
        ctx.mark_dirty([x])
        return x

    x = leaf(T, 3)
    with raises(RuntimeError, "mark_dirty can only accept"):
        function(T, listed, lambda ctx, g: g).apply(x * 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = function(T, other, lambda ctx, g: g * 2).apply(x)
        shape = list(y.shape)
    y.sum().backward()
    return [shape, y, x.grad]


@program("OU-20")
def a_warning_of_what_is_dirty_and_no_input(T: Any, log: Log) -> Any:
    """Something else than an input that is marked without a warning."""

    def other(ctx, x):
        y = x * 2
        ctx.mark_dirty(y)
        return y

    with warns(UserWarning, "input"):
        y = function(T, other, lambda ctx, g: g * 2).apply(leaf(T, 3))
    return y


@program("OU-21")
def a_dirty_view_in_its_base(T: Any, log: Log) -> Any:
    """A base whose touched region bypasses the Function, or whose other region goes through it."""
    x = leaf(T, 4)
    base = x * 1
    other = base[1:3]
    view = base[:2]
    z = function(T, doubles_in_place, lambda ctx, g: g * 10).apply(view)
    result = [z is view, view._base is base, base.requires_grad]
    (base * constant(T, 4)).sum().backward(retain_graph=True)
    gradient = x.grad * 1
    (other * other).sum().backward()
    return [*result, base, other, gradient, x.grad]


@program("OU-22")
def a_dirty_view_beside_other_outputs(T: Any, log: Log) -> Any:
    """A view changed in place by a Function of several outputs."""

    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x, x + 1

    x = leaf(T, 4)
    cls = function(T, forward, lambda ctx, g, h: g * 2 + h * 2)
    with raises(RuntimeError, "modifies inplace an input"):
        cls.apply((x * 1)[:2])
    y, z = cls.apply((x * 1)[:2].clone())
    (y * z).sum().backward()
    return [y, z, x.grad]


@program("OU-23", torch=False)
def changed_and_not_marked(T: Any, log: Log) -> Any:
    """An input that forward changed without saying so."""

    def forward(ctx, x, y):
        y.mul_(2)
        return x * y

    def careful(ctx, x, y):
        y = y.clone()
        y.mul_(2)
        return x * y

    x = leaf(T, 3)
    for y in (leaf(T, 3) * 1, constant(T, 3)):
        with raises(RuntimeError, "in place", "mark_dirty"):
            function(T, forward, lambda ctx, g: (g, g)).apply(x, y)
    return [function(T, careful, lambda ctx, g: (g, g)).apply(x, constant(T, 3))]


@program("OU-24")
def dirty_and_without_derivative(T: Any, log: Log) -> Any:
    """An input that is dirty and not differentiable and that takes a new place in the graph."""

    def forward(ctx, x, y):
        x.mul_(2)
        ctx.mark_dirty(x)
        ctx.mark_non_differentiable(x)
        return x, y * 3

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    source = x * 1
    z, w = function(T, forward, lambda ctx, g, h: (g, h * 3)).apply(source, y)
    flags = [z is source, z.requires_grad, source.requires_grad]
    (source.sum() + w.sum()).backward()
    return [*flags, z, x.grad, y.grad]
