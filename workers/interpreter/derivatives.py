"""Compiled steps of the derivatives of user Functions, of any order: the inputs of backward, and what its runs showed.

The runner compiles `FunctionVjp` nodes with it (H5, H7, DR-05); forward is in `functions`. Undefined gradients are
None.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, Final

import numpy as np

from raygrad.autograd.core.hooks import HookDict
from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import PassStream, Path, UnopenedStream, path_of_pass
from raygrad.autograd.devices.serving import device_guard, needs_device_guard
from raygrad.autograd.engine.engine import call_hook
from raygrad.autograd.engine.traversal import BackwardPass
from raygrad.autograd.functions.context_runs import (
    WatchedSlots,
    has_changed,
    keep_in,
    left_behind,
    replay_plain,
    unpacked_on,
)
from raygrad.autograd.functions.context_state import copied_arguments
from raygrad.autograd.functions.double_backward import SavedIntermediates, context_on_tape, grads_on_tape
from raygrad.autograd.functions.function import FunctionNode, run_backward
from raygrad.autograd.nodes.node import for_all_inputs, for_tensor_inputs
from raygrad.autograd.nodes.once_differentiable import delayed_error_outputs
from raygrad.autograd.saved.saved_slots import UnreadableSlots
from raygrad.errors import AutogradError, GraphError
from raygrad.proto.ir.nodes import UNDEFINED, FunctionVjp
from raygrad.proto.ir.program import FunctionObservation, Step

from ..code.argument_guard import guard_copies
from ..values.contexts import Context, with_attributes
from ..values.slots import Execute, Slots
from .arguments import given
from .functions import Host, of_captured, refuses_write
from .leaf_gradients import BorrowedLeaves, refused as refused_change
from .silent_stdout import silent_stdout
from .user_emits import emitting_to

CONDUCT: Final = "conduct"
"""What a vjp reports, in a `FunctionObservation`: what backward does with its context, as the sum of these."""

CHANGES: Final = 1
"""It sets or deletes something on it."""

READS: Final = 2
"""It reads what was saved."""


_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_new: Any = object.__new__


def compile_function_vjp(node: FunctionVjp, step: Step, host: Host) -> Execute:
    """Return what runs a Function's backward, or a derivative of it."""
    return _Vjp(node, step, host).execute


