"""Elementwise arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import call
from .define import define, infer_elementwise


def _mul_backward(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    return (g * _conj(b) if need_a else None, g * _conj(a) if need_b else None)


def _conj(value: Any) -> Any:
    return value.conj() if hasattr(value, "dtype") and value.dtype.kind == "c" else value


_ADD = define("add", ("a", "b"), np.add, infer_elementwise("add"), lambda ctx, g: (g, g), saves="none", promotes="arith")
_MUL = define("mul", ("a", "b"), np.multiply, infer_elementwise("mul"), _mul_backward, promotes="arith")


def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return `input + alpha * other`."""
    return call(_ADD, (input, other if type(alpha) is int and alpha == 1 else mul(other, alpha)))


def mul(input: Any, other: Any) -> Any:
    """Return `input * other`."""
    return call(_MUL, (input, other))
