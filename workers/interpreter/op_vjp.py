"""The vjp of a built-in op in a step: its rule, residual slots, cotangent slots and wanted gradients.

The runner, or `device_steps` on a device, compiles a step from it and calls the rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from raygrad.autograd.registry.registry import Derivative, Op, get_op
from raygrad.autograd.registry.vjp_rules import OpContext
from raygrad.proto.ir.nodes import UNDEFINED, OpVjp
from raygrad.proto.ir.specs import ArraySpec, Spec

from ..values.slots import Slots

Meta = tuple[tuple[int, ...], "np.dtype[Any]"]


class OpRule(NamedTuple):
    """The rule of an `OpVjp` node, and what it is told of operands and results. Nodes that differ in their inputs and
    parameters alone have the same."""

    op: Op
    rule: Derivative
    inputs: list[Meta | None]
    """Per operand, its shape and dtype; None if it is no array."""
    outputs: list[Meta]

    @classmethod
    def of(cls, node: OpVjp, specs: Sequence[Spec], kind: str) -> OpRule:
        """Return the rule of a node for a kind of device.

        Raises:
            MissingDerivative: there is none.
        """
        op = get_op(node.fn)
        metas = {one: _meta(specs, one) for one in {*node.operand_specs, *node.result_specs} if one >= 0}
        inputs = [metas.get(one) for one in node.operand_specs]
        dtype = next((meta[1] for meta in inputs if meta is not None), None)
        rule = op.builtin_derivative(kind, dtype)
        if rule is None:
            raise op.missing(kind, dtype)
        return cls(op, rule, inputs, [metas[one] for one in node.result_specs])


class OpDerivative(NamedTuple):
    """A compiled `OpVjp` node; see the head of this file."""

    op: Op
    rule: Derivative
    params: Any
    """Static parameters of the op."""
    inputs: list[Meta | None]
    """See `OpRule`."""
    outputs: list[Meta]
    saved_slots: Sequence[int]
    grad_slots: Sequence[int]
    wanted: list[tuple[int, int]]
    """(operand, output slot) of each requested gradient."""
    wants: Any
    """Per operand, whether its gradient is wanted."""

    @classmethod
    def of(cls, node: OpVjp, targets: Sequence[int], rule: OpRule) -> OpDerivative:
        """Read a node whose outputs go to the slots `targets`."""
        needs = node.wanted
        split = len(node.inputs) - len(rule.outputs)
        positions = [position for position, need in enumerate(needs) if need]
        wanted = [(p, target) for p, target in zip(positions, targets, strict=True) if target >= 0]
        chosen = {position for position, _ in wanted}
        wants = tuple([int(position in chosen) for position in range(len(needs))])
        saved, grads = node.inputs[:split], node.inputs[split:]
        return cls(rule.op, rule.rule, node.params, rule.inputs, rule.outputs, saved, grads, wanted, wants)

    def grads(self, slots: Slots) -> list[Any]:
        """Return the cotangents per output of the op; None for an undefined one."""
        return [None if s == UNDEFINED else slots[s] for s in self.grad_slots]

    def context(self, slots: Slots) -> OpContext:
        """Return the context that the rule reads."""
        saved = [None if s == UNDEFINED else slots[s] for s in self.saved_slots]
        return OpContext(saved, self.params, self.wants, self.inputs, self.outputs)

    def undefined(self, slots: Slots) -> None:
        """Set all gradients undefined, since all cotangents are."""
        for _, target in self.wanted:
            slots[target] = None


def _meta(specs: Sequence[Spec], index: int) -> Meta:
    spec = specs[index]
    assert isinstance(spec, ArraySpec)  # operands and results of ops are arrays
    return tuple(spec.shape), np.dtype(spec.dtype)
