"""Aliases of functions: the names that NumPy and the Python array API standard give them, most of which PyTorch has,
too.

A name and its function; nothing is computed here.
"""

from __future__ import annotations

from .elementwise import arithmetic, compare, complex_numbers, division, unary
from .layout import axis_order, joining, padding, shape
from .linalg import matmul
from .neural import dropout as dropouts

PUBLIC = """
    absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh astype bitwise_invert broadcast_arrays clip
    conj_physical constant_pad_nd divide expand_dims fix ger greater greater_equal less less_equal matrix_transpose
    multiply negative dropout not_equal permute_dims subtract true_divide unstack
""".split()

absolute, negative, fix = unary.abs, unary.neg, unary.trunc
arccos, arcsin, arctan = unary.acos, unary.asin, unary.atan
arccosh, arcsinh, arctanh = unary.acosh, unary.asinh, unary.atanh
arctan2, clip = arithmetic.atan2, arithmetic.clamp
multiply, subtract, divide, true_divide = arithmetic.mul, arithmetic.sub, division.div, division.div
greater, greater_equal, less, less_equal = compare.gt, compare.ge, compare.lt, compare.le
not_equal, bitwise_invert = compare.ne, compare.bitwise_not
conj_physical = complex_numbers.conj
expand_dims, permute_dims = shape.unsqueeze, shape.permute
unstack, ger = joining.unbind, matmul.outer
dropout, constant_pad_nd = dropouts.dropout, padding.constant_pad_nd
astype = axis_order.to_dtype


def broadcast_arrays(*tensors: object) -> tuple[object, ...]:
    """Return the tensors expanded to the shape that they broadcast to."""
    return shape.broadcast_tensors(*tensors)


def matrix_transpose(input: object) -> object:
    """Return `input` with its last two dimensions exchanged."""
    return shape.transpose(input, -2, -1)