class _Vjp:
    """The backward of a Function as a step of a program. What the step alone decides is found out once."""

    def __init__(self, node: FunctionVjp, step: Step, host: Host) -> None:
        self._node, self._step, self._host = node, step, host
        arguments, outputs, differentiate, depth = node.arguments, node.results, node.differentiated, node.depth
        self._context, self._left, self._targets = node.inputs[0], step.outputs[0], step.outputs[1:]
        """Among the targets, after those of the gradients, are those of leaves."""
        self._known = None if node.expected is None else frozenset(node.expected.undefined)

        first = 1 + node.items
        items, self._values = node.inputs[1:first], node.inputs[first : first + len(node.attributes)]
        self._leaves = leaves = BorrowedLeaves.of(node, step.outputs)
        self._captured = captured = BorrowedLeaves.inputs_before(step, leaves)[first + len(node.attributes) :]
        flagged = frozenset(node.requires_grad)
        self._size = len(items)
        self._present = [(place, slot, place in flagged) for place, slot in enumerate(items) if slot != UNDEFINED]
        self._first = first = len(items) - arguments - outputs
        """Where the arguments of forward begin among the items."""
        self._owed = [first + i for i in range(arguments) if first + i in flagged and depth == 1]
        """Arguments that require grad: a pass inside of backward adds to none but those that were lent."""
        self._outputs = [
            (first + arguments + j, j) for j in range(1, outputs) if items[first + arguments + j] != UNDEFINED
        ]
        """Saved outputs other than the first, and their numbers (OU-29)."""
        given_to = items[first : first + arguments]
        self._shared = [
            (number, first + given_to.index(slot))
            for number, slot in enumerate(captured if differentiate or depth > 1 else ())
            if slot in given_to
        ]
        """Of what is captured, that by which it is to be differentiated: its number, and its place among the items."""

        self._task = BackwardPass(None, node.retained, differentiate)
        self._once = _Once(outputs, arguments, node.wanted, self._task)
        self._plain = depth == 1 and not (differentiate or node.refusal or node.attributes)

    def execute(self, slots: Slots) -> None:
        """Run it: what code may read and write is lent before, and taken back after."""
        here = state.here
        paths = here.paths[self._step.index]
        task = here.stream = self._task
        task.path, task.application, task.of_node = paths[1], paths[0], None
        first = self._first
        tensors: list[Any] = [None] * self._size
        away = None
        for position, slot, requires_grad in self._present:
            value = slots[slot]
            if value is not None:
                tensors[position] = given(value, requires_grad)
                if type(value) is not _ARRAY and needs_device_guard(value):
                    away = value
        read: Any = [slots[s] for s in self._captured] if self._captured else ()
        for number, place in self._shared:
            read[number] = tensors[place]
        context = slots[self._context]
        held, inside = context.bound()
        for position, one in held.items():
            place = first + position
            if tensors[place] is not None:
                tensors[place] = one
        lent: list[Any] = []
        leaves = self._leaves
        if leaves:
            met = tensors[first : first + self._node.arguments]
            lent = leaves.lend(slots, read, met, inside)
            tensors[first : first + self._node.arguments] = met
        cls = self._host.code(self._node.fn, read)
        live = context.live(cls)
        self._number(live, tensors)
        try:
            if away is None:
                self._run(slots, cls, context, live, tensors)
            else:
                with device_guard(away):
                    self._run(slots, cls, context, live, tensors)
        except (AutogradError, ValueError) as error:
            if not refuses_write(error):
                raise
            same = ValueError if isinstance(error, ValueError) else AutogradError  # as eagerly
            raise same(_WRITES.format(name=cls.__name__) + of_captured(read)) from error
        if leaves:
            leaves.take_back(slots, lent, cls.__name__)
        for position in self._owed:
            if tensors[position] is not None and tensors[position]._grad is not None:
                raise refused_change(cls.__name__, tensors[position])

    def _number(self, live: Any, tensors: list[Any]) -> None:
        """Let saved arguments and outputs know which outputs of their nodes they are (OU-29)."""
        for place, number in self._outputs:
            if tensors[place] is not None:
                tensors[place].output_nr = number
        place = self._first
        for edge in live._edges:
            if edge is not None and edge[1] and tensors[place] is not None:
                tensors[place].output_nr = edge[1]
            place += 1

    def _run(self, slots: Slots, cls: Any, context: Context, live: Any, tensors: list[Any]) -> None:
        """Run the user's code, and put gradients and the context where they are awaited."""
        node = self._node
        if node.spared:
            live._of_part = True
        left_slot, once = self._left, self._once
        guard = None
        if node.depth == 1 and not context.uncopied and (copied := copied_arguments(live)):
            guard = guard_copies(cls, copied)
        gradients = once.run(live, tensors) if self._plain else None
        if gradients is not None:
            results: Sequence[Any] = gradients
            if left_slot >= 0:
                left = Context(once.left(live))
                slots[left_slot] = left if node.retained else self._host.values.spill_left(left)
            conduct = once.conduct
            once.forget()
        else:
            results, conduct = self._on_levels(slots, live, tensors)
        if guard is not None:
            guard.check()
        if node.depth == 1:
            if left_slot >= 0 and not conduct & CHANGES:
                slots[left_slot].unchanged = True
                if context.recipe is not None:
                    slots[left_slot].recipe = context.recipe.after_backward(slots[left_slot])
            if node.reports_effects or conduct & CHANGES:
                self._host.report.observations.append(
                    FunctionObservation(self._step.index, ((CONDUCT, conduct),), (), ())
                )
        missing: list[int] = []
        targets = self._targets
        for number, position in enumerate(node.wanted):
            value = results[position]
            if value is None:
                missing.append(number)
            if targets[number] >= 0:
                slots[targets[number]] = None if value is None else value._data
        undefined = tuple(missing)
        if node.differentiated:
            self._tell_flows(cls, undefined, [results[position] for position in node.wanted])
        elif self._known is None or not self._known.issuperset(undefined):
            self._host.report.undefined.append((self._step.index, undefined, ()))

    def _on_levels(self, slots: Slots, live: Any, tensors: list[Any]) -> tuple[Sequence[Any], int]:
        """Return what backward, or the derivative of it that is asked for, gives, and what it does with its context."""
        node = self._node
        if node.refusal:
            live = live.freed(UnreadableSlots(node.refusal))
        if node.attributes:
            live = with_attributes(live, node.attributes, [slots[value] for value in self._values])
        level = _Levels(live, node.arguments, node.results, self._task, state.here.paths[self._step.index][1:])
        if node.depth > 1:
            with emitting_to(None), silent_stdout():
                return level.at(node.depth, tensors, node.differentiated), 0
        results = level.first(tensors, node.differentiated, node.wanted)
        if self._left >= 0:
            left = Context(level.left())
            slots[self._left] = left if node.retained else self._host.values.spill_left(left)
        return results, level.conduct

    def _tell_flows(self, cls: Any, undefined: tuple[int, ...], kept: list[Any]) -> None:
        """Report which gradients are undefined and which can be differentiated, under create_graph.

        Raises:
            GraphError: other ones than in earlier runs.
        """
        errors = delayed_error_outputs(kept)
        flows = tuple(
            [~i if i in errors else i for i, value in enumerate(kept) if value is not None and value._requires_grad]
        )
        before = self._node.expected
        if before is not None and (undefined, flows) != before:
            raise GraphError(
                f"the backward of {cls.__name__} under create_graph left other gradients undefined, or differentiable "
                "in other ways, than in its earlier runs with such arguments: by argument, undefined are "
                f"{_numbers(undefined)}, and {_numbers(before.undefined)} were; differentiable are {_numbers(flows)}, "
                f"and {_numbers(before.differentiable)} were. Let both depend on shapes and dtypes alone: return zeros "
                "instead of None"
            )
        self._host.report.undefined.append((self._step.index, undefined, flows))


