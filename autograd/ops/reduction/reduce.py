"""Reductions over dimensions with their derivatives: sum, mean, prod, var, std, logsumexp, and the cumulative sum.

Kernels see dense operands only (H1). Other cumulative ops are in `scans`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, MissingKernel

from ...core import dtypes
from ...core.array_layout import as_dense
from ...core.batched_data import Batched
from ...core.recorder import Pending
from ...dispatch.dispatch import call
from ...registry.define_op import (
    Part,
    Shape,
    axes_of,
    axis_of,
    conj,
    contiguous,
    define,
    define_together,
    quiet,
    real_of,
    reduction,
    row_by_row,
    xp,
)
from ...tensor.tensor import Tensor
from ..elementwise.unary import exp
from ..elementwise.where import keep
from ..layout.axis_order import to_dtype, zeros_as
from ..layout.joining import cat, stack
from ..layout.shape import expand, flip, movedim, reshape

PUBLIC = "cumsum logsumexp mean prod std std_mean sum var var_mean".split()

add_up, _multiply, _maximum = reduction(np.add, "sum"), reduction(np.multiply, "prod"), reduction(np.maximum, "max")

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_on_host: Any = np.add.reduce
"""The kernel of `add_up` for arrays on the host, called directly since sums and means are common."""

Dims = int | Sequence[int] | None


# ---- shapes ----------------------------------------------------------------------------------------------------------


def reduced_shape(shape: Shape, axes: Shape | None, keepdim: bool) -> Shape:
    """Return the shape after a reduction; None reduces all dimensions."""
    if axes is None:
        return (1,) * len(shape) if keepdim else ()
    if keepdim:
        return tuple([1 if axis in axes else extent for axis, extent in enumerate(shape)])
    return tuple([extent for axis, extent in enumerate(shape) if axis not in axes])


def static_of(input: Any, dim: Dims, keepdim: bool) -> tuple[Shape | None, bool]:
    """Return (axes, keepdim) as parameters of an op: None for all axes, one form for each meaning (H9)."""
    if dim is None:
        return None, keepdim
    axes = axes_of(dim, input.ndim)
    return (None if len(axes) == input.ndim else axes), keepdim


def count_of(shape: Shape, axes: Shape | None) -> int:
    return math.prod(shape if axes is None else [shape[axis] for axis in axes])


def keep_reduced_dims(value: Any, ctx: Any) -> Any:
    """Return a reduced value with its reduced dimensions kept as extent one."""
    axes, keepdim = ctx.params[:2]
    return value if keepdim else reshape(value, reduced_shape(ctx.inputs[0][0], axes, True))


def _spread(g: Any, ctx: Any) -> Any:
    """Return the gradient of a reduction's result, expanded to its operand's shape."""
    axes, keepdim = ctx.params[:2]
    if not keepdim and axes is not None:
        g = keep_reduced_dims(g, ctx)
    return expand(g, ctx.inputs[0][0])


def _counting(dtype: Any) -> Any:
    return np.dtype(np.int64) if dtype.kind in "iub" else dtype


# ---- sum, mean, product ----------------------------------------------------------------------------------------------


def _in_rows(out: Any, axes: Shape | None) -> Any:
    """Return a sum over some axes in C order; NumPy's result takes its operand's order."""
    return out if axes is None or not out.ndim else contiguous(out)


def _sum(a: Any, axes: Shape | None, keepdim: bool) -> Any:
    add = _on_host if type(a) is _ARRAY else add_up
    if a.dtype.kind in "iub":
        return _in_rows(add(a, axes, np.int64, None, keepdim), axes)
    if a.flags.c_contiguous:
        return add(a, axes, None, None, keepdim)
    return _in_rows(add(as_dense(a), axes, None, None, keepdim), axes)


def _sum_infer(params: tuple[Any, ...], a: Any) -> Any:
    return reduced_shape(a.shape, *params), _counting(a.dtype)


def _mean(a: Any, axes: Shape | None, keepdim: bool) -> Any:
    if a.dtype.kind in "iub":
        raise TypeError
    add = _on_host if type(a) is _ARRAY else add_up
    if a.flags.c_contiguous:
        return add(a, axes, None, None, keepdim) / a.dtype.type(count_of(a.shape, axes))
    return _in_rows(add(as_dense(a), axes, None, None, keepdim) / a.dtype.type(count_of(a.shape, axes)), axes)


def _mean_infer(params: tuple[Any, ...], a: Any) -> Any:
    if a.dtype.kind in "iub":
        raise AutogradError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {a.dtype}"
        )
    return reduced_shape(a.shape, *params), a.dtype


def _prod(a: Any, axes: Shape | None, keepdim: bool) -> Any:
    if a.dtype.kind in "iub":
        return _multiply(a, axes, np.int64, None, keepdim)
    return _multiply(as_dense(a), axes, None, None, keepdim)


def _prod_backward(ctx: Any, g: Any) -> Any:
    """Where no element is zero the product is divided by each, so that the product's history is in a second derivative
    (EN-31)."""
    a, out = ctx.saved_tensors
    axes, _ = ctx.params
    shape = ctx.inputs[0][0]
    if not shape:
        return g
    if axes is not None:
        g, out = keep_reduced_dims(g, ctx), keep_reduced_dims(out, ctx)
    if _has_no_zeros(a):
        return g * conj(out / a)
    if count_of(shape, axes) == 1:
        return reshape(g, shape)
    if axes is None:
        others = reshape(_product_of_others(reshape(a, (-1,))), shape)
    else:
        others = movedim(_product_of_others(movedim(a, axes[0], -1)), -1, axes[0])
    return g * conj(others)


def _has_no_zeros(a: Any) -> bool:
    """Tell whether an operand has no zeros; False for a batched tensor, and while a compiled function is recorded,
    where its values cannot be read."""
    if isinstance(a, Tensor):
        data = a._data
        if type(data) is Batched or (type(data) is Pending and not data.record.recorder.may_wait()):
            return False
        a = a._read()
    return bool(a.all())


def _product_of_others(a: Any) -> Any:
    """Return, per element of the last dimension, the product of the other ones; valid also with zeros.

    A tree of products: pairs are multiplied, their own others found, and handed back to each half of the pair.
    """
    extent = a.shape[-1]
    if extent <= 1:
        return zeros_as(a) + 1
    left, right = a[..., : extent // 2 * 2 : 2], a[..., 1::2]
    pairs = left * right
    last = a[..., extent - 1 :] if extent % 2 else None
    others = _product_of_others(pairs if last is None else cat([pairs, last], -1))
    of_pairs = others if last is None else others[..., :-1]
    out = reshape(stack([of_pairs * right, of_pairs * left], -1), (*a.shape[:-1], extent // 2 * 2))
    return out if last is None else cat([out, others[..., -1:]], -1)


_SUM = define("sum", ("a",), quiet(_sum), _sum_infer, lambda ctx, g: _spread(g, ctx), saves="none")


def _mean_backward(ctx: Any, g: Any) -> Any:
    return _spread(g / max(count_of(ctx.inputs[0][0], ctx.params[0]), 1), ctx)


_MEAN = define("mean", ("a",), quiet(_mean), _mean_infer, _mean_backward, saves="none")
_PROD = define("prod", ("a",), quiet(row_by_row(_prod)), _sum_infer, _prod_backward, saves=("a", "output"))


def converted(input: Any, dtype: Any) -> Any:
    return input if dtype is None or input.dtype == dtypes.as_dtype(dtype) else to_dtype(input, dtype)


def sum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the sum over `dim`, all dimensions by default; integers are summed as int64."""
    return call(_SUM, (converted(input, dtype),), static_of(input, dim, keepdim))


