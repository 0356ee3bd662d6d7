"""Compiled steps of the forward of user Functions: its arguments, its context, and the observed signature of its runs.

The runner compiles `FunctionCall` nodes with it (H3); derivatives are in `derivatives`. Undefined gradients are None.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol, cast

import numpy as np

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import FixedOutput
from raygrad.autograd.derived.function_with_saved_hooks import packing
from raygrad.autograd.devices.serving import CPU, device_guard, device_of
from raygrad.autograd.dispatch.device_dispatch import guard_of, tensor_devices
from raygrad.autograd.functions.context_runs import plain_saved, saved_places, unchecked_places
from raygrad.autograd.functions.context_state import (
    UNWANTED,
    bind_arguments,
    bind_lent_leaves,
    note_copied_arguments,
    place_on,
    user_attributes,
    wanted_edge,
)
from raygrad.autograd.functions.function import FunctionNode, run_forward
from raygrad.autograd.functions.function_outputs import is_among, is_captured
from raygrad.autograd.functions.read_only_inputs import READ_ONLY, UNSAID as UNSAID, UNSAID_WRITE
from raygrad.autograd.storage.view_geometry import geometry_of
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import AutogradError, GraphError
from raygrad.proto.codec.signatures import told_outputs
from raygrad.proto.ir.array_layout import layout_of
from raygrad.proto.ir.nodes import FunctionCall
from raygrad.proto.ir.program import FunctionObservation, Program, Step
from raygrad.proto.ir.signatures import (
    CAPTURED,
    DIRTY,
    SAME,
    VIEW,
    ObservedArray,
    ObservedFixed,
    ObservedObject,
    ObservedOutput,
    ObservedSignature,
    Origin,
)
from raygrad.tracebacks import says

from ..code.argument_guard import guard_arguments
from ..code.nested_tensors import BOXES, Embedding, nested_tensors_of, opened
from ..code.shipping import pickle_value
from ..code.unpickling import functions_of
from ..memory.accounting import held_by_context
from ..values.contexts import Context, attributes_of, bound_to
from ..values.slots import Execute, Slots
from .arguments import compile_arguments, compile_originals
from .interruption import InterruptGate
from .leaf_gradients import BorrowedLeaves
from .shared_outputs import warn_of_shared_outputs
from .user_emits import emitting_to

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray


class Values(Protocol):
    """What the runner needs of the host's `ValueStore`; see there."""

    def spill_slot(self, slots: Slots, slot: int) -> Any: ...

    def load(self, region: Any) -> Any: ...

    def spill_left(self, context: Context) -> Context: ...


class Host(Protocol):
    """What the runner needs of its host."""

    report: Any
    """The `RecordBuilder` of the run that is under way."""

    gate: InterruptGate
    """Through which its calls are interrupted."""

    def code(self, fn: str, captured: Sequence[Any]) -> Any:
        """Return user code by its name in the graph, with its captured values bound."""

    def filtered(self, number: int, packed: bytes) -> AbstractContextManager[None]:
        """Return a block under the filters of `warnings` that a setting names."""
        ...

    @property
    def values(self) -> Values:
        """Its values."""
        ...


class AgreedFacts:
    """The `plain_facts` of a run that showed what is expected: whoever has the same shows the same."""

    __slots__ = ("facts",)

    def __init__(self) -> None:
        self.facts: Any = None


def compile_function(node: FunctionCall, step: Step, program: Program, host: Host, agreed: AgreedFacts) -> Execute:
    """Return what runs a Function's forward. Steps that expect the same signature have `agreed` in common."""
    execute = _Forward(node, step, program, host, agreed).execute
    return _unheard(execute) if node.silent else execute


