"""CX: the context object, what it keeps and checks: programs that show each id up to CX-17; the others are in
`cx_flags`.
"""

from __future__ import annotations

from typing import Any

from ..programs.registry import Log, constant, leaf, program, raises
from .making import function, once

FREED = "Specify retain_graph=True", "after they have already been freed"
CHANGED = "modified by an inplace operation"


def saver(T: Any, choose: Any, **members: Any) -> Any:
    """A Function x -> 2x that saves `choose(x, middle, y)` and reads it in backward."""

    def forward(ctx, x):
        middle = x + 1
        y = x * 2
        ctx.save_for_backward(*choose(x, middle, y))
        return y

    def backward(ctx, g):
        assert len(ctx.saved_tensors) >= 0
        return g * 2

    return function(T, forward, backward, name="Saver", **members)


def saved_input(x, middle, y):
    return (x,)


def saved_output(x, middle, y):
    return (y,)


@program("CX-01")
def ctx_is_a_node(T: Any, log: Log) -> Any:
    """A context that becomes a node after forward only, or another one at each read."""

    def forward(ctx, x):
        log("forward", [isinstance(ctx, T.autograd.graph.Node), ctx.name(), len(ctx.next_functions)])
        ctx.mark = "set in forward"
        return x * 2

    def backward(ctx, g):
        log("backward", [isinstance(ctx, T.autograd.graph.Node), ctx.name(), ctx.mark])
        return g * 2

    x = leaf(T, 3)
    y = function(T, forward, backward).apply(x)
    result = [y.grad_fn is y.grad_fn, y.grad_fn.mark, y.grad_fn.name(), len(y.grad_fn.next_functions)]
    y.sum().backward()
    return [*result, x.grad]


@program("CX-02", "DR-05")
def attributes_last_as_long_as_the_node(T: Any, log: Log) -> Any:
    """An attribute that is lost between passes, or with the buffers, or that backward cannot change."""

    def forward(ctx, x):
        ctx.count = 0
        ctx.save_for_backward(x)
        return x * 2

    def backward(ctx, g):
        ctx.count += 1
        log("count", [ctx.count, ctx.outside])
        return g * 2

    x = leaf(T, 3)
    y = function(T, forward, backward).apply(x)
    y.grad_fn.outside = "set from outside"
    y.sum().backward(retain_graph=True)
    y.sum().backward(retain_graph=True)
    seen = [y.grad_fn.count]
    y.sum().backward()
    return [seen, y.grad_fn.count, y.grad_fn.outside, x.grad]


@program("CX-03")
def tensors_as_plain_attributes(T: Any, log: Log) -> Any:
    """A plain attribute that is freed, or checked for changes in place."""

    def forward(ctx, x):
        ctx.x = x
        ctx.middle = x + 1
        return x * 2

    def backward(ctx, g):
        log("kept", [ctx.x, ctx.middle])
        return g * ctx.x

    x = leaf(T, 3)
    y = function(T, forward, backward).apply(x)
    y.sum().backward()
    (g,) = T.autograd.grad(y.sum(), x)  # a second pass
    z = function(T, lambda ctx, x: (setattr(ctx, "x", x), x * 2)[1], lambda ctx, g: g * ctx.x.shape[0])
    source = x * 1
    w = z.apply(source)
    source.mul_(3)
    w.sum().backward()
    return [g, x.grad, y.grad_fn.middle]


@program("CX-03")
def plain_attributes_and_saved_tensor_hooks(T: Any, log: Log) -> Any:
    """A plain attribute that is seen by saved-tensor hooks."""

    def forward(ctx, x):
        ctx.x = x
        return x * 2

    def backward(ctx, g):
        return g * ctx.x

    def pack(tensor):
        raise AssertionError

    x = leaf(T, 3)
    with T.autograd.graph.saved_tensors_hooks(pack, pack):
        y = function(T, forward, backward).apply(x)
    y.sum().backward()
    return [x.grad]


