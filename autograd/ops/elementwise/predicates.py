"""Predicates of tensors (equal, numel, is_nonzero, is_floating_point) and elementwise functions without derivative: bit
shifts, heaviside, nextafter.

Elementwise comparisons are in `compare`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...dispatch.direct_functions import OfTwo, binary_function
from ...dispatch.dispatch import call_few
from ...registry.define_op import define, infer_elementwise, xp
from ...registry.dtype_constraints import integers_alone, no_complex, real_floats
from ...tensor.tensor import Tensor
from ..layout.axis_order import zeros_as
from ..reduction.reduce import sum
from .where import keep, nonzero

PUBLIC = """
    argwhere bitwise_left_shift bitwise_right_shift equal get_device heaviside is_conj is_floating_point is_inference
    is_neg is_nonzero is_same_size is_signed is_tensor nextafter numel
""".split()


def _shift(name: str, kernel: Any, doc: str) -> OfTwo:
    """Define a shift of the bits of integers, and return its function."""
    op = define(name, ("a", "b"), kernel, infer_elementwise(name), promotes="arith", admits=integers_alone)
    return binary_function(op, __name__, doc)


bitwise_left_shift = _shift("bitwise_left_shift", np.left_shift, "Return `input << other`.")
bitwise_right_shift = _shift("bitwise_right_shift", np.right_shift, "Return `input >> other`, the sign being kept.")
_HEAVISIDE = define(
    "heaviside",
    ("a", "b"),
    lambda a, b: xp.heaviside(a, b) if a.dtype.kind == "f" else xp.where(a == 0, b, a > 0).astype(a.dtype),
    infer_elementwise("heaviside"),
    promotes="arith",
    admits=no_complex,
)


def _nextafter_backward(ctx: Any, g: Any) -> Any:
    """The step is constant nearly everywhere; where the operands are equal there is none, and the result is theirs."""
    a, b = ctx.saved_tensors
    return keep(g, a != b), zeros_as(g)


nextafter = binary_function(
    define(
        "nextafter",
        ("a", "b"),
        np.nextafter,
        infer_elementwise("nextafter"),
        _nextafter_backward,
        promotes="float",
        admits=real_floats,
    ),
    __name__,
    "Return the next number that the dtype has after `input`, towards `other`.",
)


def heaviside(input: Any, values: Any) -> Any:
    """Return 0 below 0, 1 above, `values` at 0.

    Raises:
        RuntimeError: two dtypes.
    """
    if input.dtype != values.dtype:
        raise AutogradError(
            f"heaviside is not yet implemented for tensors with different dtypes: {input.dtype}, {values.dtype}"
        )
    return call_few(_HEAVISIDE, input, values)


def argwhere(input: Any) -> Any:
    """Return the indices of the elements that are not zero, one row each; in a session, waits for their number."""
    return nonzero(input)


def equal(input: Any, other: Any) -> bool:
    """Tell whether two tensors have the same shape and elements; in a session, waits."""
    return tuple(input.shape) == tuple(other.shape) and not bool(sum(input != other))


def numel(input: Any) -> int:
    """Return the number of elements."""
    return math.prod(input.shape)


def is_nonzero(input: Any) -> bool:
    """Tell whether the one element is not zero; in a session, waits.

    Raises:
        RuntimeError: there is not exactly one.
    """
    if numel(input) != 1:
        raise AutogradError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(input != 0)


def is_tensor(obj: Any) -> bool:
    """Tell whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_same_size(input: Any, other: Any) -> bool:
    """Tell whether two tensors have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


def is_floating_point(input: Any) -> bool:
    """Tell whether the dtype is floating."""
    return input.dtype.kind == "f"


def is_signed(input: Any) -> bool:
    """Tell whether the dtype has negative numbers."""
    return input.dtype.kind in "ifc"


def is_inference(input: Tensor) -> bool:
    """Tell whether the tensor was made in inference mode."""
    return input.is_inference()


def is_conj(input: Tensor) -> bool:
    """Tell whether the elements in memory are to be conjugated when read: never, `conj` computes them."""
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Tell whether the elements in memory are to be negated when read: never."""
    return input.is_neg()


def get_device(input: Tensor) -> int:
    """Return the number of the GPU that holds the data, -1 for the host."""
    return input.get_device()