class _Forward:
    """The forward of a Function as a step of a program. What the step alone decides is found out once."""

    def __init__(self, node: FunctionCall, step: Step, program: Program, host: Host, agreed: AgreedFacts) -> None:
        flags, expected, names, places = node.requires_grad, node.expected, node.keywords, node.shared
        count = len(flags)
        self._step, self._host, self._expected, self._names = step, host, expected, names
        sources, self._given_by_name = node.inputs[:count], node.inputs[count : count + len(names)]
        self._leaves = leaves = BorrowedLeaves.of(node, step.outputs)
        self._captured = BorrowedLeaves.inputs_before(step, leaves)[count + len(names) :]
        self._edges = tuple([_edge(flag) for flag in flags])
        self._numbers = [(position, flag - 1) for position, flag in enumerate(flags) if flag > 1]
        """Arguments that are other outputs than the first of their nodes (OU-29)."""
        self._recorded = node.recorded
        self._context, self._targets = step.outputs[0], step.outputs[1:]
        self._open_ended = program.open_base >= 0 and step is program.steps[-1]
        self._arguments_of = compile_arguments(sources, flags, places, None if expected is None else expected.changed)
        self._originals = compile_originals(sources, places)
        self._laid = any(places)
        self._only_tensors = not names and -1 not in flags
        self._shows = expected is None or self._open_ended
        """Each run tells what it showed, since that is not known."""
        self._agreed = agreed
        self._holds_large = True
        """Whether the contexts of such runs hold large arguments or outputs."""

    def execute(self, slots: Slots) -> None:
        """Run it: what code may read and write is lent before, and taken back after."""
        args = self._arguments_of(slots)
        for position, number in self._numbers:
            args[position].output_nr = number
        named: dict[str, Any] = {}
        boxed: list[Any] = []
        embedded: list[Embedding] = []
        if not self._only_tensors:
            named = {name: slots[source] for name, source in zip(self._names, self._given_by_name, strict=True)}
            boxed = [value for value in (*args, *named.values()) if type(value) in BOXES]
            embedded = list({id(value): value for value in boxed if type(value) is Embedding}.values())
        captured, leaves, recorded = self._captured, self._leaves, self._recorded
        beside = len(captured) - sum([one.own for one in embedded])
        read = [slots[s] for s in captured[:beside]] if beside else []
        tensors = nested_tensors_of(embedded, captured[beside:], slots) if embedded else []
        lent = leaves.lend(slots, read, [], dict(enumerate(tensors))) if leaves else []
        cls = self._host.code(self._step.node.fn, read)
        path = state.here.paths[self._step.index][0]
        inside: frozenset[int] = frozenset()
        if boxed:
            with functions_of(cls):
                args, named, inside = opened(args, named, tensors)
        guard = None if self._only_tensors else guard_arguments(cls, args, named)
        placed = tensor_devices(args) if _may_be_on_device(args) else None
        try:
            if placed is None and not cls._traits.packs:
                context, raw = run_forward(cls, args, recorded, self._edges, named, self._laid, path)
            else:
                with packing(cls), nullcontext() if placed is None else guard_of(args):
                    context, raw = run_forward(cls, args, recorded, self._edges, named, self._laid, path)
        except (AutogradError, ValueError) as error:
            told = isinstance(error, AutogradError) and isinstance(error.__cause__, ValueError)  # as eagerly
            cause = error.__cause__ if told else error
            if not refuses_write(cause):
                raise
            raise AutogradError(UNSAID_WRITE.format(name=cls.__name__) + of_captured(read)) from cause
        copied: tuple[str, ...] = ()
        if guard is not None:
            guard.check()
            if recorded and (copied := guard.names_of(user_attributes(context))):
                note_copied_arguments(context, copied)
        if leaves:
            leaves.take_back(slots, lent, cls.__name__)
            if tensors and recorded:
                bind_lent_leaves(context, dict(enumerate(tensors)))
        if inside and recorded:
            bind_arguments(context, {position: args[position] for position in inside})
        outputs: tuple[Any, ...] = cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)
        if placed is not None or (_may_be_on_device(outputs) and tensor_devices(outputs) is not None):
            devices = [one.device if isinstance(one, Tensor) else CPU for one in outputs]
            place_on(context, placed or [CPU] * len(args), devices)
        as_agreed, agreed = False, self._agreed
        if self._shows:
            self._tell(slots, context, args, raw, outputs)
            origins = [_origin(context, one, args) if isinstance(one, Tensor) else () for one in outputs]
            warn_of_shared_outputs(cls.__name__, outputs, origins, (*args, *named.values()), read)
        else:
            facts = plain_facts(context, args, raw, outputs)
            as_agreed = facts is not None and facts == agreed.facts
            if not as_agreed:
                self._check(cls, context, args, raw, outputs)
                agreed.facts = facts
        if self._context >= 0:
            made = slots[self._context] = Context(context) if recorded else None
            if made is not None:
                made.unbound = as_agreed and not embedded
                made.uncopied = not copied
            if made is not None and (self._holds_large or not as_agreed):
                self._holds_large = made.let_go_of_large()
        if self._open_ended:
            slots.extend([o._data if isinstance(o, Tensor) else o for o in outputs])
            return
        targets = self._targets
        if len(outputs) != len(targets):
            raise GraphError(
                f"{cls.__name__} returned {len(outputs)} outputs, where {len(targets)} were expected: its infer, if it "
                "has one, must describe every output"
            )
        for target, output in zip(targets, outputs, strict=True):
            if target >= 0:
                slots[target] = output._data if isinstance(output, Tensor) else output

    def _tell(self, slots: Slots, context: FunctionNode, args: Sequence[Any], raw: Any, outputs: Sequence[Any]) -> None:
        """Report what a run showed."""
        if self._expected is None:
            _check_unchanged(context, args, self._originals(slots))
        shown = signature_of_run(context, args, outputs, isinstance(raw, tuple))
        self._host.report.observations.append(learned(self._step.index, context, shown, args, outputs))

    def _check(self, cls: Any, context: FunctionNode, args: Sequence[Any], raw: Any, outputs: Sequence[Any]) -> None:
        """Check that a run showed what was expected; report what it showed otherwise.

        Raises:
            GraphError: it showed something else.
        """
        assert self._expected is not None
        shown = signature_of_run(context, args, outputs, isinstance(raw, tuple))
        if shown != self._expected:
            self._host.report.observations.append(learned(self._step.index, context, shown, args, outputs))
            raise GraphError(
                f"{cls.__name__} behaved differently from its first run with such arguments: "
                f"{self._expected.diff(shown)}. What a session records goes by the first run: let kinds, "
                "shapes and dtypes of outputs, and what is saved, depend on those of the arguments alone (pad, "
                "or return a mask), or apply it outside of the session"
            )


