"""Pooling (max, average, Lp, adaptive) and `unfold`/`fold` of `raygrad.nn.functional`.

Composed of the window ops in `layout.windows`.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...core import dtypes
from ...dispatch.shape_errors import check_not_negative, check_positive
from ...registry.define_op import Shape, like_operand, space_of
from ...registry.dtype_constraints import only, real_floats, real_numbers, takes
from ..elementwise.division import div
from ..layout.axis_order import to_dtype
from ..layout.joining import stack
from ..layout.padding import pad
from ..layout.shape import flatten, permute, reshape, unsqueeze
from ..layout.windows import windows, windows_together
from ..reduction.minmax import max
from ..reduction.reduce import sum
from .interpolation import apply_matrix, averaging_matrix, partition_bounds

PUBLIC = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d fold lp_pool1d lp_pool2d lp_pool3d max_pool1d max_pool2d
    max_pool3d
    unfold
""".split()


def each_dimension(value: int | Sequence[int], dims: int) -> Shape:
    given = (value,) if isinstance(value, int) else tuple([int(v) for v in value])
    if len(given) not in (1, dims):
        raise AutogradError(f"expected a number, or {dims} of them, got {given}")
    return given * dims if len(given) == 1 else given


def _batched(name: str, input: Any, dims: int) -> tuple[Any, bool]:
    if input.ndim not in (dims + 1, dims + 2):
        raise ShapeError(f"{name}: Expected {dims + 1}D or {dims + 2}D input tensor, but got {list(input.shape)}")
    if 0 in input.shape[input.ndim - dims - 1 :]:
        raise ShapeError(
            f"{name}: Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got: {list(input.shape)}"
        )
    return (input, True) if input.ndim == dims + 2 else (unsqueeze(input, 0), False)


