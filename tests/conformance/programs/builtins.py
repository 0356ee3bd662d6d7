"""Built-in operations: broadcasting, indexing, dtypes, shapes, reductions."""

from __future__ import annotations

from typing import Any

from .functions import np_tanh
from .registry import Log, constant, leaf, program


@program("BW-07", "EN-38")
def broadcasting(T: Any, log: Log) -> Any:
    """Gradients that are not summed back to their operand's shape."""
    x, row, column, number = leaf(T, 3, 4), leaf(T, 4, seed=1), leaf(T, 3, 1, seed=2), leaf(T, seed=3)
    y = (x + row) * column - number / (1 + row * row)
    y.sum().backward()
    return [y, x.grad, row.grad, column.grad, number.grad]


@program("H9")
def python_numbers_as_operands(T: Any, log: Log) -> Any:
    """Numbers left and right of each operator, and the dtype that they must not change."""
    x = leaf(T, 5, dtype="float32")
    y = (2 - x) * 3 + 1 / (x * x + 1) - x / 7 + 2 ** (x / 2) + (x * x + 1) ** 0.5 - (-x)
    y.sum().backward()
    return [y, x.grad]


@program("EN-03")
def dtypes_meet(T: Any, log: Log) -> Any:
    """Type promotion in an operation, and the conversion back in its gradient."""
    x, y = leaf(T, 4, dtype="float32"), leaf(T, 4, seed=1)
    integers, flags = T.arange(4), T.tensor([True, False, True, True])
    z = x * y + x * integers + y * flags + integers / 2
    z.sum().backward()
    return [z, x * 2.5, integers * 2, integers / 2, integers + 0.5, flags + 1, x.grad, y.grad]


@program("EN-03")
def dtypes_converted(T: Any, log: Log) -> Any:
    """Conversions whose gradients keep the wrong dtype."""
    x = leaf(T, 4)
    y = x.float() * 3
    z = (y.double() * x).to(T.float32)
    z.sum().backward()
    return [y, z, x.grad, (x > 0).to(T.int64)]


@program("OU-04")
def indexing(T: Any, log: Log) -> Any:
    """Slices, integers, new axes and integer tensors, with repeated elements."""
    x = leaf(T, 6, 5)
    rows = T.tensor([0, 2, 2, 5])
    y = x[rows].sum() + (x[1] * x[:, 2][:5]).sum() + x[..., -1].exp().sum()
    z = x[1:5:2, None, 3] * x[rows, T.tensor([0, 1, 1, 4])][:2]
    (y + z.sum()).backward()
    return [y, z, x.grad]


@program("OU-04")
def integer_tensors_as_indices(T: Any, log: Log) -> Any:
    """Indices computed on the way, and a gather: cross entropy by hand."""
    logits = leaf(T, 5, 3)
    labels = T.tensor([0, 2, 1, 1, 0])
    picked = logits.log_softmax(1)[T.arange(5), labels]
    best = logits.argmax(1)
    loss = -picked.mean()
    loss.backward()
    return [loss, best, (best == labels).double().mean(), logits.grad]


@program("OU-04")
def mask_as_an_index(T: Any, log: Log) -> Any:
    """A result whose shape depends on data."""
    x = leaf(T, 9)
    positive = x[x > 0]
    (positive * positive).sum().backward()
    return [positive, x.grad]


@program("OU-04")
def where_and_comparisons(T: Any, log: Log) -> Any:
    """Masks as operands, and gradients on the side that was not taken."""
    x, y = leaf(T, 6), leaf(T, 6, seed=1)
    mask = (x > y) & (x != 0) | (y >= 1)
    z = T.where(mask, x * 2, y.exp()) + T.where(x < 0, x, 0.0) + T.maximum(x, y)
    z.sum().backward()
    return [mask, ~mask, z, x.grad, y.grad]


@program("EN-21")
def cat_and_stack(T: Any, log: Log) -> Any:
    """Pieces whose gradients are cut at the wrong place, one of them used twice."""
    x, y = leaf(T, 2, 3), leaf(T, 4, 3, seed=1)
    z = T.cat([x, y, x * 2], dim=0)
    s = T.stack([x, y[:2], y[2:]], dim=1)
    loss = (z * z).sum() + (s * T.arange(3).double()).sum()
    loss.backward()
    return [z, s, x.grad, y.grad]


@program("EN-19")
def split_and_join(T: Any, log: Log) -> Any:
    """Pieces of one tensor, one of them unused."""
    x = leaf(T, 7, 2)
    first, _, third = T.split(x, [2, 3, 2])
    a, b = x.chunk(2, dim=1)
    y = T.cat([first * 2, third.exp()]) * 3
    (y.sum() + (a * b).sum()).backward()
    return [y, x.grad]


