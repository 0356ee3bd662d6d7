"""Backward passes: several of them, partial ones, accumulation, gradient modes."""

from __future__ import annotations

from typing import Any

from .functions import np_linear, np_mul, np_square, np_tanh
from .registry import Log, constant, leaf, program


@program("CX-12", "EN-09", tags={"numpy"})
def two_passes_over_a_retained_graph(T: Any, log: Log) -> Any:
    """Saved tensors that are gone, or changed, at the second pass."""
    Square = np_square(T)
    x = leaf(T, 3)
    loss = Square.apply(Square.apply(x)).sum()
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward()
    return [first, x.grad]


@program("EN-07")
def accumulation_over_passes(T: Any, log: Log) -> Any:
    """`.grad` across passes that is not a left fold."""
    x = leaf(T, 5, dtype="float32")
    for factor in (1e4, 1 / 3, 1e-4, 7.0, 1e2):
        (x * x * factor).sum().backward()
    return [x.grad]


@program("CX-10", errors=RuntimeError)
def second_pass_over_a_freed_graph(T: Any, log: Log) -> Any:
    """Freed buffers that are read, or found elsewhere, without an error."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    y = Tanh.apply(x)
    y.sum().backward()
    y.sum().backward()
    return [x.grad]


@program("CX-10", errors=RuntimeError)
def second_pass_over_freed_built_in_ops(T: Any, log: Log) -> Any:
    """The same for built-in ops."""
    x = leaf(T, 3)
    y = x.exp()
    y.sum().backward()
    y.sum().backward()
    return [x.grad]


@program("CX-11", tags={"numpy"})
def second_pass_over_a_function_that_saves_nothing(T: Any, log: Log) -> Any:
    """An error about freed buffers where nothing freed is read."""

    class Triple(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy() * 3)

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * 3)

    x = leaf(T, 3)
    y = Triple.apply(x)
    y.sum().backward()
    y.sum().backward()
    return [x.grad]


@program("EN-02", "BW-14", tags={"numpy"})
def explicit_gradient(T: Any, log: Log) -> Any:
    """The gradient given to backward changed, or taken for another."""
    Square = np_square(T)
    x = leaf(T, 3, 2)
    gradient = constant(T, 3, 2)
    y = Square.apply(x)
    y.backward(gradient=gradient)
    return [gradient, x.grad]


@program("EN-06")
def several_roots(T: Any, log: Log) -> Any:
    """Roots that are run one after the other instead of in one pass."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    y = Tanh.apply(x)
    z = Tanh.apply(y)
    y.register_hook(lambda g: log("y", g))
    T.autograd.backward([y.sum(), (z * z).sum(), z], [None, None, T.ones_like(z)])
    return [x.grad]


@program("EN-06", "EN-07")
def leaf_as_a_root(T: Any, log: Log) -> Any:
    """A root without a graph."""
    x = leaf(T)
    x.backward()
    x.backward(T.tensor(3.0, dtype=T.float64))
    return [x.grad]


@program("EN-13", "EN-15")
def grad_of_several_inputs(T: Any, log: Log) -> Any:
    """grad() whose results are not in the order of its inputs, or that accumulates."""
    Mul, Tanh = np_mul(T), np_tanh(T)
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    middle = Tanh.apply(x)
    loss = Mul.apply(middle, y).sum()
    grads = T.autograd.grad(loss, [y, middle, x, y])
    return [list(grads), x.grad, y.grad]


@program("EN-11")
def backward_into_some_inputs(T: Any, log: Log) -> Any:
    """Leaves that accumulate although they were not asked for."""
    Mul = np_mul(T)
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    Mul.apply(x, y).sum().backward(inputs=[x])
    return [x.grad, y.grad]


@program("EN-13")
def grad_then_backward(T: Any, log: Log) -> Any:
    """grad() that frees what a retained graph needs."""
    Square = np_square(T)
    x = leaf(T, 3)
    loss = Square.apply(x).sum()
    (g,) = T.autograd.grad(loss, x, retain_graph=True)
    loss.backward()
    return [g, x.grad]


@program("EN-09", "EN-10")
def two_losses_share_a_part(T: Any, log: Log) -> Any:
    """The shared part freed by the first of two passes."""
    Tanh, Square = np_tanh(T), np_square(T)
    x = leaf(T, 3)
    shared = Tanh.apply(x)
    one, two = Square.apply(shared).sum(), (shared * 2).sum()
    one.backward(retain_graph=True)
    two.backward()
    return [one, two, x.grad]


