"""The registry of batching rules by op name, and `BatchedOpCall`, the argument of a rule.

A rule is written in ops on tensors, so that outer levels, gradients, forward mode and sessions see ordinary ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import ops

if TYPE_CHECKING:
    from ..registry.registry import Op


class BatchedOpCall(NamedTuple):
    """An op to be applied to all examples at once.

    Attributes:
        op: the op.
        operands: batched ones with the batch along dimension 0, and unbatched ones.
        batched: per operand, whether it is.
        ranks: per operand, the number of dimensions of one example; None for a number or another constant.
        params: the op's parameters for one example.
        size: the batch size.
    """

    op: Op
    operands: tuple[Any, ...]
    batched: tuple[bool, ...]
    ranks: tuple[int | None, ...]
    params: tuple[Any, ...]
    size: int


Rule = Callable[[BatchedOpCall], Any]
"""Returns the output (or the tuple of outputs) with the batch along dimension 0; NotImplemented leaves a call to
`one_by_one`."""

rules: dict[str, Rule] = {}

KEEPS_DIM: set[str] = set()
"""Elementwise ops of one operand, which keep the batch dimension where it is."""


def batching_rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a rule for the ops of these names."""

    def register(rule: Rule) -> Rule:
        for name in names:
            rules[name] = rule
        return rule

    return register


def lifted(operand: Any, rank: int, top: int) -> Any:
    """Return a batched operand with dimensions of extent one behind the batch, so that its examples have `top`
    dimensions instead of `rank`."""
    shape = operand.shape
    return operand if rank == top else ops.reshape(operand, (shape[0], *(1,) * (top - rank), *shape[1:]))


def spread(operand: Any, size: int) -> Any:
    """Return an unbatched operand expanded along a batch dimension in front."""
    return ops.expand(operand, (size, *operand.shape))


def all_batched(call: BatchedOpCall) -> list[Any]:
    """Return the operands with a batch dimension in front; numbers unchanged."""
    return [
        operand if batched or rank is None else spread(operand, call.size)
        for operand, batched, rank in zip(call.operands, call.batched, call.ranks, strict=True)
    ]
