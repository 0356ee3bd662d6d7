"""Shape ops: reshape, view, squeeze, transpose, permute, expand, clone, contiguous, flip, roll. Views where NumPy gives
views.

Joins and splits are in `joining`, views by strides in `striding`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, DtypeError, ShapeError

from ...core.memory_format import contiguous_format
from ...devices.serving import is_device_array
from ...dispatch.dispatch import call
from ...dispatch.shape_errors import distinct_axes
from ...registry.define_op import Shape, axes_of, axis_of, broadcast_shape, define, infer_same, row_by_row
from ...storage.stride_geometry import is_contiguous
from ...tensor.tensor import Tensor
from .axis_order import in_memory_format

PUBLIC = """
    broadcast_shapes broadcast_tensors broadcast_to clone contiguous expand expand_as flatten flip moveaxis movedim
    permute reshape roll squeeze swapaxes swapdims t transpose unflatten unsqueeze view
""".split()

# ---- reshape ---------------------------------------------------------------------------------------------------------


def infer_size(shape: Sequence[int], size: int) -> Shape:
    """Return a shape with its -1 inferred.

    Raises:
        ShapeError: it does not hold `size` elements.
    """
    shape = tuple(shape)
    if -1 in shape:
        if shape.count(-1) > 1:
            raise ShapeError("only one dimension can be inferred")
        rest = -math.prod(shape)
        if rest == 0:
            if size == 0:
                raise ShapeError(
                    f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension "
                    "size -1 can be any value and is ambiguous"
                )
            raise ShapeError(f"shape '{list(shape)}' is invalid for input of size {size}")
        shape = tuple([size // rest if extent == -1 else extent for extent in shape])
        if math.prod(shape) != size:
            raise ShapeError(
                f"shape '{[-1 if e == size // rest else e for e in shape]}' is invalid for input of size {size}"
            )
    for index, extent in enumerate(shape):
        if extent < 0:
            raise ShapeError(f"invalid shape dimension {extent} at index {index} of shape {list(shape)}")
    if math.prod(shape) != size:
        raise ShapeError(f"shape '{list(shape)}' is invalid for input of size {size}")
    return shape


def _view(a: Any, shape: Shape) -> Any:
    try:
        return a.reshape(shape, copy=False)
    except ValueError:
        raise AutogradError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        ) from None


def _infer_reshape(params: tuple[Any, ...], a: Any) -> Any:
    return infer_size(params[0], math.prod(a.shape)), a.dtype


def _reshape_backward(ctx: Any, g: Any) -> Any:
    return reshape(g, ctx.inputs[0][0])


_RESHAPE = define(
    "reshape", ("a",), lambda a, shape: a.reshape(shape), _infer_reshape, _reshape_backward, saves="none", view=True
)
_VIEW = define("view", ("a",), _view, _infer_reshape, _reshape_backward, saves="none", view=True)


def reshape(input: Any, shape: Sequence[int]) -> Any:
    """Return the elements in another shape: a view where possible, else a copy."""
    return call(_RESHAPE, (input,), (infer_size(shape, math.prod(input.shape)),))


def view(input: Any, shape: Sequence[int]) -> Any:
    """Return a view in another shape.

    Raises:
        RuntimeError: only a copy could have it.
    """
    return call(_VIEW, (input,), (infer_size(shape, math.prod(input.shape)),))


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Return `input` with the dimensions from `start_dim` to `end_dim` made one: itself if that is one already."""
    ndim = input.ndim
    start, end = axis_of(start_dim, ndim), axis_of(end_dim, ndim)
    if start > end:
        raise AutogradError("flatten() has invalid args: start_dim cannot come after end_dim")
    shape = input.shape
    if start == end and ndim:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """Return `input` with dimension `dim` split into `sizes`."""
    axis = axis_of(dim, input.ndim)
    return reshape(input, (*input.shape[:axis], *infer_size(sizes, input.shape[axis]), *input.shape[axis + 1 :]))


# ---- dimensions of extent one ----------------------------------------------------------------------------------------


def _unsqueeze_infer(params: tuple[Any, ...], a: Any) -> Any:
    (axis,) = params
    return (*a.shape[:axis], 1, *a.shape[axis:]), a.dtype


_SQUEEZE = define(
    "squeeze",
    ("a",),
    lambda a, axes: a.squeeze(axes),
    lambda params, a: (tuple([extent for axis, extent in enumerate(a.shape) if axis not in params[0]]), a.dtype),
    _reshape_backward,
    saves="none",
    view=True,
)
_UNSQUEEZE = define(
    "unsqueeze",
    ("a",),
    lambda a, axis: a.reshape((*a.shape[:axis], 1, *a.shape[axis:])),
    _unsqueeze_infer,
    _reshape_backward,
    saves="none",
    view=True,
)


