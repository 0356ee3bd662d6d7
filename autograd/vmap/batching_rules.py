"""What a batching rule is given, and the registry of rules by the name of the op.

Rules of this file: a rule is written in ops on tensors, so that levels further out, gradients, forward mode and
sessions see nothing but ordinary ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import ops

if TYPE_CHECKING:
    from ..registry.registry import Op


class BatchedOpCall(NamedTuple):
    """An op to be done for all examples at once.

    Attributes:
        op: the op.
        operands: batched ones with the examples along dimension 0; the others as they are for every example.
        batched: per operand, whether it is.
        ranks: per operand, the number of dimensions of one example; None for what is no tensor.
        params: the op's parameters, as they are for one example.
        size: how many examples there are.
    """

    op: Op
    operands: tuple[Any, ...]
    batched: tuple[bool, ...]
    ranks: tuple[int | None, ...]
    params: tuple[Any, ...]
    size: int


Rule = Callable[[BatchedOpCall], Any]
"""Returns the output (or the tuple of outputs) with the examples along dimension 0; NotImplemented for a call that is
to be done one example after the other."""

rules: dict[str, Rule] = {}

KEEPS_DIM: set[str] = set()
"""Ops of one operand, elementwise, that leave the examples along the dimension where they are."""


def batching_rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a rule for the ops of these names."""

    def register(rule: Rule) -> Rule:
        for name in names:
            rules[name] = rule
        return rule

    return register


def lifted(operand: Any, rank: int, top: int) -> Any:
    """Return a batched operand whose examples have `rank` dimensions with as many in front as make them `top`."""
    shape = operand.shape
    return operand if rank == top else ops.reshape(operand, (shape[0], *(1,) * (top - rank), *shape[1:]))


def spread(operand: Any, size: int) -> Any:
    """Return an operand that is the same for every example with a dimension for them in front."""
    return ops.expand(operand, (size, *operand.shape))


def all_batched(call: BatchedOpCall) -> list[Any]:
    """Return the operands that are values with a dimension for the examples in front, numbers as they are."""
    return [
        operand if batched or rank is None else spread(operand, call.size)
        for operand, batched, rank in zip(call.operands, call.batched, call.ranks, strict=True)
    ]
