"""Dtypes and PyTorch's promotion rules over NumPy's dtypes.

Promotion has three categories of operands (tensors with dimensions, zero-dimensional tensors, Python numbers): a
later one matters only when its kind (bool < integer < floating < complex) is above that of the earlier ones.
Source: PyTorch's documentation, "Tensor Attributes, Type Promotion".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

DType = np.dtype[Any]

float16 = half = np.dtype(np.float16)
float32 = float = np.dtype(np.float32)  # noqa: A001 - PyTorch's names
float64 = double = np.dtype(np.float64)
complex64 = cfloat = np.dtype(np.complex64)
complex128 = cdouble = np.dtype(np.complex128)
int8 = np.dtype(np.int8)
int16 = short = np.dtype(np.int16)
int32 = int = np.dtype(np.int32)  # noqa: A001
int64 = long = np.dtype(np.int64)
uint8 = np.dtype(np.uint8)
bool = np.dtype(np.bool_)  # noqa: A001

_NAMED = {
    t.name: t
    for t in (float16, float32, float64, complex64, complex128, int8, int16, int32, int64, uint8, bool)
}
_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_COMPLEX_OF = {float16: complex64, float32: complex64, float64: complex128}


def known() -> tuple[str, ...]:
    """Return the names of the dtypes that tensors can have."""
    return tuple(_NAMED)


class _Default:
    dtype: DType = float32


def get_default_dtype() -> DType:
    """Return the dtype of tensors made from Python floats."""
    return _Default.dtype


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of tensors made from Python floats.

    Raises:
        TypeError: `dtype` is not a floating dtype.
    """
    wanted = as_dtype(dtype)
    if wanted.kind != "f":
        raise TypeError(f"the default dtype must be a floating dtype, got {wanted}")
    _Default.dtype = wanted


def as_dtype(dtype: Any) -> DType:
    """Return the dtype meant by a dtype, a name, a NumPy scalar type or Python's float, int, bool, complex."""
    if isinstance(dtype, np.dtype):
        return dtype
    return np.dtype(dtype)


def is_differentiable(dtype: DType) -> Any:
    """Tell whether tensors of `dtype` can require grad: floating and complex ones."""
    return dtype.kind in "fc"


def of_number(value: Any) -> DType:
    """Return the dtype that a tensor made from a Python number has."""
    kind = type(value)
    if kind is type(True):
        return bool
    if kind is type(1):
        return int64
    if kind is type(1j):
        return _COMPLEX_OF[_Default.dtype]
    if isinstance(value, np.generic):
        return value.dtype
    return _Default.dtype


def promote(dims: Iterable[DType], zeros: Iterable[DType] = (), numbers: Iterable[Any] = ()) -> DType:
    """Return the dtype in which operands meet: tensors with dimensions, zero-dimensional ones, Python numbers."""
    result: DType | None = None
    for group in (list(dims), list(zeros), [of_number(n) for n in numbers]):
        if not group:
            continue
        top = group[0]
        for dtype in group[1:]:
            top = np.promote_types(top, dtype)
        if result is None:
            result = top
        elif _CATEGORY[top.kind] > _CATEGORY[result.kind]:
            # A higher kind wins; complex over floating keeps the floating operand's width.
            result = _COMPLEX_OF[result] if top.kind == "c" and result.kind == "f" else top
    if result is None:
        raise TypeError("no operands to promote")
    return result


def floating(dtype: DType) -> DType:
    """Return `dtype`, or the default dtype for integer and bool ones: what exp, sqrt and division compute in."""
    return dtype if dtype.kind in "fc" else _Default.dtype
