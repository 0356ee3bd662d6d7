"""Functions with several outputs, with outputs that are no tensors, and with outputs that have no derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions import np_sin_cos
from .registry import Log, leaf, program

SEVERAL = {"numpy", "multi_output"}


@program("OU-01", "OU-03", tags={"multi_output"})
def two_outputs_both_used(T: Any, log: Log) -> Any:
    """Gradients of two outputs given in the other's slot."""
    SinCos = np_sin_cos(T)
    x = leaf(T, 4)
    sin, cos = SinCos.apply(x)
    (sin * 2 + cos * 5).sum().backward()
    return [sin, cos, x.grad]


@program("OU-07", tags={"multi_output"})
def first_output_unused(T: Any, log: Log) -> Any:
    """An unused output whose gradient is not materialised."""
    SinCos = np_sin_cos(T)
    x = leaf(T, 4)
    _, cos = SinCos.apply(x)
    cos.sum().backward()
    return [cos, x.grad]


@program("OU-07", tags={"multi_output"})
def second_output_unused(T: Any, log: Log) -> Any:
    """The same at the other end: an output that is dropped at once, and read again by backward."""
    SinCos = np_sin_cos(T)
    x = leaf(T, 4)
    y = SinCos.apply(x)[0]
    y.sum().backward()
    return [y, x.grad]


