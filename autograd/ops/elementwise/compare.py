"""Elementwise comparison, logical and bitwise ops: eq, isnan, logical_and, bitwise_or.

Their results carry no gradient. Selection by the masks that they make is in `where`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.direct_functions import OfOne, OfTwo, binary_function, unary_function
from ...dispatch.dispatch import call_few
from ...dispatch.operand_errors import check_operand
from ...registry.define_op import (
    define,
    infer_comparison,
    infer_elementwise,
    infer_same,
)
from ...registry.dtype_constraints import no_complex, whole_numbers
from ...registry.registry import Admits

PUBLIC = """
    bitwise_and bitwise_not bitwise_or bitwise_xor eq ge gt isfinite isinf isnan le logical_and logical_not logical_or
    logical_xor lt ne
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
