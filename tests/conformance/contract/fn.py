"""FN: calling a Function: programs that show each id up to FN-13; the others are in `fn_classes`.

Arguments and keywords of many kinds are in `programs/arguments.py`.
"""

from __future__ import annotations

from typing import Any

from ..programs.registry import Log, constant, leaf, program, raises
from .making import doubled, function, is_function, once


@program("FN-01", "FN-20")
def two_styles_of_one_function(T: Any, log: Log) -> Any:
    """A style that gives other outputs, gradients or nodes than the other."""

    def separate(x, y):
        return x * y, x + y

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def combined(ctx, x, y):
        ctx.save_for_backward(x, y)
        return separate(x, y)

    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h

    result = []
    for cls in (
        function(T, combined, backward),
        function(T, separate, backward, setup_context=staticmethod(setup)),
    ):
        x, y = leaf(T, 3), leaf(T, 3, seed=1)
        product, total = cls.apply(x, y)
        (product * total).sum().backward()
        result += [product, total, x.grad, y.grad, is_function(product, "Made"), type(product.grad_fn).__name__]
    return result


@program("FN-02", "FN-03")
def what_setup_context_is_given(T: Any, log: Log) -> Any:
    """Inputs that are not a tuple of all arguments, outputs that are wrapped already, a return value that counts."""

    def forward(x, factor=2.0):
        log("forward", x)
        return x * factor, "text", x + 1

    def setup(ctx, inputs, output):
        y, text, z = output
        log("inputs", [type(inputs) is tuple, len(inputs), inputs[0].requires_grad, inputs[1]])
        log("output", [type(output) is tuple, y.requires_grad, y.grad_fn is None, text, z])
        ctx.factor = inputs[1]
        return "ignored"

    def backward(ctx, g, nothing, h):
        return g * ctx.factor + h, nothing

    x = leaf(T, 3)
    y, text, z = function(T, forward, backward, setup_context=staticmethod(setup)).apply(x)
    (y * z).sum().backward()
    return [y, text, x.grad]


@program("FN-03", "FW-10")
def order_of_the_methods(T: Any, log: Log) -> Any:
    """A jvp that runs before setup_context, or although no argument carries a tangent."""

    def forward(x):
        log("forward", None)
        return x * 2

    def setup(ctx, inputs, output):
        log("setup", None)

    def jvp(ctx, t):
        log("jvp", t)
        return t * 2

    cls = function(T, forward, setup_context=staticmethod(setup), jvp=staticmethod(jvp))
    plain = cls.apply(constant(T, 3))
    fw = T.autograd.forward_ad
    with fw.dual_level():
        primal, tangent = fw.unpack_dual(cls.apply(fw.make_dual(constant(T, 3), constant(T, 3, seed=1))))
        return [plain, primal * 1, tangent * 1]


@program("FN-04")
def wrong_slots_of_defaults(T: Any, log: Log) -> Any:
    """A default that has a slot in backward in the wrong style."""

    def combined(ctx, x, factor=3.0):
        return x * factor

    def separate(x, factor=3.0):
        return x * factor

    def setup(ctx, inputs, output):
        log("inputs", len(inputs))

    x = leaf(T, 3)
    cls = function(T, separate, once, setup_context=staticmethod(setup))
    with raises(RuntimeError, "returned an incorrect number of gradients"):
        cls.apply(x).sum().backward()
    function(T, combined, once).apply(x).sum().backward()
    with raises(RuntimeError, "returned an incorrect number of gradients"):
        function(T, combined, once).apply(x, 2.0).sum().backward()
    return [x.grad]


@program("FN-05")
def keywords_that_do_not_fit(T: Any, log: Log) -> Any:
    """A keyword that is dropped, or taken for another."""

    def combined(ctx, x, y, factor=1.0):
        return (x + 2 * y) * factor

    def separate(x, y, factor=1.0):
        return (x + 2 * y) * factor

    def setup(ctx, inputs, output):
        ctx.factor = inputs[2]

    def backward(ctx, g):
        log("needs", list(ctx.needs_input_grad))
        return (g * 3, g * 5, None)[: len(ctx.needs_input_grad)]

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    outputs = []
    for cls in (
        function(T, combined, backward),
        function(T, separate, backward, setup_context=staticmethod(setup)),
    ):
        with raises(TypeError, "multiple values"):
            cls.apply(x, y, x=x)
        with raises(TypeError, "unexpected keyword argument"):
            cls.apply(x, y, other=1)
        with raises(TypeError, "missing"):
            cls.apply(y=y)
        outputs.append(cls.apply(y=y, factor=2.0, x=x))
    total: Any = sum(outputs)
    total.sum().backward()
    return [*outputs, x.grad, y.grad]


