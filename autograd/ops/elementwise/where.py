"""Selection by a mask: where, nonzero, masked_fill, and `keep`, which gives zeros where a mask does not hold.

The results are elements of the operands, with their gradient. Masks are made in `compare`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...core import type_promotion
from ...dispatch.dispatch import call, call_few, call_met
from ...dispatch.operand_conversion import promote_operands
from ...dispatch.operand_errors import wrong_argument
from ...dispatch.shape_errors import fits
from ...registry.define_op import broadcast_shape, define, like_operand, row_by_row, shapes_of, space_of, xp
from ...registry.registry import Op
from ...tensor.tensor import Tensor

PUBLIC = "fill masked_fill nonzero nonzero_static where".split()


def _where(condition: Any, a: Any, b: Any, dtype: str | None) -> Any:
    out = xp.where(condition, a, b)
    return out if dtype is None or out.dtype.name == dtype else out.astype(dtype)


def _where_infer(params: tuple[Any, ...], condition: Any, a: Any, b: Any) -> Any:
    (dtype,) = params
    if condition.dtype.kind != "b":
        raise AutogradError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}"
        )
    shape = broadcast_shape("where", shapes_of((condition, a, b)))
    return shape, np.dtype(dtype) if dtype is not None else next(v.dtype for v in (a, b) if hasattr(v, "dtype"))


def _where_backward(ctx: Any, g: Any) -> Any:
    (condition,) = ctx.saved_tensors
    _, need_a, need_b = ctx.needs_input_grad
    return None, keep(g, condition) if need_a else None, keep(g, ~condition) if need_b else None


_ZEROS: dict[Any, Any] = {}


def _keep(a: Any, mask: Any) -> Any:
    if type(a) is not np.ndarray:
        return xp.where(mask, a, a.dtype.type(0))
    zero = _ZEROS.get(a.dtype)
    if zero is None:  # a 0-dimensional array: np.where takes it faster than a number
        zero = _ZEROS[a.dtype] = np.zeros((), a.dtype)
    return xp.where(mask, a, zero)


_WHERE = define("where", ("condition", "a", "b"), _where, _where_infer, _where_backward, saves="condition")


_WHERE_MEETS = Op("where", ("a", "b"), promotes="arith")
"""The promotion of the two values of `where`; the condition takes no part in it."""


_KEEP = define(
    "keep",
    ("a", "mask"),
    _keep,
    lambda params, a, mask: (broadcast_shape("keep", (a.shape, mask.shape)), a.dtype),
    lambda ctx, g: (keep(g, ctx.saved_tensors[0]), None),
    saves="mask",
)


_NONZERO = define(
    "nonzero", ("a",), lambda a: np.argwhere(a) if a.ndim else space_of(a).zeros((int(bool(a)), 0), np.int64), None
)


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Return the indices of the elements that are not zero, one row each; in a session, waits for their number."""
    places = call(_NONZERO, (input,))
    return tuple([places[:, axis] for axis in range(input.ndim)]) if as_tuple else places


def _first_places(a: Any, size: int, fill_value: int) -> Any:
    out = space_of(a).full((size, a.ndim), fill_value, np.int64)
    found = np.argwhere(a)[:size] if a.ndim else out[: int(bool(a))]
    out[: len(found)] = found
    return out


_NONZERO_STATIC = define(
    "nonzero_static", ("a",), _first_places, lambda params, a: ((params[0], len(a.shape)), np.dtype(np.int64))
)


def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """Return the indices of the first `size` elements that are not zero, one row each, and rows of `fill_value` where
    there are fewer; no session waits for their number.

    Raises:
        RuntimeError: `size` is negative.
    """
    if size < 0:
        raise AutogradError(f"nonzero_static: 'size' must be a non-negative integer, got {size}")
    return call(_NONZERO_STATIC, (input,), (int(size), int(fill_value)))


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Return `input` where `condition` holds, `other` elsewhere; without them, the indices where it holds."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if isinstance(condition, Tensor):
        if condition.dtype.kind != "b":
            _where_infer((None,), condition, input, other)
        branches = (input, other)
        met = promote_operands(_WHERE_MEETS, branches)
        if met is not branches and (isinstance(input, Tensor) or isinstance(other, Tensor)):
            return call_met(_WHERE, (condition, input, other), (condition, *met), (None,))
        input, other = met
    dtype = None
    if not hasattr(input, "dtype") and not hasattr(other, "dtype"):
        dtype = type_promotion.promote((), (), (input, other)).name
    return call(_WHERE, (condition, input, other), (dtype,))


def keep(input: Any, mask: Any) -> Any:
    """Return `input` where `mask` holds, zero elsewhere, even for NaN and infinities."""
    return call_few(_KEEP, input, mask)


def _masked_fill(a: Any, mask: Any, value: Any) -> Any:
    if mask.dtype.kind != "b" or getattr(value, "ndim", 0):
        raise TypeError
    return xp.where(mask, value.astype(a.dtype) if hasattr(value, "astype") else a.dtype.type(value), a)


def _masked_fill_infer(params: tuple[Any, ...], a: Any, mask: Any, value: Any) -> Any:
    if mask.dtype.kind != "b":
        raise AutogradError(f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype}")
    if getattr(value, "shape", ()):
        raise AutogradError(
            f"masked_fill takes a number or a 0-dimensional value, but got {len(value.shape)} dimensions"
        )
    if not fits(value, a.dtype):
        shown = f"of dtype {value.dtype}" if hasattr(value, "dtype") else value
        raise AutogradError(f"masked_fill: value {shown} cannot be converted to {a.dtype} without overflow")
    return broadcast_shape("masked_fill", (a.shape, mask.shape)), a.dtype


def _masked_fill_backward(ctx: Any, g: Any) -> Any:
    (mask,) = ctx.saved_tensors
    need_a, _, need_value = ctx.needs_input_grad
    return keep(g, ~mask) if need_a else None, None, keep(g, mask) if need_value else None


_MASKED_FILL = define(
    "masked_fill",
    ("a", "mask", "value"),
    row_by_row(_masked_fill),
    _masked_fill_infer,
    _masked_fill_backward,
    saves="mask",
)


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """Return `input` with `value` where `mask` holds.

    Raises:
        RuntimeError: the mask is not of bools, or `value` is no number, or one that the dtype does not have.
    """
    if value is None or isinstance(value, str):
        raise wrong_argument("masked_fill", "value", 3, "a number or Tensor", type(value).__name__)
    if not fits(value, input.dtype):
        _masked_fill_infer((), input, mask, value)
    return call(_MASKED_FILL, (input, mask, value))


def fill(input: Any, value: Any) -> Any:
    """Return a tensor of the shape and dtype of `input` filled with one number, or with a zero-dimensional tensor.

    Raises:
        RuntimeError: a tensor with dimensions.
    """
    if getattr(value, "ndim", 0):
        raise AutogradError(f"fill only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    everywhere = like_operand(space_of(input).ones((), bool), input)
    return masked_fill(input, everywhere, value)
