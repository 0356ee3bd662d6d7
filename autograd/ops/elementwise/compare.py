"""Elementwise comparison, logical and bitwise ops, and selection by a mask: eq, isnan, logical_and, where, masked_fill.

Their results are bools, or, of a selection, elements of the operands with their gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...core import type_promotion
from ...dispatch.direct_functions import OfOne, OfTwo, binary_function, unary_function
from ...dispatch.dispatch import call, call_few, call_met, check_operand
from ...dispatch.operand_conversion import promote_operands
from ...registry.define_op import (
    broadcast_shape,
    define,
    infer_comparison,
    infer_elementwise,
    infer_same,
    row_by_row,
    shapes_of,
    space_of,
    xp,
)
from ...registry.dtype_constraints import no_complex, whole_numbers
from ...registry.registry import Admits, Op
from ...tensor.tensor import Tensor

PUBLIC = """
    bitwise_and bitwise_not bitwise_or bitwise_xor eq ge gt isfinite isinf isnan le logical_and logical_not logical_or
    logical_xor lt masked_fill ne nonzero where
""".split()

# ---- comparisons -----------------------------------------------------------------------------------------------------


def _comparison(
    name: str, kernel: Any, doc: str, *, promotes: str | None = "arith", admits: Admits | None = None
) -> OfTwo:
    """Define an op of two operands that gives bools, and return its function."""
    op = define(name, ("a", "b"), kernel, infer_comparison(name), promotes=promotes, admits=admits)
    return binary_function(op, __name__, doc)


def _predicate(name: str, kernel: Any, doc: str) -> OfOne:
    """Define an op of one operand that gives bools, and return its function."""
    return unary_function(define(name, ("a",), kernel, infer_comparison(name)), __name__, doc)


eq = _comparison("eq", np.equal, "Return where `input == other`, elementwise.")
ne = _comparison("ne", np.not_equal, "Return where `input != other`, elementwise.")
lt = _comparison("lt", np.less, "Return where `input < other`, elementwise.", admits=no_complex)
le = _comparison("le", np.less_equal, "Return where `input <= other`, elementwise.", admits=no_complex)
gt = _comparison("gt", np.greater, "Return where `input > other`, elementwise.", admits=no_complex)
ge = _comparison("ge", np.greater_equal, "Return where `input >= other`, elementwise.", admits=no_complex)
logical_and = _comparison("logical_and", np.logical_and, "Return where both are nonzero.", promotes=None)
logical_or = _comparison("logical_or", np.logical_or, "Return where either is nonzero.", promotes=None)
logical_xor = _comparison("logical_xor", np.logical_xor, "Return where exactly one is nonzero.", promotes=None)
isnan = _predicate("isnan", np.isnan, "Return where `input` is not a number.")
isinf = _predicate("isinf", np.isinf, "Return where `input` is infinite.")
isfinite = _predicate("isfinite", np.isfinite, "Return where `input` is neither infinite nor NaN.")
_LOGICAL_NOT = define("logical_not", ("a",), np.logical_not, infer_comparison("logical_not"))


def logical_not(input: Any) -> Any:
    """Return where `input` is zero."""
    check_operand("logical_not", input)
    return call_few(_LOGICAL_NOT, input)


# ---- bits ------------------------------------------------------------------------------------------------------------


def _bitwise(name: str, kernel: Any, doc: str) -> OfTwo:
    """Define an op on the bits of two operands, and return its function."""
    op = define(name, ("a", "b"), kernel, infer_elementwise(name), promotes="arith", admits=whole_numbers)
    return binary_function(op, __name__, doc)


bitwise_and = _bitwise("bitwise_and", np.bitwise_and, "Return `input & other`.")
bitwise_or = _bitwise("bitwise_or", np.bitwise_or, "Return `input | other`.")
bitwise_xor = _bitwise("bitwise_xor", np.bitwise_xor, "Return `input ^ other`.")
bitwise_not = unary_function(
    define("bitwise_not", ("a",), np.invert, infer_same, promotes="arith", admits=whole_numbers),
    __name__,
    "Return `~input`.",
)


# ---- selection -------------------------------------------------------------------------------------------------------


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


def _keep_infer(params: tuple[Any, ...], a: Any, mask: Any) -> Any:
    return broadcast_shape("keep", (a.shape, mask.shape)), a.dtype


def _keep_backward(ctx: Any, g: Any) -> Any:
    (mask,) = ctx.saved_tensors
    return keep(g, mask), None


_WHERE = define("where", ("condition", "a", "b"), _where, _where_infer, _where_backward, saves="condition")
_WHERE_MEETS = Op("where", ("a", "b"), promotes="arith")
"""The promotion of the two values of `where`; the condition takes no part in it."""
_KEEP = define("keep", ("a", "mask"), _keep, _keep_infer, _keep_backward, saves="mask")


def _nonzero(a: Any) -> Any:
    return np.argwhere(a) if a.ndim else space_of(a).zeros((int(bool(a)), 0), np.int64)


_NONZERO = define("nonzero", ("a",), _nonzero, None)


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Return the indices of the elements that are not zero, one row each; in a session, waits for their number."""
    places = call(_NONZERO, (input,))
    return tuple([places[:, axis] for axis in range(input.ndim)]) if as_tuple else places


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
    if mask.dtype.kind != "b":
        raise TypeError
    return xp.where(mask, value.astype(a.dtype) if hasattr(value, "astype") else a.dtype.type(value), a)


def _masked_fill_infer(params: tuple[Any, ...], a: Any, mask: Any, value: Any) -> Any:
    if mask.dtype.kind != "b":
        raise AutogradError(f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype}")
    if getattr(value, "shape", ()):
        raise AutogradError(
            f"masked_fill takes a number or a 0-dimensional value, but got {len(value.shape)} dimensions"
        )
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
    """Return `input` with `value` where `mask` holds."""
    return call(_MASKED_FILL, (input, mask, value))