@program("CX-04")
def an_output_as_a_plain_attribute(T: Any, log: Log) -> Any:
    """An output kept as an attribute that is another value in backward, or a constant."""

    def forward(ctx, x):
        ctx.y = x.tanh()
        return ctx.y

    def backward(ctx, g):
        log("y", [ctx.y, ctx.y.requires_grad])
        return g * (1 - ctx.y * ctx.y)

    x = leaf(T, 3)
    y = function(T, forward, backward).apply(x)
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = T.autograd.grad(g.sum(), x)
    return [y, g, second]


@program("CX-05", "CX-06", "CX-31")
def order_and_number_of_saved_slots(T: Any, log: Log) -> Any:
    """Saved slots in another order, merged, or kept from an earlier call."""

    def twice(ctx, x, y):
        ctx.save_for_backward(y)
        ctx.save_for_backward(y, None, x, x, x * y)
        return x * y

    def nothing(ctx, x, y):
        ctx.save_for_backward()
        return x * y

    def nones(ctx, x, y):
        ctx.save_for_backward(None, None)
        return x * y

    def backward(ctx, g):
        log("saved", list(ctx.saved_tensors))
        return g, g

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    for forward in (twice, nothing, nones):
        function(T, forward, backward).apply(x, y).sum().backward()
    return [x.grad, y.grad]


@program("CX-07")
def saving_what_cannot_be_saved(T: Any, log: Log) -> Any:
    """A number or a list that is saved, or refused although nothing is recorded."""

    def forward(ctx, x, what):
        ctx.save_for_backward(x, what)
        return x * 2

    x = leaf(T, 3)
    cls = function(T, forward, once)
    for what in (3, [1.0], "text"):
        with raises(TypeError, "save_for_backward can only save variables", "1", type(what).__name__):
            cls.apply(x, what)
    return [cls.apply(x.detach(), 3)]


@program("CX-08")
def saved_tensors_while_forward_runs(T: Any, log: Log) -> Any:
    """Saved tensors that can be read before forward has ended."""

    def forward(ctx, x):
        before = len(ctx.saved_tensors)
        ctx.save_for_backward(x, None)
        log("during", [before, len(ctx.saved_tensors), len(ctx.to_save), ctx.to_save[1] is None])
        return x * 2

    def backward(ctx, g):
        log("after", [len(ctx.saved_tensors), ctx.to_save is None])
        return g

    x = leaf(T, 3)
    y = function(T, forward, backward).apply(x)
    done = y.grad_fn.to_save is None
    y.sum().backward()
    return [done, x.grad]


@program("CX-09")
def what_comes_back_from_the_saved(T: Any, log: Log) -> Any:
    """A saved tensor that lost its place in the graph, or an intermediate that has one."""

    def forward(ctx, x):
        middle = x + 1
        y = middle * 2
        ctx.save_for_backward(x, y, middle)
        return y

    def backward(ctx, g):
        x, y, middle = ctx.saved_tensors
        log("flags", [x.requires_grad, y.requires_grad, middle.requires_grad, middle.grad_fn is None])
        log("values", [x, y, middle])
        return g * 2

    x = leaf(T, 3)
    out = function(T, forward, backward, name="Outer").apply(x)
    saved_x, saved_y, middle = out.grad_fn.saved_tensors
    result = [
        saved_x is x,
        saved_y is out,
        saved_y is out.grad_fn.saved_tensors[1],
        saved_y.grad_fn is out.grad_fn,
        middle.grad_fn,
        middle.requires_grad,
    ]
    out.sum().backward()
    return [*result, x.grad]


@program("CX-10", "CX-30")
def freed_buffers(T: Any, log: Log) -> Any:
    """Saved values that are there after the pass that freed them."""
    x = leaf(T, 3)
    y = saver(T, saved_input).apply(x)
    before = y.grad_fn.saved_tensors[0]
    y.sum().backward()
    with raises(RuntimeError, *FREED):
        _ = y.grad_fn.saved_tensors
    with raises(RuntimeError, *FREED):
        y.sum().backward()
    z = saver(T, saved_output).apply(x)
    (g,) = T.autograd.grad(z.sum(), x)
    with raises(RuntimeError, *FREED):
        T.autograd.grad(z.sum(), x)
    return [before, x.grad, g]


