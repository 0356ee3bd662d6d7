"""Indexing by brackets: `x[...]`, `x[...] = y`, and ops that read or write elements by several index tensors.

An index is split in two: a *basic* part (integers, slices, None, Ellipsis), which gives a view and travels as a
constant of plain numbers, so that moving a slice makes no new plan (H9); then an *advanced* part, index tensors along
some axes of that view. PyTorch applies them in this order, too; NumPy treats integers beside tensors differently.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...devices import device_of
from ...devices.serving import as_kernel_result, move_array
from ...dispatch.dispatch import call
from ...registry.define_op import Op, Shape, broadcast_shape, contiguous, define, infer_shaped, space_of
from ...tensor.tensor import Tensor
from ..elementwise.compare import ne
from ..elementwise.where import nonzero, where
from ..layout.axis_order import to_dtype, zeros_apart
from ..layout.device_transfer import to_device
from ..layout.joining import stack
from ..layout.shape import expand, reshape, unsqueeze

PUBLIC = "getitem".split()

Basic = tuple[Any, ...]
"""A normalised basic index: per entry an integer, (start, stop, step), or None for a new dimension."""

# ---- splitting an index ----------------------------------------------------------------------------------------------


def take_apart(index: Any, shape: Shape, *, numbers: bool = True) -> tuple[Basic, dict[int, Any]]:
    """Return the basic part of an index into `shape`, and the index tensors by axis of that part's result.

    Args:
        numbers: a tensor that holds one integer, without dimensions, counts as that integer, where it is at hand.

    Raises:
        IndexError: too many indices, an integer out of bounds, something that is no index.
        ValueError: a step that is not positive.
    """
    entries: list[Any] = [*index] if isinstance(index, tuple) else [index]
    for position, entry in enumerate(entries):
        if isinstance(entry, Tensor | np.ndarray | list):
            entries[position] = _index_values(entry, numbers)
    used = sum(_width(entry) for entry in entries)
    if used > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    rest = len(shape) - used
    basic: list[Any] = []
    advanced: dict[int, Any] = {}
    axis = made = 0
    for position, entry in enumerate(entries):
        if entry is Ellipsis:
            if rest < 0:
                raise IndexError("an index can only have a single ellipsis ('...')")
            basic.extend([(0, extent, 1) for extent in shape[axis : axis + rest]])
            axis, made, rest = axis + rest, made + rest, -1
        elif entry is None:
            basic.append(None)
            made += 1
        elif isinstance(entry, slice):
            basic.append(_bounds(entry, shape[axis]))
            axis, made = axis + 1, made + 1
        elif isinstance(entry, Tensor):
            width = _width(entry)
            if not width:  # a mask without dimensions: one new dimension is taken, or none of it
                basic.append(None)
                advanced[made] = reshape(entry, (1,))
                made += 1
                continue
            if entry.dtype.kind == "b":
                _check_mask(entry, shape[axis : axis + width], position)
            advanced[made] = entry
            basic.extend([(0, extent, 1) for extent in shape[axis : axis + width]])
            axis, made = axis + width, made + width
        else:
            basic.append(_integer(entry, shape[axis], axis))
            axis += 1
    basic.extend([(0, extent, 1) for extent in shape[axis:]])
    return tuple(basic), advanced


def _index_values(entry: Any, numbers: bool) -> Any:
    """Return an index tensor as a tensor of integers or bools; to tell `numbers` apart, one integer as a number, unless
    it is pending. Bytes are bools, as in PyTorch, whose masks they once were."""
    values = entry if isinstance(entry, Tensor) else Tensor.made(np.asarray(entry))
    if values._data.size == 0 and isinstance(entry, list):
        values = Tensor.made(np.zeros(values.shape, np.int64))
    if values.dtype.kind not in "iub":
        raise IndexError(f"tensors used as indices must be integer or bool tensors, got {values.dtype}")
    if values.dtype.kind == "u" and not isinstance(entry, list):
        warnings.warn(
            "an index of dtype uint8 is a mask, where it is not zero: use a bool tensor for a mask, or .long() for "
            "positions",
            UserWarning,
            stacklevel=5,
        )
        values = ne(values, 0)
    if numbers and values.dtype.kind != "b" and not values.ndim and type(values._data) is np.ndarray:
        return int(values._data)
    return values


def _width(entry: Any) -> int:
    """Return the number of dimensions that an entry consumes."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, Tensor) and entry.dtype.kind == "b" else 1


