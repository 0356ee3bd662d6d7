"""Compiled steps of built-in ops and their vjps on any device, and transfers between devices.

The compiler has faster ones for few operands on the host. The op registry selects the kernel, by (op, device, dtype).
The device of the operands is the current one while a step runs. Values move by `to_device` only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from raygrad.autograd.core.array_layout import is_array
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


def compile_general_op(node: OpCall, targets: Sequence[int], device: Device) -> Execute:
    """Return a step that runs a built-in op of any number of operands on any device, with output slots `targets`."""
    op = get_op(node.fn)
    sources, params, on_host = node.inputs, node.params, device is CPU
    sole = op.sole_kernel() if on_host else None
    is_operand: Callable[[Any], bool] = is_array if on_host else is_device_array
    if on_host and not sources and op.outputs == 1:
        return _compile_factory(node, targets[0])

    def execute(slots: Slots) -> None:
        operands: list[Any] = [None if s == UNDEFINED else slots[s] for s in sources]
        results: Any = (None,) * len(targets)
        if not any(o is None and s != UNDEFINED for o, s in zip(operands, sources, strict=True)):
            dtype: Any = next((o.dtype for o in operands if is_operand(o)), None)
            try:
                if on_host or dtype is None:  # a factory: no operand is an array
                    kernel = op.builtin_kernel(device.type, dtype) if sole is None else sole
                    out = kernel(*operands, *params)
                else:
                    out = run(op, operands, params, dtype)
            except MISUSE as error:
                raise explained(op, params, operands, error) from None
            results = (out,) if op.outputs == 1 else out
            if on_host:
                results = [value if type(value) is np.ndarray else np.asarray(value) for value in results]
        for target, value in zip(targets, results, strict=True):
            if target >= 0:
                slots[target] = value

    return execute


def _compile_factory(node: OpCall, target: int) -> Execute:
    """Return a step that runs a built-in op without operands on the host."""
    op, params = get_op(node.fn), node.params
    kernel = op.sole_kernel() or op.builtin_kernel(CPU.type, None)

    def make(slots: Slots) -> None:
        try:
            value = kernel(*params)
        except MISUSE as error:
            raise explained(op, params, [], error) from None
        slots[target] = value if type(value) is np.ndarray else np.asarray(value)

    return make


def compile_general_vjp(one: OpDerivative, device: Device) -> Execute:
    """Return a step that runs the vjp of a built-in op on any device."""

    op, rule, wanted, on_host = one.op, one.rule, one.wanted, device is CPU

    def vjp(slots: Slots) -> None:
        grads = one.grads(slots)
        for held in grads:
            if held is not None:
                break
        else:
            one.undefined(slots)
            return
        context = one.context(slots)
        if on_host:
            results = vjp_arrays(op, rule, context, grads)
        else:
            backend = known_backend_of(held)
            with device_guard(held) if needs_device_guard(held) else nullcontext():
                results = with_memory_retry(
                    backend,
                    backend.index_of(held),
                    lambda: f"in the derivative of {op.name} of {describe_shapes(grads)}",
                    lambda: vjp_arrays(op, rule, context, grads),
                )
        for position, target in wanted:
            slots[target] = results[position]

    return vjp
