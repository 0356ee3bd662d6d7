"""Type promotion: the common dtype of operands, PyTorch's rules over NumPy's dtypes.

`dispatch/operand_conversion.py` converts operands to it. They come in three categories: tensors with dimensions,
zero-dimensional tensors, Python numbers. A later category matters only when its kind (bool < integer < floating <
complex) is above that of the earlier ones. Source: PyTorch's documentation, "Tensor Attributes, Type Promotion".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from .dtypes import CATEGORY, COMPLEX_OF, DType, as_dtype, of_number


def promote(dims: Iterable[DType], zeros: Iterable[DType] = (), numbers: Iterable[Any] = ()) -> DType:
    """Return the dtype in which operands meet: tensors with dimensions, zero-dimensional ones, Python numbers."""
    groups = [group for group in (list(dims), list(zeros), [of_number(n) for n in numbers]) if group]
    if not groups:
        raise TypeError("no operands to promote")
    result, *later = [functools.reduce(_meet, group) for group in groups]
    for top in later:
        if CATEGORY[top.kind] > CATEGORY[result.kind]:
            # A higher kind wins; complex over floating keeps the floating operand's width.
            result = COMPLEX_OF[result] if top.kind == "c" and result.kind == "f" else top
    return result


def _meet(a: DType, b: DType) -> DType:
    """Return the dtype of two operands of one group: unlike NumPy's, an integer never widens a floating one."""
    if a == b:
        return a
    if a.kind in "fc" and b.kind in "biu":
        return a
    if b.kind in "fc" and a.kind in "biu":
        return b
    return np.promote_types(a, b)


def promote_types(type1: Any, type2: Any) -> DType:
    """Return the dtype in which two dtypes meet."""
    return _meet(as_dtype(type1), as_dtype(type2))


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """Return the dtype in which two operands meet, tensors or numbers."""
    given = (tensor1, tensor2)
    held = [one for one in given if hasattr(one, "dtype")]
    return promote(
        [one.dtype for one in held if one.ndim],
        [one.dtype for one in held if not one.ndim],
        [one for one in given if not hasattr(one, "dtype")],
    )


def can_cast(from_: Any, to: Any) -> bool:
    """Tell whether a result of one dtype may be written in place to a tensor of the other."""
    source, target = as_dtype(from_), as_dtype(to)
    return CATEGORY[source.kind] <= CATEGORY[target.kind]
