"""Views by strides or dtype: `as_strided`, `view(dtype)`, and writing to such views.

Strides are given as those of memory, and become positions among a tensor's elements at once; these hold wherever its
value travels (H1). A view reaches what its base shows of the memory, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...core import dtypes
from ...core.array_layout import overlaps_itself
from ...core.batched_data import Batched
from ...dispatch.dispatch import call
from ...registry.define_op import Shape, define, infer_same, infer_shaped, like_operand, sizes_of, space_of
from ...storage.storage import owner_of
from ...storage.stride_geometry import layout_in_memory, strides_of
from ...storage.view_geometry import WRITTEN_TWICE, GeometricView, ViewGeometry, element_numbers, geometry_from_strides

PUBLIC = ["as_strided"]

Place = tuple[Shape, Shape, int]
"""Shape, strides and offset in memory, in elements."""

# ---- by strides ------------------------------------------------------------------------------------------------------


def _as_strided(a: Any, shape: Shape, strides: Shape, offset: int, order: Shape) -> Any:
    out = GeometricView(ViewGeometry(order, 1, offset, strides), shape).over(a)
    if out is not None:
        return out
    return a.transpose(order).reshape(-1)[element_numbers(shape, strides, offset, space_of(a))]


def _as_strided_grad(g: Any, shape: Shape, strides: Shape, offset: int, order: Shape, whole: Shape) -> Any:
    """Add each element to its source."""
    xp = space_of(g)
    out = xp.zeros(math.prod(whole), g.dtype)
    xp.add.at(out, element_numbers(shape, strides, offset, xp), g)
    return _back_in_order(out, whole, order)


def _put_strided(a: Any, value: Any, shape: Shape, strides: Shape, offset: int, order: Shape) -> Any:
    out = a.transpose(order).reshape(-1)
    out = out.copy() if out.base is not None else out
    out[element_numbers(shape, strides, offset, space_of(a))] = value
    return _back_in_order(out, a.shape, order)


def _put_strided_backward(ctx: Any, g: Any) -> Any:
    need_a, need_value = ctx.needs_input_grad
    return (
        call(_PUT_STRIDED, (g, 0), ctx.params) if need_a else None,
        call(_AS_STRIDED, (g,), ctx.params) if need_value else None,
    )


def _back_in_order(flat: Any, shape: Shape, order: Shape) -> Any:
    """Return elements that were flattened in another axis order in their original shape."""
    return flat.reshape([shape[axis] for axis in order]).transpose([order.index(axis) for axis in range(len(order))])


_AS_STRIDED = define(
    "as_strided",
    ("a",),
    _as_strided,
    infer_shaped(0),
    lambda ctx, g: call(_AS_STRIDED_GRAD, (g,), (*ctx.params, tuple(ctx.inputs[0][0]))),
    saves="none",
    view=True,
)
_AS_STRIDED_GRAD = define(
    "as_strided_grad",
    ("g",),
    _as_strided_grad,
    infer_shaped(4),
    lambda ctx, g: call(_AS_STRIDED, (g,), ctx.params[:4]),
    saves="none",
)
_PUT_STRIDED = define("put_strided", ("a", "value"), _put_strided, infer_same, _put_strided_backward, saves="none")


# ---- by strides, beyond the elements of the tensor -------------------------------------------------------------------


def _strided_around(a: Any, inner: Any, shape: Shape, strides: Shape, offset: int, order: Shape, *places: Place) -> Any:
    return _as_strided(a, shape, strides, offset, order)


def _strided_around_backward(ctx: Any, g: Any) -> Any:
    """Give the tensor that the view was asked of the gradients of the elements that both show, and what holds them
    none: so does PyTorch. Where the tensor shows an element more than once, its places share the gradient."""
    *_, shown, own = ctx.params
    inner = call(_THROUGH_MEMORY, (g,), (shown, own))
    if overlaps_itself(own[0], own[1]):
        ones = space_of(g).ones(own[0], g.dtype)
        inner = inner / like_operand(_through_memory(ones, own, own), g)
    return None, inner


def _through_memory(g: Any, source: Place, target: Place) -> Any:
    """Add elements to memory of zeros at a place, and return what another place shows of that."""
    xp = space_of(g)
    to, at = (element_numbers(*place, xp) for place in (source, target))
    memory = xp.zeros(1 + max([int(one.max()) for one in (to, at) if one.size], default=0), g.dtype)
    xp.add.at(memory, to, g)
    return memory[at]


_STRIDED_AROUND = define(
    "strided_around",
    ("a", "inner"),
    _strided_around,
    infer_shaped(0),
    _strided_around_backward,
    saves="none",
    view=True,
    # made again after a change, its history leads to the base alone, as in PyTorch
    shown=lambda operands, params, number: (_AS_STRIDED, operands[:1], params[:4]),
)


def _through_memory_backward(ctx: Any, g: Any) -> Any:
    source, target = ctx.params
    return call(_THROUGH_MEMORY, (g,), (target, source))


_THROUGH_MEMORY = define(
    "through_memory",
    ("g",),
    _through_memory,
    lambda params, g: (params[1][0], g.dtype),
    _through_memory_backward,
    saves="none",
)


def as_strided(input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """Return a view of other size and strides, counted in elements of memory.

    Args:
        storage_offset: where it starts, counted from where the memory does; by default where `input` starts.

    Raises:
        RuntimeError: it does not lie inside of `input` and its base; or, in a session, the strides of `input` are not
            known.
    """
    shape, steps = sizes_of((size,)), sizes_of((stride,))
    if len(shape) != len(steps):
        raise ShapeError(f"mismatch in length of strides and shape: got size {list(shape)} and stride {list(steps)}")
    if any(step < 0 for step in steps):
        raise AutogradError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(steps)}")
    if storage_offset is not None and storage_offset < 0:
        raise AutogradError(f"Tensor: invalid storage offset {storage_offset}")
    own = _strides_in_elements(input)
    held = None if type(input._data) is Batched else layout_in_memory(input)
    begin = 0 if held is None else held.start // held.itemsize
    offset = 0 if storage_offset is None else storage_offset - begin
    place = geometry_from_strides(input.shape, own, 1, offset, shape, steps)
    if place is not None:
        return placed(input, shape, place.strides, place.offset, place.order)
    owner = owner_of(input)
    if held is not None and owner is not input and owner.dtype == input.dtype:
        around = geometry_from_strides(owner.shape, _strides_in_elements(owner), 1, offset + begin, shape, steps)
        if around is not None:
            whole = owner if input._requires_grad else owner.detach()
            places = ((shape, steps, offset + begin), (tuple(input.shape), own, begin))
            params = (shape, around.strides, around.offset, around.order, *places)
            return call(_STRIDED_AROUND, (whole, input), params)
    raise AutogradError(_outside(owner, shape, steps, offset + begin))


def _strides_in_elements(tensor: Any) -> Shape:
    """Return the strides of a tensor, in elements; wait for a pending value. Under `vmap`, one example is counted in C
    order, wherever its elements are."""
    if type(tensor._data) is Batched:
        return tuple([math.prod(tensor.shape[axis + 1 :]) for axis in range(tensor.ndim)])
    own = strides_of(tensor, wait=True)
    if own is None:
        raise AutogradError(
            "as_strided: the strides of this tensor are not known here, while a function is compiled: use unfold, "
            "diagonal or an index instead"
        )
    return tuple([stride // tensor.dtype.itemsize for stride in own])


def _outside(input: Any, shape: Shape, steps: Shape, offset: int) -> str:
    return (
        f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {offset} are out of bounds: such a "
        f"view shows memory outside of the tensor of shape {list(input.shape)}"
    )


def placed(input: Any, shape: Shape, strides: Shape, offset: int, order: Shape) -> Any:
    """Return the view of a strided region of a tensor whose elements are counted in an axis order."""
    return call(_AS_STRIDED, (input,), (shape, strides, offset, order))


def put_placed(input: Any, value: Any, shape: Shape, strides: Shape, offset: int, order: Shape) -> Any:
    """Return a copy of `input` with `value` in the strided region that `placed` views.

    Raises:
        RuntimeError: the place shows elements more than once.
    """
    if overlaps_itself(shape, strides):
        raise AutogradError(WRITTEN_TWICE)
    return call(_PUT_STRIDED, (input, value), (shape, strides, offset, order))


# ---- views by dtype --------------------------------------------------------------------------------------------------


def _view_dtype(a: Any, dtype: str) -> Any:
    wanted = np.dtype(dtype)
    if a.itemsize != wanted.itemsize and a.shape[-1] > 1 and a.strides[-1] != a.itemsize:
        raise AutogradError(
            f"self.stride(-1) must be 1 to view {a.dtype} as {wanted} (different element sizes), but got "
            f"{a.strides[-1] // a.itemsize}: use .contiguous() first"
        )
    return a.view(wanted)


def _view_dtype_infer(params: tuple[Any, ...], a: Any) -> Any:
    wanted = np.dtype(params[0])
    if wanted.itemsize == a.dtype.itemsize:
        return a.shape, wanted
    what = f"to view {a.dtype} as {wanted} (different element sizes)"
    if not a.shape:
        raise AutogradError(f"self.dim() cannot be 0 {what}")
    last, rest = divmod(a.shape[-1] * a.dtype.itemsize, wanted.itemsize)
    if rest:
        raise AutogradError(
            f"self.size(-1) must be divisible by {wanted.itemsize // a.dtype.itemsize} {what}, but got {a.shape[-1]}"
        )
    return (*a.shape[:-1], last), wanted


_VIEW_DTYPE = define("view_dtype", ("a",), _view_dtype, _view_dtype_infer, view=True)


def view_dtype(input: Any, dtype: Any) -> Any:
    """Return a view of the same bytes in another dtype. It carries no gradient.

    Raises:
        RuntimeError: they make no whole number of elements in the last dimension, or do not lie side by side.
    """
    params = (str(dtypes.as_dtype(dtype)),)
    _view_dtype_infer(params, input)
    return call(_VIEW_DTYPE, (input.detach(),), params)
