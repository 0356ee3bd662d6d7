"""The compiler of programs: each step becomes a closure over a list of slots, by the kind of its node.

The host runs the closures in order. Built-in ops run on bare arrays, user code on tensors. Undefined gradients are
None. Knows no scheduler and no transport.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final

import numpy as np

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import UnopenedStream
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.defined_sums import add_gradients as placed_sum
from raygrad.autograd.devices.serving import CPU, device_guard, needs_device_guard
from raygrad.autograd.dispatch.device_dispatch import guard_of, tensor_devices
from raygrad.autograd.dispatch.operand_errors import MISUSE, explained
from raygrad.autograd.engine.engine import call_hook
from raygrad.autograd.registry.registry import get_op
from raygrad.autograd.registry.vjp_rules import OpContext, vjp_arrays
from raygrad.errors import AutogradError, GraphError, ImpureFunctionError
from raygrad.proto.ir.nodes import (
    UNDEFINED,
    CheckDefined,
    CheckDigest,
    CheckNotNan,
    ControlDependency,
    Digest,
    Emit,
    FunctionCall,
    FunctionVjp,
    GradSum,
    HookCall,
    Load,
    Node,
    OpCall,
    OpVjp,
    Spill,
    moves,
    transforms_of,
)
from raygrad.proto.ir.program import Step
from raygrad.tracebacks import attribute_of

from ..code.unpickling import load
from ..values.fingerprints import digest
from ..values.slots import Execute, Slots
from .arguments import given
from .compilation import Compilation
from .derivatives import compile_function_vjp
from .device_steps import compile_general_op, compile_general_vjp, compile_move
from .functions import Host, compile_function
from .leaf_gradients import AddedGradients, BorrowedLeaves
from .op_vjp import OpDerivative
from .user_emits import emit
from .user_steps import user_step

_ARRAY = np.ndarray
_NUMBER: Any = np.generic
"""What NumPy makes of two arrays without axes."""


def compile_step(step: Step, compilation: Compilation) -> Execute:
    """Return the closure of one step of a program."""
    return _COMPILE[type(step.node)](step.node, step, compilation)


# ---- built-in ops -------------------------------------------------------------------------------------------------


def _compile_op(node: OpCall, step: Step, compilation: Compilation) -> Execute:
    if moves(node):
        return compile_move(step, compilation.program.specs)
    device = compilation.device_of(node)
    compile_on = _compile_op_here if device is CPU else compile_general_op
    return compile_on(node, step.outputs, device)


def _compile_op_here(node: OpCall, targets: Sequence[int], device: Device) -> Execute:
    op = get_op(node.fn)
    sources, params = node.inputs, node.params
    sole = op.sole_kernel()
    if sole is not None and op.outputs == 1 and UNDEFINED not in sources and len(sources) in (1, 2):
        (target,) = targets
        if len(sources) == 1:
            (source,) = sources

            def unary(slots: Slots) -> None:
                a = slots[source]
                if a is None:
                    slots[target] = None
                    return
                try:
                    out = sole(a, *params)
                except MISUSE as error:
                    raise explained(op, params, (a,), error) from None
                slots[target] = out if type(out) is _ARRAY else np.asarray(out)

            return unary
        left, right = sources

        def binary(slots: Slots) -> None:
            a, b = slots[left], slots[right]
            if a is None or b is None:
                slots[target] = None
                return
            try:
                out = sole(a, b, *params)
            except MISUSE as error:
                raise explained(op, params, (a, b), error) from None
            slots[target] = out if type(out) is _ARRAY else np.asarray(out)

        return binary

    return compile_general_op(node, targets, device)


def _compile_op_vjp(node: OpVjp, step: Step, compilation: Compilation) -> Execute:
    if moves(node):
        return compile_move(step, compilation.program.specs)
    device = compilation.device_of(node)
    one = OpDerivative.of(node, step.outputs, compilation.rule_of(node, device))
    return _compile_op_vjp_here(one) if device is CPU else compile_general_vjp(one, device)


def _compile_op_vjp_here(one: OpDerivative) -> Execute:
    op, rule, wanted = one.op, one.rule, one.wanted
    saved_slots, grad_slots = one.saved_slots, one.grad_slots

    if len(grad_slots) == 1 and len(wanted) == 1 and UNDEFINED not in (*saved_slots, *grad_slots):
        (grad_slot,), ((position, target),) = grad_slots, wanted
        params, wants, inputs, outputs = one.params, one.wants, one.inputs, one.outputs
        without = None if saved_slots else OpContext((), params, wants, inputs, outputs)

        def sole(slots: Slots) -> None:
            grad = slots[grad_slot]
            if grad is None:
                slots[target] = None
                return
            context = without or OpContext([slots[s] for s in saved_slots], params, wants, inputs, outputs)
            slots[target] = vjp_arrays(op, rule, context, (grad,))[position]

        return sole

    return compile_general_vjp(one, CPU)


def _compile_sum(node: GradSum, step: Step, compilation: Compilation) -> Execute:
    """Return what adds two gradients, either of which may be undefined; the second may be what steps have added."""
    plus: Callable[[Any, Any], Any] = operator.add if compilation.device_of(node) is CPU else placed_sum
    left, right = node.inputs
    (target,) = step.outputs

    def add(slots: Slots) -> None:
        a, b = slots[left], slots[right]
        if type(b) is AddedGradients:
            slots[target] = b.added_to(a)
            return
        total = b if a is None else a if b is None else plus(a, b)
        slots[target] = np.asarray(total) if isinstance(total, _NUMBER) else total

    return add


# ---- nodes of one output -------------------------------------------------------------------------------------------


def _by_value(compute: Callable[[Any, Host, list[Any]], Any]) -> Callable[[Any, Step, Compilation], Execute]:
    """Return what compiles a node whose one output `compute` returns from the node, the host and its inputs."""

    def compiled(node: Node, step: Step, compilation: Compilation) -> Execute:
        sources, (target,), host = node.inputs, step.outputs, compilation.host

        def execute(slots: Slots) -> None:
            slots[target] = compute(node, host, [slots[source] for source in sources])

        return execute

    return compiled


def _defined(_node: CheckDefined, _host: Host, inputs: list[Any]) -> Any:
    if inputs[0] is None:
        raise GraphError(
            "a gradient that was defined in earlier runs is undefined in this one, and an optimiser had gone by "
            "that: return zeros from the backward that left it out, or test `.grad is None` before each step"
        )
    return inputs[0]


def _no_nan(node: CheckNotNan, _host: Host, inputs: list[Any]) -> Any:
    value = inputs[0]
    if value is not None and value.dtype.kind in "fc":
        with device_guard(value) if needs_device_guard(value) else nullcontext():
            if np.isnan(value).any():
                raise AutogradError(node.message)
    return value


def _agree(node: CheckDigest, _host: Host, inputs: list[Any]) -> Any:
    context, before, *made = inputs
    if digest(made) != before:
        name = node.function
        raise ImpureFunctionError(
            f"{name} was run again, since its context was not kept, and did not return the same bits as before, so "
            "that gradients would belong to another forward: draw random numbers with raygrad (rg.rand, "
            "rg.generator()), keep no state between calls, or set pure = False on it and no saved_policy = "
            "'recompute', which has its context kept",
            name,
        )
    return context


def _compile_spill(node: Spill, step: Step, compilation: Compilation) -> Execute:
    (source,) = node.inputs
    (target,) = step.outputs
    values = compilation.host.values

    def spill(slots: Slots) -> None:
        slots[target] = values.spill_slot(slots, source)

    return spill


# ---- user code -----------------------------------------------------------------------------------------------------


def _compile_function(node: FunctionCall, step: Step, compilation: Compilation) -> Execute:
    program, host = compilation.program, compilation.host
    execute = compile_function(node, step, program, host, compilation.agreed(node.expected))
    return user_step(execute, node, step, compilation)


def _compile_function_vjp(node: FunctionVjp, step: Step, compilation: Compilation) -> Execute:
    return user_step(compile_function_vjp(node, step, compilation.host), node, step, compilation)


def _compile_hook(node: HookCall, step: Step, compilation: Compilation) -> Execute:
    return user_step(_hook(node, step, compilation.host), node, step, compilation)


def _hook(node: HookCall, step: Step, host: Host) -> Execute:
    kind, count = node.kind, node.gradients
    leaves = BorrowedLeaves.of(node, step.outputs)
    inputs = BorrowedLeaves.inputs_before(step, leaves)
    values, beside, captured = inputs[:count], inputs[count : count + node.shown], inputs[count + node.shown :]
    targets = step.outputs[: len(step.outputs) - (leaves.returned if leaves else 0)]

    def hook(slots: Slots) -> None:
        read = [slots[s] for s in captured]
        lent = leaves.lend(slots, read, [], None) if leaves else []
        code = host.code(node.fn, read)
        host.report.hooks.append(step.index)
        here = state.here
        here.grad = False  # as in the pass: under create_graph hooks run at the client (HK-13)
        outer, here.stream = here.stream, UnopenedStream(*here.paths[step.index][:2])
        try:
            shown = [_shown(slots, s) for s in values]
            with nullcontext() if tensor_devices(shown) is None else guard_of(shown):
                results = call_hook(kind, code, shown, [_shown(slots, s) for s in beside])
        finally:
            here.grad, here.stream = True, outer
        if leaves:
            leaves.take_back(slots, lent, attribute_of(code, "__name__", type(code).__name__))
        for target, value in zip(targets, results, strict=True):
            if target >= 0:
                slots[target] = None if value is None else value._data

    return hook


def _compile_emit(node: Emit, step: Step, compilation: Compilation) -> Execute:
    packed, *tensors = node.inputs

    def send(slots: Slots) -> None:
        emit(*load(slots[packed], (), [slots[slot] for slot in tensors]))

    return send


def _shown(slots: Slots, slot: int) -> Any:
    return None if slot == UNDEFINED or slots[slot] is None else given(slots[slot])


def node_name(node: Node, code: str = "") -> str:
    """Return a node's name for messages, with the name of the user code that it runs: `tanh`, `tanh (vjp)`, `Solve`,
    `Solve (vjp)`, `tensor hook scale`."""
    base = code or node.fn
    if isinstance(node, HookCall):
        return f"{node.kind} hook {base}"
    return base + (f" ({' of '.join(transforms_of(node))})" if node.depth else "")


_COMPILE: Final[dict[type, Callable[[Any, Step, Compilation], Execute]]] = {
    OpCall: _compile_op,
    OpVjp: _compile_op_vjp,
    FunctionCall: _compile_function,
    FunctionVjp: _compile_function_vjp,
    HookCall: _compile_hook,
    GradSum: _compile_sum,
    CheckDefined: _by_value(_defined),
    CheckNotNan: _by_value(_no_nan),
    ControlDependency: _by_value(lambda node, host, inputs: inputs[0]),
    Digest: _by_value(lambda node, host, inputs: digest(inputs)),
    CheckDigest: _by_value(_agree),
    Emit: _compile_emit,
    Spill: _compile_spill,
    Load: _by_value(lambda node, host, inputs: host.values.load(*inputs)),
}