def mean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the mean over `dim`, all dimensions by default."""
    return call(_MEAN, (converted(input, dtype),), static_of(input, dim, keepdim))


def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the product over one dimension, or of all elements."""
    return call(_PROD, (converted(input, dtype),), static_of(input, dim, keepdim))


# ---- variance --------------------------------------------------------------------------------------------------------


def _var(a: Any, axes: Shape | None, keepdim: bool, correction: float) -> Any:
    if a.dtype.kind in "iub":
        raise TypeError
    a = as_dense(a)
    centred = a - add_up(a, axes, None, None, True) / a.dtype.type(max(count_of(a.shape, axes), 1))
    squares = (centred * centred.conj()).real if a.dtype.kind == "c" else centred * centred
    total = add_up(squares, axes, None, None, keepdim)
    return total / total.dtype.type(max(count_of(a.shape, axes) - correction, 0))


def _var_infer(params: tuple[Any, ...], a: Any) -> Any:
    if a.dtype.kind in "iub":
        raise AutogradError("std and var only support floating point and complex dtypes")
    return reduced_shape(a.shape, *params[:2]), real_of(a.dtype)


def _var_backward(ctx: Any, g: Any) -> Any:
    (a,) = ctx.saved_tensors
    axes, _, correction = ctx.params
    scale = 2 / free if (free := count_of(ctx.inputs[0][0], axes) - correction) > 0 else math.inf
    return keep_reduced_dims(g, ctx) * scale * (a - mean(a, axes, True))


def _std_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    axes, _, correction = ctx.params
    free = count_of(ctx.inputs[0][0], axes) - correction
    scaled = keep(g / (out * free), out != 0)
    return keep_reduced_dims(scaled, ctx) * (a - mean(a, axes, True))


