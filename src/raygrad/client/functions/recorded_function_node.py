"""Recorded function node: the backward node of a user Function called in a session, and its user's view of the context
(CX, DR-05).

The node is in the client's graph; the context itself is on a worker or in the object store. Backward records a vjp (see
`vjps`). Reading an attribute of the context, or what it saved, is a sync point.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from raygrad.autograd.core.batched_data import innermost_data
from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Data, Pending, Recorder
from raygrad.autograd.forward_mode.tangents import with_tangents
from raygrad.autograd.functions.context import CONTEXT_ATTRIBUTES
from raygrad.autograd.functions.context_state import noted_reference, saved_slots, user_attributes
from raygrad.autograd.functions.function import Function, FunctionNode
from raygrad.autograd.nodes.accumulator import AccumulateGrad, describe_saved_value, leads_to_producer
from raygrad.autograd.nodes.anomaly import PARENT, STACK
from raygrad.autograd.nodes.device_nodes import check_place
from raygrad.autograd.nodes.node import FREED, NO_EDGE, Edge
from raygrad.autograd.saved.saved_slots import OUTPUT, PACKED, TAKEN
from raygrad.autograd.storage.version_counter import AnnotatedVersion, exchanged, stale_message, was_changed
from raygrad.autograd.tensor.tangent_levels import Tangents
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.autograd.vmap.batched_backward import for_each_example
from raygrad.errors import AutogradError, CheckpointError, DroppedError, SessionError
from raygrad.workers.code.shipping import warn_once
from raygrad.workers.interpreter.derivatives import CHANGES, READS
from raygrad.workers.values.contexts import WRITABLE

from ..recording.records import snapshot
from .leaf_gradients import ReachableLeaves, leaf_arguments, reachable_leaves
from .vjps import (
    BackwardCode,
    RecordedVjp,
    RetainedContext,
    VjpSignature,
    at_positions,
    record_backward,
    record_vjp,
    wanted_gradients,
)

if TYPE_CHECKING:
    from raygrad.workers.code.shipping import Shipped

    from ..recording.records import NodeRecord
    from .call_costs import CallCost
    from .functions import FunctionRecorder
    from .saved_policy import CallRematerialisation, RegionRematerialisation


class RecordedFunction(FunctionNode):
    """The node of a Function applied in a session: its backward records a vjp.

    Attributes that nobody here has set are looked for on the context.
    """

    _recorder: FunctionRecorder
    _applied: type[Function]
    """The Function as it was shipped: with the saved-tensor hooks that were in force."""
    _fn: str
    _site: Any
    _context: Pending | None = None
    """The context, as long as a backward may ask for what it saved."""
    _repetition: CallRematerialisation | RegionRematerialisation | None = None
    """How its forward is run again, where the context is not kept."""
    _left: Pending | None = None
    """The context without what it saved, for who asks for its attributes after that was freed."""
    _input_tangents: dict[int, Tangents]
    """The tangents that arguments carried."""
    _shipped: Shipped
    """How the Function travelled when it was applied."""
    _captured: Sequence[Pending]
    """What it captured then (H16)."""
    _call_cost: CallCost | None = None
    """What is known of the time of its forward."""
    _changing: Sequence[FunctionType] = ()
    """Functions in objects that were given to forward, and that change variables of their own."""
    _others: Sequence[Any] = ()
    """In a checkpointed region, what identifies the arguments that are no tensors."""
    _leaf_effects: int = 0
    """What backward might do with the `.grad` of leaves; see `of_gradients`."""
    _held_leaves: Mapping[int, Tensor] = MappingProxyType({})
    """Leaves in objects that were given to forward, by number."""
    _saved_inputs: dict[int, Pending]
    _saved_outputs: dict[int, Pending]
    _tensors: dict[int, Tensor]
    """The arguments that were saved."""
    _versions: list[tuple[int, bool, list[int], int]]
    """Of saved arguments and (True) outputs, the position, the version counter and the version when it was saved."""
    _unchecked: frozenset[tuple[int, bool]]
    """As `FunctionSignature.unchecked`."""
    _unseen: Any = None
    """The key under which the first run will show what forward saves, where so far only `infer` declared outputs."""
    _shapes: dict[Any, VjpSignature]
    """How its backward was recorded before, there or for a Function applied alike."""
    _saves: bool
    _attributes_kind: int
    """As `FunctionSignature.attributes`."""
    _pinned: bool
    _freed: bool = False
    _taken: bool = False
    """Who looked from outside took what was saved (CX-25)."""
    _noted: Pending | None = None
    """The context whose notes are among ours."""
    _assigned: Mapping[str, Any] = MappingProxyType({})
    """Attributes that the client has set since the last backward was recorded."""

    @staticmethod
    def of(function: type[Function], members: dict[str, Any]) -> RecordedFunction:
        """Return a node named after the Function, with what it shares with others; the caller adds the rest."""
        made = _node_classes.get(function)
        if made is None:
            made = _node_classes[function] = type(
                function.__name__ + "Backward", (RecordedFunction,), {"_function": function}
            )
        node: RecordedFunction = made()
        node.__dict__.update(members)
        return node

    # ---- what the user sees of the context --------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name in _NODES_OWN or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        if name in self._assigned:
            return self._assigned[name]
        live = self._live_context()
        if live is not None:
            place = noted_reference(live, name)
            if place is not None:
                return self._saved_at(*place)
            attributes = user_attributes(live)
            if name in attributes:
                return attributes[name]
        raise AttributeError(f"'{self._title()}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _NODES_OWN or name in _TRAVELLING:
            self.__dict__["_assigned"] = {**self._assigned, name: value}
        if name in _NODES_OWN:
            object.__setattr__(self, name, value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What forward saved, in order; a sync point.

        Raises:
            RuntimeError: freed by an earlier backward (CX-10), or changed in place since (CX-13).
        """
        message = self._refusal()
        if message:
            raise AutogradError(message)
        if self._context is None and self._repetition is not None:
            with self._rematerialised(()):
                return self.saved_tensors
        live = self._live_context()
        assert live is not None
        slots = saved_slots(live)
        if self._function._traits.read_once and slots:
            self.__dict__["_taken"] = True
        return tuple(
            [
                None
                if slot is None
                else self._unpack(slot)
                if slot.kind is PACKED
                else self._saved_at(slot.kind, slot.position)
                if slot.position >= 0
                else Tensor.made(slot.value._data)
                for slot in slots
            ]
        )

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        """Nothing in a session: the slots are where forward ran.

        Raises:
            SessionError: always.
        """
        raise SessionError(
            f"{self._title()}: the handles of what it saved are not to be had in a session, where forward runs on a "
            "worker: apply the Function inside saved_tensors_hooks(pack, unpack), or outside of the session"
        )

    @property
    def metadata(self) -> dict[Any, Any]:
        """The notes on this node: the user's, forward's and backward's; a sync point where these make any."""
        if self._notes is None:
            self._notes = {}
        held = self._held()
        if held is not None and held is not self._noted and (self._changes() or self._attributes_kind == WRITABLE):
            self._noted = held
            try:
                live = self._live_context()
            except DroppedError:  # of a pass that failed: what it noted is lost with it
                live = None
            if live is not None and live._notes:
                self._notes.update(live._notes)
        return self._notes

    def _held(self) -> Pending | None:
        """Return the context as it is now, if anything of it is left."""
        if self._context is None and self._left is None and self._repetition is not None:
            if self._recorder.log.closed:
                raise self._dropped()
            with self._rematerialised(()):
                return self._context
        return self._left if self._context is None else self._context

    @contextmanager
    def _rematerialised(self, grads: Sequence[Any]) -> Generator[None]:
        """Have meanwhile what was not kept, by running forward again once `grads` are there."""
        assert self._repetition is not None
        data = [self._recorder.inputs.leaf(grad) if isinstance(grad, Tensor) else grad for grad in grads]
        with self._recorder.log.lock:
            context, outputs, inputs, application = self._repetition.run(self._recorder, data)
        if application is not None and self._attributes_kind:
            self._check_alike(application)
        own = self.__dict__
        kept = own["_saved_inputs"], own["_tensors"]
        own["_context"], own["_saved_outputs"] = context, outputs
        if inputs is not None:
            own["_saved_inputs"] = inputs
            own["_tensors"] = {
                i: _at_edge(value, self._edges[i], self._input_tangents.get(i)) for i, value in inputs.items()
            }
        try:
            yield
        finally:
            if self._context is context:
                own["_context"], own["_saved_outputs"] = None, _NONE
            if self._context is None or inputs is None:  # else a backward to come reads what this one has left
                own["_saved_inputs"], own["_tensors"] = kept

    def _check_alike(self, second: RecordedFunction) -> None:
        """Check that the application in a second run of a checkpointed region sets the attributes on its ctx that the
        first has set: eagerly they are those of the first.

        Warns (UserWarning, once): its code changes what it captures, so that they may be others.

        Raises:
            CheckpointError: something that it reads, other than tensors, has been changed since.
        """
        code, name = self._recorder.code, self._applied.__name__
        captured = code.captured_now(self._shipped, self._captured)
        if self._fn != second._fn or self._others != second._others or captured is not self._captured:
            raise CheckpointError(
                f"{name}, applied in a checkpointed region, stores attributes on its ctx, and is run again for "
                "backward after something that it reads (a variable, an argument) was changed: eagerly its "
                f"attributes would be those of the first run, in a session they are those of the second; "
                f"{REMEDY}, or change it after the backward"
            )
        if self._shipped.shipment.shares_state or self._changing:
            warn_once(
                self._applied,
                f"'{name}' changes what it captures, stores attributes on its ctx, and is run again for backward since "
                "it was applied in a checkpointed region: eagerly its attributes are those of the first run, in a "
                f"session those of the second; {REMEDY}",
            )

    def discard_saved(self, repetition: RegionRematerialisation) -> None:
        """Keep nothing of what was saved, and no versions of it: it will be rematerialised."""
        self.__dict__.update(_NOTHING_SAVED, _repetition=repetition, _context=None, _versions=[])

    def _live_context(self) -> FunctionNode | None:
        """Wait for the context and return it as a node of its own."""
        held = self._held()
        if held is None:
            return None
        if self._recorder.log.closed:
            raise self._dropped()
        context: Any = self._recorder.log.recorder.read(held)
        return context.seen(self._applied)

    def _dropped(self) -> SessionError:
        text = f"the context of {self._title()} was dropped when its session was closed"
        return self._recorder.log.closed_error(text)

    def _saved_at(self, kind: str, position: int) -> Tensor:
        """Return a saved input or output in its place in the graph."""
        if kind == OUTPUT:
            return Tensor.made(self._saved_outputs[position], self, position)
        return self._tensors[position]

    # ---- the node ---------------------------------------------------------------------------------------------------

    def _release(self) -> None:
        self.__dict__["_freed"] = True
        if self._saves:
            context = None if self._reads() else self._left  # what reads nothing may run again (CX-11)
            self.__dict__.update(_NOTHING_SAVED, _context=context, _repetition=None)

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if state.here.batches:
            made = for_each_example(lambda one: self._run(one, create_graph, recorder), grads, create_graph)
            if made is not None:
                return made
        owner = self._recorder
        if owner.code.waits or owner.log.shared.changed:  # what it reads has to be there before anything is recorded
            owner.code.ship(self._applied)
        if self._context is None and self._repetition is not None and not owner.log.closed:
            with self._rematerialised(grads):
                return self._run(grads, create_graph, recorder)
        if self._context is None:
            raise AutogradError(FREED)
        if self._places is not None:
            for number, grad in enumerate(grads):
                if grad is not None:
                    check_place(self, number, innermost_data(getattr(grad, "_data", grad)))
        if owner.log.closed:
            text = f"the session that ran {self.name()} is closed: run backward inside the session"
            raise owner.log.closed_error(text)
        refusal = self._refusal()
        if refusal:
            if self._fn not in owner.observed.backward_effects:  # its first backward may be on its way
                owner.execution.submit()
                owner.execution.wait_for_everything()
            if self._reads():
                raise AutogradError(refusal)
        for entry in self._versions:
            if type(entry[2][0]) is AnnotatedVersion:  # hardly ever
                self._exchange()
                break
        if create_graph:
            return self._differentiably(grads, refusal)
        return record_backward(self, grads, refusal)

    def record_changed(self, items: Sequence[Data | None], refusal: str) -> Sequence[Data | None]:
        """Record a backward that reads `items`, and what the client has set on the context."""
        wanted, retained = wanted_gradients(self), self._retained_context(refusal)
        results, _ = record_vjp(self, retained, 1, items, self._requiring(), wanted, False)
        return at_positions(wanted.positions, results, len(self._edges))

    def _exchange(self) -> None:
        """Let backward read what the data of saved arguments, and of outputs without derivative, were exchanged for."""
        for position, is_output, counter, _ in self._versions:
            if type(counter[0]) is not AnnotatedVersion:
                continue
            saved = self._saved_outputs if is_output else self._saved_inputs
            if position in saved:
                held = saved[position]
                flows = is_output and position not in self._barren
                edge = (self, position) if flows else NO_EDGE if is_output else self._edges[position] or NO_EDGE
                now = exchanged(counter, held, edge, output=flows)
                data = self._recorder.inputs.leaf(Tensor.made(now))
                if data is not held:
                    data.record.retained(data.index)
                    saved[position] = data

    def _requiring(self) -> list[int]:
        """Return which of (gradients, arguments, outputs) require grad, as backward is given them."""
        shift = len(self._metas)
        requires = [shift + i for i, edge in enumerate(self._edges) if edge is not None and edge[0] is not None]
        return requires + [shift + len(self._inputs) + j for j in self._saved_outputs]

    def _differentiably(self, grads: Sequence[Any], refusal: str) -> list[Any]:
        """Record the vjp as a node that can itself be differentiated; gradients are tensors here (H7)."""
        saved = [self._saved_inputs.get(i) for i in range(len(self._inputs))]
        arguments = [None if value is None else self._argument(i, value) for i, value in enumerate(saved)]
        items: list[Tensor | None] = [*grads, *arguments]
        for j in range(len(self._metas)):
            value = self._saved_outputs.get(j)
            items.append(None if value is None else self._output(j, value))
            if value is not None and self._output_tangents is not None:
                items[-1]._tangents = self._output_tangents[j]  # type: ignore[union-attr]
        wanted = wanted_gradients(self)
        captured = self._captured_now()
        retained = self._retained_context(refusal)._replace(captured=len(captured))
        count = len(self._edges)
        first = len(grads) + count
        items[first:first] = captured

        def run(items: list[Tensor | None]) -> list[Any]:
            results = count + len(captured)
            return RecordedVjp.run(self, retained, 1, items, wanted, results)[:count]

        return with_tangents(items, run) if state.forward else run(items)

    def _argument(self, position: int, value: Pending) -> Tensor:
        """Return a saved argument as a tensor in its place in the graph: a leaf may have come to require grad."""
        edge, given = self._edges[position], self._tensors.get(position)
        if given is not None and given._requires_grad and given.grad_fn is None and (edge is None or edge[0] is None):
            return given
        return _at_edge(value, edge, self._input_tangents.get(position))

    def _captured_now(self) -> list[Tensor]:
        """Return the tensors that the Function captures and that require grad, in their places in the graph."""
        shipped = self._recorder.code.ship(self._applied)
        if not any(isinstance(one, Tensor) and one._requires_grad for one in shipped.captured):
            return []
        _, captured, _, _ = self.code_now()
        return [
            _at_edge(pending, one.edge(), one._tangents)
            for one, pending in zip(shipped.captured, captured, strict=True)
            if isinstance(one, Tensor) and one._requires_grad
        ]

    def _retained_context(self, refusal: str) -> RetainedContext:
        """Return what a backward recorded now needs of the context, with what the client set on it as it is (H17)."""
        assert self._context is not None
        reachable = self.reachable() if self._leaf_effects else None
        if not (self._assigned or self._notes):
            return RetainedContext(self._context, (), refusal, reachable=reachable)
        recorder = self._recorder
        assigned = [
            (name, 1, recorder.inputs.source(recorder.inputs.leaf(value)))
            if isinstance(value, Tensor)
            else (name, 0, snapshot(value)[0])
            for name, value in self._assigned.items()
        ]
        notes = {name: value for name, value in (self._notes or {}).items() if name not in (STACK, PARENT)}
        if notes:
            assigned.append(("_notes", 0, snapshot(notes)[0]))
        return RetainedContext(self._context, assigned, refusal, reachable=reachable)

    def reachable(self) -> ReachableLeaves | None:
        """Return the leaves that a backward meets which is recorded now."""
        arguments = leaf_arguments(self._edges, self._saved_inputs)
        captured = self._recorder.code.ship(self._applied).captured
        return reachable_leaves(self._recorder.inputs, self._leaf_effects, captured, arguments, self._held_leaves)

    def code_now(self) -> BackwardCode:
        """Return the Function's code: backward reads what stands there at the pass, nearly always what stood there at
        the application."""
        code, before = self._recorder.code, self._shipped
        now = code.ship_in_pass(self._applied)
        at_once = code.will_run(now)
        if self._changing:
            code.will_call(self._changing)
            at_once = True
        if now is before or (now.fingerprint == before.fingerprint and all(map(is_, now.captured, before.captured))):
            captured = code.captured_now(before, self._captured) if self._captured else ()
            return self._fn, captured, at_once, before
        return "@" + now.fingerprint, code.captured(now), at_once, now

    def _ran(self, made: NodeRecord) -> None:
        """Take note of a recorded backward: where its context is from now on (DR-05)."""
        retain = self._recorder.log.recorder.retaining
        made.pinned = self._pinned or not retain
        known = self._recorder.observed.backward_effects.get(self._fn)
        changes = known is None or known & CHANGES or self._attributes_kind == WRITABLE
        if changes or self._assigned or self._notes or (retain and self._function._traits.read_once):
            left = made.output(0)
            self.__dict__["_assigned"] = _NONE
            if retain or not self._saves:
                self._context = left
            else:
                self._left = left
        elif not retain and self._saves and (self._attributes_kind or not (known or 0) & READS):
            self._left = made.output(0)

    def _changes(self) -> bool:
        """Tell whether a backward may change the context."""
        known = self._recorder.observed.backward_effects.get(self._fn)
        return self._attributes_kind == WRITABLE or known is None or bool(known & CHANGES)

    def _reads(self) -> bool:
        """Tell whether backward is known to read what was saved."""
        return bool((self._recorder.observed.backward_effects.get(self._fn) or 0) & READS)

    def _refusal(self) -> str:
        """Return why what was saved must not be read any more, or nothing."""
        if self._freed:
            return FREED
        if self._taken:
            return TAKEN.message
        for position, is_output, counter, version in list(self._versions):
            if counter[0] is version:  # nearly always
                continue
            if was_changed(counter, version) and self._has_saved(position, is_output):
                value: Any = (self._saved_outputs if is_output else self._tensors)[position]
                made_by: Edge = (self, position) if is_output else (value.grad_fn, value.output_nr)
                return stale_message(describe_saved_value(value, made_by, self), counter[0], version)
        for position, tensor in self._tensors.items():
            if self._unchecked and (position, False) in self._unchecked:
                continue
            if not tensor._requires_grad and tensor.grad_fn is None and leads_to_producer(self._edges[position]):
                if self._has_saved(position, False):
                    return self._detached_message(position)
        return ""

    def _has_saved(self, position: int, is_output: bool) -> bool:
        """Tell whether forward saved an argument or output, as it is; a sync point where only its run shows that."""
        if self._unseen is None:
            return True
        execution = self._recorder.execution
        execution.submit()
        execution.wait_for_everything()
        known = self._recorder.observed.signatures.get(self._unseen)
        saved = None if known is None else known.saved_outputs if is_output else known.saved_inputs
        return known is None or saved is None or (position in saved and (position, is_output) not in known.unchecked)


REMEDY: Final = "pass what changes as a tensor argument of the Function"

_NODES_OWN: Final = CONTEXT_ATTRIBUTES | frozenset(RecordedFunction.__annotations__)
_TRAVELLING: Final = frozenset(("needs_input_grad", "materialize_grads"))
"""What the engine knows of a context and users may set."""

_NONE: Final[dict[Any, Any]] = {}
"""Of what is gone; never written to."""
_NOTHING_SAVED: Final = {"_saved_inputs": _NONE, "_saved_outputs": _NONE, "_tensors": _NONE}

_node_classes: dict[type[Function], type[RecordedFunction]] = {}


def _at_edge(value: Pending, edge: Edge | None, tangents: Tangents | None) -> Tensor:
    """Return a saved input as a tensor in its place in the graph, with the tangents that it carried."""
    if tangents:
        carrying = Tensor.made(value, *(edge or NO_EDGE))
        carrying._tangents = tangents
        return carrying
    if edge is None or edge[0] is None:
        return Tensor.made(value)
    if isinstance(edge[0], AccumulateGrad):
        return edge[0].variable
    return Tensor.made(value, edge[0], edge[1])