def squeeze(input: Any, dim: int | Sequence[int] | None = None) -> Any:
    """Return `input` without its dimensions of extent one: all, or those among `dim`."""
    axes = axes_of(dim, input.ndim) if dim is None or isinstance(dim, int) or len(dim) else ()
    return call(_SQUEEZE, (input,), (tuple([axis for axis in axes if input.shape[axis] == 1]),))


def unsqueeze(input: Any, dim: int) -> Any:
    """Return `input` with a dimension of extent one put in at `dim`."""
    return call(_UNSQUEEZE, (input,), (axis_of(dim, input.ndim + 1),))


# ---- the order of dimensions -----------------------------------------------------------------------------------------


def _transpose_infer(params: tuple[Any, ...], a: Any) -> Any:
    first, second = params
    shape = list(a.shape)
    if shape:
        shape[first], shape[second] = shape[second], shape[first]
    return tuple(shape), a.dtype


_TRANSPOSE = define(
    "transpose",
    ("a",),
    lambda a, first, second: a.swapaxes(first, second),
    _transpose_infer,
    lambda ctx, g: transpose(g, *ctx.params),
    saves="none",
    view=True,
)
_PERMUTE = define(
    "permute",
    ("a",),
    lambda a, axes: a.transpose(axes),
    lambda params, a: (tuple([a.shape[axis] for axis in params[0]]), a.dtype),
    lambda ctx, g: permute(g, [ctx.params[0].index(axis) for axis in range(len(ctx.params[0]))]),
    saves="none",
    view=True,
)


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Return `input` with two dimensions exchanged."""
    ndim = input.ndim
    first, second = axis_of(dim0, ndim), axis_of(dim1, ndim)
    return call(_TRANSPOSE, (input,), (first, second)) if ndim else call(_PERMUTE, (input,), ((),))


swapaxes = swapdims = transpose


def permute(input: Any, dims: Sequence[int]) -> Any:
    """Return `input` with its dimensions in another order."""
    ndim = input.ndim
    if len(dims) != ndim:
        raise ShapeError(
            "permute: number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(dims)}"
        )
    axes = tuple([axis_of(dim, ndim) for dim in dims])
    if len(set(axes)) != ndim:
        raise ShapeError("permute(): duplicate dims are not allowed.")
    return call(_PERMUTE, (input,), (axes,))


def t(input: Any) -> Any:
    """Return a matrix transposed; tensors of fewer dimensions unchanged."""
    if input.ndim > 2:
        raise AutogradError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, 1) if input.ndim == 2 else permute(input, range(input.ndim))


def movedim(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Return `input` with the dimensions `source` moved to `destination`, the others in their order."""
    ndim = input.ndim
    sources = distinct_axes("movedim", "source", [source] if isinstance(source, int) else source, ndim)
    targets = distinct_axes(
        "movedim", "destination", [destination] if isinstance(destination, int) else destination, ndim
    )
    if len(sources) != len(targets):
        raise ShapeError(
            f"movedim: Invalid source or destination dims: source ({sources} dims) should contain the same number of "
            f"dims as destination ({targets} dims)"
        )
    order = [axis for axis in range(ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute(input, order)


moveaxis = movedim

# ---- expansion -------------------------------------------------------------------------------------------------------


def _expand(a: Any, shape: Shape) -> Any:
    """Return a view with zero strides along expanded dimensions, read-only if there are any; NumPy's own function is
    slow."""
    if type(a) is not np.ndarray:
        if is_device_array(a):
            return np.broadcast_to(a, shape)
        a = np.asarray(a)
    if math.prod(shape) == a.size and a.flags.writeable:
        return a.reshape(shape)
    if not a.flags.c_contiguous or not a.size:
        return np.broadcast_to(a, shape)
    own = a.shape
    lead = len(shape) - len(own)
    strides = [0] * lead
    for axis, stride in enumerate(a.strides):
        strides.append(stride if own[axis] == shape[lead + axis] else 0)
    out: Any = np.ndarray(shape, a.dtype, a, 0, strides)
    if out.flags.writeable:
        out.flags.writeable = False
    return out


def _expanded(sizes: Sequence[int], own: Shape) -> Shape:
    """Return the shape that `expand(sizes)` gives."""
    lead = len(sizes) - len(own)
    if lead < 0:
        raise ShapeError(
            f"expand: the number of sizes provided ({len(sizes)}) must be greater or equal to the number of dimensions "
            f"in the tensor ({len(own)})"
        )
    out: list[int] = []
    for axis, size in enumerate(sizes):
        extent = own[axis - lead] if axis >= lead else None
        if size == -1:
            if extent is None:
                raise ShapeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {axis}"
                )
            out.append(extent)
        elif extent is None or extent in (1, size):
            out.append(int(size))
        else:
            raise ShapeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({extent}) at non-singleton "
                f"dimension {axis}.  Target sizes: {list(sizes)}.  Tensor sizes: {list(own)}"
            )
    return tuple(out)


