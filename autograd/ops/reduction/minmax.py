"""Extremes over dimensions (max, min, amax, argmax), `all` and `any`.

Sorting is in `sort`, medians and quantiles in `order_statistics`, cumulative extremes in `scans`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError

from ...core import dtypes
from ...dispatch.dispatch import call
from ...dispatch.operand_errors import check_operand
from ...registry.define_op import Part, Shape, axis_of, define, define_together, reduction, row_by_row, space_of
from ...registry.dtype_constraints import P, R, checked, differentiated, no_complex, real_numbers, takes
from ..elementwise.arithmetic import maximum, minimum
from ..elementwise.where import keep
from ..indexing.gathering import scatter_zeros
from ..layout.axis_order import to_dtype
from ..layout.shape import unsqueeze
from .reduce import Dims, count_of, keep_reduced_dims, reduced_shape, static_of, sum

PUBLIC = "all amax amin any argmax argmin max min".split()


class ValuesIndices(NamedTuple):
    """The result of an op that returns values and their indices."""

    values: Any
    indices: Any


# ---- extremes --------------------------------------------------------------------------------------------------------


def _extreme(name: str, kernel: Any) -> tuple[Any, Any]:
    """Return the kernel and shape rule of a reduction to extremes, which refuses empty dimensions."""

    def extreme(a: Any, axes: Shape | None, keepdim: bool) -> Any:
        if a.dtype.kind == "c" and math.prod(reduced_shape(a.shape, axes, keepdim)):
            raise TypeError
        return kernel(a, axes, None, None, keepdim)

    def infer(params: tuple[Any, ...], a: Any) -> Any:
        axes, keepdim = params
        shape = reduced_shape(a.shape, axes, keepdim)
        if math.prod(shape):  # where nothing comes out, nothing is compared
            no_complex(name, (a,), a.dtype)
        if not count_of(a.shape, axes):
            if axes is None:
                raise AutogradError(
                    f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                    "Specify the reduction dim with the 'dim' argument."
                )
            _check_extent(name, a.shape, axes)
        return shape, a.dtype

    return row_by_row(extreme), infer


def _check_extent(name: str, shape: Shape, axes: Sequence[int]) -> None:
    for axis in axes:
        if not shape[axis]:
            raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")


def along_some(position: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function that compares elements along the dimension in its argument at `position`, if
    that names one: it raises IndexError where there are none, whatever their dtype is."""

    def check(name: str, given: tuple[Any, ...]) -> None:
        input, dim = given[0], given[position]
        if isinstance(dim, int) and input.ndim:
            _check_extent(name, input.shape, (axis_of(dim, input.ndim),))

    return checked(check)


def _extreme_backward(ctx: Any, g: Any) -> Any:
    """Ties share the gradient evenly; if the extreme is NaN, no element equals it, and all of the gradient is NaN."""
    a, out = ctx.saved_tensors
    ties = a == keep_reduced_dims(out, ctx)
    return _share(ctx, g, ties) * ties


def _share(ctx: Any, g: Any, ties: Any) -> Any:
    return keep_reduced_dims(g, ctx) / to_dtype(sum(ties, ctx.params[0], True), ctx.inputs[0][1])


def _shared_backward(ctx: Any, g: Any) -> Any:
    """Ties share the gradient evenly, and so do NaNs if the extreme is NaN; other elements get zero, whatever `g`
    is."""
    a, out = ctx.saved_tensors
    out = keep_reduced_dims(out, ctx)
    ties = (a == out) | ((a != a) & (out != out))
    return keep(_share(ctx, g, ties), ties)


def _with_places(name: str, search: Any) -> tuple[Any, Any]:
    """Return the kernel and shape rule of a reduction along one axis that also returns indices."""

    def with_places(a: Any, axis: int, keepdim: bool) -> Any:
        if not a.ndim:
            return a.copy(), space_of(a).zeros((), np.int64)
        places = search(a, axis, None, keepdims=True)
        values = np.take_along_axis(a, places, axis)
        return (values, places) if keepdim else (values.squeeze(axis), places.squeeze(axis))

    def infer(params: tuple[Any, ...], a: Any) -> Any:
        axis, keepdim = params
        if a.ndim:
            _check_extent(name, a.shape, (axis,))
        shape = reduced_shape(a.shape, (axis,), keepdim) if a.ndim else ()
        return [(shape, a.dtype), (shape, dtypes.int64)]

    return with_places, infer


def _with_places_backward(ctx: Any, grads: Any) -> Any:
    (places,) = ctx.saved_tensors
    axis, keepdim = ctx.params
    g, shape = grads[0], ctx.inputs[0][0]
    if g is None or not shape:
        return g
    if not keepdim:
        g, places = unsqueeze(g, axis), unsqueeze(places, axis)
    return scatter_zeros(g, axis, places, shape)


def _place(name: str, search: Any) -> tuple[Any, Any]:
    """Return the kernel and shape rule of argmax and argmin."""

    def place(a: Any, axis: int | None, keepdim: bool) -> Any:
        return search(a, axis, None, keepdims=keepdim) if a.ndim else space_of(a).zeros((), np.int64)

    def infer(params: tuple[Any, ...], a: Any) -> Any:
        axis, keepdim = params
        if not count_of(a.shape, None if axis is None or not a.ndim else (axis,)):
            raise IndexError(
                f"{name}(): Expected reduction dim {'to be specified for an empty tensor' if axis is None else axis}"
            )
        return reduced_shape(a.shape, None if axis is None else (axis,), keepdim), dtypes.int64

    return place, infer