class _Grid:
    """The windows of a pooling: their number along each dimension, and the padding that they need."""

    def __init__(
        self, input: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, dims: int
    ) -> None:
        self.kernel = each_dimension(kernel, dims)
        self.steps = self.kernel if stride is None or stride in ([], ()) else each_dimension(stride, dims)
        self.border, self.spreads = each_dimension(padding, dims), each_dimension(dilation, dims)
        for name, sizes in (("kernel_size", self.kernel), ("stride", self.steps), ("dilation", self.spreads)):
            if builtins.min(sizes) <= 0:
                raise AutogradError(f"pooling: {name} must be greater than zero, but got {builtins.min(sizes)}")
        if builtins.min(self.border) < 0:
            raise AutogradError(f"pad must be non-negative, but got pad: {builtins.min(self.border)}")
        self.extents = tuple(input.shape[2:])
        if any(2 * b > k for b, k in zip(self.border, self.kernel, strict=True)):
            raise AutogradError(
                f"pad should be at most half of effective kernel size, but got pad={self.border} and "
                f"kernel_size={self.kernel}"
            )
        self.counts: list[int] = []
        self.after: list[int] = []
        for n, k, step, b, spread in zip(self.extents, self.kernel, self.steps, self.border, self.spreads, strict=True):
            free = n + 2 * b - spread * (k - 1) - 1
            count = (-(-free // step) if ceil else free // step) + 1
            if ceil and (count - 1) * step >= n + b:  # a window has to begin inside
                count -= 1
            if count < 1:
                raise AutogradError(f"Given input size {self.extents}, the output size is too small: a window of {k}")
            self.counts.append(count)
            self.after.append(b + builtins.max((count - 1) * step + spread * (k - 1) + 1 - n - 2 * b, 0))

    def taken(self, input: Any, value: float | None) -> Any:
        """Return the windows of the padded input, the elements of each along one last dimension."""
        if any(self.border) or any(self.after):
            sides = [side for b, a in zip(self.border[::-1], self.after[::-1], strict=True) for side in (b, a)]
            input = pad(input, sides, "constant", value)
        axes = tuple(range(2, 2 + len(self.kernel)))
        grid = zip(self.counts, self.steps, self.spreads, self.kernel, strict=True)
        input = input[(..., *[slice(0, (n - 1) * step + spread * (k - 1) + 1) for n, step, spread, k in grid])]
        return flatten(windows(input, axes, self.kernel, self.steps, self.spreads), -len(axes))

    def sizes(self, include_pad: bool, xp: Any) -> Any:
        """Return the number of elements that count in each window, made with an array namespace."""
        out: Any = xp.ones(())
        for n, k, step, b, count in zip(self.extents, self.kernel, self.steps, self.border, self.counts, strict=True):
            start = xp.arange(count) * step - b
            stop = np.minimum(start + k, n + b)
            if not include_pad:
                start, stop = np.maximum(start, 0), np.minimum(stop, n)
            out = out[..., None] * (stop - start)
        return out

    def places(self, chosen: Any) -> Any:
        """Return the positions of chosen elements of the windows in the flattened input."""
        flat, rest = 0, chosen
        strides = [math.prod(self.extents[i + 1 :]) for i in range(len(self.extents))]
        for i in reversed(range(len(self.kernel))):
            offset, rest = rest % self.kernel[i], rest // self.kernel[i]
            shape = [-1 if axis == i else 1 for axis in range(len(self.kernel))]
            first = (space_of(chosen).arange(self.counts[i]) * self.steps[i] - self.border[i]).reshape(shape)
            flat = flat + (offset * self.spreads[i] + like_operand(first, chosen)) * strides[i]
        return flat


# ---- extremes and means over windows ---------------------------------------------------------------------------------


def _max_pool(
    dims: int, input: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: bool
) -> Any:
    input, batched = _batched(f"max_pool{dims}d", input, dims)
    grid = _Grid(input, kernel, stride, padding, dilation, ceil, dims)
    best, chosen = max(grid.taken(input, -math.inf), -1)
    out = best if batched else best[0]
    if not indices:
        return out
    places = grid.places(chosen)
    return out, places if batched else places[0]


@takes(real_numbers)
def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the greatest element of each window of (batch, channels, length); of equal ones the first gets the
    gradient.

    Args:
        stride: how far windows are apart, as far as they are long by default.
        padding: how many elements, lower than all, are put on each side.
        ceil_mode: let the last window go beyond the end.
        return_indices: return where the elements stand, too.
    """
    if not return_indices:
        real_floats("max_pool1d", (input,), input.dtype)
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@takes(real_numbers)
def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the greatest element of each window over two dimensions; see `max_pool1d`."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@takes(real_numbers)
def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the greatest element of each window over three dimensions; see `max_pool1d`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _avg_pool(
    dims: int, input: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, include: bool, divisor: int | None
) -> Any:
    input, batched = _batched(f"avg_pool{dims}d", input, dims)
    grid = _Grid(input, kernel, stride, padding, 1, ceil, dims)
    if divisor == 0:
        raise AutogradError("divisor must be not zero")
    xp = space_of(input)
    sizes = xp.asarray(grid.sizes(include, xp) if divisor is None else divisor, input.dtype)
    rounding = "trunc" if input.dtype.kind in "iu" else None
    out = div(sum(grid.taken(input, None), -1), like_operand(sizes, input), rounding_mode=rounding)
    return out if batched else out[0]


@takes(real_numbers)
def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Return the mean of each window of (batch, channels, length).

    Args:
        count_include_pad: let the zeros of the padding count.
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@takes(real_numbers)
def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Return the mean of each window over two dimensions, or the sum divided by `divisor_override`."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@takes(real_numbers)
def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Return the mean of each window over three dimensions; see `avg_pool2d`."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(dims: int, input: Any, p: float, kernel: Any, stride: Any, ceil: bool) -> Any:
    input, batched = _batched(f"lp_pool{dims}d", input, dims)
    grid = _Grid(input, kernel, stride, 0, 1, ceil, dims)
    out = sum(grid.taken(input, None) ** p, -1) ** (1.0 / p)
    return out if batched else out[0]


@takes(real_numbers)
def lp_pool1d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the root of the sum of powers of each window of (batch, channels, length)."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@takes(real_numbers)
def lp_pool2d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the root of the sum of powers of each window over two dimensions."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@takes(real_numbers)
def lp_pool3d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the root of the sum of powers of each window over three dimensions."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# ---- adaptive pooling ------------------------------------------------------------------------------------------------


def _wanted(name: str, size: Any, input: Any, dims: int) -> list[int]:
    """Return the extents of an adaptive pooling's result.

    Raises:
        ValueError: the input has too few dimensions.
        RuntimeError: another number of extents, or a negative one.
    """
    if dims > 1 and input.ndim <= dims and isinstance(size, list | tuple):
        raise ValueError(f"{name}: Input dimension should be at least {dims + 1}, but got {input.ndim}")
    if input.ndim < dims + ("max" in name or dims == 1):
        raise ShapeError(f"{name}: Expected {dims + 1} or {dims + 2} dimensions, but got {input.ndim}")
    given = [size] * dims if isinstance(size, int) or size is None else list(size)
    if len(given) != dims:
        raise AutogradError(f"{name}: output_size should contain {dims} int{'s' * (dims > 1)}, but got {given}")
    check_not_negative(name, "output_size", [want for want in given if want is not None])
    empty = 0 in input.shape[-dims - ("max" in name) :] and 0 not in given
    if empty or (dims < 3 and input.ndim > dims + 2):
        raise ShapeError(
            f"{name}: Expected {dims + 1}D or {dims + 2}D input with non-zero size for non-batch dimensions, but got "
            f"{list(input.shape)}"
        )
    return [n if want is None else int(want) for want, n in zip(given, input.shape[-dims:], strict=True)]


def _adaptive_avg(dims: int, input: Any, size: Any) -> Any:
    for axis, count in enumerate(_wanted(f"adaptive_avg_pool{dims}d", size, input, dims), input.ndim - dims):
        input = apply_matrix(input, averaging_matrix(input.shape[axis], count, space_of(input)), axis)
    return input


@takes(real_floats)
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Return the means over as many parts of the last dimension as are wanted."""
    return _adaptive_avg(1, input, output_size)


@takes(real_floats)
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Return the means over as many parts of the last two dimensions as are wanted; None keeps an extent."""
    return _adaptive_avg(2, input, output_size)


@takes(real_floats)
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Return the means over as many parts of the last three dimensions as are wanted; None keeps an extent."""
    return _adaptive_avg(3, input, output_size)


def _adaptive_max(dims: int, input: Any, size: Any, indices: bool) -> Any:
    counts, extents = _wanted(f"adaptive_max_pool{dims}d", size, input, dims), input.shape[-dims:]
    edges: Any = [partition_bounds(n, count) for n, count in zip(extents, counts, strict=True)]
    cells: list[Any] = []
    places: list[Any] = []
    for place in np.ndindex(*counts):
        bounds = [edges[axis][i] for axis, i in enumerate(place)]
        best, chosen = max(flatten(input[(..., *[slice(*pair) for pair in bounds])], -dims), -1)
        cells.append(best)
        places.append(_place_in_whole(chosen, bounds, extents) if indices else None)
    shape = (*input.shape[:-dims], *counts)
    if not cells:
        empty = reshape(flatten(input, -dims)[..., :0], shape)
        return (empty, to_dtype(empty, dtypes.int64)) if indices else empty
    out = reshape(stack(cells, -1), shape)
    return (out, reshape(stack(places, -1), shape)) if indices else out


def _place_in_whole(chosen: Any, bounds: Sequence[tuple[int, int]], extents: Shape) -> Any:
    """Return the positions in the flattened whole of elements chosen in a flattened region."""
    flat, rest, stride = 0, chosen, 1
    for (start, stop), extent in zip(reversed(bounds), reversed(extents), strict=True):
        flat = flat + (rest % (stop - start) + start) * stride
        rest, stride = rest // (stop - start), stride * extent
    return flat


@takes(real_floats)
def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Return the greatest element of as many parts of the last dimension as are wanted.

    Args:
        return_indices: return where the elements stand, too.
    """
    return _adaptive_max(1, input, output_size, return_indices)


@takes(real_floats)
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Return the greatest element of as many parts of the last two dimensions as are wanted; None keeps an extent. See
    `adaptive_max_pool1d`."""
    return _adaptive_max(2, input, output_size, return_indices)


@takes(real_floats)
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Return the greatest element of as many parts of the last three dimensions as are wanted; None keeps an extent.
    See `adaptive_max_pool1d`."""
    return _adaptive_max(3, input, output_size, return_indices)


# ---- windows as columns ----------------------------------------------------------------------------------------------


@takes(only("bfc"))
def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Return the windows of images (batch, channels, height, width) as columns: (batch, channels * window, places)."""
    input, batched = _batched("unfold", input, 2)
    (kh, kw), spreads, (ph, pw), steps = (each_dimension(v, 2) for v in (kernel_size, dilation, padding, stride))
    for argument, sizes in (("kernel_size", (kh, kw)), ("dilation", spreads), ("stride", steps)):
        check_positive("unfold", argument, sizes)
    check_not_negative("unfold", "padding", (ph, pw))
    taken = windows(pad(input, (pw, pw, ph, ph)), (2, 3), (kh, kw), steps, spreads)
    places = math.prod(taken.shape[2:4])
    out = reshape(permute(taken, (0, 1, 4, 5, 2, 3)), (input.shape[0], input.shape[1] * kh * kw, places))
    return out if batched else out[0]


@takes(only("bfc"))
def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Return images in which columns, as `unfold` makes them, are added where they would be taken from.

    Raises:
        RuntimeError: columns that do not fit.
    """
    batched = input.ndim == 3
    input = input if batched else unsqueeze(input, 0)
    (height, width), (kh, kw), spreads, (ph, pw), steps = (
        each_dimension(v, 2) for v in (output_size, kernel_size, dilation, padding, stride)
    )
    wide = (height + 2 * ph, width + 2 * pw)
    places = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(wide, (kh, kw), spreads, steps, strict=True)]
    if input.shape[1] % (kh * kw) or input.shape[2] != math.prod(places):
        raise ShapeError(
            f"fold: expected columns of a multiple of {kh * kw} elements, {math.prod(places)} of them, got "
            f"{list(input.shape)}"
        )
    channels = input.shape[1] // (kh * kw)
    taken = permute(reshape(input, (input.shape[0], channels, kh, kw, *places)), (0, 1, 4, 5, 2, 3))
    out = windows_together(taken, (2, 3), steps, spreads, (input.shape[0], channels, *wide))
    out = out[:, :, ph : ph + height, pw : pw + width]
    return out if batched else out[0]
