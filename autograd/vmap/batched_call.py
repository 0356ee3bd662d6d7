"""Batched application of a built-in op: by its batching rule for all examples at once, or for one after the other.

Dispatch calls it when an operand is batched. It handles the innermost level; the op that the rule applies goes through
dispatch again, for the levels further out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raygrad.errors import AutogradError

from .. import ops
from ..core.batched_data import VmapLevel, batched, innermost_vmap_level, unwrap_batched
from ..core.modes import state
from ..dispatch.backward_node import attach_node
from ..dispatch.device_dispatch import zeros_on
from ..dispatch.dispatch import call
from ..registry.registry import Op
from ..storage.view import record_view
from ..tensor.tensor import Tensor
from .batching_rules import KEEPS_DIM, BatchedOpCall, rules


def in_front(value: Any, dim: int) -> Any:
    """Return a tensor with its batch dimension moved to the front."""
    return value if dim == 0 else ops.movedim(value, dim, 0)


def along(value: Tensor, lies: int | None, dim: int, size: int) -> Tensor:
    """Return a tensor of all examples with its batch dimension at `dim`; an unbatched one is expanded."""
    if lies is None:
        shape = value.shape
        return ops.expand(ops.unsqueeze(value, dim), (*shape[:dim], size, *shape[dim:]))
    return value if lies == dim else ops.movedim(value, lies, dim)


def batched_call(op: Op, operands: Sequence[Any], params: tuple[Any, ...], needed: bool) -> Any:
    """Apply `op` to operands of which at least one is batched at an open level.

    `needed` says whether one of them requires grad as it stands here, inside the level: then the results have a node
    here, whose rule runs on batched tensors.
    """
    level = innermost_vmap_level(operands)
    assert level is not None
    outs, dim = _outputs(op, operands, params, level)
    results = tuple([batched(out, dim, level) for out in outs])
    if needed and state.here.grad:
        attach_node(op, operands, params, [o._data if isinstance(o, Tensor) else o for o in operands], results)
    if op.view:
        for number, result in enumerate(results):
            _share(result, op, operands, params, level, number)
    return results[0] if op.outputs == 1 else results


def _share(
    result: Tensor, op: Op, operands: Sequence[Any], params: tuple[Any, ...], level: VmapLevel, number: int
) -> None:
    """Make output `number` a view of the first operand if it is one for all examples, so that changes in place reach
    it."""
    if op.shown is not None:
        op, operands, params = op.shown(operands, params, number)
    base = operands[0]
    source, made = unwrap_batched(base, level)[0], unwrap_batched(result, level)[0]
    if made._view is not None and made._storage is source._storage:
        record_view(result, op, operands, params, made._view.sure, state.here.grad)


def whole_batch_change(tensor: Tensor, result: Tensor) -> tuple[Tensor, Tensor]:
    """Return the operands of an in-place change for all examples at once: the tensor that holds them, and its new
    value.

    Raises:
        RuntimeError: the tensor is unbatched and its new value is batched (VM-17); or the change cannot be done in
            place for all examples.
    """
    level = innermost_vmap_level((tensor, result))
    assert level is not None
    value, dim = unwrap_batched(tensor, level)
    if dim is None:
        raise AutogradError(
            "vmap: inplace arithmetic is not possible because the tensor that is changed in place is the same for all "
            f"examples (shape {list(tensor.shape)}), and the value put into it is another one for each: the tensor was "
            "captured or made inside vmap. Use the out-of-place operation, or start from a tensor that depends on the "
            "mapped inputs"
        )
    return value, along(*unwrap_batched(result, level), dim, level.size)


def _outputs(op: Op, operands: Sequence[Any], params: tuple[Any, ...], level: VmapLevel) -> tuple[tuple[Any, ...], int]:
    """Return the outputs for all examples, and their batch dimension."""
    if op.name in KEEPS_DIM and not any([isinstance(operand, Tensor) for operand in operands[1:]]):
        value, dim = unwrap_batched(operands[0], level)
        assert dim is not None
        return (call(op, (value, *operands[1:]), params),), dim
    values: list[Any] = []
    flags: list[bool] = []
    ranks: list[int | None] = []
    for operand in operands:
        value, dim = unwrap_batched(operand, level)
        values.append(in_front(value, dim) if dim else value)
        flags.append(dim is not None)
        ranks.append(operand.ndim if hasattr(operand, "ndim") else None)
    op_call = BatchedOpCall(op, tuple(values), tuple(flags), tuple(ranks), params, level.size)
    rule = rules.get(op.name)
    made = NotImplemented if rule is None else rule(op_call)
    if made is NotImplemented:
        made = one_by_one(op_call)
    return (made,) if op.outputs == 1 else tuple(made), 0


def one_by_one(op_call: BatchedOpCall) -> Any:
    """Apply an op to one example after the other, and stack the outputs: the slow fallback for ops without a rule."""
    if op_call.op.infer is None and op_call.op.name == "nonzero":
        raise AutogradError(
            "vmap: we do not support batching operators that can output dynamic shape: nonzero, and indexing with a "
            "bool mask, give another shape for each example. Use raygrad.where with the mask instead"
        )
    count = max(op_call.size, 1)
    made: list[Any] = []
    for example in range(count):
        operands = [
            example_of(operand, 0, example, op_call.size) if flag else operand
            for operand, flag in zip(op_call.operands, op_call.batched, strict=True)
        ]
        made.append(call(op_call.op, operands, op_call.params))
    outputs = [made] if op_call.op.outputs == 1 else [list(parts) for parts in zip(*made, strict=True)]
    stacked = [stacked_examples(parts, op_call.size) for parts in outputs]
    return stacked[0] if op_call.op.outputs == 1 else tuple(stacked)


def example_of(value: Any, dim: int, number: int, size: int) -> Any:
    """Return one example of a batch; of an empty batch, zeros in an example's shape, which decides that of outputs."""
    if size:
        return ops.select(value, dim, number)
    return zeros_on(value.device, value.shape[:dim] + value.shape[dim + 1 :], value.dtype)


def stacked_examples(examples: Sequence[Any], size: int) -> Any:
    """Return examples as a batch, with its dimension in front; as an empty one if that is its size."""
    return ops.stack(examples) if size else ops.stack(examples)[:0]