@program("EN-07", "H8")
def grad_read_twice(T: Any, log: Log) -> Any:
    """A `.grad` that changes by being read, or after it was read."""
    x = leaf(T, 3)
    (x * x).sum().backward()
    first, second = x.grad, x.grad
    kept = first.clone()
    (x * 5).sum().backward()
    return [first is second, kept, x.grad]


@program("EN-28", "H8")
def grad_cleared_and_assigned(T: Any, log: Log) -> Any:
    """An assigned `.grad` that does not count."""
    x = leaf(T, 3)
    (x * x).sum().backward()
    x.grad = None
    cleared = x.grad is None
    (x * 2).sum().backward()
    x.grad = x.grad * 10  # pyright: ignore[reportOperatorIssue]
    (x * 3).sum().backward()
    return [cleared, x.grad]


@program("EN-31", "EN-12")
def retained_gradient_of_a_non_leaf(T: Any, log: Log) -> Any:
    """A non-leaf's `.grad` lost, or not accumulated."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    y = Tanh.apply(x)
    y.retain_grad()
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return [y.grad, y.retains_grad, x.grad]


@program("FN-12", "BW-11")
def no_grad_blocks(T: Any, log: Log) -> Any:
    """A gradient mode that leaks into or out of a block."""
    Square = np_square(T)
    x = leaf(T, 3)
    y = Square.apply(x)
    with T.no_grad():
        z = Square.apply(y)
        with T.enable_grad():
            inner = Square.apply(x)
    flags = [y.requires_grad, z.requires_grad, inner.requires_grad]
    (y * z * inner).sum().backward()
    return [flags, z, x.grad]


@program("EN-35")
def detached_values(T: Any, log: Log) -> Any:
    """History that survives `detach`, or is lost on the other side of it."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    y = Tanh.apply(x)
    z = y.detach().requires_grad_()
    (z * z).sum().backward()
    y.backward(z.grad)
    return [z.grad, z.is_leaf, x.grad]


@program("EN-29", "H3")
def requires_grad_switched_on(T: Any, log: Log) -> Any:
    """A Function whose first use needed no gradient, used again with one that does."""
    Linear = np_linear(T)
    x, w = constant(T, 2, 3), constant(T, 3, 2, seed=5)
    first = Linear.apply(x, w)
    w.requires_grad_()
    second = Linear.apply(x, w)
    second.sum().backward()
    return [first, first.requires_grad, second, second.requires_grad, w.grad]


@program("EN-19")
def backward_through_a_part_then_the_rest(T: Any, log: Log) -> Any:
    """A chain differentiated in two passes through a cut by hand."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    head = Tanh.apply(x)
    cut = head.detach().requires_grad_()
    tail = Tanh.apply(cut).sum()
    tail.backward()
    head.backward(gradient=cut.grad)
    return [tail, cut.grad, x.grad]


@program("EN-13", "H14")
def jacobian_row_by_row(T: Any, log: Log) -> Any:
    """Many passes over one retained graph, with gradients of different values."""
    Tanh = np_tanh(T)
    w, x = constant(T, 3, 4), leaf(T, 4)
    y = Tanh.apply(w @ x)
    rows = [T.autograd.grad(y, x, row, retain_graph=True)[0] for row in T.eye(3, dtype=T.float64)]
    return [y, T.stack(rows)]


@program("EN-13", "H14")
def graph_continued_after_a_pass(T: Any, log: Log) -> Any:
    """A value of an earlier pass used in a new graph, whose old part is retained."""
    Square = np_square(T)
    x = leaf(T, 3)
    y = Square.apply(x)
    y.sum().backward(retain_graph=True)
    z = Square.apply(y)
    z.sum().backward()
    return [z, x.grad]


@program("EN-17", "EN-14")
def materialised_zeros(T: Any, log: Log) -> Any:
    """grad() with `materialize_grads`: zeros of the wrong kind."""
    x, y = leaf(T, 3), leaf(T, 2, 2, seed=1, dtype="float32")
    return list(T.autograd.grad((x * x).sum(), [x, y], materialize_grads=True))


@program("EN-13", "EN-15")
def grad_of_one_operand(T: Any, log: Log) -> Any:
    """A gradient that nobody reads written in the place of one that somebody does."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    (first,) = T.autograd.grad((x * y).sum(), x)
    (second,) = T.autograd.grad((x * y).sum(), y)
    return [first, second]


@program("EN-13")
def one_of_two_results(T: Any, log: Log) -> Any:
    """An output that nobody reads written in the place of one that somebody does."""
    x = leaf(T, 4)
    largest, _ = x.reshape(2, 2).max(dim=1)
    _, places = x.reshape(2, 2).min(dim=1)
    return [largest * 2, places + 1]
