"""Dtypes: PyTorch's names for NumPy's dtypes, the default dtype, and the dtype of Python numbers.

The dtype in which operands meet is in `type_promotion`.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from .modes import state
from .session_threads import SEGMENTS

DType = np.dtype[Any]
dtype = np.dtype
"""The class of dtypes, which are NumPy's: `x.dtype.kind` is "f" of floating ones, "c" of complex ones."""

# PyTorch's names: below this line `float`, `int` and `bool` are dtypes, the builtins are `builtins.…`
float16 = half = np.dtype(np.float16)
float32 = float = np.dtype(np.float32)
float64 = double = np.dtype(np.float64)
complex64 = cfloat = np.dtype(np.complex64)
complex128 = cdouble = np.dtype(np.complex128)
int8 = np.dtype(np.int8)
int16 = short = np.dtype(np.int16)
int32 = int = np.dtype(np.int32)
int64 = long = np.dtype(np.int64)
uint8 = np.dtype(np.uint8)
bool = np.dtype(np.bool_)

_NAMED = {t.name: t for t in (float16, float32, float64, complex64, complex128, int8, int16, int32, int64, uint8, bool)}
CATEGORY: dict[str, builtins.int] = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
COMPLEX_OF: dict[DType, DType] = {float16: complex64, float32: complex64, float64: complex128}


def known() -> tuple[str, ...]:
    """Return the names of the dtypes that tensors can have."""
    return tuple(_NAMED)


_NATIVE = frozenset(_NAMED.values())


def is_known(dtype: DType) -> Any:
    """Tell whether tensors can have `dtype`: one of those known, in this machine's byte order."""
    return dtype in _NATIVE  # names would be clearer, and cost NumPy ten times as much


class DefaultDtype:
    """The default dtype of the process."""

    dtype: DType = float32


def get_default_dtype() -> DType:
    """Return the dtype of tensors made from Python floats. Where segments run in this process, theirs are beside that
    of the program (`Modes.default_dtype`)."""
    if SEGMENTS:
        return state.here.default_dtype or DefaultDtype.dtype
    return DefaultDtype.dtype


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of tensors made from Python floats; in user code of a session, until that code returns.

    Raises:
        TypeError: `dtype` is not a floating dtype.
    """
    if dtype is None:
        raise TypeError("the default dtype must be a floating-point dtype, got None")
    wanted = as_dtype(dtype)
    if wanted.kind != "f":
        raise TypeError(f"the default dtype must be a floating dtype, got {wanted}")
    if SEGMENTS and state.here.default_dtype is not None:
        state.here.default_dtype = wanted
    else:
        DefaultDtype.dtype = wanted


def as_dtype(dtype: Any) -> DType:
    """Return the dtype meant by a dtype, a name, a NumPy scalar type or Python's float, int, bool, complex."""
    return np.dtype(dtype)


def is_dtype(value: Any) -> Any:
    """Tell whether an argument that may be something else is a dtype, or a type of NumPy's or Python's that names
    one."""
    return isinstance(value, np.dtype | type)


def is_differentiable(dtype: DType) -> builtins.bool:
    """Tell whether tensors of `dtype` can require grad: floating and complex ones."""
    return dtype.kind in "fc"


def of_number(value: Any) -> DType:
    """Return the dtype that a tensor made from a Python number has."""
    if issubclass(type(value), np.generic):
        return np.result_type(value)
    if isinstance(value, builtins.bool):
        return bool
    if isinstance(value, builtins.int):
        return int64
    if isinstance(value, builtins.complex):
        return COMPLEX_OF[get_default_dtype()]
    return get_default_dtype()


def floating(dtype: DType) -> DType:
    """Return `dtype`, or the default dtype for integer and bool ones: what exp, sqrt and division compute in."""
    return dtype if dtype.kind in "fc" else get_default_dtype()


# ---- questions about dtypes ------------------------------------------------------------------------------------------

finfo, iinfo = np.finfo, np.iinfo
"""What the numbers of a floating, and of an integer, dtype are limited to."""

e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None
