"""The greatest common divisor and the least common multiple of integers.

Both are NumPy's; there is no derivative.
"""

from __future__ import annotations

import numpy as np

from ...dispatch.direct_functions import OfTwo, binary_function
from ...registry.define_op import define, infer_elementwise
from ...registry.dtype_constraints import integers_alone

PUBLIC = "gcd lcm".split()


def _of_integers(name: str, kernel: np.ufunc, doc: str) -> OfTwo:
    op = define(name, ("a", "b"), kernel, infer_elementwise(name), promotes="arith", admits=integers_alone)
    return binary_function(op, __name__, doc)


gcd = _of_integers("gcd", np.gcd, "Return the greatest common divisor of two integers, elementwise.")
lcm = _of_integers("lcm", np.lcm, "Return the least common multiple of two integers, elementwise.")
