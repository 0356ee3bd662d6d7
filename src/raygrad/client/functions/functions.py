"""Function recorder: records calls of user Functions; the first of a kind runs before the next line (H3).

The implementation of `apply` in a session. No user's forward runs at the client: its outputs are learned from records
of runs. The node of a call is in `recorded_function_node`, its derivatives in `vjps`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.derived.function_with_saved_hooks import with_hooks
from raygrad.autograd.dispatch.autocast import capture_modes
from raygrad.autograd.dispatch.device_dispatch import check_kinds
from raygrad.autograd.functions.context import name_as_generated
from raygrad.autograd.functions.function import Function
from raygrad.autograd.nodes.anomaly import note_origin as remember_origin
from raygrad.autograd.nodes.node import NO_EDGE, next_sequence
from raygrad.autograd.storage.storage import has_views
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.ir.nodes import UNPLACED, FunctionCall
from raygrad.proto.ir.specs import STAYS

from ..recording.record_inputs import InputRecorder
from ..recording.records import CONTEXT, Constant, NodeRecord, place_embedded, snapshot
from ..recording.source_locations import user_site
from .aliased_arguments import AliasedArguments, check_aliased, find_aliased, may_change
from .call_costs import BY_NAME, CallCost, declares_cost, hinted_seconds
from .call_signature import CallSignature, any_on_device, context_of
from .leaf_gradients import reachable_leaves
from .observations import Observations
from .observed_signature import FunctionSignature, PendingObservation, declared_signature, signature_of_run
from .outputs import fresh_outputs, wrap_outputs
from .recorded_function_node import RecordedFunction
from .saved_policy import (
    RECOMPUTE,
    STORE,
    CallRematerialisation,
    RegionRematerialisation,
    is_pure,
    policy_of,
)
from .user_code import UserCode

if TYPE_CHECKING:
    from ..session.execution import SessionExecution


class FunctionRecorder:
    """Records calls of user Functions, for one session."""

    def __init__(
        self, code: UserCode, inputs: InputRecorder, observed: Observations, execution: SessionExecution
    ) -> None:
        self.log = inputs.log
        self.inputs = inputs
        self.code = code
        self.observed = observed
        self.execution = execution
        self.call_signatures: dict[Any, CallSignature] = {}
        """By key, what calls of a user Function share."""

    def apply(self, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Record `cls.apply(*args, **named)`; the first time for a key, run up to here and learn from it."""
        with self.log.lock:
            one = _FunctionCallInProgress(self, cls, args, named)
            if one.embedded or one.shipped.captured:
                one.read_captured()
            one.where = where = tuple(one.key)
            signature = self.observed.signatures.get(where)
            if one.related > 1 and may_change(cls, signature) and one.reads_aliased():
                signature = self.observed.signatures.get(one.where)
            call_signature: CallSignature | None = self.call_signatures.get(one.where)
            if call_signature is None or not call_signature.serves(one.cls, signature):
                one.find_hint()
                call_signature = one.predicted(signature)
            elif call_signature.hinted:
                one.find_hint()
            elif one.others:
                one.call_cost = _call_cost(CallCost, (0.0, one.others))
            if call_signature is None:
                call_signature, record, values = one.run_first(alone=where)
            else:
                signature = call_signature.signature
                call = call_signature.call._replace(silent=True) if state.here.replaying else call_signature.call
                record = NodeRecord(self.log, call, one.sources, call_signature.outputs, user_site())
                record.pinned = call_signature.pinned
                record.effects = call_signature.effects
                record.kind = call_signature.kind if call is call_signature.call else 0
                if signature.expected is None:
                    record.learn = PendingObservation(one.where, signature)
                record.call_cost = one.call_cost
                self.log.add(record)
                values = [record.output(i) for i in range(1, len(call_signature.outputs))]
            result = one.returned(record, call_signature, values)
            if self.execution.sync:
                self.execution.wait_for_everything()
            return result


