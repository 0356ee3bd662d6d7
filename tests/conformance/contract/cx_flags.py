"""CX: flags and rarer members of the context: programs that show each id from CX-18; the others are in `cx`."""

from __future__ import annotations

from typing import Any

from ..programs.registry import Log, constant, leaf, program, raises, settle
from .making import function, once

FREED = "Specify retain_graph=True", "after they have already been freed"

HOOKS = "a Function applied in a session has its slots where forward runs, on a worker: no handles for the client"


def product(T: Any, backward: Any, **members: Any) -> Any:
    """A Function (x, y) -> x * y that saves both."""

    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    return function(T, forward, backward, name="Product", **members)


@program("CX-18")
def needs_input_grad_everywhere(T: Any, log: Log) -> Any:
    """A flag that says something else in another method, or of what is no tensor."""

    def forward(x, n, y):
        return x * n + y

    def setup(ctx, inputs, output):
        log("setup", list(ctx.needs_input_grad))

    def backward(ctx, g):
        log("backward", [type(ctx.needs_input_grad) is tuple, *ctx.needs_input_grad])
        return g, None, g

    def combined(ctx, x, n, y):
        log("forward", list(ctx.needs_input_grad))
        return forward(x, n, y)

    x = leaf(T, 3)
    for cls in (
        function(T, combined, backward),
        function(T, forward, backward, setup_context=staticmethod(setup)),
    ):
        cls.apply(x, 2.0, constant(T, 3)).sum().backward()
    return [x.grad]


@program("CX-18")
def needs_input_grad_that_is_assigned(T: Any, log: Log) -> Any:
    """An assigned value that backward does not see."""

    def forward(ctx, x, y):
        ctx.needs_input_grad = (False, True)
        return x * y

    def backward(ctx, g):
        log("needs", list(ctx.needs_input_grad))
        return g, g

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    function(T, forward, backward).apply(x, y).sum().backward()
    return [x.grad, y.grad]


@program("CX-18", torch=False)
def needs_input_grad_of_a_partial_pass(T: Any, log: Log) -> Any:
    """Flags of gradients that nobody asked for, or that stay narrowed after the pass; a hook that sees them."""

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        log("needs", list(ctx.needs_input_grad))
        return g * y, g * x

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = product(T, backward).apply(x, y)
    (g,) = T.autograd.grad(z.sum(), x, retain_graph=True)
    z.sum().backward(retain_graph=True, inputs=[y])
    flags = [list(z.grad_fn.needs_input_grad), x.grad is None]
    z.sum().backward()
    return [g, *flags, x.grad, y.grad]


@program("CX-20", "OU-07")
def undefined_gradients_as_zeros_or_none(T: Any, log: Log) -> Any:
    """Zeros of another shape or dtype, or None where zeros were asked for."""

    def forward(ctx, x, flag):
        if flag is not None:
            ctx.set_materialize_grads(flag)
        return x * 2, x.sum(), x.to(T.float32)

    def backward(ctx, g, h, k):
        log("given", [g, h, k, *(None if t is None else str(t.dtype).rpartition(".")[2] for t in (g, h, k))])
        return g, None

    x = leaf(T, 2, 3)
    cls = function(T, forward, backward)
    for flag in (None, True, False):
        cls.apply(x, flag)[0].sum().backward()
    for wrong in (1, None, "no"):
        bad = function(T, lambda ctx, x, w: (ctx.set_materialize_grads(w), x)[1], once)
        with raises(TypeError):
            bad.apply(x, wrong)
    return [x.grad]


@program("CX-20", torch=False)
def materialize_grads_can_be_read(T: Any, log: Log) -> Any:
    """A flag that can be set and not read."""

    def forward(ctx, x, flag):
        before = ctx.materialize_grads
        ctx.set_materialize_grads(flag)
        log("forward", [before, ctx.materialize_grads])
        return x * 2

    def backward(ctx, g):
        log("backward", ctx.materialize_grads)
        return g, None

    x = leaf(T, 3)
    for flag in (False, True):
        function(T, forward, backward).apply(x, flag).sum().backward()
    return [x.grad]


@program("CX-21")
def only_marked_outputs_are_not_materialised(T: Any, log: Log) -> Any:
    """Zeros for what has no gradient, or None for what merely got none."""

    def forward(ctx, x):
        ctx._materialize_non_diff_grads = False
        marked = x + 1
        ctx.mark_non_differentiable(marked)
        return x * 2, x * 3, marked

    def backward(ctx, g, h, k):
        log("given", [g, h, k])
        return g * 2 + h * 3

    x = leaf(T, 3)
    function(T, forward, backward).apply(x)[0].sum().backward()
    return [x.grad]