def _may_be_on_device(values: Sequence[Any]) -> bool:
    """Tell whether a tensor among values is over something else than an array of NumPy."""
    for value in values:
        if isinstance(value, Tensor) and type(value._data) is not _ARRAY:
            return True
    return False


def _unheard(execute: Execute) -> Execute:
    """Return the same without its emits: they were sent when it ran the first time."""

    def again(slots: Slots) -> None:
        with emitting_to(None):
            execute(slots)

    return again


FROZEN: Final = "must not be changed in place, since others read it too"
"""In what raygrad says of a write to a tensor of a device that was not declared."""


def of_captured(read: Sequence[Any]) -> str:
    """Return what is to be added to the error of a write that was refused, to code which reads captured arrays."""
    if not any([type(one) is _ARRAY for one in read]):
        return ""
    return (
        ". If it is an array that the code captures, a buffer, say: that is a copy in a session, and read-only; make "
        "it inside, or once on each worker by rg.worker_local"
    )


def refuses_write(error: BaseException | None) -> bool:
    """Tell whether an error says that something was written to which must not be."""
    return error is not None and (says(error, READ_ONLY) or says(error, FROZEN))


def _check_unchanged(context: FunctionNode, args: Sequence[Any], given: Sequence[Any]) -> None:
    """Check, the first time that a Function runs, that it wrote to no argument which it did not mark (OU-23)."""
    marked = [tensor.counter() for tensor in context.dirty_tensors or ()]
    for arg, before in zip(args, given, strict=True):
        if isinstance(arg, Tensor) and not is_among(arg.counter(), marked):
            now: Any = arg._data
            if not _are_equal(now, before):
                raise AutogradError(UNSAID_WRITE.format(name=context._function.__name__))