@program("FN-05", torch=False)
def keywords_that_only_raygrad_takes(T: Any, log: Log) -> Any:
    """A skipped default that is lost, a keyword-only argument that has a slot, a signature hidden by a decorator."""

    def forward(ctx, x, shift=1.0, factor=1.0, *, kind="none", **options):
        log("given", [shift, factor, kind, sorted(options)])
        return x * factor + shift

    def backward(ctx, g):
        log("slots", len(ctx.needs_input_grad))
        return g * 3, None, None

    x = leaf(T, 3)
    cls = function(T, forward, backward)
    y = cls.apply(x, factor=3.0, kind="some", extra=1)
    y.sum().backward()
    with raises(TypeError, "keyword-only", "differentiable"):
        cls.apply(x, kind=x)
    return [y, x.grad]


@program("FN-06")
def tensors_in_containers_are_not_tracked(T: Any, log: Log) -> Any:
    """A tensor in a container that is recorded, detached, or given a gradient."""

    def forward(ctx, x, pair, named):
        log("flags", [pair[0].requires_grad, named["z"].requires_grad, list(ctx.needs_input_grad)])
        return x * pair[0] * named["z"]

    def backward(ctx, g):
        return g, None, None

    x, y, z = leaf(T, 3), leaf(T, 3, seed=1), leaf(T, 3, seed=2)
    cls = function(T, forward, backward)
    out = cls.apply(x, (y, 1), {"z": z})
    out.sum().backward()
    untracked = cls.apply(x.detach(), (y, 1), {"z": z})
    return [out, x.grad, y.grad, z.grad, untracked, untracked.requires_grad]


@program("FN-06")
def tensors_in_objects_that_are_arguments_too(T: Any, log: Log) -> Any:
    """A tensor in a list, or captured by a function, that is another one than the argument that it is."""

    def forward(ctx, region, count, *tensors):
        ctx.region, ctx.inputs, ctx.weights = region, list(tensors[:count]), list(tensors[count:])
        return region(*ctx.inputs)

    def backward(ctx, g):
        inputs = [x.detach().requires_grad_() for x in ctx.inputs]
        with T.enable_grad():
            out = ctx.region(*inputs)
        grads = T.autograd.grad(out, inputs + ctx.weights, g, allow_unused=True)
        return None, None, *grads

    def by_saved(ctx, x, weights, w):
        ctx.weights = weights
        ctx.save_for_backward(x, w)
        return x * weights[0] * weights[1]

    def through_saved(ctx, g):
        x, w = ctx.saved_tensors
        with T.enable_grad():
            out = x * ctx.weights[0] * ctx.weights[1]
        gx, gw = T.autograd.grad(out, (x, w), g, allow_unused=True)
        return gx, None, gw

    x, w, v = leaf(T, 3), leaf(T, 3, seed=1), leaf(T, 3, seed=2)
    y = function(T, forward, backward).apply(lambda x: (x * w).sin(), 1, x, w)
    y.sum().backward()
    result = [y, x.grad, w.grad]
    inner = v * 2  # recorded, and read in the list
    y = function(T, by_saved, through_saved).apply(x, [w, inner], w)
    y.sum().backward()
    return [*result, y, x.grad, w.grad, v.grad]


@program("FN-07")
def objects_that_are_passed(T: Any, log: Log) -> Any:
    """An object that arrives as another one, or that is not what comes back."""

    def forward(ctx, x, first, second, nothing):
        log("same", [first == second, nothing is None])
        ctx.first = first
        return x * len(first), first

    def backward(ctx, g, nothing):
        log("kept", ctx.first)
        return g * len(ctx.first), None, None, None

    x, words = leaf(T, 3), ["a", "b"]
    y, back = function(T, forward, backward).apply(x, words, words, None)
    y.sum().backward()
    return [y, back, x.grad]