@program("CX-22")
def the_store_for_forward(T: Any, log: Log) -> Any:
    """What was saved for jvp seen in backward, or the other way round, or kept after apply."""

    def forward(x, y):
        return x * y

    def setup(ctx, inputs, output):
        x, y = inputs
        ctx.save_for_forward(y, None, x)
        ctx.save_for_backward(output)
        assert len(ctx.saved_for_forward) == 3

    def jvp(ctx, tx, ty):
        y, nothing, x = ctx.saved_tensors
        assert nothing is None
        assert not fw.unpack_dual(x).tangent
        return tx * y + ty * x

    def backward(ctx, g):
        log("backward", [len(ctx.saved_tensors), ctx.saved_tensors[0], ctx.saved_for_forward is None])
        return g, g

    cls = function(T, forward, backward, setup_context=staticmethod(setup), jvp=staticmethod(jvp))
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    fw = T.autograd.forward_ad
    with fw.dual_level():
        dual = cls.apply(fw.make_dual(x, constant(T, 3)), fw.make_dual(y, constant(T, 3, seed=5)))
        tangent = fw.unpack_dual(dual).tangent * 1
        dual.sum().backward()
    return [tangent.detach(), x.grad, y.grad]


@program("CX-22")
def saving_for_forward_what_cannot_be_saved(T: Any, log: Log) -> Any:
    """A number that is saved for jvp."""

    def forward(ctx, x, what):
        ctx.save_for_forward(x, what)
        return x * 2

    for what in (3, [1.0]):
        with raises(AssertionError):
            function(T, forward, once).apply(leaf(T, 3), what)
    return []