@program("CX-10")
def a_changed_part_is_freed(T: Any, log: Log) -> Any:
    """Changes of a part in place, and of all of a tensor, in a graph that is passed twice."""
    x, y = leaf(T, 2, 3), leaf(T, 3, seed=1)

    def twice(change):
        board = x.clone()
        change(board)
        board.sum().backward()
        board.sum().backward()

    def put(index):
        return lambda board: board.__setitem__(index, y)

    for change in (
        put(0),
        put(None),
        put(slice(0, 1)),
        put(T.tensor([1])),
        lambda board: board[0].add_(1.0),
        lambda board: board.t().zero_(),
        lambda board: board.view(6).neg_(),
        lambda board: board.diagonal().add_(1.0),
    ):
        with raises(RuntimeError, *FREED):
            twice(change)
    for change in (put(Ellipsis), put(slice(None)), put((slice(0, 2), slice(None))), lambda board: board.add_(y)):
        twice(change)
    board = x.clone()
    board[0] = y
    board.sum().backward(retain_graph=True)
    board.sum().backward()
    return [x.grad, y.grad]


@program("CX-11")
def freed_is_found_by_reading(T: Any, log: Log) -> Any:
    """A second pass that fails though nothing is read, or does not though something is."""

    def forward(ctx, x, save):
        if save:
            ctx.save_for_backward(x)
        return x * 2

    def unread(ctx, g):
        return g * 2, None

    def read(ctx, g):
        return g * (2 + len(ctx.saved_tensors)), None

    x = leaf(T, 3)
    y = function(T, forward, unread).apply(x, True)
    y.sum().backward()
    y.sum().backward()
    result = [x.grad]
    for save in (False, True):
        z = function(T, forward, read).apply(x, save)
        z.sum().backward()
        with raises(RuntimeError, *FREED):
            z.sum().backward()
    nothing = function(
        T, lambda ctx, x: (ctx.save_for_backward(None), x * 2)[1], lambda ctx, g: (ctx.saved_tensors, g)[1]
    )
    w = nothing.apply(x)
    w.sum().backward()
    with raises(RuntimeError, *FREED):
        w.sum().backward()
    return result


@program("CX-12")
def three_passes_over_a_retained_graph(T: Any, log: Log) -> Any:
    """Saved values that change from pass to pass."""
    x = leaf(T, 3)

    def forward(ctx, x):
        ctx.save_for_backward(x, x + 1, x * 2)
        return x * x

    def backward(ctx, g):
        log("saved", list(ctx.saved_tensors))
        return g * 2 * ctx.saved_tensors[0]

    y = function(T, forward, backward).apply(x)
    for retain in (True, True, False):
        y.sum().backward(retain_graph=retain)
    return [x.grad]


@program("CX-13")
def saved_and_changed_in_place(T: Any, log: Log) -> Any:
    """A backward that uses a value which is not what was saved."""
    x = leaf(T, 2, 3)
    for choose, which in ((saved_input, 0), (saved_output, 1)):
        source = x * 1
        y = saver(T, choose).apply(source)
        (source, y)[which].mul_(3)  # no error here
        with raises(RuntimeError, CHANGED, "[2, 3]", "version 1", "expected version 0", "anomaly"):
            y.sum().backward()
    source = x * 1
    y = saver(T, saved_output).apply(source)
    source.mul_(3)  # was not saved
    y.sum().backward()
    unread = function(T, lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1], once)
    source = x * 1
    z = unread.apply(source)
    source.mul_(3)  # is never read
    z.sum().backward()
    return [x.grad]


@program("CX-13")
def what_was_changed_is_named(T: Any, log: Log) -> Any:
    """A message that does not say which output of which operation was changed."""
    x = leaf(T, 2)
    y = saver(T, saved_output).apply(x)
    y.add_(1)
    with raises(RuntimeError, CHANGED, "output 0 of Saver"):
        y.sum().backward()
    source = x * 1
    z = saver(T, saved_input).apply(source)
    source.add_(1)
    with raises(RuntimeError, CHANGED, "output 0 of"):
        z.sum().backward()
    free = constant(T, 2)
    product = function(
        T,
        lambda ctx, x, c: (ctx.save_for_backward(c), x * c)[1],
        lambda ctx, g: (g * ctx.saved_tensors[0], None),
    ).apply(x, free)
    free.add_(1)
    with raises(RuntimeError, CHANGED) as caught:
        product.sum().backward()
    return ["output 0" in str(caught[0])]


