"""Convolutions and transposed convolutions over one to three dimensions: three bilinear ops, whose derivatives are each
other.

Dimensions are batch, channels, then the convolved ones. Kernels multiply matrices of windows, so that BLAS does the
work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...dispatch.dispatch import call
from ...dispatch.shape_errors import check_not_negative, check_positive
from ...registry.define_op import Shape, conj, contiguous, define, quiet, space_of
from ...registry.dtype_constraints import no_bools, takes
from ..elementwise.arithmetic import add
from ..layout.padding import pad as bordered
from ..layout.shape import reshape, unsqueeze
from ..layout.windows import extent_of, strided

PUBLIC = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d".split()

# ---- the three ops ---------------------------------------------------------------------------------------------------
#
# Parameters: steps (strides), borders (padding), spreads (dilations), groups.


def _columns(
    a: Any, kernel: Shape, steps: Shape, borders: Shape, spreads: Shape, groups: int, places: Shape | None = None
) -> tuple[Any, Shape]:
    """Return, by batch and group, the matrix with a row for each element of a window and a column for each position;
    of these, the first `places` along each dimension."""
    if any(borders):
        a = np.pad(a, [(0, 0), (0, 0), *[(b, b) for b in borders]])
    dims = len(kernel)
    views = strided(a, tuple(range(2, 2 + dims)), kernel, steps, spreads)  # batch, channels, places, window
    if places is not None:
        views = views[(slice(None), slice(None), *[slice(n) for n in places])]
    taken: Shape = views.shape[2 : 2 + dims]
    order = (0, 1, *range(2 + dims, 2 + 2 * dims), *range(2, 2 + dims))
    batch, channels = a.shape[:2]
    rows = channels // groups * math.prod(kernel)
    return views.transpose(order).reshape(batch, groups, rows, math.prod(taken)), taken


def _by_group(w: Any, groups: int) -> Any:
    """Return weights as matrices: a row for each output channel of a group, a column for each element of a window."""
    return contiguous(w).reshape(groups, w.shape[0] // groups, math.prod(w.shape[1:]))


def _conv(a: Any, w: Any, steps: Shape, borders: Shape, spreads: Shape, groups: int) -> Any:
    columns, places = _columns(a, w.shape[2:], steps, borders, spreads, groups)
    return (_by_group(w, groups) @ columns).reshape(a.shape[0], w.shape[0], *places)


def _conv_infer(params: tuple[Any, ...], a: Any, w: Any) -> Any:
    steps, borders, spreads, _ = params
    places = [
        extent_of(n + 2 * b, k, step, spread)
        for n, b, k, step, spread in zip(a.shape[2:], borders, w.shape[2:], steps, spreads, strict=True)
    ]
    return (a.shape[0], w.shape[0], *places), a.dtype


def _to_input(g: Any, w: Any, steps: Shape, borders: Shape, spreads: Shape, groups: int, extents: Shape) -> Any:
    """The gradient with respect to the input, and the transposed convolution: windows times weights, summed where they
    overlap."""
    kernel, channels = w.shape[2:], groups * w.shape[1]
    batch, _, *places = g.shape
    incoming = contiguous(g).reshape(batch, groups, g.shape[1] // groups, math.prod(places))
    weights = contiguous(_by_group(w, groups).transpose(0, 2, 1))
    views = (weights @ incoming).reshape(batch, channels, *kernel, *places)
    wide = [n + 2 * b for n, b in zip(extents, borders, strict=True)]
    out = space_of(g).zeros((batch, channels, *wide), g.dtype)
    for place in np.ndindex(*kernel):
        region = tuple(
            [
                slice(offset * spread, offset * spread + step * (count - 1) + 1, step)
                for offset, spread, step, count in zip(place, spreads, steps, places, strict=True)
            ]
        )
        out[(slice(None), slice(None), *region)] += views[(slice(None), slice(None), *place)]
    inner = tuple([slice(b, b + n) for n, b in zip(extents, borders, strict=True)])
    return contiguous(out[(slice(None), slice(None), *inner)])


def _to_input_infer(params: tuple[Any, ...], g: Any, w: Any) -> Any:
    groups, extents = params[3:]
    return (g.shape[0], groups * w.shape[1], *extents), g.dtype


def _to_weight(a: Any, g: Any, steps: Shape, borders: Shape, spreads: Shape, groups: int, kernel: Shape) -> Any:
    columns, _ = _columns(a, kernel, steps, borders, spreads, groups, g.shape[2:])
    incoming = contiguous(g).reshape(g.shape[0], groups, g.shape[1] // groups, math.prod(g.shape[2:]))
    product = (incoming @ columns.swapaxes(-1, -2)).sum(0)
    return product.reshape(g.shape[1], a.shape[1] // groups, *kernel)


def _to_weight_infer(params: tuple[Any, ...], a: Any, g: Any) -> Any:
    groups, kernel = params[3:]
    return (g.shape[1], a.shape[1] // groups, *kernel), a.dtype


def _conv_backward(ctx: Any, g: Any) -> Any:
    a, w = ctx.saved_tensors
    need_a, need_w = ctx.needs_input_grad
    to_a = call(_TO_INPUT, (g, conj(w)), (*ctx.params, tuple(ctx.inputs[0][0][2:]))) if need_a else None
    to_w = call(_TO_WEIGHT, (conj(a), g), (*ctx.params, tuple(ctx.inputs[1][0][2:]))) if need_w else None
    return to_a, to_w


def _to_input_backward(ctx: Any, h: Any) -> Any:
    g, w = ctx.saved_tensors
    need_g, need_w = ctx.needs_input_grad
    to_g = _first(call(_CONV, (h, conj(w)), ctx.params[:4]), ctx.inputs[0][0]) if need_g else None
    to_w = call(_TO_WEIGHT, (h, conj(g)), (*ctx.params[:4], tuple(ctx.inputs[1][0][2:]))) if need_w else None
    return to_g, to_w


def _to_weight_backward(ctx: Any, h: Any) -> Any:
    a, g = ctx.saved_tensors
    need_a, need_g = ctx.needs_input_grad
    to_a = call(_TO_INPUT, (conj(g), h), (*ctx.params[:4], tuple(ctx.inputs[0][0][2:]))) if need_a else None
    return to_a, _first(call(_CONV, (conj(a), h), ctx.params[:4]), ctx.inputs[1][0]) if need_g else None


def _first(out: Any, shape: Shape) -> Any:
    """Return the first positions of a convolution, as many as `shape` has: a transposed one that pads its output by a
    step or more has none for the rest."""
    return out if tuple(out.shape) == tuple(shape) else out[tuple([slice(n) for n in shape])]


_CROSSED = {"w": "a", "a": "w"}
_CONV = define("conv", ("a", "w"), quiet(_conv), _conv_infer, _conv_backward, saved_for=_CROSSED)
_TO_INPUT = define(
    "conv_to_input", ("g", "w"), quiet(_to_input), _to_input_infer, _to_input_backward, saved_for={"w": "g", "g": "w"}
)
_TO_WEIGHT = define(
    "conv_to_weight",
    ("a", "g"),
    quiet(_to_weight),
    _to_weight_infer,
    _to_weight_backward,
    saved_for={"g": "a", "a": "g"},
)

# ---- the functions ---------------------------------------------------------------------------------------------------


def _each(value: int | Sequence[int], dims: int, name: str) -> Shape:
    """Return one number for each dimension."""
    if isinstance(value, int):
        return (value,) * dims
    given = tuple([int(v) for v in value])
    if len(given) not in (1, dims):
        raise AutogradError(f"expected {name} to be a single integer value or a list of {dims} values, got {given}")
    return given * dims if len(given) == 1 else given


def _steps(name: str, stride: Any, dilation: Any, dims: int) -> tuple[Shape, Shape]:
    """Return the strides and dilations, one for each dimension.

    Raises:
        RuntimeError: one is not positive.
    """
    steps, spreads = _each(stride, dims, "stride"), _each(dilation, dims, "dilation")
    check_positive(name, "stride", steps)
    check_positive(name, "dilation", spreads)
    return steps, spreads


def _batched(name: str, input: Any, dims: int) -> tuple[Any, bool]:
    if input.ndim == dims + 2:
        return input, True
    if input.ndim == dims + 1:
        return unsqueeze(input, 0), False
    raise ShapeError(
        f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of size: "
        f"{list(input.shape)}"
    )


def _biased(out: Any, bias: Any, dims: int, batched: bool) -> Any:
    if bias is not None:
        if tuple(bias.shape) != (out.shape[1],):
            raise ShapeError(
                f"expected bias to be 1-dimensional with {out.shape[1]} elements, but got {list(bias.shape)}"
            )
        out = add(out, reshape(bias, (-1, *(1,) * dims)))
    return out if batched else out[0]


def _checked(name: str, input: Any, weight: Any, channels: int, groups: int) -> None:
    check_positive(name, "groups", (groups,))
    if input.dtype != weight.dtype:
        raise AutogradError(f"Input type ({input.dtype}) and weight type ({weight.dtype}) should be the same")
    if weight.ndim != input.ndim:
        raise ShapeError(f"{name}: expected a weight of {input.ndim} dimensions, got {list(weight.shape)}")
    if input.shape[1] != channels or weight.shape[0] % groups:
        raise ShapeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{channels} channels, but got {input.shape[1]} channels instead"
        )


def _convolved(
    dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    name = f"conv{dims}d"
    input, batched = _batched(name, input, dims)
    if bias is not None and input.dtype != bias.dtype:
        raise AutogradError(f"Input type ({input.dtype}) and bias type ({bias.dtype}) should be the same")
    _checked(name, input, weight, weight.shape[1] * groups if weight.ndim > 1 else 0, groups)
    steps, spreads = _steps(name, stride, dilation, dims)
    kernel = weight.shape[2:]
    if padding == "valid":
        padding = 0
    if padding == "same":
        if any(step != 1 for step in steps):
            raise AutogradError("padding='same' is not supported for strided convolutions")
        totals = [spread * (k - 1) for spread, k in zip(spreads, kernel, strict=True)]
        if any(total % 2 for total in totals):
            input = bordered(input, [side for total in totals[::-1] for side in (0, total % 2)])
        padding = [total // 2 for total in totals]
    if isinstance(padding, str):
        raise AutogradError(f"Invalid padding string {padding!r}; use 'valid', 'same', or numbers")
    borders = _each(padding, dims, "padding")
    check_not_negative(name, "padding", borders)
    for n, b, k, spread in zip(input.shape[2:], borders, kernel, spreads, strict=True):
        if spread * (k - 1) + 1 > n + 2 * b:
            raise AutogradError(
                f"Calculated padded input size per channel: ({n + 2 * b}). Kernel size: ({spread * (k - 1) + 1}). "
                "Kernel size can't be greater than actual input size"
            )
    return _biased(call(_CONV, (input, weight), (steps, borders, spreads, int(groups))), bias, dims, batched)


@takes(no_bools, 2)
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Return the cross-correlation of `input` (batch, channels, length; the batch may be missing) and `weight`
    (output channels, channels / groups, length), plus `bias` (output channels).

    Args:
        padding: zeros on each side, or "valid" for none, or "same" for as many as keep the length.
    """
    return _convolved(1, input, weight, bias, stride, padding, dilation, groups)