@program("CX-23")
def mark_shared_storage_is_deprecated(T: Any, log: Log) -> Any:
    """A member that does something, or that does nothing silently."""
    import warnings

    def forward(ctx, x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            ctx.mark_shared_storage((x, x))
        log("warned", [issubclass(w.category, FutureWarning) for w in seen])
        return x * 2

    x = leaf(T, 3)
    y = function(T, forward, once).apply(x)
    y.sum().backward()
    return [y, x.grad]


@program("CX-24")
def saved_tensors_cleared_early(T: Any, log: Log) -> Any:
    """Saved tensors that are there after they were cleared, or gone although the graph is retained."""

    def backward(ctx, g):
        before = len(ctx.saved_tensors)
        nothing = ctx.maybe_clear_saved_tensors() is None
        try:
            after = len(ctx.saved_tensors)
        except RuntimeError as error:
            after = ["freed" in str(error), "retain_graph=True" in str(error)]
        log("saved", [before, nothing, after])
        return g, g

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = product(T, backward).apply(x, y)
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    return [x.grad, y.grad]


@program("CX-25")
def saved_tensors_read_once(T: Any, log: Log) -> Any:
    """Saved tensors that were given away and can be read again."""

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    def greedy(ctx, g):
        first = len(ctx.saved_tensors)
        try:
            again = len(ctx.saved_tensors)
        except RuntimeError as error:
            again = ["only be accessed once" in str(error), "clear_saved_tensors_on_access" in str(error)]
        log("read", [first, again])
        return g, g

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    product(T, backward, clear_saved_tensors_on_access=True).apply(x, y).sum().backward()
    product(T, greedy, clear_saved_tensors_on_access=True).apply(x, y).sum().backward()
    result = [x.grad * 1, y.grad * 1]
    settle()
    z = product(T, backward, clear_saved_tensors_on_access=True).apply(x, y)
    (first,) = T.autograd.grad(z.sum(), x, retain_graph=True)
    result.append(first * 1)
    settle()
    with raises(RuntimeError, "only be accessed once"):
        T.autograd.grad(z.sum(), x)
    return result


@program("CX-25")
def saved_tensors_read_once_from_outside(T: Any, log: Log) -> Any:
    """A read from outside that does not take what was saved."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = product(T, once, clear_saved_tensors_on_access=True).apply(x, y)
    first = z.grad_fn.saved_tensors
    with raises(RuntimeError, "only be accessed once"):
        _ = z.grad_fn.saved_tensors
    return [first[0] is x, first[1] is y]


@program("CX-27")
def raw_fields_that_are_assigned(T: Any, log: Log) -> Any:
    """An assigned field without the effect of its method."""

    def forward(ctx, x, y):
        marked = x + 1
        y.mul_(2)
        ctx.to_save = (x, None, marked)
        ctx.dirty_tensors = (y,)
        ctx.non_differentiable = (marked,)
        try:
            ctx.saved_tensors = ()
        except AttributeError:
            log("assigned", False)
        return x * 2, y, marked

    def backward(ctx, g, h, k):
        x, nothing, marked = ctx.saved_tensors
        log("saved", [x, nothing, marked])
        return g * 2, h * 2

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    changed = y * 1
    first, second, third = function(T, forward, backward).apply(x, changed)
    flags = [second is changed, first.requires_grad, second.requires_grad, third.requires_grad]
    (first * second * third).sum().backward()

    def wrong(ctx, x):
        ctx.to_save = [x]
        return x * 2

    with raises(RuntimeError):
        function(T, wrong, once).apply(x)
    return [*flags, x.grad, y.grad]


@program("CX-28")
def fields_in_forward(T: Any, log: Log) -> Any:
    """A field that does not start empty."""

    def forward(ctx, x):
        fields = (ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable, ctx.saved_for_forward)
        log("empty", [field is None for field in fields])
        log("metadata", [type(ctx.metadata) is dict, len(ctx.metadata), ctx.requires_grad])
        return x * 2

    x = leaf(T, 3)
    function(T, forward, once).apply(x).sum().backward()
    return [x.grad]


@program("CX-28", torch=False)
def requires_grad_of_a_context(T: Any, log: Log) -> Any:
    """A context that says it is recorded when it is not."""

    def forward(ctx, x):
        log("recorded", ctx.requires_grad)
        return x * 2

    cls = function(T, forward, once)
    y = cls.apply(leaf(T, 3))
    z = cls.apply(constant(T, 3))
    with T.no_grad():
        return [y, z, cls.apply(leaf(T, 3))]


@program("CX-29", eager_only=HOOKS)
def raw_handles_on_saved_slots(T: Any, log: Log) -> Any:
    """Handles that take hooks twice, where nothing is saved, or after that was freed."""

    def forward(ctx, x, y):
        ctx.save_for_backward(x, None, y)
        return x * y

    def backward(ctx, g):
        x, _, y = ctx.saved_tensors
        return g * y, g * x

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = function(T, forward, backward).apply(x, y)
    handles = z.grad_fn._raw_saved_tensors
    result = [type(handles) is tuple, len(handles)]
    handles[0].register_hooks(lambda t: t.detach() * 1, lambda packed: packed * 2)
    with raises(RuntimeError, "None is forbidden"):
        handles[1].register_hooks(lambda t: t, lambda t: t)
    with raises(RuntimeError, "already been set"):
        handles[0].register_hooks(lambda t: t, lambda t: t)
    for wrong in ((), (lambda t: t,), (1, 2)):
        with raises(TypeError):
            handles[2].register_hooks(*wrong)
    with raises(RuntimeError, "forbidden"):
        type(handles[0])()
    z.sum().backward()
    with raises(RuntimeError, *FREED):
        _ = z.grad_fn._raw_saved_tensors
    return [*result, x.grad, y.grad]


@program("CX-30")
def a_context_that_outlives_its_graph(T: Any, log: Log) -> Any:
    """A context that user code kept, which loses what it saved with the graph."""

    def backward(ctx, g):
        return g, g

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = product(T, backward).apply(x, y)
    kept = z.grad_fn
    z.sum().backward(retain_graph=True)
    del z
    first, second = kept.saved_tensors
    return [first, second, kept.name()]


@program("CX-31", "GR-01")
def one_tensor_in_two_saved_slots(T: Any, log: Log) -> Any:
    """Slots of one tensor that share what a hook made of it."""

    def forward(ctx, x):
        ctx.save_for_backward(x, x)
        return x * x

    def backward(ctx, g):
        a, b = ctx.saved_tensors
        log("saved", [a, b])
        return g * (a + b)

    def pack(tensor):
        log("packed", tensor)
        return tensor * 1

    def unpack(packed):
        log("unpacked", packed)
        return packed * 3

    x = leaf(T, 3)
    with T.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = function(T, forward, backward).apply(x)
    y.sum().backward()
    return [x.grad]


@program("CX-32")
def operands_detached_after_an_op_saved_them(T: Any, log: Log) -> Any:
    """A built-in op whose operand has no history any more. Its result, and views of what was detached, keep theirs."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    for make in (lambda a: a * y, lambda a: T.sin(a), lambda a: a / a, lambda a: y * a, lambda a: y @ a):
        source = x * 2
        result = make(source)
        source.detach_()
        with raises(RuntimeError, "detached in-place"):
            result.sum().backward()
    wide = T.tensor([1.0, 2.0, 3.0], dtype=T.float32, requires_grad=True) * 2
    result = wide * y  # what is saved was converted
    wide.detach_()
    with raises(RuntimeError, "detached in-place"):
        result.sum().backward()
    return [x.grad, y.grad]


@program("CX-32")
def what_a_detached_operand_leaves_alone(T: Any, log: Log) -> Any:
    """Saved outputs and views, and values saved later, of a tensor that was detached in place."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    source = x * 2
    versions = [source._version]
    view = source[1:]
    halves = view * view
    root = T.exp(source)
    source_sum = source.sum()
    root.detach_()
    source.detach_()
    versions.append(source._version)
    (halves.sum() + source_sum).backward()
    (source * y).sum().backward()  # saved as it is now: a leaf
    results = [x.grad, y.grad, source, versions]
    squares = view * view
    later = source * y
    source.add_(1.0)
    for stale in (squares, later):
        with raises(RuntimeError, "inplace operation"):
            stale.sum().backward()
    return [*results, source._version]


@program("CX-32", torch=False)
def detached_after_it_was_saved(T: Any, log: Log) -> Any:
    """A gradient that is lost since what was saved has no history any more."""

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    source = x * 2
    z = product(T, backward).apply(source, y)
    source.detach_()
    with raises(RuntimeError, "detach()"):
        z.sum().backward()
    return [x.grad]
