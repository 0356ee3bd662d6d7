"""BW: what backward may return and what is done with it: programs that show each id."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..programs.registry import Log, constant, leaf, program, raises, settle
from .making import doubled, function


def returning(T: Any, backward: Any, **members: Any) -> Any:
    """A Function (x, n) -> x * n with this backward."""
    return function(T, lambda ctx, x, n: x * n, backward, name="Returning", **members)


def single(T: Any, backward: Any) -> Any:
    """A Function x -> 2x with this backward."""
    return function(T, doubled, backward, name="Single")


def squared(ctx: Any, x: Any) -> Any:
    """A forward that saves its argument and squares it."""
    ctx.save_for_backward(x)
    return x * x


def through_saved(ctx: Any, g: Any) -> Any:
    """The backward of `squared`."""
    (x,) = ctx.saved_tensors
    return 2 * x * g


@program("BW-01")
def bare_values_and_tuples(T: Any, log: Log) -> Any:
    """A bare gradient that is no tuple of one."""
    x = leaf(T, 3)
    single(T, lambda ctx, g: g * 2).apply(x).sum().backward()
    single(T, lambda ctx, g: (g * 2,)).apply(x).sum().backward()
    returning(T, lambda ctx, g: (g * 5, None)).apply(x, 5).sum().backward()
    return [x.grad]


@program("BW-02", "BW-03")
def wrong_numbers_of_gradients(T: Any, log: Log) -> Any:
    """Too few gradients that are filled up, or too many that are dropped."""
    x = leaf(T, 3)
    for backward in (
        lambda ctx, g: g,
        lambda ctx, g: (g,),
        lambda ctx, g: (g, None, g),
        lambda ctx, g: (),
        lambda ctx, g: [g, None],
    ):
        with raises(RuntimeError, "ReturningBackward", "returned an incorrect number of gradients", "expected 2"):
            returning(T, backward).apply(x, 2).sum().backward()
    returning(T, lambda ctx, g: (g * 2, None, None, None)).apply(x, 2).sum().backward()
    return [x.grad]


@program("BW-03")
def a_list_is_one_object(T: Any, log: Log) -> Any:
    """A list of one gradient that is taken for a tuple."""
    x = leaf(T, 3)
    with raises(RuntimeError, "expected Variable or None", "list"):
        single(T, lambda ctx, g: [g]).apply(x).sum().backward()
    return []


@program("BW-04")
def a_gradient_for_what_is_no_tensor(T: Any, log: Log) -> Any:
    """A gradient of a number that is dropped silently."""
    x = leaf(T, 3)
    with raises(RuntimeError, "returned a gradient different than None at position 2"):
        returning(T, lambda ctx, g: (g, g)).apply(x, 2).sum().backward()
    return []


@program("BW-05")
def a_gradient_that_nobody_wants(T: Any, log: Log) -> Any:
    """A gradient of a tensor that does not require grad, which is refused or stored."""
    x, y = leaf(T, 3), constant(T, 3)
    returning(T, lambda ctx, g: (g * 2, g * 3)).apply(x, y).sum().backward()
    returning(T, lambda ctx, g: (g * 2, g[:1] * 3)).apply(x, y).sum().backward()  # not even looked at
    return [x.grad, y.grad]


@program("BW-06")
def what_is_no_gradient(T: Any, log: Log) -> Any:
    """A number or a string that is taken for a gradient, or fails with an error about attributes."""
    x = leaf(T, 3)
    for wrong in (3.0, "text", {"a": 1}):
        with raises(RuntimeError, "expected Variable or None", type(wrong).__name__):
            single(T, lambda ctx, g, wrong=wrong: wrong).apply(x).sum().backward()
    return []


@program("BW-06", tags={"numpy"}, torch=False)
def arrays_as_gradients(T: Any, log: Log) -> Any:
    """An array that backward returned and that is not taken."""

    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.array = x.numpy()
            return T.from_numpy(ctx.array**2)

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.array * g.numpy()

    x = leaf(T, 3)
    Square.apply(x).sum().backward()
    return [x.grad]


@program("BW-07")
def shapes_of_gradients(T: Any, log: Log) -> Any:
    """A gradient of another shape that is stored, or a larger one that is not summed down."""
    cases = [((3,), (2, 3)), ((2, 1), (2, 3)), ((1,), (4,)), ((), (1,)), ((), (2, 2)), ((1, 3), (2, 3))]
    result = []
    for shape, given in cases:
        x = leaf(T, *shape)
        single(T, lambda ctx, g, given=given: T.ones(given, dtype=T.float64)).apply(x).sum().backward()
        result.append(x.grad)
    for shape, given in (((3,), (1,)), ((2, 3), (3,)), ((3,), (4,)), ((2, 3), (3, 2)), ((2,), ())):
        x = leaf(T, *shape)
        with raises(RuntimeError, "SingleBackward", "invalid gradient at index 0", "expected shape"):
            single(T, lambda ctx, g, given=given: T.ones(given, dtype=T.float64)).apply(x).sum().backward()
    return result


@program("BW-08")
def dtypes_of_gradients(T: Any, log: Log) -> Any:
    """A gradient of another dtype that is stored as it is."""
    result = []
    for given in (T.float32, T.int64, T.bool):
        x = leaf(T, 3)
        single(T, lambda ctx, g, given=given: T.ones(3, dtype=given)).apply(x).sum().backward()
        result.append(x.grad)
    z = T.tensor(np.ones(3) * 1j, requires_grad=True)
    single(T, lambda ctx, g: T.ones(3, dtype=T.float64)).apply(z).abs().sum().backward()
    x = leaf(T, 3)
    with raises(RuntimeError):
        single(T, lambda ctx, g: T.ones(3, dtype=T.complex128)).apply(x).sum().backward()
    return [*result, z.grad]


@program("BW-09")
def devices_of_gradients(T: Any, log: Log) -> Any:
    """A gradient that is on another device than its input."""
    x = leaf(T, 3)

    def backward(ctx, g):
        log("device", str(g.device))
        return g * 2

    y = single(T, backward).apply(x)
    y.sum().backward()
    return [str(x.device), str(y.device), str(x.grad.device)]


@program("BW-10")
def none_for_an_input(T: Any, log: Log) -> Any:
    """An undefined gradient that is stored as zeros, or that stops what comes before."""

    def forward(ctx, x, materialize):
        ctx.set_materialize_grads(materialize)
        return x * 2

    def seen(ctx, g):
        log("seen", g)
        return g, None

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    nothing = returning(T, lambda ctx, g: (None, g))
    for materialize in (True, False):
        before = function(T, forward, seen).apply(x, materialize)
        nothing.apply((before * 3).exp(), y).sum().backward()
    result = [x.grad, y.grad]
    z = leaf(T, 3)
    out = nothing.apply(z, y)
    with raises(RuntimeError, "allow_unused"):
        T.autograd.grad(out.sum(), [z, y], retain_graph=True)
    result += T.autograd.grad(out.sum(), [z, y], allow_unused=True, retain_graph=True)
    result += T.autograd.grad(out.sum(), [z, y], materialize_grads=True)
    return [*result, z.grad]


@program("BW-11", "BW-12")
def modes_inside_backward(T: Any, log: Log) -> Any:
    """A backward in the ambient gradient mode, or one that leaks the mode that it set."""

    def backward(ctx, g):
        log("mode", [T.is_grad_enabled(), (g * 1).requires_grad])
        T.set_grad_enabled(not T.is_grad_enabled())
        return g * 2

    x = leaf(T, 3)
    cls = single(T, backward)
    modes = []
    for create_graph in (False, True):
        for ambient in (False, True):
            out = cls.apply(cls.apply(x))
            weights = leaf(T, 3, seed=1)
            with T.set_grad_enabled(ambient):
                (g,) = T.autograd.grad(out, x, weights, create_graph=create_graph)
                modes += [T.is_grad_enabled() == ambient, g.requires_grad and create_graph]
    return modes


@program("BW-12")
def history_of_results(T: Any, log: Log) -> Any:
    """A gradient that requires grad though no graph was to be created."""

    def backward(ctx, g):
        with T.enable_grad():
            (x,) = ctx.saved_tensors
            again = x * 1 * g
            log("inside", again.requires_grad)
        return again * 2

    x = leaf(T, 3)
    cls = function(T, squared, backward)
    (g,) = T.autograd.grad(cls.apply(x).sum(), x)
    cls.apply(x).sum().backward()
    return [g, g.requires_grad, x.grad.requires_grad, x.grad.grad_fn is None]


class Refused(Exception):
    """An exception of a user's, with an attribute."""

    def __init__(self, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code


@program("BW-13", errors=Refused)
def exceptions_with_attributes(T: Any, log: Log) -> Any:
    """An exception of backward that arrives as another, or without its attributes."""

    def backward(ctx, g):
        raise Refused(42)

    x = leaf(T, 3)
    single(T, backward).apply(x).sum().backward()
    return [x.grad]


@program("BW-14")
def layouts_of_incoming_gradients(T: Any, log: Log) -> Any:
    """A gradient that is an expansion and that is computed with as if it were dense."""

    def backward(ctx, g):
        log("g", [g, list(g.shape), float(g.sum())])
        return g * 2 + g.reshape(-1).reshape(2, 3)

    x = leaf(T, 2, 3)
    cls = single(T, backward)
    cls.apply(x).sum().backward()
    (cls.apply(x).T * constant(T, 3, 2)).sum().backward()
    cls.apply(x).backward(constant(T, 1, 3).expand(2, 3))
    return [x.grad]


@program("BW-15", torch=False)
def incoming_gradients_are_read_only(T: Any, log: Log) -> Any:
    """A backward that changes the gradient which the caller gave, or which others read."""

    def in_place(ctx, g):
        g.mul_(2)
        return g

    def item(ctx, g):
        g[0] = 3.0
        return g

    def copies(ctx, g):
        g = g.clone()
        g.mul_(2)
        return g

    x, given = leaf(T, 3), constant(T, 3)
    for backward in (in_place, item):
        with raises(RuntimeError, "in place", "clone"):
            single(T, backward).apply(x).backward(given)
    single(T, copies).apply(x).backward(given)
    return [x.grad, given]


@program("BW-16")
def one_object_as_several_gradients(T: Any, log: Log) -> Any:
    """Stored gradients that share memory with one another or with the caller's."""

    def same(ctx, g):
        return g, g

    def one(ctx, g):
        twice = g * 2
        return twice, twice

    result = []
    for backward in (same, one):
        x, y, given = leaf(T, 3), leaf(T, 3, seed=1), constant(T, 3)
        returning(T, backward).apply(x, y).backward(given)
        with T.no_grad():
            x.grad.mul_(10)
        result += [x.grad, y.grad, given]
    return result


@program("BW-17", tags={"create_graph"})
def derivatives_of_any_order(T: Any, log: Log) -> Any:
    """A higher derivative through saved inputs, the saved output or the incoming gradient that is wrong."""

    def exponential(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    def from_output(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y

    result = []
    for cls in (function(T, squared, through_saved), function(T, exponential, from_output)):
        x, w = leaf(T, 3), leaf(T, 3, seed=1)
        y = cls.apply(cls.apply(x))
        (g,) = T.autograd.grad(y, x, w, create_graph=True)
        (gg,) = T.autograd.grad((g * g).sum(), x, create_graph=True)
        third = T.autograd.grad(gg.sum(), [x, w])
        result += [g.detach(), gg.detach(), *third]
    return result


@program("BW-17", tags={"create_graph"})
def derivatives_by_what_backward_reads_besides(T: Any, log: Log) -> Any:
    """A higher derivative that lacks the terms through a tensor that backward captures, or finds in a list on ctx."""
    a, b = leaf(T, 3), leaf(T, 3, seed=1)

    def kept(ctx, *factors):
        ctx.factors = {"all": [*factors]}
        return factors[0] * factors[1] * factors[1]

    def from_kept(ctx, g):
        x, w = ctx.factors["all"]
        return g * w * w, 2 * g * x * w

    def captures(captured):
        def forward(ctx, x):
            return x * captured

        def backward(ctx, g):
            return g * captured * captured / captured

        return function(T, forward, backward, name="Captures")

    result = []
    for apply in (
        lambda x, w: function(T, kept, from_kept).apply(x * x, w * w),
        lambda x, w: captures(w).apply(x * x),
        lambda x, w: captures(w * w).apply(x * x),
    ):
        (g,) = T.autograd.grad(apply(a, b).sum(), a, create_graph=True)
        (gg,) = T.autograd.grad((g**3).sum(), b, create_graph=True)
        (ggg,) = T.autograd.grad((gg * gg).sum(), a, create_graph=True)
        result += [g.detach(), gg.detach(), ggg.detach()]
        a.grad = b.grad = None
        (ggg * gg).sum().backward()
        result += [a.grad, b.grad]
    return result


@program("BW-18", tags={"create_graph"}, torch=False)
def saved_intermediates_and_second_derivatives(T: Any, log: Log) -> Any:
    """A second derivative that lacks the terms through what forward saved beside inputs and outputs."""

    def forward(ctx, x):
        middle = x * x
        ctx.save_for_backward(x, middle)
        return x * middle

    def through_middle(ctx, g):
        _, middle = ctx.saved_tensors
        return 3 * middle * g

    def recomputes(ctx, g):
        x, _ = ctx.saved_tensors
        return 3 * x * x * g

    x = leaf(T, 3)
    (first,) = T.autograd.grad(function(T, forward, through_middle).apply(x).sum(), x)
    (g,) = T.autograd.grad(function(T, forward, through_middle).apply(x).sum(), x, create_graph=True)
    value = g.detach() * 1
    settle()  # before the run that fails
    with raises(RuntimeError, "slot 1", "recompute", "output"):
        T.autograd.grad(g.sum(), x)
    (g,) = T.autograd.grad(function(T, forward, recomputes).apply(x).sum(), x, create_graph=True)
    (second,) = T.autograd.grad(g.sum(), x)
    return [first, value, second]


@program("BW-19")
def backwards_that_run_again(T: Any, log: Log) -> Any:
    """A backward whose second run gives something else."""
    x = leaf(T, 3)
    y = function(T, squared, through_saved).apply(x)
    runs = [T.autograd.grad(y.sum(), x, retain_graph=True)[0] for _ in range(3)]
    inner = T.autograd.grad(y.sum() * 2, x)[0]
    return [*runs, inner]


@program("BW-20")
def complex_outputs_and_real_inputs(T: Any, log: Log) -> Any:
    """A gradient of the wrong kind, or conjugated, at the boundary of real and complex."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (2 + 3j)

    def backward(ctx, g):
        log("complex", g.is_complex())
        return (g * (2 - 3j)).real

    def modulus(ctx, z):
        ctx.save_for_backward(z)
        return (z * z.conj()).real

    def of_modulus(ctx, g):
        (z,) = ctx.saved_tensors
        log("complex", g.is_complex())
        return 2 * z * g

    x = leaf(T, 3)
    y = function(T, forward, backward).apply(x)
    function(T, modulus, of_modulus).apply(y).sum().backward()
    return [y.detach(), x.grad]