_WRITES: Final = (
    "the backward of {name} changed a gradient or a saved tensor in place, which others read too: work on a copy "
    "(x.clone(), or x.numpy().copy())"
)


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join([str(number) for number in numbers if number >= 0]) or "none"


class _Once:
    """The backward of a Function that is run on a worker's own context and not differentiated: nearly always. What
    `_Levels` does, for a context without hooks, references or packed values."""

    def __init__(self, outputs: int, arguments: int, wanted: Sequence[int], task: BackwardPass) -> None:
        self._outputs = outputs
        self._inputs, self._outputs_saved = outputs, outputs + arguments
        """Where arguments and saved outputs begin among the items."""
        self._needs = tuple([i in wanted for i in range(arguments)])
        self._task = task
        self._ran: Any = None
        self._before: dict[str, Any] = {}
        self._watched = WatchedSlots()

    def run(self, context: FunctionNode, items: Sequence[Any]) -> Sequence[Any] | None:
        """Return one gradient per argument from (cotangents, arguments, outputs); None, with nothing run, if the
        context is not plain."""
        watched = WatchedSlots()
        node = replay_plain(context, watched, items, self._inputs, self._outputs_saved)
        if node is None:
            return None
        own = node.__dict__
        needs = node.needs_input_grad
        if needs != self._needs and needs == wanted_by(node):
            own["needs_input_grad"] = self._needs
        self._ran, self._watched, self._before = node, watched, dict(own)
        here, task = state.here, self._task
        outer, here.task, task.node = here.task, task, node
        try:
            results = run_backward(node, items[: self._outputs], False)
        finally:
            here.task, task.node = outer, None
        return results if not node._post_hooks else _after(node, results, ())

    @property
    def conduct(self) -> int:
        """What the run did with the context."""
        now, before = self._ran.__dict__, self._before
        if len(now) == len(before) and all(map(is_, now.values(), before.values())):
            return READS * self._watched.read
        return CHANGES * has_changed(before, self._ran) + READS * self._watched.read

    def forget(self) -> None:
        """Let go of what was saved: the step lives as long as its program."""
        self._ran, self._watched, self._before = None, _NOTHING_READ, _NOTHING

    def left(self, context: FunctionNode) -> FunctionNode:
        """Return the context as the run left it; see `_Levels.left`."""
        left = left_behind(context, self._before, self._ran)
        return left if self._task.retain else left.freed()


def _after(node: FunctionNode, results: Sequence[Any], beside: Sequence[Any]) -> list[Any]:
    """Run the hooks that a context has behind it (ND-13)."""
    shown = for_tensor_inputs(node, results)
    for hook, path in (node._post_hooks or HookDict()).with_paths():
        shown = _call("post", hook, path, shown, beside)
    return for_all_inputs(node, shown)