@program("OU-01", "H19", tags=SEVERAL)
def three_outputs_fan_out(T: Any, log: Log) -> Any:
    """Fan-in at each slot of one node."""

    class Powers(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            a = x.numpy()
            return T.from_numpy(a.copy()), T.from_numpy(a**2), T.from_numpy(a**3)

        @staticmethod
        def backward(ctx, g1, g2, g3):
            (x,) = ctx.saved_tensors
            a = x.numpy()
            return T.from_numpy(g1.numpy() + g2.numpy() * 2 * a + g3.numpy() * 3 * a**2)

    x = leaf(T, 5, dtype="float32")
    one, two, three = Powers.apply(x)
    y = one * two + two * three + three * one + one.exp() + two.tanh() + three.sin()
    y.sum().backward()
    return [y, x.grad]


@program("OU-01", tags={"multi_output"})
def outputs_that_meet_again(T: Any, log: Log) -> Any:
    """Outputs of one node that go to different nodes and meet."""
    SinCos = np_sin_cos(T)
    x = leaf(T, 4)
    sin, cos = SinCos.apply(x)
    left, _ = SinCos.apply(sin)
    _, right = SinCos.apply(cos)
    y = left * right
    y.sum().backward()
    return [y, x.grad]


@program("OU-01", tags={"numpy"})
def tuple_of_one(T: Any, log: Log) -> Any:
    """A tuple of length one unpacked."""

    class One(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (T.from_numpy(x.numpy() + 1),)

        @staticmethod
        def backward(ctx, g):
            return (T.from_numpy(g.numpy() * 3),)

    x = leaf(T, 4)
    result = One.apply(x)
    result[0].sum().backward()
    return [isinstance(result, tuple), len(result), result[0], x.grad]


@program("OU-02", "OU-03", tags=SEVERAL)
def outputs_that_are_no_tensors(T: Any, log: Log) -> Any:
    """Numbers, strings and None among outputs, and the slots that they take in backward."""

    class Mixed(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy() * 2), 7, "label", None, T.from_numpy(x.numpy() * 3)

        @staticmethod
        def backward(ctx, g, number, label, nothing, h):
            log("no tensors", [number, label, nothing])
            return T.from_numpy(2 * g.numpy() + 3 * h.numpy())

    x = leaf(T, 4)
    first, number, label, nothing, last = Mixed.apply(x)
    (first * last).sum().backward()
    return [first, number, label, nothing, last, x.grad]


@program("OU-04", tags=SEVERAL)
def sorted_values_and_indices(T: Any, log: Log) -> Any:
    """An integer output taken for a differentiable one."""

    class Sort(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            order = np.argsort(x.numpy())
            indices = T.from_numpy(order)
            ctx.save_for_backward(indices)
            return T.from_numpy(x.numpy()[order]), indices

        @staticmethod
        def backward(ctx, g, g_indices):
            (indices,) = ctx.saved_tensors
            log("gradient of the indices", g_indices)
            grad = np.empty_like(g.numpy())
            grad[indices.numpy()] = g.numpy()
            return T.from_numpy(grad)

    x = leaf(T, 6)
    ordered, indices = Sort.apply(x)
    y = ordered * T.arange(6) + x[indices]
    y.sum().backward()
    return [ordered, indices, indices.requires_grad, y, x.grad]


@program("OU-04", tags=SEVERAL)
def bool_output(T: Any, log: Log) -> Any:
    """A mask that is recorded, or loses its dtype on the way."""

    class Clip(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            mask = T.from_numpy(np.abs(x.numpy()) < 1)
            ctx.mask = mask
            return T.from_numpy(np.clip(x.numpy(), -1, 1)), mask

        @staticmethod
        def backward(ctx, g, g_mask):
            return T.from_numpy(g.numpy() * ctx.mask.numpy())

    x = leaf(T, 8)
    clipped, mask = Clip.apply(x)
    T.where(mask, clipped * 2, clipped * clipped).sum().backward()
    return [clipped, mask, x.grad]


@program("OU-25", tags=SEVERAL)
def output_marked_non_differentiable(T: Any, log: Log) -> Any:
    """A marked output that requires grad, or sends gradient back."""

    class Normalise(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            length = T.from_numpy(np.linalg.norm(x.numpy(), axis=1, keepdims=True))
            ctx.mark_non_differentiable(length)
            ctx.save_for_backward(length)
            return T.from_numpy(x.numpy() / length.numpy()), length

        @staticmethod
        def backward(ctx, g, g_length):
            (length,) = ctx.saved_tensors
            log("gradient of a marked output", g_length)
            return T.from_numpy(g.numpy() / length.numpy())

    x = leaf(T, 3, 4)
    unit, length = Normalise.apply(x)
    (unit * length * x).sum().backward()
    return [unit, length, length.requires_grad, unit.requires_grad, x.grad]


@program("OU-05")
def all_outputs_non_differentiable(T: Any, log: Log) -> Any:
    """A node that nothing can reach."""

    class Sign(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.sign()
            ctx.mark_non_differentiable(y)
            return y

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("must not run")

    x = leaf(T, 4)
    y = Sign.apply(x)
    (x * y).sum().backward()
    return [y, y.requires_grad, y.grad_fn is None, x.grad]


@program("CX-20", "OU-07", tags=SEVERAL)
def gradients_not_materialised(T: Any, log: Log) -> Any:
    """An unused output that arrives as zeros although the Function asked for None."""

    class Pair(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return T.from_numpy(x.numpy() * 2), T.from_numpy(x.numpy() * 5)

        @staticmethod
        def backward(ctx, g, h):
            log("undefined", [g is None, h is None])
            return T.from_numpy(h.numpy() * 5) if g is None else T.from_numpy(g.numpy() * 2)

    x = leaf(T, 4)
    _, second = Pair.apply(x)
    second.sum().backward()
    return [second, x.grad]


@program("OU-09")
def gradient_reversal(T: Any, log: Log) -> Any:
    """An input returned as it is: its own history, or hooks on the result, lost."""

    class Reverse(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    x = leaf(T, 4)
    y = Reverse.apply(x)
    y.register_hook(lambda g: log("through the result", g))
    (y * 2 + x * 10).sum().backward()
    return [y, x.grad]


@program("FN-13", "OU-01", tags=SEVERAL)
def output_that_does_not_depend_on_the_input(T: Any, log: Log) -> Any:
    """What requires grad decided by dependence instead of by dtype."""

    class Constant(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(np.ones(3)), T.from_numpy(x.numpy() * 4)

        @staticmethod
        def backward(ctx, g, h):
            log("gradients", [g, h])
            return T.from_numpy(h.numpy() * 4)

    x = leaf(T, 3)
    one, four = Constant.apply(x)
    (one * four).sum().backward()
    return [one, one.requires_grad, four, x.grad]


@program("OU-01", "OU-28", tags=SEVERAL)
def outputs_of_different_shapes_and_dtypes(T: Any, log: Log) -> Any:
    """Outputs packed together that take one another's shape, dtype or place."""

    class Summary(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            a = x.numpy()
            ctx.shape = a.shape
            return (
                T.from_numpy(np.asarray(a.sum())),
                T.from_numpy(a.sum(0).astype(np.float32)),
                T.from_numpy(a[:0] * 1),
            )

        @staticmethod
        def backward(ctx, total, columns, nothing):
            log("shapes", [list(g.shape) for g in (total, columns, nothing)])
            return T.from_numpy(np.broadcast_to(total.numpy() + columns.numpy(), ctx.shape).astype(np.float64))

    x = leaf(T, 3, 4)
    total, columns, nothing = Summary.apply(x)
    (total * 2 + (columns * columns).sum() + nothing.sum()).backward()
    return [total, columns, nothing, x.grad]


@program("OU-29", tags={"multi_output"})
def output_numbers_and_names(T: Any, log: Log) -> Any:
    """Slots and names of nodes that a session's tensors report otherwise."""
    SinCos = np_sin_cos(T)
    x = leaf(T, 2)
    sin, cos = SinCos.apply(x)
    same = sin.grad_fn is cos.grad_fn
    edge = sin.grad_fn.next_functions[0]
    return [sin.output_nr, cos.output_nr, sin.grad_fn.name(), same, edge[1], sin.is_leaf, x.is_leaf]