# Its gradient is larger than its operand, and so is summed down by whoever runs the rule.
_EXPAND = define(
    "expand",
    ("a",),
    _expand,
    lambda params, a: (_expanded(params[0], a.shape), a.dtype),
    lambda ctx, g: g,
    saves="none",
    view=True,
)


def broadcast_shapes(*shapes: Any) -> Shape:
    """Return the shape that shapes broadcast to; a number is the shape of a vector.

    Raises:
        RuntimeError: they do not.
    """
    given = [(shape,) if isinstance(shape, int) else shape for shape in shapes]
    for shape in given:
        if isinstance(shape, str):
            raise DtypeError(f"broadcast_shapes(): shapes must be ints, or tuples of ints, not {shape!r}")
        if not isinstance(shape, tuple | list):
            raise AutogradError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
    given = [tuple(shape) for shape in given]
    if any(extent < 0 for shape in given for extent in shape):
        raise AutogradError(f"Trying to create tensor with negative dimension: {given}")
    return broadcast_shape("broadcast_shapes", given) if given else ()


def expand(input: Any, sizes: Sequence[int]) -> Any:
    """Return a view expanded to `sizes`, without copying; -1 keeps an extent."""
    return call(_EXPAND, (input,), (_expanded(sizes, input.shape),))


def expand_as(input: Any, other: Any) -> Any:
    """Return a view expanded to the shape of `other`."""
    return expand(input, other.shape)


broadcast_to = expand


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Return the tensors expanded to the shape that they broadcast to."""
    given: Any = tensors[0] if len(tensors) == 1 and type(tensors[0]) in (list, tuple) else tensors
    shape = broadcast_shape("broadcast_tensors", [tensor.shape for tensor in given]) if given else ()
    return tuple([expand(tensor, shape) for tensor in given])


# ---- copies ----------------------------------------------------------------------------------------------------------


_CLONE = define("clone", ("a",), lambda a: a.copy(order="K"), infer_same, lambda ctx, g: g, saves="none")
_CONTIGUOUS = define(
    "contiguous",
    ("a",),
    lambda a: a if a.flags.c_contiguous else a.copy(order="C"),
    infer_same,
    lambda ctx, g: g,
    saves="none",
)
_FLIP = define(
    "flip",
    ("a",),
    lambda a, axes: np.flip(a, axes).copy(),
    infer_same,
    lambda ctx, g: flip(g, ctx.params[0]),
    saves="none",
)
_ROLL = define(
    "roll",
    ("a",),
    row_by_row(np.roll),
    infer_same,
    lambda ctx, g: roll(g, [-shift for shift in ctx.params[0]], ctx.params[1]),
    saves="none",
)


def clone(input: Any, *, memory_format: Any = None) -> Any:
    """Return a copy, with the same axis order in memory, or in that of a memory format."""
    copy = call(_CLONE, (input,))
    return copy if memory_format is None else in_memory_format(copy, memory_format)


def contiguous(input: Any, memory_format: Any = None) -> Any:
    """Return `input` dense in C order, or in that of a memory format: itself if it is so already."""
    if memory_format is not None and memory_format is not contiguous_format:
        return in_memory_format(input, memory_format)
    data = getattr(input, "_data", input)
    if isinstance(data, np.ndarray):
        if data.flags.c_contiguous:
            return input
    elif isinstance(input, Tensor) and is_contiguous(input):
        return input
    return call(_CONTIGUOUS, (input,))


def dense_copy(input: Any) -> Any:
    """Return a copy that is dense in C order."""
    return clone(call(_CONTIGUOUS, (input,)))


def flip(input: Any, dims: int | Sequence[int]) -> Any:
    """Return a copy with the order of elements along `dims` reversed."""
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return call(_FLIP, (input,), (axes_of(dims, input.ndim) if dims else (),))


def roll(input: Any, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Any:
    """Return a copy with the elements along `dims` shifted round; without `dims`, of the flattened tensor."""
    moves = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    if dims is None:
        return reshape(roll(reshape(input, (-1,)), moves, (0,)), input.shape)
    axes = tuple([axis_of(d, input.ndim) for d in ((dims,) if isinstance(dims, int) else dims)])
    if len(axes) != len(moves):
        raise AutogradError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}")
    return call(_ROLL, (input,), (moves, axes))