@takes(no_bools, 2)
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Return the cross-correlation over two dimensions; see `conv1d`."""
    return _convolved(2, input, weight, bias, stride, padding, dilation, groups)


@takes(no_bools, 2)
def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Return the cross-correlation over three dimensions; see `conv1d`."""
    return _convolved(3, input, weight, bias, stride, padding, dilation, groups)


def _transposed(
    dims: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    name = f"conv_transpose{dims}d"
    input, batched = _batched(name, input, dims)
    _checked(name, input, weight, weight.shape[0], groups)
    steps, spreads = _steps(name, stride, dilation, dims)
    borders, extra = _each(padding, dims, "padding"), _each(output_padding, dims, "output_padding")
    check_not_negative(name, "padding", borders)
    check_not_negative(name, "output_padding", extra)
    if any(e >= max(step, spread) for e, step, spread in zip(extra, steps, spreads, strict=True)):
        raise AutogradError(f"output padding must be smaller than either stride or dilation, but got {list(extra)}")
    extents = tuple(
        [
            (n - 1) * step - 2 * b + spread * (k - 1) + e + 1
            for n, step, b, spread, k, e in zip(
                input.shape[2:], steps, borders, spreads, weight.shape[2:], extra, strict=True
            )
        ]
    )
    out = call(_TO_INPUT, (input, weight), (steps, borders, spreads, int(groups), extents))
    return _biased(out, bias, dims, batched)


@takes(no_bools, 2)
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return the transposed convolution of `input` and `weight` (channels, output channels / groups, length): what the
    gradient of `conv1d` by its input is."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@takes(no_bools, 2)
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return the transposed convolution over two dimensions; see `conv_transpose1d`."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@takes(no_bools, 2)
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return the transposed convolution over three dimensions; see `conv_transpose1d`."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
