"""Cumulative ops along a dimension (cumprod, cummax, logcumsumexp), diff and trapezoid.

`cumsum` is in `reduce`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...core import dtypes
from ...dispatch.dispatch import call
from ...registry.define_op import (
    accumulation,
    axis_of,
    conj,
    define,
    infer_same,
    like_operand,
    log_of_sum,
    quiet,
    space_of,
    xp,
)
from ...registry.dtype_constraints import floats_alone, no_bools, no_complex_to_compare, takes
from ...tensor.tensor import Tensor
from ..elementwise.where import keep
from ..indexing.gathering import scatter_zeros
from ..layout.axis_order import to_dtype
from ..layout.joining import cat, narrow
from ..layout.padding import pad
from ..layout.shape import clone, expand, movedim, reshape, unsqueeze
from .minmax import ValuesIndices
from .reduce import cumsum, infer_running, reverse_cumsum, running, sum

PUBLIC = """
    cummax cummin cumprod cumulative_prod cumulative_sum cumulative_trapezoid diff logcumsumexp trapezoid trapz
""".split()

# ---- cumulative products ---------------------------------------------------------------------------------------------


def _cumprod_backward(ctx: Any, g: Any) -> Any:
    """The gradient: by a division for bare arrays without zeros, else by the products that leave each element out."""
    a, out = ctx.saved_tensors
    (axis,) = ctx.params
    if not g.ndim:
        return g
    if not isinstance(a, Tensor) and a.all():
        return reverse_cumsum(g * conj(out), axis) / conj(a)
    extent = ctx.inputs[0][0][axis]
    last = movedim(a, axis, -1)
    ones = space_of(a).eye(extent, dtype=bool)
    rows = expand(unsqueeze(last, -2), (*last.shape[:-1], extent, extent))
    without = cumprod(keep(rows, ~like_operand(ones, a)) + to_dtype(like_operand(ones, a), a.dtype), -1)
    kept = keep(without, like_operand(np.triu(space_of(a).ones((extent, extent), bool)), a))
    return movedim(sum(unsqueeze(movedim(g, axis, -1), -2) * conj(kept), -1), -1, axis)


_CUMPROD = define(
    "cumprod", ("a",), running(np.multiply, "cumprod"), infer_running, _cumprod_backward, saves=("a", "output")
)


def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return the running product along `dim`."""
    input = input if dtype is None else to_dtype(input, dtype)
    return call(_CUMPROD, (input,), (axis_of(dim, input.ndim),))


def _cumulative(of: Any, input: Any, axis: int | None, dtype: Any, include_initial: bool, initial: int) -> Any:
    if axis is None:
        if input.ndim > 1:
            raise AutogradError(f"expected an axis for a tensor of {input.ndim} dimensions")
        axis = 0
    out = of(input, axis, dtype=dtype)
    if not include_initial:
        return out
    widths = [(1, 0) if dim == axis_of(axis, out.ndim) else (0, 0) for dim in reversed(range(out.ndim))]
    return pad(out, [width for pair in widths for width in pair], value=initial)


