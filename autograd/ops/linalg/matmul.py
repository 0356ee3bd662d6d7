"""Matrix products: the op `matmul` with its kernel, shape rule and derivative, and mm, bmm, mv, dot, outer, addmm,
baddbmm on top.

The kernel sees dense operands only (H1). Further contractions composed of these are in `tensordot`; `linear`, with a
bias, is in `neural.linear`.
"""

from __future__ import annotations

import math
from typing import Any

from raygrad.errors import AutogradError, ShapeError

from ...core.array_layout import as_dense
from ...dispatch.dispatch import call_few
from ...dispatch.operand_errors import wrong_argument
from ...registry.define_op import broadcast_shape, conj, define, quiet
from ...registry.dtype_constraints import alike, no_bools
from ..elementwise.arithmetic import add, mul
from ..layout.axis_order import zeros_as
from ..layout.diagonals import diagonal
from ..layout.shape import reshape, transpose, unsqueeze
from ..reduction.reduce import sum

PUBLIC = "addbmm addmm addmv addr baddbmm bmm dot matmul mm mv outer trace".split()


def _flat(a: Any) -> Any:
    """Return batches of matrices as one matrix."""
    return reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))


def _matmul(a: Any, b: Any) -> Any:
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError
    a, b = as_dense(a), as_dense(b)
    if (a if a.base is None else a.base) is (b if b.base is None else b.base) and a is not b:
        # NumPy multiplies a matrix with its own transpose by another routine (SYRK), with other last bits, which a copy
        # of it on another worker would not be multiplied by.
        b = b.copy(order="K")
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous:
        return (_flat(a) @ b).reshape(*a.shape[:-1], b.shape[1])
    return a @ b


def _matmul_infer(params: tuple[Any, ...], a: Any, b: Any) -> Any:
    left, right = a.shape, b.shape
    if not left or not right:
        raise ShapeError(
            f"both arguments to matmul need to be at least 1D, but they are {len(left)}D and {len(right)}D"
        )
    if a.dtype != b.dtype:
        raise AutogradError(f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}")
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner:
        if len(left) == len(right) == 1:
            raise ShapeError(
                f"inconsistent tensor size, expected tensor [{left[0]}] and src [{right[0]}] to have the same number "
                f"of elements, but got {left[0]} and {right[0]} elements respectively"
            )
        rows = "x".join(str(extent) for extent in left)
        columns = "x".join(str(extent) for extent in right)
        raise ShapeError(f"mat1 and mat2 shapes cannot be multiplied ({rows} and {columns})")
    batch = broadcast_shape("matmul", (left[:-2], right[:-2]))
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ())), a.dtype


def conjugate_transpose(a: Any) -> Any:
    """Return the conjugate transposes of matrices."""
    return conj(transpose(a, -2, -1))