def _call(kind: str, hook: Any, path: Path, values: Sequence[Any], beside: Sequence[Any] = ()) -> list[Any]:
    """Call a hook that forward or backward registered on its ctx."""
    here = state.here
    outer = here.stream
    here.stream = UnopenedStream(path, path_of_pass(here, within=True))
    try:
        return call_hook(kind, hook, values, beside)
    finally:
        here.stream = outer


def wanted_by(node: FunctionNode) -> tuple[bool, ...]:
    """Return, per argument, whether the graph asks for its gradient."""
    return tuple([edge is not None and edge[0] is not None for edge in node._edges])


_NOTHING_READ: Final = WatchedSlots()
_NOTHING: Final[dict[Any, Any]] = {}
"""Of no run; never written to."""


class _Levels:
    """The derivatives of a user Function of any order, from its one backward (H7).

    Level 1 runs the user's backward on the tape; level k differentiates level k-1 by a local engine.
    """

    def __init__(
        self, context: FunctionNode, arguments: int, outputs: int, task: BackwardPass, passes: Sequence[Path]
    ) -> None:
        self._task = task
        """What backward may ask of its pass."""
        self._passes = passes
        """The path of the pass of each level."""
        self._context = context
        self._arguments = arguments
        self._outputs = outputs
        self._intermediate = SavedIntermediates(context.name(), ())
        self._watched: WatchedSlots | None = None
        self._ran: FunctionNode = context
        self._before: dict[str, Any] = context.__dict__

    def first(self, items: Sequence[Any], create_graph: bool, wanted: Sequence[int] | None = None) -> list[Any]:
        """Return one gradient per argument from (cotangents, arguments, outputs); backward is told that only those
        `wanted` are needed, unless its forward said otherwise (CX-18)."""
        a, b = self._outputs, self._outputs + self._arguments
        if create_graph and self._context.readable:
            context = unpacked_on(self._context, items[a:b], items[b:])
            node, self._intermediate = context_on_tape(context, items[a:b], items[b:])
        else:
            node = self._context.replay(items[a:b], items[b:])
        if wanted is not None:
            if node.needs_input_grad == wanted_by(node):
                node.needs_input_grad = tuple([i in wanted for i in range(len(node._edges))])
        if node.readable:
            self._watched = WatchedSlots()
            keep_in(node, self._watched)
        self._ran, self._before = node, dict(node.__dict__)
        grads = list(items[:a])
        none = HookDict()
        for hook, path in (node._pre_hooks or none).with_paths():  # those that forward registered on its ctx (ND-13)
            grads = _call("pre", hook, path, grads)
        beside = grads if node._post_hooks else ()  # a hook that backward itself registers is shown none (ND-13)
        here, task = state.here, self._task
        outer, here.task, task.node = here.task, task, node
        try:
            results = run_backward(node, grads, create_graph)
        finally:
            here.task, task.node = outer, None
        if node._post_hooks:
            results = _after(node, results, beside)
        return [*results, *[None] * (self._arguments - len(results))]  # backward gives what is captured no gradient

    def left(self) -> FunctionNode:
        """Return the context as level 1 left it: with what backward set on it, and without what it saved unless the
        pass keeps that."""
        left = left_behind(self._context, self._before, self._ran)
        return left if self._task.retain else left.freed()

    @property
    def conduct(self) -> int:
        """What level 1 did with the context."""
        read = self._watched is not None and self._watched.read
        return CHANGES * has_changed(self._before, self._ran) + READS * read

    def at(self, depth: int, items: Sequence[Any], create_graph: bool) -> list[Any]:
        """Return one gradient per element of level depth-1's inputs."""
        if depth == 1:
            return self.first(items, True)
        count = self._results(depth - 1)
        cotangents, below = items[:count], items[count:]
        results = self.at(depth - 1, below, True)
        here, of_level = state.here, PassStream()
        of_level.path = self._passes[depth - 1]
        outer, here.stream = here.stream, of_level
        try:
            return grads_on_tape(results, below, cotangents, self._intermediate, create_graph)
        finally:
            here.stream = outer

    def _results(self, depth: int) -> int:
        """Return the number of results of level `depth`: one per argument, then one per input of the level below."""
        if depth == 1:
            return self._arguments
        length = 2 * self._outputs + self._arguments
        for level in range(2, depth):
            length += self._results(level - 1)
        return length
