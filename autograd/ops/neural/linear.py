"""The functions `linear` and `bilinear` of `raygrad.nn.functional`: linear maps with a bias.

Composed of `matmul`, whose kernel and derivative are in `linalg.matmul`.
"""

from __future__ import annotations

from typing import Any

from ...registry.dtype_constraints import alike
from ..elementwise.arithmetic import add
from ..layout.shape import transpose
from ..linalg.einsum import einsum
from ..linalg.matmul import matmul

PUBLIC = "bilinear linear".split()


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Return `input @ weight.T + bias`."""
    out = matmul(input, transpose(weight, 0, 1) if weight.ndim == 2 else weight)
    return out if bias is None else add(out, bias)


@alike(0, 1, 2)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """Return `input1 @ weight[k] @ input2` for each k along the last dimension, plus `bias`."""
    out = einsum("...i,kij,...j->...k", input1, weight, input2)
    return out if bias is None else add(out, bias)
