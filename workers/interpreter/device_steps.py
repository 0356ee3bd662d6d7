"""Compiled steps on devices: built-in ops, their vjps, and transfers between devices.

The runner compiles nodes with it whose values are not on the host. The op registry selects the kernel, by (op, device,
dtype). The device of the operands is the current one while a step runs. Values move by `to_device` only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from raygrad.autograd.devices import Device
from raygrad.autograd.devices.backends.device_memory import describe_shapes, with_memory_retry
from raygrad.autograd.devices.serving import (
    CPU,
    device_guard,
    device_named,
    is_device_array,
    known_backend_of,
    move_array,
    needs_device_guard,
)
from raygrad.autograd.dispatch.device_dispatch import run
from raygrad.autograd.dispatch.operand_errors import MISUSE, explained
from raygrad.autograd.registry.registry import get_op
from raygrad.autograd.registry.vjp_rules import vjp_arrays
from raygrad.proto.ir.nodes import UNDEFINED, Node, OpCall, OpVjp
from raygrad.proto.ir.program import Step
from raygrad.proto.ir.specs import ArraySpec, Spec

from ..values.slots import Execute, Slots
from .op_vjp import OpDerivative


def device_of_node(node: Node, specs: Sequence[Spec]) -> Device:
    """Return the device of the outputs of a built-in op or sum, or of the cotangents of a vjp."""
    made = [specs[one] for one in node.outputs]
    if isinstance(node, OpVjp):
        made += [specs[one] for one in node.result_specs]
    return next((device_named(one.device) for one in made if isinstance(one, ArraySpec) and one.device != "cpu"), CPU)


def compile_move(step: Step, specs: Sequence[Spec]) -> Execute:
    """Return a step that transfers a value to another device, or its gradient back."""
    node = step.node
    source, (target,) = node.inputs[-1], step.outputs
    made = specs[node.outputs[0]]
    assert isinstance(made, ArraySpec)
    place = device_named(made.device)

    def move(slots: Slots) -> None:
        value = None if source == UNDEFINED else slots[source]
        if target >= 0:
            slots[target] = None if value is None else move_array(value, place)

    return move


def compile_op_on(node: OpCall, targets: Sequence[int], device: Device) -> Execute:
    """Return a step that runs a built-in op on a device, with output slots `targets`."""
    op = get_op(node.fn)
    sources, params = node.inputs, node.params

    def execute(slots: Slots) -> None:
        operands = [None if s == UNDEFINED else slots[s] for s in sources]
        if any(o is None and s != UNDEFINED for o, s in zip(operands, sources, strict=True)):
            results: Any = (None,) * op.outputs
        else:
            arrays: list[Any] = [o for o in operands if is_device_array(o)]
            dtype: Any = arrays[0].dtype if arrays else None
            try:
                if arrays:
                    out = run(op, operands, params, dtype)
                else:  # a factory: no operand is an array
                    out = op.builtin_kernel(device.type, dtype)(*operands, *params)
            except MISUSE as error:
                raise explained(op, params, operands, error) from None
            results = (out,) if op.outputs == 1 else out
        for target, value in zip(targets, results, strict=True):
            if target >= 0:
                slots[target] = value

    return execute


def compile_vjp_on(node: OpVjp, targets: Sequence[int], specs: Sequence[Spec], device: Device) -> Execute:
    """Return a step that runs the vjp of a built-in op on a device, with output slots `targets`."""
    one = OpDerivative.of(node, targets, specs, device.type)

    def vjp(slots: Slots) -> None:
        grads = one.grads(slots)
        held = next((grad for grad in grads if grad is not None), None)
        if held is None:
            one.undefined(slots)
            return
        context = one.context(slots)
        backend = known_backend_of(held)
        with device_guard(held) if needs_device_guard(held) else nullcontext():
            results = with_memory_retry(
                backend,
                backend.index_of(held),
                lambda: f"in the derivative of {one.op.name} of {describe_shapes(grads)}",
                lambda: vjp_arrays(one.op, one.rule, context, grads),
            )
        for position, target in one.wanted:
            slots[target] = results[position]

    return vjp
