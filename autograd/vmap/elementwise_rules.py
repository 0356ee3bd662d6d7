"""Rules of ops that act element by element: the examples are one more dimension of what broadcasts."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..dispatch.dispatch import call
from .batching_rules import KEEPS_DIM, BatchedOpCall, batching_rule, lifted

KEEPS_DIM.update(
    (
        "neg abs sign square reciprocal sqrt rsqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh "
        "tanh asinh acosh atanh sigmoid relu floor ceil trunc round erf zeros_as real imag conj "
        "isnan isinf isfinite logical_not bitwise_not softplus leaky_relu elu to_dtype clone contiguous"
    ).split()
)


@batching_rule(
    *(
        "add sub mul div floor_divide div_trunc remainder fmod pow maximum minimum clamp atan2 logaddexp hypot "
        "eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor where keep"
    ).split()
)
def broadcasting(given: BatchedOpCall) -> Any:
    """Operands that are batched get ones between the examples and their own dimensions, up to the highest rank."""
    top = max(rank for rank in given.ranks if rank is not None)
    operands = [
        lifted(operand, rank, top) if flag and rank is not None else operand
        for operand, flag, rank in zip(given.operands, given.batched, given.ranks, strict=True)
    ]
    return call(given.op, operands, given.params)


@batching_rule("masked_fill")
def _masked_fill(given: BatchedOpCall) -> Any:
    a, mask, value = given.operands
    if not given.batched[2]:
        return broadcasting(given)
    if given.ranks[2]:
        return NotImplemented  # one example says what is wrong
    top = max(given.ranks[0] or 0, given.ranks[1] or 0)
    a = lifted(a, given.ranks[0] or 0, top) if given.batched[0] else a
    mask = lifted(mask, given.ranks[1] or 0, top) if given.batched[1] else mask
    return ops.where(mask, lifted(value, 0, top).to(a.dtype), a)