@program("FN-08")
def one_tensor_in_two_slots(T: Any, log: Log) -> Any:
    """Slots of one tensor that are merged: a gradient that counts once, or twice."""

    def forward(ctx, x, y):
        log("slots", list(ctx.needs_input_grad))
        return x + 2 * y

    def backward(ctx, g):
        return g * 3, g * 5

    x = leaf(T, 3)
    cls = function(T, forward, backward)
    cls.apply(x, x).sum().backward()
    y = x * 2
    (g,) = T.autograd.grad(cls.apply(y, y).sum(), y)
    return [x.grad, g]


@program("FN-09", "LG-01")
def no_tensor_among_the_arguments(T: Any, log: Log) -> Any:
    """A result without tensors that is wrapped, or a backward that runs."""

    def forward(ctx, *args):
        return [len(args), sum(args)], T.ones(2), None

    def backward(ctx, *grads):
        raise AssertionError

    plain = function(T, forward, backward)
    marked = function(T, forward, T.autograd.function.once_differentiable(backward))
    result = []
    for cls in (plain, marked):
        for args in ((), (1, 2)):
            numbers, ones, nothing = cls.apply(*args)
            result.append([numbers, ones, ones.requires_grad, nothing])
    return result


@program("FN-10")
def modes_in_forward_and_setup_context(T: Any, log: Log) -> Any:
    """Recording that is on in forward, an input that hides its flag, a nested Function that is recorded."""
    inner = function(T, doubled, once)

    def forward(x):
        y = inner.apply(x)
        log("forward", [T.is_grad_enabled(), x.requires_grad, (x * 2).requires_grad, y.requires_grad])
        return y

    def setup(ctx, inputs, output):
        (x,) = inputs
        log("setup", [T.is_grad_enabled(), x.requires_grad, (x * 2).requires_grad, inner.apply(x).requires_grad])

    def backward(ctx, g):
        return g * 2

    x = leaf(T, 3)
    y = function(T, forward, backward, name="Outer", setup_context=staticmethod(setup)).apply(x)
    y.sum().backward()
    return [y, x.grad, is_function(y, "Outer")]


@program("FN-11")
def recording_switched_on_in_forward(T: Any, log: Log) -> Any:
    """History made inside forward that runs beside the Function's own backward."""

    def forward(ctx, x):
        with T.enable_grad():
            inner = x.detach().requires_grad_() * 5
            log("inner", inner.requires_grad)
        return inner

    def backward(ctx, g):
        return g * 7

    x = leaf(T, 3)
    y = function(T, forward, backward).apply(x)
    y.sum().backward()
    return [y, is_function(y, "Made"), x.grad]


@program("FN-12")
def forward_that_is_not_recorded(T: Any, log: Log) -> Any:
    """A context that does not work, or keeps what it was given, where nothing is recorded."""

    def forward(ctx, x, n):
        ctx.save_for_backward(x, n)
        ctx.note = 1
        log("ctx", [list(ctx.needs_input_grad), len(ctx.saved_tensors)])
        return x * n

    def backward(ctx, g):
        raise AssertionError

    cls = function(T, forward, backward)
    result = [cls.apply(constant(T, 3), 2)]
    with T.no_grad():
        result.append(cls.apply(leaf(T, 3), 3))
    return [*result, [y.requires_grad for y in result], [y.grad_fn is None for y in result]]


@program("FN-13", "OU-04")
def outputs_that_require_grad(T: Any, log: Log) -> Any:
    """A flag decided by what an output depends on, or by whether it is read."""

    def forward(ctx, x, y):
        marked = x + 1
        ctx.mark_non_differentiable(marked)
        free = T.ones(2, dtype=T.float64)
        return x * y, free, (x > 0), T.arange(3), marked, T.ones(2, dtype=T.complex128)

    def backward(ctx, g, *others):
        return g, None

    x, y = leaf(T, 3), constant(T, 3)
    outputs = function(T, forward, backward).apply(x, y)
    return [[t.requires_grad for t in outputs], [t.grad_fn is None for t in outputs], list(outputs)]