def _std(a: Any, axes: Shape | None, keepdim: bool, correction: float) -> Any:
    return np.sqrt(_var(a, axes, keepdim, correction))


_AS_VAR = Part(quiet(row_by_row(_var)), _var_infer, _var_backward, 3, ("a",))
_AS_STD = Part(quiet(row_by_row(_std)), _var_infer, _std_backward, 3, ("a", "output"))
_AS_MEAN = Part(quiet(_mean), _mean_infer, _mean_backward, 2)
_VAR = define("var", ("a",), _AS_VAR.kernel, _var_infer, _var_backward)
_STD = define("std", ("a",), _AS_STD.kernel, _var_infer, _std_backward, saves=("a", "output"))
_VAR_MEAN = define_together("var_mean", _AS_VAR, _AS_MEAN)
_STD_MEAN = define_together("std_mean", _AS_STD, _AS_MEAN)


def _corrected(input: Any, dim: Any, unbiased: bool | None, correction: float | None, keepdim: bool) -> tuple[Any, ...]:
    if isinstance(dim, bool):  # PyTorch's older form: var(input, unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return *static_of(input, dim, keepdim), correction


def var(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """Return the variance over `dim`, divided by the count less `correction` (1 by default)."""
    return call(_VAR, (input,), _corrected(input, dim, unbiased, correction, keepdim))


def std(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """Return the standard deviation over `dim`; see `var`."""
    return call(_STD, (input,), _corrected(input, dim, unbiased, correction, keepdim))


def var_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """Return the variance and the mean over `dim`; see `var`."""
    return call(_VAR_MEAN, (input,), _corrected(input, dim, unbiased, correction, keepdim))


def std_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """Return the standard deviation and the mean over `dim`; see `std`."""
    return call(_STD_MEAN, (input,), _corrected(input, dim, unbiased, correction, keepdim))


# ---- log of sums, running sums, norms --------------------------------------------------------------------------------


def _logsumexp(a: Any, axes: Shape | None, keepdim: bool) -> Any:
    a = as_dense(a)
    top = _maximum(a.real, axes, None, None, True, -np.inf)  # of complex numbers the size of the powers is in it
    top = xp.where(xp.isfinite(top), top, top.dtype.type(0))
    out = xp.log(add_up(xp.exp(a - top), axes, None, None, True)) + top
    return out if keepdim else out.reshape(reduced_shape(a.shape, axes, False))


def _logsumexp_backward(ctx: Any, g: Any) -> Any:
    a, out = ctx.saved_tensors
    return keep_reduced_dims(g, ctx) * conj(exp(a - keep_reduced_dims(out, ctx)))


def running(ufunc: np.ufunc, method: str) -> Any:
    """Return the kernel of a ufunc's cumulative values, for which arrays of other libraries have a method; integers are
    accumulated as int64."""

    def run(a: Any, axis: int) -> Any:
        if not a.ndim:
            return a.astype(_counting(a.dtype))
        a = as_dense(a)
        if type(a) is not np.ndarray:
            return getattr(a, method)(axis, _counting(a.dtype))
        return ufunc.accumulate(a, axis, _counting(a.dtype))

    return quiet(row_by_row(run))


def infer_running(params: tuple[Any, ...], a: Any) -> Any:
    """The shape rule of cumulative ops."""
    return a.shape, _counting(a.dtype)


def reverse_cumsum(g: Any, axis: int) -> Any:
    """Return the cumulative sum from the end: the derivative of the cumulative sum."""
    return flip(cumsum(flip(g, axis), axis), axis)


_LOGSUMEXP = define(
    "logsumexp",
    ("a",),
    quiet(row_by_row(_logsumexp)),
    _sum_infer,
    _logsumexp_backward,
    saves=("a", "output"),
    promotes="float",
)
_CUMSUM = define(
    "cumsum",
    ("a",),
    running(np.add, "cumsum"),
    infer_running,
    lambda ctx, g: reverse_cumsum(g, *ctx.params) if g.shape else g,
    saves="none",
)


def logsumexp(input: Any, dim: Dims, keepdim: bool = False) -> Any:
    """Return `log(sum(exp(input)))` over `dim`, without overflow."""
    return call(_LOGSUMEXP, (input,), static_of(input, dim, keepdim))


def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return the running sum along `dim`."""
    if dtype is not None and dtypes.as_dtype(dtype).kind == "b":
        raise MissingKernel('"cumsum" not implemented for bool: sum in integers and compare with zero')
    return call(_CUMSUM, (converted(input, dtype),), (axis_of(dim, input.ndim),))
