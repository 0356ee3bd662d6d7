"""Running a program: its steps compiled once to closures over a list of slots, then run in order.

Rules of this file: how each role of a node executes (see proto/graph.py), on bare arrays for built-in ops and on
tensors for user code. Undefined gradients are None. It knows no scheduler and no transport.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from raygrad.autograd.derive import OpContext, vjp_arrays
from raygrad.autograd.engine import call_hook
from raygrad.autograd.function import INPUT, OUTPUT, FunctionNode, run_backward, run_forward
from raygrad.autograd.hooks import HookDict
from raygrad.autograd.layout import dense, is_array
from raygrad.autograd.once import refused
from raygrad.autograd.packed import Intermediate, differentiated, on_tape
from raygrad.autograd.registry import get_op
from raygrad.autograd.tensor import Tensor
from raygrad.errors import GraphError
from raygrad.proto.graph import ROLE_FUNCTION, ROLE_HOOK, ROLE_OP, ROLE_SUM, UNDEFINED, Node, Spec
from raygrad.proto.layout import layout_of
from raygrad.proto.program import Learned, Program, Step

from .contexts import UNWANTED, WANTED, Context
from .emit import emitting_to

Slots = list[Any]
Execute = Callable[[Slots], None]

_ARRAY = np.ndarray


class Report(Protocol):
    """What a running program tells about itself."""

    learned: list[Learned]
    undefined: list[tuple[int, tuple[int, ...], tuple[int, ...]]]
    hooks: list[int]


class Host(Protocol):
    """What the runner needs of its host."""

    report: Any
    """The `Report` of the run that is under way."""

    def code(self, fn: str, captured: Sequence[Any]) -> Any:
        """Return user code by its name in the graph, with its captured values bound."""


def compile_steps(program: Program, host: Host) -> list[Execute]:
    """Return one closure per step."""
    return [_compile(step, program, host) for step in program.steps]


def _compile(step: Step, program: Program, host: Host) -> Execute:
    node = step.node
    if node.role == ROLE_OP:
        return _compile_op_vjp(step, program.specs) if node.transforms else _compile_op(step)
    if node.role == ROLE_FUNCTION:
        return _compile_function_vjp(step, host) if node.transforms else _compile_function(step, program, host)
    if node.role == ROLE_HOOK:
        return _compile_hook(step, host)
    if node.role == ROLE_SUM:
        return _compile_defined(step) if node.fn == "defined" else _compile_sum(step)
    raise GraphError(f"a node of unknown role '{node.role}'")


# ---- built-in ops -------------------------------------------------------------------------------------------------


def _compile_op(step: Step) -> Execute:
    op = get_op(step.node.fn)
    sources, params, targets = step.node.inputs, step.node.params, step.outputs
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
                out = sole(a, *params)
                slots[target] = out if type(out) is _ARRAY else np.asarray(out)

            return unary
        left, right = sources

        def binary(slots: Slots) -> None:
            a, b = slots[left], slots[right]
            if a is None or b is None:
                slots[target] = None
                return
            out = sole(a, b, *params)
            slots[target] = out if type(out) is _ARRAY else np.asarray(out)

        return binary

    def general(slots: Slots) -> None:
        operands = [None if s == UNDEFINED else slots[s] for s in sources]
        if any(o is None and s != UNDEFINED for o, s in zip(operands, sources, strict=True)):
            for target in targets:
                slots[target] = None
            return
        dtype: Any = next((o.dtype for o in operands if is_array(o)), None)
        out = op.kernel("cpu", dtype)(*operands, *params)
        for target, value in zip(targets, (out,) if op.outputs == 1 else out, strict=True):
            slots[target] = value if type(value) is _ARRAY else np.asarray(value)

    return general


def _compile_op_vjp(step: Step, specs: Sequence[Spec]) -> Execute:
    op = get_op(step.node.fn)
    op_params, needs, input_specs, output_specs = step.node.params[:4]
    inputs = [None if i < 0 else _meta(specs[i]) for i in input_specs]  # type: ignore[union-attr]
    outputs = [_meta(specs[i]) for i in output_specs]  # type: ignore[union-attr]
    dtype = next((meta[1] for meta in inputs if meta is not None), None)
    rule = op.derivative("cpu", dtype)
    if rule is None:
        raise op.missing("cpu", dtype)
    split = len(step.node.inputs) - len(outputs)
    saved_slots, grad_slots = step.node.inputs[:split], step.node.inputs[split:]
    wants: Any = needs
    positions = [position for position, need in enumerate(wants) if need]
    wanted = list(zip(positions, step.outputs, strict=True))
    found: Any = rule
    static: Any = op_params

    def vjp(slots: Slots) -> None:
        grads = [None if s == UNDEFINED else slots[s] for s in grad_slots]
        for given in grads:
            if given is not None:
                break
        else:
            for _, target in wanted:
                slots[target] = None
            return
        context = OpContext([None if s == UNDEFINED else slots[s] for s in saved_slots], static, wants, inputs, outputs)
        results = vjp_arrays(op, found, context, grads)
        for position, target in wanted:
            slots[target] = results[position]

    return vjp


def _compile_defined(step: Step) -> Execute:
    (source,) = step.node.inputs
    (target,) = step.outputs

    def defined(slots: Slots) -> None:
        if slots[source] is None:
            raise GraphError(
                "a gradient that was defined in earlier runs is undefined in this one, and an optimiser had gone by "
                "that: return zeros from the backward that left it out, or test `.grad is None` before each step"
            )
        slots[target] = slots[source]

    return defined


def _compile_sum(step: Step) -> Execute:
    left, right = step.node.inputs
    (target,) = step.outputs

    def add(slots: Slots) -> None:
        a, b = slots[left], slots[right]
        slots[target] = b if a is None else a if b is None else np.asarray(a + b)

    return add


def _meta(spec: Spec) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return tuple(spec.shape), np.dtype(spec.dtype)


# ---- user code ----------------------------------------------------------------------------------------------------


def given(array: Any, requires_grad: bool = False) -> Any:
    """Return what user code gets for an array: a tensor over a dense, read-only view of it (H1, DR-03)."""
    array = dense(array)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    tensor = Tensor.made(array)
    tensor._requires_grad = requires_grad
    return tensor


def _compile_function(step: Step, program: Program, host: Host) -> Execute:
    count, flags, recording, expected = step.node.params[:4]
    arguments: Any = count
    sources, captured = step.node.inputs[:arguments], step.node.inputs[arguments:]
    mask: Any = flags
    context_slot, targets = step.outputs[0], step.outputs[1:]
    open_ended = program.open_base >= 0 and step is program.steps[-1]

    def function(slots: Slots) -> None:
        cls = host.code(step.node.fn, [slots[s] for s in captured])
        args = tuple(
            [
                _argument(None if source == UNDEFINED else slots[source], flag)
                for source, flag in zip(sources, mask, strict=True)
            ]
        )
        tracked = [_Tracked.edges(flag) for flag in mask]
        context, raw = run_forward(cls, args, bool(recording), tracked)
        outputs: tuple[Any, ...] = cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)
        shown = describe(context, args, outputs, isinstance(raw, tuple))
        if expected is None or open_ended:
            host.report.learned.append(learned(step.index, shown, outputs))
        elif shown != expected:
            raise GraphError(
                f"{cls.__name__} behaved differently from its first run with equal arguments: "
                f"expected {expected}, got {shown}; "
                "a Function's output kinds, shapes and what it saves must depend on its arguments' specs only"
            )
        if context_slot >= 0:
            slots[context_slot] = Context(context) if recording else None
        values = [o._data if isinstance(o, Tensor) else o for o in outputs]
        if not open_ended and len(values) != len(targets):
            raise GraphError(
                f"{cls.__name__} returned {len(values)} outputs, but its infer said {len(targets)}: "
                "infer must describe every output"
            )
        if open_ended:
            slots.extend(values)
        else:
            for target, value in zip(targets, values, strict=True):
                if target >= 0:
                    slots[target] = value

    return function


class _Tracked:
    """Edges of a context on a worker: whether an argument's gradient is wanted, by the client's flags."""

    @staticmethod
    def edges(flag: int) -> Any:
        """Return the edge for a flag of the node's params: 1 wanted, 0 not, -1 no tensor."""
        return WANTED if flag == 1 else UNWANTED if flag == 0 else None