def _matmul_backward(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    na, nb = len(ctx.inputs[0][0]), len(ctx.inputs[1][0])
    to_a = to_b = None
    if na == 1 and nb == 1:
        return g * conj(b) if need_a else None, g * conj(a) if need_b else None
    if na == 1:  # (k) @ (..., k, n) -> (..., n)
        if need_a:
            to_a = reshape(matmul(conj(b), unsqueeze(g, -1)), ctx.inputs[1][0][:-1])
        return to_a, unsqueeze(conj(a), -1) * unsqueeze(g, -2) if need_b else None
    if nb == 1:  # (..., m, k) @ (k) -> (..., m)
        if need_b:
            to_b = matmul(reshape(g, (-1,)), conj(_flat(a)))
        return unsqueeze(g, -1) * conj(b) if need_a else None, to_b
    if need_a:
        to_a = matmul(g, conjugate_transpose(b))
    if need_b:
        if nb == 2 and na > 2:
            a, g = _flat(a), _flat(g)
        to_b = matmul(conjugate_transpose(a), g)
    return to_a, to_b


def _seen_through_views(inputs: Any) -> list[int]:
    """Return the operands of which PyTorch saves views: its kernels take two matrices, or two batches."""
    ranks = [len(shape) for shape, _ in inputs]
    itself = (ranks in ([1, 1], [2, 1], [2, 2]) or (ranks[0] == 1 and ranks[1] > 2), ranks[1] <= 2)
    return [position for position in (0, 1) if not itself[position]]


_MATMUL = define(
    "matmul",
    ("a", "b"),
    quiet(_matmul),
    _matmul_infer,
    _matmul_backward,
    saved_for={"a": "b", "b": "a"},
    detachable=_seen_through_views,
    promotes="arith",
    admits=no_bools,
)


def matmul(input: Any, other: Any) -> Any:
    """Return the product of matrices, of vectors, or of batches of matrices."""
    try:
        differ = input.dtype != other.dtype
    except AttributeError:
        number = input if hasattr(other, "dtype") else other
        argument, position = ("other", 2) if number is other else ("input", 1)
        raise wrong_argument("matmul", argument, position, "Tensor", type(number).__name__) from None
    if differ:
        _matmul_infer((), input, other)
    return call_few(_MATMUL, input, other)


def _expect(name: str, *operands: tuple[str, Any, int]) -> None:
    """Check the numbers of dimensions of operands; each comes with its name for the message."""
    for argument, operand, ndim in operands:
        if operand.ndim != ndim:
            raise ShapeError(f"{name}: {argument} must be a {ndim}D tensor, got {operand.ndim}D")


def mm(input: Any, mat2: Any) -> Any:
    """Return the product of two matrices."""
    _expect("mm", ("self", input, 2), ("mat2", mat2, 2))
    return matmul(input, mat2)


def bmm(input: Any, mat2: Any) -> Any:
    """Return the products of two batches of matrices of equal length."""
    _expect("bmm", ("batch1", input, 3), ("batch2", mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] "
            f"but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    return matmul(input, mat2)


def mv(input: Any, vec: Any) -> Any:
    """Return the product of a matrix and a vector."""
    _expect("mv", ("input", input, 2), ("vec", vec, 1))
    return matmul(input, vec)


def dot(input: Any, tensor: Any) -> Any:
    """Return the sum of products of two vectors."""
    _expect("dot", ("input", input, 1), ("tensor", tensor, 1))
    return matmul(input, tensor)


def outer(input: Any, vec2: Any) -> Any:
    """Return the matrix of all products of the elements of two vectors."""
    _expect("outer", ("input", input, 1), ("vec2", vec2, 1))
    return mul(unsqueeze(input, 1), vec2)


def trace(input: Any) -> Any:
    """Return the sum of a matrix's diagonal."""
    no_bools("trace", (), input.dtype)
    _expect("trace", ("input", input, 2))
    return sum(diagonal(input))


# ---- scaled additions ------------------------------------------------------------------------------------------------


def _scaled(value: Any, by: Any) -> Any:
    """Return `value` times a number in its own dtype: of bools and integers the number is converted, too."""
    if type(by) is int and by == 1:
        return value
    if value.dtype.kind in "biu" and isinstance(by, bool | int | float):
        by = bool(by) if value.dtype.kind == "b" else int(by)
    return mul(value, by)


def _plus(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """Return the scaled sum. With a `beta` of zero nothing of `input` is read but its shape: its NaNs are not there."""
    if input.shape != product.shape:
        _check_expands(input.shape, product.shape)
    product = _scaled(product, alpha)
    if isinstance(beta, int | float) and beta == 0:
        return add(zeros_as(input), product)
    return add(_scaled(input, beta), product)


def _check_expands(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raise unless what is added to a product broadcasts to its shape."""
    if len(shape) > len(wanted) or any([n not in (1, m) for n, m in zip(shape[::-1], wanted[::-1], strict=False)]):
        raise ShapeError(
            f"The expanded size of the tensor {list(wanted)} must match the existing size {list(shape)} of input at "
            "dimensions other than 1"
        )


@alike(0, 1)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return `beta * input + alpha * (mat1 @ mat2)`."""
    return _plus(input, mm(mat1, mat2), beta, alpha)


@alike(0, 1)
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return `beta * input + alpha * (mat @ vec)`."""
    return _plus(input, mv(mat, vec), beta, alpha)


def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return `beta * input + alpha * outer(vec1, vec2)`."""
    return _plus(input, outer(vec1, vec2), beta, alpha)


@alike(0, 1)
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return `beta * input + alpha * bmm(batch1, batch2)`."""
    return _plus(input, bmm(batch1, batch2), beta, alpha)


@alike(0, 1)
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return `beta * input + alpha * bmm(batch1, batch2).sum(0)`."""
    return _plus(input, sum(bmm(batch1, batch2), 0), beta, alpha)