@program("EN-19")
def softmax_and_log_softmax(T: Any, log: Log) -> Any:
    """Normalisation that overflows, or along the wrong axis."""
    x = leaf(T, 3, 4)
    y = (x * 500).softmax(1)
    z = T.log_softmax(x, dim=0)
    (y * z).sum().backward()
    return [y, z, x.grad]


@program("EN-19")
def activations(T: Any, log: Log) -> Any:
    """Kinks and signs of the activation functions."""
    x = leaf(T, 11)
    y = x.relu() + x.sigmoid() * T.tanh(x) + x.abs() + x.clamp(-0.5, 0.7) + x.clamp(min=0.1)
    y.sum().backward()
    return [y, x.grad]


@program("EN-19")
def maths_functions(T: Any, log: Log) -> Any:
    """A function's derivative away from where it is simple."""
    x = leaf(T, 7)
    positive = x * x + 0.5
    y = x.sin() * x.cos() + positive.log() + positive.sqrt() - positive.rsqrt() + x.exp() + positive.log1p() + x.expm1()
    y = y + positive.pow(1.5) + positive.reciprocal() + (x / 2) ** 3 + x.square() + x.neg() + x.atan()
    y.sum().backward()
    return [y, x.grad]


@program("EN-19")
def reductions(T: Any, log: Log) -> Any:
    """Sums, means, variances, products and maxima over some axes, kept or not."""
    x = leaf(T, 3, 4, 5)
    parts = [x.sum(1), x.mean((0, 2)), x.sum(-1, keepdim=True), x.var(1), x.amax(2), x.max(), x.prod(0), x.cumsum(1)]
    T.stack([(p * p).sum() for p in parts]).sum().backward()
    return [parts, x.max(1).values, x.max(1).indices, x.grad]


@program("EN-19")
def shapes(T: Any, log: Log) -> Any:
    """Views of views and their gradients."""
    x = leaf(T, 2, 3, 4)
    y = x.reshape(6, 4).transpose(0, 1).unsqueeze(1).expand(4, 5, 6).squeeze().flatten(1)
    z = x.permute(1, 2, 0).reshape(-1)[::5].view(5, 1)
    (y.sum(1).exp().sum() + (z * z).sum()).backward()
    return [y, z, x.grad]


@program("EN-19")
def products(T: Any, log: Log) -> Any:
    """Matrix products of vectors, matrices and batches."""
    a, b, v = leaf(T, 3, 4), leaf(T, 2, 4, 5, seed=1), leaf(T, 4, seed=2)
    parts = [a @ v, v @ v, a @ b, v @ b, T.matmul(b.transpose(1, 2), v), a.T @ a]
    T.stack([p.sin().sum() for p in parts]).sum().backward()
    return [parts, a.grad, b.grad, v.grad]


@program("OU-28")
def zero_dimensional_tensors(T: Any, log: Log) -> Any:
    """Numbers as tensors that become arrays of one element, or Python numbers."""

    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return T.as_tensor(x.numpy() ** 2)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return T.as_tensor(2 * x.numpy() * g.numpy())

    x = leaf(T)
    y = Square.apply(x) * Square.apply(x + 1)
    y.backward()
    return [y, x.grad, list(y.shape)]


@program("OU-28", "EN-38")
def empty_tensors(T: Any, log: Log) -> Any:
    """Tensors without elements, through Functions, reductions and broadcasting."""
    Tanh = np_tanh(T)
    x, row, one = leaf(T, 0, 3), leaf(T, 3, seed=1), leaf(T, 1, 3, seed=2)
    y = Tanh.apply(x) * row + one
    y.sum().backward()
    return [y, y.sum(0), x.grad, row.grad, one.grad]


@program("EN-19")
def float32_all_along(T: Any, log: Log) -> Any:
    """A float32 program that is computed in float64 somewhere."""
    Tanh = np_tanh(T)
    x, w = leaf(T, 8, 6, dtype="float32"), leaf(T, 6, 6, seed=1, dtype="float32")
    y = x
    for _ in range(3):
        y = Tanh.apply(y @ w * 0.5) + 1e-3
    loss = (y * y).mean()
    loss.backward()
    return [y, loss, x.grad, w.grad]


@program("EN-19")
def default_dtypes(T: Any, log: Log) -> Any:
    """The dtype of tensors made of Python numbers, and of NumPy's."""
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * T.tensor([1, 2]) + T.zeros(2) + T.ones(2, dtype=T.float64) + T.full((2,), 0.5)
    y.sum().backward()
    return [T.tensor(1.5), T.tensor(2), T.tensor(True), T.tensor([[1, 2.5]]), y, x.grad]


@program("EN-19")
def gradient_of_a_constant_factor(T: Any, log: Log) -> Any:
    """Operands that need no gradient and are not saved, or are."""
    Tanh = np_tanh(T)
    x, c = leaf(T, 4), constant(T, 4)
    y = Tanh.apply(x * c) * c.exp() + c.tanh()
    y.sum().backward()
    return [y, x.grad, c.grad]