def cumulative_sum(input: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Return the running sum as the array API standard has it: with `include_initial`, 0 before all."""
    return _cumulative(cumsum, input, axis, dtype, include_initial, 0)


def cumulative_prod(input: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Return the running product as the array API standard has it: with `include_initial`, 1 before all."""
    return _cumulative(cumprod, input, axis, dtype, include_initial, 1)


# ---- cumulative extremes ---------------------------------------------------------------------------------------------


_greatest, _log_of_reals = accumulation(np.maximum), accumulation(np.logaddexp)


def _log_of_sums(a: Any, axis: int) -> Any:
    """Return the logarithms of the cumulative sums of exponentials; complex ones step by step, since no ufunc does
    it."""
    if a.dtype.kind != "c":
        return _log_of_reals(a, axis)
    out = a.copy()
    steps = np.moveaxis(out, axis, 0)
    for place in range(1, len(steps)):
        steps[place] = log_of_sum(steps[place], steps[place - 1])
    return out


def _extremes(accumulate: Any) -> Any:
    def extremes(a: Any, axis: int) -> Any:
        if not a.ndim:
            return a.copy(), space_of(a).zeros((), np.int64)
        best = accumulate(a, axis)
        shape = [1] * a.ndim
        shape[axis] = -1
        here = space_of(a).arange(a.shape[axis]).reshape(shape)
        same = (a == best) | ((a != a) & (best != best))  # of equal ones the last; NaN stays, once there
        return best, _greatest(xp.where(same, here, 0), axis)

    return extremes


def _running_backward(ctx: Any, grads: Any) -> Any:
    (places,) = ctx.saved_tensors
    g = grads[0]
    return g if g is None or not g.shape else scatter_zeros(g, ctx.params[0], places, ctx.inputs[0][0])


_CUMMAX, _CUMMIN = (
    define(
        name,
        ("a",),
        _extremes(kernel),
        lambda params, a: [(a.shape, a.dtype), (a.shape, dtypes.int64)],
        _running_backward,
        saves="output1",
        outputs=2,
        promotes="arith",
        admits=no_complex_to_compare,
    )
    for name, kernel in (("cummax", _greatest), ("cummin", accumulation(np.minimum)))
)


def cummax(input: Any, dim: int) -> Any:
    """Return the greatest element so far along `dim`, and where it is: of equal ones the last."""
    return ValuesIndices(*call(_CUMMAX, (input,), (axis_of(dim, input.ndim),)))


def cummin(input: Any, dim: int) -> Any:
    """Return the smallest element so far along `dim`, and where it is: of equal ones the last."""
    return ValuesIndices(*call(_CUMMIN, (input,), (axis_of(dim, input.ndim),)))


# ---- cumulative log-sum-exp ------------------------------------------------------------------------------------------
#
# Two sums that go through all derivatives, each linear in h, computed in logarithms so that nothing overflows:
#   ahead(h, x, o)[i]  = sum over k >= i of h[k] exp(x[i] - o[k])
#   behind(h, x, o)[k] = sum over i <= k of h[i] exp(x[i] - o[k])


def _signed(h: Any, x: Any, o: Any, axis: int, ahead: bool) -> Any:
    if not h.ndim:
        return h * xp.exp(x - o)
    total = None
    for part in (h,) if h.dtype.kind == "c" else (xp.maximum(h, 0), xp.maximum(-h, 0)):
        logs = xp.log(part) + (-o if ahead else x)
        if ahead:
            logs = xp.flip(_log_of_sums(xp.flip(logs, axis), axis), axis) + x
        else:
            logs = _log_of_sums(logs, axis) - o
        powers = xp.exp(logs)
        total = powers if total is None else total - powers
    return total


def _ahead_backward(ctx: Any, g: Any) -> Any:
    h, x, o, out = ctx.saved_tensors
    to_h = call(_BEHIND, (g, conj(x), conj(o)), ctx.params)
    return to_h, g * conj(out), conj(-h) * to_h


def _behind_backward(ctx: Any, g: Any) -> Any:
    h, x, o, out = ctx.saved_tensors
    to_h = call(_AHEAD, (g, conj(x), conj(o)), ctx.params)
    return to_h, conj(h) * to_h, -g * conj(out)


_SUMS = ("h", "x", "o")
_AHEAD = define(
    "powers_ahead",
    _SUMS,
    quiet(lambda h, x, o, axis: _signed(h, x, o, axis, True)),
    infer_same,
    _ahead_backward,
    saves=(*_SUMS, "output"),
)
_BEHIND = define(
    "powers_behind",
    _SUMS,
    quiet(lambda h, x, o, axis: _signed(h, x, o, axis, False)),
    infer_same,
    _behind_backward,
    saves=(*_SUMS, "output"),
)


def _logcumsumexp_backward(ctx: Any, g: Any) -> Any:
    """The gradient; in single precision by way of double, as the logarithms' own rounding is relative to their size."""
    a, out = ctx.saved_tensors
    if a.dtype.itemsize < (16 if a.dtype.kind == "c" else 8):
        wide = np.result_type(a.dtype, np.float64)
        a, g = to_dtype(a, wide), to_dtype(g, wide)
        out = call(_LOGCUMSUMEXP, (a,), ctx.params)
    return call(_AHEAD, (g, conj(a), conj(out)), ctx.params)


_LOGCUMSUMEXP = define(
    "logcumsumexp",
    ("a",),
    quiet(lambda a, axis: _log_of_sums(a, axis) if a.ndim else a.copy()),
    infer_same,
    _logcumsumexp_backward,
    saves=("a", "output"),
    promotes="arith",
    admits=floats_alone,
)


def logcumsumexp(input: Any, dim: int) -> Any:
    """Return the logarithm of the running sum of `exp(input)` along `dim`, without overflow."""
    return call(_LOGCUMSUMEXP, (input,), (axis_of(dim, input.ndim),))


# ---- areas -----------------------------------------------------------------------------------------------------------


def _strips(y: Any, x: Any, dx: float | None, dim: int, name: str) -> Any:
    """Return the areas of the strips between neighbours."""
    if not y.ndim:
        raise AutogradError(f"{name}: expected at least one dimension of y")
    axis = axis_of(dim, y.ndim)
    extent = y.shape[axis]
    strips = narrow(y, axis, 1, max(extent - 1, 0)) + narrow(y, axis, 0, max(extent - 1, 0)) if extent else y
    if x is None:
        return strips * ((1.0 if dx is None else dx) / 2.0)
    if dx is not None:
        raise TypeError(f"{name}() received both x and dx: the points, or one distance between them")
    if x.ndim == 1 and x.shape[0] != extent:
        raise AutogradError(f"{name}: There must be one `x` value for each sample point, got {x.shape[0]} for {extent}")
    if x.ndim == 1:
        widths = reshape(diff(x), (-1, *(1,) * (y.ndim - axis - 1)))
    else:
        widths = diff(x, dim=dim)
    return widths * strips / 2.0


@takes(no_bools, 2)
def trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """Return the area below points along `dim` by the trapezoidal rule: at positions `x`, or `dx` (1) apart."""
    return sum(_strips(y, x, dx, dim, "trapezoid"), dim)


@takes(no_bools, 2)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """Return the cumulative sum of the trapezoids that `trapezoid` sums."""
    return cumsum(_strips(y, x, dx, dim, "cumulative_trapezoid"), dim)


trapz = trapezoid


# ---- neighbours ------------------------------------------------------------------------------------------------------


def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the differences of neighbours along `dim`, taken `n` times, with `prepend` before and `append` after.

    Raises:
        RuntimeError: a tensor without dimensions, or a negative `n`.
    """
    if not input.ndim:
        raise AutogradError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise AutogradError(f"order must be non-negative but got {n}")
    axis = axis_of(dim, input.ndim)
    if not n:
        return clone(input)
    given = [part for part in (prepend, input, append) if part is not None]
    out = cat(given, axis) if len(given) > 1 else input
    for _ in range(min(n, out.shape[axis])):
        rest = out.shape[axis] - 1
        after, before = narrow(out, axis, 1, rest), narrow(out, axis, 0, rest)
        out = after ^ before if out.dtype.kind == "b" else after - before
    return out
