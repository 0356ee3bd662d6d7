"""The NumPy protocol of tensors, `__array_ufunc__`: which op serves `np.exp(x)`, with its gradient.

A NumPy function without an op runs on arrays, if no gradient is required.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..tensor.tensor import Tensor


class NumpyFunctions:
    """NumPy's protocol for functions of tensors."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Run a NumPy function as the op of the same meaning; one that is no op on arrays, if no grad is required."""
        if method != "__call__" or options:
            return NotImplemented
        name = _UFUNCS.get(ufunc)
        if name is None:
            result: Any = ufunc(*[x.numpy() if isinstance(x, Tensor) else x for x in inputs])
            return _made(result) if ufunc.nout == 1 else tuple([_made(part) for part in result])
        return getattr(ops, name)(*[_operand(x) for x in inputs])


_UFUNCS = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.true_divide: "div",
    np.floor_divide: "floor_divide",
    np.remainder: "remainder",
    np.fmod: "fmod",
    np.power: "pow",
    np.matmul: "matmul",
    np.negative: "neg",
    np.absolute: "abs",
    np.sign: "sign",
    np.square: "square",
    np.sqrt: "sqrt",
    np.reciprocal: "reciprocal",
    np.exp: "exp",
    np.expm1: "expm1",
    np.log: "log",
    np.log1p: "log1p",
    np.log2: "log2",
    np.log10: "log10",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "asin",
    np.arccos: "acos",
    np.arctan: "atan",
    np.arctan2: "atan2",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
    np.arcsinh: "asinh",
    np.arccosh: "acosh",
    np.arctanh: "atanh",
    np.floor: "floor",
    np.ceil: "ceil",
    np.trunc: "trunc",
    np.rint: "round",
    np.maximum: "maximum",
    np.minimum: "minimum",
    np.hypot: "hypot",
    np.logaddexp: "logaddexp",
    np.conjugate: "conj",
    np.equal: "eq",
    np.not_equal: "ne",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.logical_and: "logical_and",
    np.logical_or: "logical_or",
    np.logical_xor: "logical_xor",
    np.logical_not: "logical_not",
    np.bitwise_and: "bitwise_and",
    np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor",
    np.invert: "bitwise_not",
    np.isnan: "isnan",
    np.isinf: "isinf",
    np.isfinite: "isfinite",
}


def _made(array: Any) -> Tensor:
    return Tensor.made(np.asarray(array))


def _operand(value: Any) -> Any:
    """Return an operand of a NumPy function as an operand of an op: arrays as tensors, NumPy scalars as Python
    numbers."""
    if isinstance(value, np.ndarray):
        return _made(value)
    return value.item() if type(value).__module__ == "numpy" else value
