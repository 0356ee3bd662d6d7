"""Batching rules of elementwise ops: the batch is one more dimension that broadcasts.

Found by `batched_call` through the registry in `batching_rules`.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..dispatch.dispatch import call
from .batching_rules import KEEPS_DIM, BatchedOpCall, batching_rule, lifted

KEEPS_DIM.update(
    (
        "neg abs sign square reciprocal sqrt rsqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh "
        "tanh asinh acosh atanh sigmoid relu floor ceil trunc round erf zeros_as real imag conj "
        "isnan isinf isfinite logical_not bitwise_not softplus leaky_relu elu to_dtype clone contiguous "
        "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 i0 i0e i1 i1e modified_bessel_k0 modified_bessel_k1 "
        "scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 entr erfcx ndtr ndtri log_ndtr"
    ).split()
)


@batching_rule(
    *(
        "add sub mul div floor_divide div_trunc remainder fmod pow maximum minimum clamp atan2 logaddexp hypot "
        "eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor where keep "
        "gcd igamma igammac lcm zeta hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l "
        "legendre_polynomial_p chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
        "chebyshev_polynomial_w "
        "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
        "shifted_chebyshev_polynomial_w"
    ).split()
)
def broadcasting(op_call: BatchedOpCall) -> Any:
    """Batched operands get dimensions of extent one behind the batch, up to the highest rank, and broadcast."""
    top = max(rank for rank in op_call.ranks if rank is not None)
    operands = [
        lifted(operand, rank, top) if flag and rank is not None else operand
        for operand, flag, rank in zip(op_call.operands, op_call.batched, op_call.ranks, strict=True)
    ]
    return call(op_call.op, operands, op_call.params)


@batching_rule("masked_fill")
def _masked_fill(op_call: BatchedOpCall) -> Any:
    a, mask, value = op_call.operands
    if not op_call.batched[2]:
        return broadcasting(op_call)
    if op_call.ranks[2]:
        return NotImplemented  # one example says what is wrong
    top = max(op_call.ranks[0] or 0, op_call.ranks[1] or 0)
    a = lifted(a, op_call.ranks[0] or 0, top) if op_call.batched[0] else a
    mask = lifted(mask, op_call.ranks[1] or 0, top) if op_call.batched[1] else mask
    return ops.where(mask, lifted(value, 0, top).to(a.dtype), a)