_most, _least = reduction(np.maximum, "max"), reduction(np.minimum, "min")

_AMINMAX = define_together(
    "aminmax",
    Part(*_extreme("aminmax", _least), _extreme_backward, 2, ("a", "output")),
    Part(*_extreme("aminmax", _most), _extreme_backward, 2, ("a", "output")),
)
_AMAX = define("amax", ("a",), *_extreme("amax", _most), _extreme_backward, saves=("a", "output"))
_AMIN = define("amin", ("a",), *_extreme("amin", _least), _extreme_backward, saves=("a", "output"))
_GREATEST = define("greatest", ("a",), *_extreme("max", _most), _shared_backward, saves=("a", "output"))
_LEAST = define("least", ("a",), *_extreme("min", _least), _shared_backward, saves=("a", "output"))
_MAX = define(
    "max",
    ("a",),
    *_with_places("max", np.argmax),
    _with_places_backward,
    saves="output1",
    outputs=2,
    promotes="arith",
    admits=no_complex,
)
_MIN = define(
    "min",
    ("a",),
    *_with_places("min", np.argmin),
    _with_places_backward,
    saves="output1",
    outputs=2,
    promotes="arith",
    admits=no_complex,
)
_ARGMAX = define("argmax", ("a",), *_place("argmax", np.argmax), promotes="arith", admits=real_numbers)
_ARGMIN = define("argmin", ("a",), *_place("argmin", np.argmin), promotes="arith", admits=real_numbers)


def _named_of(name: str, input: Any, dim: Dims, keepdim: bool) -> tuple[Shape | None, bool]:
    """Return `static_of` after checking that no named dimension is empty, and that no derivative of complex numbers is
    requested.

    Raises:
        IndexError: a named dimension is empty.
        NotImplementedError: a derivative of complex numbers is requested. (Without a gradient, complex numbers are
            refused only where there are some to compare.)
    """
    if dim is not None and not count_of(input.shape, None):
        axes = (dim,) if isinstance(dim, int) else dim
        _check_extent(name, input.shape, [axis_of(axis, input.ndim) for axis in axes])
    if input.dtype.kind == "c" and differentiated(input):
        no_complex(name, (input,), input.dtype)
    return static_of(input, dim, keepdim)


def amax(input: Any, dim: Dims = (), keepdim: bool = False) -> Any:
    """Return the greatest element over `dim`; equal ones share the gradient."""
    return call(_AMAX, (input,), _named_of("amax", input, dim, keepdim))


def amin(input: Any, dim: Dims = (), keepdim: bool = False) -> Any:
    """Return the smallest element over `dim`; equal ones share the gradient."""
    return call(_AMIN, (input,), _named_of("amin", input, dim, keepdim))


def extremes(input: Any, dim: Dims = (), keepdim: bool = False) -> Any:
    """Return what `amin` and `amax` do, as the outputs of one op."""
    return call(_AMINMAX, (input,), _named_of("aminmax", input, dim, keepdim))


def greatest(input: Any, dim: Dims = (), keepdim: bool = False) -> Any:
    """Return the same as `amax`; if it is NaN, the NaNs share the gradient."""
    return call(_GREATEST, (input,), _named_of("amax", input, dim, keepdim))


def least(input: Any, dim: Dims = (), keepdim: bool = False) -> Any:
    """Return the same as `amin`; if it is NaN, the NaNs share the gradient."""
    return call(_LEAST, (input,), _named_of("amin", input, dim, keepdim))


@along_some(1)
def max(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the greatest element; with `dim` also where along it; with a tensor, the greater of the two."""
    if dim is None:
        return call(_GREATEST, (input,), (None, False))
    if hasattr(dim, "shape"):
        return maximum(input, dim)
    return ValuesIndices(*call(_MAX, (input,), (axis_of(dim, input.ndim), keepdim)))


@along_some(1)
def min(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the smallest element; with `dim` also where along it; with a tensor, the smaller of the two."""
    if dim is None:
        return call(_LEAST, (input,), (None, False))
    if hasattr(dim, "shape"):
        return minimum(input, dim)
    return ValuesIndices(*call(_MIN, (input,), (axis_of(dim, input.ndim), keepdim)))


@takes(real_numbers)
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the greatest element: along `dim`, or in the flattened tensor."""
    return call(_ARGMAX, (input,), (None if dim is None else axis_of(dim, input.ndim), keepdim))


@takes(real_numbers)
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the smallest element: along `dim`, or in the flattened tensor."""
    return call(_ARGMIN, (input,), (None if dim is None else axis_of(dim, input.ndim), keepdim))


# ---- all, any --------------------------------------------------------------------------------------------------------


def _truth_infer(params: tuple[Any, ...], a: Any) -> Any:
    return reduced_shape(a.shape, *params), dtypes.bool


_ALL = define("all", ("a",), lambda a, axes, keepdim: np.all(a, axes, None, keepdim), _truth_infer)
_ANY = define("any", ("a",), lambda a, axes, keepdim: np.any(a, axes, None, keepdim), _truth_infer)


def all(input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return whether all elements over `dim` are nonzero."""
    check_operand("all", input)
    return call(_ALL, (input,), static_of(input, dim, keepdim))


def any(input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return whether any element over `dim` is nonzero."""
    check_operand("any", input)
    return call(_ANY, (input,), static_of(input, dim, keepdim))