def _bounds(entry: Any, extent: int) -> tuple[int, int, int]:
    step = 1 if entry.step is None else operator.index(entry.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero; use flip to reverse a dimension")
    start, stop, step = slice(entry.start, entry.stop, step).indices(extent)
    return start, max(start, stop), step


def _integer(entry: Any, extent: int, axis: int) -> int:
    if isinstance(entry, bool | np.bool_):
        raise IndexError("a Python bool is no index; use a bool tensor")
    try:
        number = operator.index(entry)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(entry).__name__})"
        ) from None
    if not -extent <= number < extent:
        raise IndexError(f"index {number} is out of bounds for dimension {axis} with size {extent}")
    return number % extent


def _check_mask(mask: Tensor, extents: Shape, position: int) -> None:
    if mask.shape != extents:
        raise IndexError(
            f"The shape of the mask {list(mask.shape)} at index {position} does not match the shape of the indexed "
            f"tensor {list(extents)} at index {position}"
        )


def _as_index(basic: Basic) -> tuple[Any, ...]:
    """Return a normalised basic index as NumPy takes it."""
    return tuple([e if e is None or isinstance(e, int) else slice(e[0], e[1], e[2]) for e in basic])


def is_whole(basic: Basic, shape: Shape) -> bool:
    """Tell whether a basic index selects a whole tensor of a shape, in order."""
    return basic == tuple([(0, extent, 1) for extent in shape])


def rows_of(advanced: dict[int, Any], shape: Shape) -> tuple[tuple[int, ...], Any]:
    """Return the axes that index tensors go along, and the tensors as one: a row per axis, broadcast to each other."""
    axes: list[int] = []
    columns: list[Any] = []
    for axis, values in advanced.items():
        if values.dtype.kind == "b":
            places = nonzero(values)
            for offset in range(values.ndim):
                axes.append(axis + offset)
                columns.append(places[:, offset])
        else:
            axes.append(axis)
            columns.append(values)
    if len(columns) == 1:
        return tuple(axes), unsqueeze(columns[0], 0)
    try:
        common = broadcast_shape("index", [column.shape for column in columns])
    except ShapeError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            + ", ".join(str(list(column.shape)) for column in columns)
        ) from None
    return tuple(axes), stack([column if column.shape == common else expand(column, common) for column in columns])


# ---- the basic part --------------------------------------------------------------------------------------------------


def _getitem(a: Any, index: Basic) -> Any:
    out = a[_as_index(index)]
    return out if isinstance(out, type(a)) else a[(*_as_index(index), Ellipsis)]  # of one element NumPy gives a copy


