"""Steps whose values are on a device: built-in ops, their derivatives, sums of gradients, and moves between devices.

Rules of this file: which kernel serves is the registry's decision, by (op, device, dtype); the device of the operands
is the current one while it runs. Nothing moves but by `to_device`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.derive import OpContext, vjp_arrays
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import CPU, guard, is_away, is_elsewhere, named, send
from raygrad.autograd.devices.sums import plus
from raygrad.autograd.dispatch import MISUSE, explained
from raygrad.autograd.elsewhere import run
from raygrad.autograd.registry import get_op
from raygrad.proto.graph import KIND_ARRAY, UNDEFINED, Spec
from raygrad.proto.program import Step

from .functions import Execute, Slots
from .staged import Staged

MOVING: Final = "to_device"
"""The op that moves a value."""


def device_of_step(step: Step, specs: Sequence[Spec]) -> Device:
    """Return the device of what a built-in op or a sum makes, or of what its derivative reads."""
    node = step.node
    made = [specs[one] for one in node.outputs]
    if node.transforms:
        made += [specs[cast("int", one)] for one in cast("Sequence[Any]", node.params[3])]
    return next((named(one.device) for one in made if one.kind == KIND_ARRAY and one.device != "cpu"), CPU)


def compile_move(step: Step, specs: Sequence[Spec]) -> Execute:
    """Return what moves a value, or its gradient back."""
    node = step.node
    source, (target,) = node.inputs[-1], step.outputs
    place = named(specs[node.outputs[0]].device)

    def move(slots: Slots) -> None:
        value = None if source == UNDEFINED else slots[source]
        if isinstance(value, Staged):
            value = value.host
        if target >= 0:
            slots[target] = None if value is None else send(value, place)

    return move


def compile_op_on(step: Step, device: Device) -> Execute:
    """Return what runs a built-in op on a device."""
    op = get_op(step.node.fn)
    sources, params, targets = step.node.inputs, step.node.params, step.outputs

    def execute(slots: Slots) -> None:
        operands = [None if s == UNDEFINED else slots[s] for s in sources]
        if any(o is None and s != UNDEFINED for o, s in zip(operands, sources, strict=True)):
            results: Any = (None,) * op.outputs
        else:
            arrays: list[Any] = [o for o in operands if is_elsewhere(o)]
            dtype: Any = arrays[0].dtype if arrays else None
            try:
                if arrays:
                    out = run(op, operands, params, dtype)
                else:  # made on the device, of nothing
                    out = op.builtin_kernel(device.type, dtype)(*operands, *params)
            except MISUSE as error:
                raise explained(op, params, operands, error) from None
            results = (out,) if op.outputs == 1 else out
        for target, value in zip(targets, results, strict=True):
            if target >= 0:
                slots[target] = value

    return execute


def compile_vjp_on(step: Step, specs: Sequence[Spec], device: Device) -> Execute:
    """Return what runs the derivative of a built-in op on a device."""
    op = get_op(step.node.fn)
    op_params: Any
    needs: Any
    input_specs: Any
    output_specs: Any
    op_params, needs, input_specs, output_specs = step.node.params[:4]
    inputs = [None if i < 0 else _meta(specs, i) for i in input_specs]
    outputs = [_meta(specs, i) for i in output_specs]
    dtype = next((meta[1] for meta in inputs if meta is not None), None)
    rule = op.builtin_derivative(device.type, dtype)
    if rule is None:
        raise op.missing(device.type, dtype)
    found: Any = rule
    split = len(step.node.inputs) - len(outputs)
    saved_slots, grad_slots = step.node.inputs[:split], step.node.inputs[split:]
    positions = [position for position, need in enumerate(needs) if need]
    wanted = [(p, target) for p, target in zip(positions, step.outputs, strict=True) if target >= 0]
    chosen = {position for position, _ in wanted}
    wants: Any = tuple([int(position in chosen) for position in range(len(needs))])

    def vjp(slots: Slots) -> None:
        grads = [None if s == UNDEFINED else slots[s] for s in grad_slots]
        held = next((grad for grad in grads if grad is not None), None)
        if held is None:
            for _, target in wanted:
                slots[target] = None
            return
        saved = [None if s == UNDEFINED else slots[s] for s in saved_slots]
        with guard(held) if is_away(held) else nullcontext():
            results = vjp_arrays(op, found, OpContext(saved, op_params, wants, inputs, outputs), grads)
        for position, target in wanted:
            slots[target] = results[position]

    return vjp


def compile_sum_on(step: Step) -> Execute:
    """Return what adds two gradients on a device, either of which may be undefined."""
    left, right = step.node.inputs
    (target,) = step.outputs

    def add(slots: Slots) -> None:
        a, b = slots[left], slots[right]
        slots[target] = b if a is None else a if b is None else plus(a, b)

    return add


def _meta(specs: Sequence[Spec], index: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    spec = specs[index]
    return tuple(spec.shape), np.dtype(spec.dtype)