@program("CX-14")
def what_shares_a_version(T: Any, log: Log) -> Any:
    """A change through a view, a detached alias or the base that is not counted; one through `.data` that is."""
    x = leaf(T, 4)
    cls = saver(T, saved_input)

    def view(t):
        return t[:2]

    def other_view(t):
        return t[2:]

    for through in (view, lambda t: t.detach(), lambda t: t):
        source = x * 1
        y = cls.apply(source)
        with T.no_grad():
            through(source).mul_(2)
        with raises(RuntimeError, CHANGED):
            y.sum().backward()
    for through in (other_view, lambda t: t):
        source = x * 1
        y = cls.apply(source[:2])
        with T.no_grad():
            through(source).mul_(2)
        with raises(RuntimeError, CHANGED):
            y.sum().backward()
    source = x * 1
    y = cls.apply(source)
    source.data.mul_(2)
    y.sum().backward()
    return [x.grad]


@program("CX-14", "CX-09")
def data_that_were_exchanged(T: Any, log: Log) -> Any:
    """nodes that miss that the `.data` of what they saved was exchanged, or its memory not being the other's."""
    results = []
    cls = saver(T, saved_input)
    for use in (lambda t: t * t, lambda t: cls.apply(t), lambda t: t.exp()):
        x, other = leaf(T, 4), constant(T, 4) + 3
        source = x * 1
        alias = source.detach()
        y = use(source)
        source.data = other
        with T.no_grad():
            other.mul_(2)
        y.sum().backward()
        results += [source, alias, other, x.grad]
    source = leaf(T, 2) * 1
    versions = [source._version]
    source.data = constant(T, 2)
    return [*results, [*versions, source._version]]


@program("CX-15")
def versions_that_are_counted_by_hand(T: Any, log: Log) -> Any:
    """A write that was declared and is not found."""
    increment = T.autograd.graph.increment_version
    x = leaf(T, 3)
    cls = saver(T, saved_input)
    first, second = x * 1, x * 1
    y, z = cls.apply(first), cls.apply(second)
    versions = [first._version]
    increment(first)
    increment(first)
    versions.append(first._version)
    increment([second, first])
    with raises(RuntimeError, CHANGED):
        y.sum().backward()
    with raises(RuntimeError, CHANGED):
        z.sum().backward()
    with T.inference_mode():
        increment(constant(T, 3))
    return versions


@program("CX-16")
def a_saved_input_that_is_dirty(T: Any, log: Log) -> Any:
    """A saved dirty input that is refused as changed, or read as it was before."""

    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        log("saved", [y, y.requires_grad])
        return g * y

    x = leaf(T, 3)
    z = x * 1
    y = function(T, forward, backward).apply(z)
    y.sum().backward()
    return [y is z, y, x.grad]


@program("CX-17")
def a_saved_input_that_is_returned(T: Any, log: Log) -> Any:
    """A saved input that is returned as it is, in the style where saving cannot tell it from the output."""

    def combined(ctx, x):
        ctx.save_for_backward(x)
        return x

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        log("saved", x)
        return g * x

    def separate(x):
        return x

    def saves(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def saves_for_forward(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    def changes(x):
        return x.mul_(2)

    def marks(ctx, inputs, output):
        ctx.mark_dirty(*inputs)
        ctx.save_for_backward(*inputs)

    x = leaf(T, 3)
    function(T, combined, backward).apply(x).sum().backward()
    for setup in (saves, saves_for_forward):
        with raises(RuntimeError, "returned as-is"):
            function(T, separate, backward, setup_context=staticmethod(setup)).apply(x)
    y = function(T, changes, backward, setup_context=staticmethod(marks)).apply(x * 1)
    y.sum().backward()
    return [x.grad, y]