def _argument(value: Any, flag: int) -> Any:
    return value if flag < 0 else given(value, flag == 1)


def describe(context: FunctionNode, args: Sequence[Any], outputs: Sequence[Any], as_tuple: bool) -> tuple[Any, ...]:
    """Return what a run of a Function showed, as plain data: later runs with an equal key must show the same (H3)."""
    marked = context.non_differentiable or ()
    kinds: list[tuple[Any, ...]] = []
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            kinds.append(("object",))
            continue
        differentiable = output.dtype.kind in "fc" and not any(output is m for m in marked)
        returned = any(
            output is a for a in args
        )  # an input in two slots is two aliases (OU-10), a new tensor one (OU-08)
        twin = -1 if returned else next((j for j in range(number) if outputs[j] is output), -1)
        kinds.append(("array", tuple(output.shape), output.dtype.name, int(differentiable), twin))
    slots = context._saved or ()
    references = (context._references or {}).values()
    inputs = {s.position for s in slots if s is not None and s.kind is INPUT} | {p for k, p in references if k is INPUT}
    outs = {s.position for s in slots if s is not None and s.kind is OUTPUT} | {p for k, p in references if k is OUTPUT}
    return (tuple(kinds), tuple(sorted(inputs)), tuple(sorted(outs)), int(as_tuple), int(bool(slots)))


def learned(index: int, shown: tuple[Any, ...], outputs: Sequence[Any]) -> Learned:
    """Return the entry of a record for a Function that was not known before."""
    kinds, inputs, outs, as_tuple, saves = shown
    specs: list[tuple[str, Any]] = []
    for kind, output in zip(kinds, outputs, strict=True):
        if kind[0] == "object":
            specs.append(("object", None))
        else:
            specs.append(("array", (*kind[1:], layout_of(output._data))))
    return Learned(index, (*specs, ("tuple", as_tuple), ("saves", saves)), inputs, outs)


