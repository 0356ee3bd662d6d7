"""Operands whose memory is not in C order: transposed, sliced, expanded (H1). Sums of 32-bit numbers show it best."""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions import np_linear, np_square, np_tanh
from .registry import Log, leaf, program, values

F32 = "float32"


def product(T: Any, rows: int = 48, inner: int = 33, columns: int = 40) -> Any:
    x, w = leaf(T, rows, inner, dtype=F32), leaf(T, inner, columns, seed=1, dtype=F32)
    return x, w, x @ w


@program("H1")
def sliced_product_summed(T: Any, log: Log) -> Any:
    """A strided view compacted on one side only, before a reduction."""
    x, w, y = product(T)
    loss = y[::2].sum() + y[:, 1::3].sum()
    loss.backward()
    return [loss, x.grad, w.grad]


@program("H1")
def transposed_product_summed(T: Any, log: Log) -> Any:
    """A transposed operand made C-contiguous on its way."""
    x, w, y = product(T)
    columns = y.T.sum(1)
    (columns * columns).sum().backward()
    return [columns, x.grad, w.grad]


@program("H1")
def product_of_transposed_operands(T: Any, log: Log) -> Any:
    """BLAS given another layout of the same operand."""
    x, w, y = product(T)
    z = y.T @ x @ w.T.T[:, ::2]
    z.sum(0).exp().mean().backward()
    return [z, x.grad, w.grad]


@program("H1", tags={"numpy"})
def transposed_operand_of_a_function(T: Any, log: Log) -> Any:
    """Strides that a user's NumPy code sees."""

    class Totals(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log("axis order", x.numpy().flags.f_contiguous)
            ctx.shape = x.shape
            return T.from_numpy(x.numpy().sum(0))

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(np.repeat(g.numpy()[None], ctx.shape[0], 0))

    x, w, y = product(T)
    totals = Totals.apply(y.T)
    (totals * totals).sum().backward()
    return [totals, x.grad, w.grad]


@program("H1")
def sliced_operand_of_a_function(T: Any, log: Log) -> Any:
    """A sliced view given to a user's BLAS call."""
    Linear = np_linear(T)
    x, w, _ = product(T)
    y = Linear.apply(x[::3], w[:, 5:25:2])
    y.sum(1).tanh().sum().backward()
    return [y, x.grad, w.grad]


@program("H1", "BW-14")
def expanded_operands(T: Any, log: Log) -> Any:
    """A zero-stride expansion made dense, or sent as one: sums over it differ."""
    x = leaf(T, 1, 37, dtype=F32)
    y = x.expand(29, 37)
    rows, columns = y.sum(0), y.sum(1)
    (rows.exp().mean() + columns.tanh().sum()).backward()
    return [rows, columns, x.grad]


@program("H1", tags={"numpy"})
def expanded_operand_of_a_function(T: Any, log: Log) -> Any:
    """An expansion that a user's code reads, and a gradient summed back over it."""
    Square = np_square(T)
    x = leaf(T, 31, 1, dtype=F32)
    y = Square.apply(x.expand(31, 17)).sum(0)
    y.exp().mean().backward()
    return [y, x.grad]


@program("H1")
def permuted_operands(T: Any, log: Log) -> Any:
    """Axes in a third order, through reductions and elementwise ops."""
    x = leaf(T, 9, 10, 11, dtype=F32)
    y = (x * 1.5).permute(2, 0, 1)
    sums = [y.sum(0), y.sum(1), (y + 1).sum(2), y.mean((0, 2))]
    T.stack([(s * s).sum() for s in sums]).sum().backward()
    return [y, sums, x.grad]


@program("H1", tags={"numpy"})
def permuted_operand_of_a_function(T: Any, log: Log) -> Any:
    """Axes in a third order, into and out of a Function."""
    Tanh = np_tanh(T)
    x = leaf(T, 5, 6, 7, dtype=F32)
    y = Tanh.apply(x.permute(2, 0, 1)).permute(1, 2, 0)
    y.sum((0, 1)).exp().sum().backward()
    return [y, x.grad]


@program("H1", "BW-14", tags={"numpy"})
def expanded_gradient(T: Any, log: Log) -> Any:
    """The zero-stride gradient of a sum, given to a user's backward."""
    Linear = np_linear(T)
    x, w = leaf(T, 30, 20, dtype=F32), leaf(T, 20, 25, seed=1, dtype=F32)
    y = Linear.apply(x, w)
    y.sum().backward()
    return [y, x.grad, w.grad]


@program("H1", "EN-32", tags={"numpy"})
def gradient_returned_transposed(T: Any, log: Log) -> Any:
    """A transposed array returned by backward, copied on one side only before it is summed."""

    class Transpose(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy().T * 2)

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy().T * 2)

    x, w, y = product(T)
    z = Transpose.apply(y) @ x
    (z * z).sum().backward()
    return [z, x.grad, w.grad]