def _getitem_infer(params: tuple[Any, ...], a: Any, index: Basic) -> Any:
    shape: list[int] = []
    for entry in index:
        if entry is None:
            shape.append(1)
        elif not isinstance(entry, int):
            start, stop, step = entry
            shape.append(-(-(stop - start) // step))
    return tuple(shape), a.dtype


def _getitem_grad(g: Any, index: Basic, shape: Shape) -> Any:
    out = space_of(g).zeros(shape, g.dtype)
    out[_as_index(index)] = g
    return out


_GETITEM = define(
    "getitem",
    ("a", "index"),
    _getitem,
    _getitem_infer,
    lambda ctx, g: (zeros_around(g, ctx.saved_tensors[0], ctx.inputs[0][0]), None),
    saves="index",
    view=True,
    weak_numbers=False,
)
_GETITEM_GRAD = define(
    "getitem_grad",
    ("g", "index"),
    _getitem_grad,
    lambda params, g, index: (params[0], g.dtype),
    lambda ctx, g: (call(_GETITEM, (g, ctx.saved_tensors[0])), None),
    saves="index",
)


def _setitem(a: Any, value: Any, index: Basic) -> Any:
    out = a.copy(order="K")
    out[_as_index(index)] = value
    return out


def _setitem_backward(ctx: Any, g: Any) -> Any:
    (index,) = ctx.saved_tensors
    need_a, need_value, _ = ctx.needs_input_grad
    to_a = None
    if need_a:  # nothing of what was overwritten as a whole remains, and so its zeros have no history
        to_a = zeros_apart(g) if is_whole(index, ctx.inputs[0][0]) else call(_SETITEM, (g, 0, index))
    return to_a, call(_GETITEM, (g, index)) if need_value else None, None


def _setitem_infer(params: tuple[Any, ...], a: Any, value: Any, index: Basic) -> Any:
    if hasattr(value, "shape"):
        _check_value(value.shape, _getitem_infer((), a, index)[0])
    return a.shape, a.dtype


def _check_value(given: Shape, region: Shape) -> None:
    """Raise unless values of a shape can be put into a region (leading ones of the values are ignored)."""
    own = list(given)
    while len(own) > len(region) and own[0] == 1:
        own.pop(0)
    if len(own) > len(region) or any(n not in (1, m) for n, m in zip(reversed(own), reversed(region), strict=False)):
        raise ShapeError(
            f"shape mismatch: value tensor of shape {list(given)} cannot be broadcast to indexing result of shape "
            f"{list(region)}"
        )


def zeros_around(input: Any, place: Basic, shape: Shape) -> Any:
    """Return zeros of `shape` with `input` in the region of a basic index."""
    return call(_GETITEM_GRAD, (input, place), (tuple(shape),))


def put_region(input: Any, value: Any, place: Basic) -> Any:
    """Return a copy of `input` with `value` in the region of a basic index."""
    return call(_SETITEM, (input, value, place))


_SETITEM = define("setitem", ("a", "value", "index"), _setitem, _setitem_infer, _setitem_backward, saves="index")

# ---- the advanced part -----------------------------------------------------------------------------------------------


def _at(rows: Any, axes: Shape, ndim: int) -> tuple[Any, ...]:
    """Return the NumPy index with `rows` along `axes`."""
    out: list[Any] = [slice(None)] * ndim
    for row, axis in zip(rows, axes, strict=True):
        out[axis] = row
    return tuple(out)


def _index(a: Any, rows: Any, axes: Shape) -> Any:
    try:
        out = a[_at(rows, axes, a.ndim)]
    except IndexError:
        _check_bounds(rows, [a.shape[axis] for axis in axes], axes)
        raise
    return out.copy() if rows.ndim == 1 else contiguous(out)  # by integers NumPy gives a view, else any order (H1)


def _check_bounds(rows: Any, extents: Sequence[int], axes: Sequence[int]) -> None:
    for row, extent, axis in zip(rows, extents, axes, strict=True):
        wrong = row[(row < -extent) | (row >= extent)]
        if wrong.size:
            raise IndexError(f"index {wrong.reshape(-1)[0]} is out of bounds for dimension {axis} with size {extent}")


def _indexed_shape(shape: Shape, picked: Shape, axes: Shape) -> Shape:
    """Return the shape of the result: the picked dimensions stand in place of adjacent axes, else in front."""
    if math.prod(picked) and any(not shape[axis] for axis in axes):
        raise IndexError("index is out of bounds for dimension with size 0")
    rest = [extent for axis, extent in enumerate(shape) if axis not in axes]
    place = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
    return (*rest[:place], *picked, *rest[place:])


def _index_grad(g: Any, rows: Any, axes: Shape, shape: Shape) -> Any:
    out = space_of(g).zeros(shape, g.dtype)
    space_of(out).add.at(out, _at(rows, axes, len(shape)), g)
    return out


def _index_put(a: Any, value: Any, rows: Any, axes: Shape, accumulate: bool) -> Any:
    out = a.copy(order="K")
    where_to = _at(rows, axes, a.ndim)
    if accumulate:
        space_of(out).add.at(out, where_to, value)
    else:
        out[where_to] = value
    return out


def _index_put_infer(params: tuple[Any, ...], a: Any, value: Any, rows: Any) -> Any:
    if hasattr(value, "shape"):
        _check_value(value.shape, _indexed_shape(a.shape, rows.shape[1:], params[0]))
    return a.shape, a.dtype


def _index_put_backward(ctx: Any, g: Any) -> Any:
    (rows,) = ctx.saved_tensors
    axes, accumulate = ctx.params
    need_a, need_value, _ = ctx.needs_input_grad
    to_a = None
    if need_a:
        to_a = g if accumulate else call(INDEX_PUT, (g, 0, rows), (axes, False))
    return to_a, call(INDEX, (g, rows), (axes,)) if need_value else None, None


INDEX: Op = define(
    "index",
    ("a", "rows"),
    _index,
    lambda params, a, rows: (_indexed_shape(a.shape, rows.shape[1:], params[0]), a.dtype),
    lambda ctx, g: (call(_INDEX_GRAD, (g, ctx.saved_tensors[0]), (*ctx.params, tuple(ctx.inputs[0][0]))), None),
    saves="rows",
)
_INDEX_GRAD = define(
    "index_grad",
    ("g", "rows"),
    _index_grad,
    infer_shaped(1),
    lambda ctx, g: (call(INDEX, (g, ctx.saved_tensors[0]), (ctx.params[0],)), None),
    saves="rows",
)
INDEX_PUT = define("index_put", ("a", "value", "rows"), _index_put, _index_put_infer, _index_put_backward, saves="rows")


def _placed(value: Any, input: Any) -> Any:
    """Return an index or a value on the device of `input`; as in PyTorch, those on the host work with any device."""
    if not isinstance(value, Tensor) or not isinstance(input, Tensor):
        return value
    return value if value.device.type != "cpu" else to_device(value, input.device)


def getitem(input: Any, index: Any) -> Any:
    """Return `input[index]`."""
    basic, advanced = take_apart(index, input.shape)
    if not advanced:
        return call(_GETITEM, (input, basic))
    taken = input if is_whole(basic, input.shape) else call(_GETITEM, (input, basic))
    axes, rows = rows_of(advanced, taken.shape)
    return call(INDEX, (taken, _placed(rows, taken)), (axes,))


def with_item(input: Any, index: Any, value: Any) -> Any:
    """Return a copy of `input` in which `input[index]` is `value`, converted to its dtype.

    Raises:
        RuntimeError: `value` is a tensor of another dtype, and `index` has tensors in it.
    """
    if not isinstance(value, Tensor | bool | int | float | complex):
        value = to_dtype(_placed(Tensor.made(np.asarray(value)), input), input.dtype)
    basic, advanced = take_apart(index, input.shape)
    if isinstance(value, Tensor) and value.dtype != input.dtype:
        _check_same(input, value, advanced)
        value = to_dtype(value, input.dtype)
    if not advanced:
        if isinstance(value, Tensor) and isinstance(input, Tensor):
            value = to_device(value, input.device)  # elements are copied there, from wherever they are
        return call(_SETITEM, (input, _fitting(value, _getitem_infer((), input, basic)[0]), basic))
    whole = is_whole(basic, input.shape)
    region = input if whole else call(_GETITEM, (input, basic))
    if len(advanced) == 1 and not getattr(value, "ndim", 0):
        ((axis, mask),) = advanced.items()
        if mask.dtype.kind == "b":  # no need to know where the mask holds
            after = region.ndim - axis - mask.ndim
            mask = reshape(_placed(mask, input), mask.shape + (1,) * after)
            number = value if isinstance(value, Tensor) else input.dtype.type(value).item()
            put = where(mask, number, region)
            return put if whole else call(_SETITEM, (input, put, basic))
    axes, rows = rows_of(advanced, region.shape)
    rows = _placed(rows, region)
    value = _fitting(value, _indexed_shape(region.shape, rows.shape[1:], axes))
    put = call(INDEX_PUT, (region, value, rows), (axes, False))
    return put if whole else call(_SETITEM, (input, put, basic))


def _check_same(input: Any, value: Any, advanced: dict[int, Any]) -> None:
    if len(advanced) == 1 and math.prod(value.shape) == 1 and next(iter(advanced.values())).dtype.kind == "b":
        if value.dtype.kind == "c" != input.dtype.kind:
            raise AutogradError(
                f"a complex value cannot be converted to type {input.dtype} without loss: fill with its .real"
            )
        return  # else a mask is filled with one value, whatever its dtype
    if advanced:
        raise AutogradError(
            f"Index put requires the source and destination dtypes match, got {input.dtype} for the destination and "
            f"{value.dtype} for the source: convert it with .to({input.dtype})"
        )


def _fitting(value: Any, region: Shape) -> Any:
    """Return a value without the leading dimensions that the region lacks."""
    if isinstance(value, Tensor):
        _check_value(value.shape, region)
        if value.ndim > len(region):
            return reshape(value, value.shape[value.ndim - len(region) :])
    return value


def write_item(array: Any, index: Any, value: Any) -> None:
    """Write a value into an array, as `with_item` does for tensors."""
    basic, advanced = take_apart(index, array.shape)
    if advanced:
        if isinstance(value, Tensor) and value.dtype != array.dtype:
            _check_same(array, value, advanced)
        region = array[_as_index(basic)]
        axes, rows = rows_of(advanced, region.shape)
        rows = move_array(rows._data, device_of(array))
        value = _bare(value, _indexed_shape(region.shape, rows.shape[1:], axes), array)
        _check_bounds(rows, [region.shape[axis] for axis in axes], axes)
        region[_at(rows, axes, region.ndim)] = value
    else:
        array[_as_index(basic)] = _bare(value, _getitem_infer((), array, basic)[0], array)


def _bare(value: Any, region: Shape, array: Any) -> Any:
    """Return a value for writing to a region of an array, as numbers or an array of its device."""
    if isinstance(value, bool | int | float | complex):
        return value
    data: Any = move_array(as_kernel_result(value._read() if isinstance(value, Tensor) else value), device_of(array))
    _check_value(data.shape, region)
    return data.reshape(data.shape[data.ndim - len(region) :]) if data.ndim > len(region) else data