def _compile_function_vjp(step: Step, host: Host) -> Execute:
    length, arguments, outputs, wanted, requires, differentiate, freed, expected = step.node.params[:8]
    depth = len(step.node.transforms)
    context_slot = step.node.inputs[0]
    items, captured = step.node.inputs[1 : 1 + length], step.node.inputs[1 + length :]  # type: ignore[operator]
    flagged: Any = frozenset(requires)  # type: ignore[arg-type]
    chosen: Any = wanted

    def vjp(slots: Slots) -> None:
        cls = host.code(step.node.fn, [slots[s] for s in captured])
        live = slots[context_slot].live(cls)
        if freed:
            live = live.freed()
        tensors = [
            None if slot == UNDEFINED or slots[slot] is None else given(slots[slot], position in flagged)
            for position, slot in enumerate(items)
        ]
        level = _Levels(live, arguments, outputs)  # type: ignore[arg-type]
        if depth == 1:
            results = level.first(tensors, bool(differentiate))
        else:
            with emitting_to(None), contextlib.redirect_stdout(io.StringIO()):
                results = level.at(depth, tensors, bool(differentiate))
        kept = [results[position] for position in chosen]
        for target, value in zip(step.outputs, kept, strict=True):
            if target >= 0:
                slots[target] = None if value is None else value._data
        undefined = tuple([i for i, value in enumerate(kept) if value is None])
        errors = refused(kept) if differentiate else {}
        flows = tuple(
            [~i if i in errors else i for i, value in enumerate(kept) if value is not None and value._requires_grad]
        )
        if expected is not None and (undefined, flows) != expected:
            raise GraphError(
                f"the backward of {cls.__name__} under create_graph left other gradients undefined, or differentiable "
                f"in other ways, than in its earlier runs with equal specs: expected {expected}, "
                f"got {(undefined, flows)}"
            )
        host.report.undefined.append((step.index, undefined, flows))

    return vjp


class _Levels:
    """The derivatives of a user Function of any order, from its one backward (H7).

    Level 1 runs the user's backward on the tape; level k differentiates level k-1 by a local engine.
    """

    def __init__(self, context: FunctionNode, arguments: int, outputs: int) -> None:
        self._context = context
        self._arguments = arguments
        self._outputs = outputs
        self._intermediate = Intermediate(context.name(), ())

    def first(self, items: Sequence[Any], create_graph: bool) -> list[Any]:
        """Return one gradient per argument from (cotangents, arguments, outputs)."""
        a, b = self._outputs, self._outputs + self._arguments
        if create_graph and self._context._saved is not None:
            node, self._intermediate = on_tape(self._context, items[a:b], items[b:])
        else:
            node = self._context.replay(items[a:b], items[b:])
        grads = list(items[:a])
        none = HookDict()
        for hook in (node._pre_hooks or none).values():  # those that forward registered on its ctx (ND-13)
            grads = call_hook("pre", hook, grads)
        results = run_backward(node, grads, create_graph)
        for hook in (node._post_hooks or none).values():
            results = call_hook("post", hook, results, grads)
        return results

    def at(self, depth: int, items: Sequence[Any], create_graph: bool) -> list[Any]:
        """Return one gradient per element of level depth-1's inputs."""
        if depth == 1:
            return self.first(items, True)
        count = self._results(depth - 1)
        cotangents, below = items[:count], items[count:]
        results = self.at(depth - 1, below, True)
        return differentiated(results, below, cotangents, self._intermediate, create_graph)

    def _results(self, depth: int) -> int:
        """Return the number of results of level `depth`: one per argument, then one per input of the level below."""
        if depth == 1:
            return self._arguments
        length = 2 * self._outputs + self._arguments
        for level in range(2, depth):
            length += self._results(level - 1)
        return length


def _compile_hook(step: Step, host: Host) -> Execute:
    kind, first, second = step.node.params[:3]
    a: Any = first
    b: Any = second
    values, beside, captured = step.node.inputs[:a], step.node.inputs[a : a + b], step.node.inputs[a + b :]

    def hook(slots: Slots) -> None:
        code = host.code(step.node.fn, [slots[s] for s in captured])
        host.report.hooks.append(step.index)
        results = call_hook(str(kind), code, [_shown(slots, s) for s in values], [_shown(slots, s) for s in beside])
        for target, value in zip(step.outputs, results, strict=True):
            if target >= 0:
                slots[target] = None if value is None else value._data

    return hook


def _shown(slots: Slots, slot: int) -> Any:
    return None if slot == UNDEFINED or slots[slot] is None else given(slots[slot])


def node_name(node: Node, code: Any = None) -> str:
    """Return a node's name for messages: `tanh`, `tanh (vjp)`, `Solve`, `Solve (vjp)`, `hook scale`."""
    base = node.fn if code is None else getattr(code, "__name__", type(code).__name__)
    if node.role == ROLE_HOOK:
        return f"{node.params[0]} hook {base}"
    return base + (f" ({' of '.join(node.transforms)})" if node.transforms else "")