class _FunctionCallInProgress:
    """One application under way: what it is given, as a graph has it, and what its outputs become."""

    __slots__ = (
        "args",
        "call_cost",
        "captured",
        "casting",
        "cls",
        "embedded",
        "flags",
        "fn",
        "inputs",
        "key",
        "leaves",
        "named",
        "objects",
        "others",
        "policy",
        "reachable",
        "read",
        "recorder",
        "recording",
        "region",
        "related",
        "shared",
        "shipped",
        "sources",
        "where",
        "written",
    )

    def __init__(
        self, recorder: FunctionRecorder, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        here = state.here
        recording = here.grad and True in [isinstance(arg, Tensor) and arg._requires_grad for arg in args]
        self.recorder, self.args, self.named, self.recording = recorder, args, named, recording
        self.written = cls
        """The Function as the user wrote it; `cls` is that with saved-tensor hooks around it, if there are any."""
        self.region = here.saving[-1].region if recording and here.saving else None
        if recording and here.saving and self.region is None:
            cls = with_hooks(cls)
        self.cls = cls
        self.shipped = shipped = recorder.code.ship(cls)
        self.fn = "@" + shipped.fingerprint
        self.casting = () if here.casting is None and here.device is None else capture_modes()
        self.embedded: list[Constant] = []
        """Arguments that are objects with tensors in them."""
        self.objects: list[Any] = []
        """What they stand for."""
        self.captured: Sequence[Pending | None] = ()
        """Captured inputs, which the code reads in addition to its arguments."""
        self.leaves: dict[int, Tensor] = _NONE
        """Leaves among the tensors in objects, by number."""
        self.reachable: Any = None
        """The leaves that its code may add gradient to."""
        self.call_cost: CallCost | None = None
        """What is known of its time."""
        self.shared: AliasedArguments | None = None
        """How arguments share memory, if that matters."""
        self.key: list[Any] = [shipped.fingerprint, recording, self.casting]
        """What applications that are alike have in common."""
        self.where: tuple[Any, ...] = ()
        """That, once it is complete."""
        self._read_arguments()

    def _read_arguments(self) -> None:
        """Find where the arguments come from, and what of them belongs to the key."""
        recorder, key = self.recorder, self.key
        sources: list[Any] = []
        inputs: list[Pending | None] = []
        flags: list[int] = []
        others: list[Any] = []
        for arg in self.args:
            if isinstance(arg, Tensor):
                pending = recorder.inputs.leaf(arg)
                flag = 1 if arg._requires_grad else 0
                key.append(pending.spec)
                sources.append(recorder.inputs.source(pending))
                for position, earlier in enumerate(inputs):  # given twice: what an output is differs, too (DR-01)
                    if earlier is not None and earlier.record is pending.record and earlier.index == pending.index:
                        key.append(("again", position))
                        break
                inputs.append(pending)
            else:
                constant, identity = snapshot(arg, self.cls, len(flags))
                if constant.inside:
                    self.embedded.append(constant)
                    self.objects.append(arg)
                flag = -1
                key.append(identity)
                others.append(identity)
                sources.append(constant)
                inputs.append(None)
            flags.append(flag)
            key.append(flag)
        for name, value in self.named.items():  # keyword-only ones are constants (FN-05)
            constant, identity = snapshot(value, self.cls, name)
            if constant.inside:
                self.embedded.append(constant)
                self.objects.append(value)
            key.append((name, identity))
            others.append((BY_NAME, name, identity))
            sources.append(constant)
        self.sources, self.inputs, self.read, self.flags = sources, inputs, inputs, flags
        self.others = others  # what identifies the non-tensor arguments
        self.related = 0  # counts from two on
        if len(self.args) > 1:
            self.related = sum([isinstance(arg, Tensor) and has_views(arg) for arg in self.args])

    def read_captured(self) -> None:
        """Find the captured inputs: what the code captured, and the tensors in objects."""
        recorder, shipped = self.recorder, self.shipped
        captured: Sequence[Pending | None] = recorder.code.captured(shipped) if shipped.captured else ()
        if self.embedded:
            others, said = place_embedded(self.embedded, self.args)
            held = [recorder.inputs.leaf(tensor) for tensor in others]
            self.key.append((said, *[pending.spec for pending in held]))
            captured = [*captured, *held]
            self.leaves = {number: t for number, t in enumerate(others) if t._requires_grad and t.grad_fn is None}
        reachable = None
        if captured and (effects := recorder.code.effects(self.cls, shipped, self.objects)):
            reachable = reachable_leaves(recorder.inputs, effects, shipped.captured, (), self.leaves, forward=True)
        if reachable is not None:
            self.key.append((*reachable.in_node, *[None if grad is None else grad.spec for grad in reachable.grads]))
            captured = [*captured, *reachable.grads]
        self.captured, self.reachable = captured, reachable
        self.sources.extend([None if value is None else recorder.inputs.source(value) for value in captured])

    def find_hint(self) -> None:
        """Find what its class says of its time; what it says wrongly is an error before anything runs."""
        hinted = declares_cost(self.written)
        if hinted:
            self.recorder.code.call_costs.hinted = True
        if hinted or self.others:
            seconds = hinted_seconds(self.written, self.args, self.named) if hinted else 0.0
            self.call_cost = CallCost(seconds, self.others)

    def reads_aliased(self) -> bool:
        """Tell whether arguments are of one memory, of which forward may change one; if so, have it read the owners."""
        shared = find_aliased(self.args)
        if shared is None:
            return False
        inputs = self.recorder.inputs
        self.shared, self.read = shared, list(self.inputs)
        self.where = (*self.where, shared.where)
        for position, owner in shared.owners.items():
            value = self.read[position] = inputs.leaf(owner)
            self.sources[position] = inputs.source(value)
        return True

    def predicted(self, signature: FunctionSignature | None) -> CallSignature | None:
        """Return what is known of such applications from now on, None if it has to run first."""
        recorder, written = self.recorder, self.written
        if any_on_device(self.inputs):
            check_kinds(written, [value.device for value in self.inputs if value is not None])
        self.policy = policy_of(written, recorder.execution.saved_policy) if self.recording else STORE
        if self.policy == RECOMPUTE and self.cls is not written:
            self.policy = STORE  # what hooks pack is where they have it, and they run once
        if signature is None and self.cls is written and hasattr(self.cls, "infer"):
            signature = declared_signature(recorder.log.specs, self.cls, self.args)
        if signature is None:
            return None
        call_signature = self._call_signature(signature)
        if recorder.observed.signatures.get(self.where) is signature:
            recorder.call_signatures[self.where] = call_signature
        return call_signature

    def _call_signature(self, signature: FunctionSignature) -> CallSignature:
        kind = next(self.recorder.log.kinds)
        return CallSignature(self.cls, signature, self._call(), self.where, self.policy, self.inputs, kind)

    def _call(self) -> FunctionCall:
        """Return forward as a node runs it, of which nothing is known yet."""
        return FunctionCall(
            *UNPLACED,
            fn=self.fn,
            requires_grad=tuple(self.flags),
            recorded=self.recording,
            pure=bool(self.cls is self.written and is_pure(self.cls)),
            silent=False,
            expected=None,
            keywords=tuple(self.named),
            shared=() if self.shared is None else self.shared.where,
            leaves=None if self.reachable is None else self.reachable.in_node,
            casting=self.casting,
        )

    def run_first(self, alone: Any) -> tuple[CallSignature, NodeRecord, list[Any]]:
        """Run up to and including the Function, wait, and return what its run showed with its outputs. `alone` is the
        key without what is said of shared memory."""
        recorder, cls = self.recorder, self.cls
        record = NodeRecord(recorder.log, self._call(), self.sources, (CONTEXT,), user_site())
        record.call_cost = self.call_cost
        recorder.log.add(record)
        record.effects = True
        record.pinned = True  # whether its context can leave its worker is not known yet (H10)
        learning = record.learn = PendingObservation(self.where)
        context = record.output(0) if self.recording else None
        record.saved |= 1
        started = time.monotonic()
        try:
            recorder.execution.submit(open_ended=True)
        except BaseException:
            if record in recorder.log.records:  # not sent: an error of earlier work came first
                recorder.log.records.remove(record)
            raise
        recorder.execution.wait_for(record, lambda: learning.learned is not None)
        waits, seconds = recorder.observed.first_runs.get(cls.__name__, (0, 0.0))
        recorder.observed.first_runs[cls.__name__] = (waits + 1, seconds + time.monotonic() - started)
        signature = signature_of_run(recorder.log.specs, learning.learned)
        # objects are fetched at each apply: never remembered
        if all(entry.dtype is not None or number in signature.fixed for number, entry in enumerate(signature.outputs)):
            recorder.observed.signatures[self.where] = signature
        record.outputs = (CONTEXT, *signature.outputs)
        values = [record.output(i + 1) for i in range(len(signature.outputs))]
        recorder.execution.hold(record)
        if context is not None:
            record.live |= 1
            values.append(context)
        call_signature = self._call_signature(signature)
        call_signature.pinned = True
        record.outputs = (context_of(signature, call_signature.bound or STAYS), *signature.outputs)
        if self.shared is not None and not may_change(self.written, signature):
            recorder.observed.signatures[alone] = signature
        elif self.shared is None and self.related > 1 and may_change(self.written, signature):
            check_aliased(self.written, self.args)
        return call_signature, record, values

    def returned(self, record: NodeRecord, call_signature: CallSignature, values: list[Any]) -> Any:
        """Return what apply returns, as pending tensors with a node that records their vjp."""
        signature, recorder, region = call_signature.signature, self.recorder, self.region
        context = repetition = None
        if self.recording:
            context = values.pop() if len(values) > len(signature.outputs) else record.output(0)
            record.saved |= 1
        node = None
        if context is not None and True in signature.differentiable:
            if call_signature.repeats and region is None:
                repetition = CallRematerialisation.of(
                    recorder, call_signature, record, self.read, self.sources, self.captured, values
                )
                context = None
            node = self._node(record, call_signature, context, values)
            node.__dict__["_repetition"] = repetition
        if call_signature.plain and not state.here.inference:
            result = fresh_outputs(signature, values, node)
        else:
            result = wrap_outputs(recorder, self.written, record, signature, self.args, self.inputs, values, node)
        if node is not None and self.shared is not None and may_change(self.written, signature):
            self.shared.save(recorder.inputs, node, self.args)
        if node is not None and region is not None and (again := region.applied(node)) is not None:
            node.discard_saved(RegionRematerialisation(again))
        return result

    def _node(
        self, record: NodeRecord, call_signature: CallSignature, context: Pending | None, values: list[Any]
    ) -> RecordedFunction:
        """Return the node of an application that is recorded for backward."""
        signature, args, inputs = call_signature.signature, self.args, self.inputs
        residual_bit = self.recorder.log.residual_bit
        if not call_signature.members:
            call_signature.members.update(self._members(call_signature, values))
        saved_inputs: dict[int, Pending] = {}
        tensors: dict[int, Tensor] = {}
        versions: list[tuple[int, bool, list[int], int]] = []
        for i in call_signature.saved:
            pending, arg = inputs[i], args[i]
            assert pending is not None
            counter = arg._counter
            if counter is None:
                counter = arg.counter() if signature.saved_inputs is None else arg.counter_to_save()
            saved_inputs[i] = pending
            pending.record.saved |= residual_bit << pending.index
            tensors[i] = arg
            if not signature.unchecked or (i, False) not in signature.unchecked:
                versions.append((i, False, counter, counter[0]))
        saved_outputs: dict[int, Pending] = _NONE
        if (signature.saved_outputs is None or signature.saved_outputs) and context is not None:
            saved_outputs = {}
            places = range(len(values)) if signature.saved_outputs is None else signature.saved_outputs
            for j in [j for j in places if signature.outputs[j].dtype is not None]:
                value = saved_outputs[j] = values[j]
                value.record.saved |= residual_bit << value.index
        edges: list[Any] = []
        tangents: dict[int, Any] = _NONE
        for i, arg in enumerate(args):
            if not isinstance(arg, Tensor):
                edges.append(None)
                continue
            if not arg._requires_grad:
                edges.append(NO_EDGE)
            else:
                producer = arg._grad_fn
                edges.append(arg.edge() if producer is None else (producer, arg.output_nr))
            if arg._tangents:
                tangents = {**tangents, i: arg._tangents}
        node = RecordedFunction.of(self.written, call_signature.members)
        node.__dict__.update(
            _site=record.site,
            _context=context,
            _edges=edges,
            _saved_inputs=saved_inputs,
            _saved_outputs=saved_outputs,
            _tensors=tensors,
            _shipped=self.shipped,
            _captured=self.captured[: len(self.shipped.captured)],  # the others are those of arguments
            _call_cost=self.call_cost,
            _versions=versions,
            _sequence=next_sequence(),
            _input_tangents=tangents,
        )
        if self.leaves:
            node.__dict__["_held_leaves"] = self.leaves
        here = state.here
        if here.anomaly is not None:
            remember_origin(node)
        if here.transforms:
            name_as_generated(node)
        return node

    def _members(self, call_signature: CallSignature, values: list[Any]) -> dict[str, Any]:
        """Return what the nodes of such applications have in common."""
        signature, args = call_signature.signature, self.args
        objects = [arg for arg in args if not isinstance(arg, Tensor)] if self.leaves else []
        members: dict[str, Any] = {
            "_recorder": self.recorder,
            "_fn": self.fn,
            "_applied": self.cls,
            "_inputs": tuple([(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args]),
            "needs_input_grad": tuple([isinstance(a, Tensor) and a._requires_grad for a in args]),
            "_metas": tuple(
                [
                    (v.shape, v.dtype) if entry.dtype is not None else None
                    for v, entry in zip(values, signature.outputs, strict=True)
                ]
            ),
            "_shapes": call_signature.shapes,
            "_saves": signature.saves,
            "_attributes_kind": signature.attributes,
            "_pinned": call_signature.pinned,
            "_barren": frozenset([j for j, flows in enumerate(signature.differentiable) if not flows]),
            "_unchecked": signature.unchecked,
            "_unseen": call_signature.key if signature.expected is None else None,
            "_leaf_effects": self.recorder.code.effects(self.cls, self.shipped, objects),
        }
        if call_signature.placed:
            members["_input_places"] = tuple([a.device if isinstance(a, Tensor) else None for a in args])
            members["_places"] = tuple([entry.device for entry in signature.outputs])
        return members


_call_cost: Any = tuple.__new__
"""Makes a `CallCost` in a quarter of the time."""

_NONE: dict[int, Any] = {}
"""Of what most applications have none of; never written to."""