@program("H1", "EN-32")
def leaf_in_fortran_order(T: Any, log: Log) -> Any:
    """A leaf's own axis order lost, and with it the layout of its gradient."""
    x = T.from_numpy(np.asfortranarray(values(23, 19, dtype=F32))).requires_grad_()
    y = (x * x).sum(0) + (x @ x.T).sum()
    y.sum().backward()
    again = (x.grad * 3).sum(1)
    return [y, x.grad, again]


@program("H1")
def leaf_that_is_a_slice(T: Any, log: Log) -> Any:
    """A leaf made of a strided array."""
    array = values(40, 30, dtype=F32)
    x = T.from_numpy(array[::2, 3::4]).requires_grad_()
    y = x.sum(0) * x.sum(1).mean()
    y.sum().backward()
    return [y, x.grad]


@program("H1")
def batched_product_of_permuted_operands(T: Any, log: Log) -> Any:
    """Batches of matrices in an order that BLAS does not take."""
    x, w = leaf(T, 6, 5, 8, dtype=F32), leaf(T, 7, 6, 4, seed=1, dtype=F32)
    y = x.permute(1, 2, 0) @ w.permute(0, 1, 2)[:5]
    y.tanh().sum(1).sum().backward()
    return [y, x.grad, w.grad]


@program("H1")
def reshaped_after_transposing(T: Any, log: Log) -> Any:
    """A reshape that has to copy."""
    x = leaf(T, 12, 10, dtype=F32)
    y = x.T.reshape(8, 15).sum(1) + x.T.flatten()[3:11]
    (y * y).sum().backward()
    return [y, x.grad]


@program("H1")
def softmax_over_a_transposed_operand(T: Any, log: Log) -> Any:
    """Normalisation along an axis that is not the last in memory."""
    x, w, y = product(T)
    z = y.T.softmax(0) * y.T.log_softmax(1)
    z.sum(0).sum().backward()
    return [z, x.grad, w.grad]


@program("H1", "CX-14")
def contiguous_is_the_tensor_itself(T: Any, log: Log) -> Any:
    """A copy in a session where eagerly the tensor is returned, or the other way round."""
    x = leaf(T, 3, 3)
    results: list[Any] = []
    for make in (lambda: x * 2, lambda: x @ x.t(), lambda: (x * 2).t(), lambda: (x @ x.t()).t(), lambda: (x * 2)[1]):
        y = make()
        z = y.contiguous()
        same = z is y
        z.add_(1)
        x.grad = None
        (y * z).sum().backward()
        results += [same, y, z, x.grad]
    y = x * 2
    return [*results, +y is y]


@program("H1", "CX-14")
def repeated_tensors_are_copies(T: Any, log: Log) -> Any:
    """A view where nothing is repeated, or only what has one element."""
    x, row = leaf(T, 2, 3), leaf(T, 1, 3, seed=1)
    results: list[Any] = []
    for source, repeat in (
        (x, lambda y: y.repeat(1, 1)),
        (x, lambda y: y.tile((1,))),
        (x, lambda y: y.repeat(2, 1, 1)),
        (x, lambda y: y.t().repeat(1, 1)),
        (x, lambda y: y.repeat_interleave(1, 0)),
        (row, lambda y: y.repeat(3, 1)),
        (row, lambda y: y.repeat_interleave(2, 0)),
        (row, lambda y: y.expand(2, 3).repeat(2, 1)),
    ):
        y = source * 2
        z = repeat(y)
        z.add_(1)
        source.grad = None
        ((y * y).sum() + (z * z).sum()).backward()
        results += [y, z, z.is_contiguous(), source.grad]
    return results