def _are_equal(now: Any, before: Any) -> bool:
    if type(now) is _ARRAY:
        return np.array_equal(now, before, equal_nan=now.dtype.kind in "fc")
    with device_guard(now):
        same = now == before
        return bool((same | ((now != now) & (before != before))).all())


def _edge(flag: int) -> Any:
    """Return the edge of a context on a worker for a flag of `FunctionCall.requires_grad`: whether an argument's
    gradient is wanted (1, and more with the number of the output that it is), or not (0), or is none (-1: no tensor).
    """
    return wanted_edge(flag) if flag > 0 else UNWANTED if flag == 0 else None


def plain_facts(context: FunctionNode, args: Sequence[Any], raw: Any, outputs: Sequence[Any]) -> list[Any] | None:
    """Return what decides `signature_of_run` where a run did nothing unusual: marked nothing, and returned new tensors
    only. None where it did."""
    facts = plain_saved(context)
    if facts is None:
        return None
    facts.append(type(raw))
    facts.append(len(outputs))
    for number, output in enumerate(outputs):
        if type(output) is not Tensor or output._requires_grad:
            return None
        if output._view is not None and output._base is not None:
            return None
        for arg in args:
            if arg is output:
                return None
        if number and is_among(output, outputs[:number]):
            return None
        data = output._data
        facts.append(data.shape)
        facts.append(data.dtype)
        if type(data) is not _ARRAY:
            facts.append(device_of(data))
    return facts


def signature_of_run(
    context: FunctionNode, args: Sequence[Any], outputs: Sequence[Any], as_tuple: bool
) -> ObservedSignature:
    """Return what a run of a Function showed: later runs with an equal key must show the same (H3)."""
    marked = context.non_differentiable or ()
    context._barren = frozenset([number for number, output in enumerate(outputs) if is_among(output, marked)])
    observed: list[ObservedOutput] = []
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            observed.append(
                ObservedFixed(pickle_value(output)) if isinstance(output, FixedOutput) else ObservedObject()
            )
            continue
        differentiable = output.dtype.kind in "fc" and not any(output is m for m in marked)
        origin = _origin(context, output, args)
        # an input in two slots is two aliases (OU-10), a new tensor one (OU-08)
        twin = -1 if origin[:1] in ((SAME,), (DIRTY,)) else next((j for j in range(number) if outputs[j] is output), -1)
        shape, device = tuple(output.shape), str(output.device)
        observed.append(ObservedArray(shape, output.dtype.name, differentiable, twin, origin, device))
    inputs, outs, saves = saved_places(context)
    return ObservedSignature(
        tuple(observed), tuple(sorted(inputs)), tuple(sorted(outs)), as_tuple=as_tuple, saves=saves
    )


def _origin(context: FunctionNode, output: Tensor, args: Sequence[Any]) -> Origin:
    """Return where an output comes from: () if forward made it, else what it is to which argument, -1 for something
    that only forward knows."""
    for position, arg in enumerate(args):
        if output is arg:
            return (DIRTY if is_among(arg, context.dirty_tensors or ()) else SAME, position)
    if is_captured(context, output):
        return (CAPTURED, -1)
    base = output._base
    if base is None:
        return ()
    position = next((position for position, arg in enumerate(args) if arg is base), -1)
    place = None if position < 0 else geometry_of(output._data, args[position]._data)
    return (VIEW, position, () if place is None else tuple(place))


def learned(
    index: int, context: FunctionNode, shown: ObservedSignature, args: Sequence[Any], outputs: Sequence[Any]
) -> FunctionObservation:
    """Return the entry of a record for a Function that was not known before."""
    layouts = [layout_of(output._data) if isinstance(output, Tensor) else None for output in outputs]
    changed = shown.changed
    facts = (
        ("attributes", attributes_of(context)),
        ("bound", bound_to(context)),
        ("unchecked", tuple(sorted(unchecked_places(context)))),
        ("holds", held_by_context(context)),
        ("bumps", tuple([(p, arg.counter()[0]) for p, arg in enumerate(args) if p in changed])),
    )
    return FunctionObservation(index, told_outputs(shown, layouts, facts), shown.saved_inputs, shown.saved_outputs)
