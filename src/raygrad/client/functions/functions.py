"""User Functions in a session: resolved by running once (H3), recorded from then on.

Rules of this file: what `apply` does. The client never runs a user's forward here; what it gives is learned from
records of runs, and kept in `applications`. The nodes that record its derivatives are in `vjps`.
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
from raygrad.autograd.tensor.inference import refuse_saving
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.ir.nodes import UNPLACED, FunctionCall
from raygrad.proto.ir.specs import STAYS

from ..recording.records import CONTEXT, Constant, NodeRecord, place_embedded, snapshot
from ..recording.source_locations import user_site
from .aliased_arguments import Shared, check_shared, may_change, shared_among
from .call_signature import Application, are_placed, context_of
from .leaf_gradients import leaves_met
from .observed_signature import Known, Learning, inferred, shown
from .outputs import fresh_outputs, wrap_outputs
from .recorded_function_node import RecordedFunction
from .saved_policy import RECOMPUTE, STORE, OfRegion, Repetition, is_pure, policy_of, silent

if TYPE_CHECKING:
    from ..session.recorder import SessionRecorder


def apply_function(recorder: SessionRecorder, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Record `cls.apply(*args, **named)`; the first time for a key, run up to here and learn from it."""
    with recorder.lock:
        one = _Applying(recorder, cls, args, named)
        if one.embedded or one.shipped.captured:
            one.read_beside()
        one.where = where = tuple(one.key)
        known = recorder.session.known.get(where)
        if one.related > 1 and may_change(cls, known) and one.reads_shared():
            known = recorder.session.known.get(one.where)
        application: Application | None = recorder.applications.get(one.where)
        if application is None or not application.serves(one.cls, known):
            application = one.foreseen(known)
        if application is None:
            application, record, values = one.resolved(alone=where)
        else:
            known = application.known
            call = silent(application.call) if state.here.replaying else application.call
            record = NodeRecord(recorder, call, one.sources, application.outputs, user_site())
            record.pinned = application.pinned
            record.effects = application.effects
            if known.expected is None:
                record.learn = Learning(one.where, known)
            recorder.add_record(record)
            values = [record.output(i) for i in range(1, len(application.outputs))]
        result = one.wrapped(record, application, values)
        if recorder.session.sync:
            recorder.session.wait_for_everything()
        return result


class _Applying:
    """One application under way: what it is given, as a graph has it, and what its outputs become."""

    __slots__ = (
        "args",
        "captured",
        "casting",
        "cls",
        "embedded",
        "flags",
        "fn",
        "inputs",
        "key",
        "leaves",
        "met",
        "named",
        "objects",
        "policy",
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
        self, recorder: SessionRecorder, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        here = state.here
        recording = False
        if here.grad:
            for arg in args:
                if isinstance(arg, Tensor) and arg._requires_grad:
                    recording = True
        self.recorder, self.args, self.named, self.recording = recorder, args, named, recording
        self.written = cls
        """The Function as the user wrote it; `cls` is that with saved-tensor hooks around it, if there are any."""
        self.region = here.saving[-1].region if recording and here.saving else None
        if recording and here.saving and self.region is None:
            cls = with_hooks(cls)
        self.cls = cls
        self.shipped = shipped = recorder.code(cls)
        self.fn = "@" + shipped.fingerprint
        self.casting = () if here.casting is None and here.device is None else capture_modes()
        self.embedded: list[Constant] = []
        """Arguments that are objects with tensors in them."""
        self.objects: list[Any] = []
        """What they stand for."""
        self.captured: Sequence[Pending | None] = ()
        """What the code reads beside its arguments."""
        self.leaves: dict[int, Tensor] = _NO_LEAVES
        """Leaves among the tensors in objects, by number."""
        self.met: Any = None
        """The leaves that its code may add gradient to."""
        self.shared: Shared | None = None
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
        related = 0
        for arg in self.args:
            if isinstance(arg, Tensor):
                pending = recorder.leaf(arg)
                flag = 1 if arg._requires_grad else 0
                key.append(pending.spec)
                sources.append(recorder.source(pending))
                for position, earlier in enumerate(inputs):  # given twice: what an output is differs, too (DR-01)
                    if earlier is not None and earlier.record is pending.record and earlier.index == pending.index:
                        key.append(("again", position))
                        break
                inputs.append(pending)
                if arg._recipe is not None or arg._views is not None:
                    related += 1
            else:
                constant, identity = snapshot(arg, self.cls, len(flags))
                if constant.inside:
                    self.embedded.append(constant)
                    self.objects.append(arg)
                flag = -1
                key.append(identity)
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
            sources.append(constant)
        self.sources, self.inputs, self.read, self.flags, self.related = sources, inputs, inputs, flags, related

    def read_beside(self) -> None:
        """Find what the code reads beside its arguments: what it captured, and the tensors in objects."""
        recorder, shipped = self.recorder, self.shipped
        captured: Sequence[Pending | None] = recorder.captured(shipped) if shipped.captured else ()
        if self.embedded:
            others, said = place_embedded(self.embedded, self.args)
            held = [recorder.leaf(tensor) for tensor in others]
            self.key.append((said, *[pending.spec for pending in held]))
            captured = [*captured, *held]
            self.leaves = {number: t for number, t in enumerate(others) if t._requires_grad and t.grad_fn is None}
        met = None
        if captured and (conduct := recorder.conduct(self.cls, shipped, self.objects)):
            met = leaves_met(recorder, conduct, shipped.captured, (), self.leaves, forward=True)
        if met is not None:
            self.key.append((*met.in_node, *[None if grad is None else grad.spec for grad in met.grads]))
            captured = [*captured, *met.grads]
        self.captured, self.met = captured, met
        self.sources.extend([None if value is None else recorder.source(value) for value in captured])

    def reads_shared(self) -> bool:
        """Tell whether arguments are of one memory, of which forward may change one; if so, have it read the owners."""
        shared = shared_among(self.args)
        if shared is None:
            return False
        recorder, sources = self.recorder, self.sources
        self.shared, self.read = shared, shared.read(recorder, self.inputs)
        self.where = (*self.where, shared.where)
        for position, value in enumerate(self.read):
            if value is not None:
                sources[position] = recorder.source(value)
        return True

    def foreseen(self, known: Known | None) -> Application | None:
        """Return what is known of such applications from now on, None if it has to run first."""
        recorder, written = self.recorder, self.written
        if are_placed(self.inputs):
            check_kinds(written, [value.device for value in self.inputs if value is not None])
        self.policy = policy_of(written, recorder.session.saved) if self.recording else STORE
        if self.policy == RECOMPUTE and self.cls is not written:
            self.policy = STORE  # what hooks pack is where they have it, and they run once
        if known is None and self.cls is written and hasattr(self.cls, "infer"):
            known = inferred(recorder, self.cls, self.args)
        if known is None:
            return None
        application = self._application(known)
        if recorder.session.known.get(self.where) is known:
            recorder.applications[self.where] = application
        return application

    def _application(self, known: Known) -> Application:
        return Application(self.cls, known, self._call(), self.where, self.policy, self.inputs)

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
            leaves=None if self.met is None else self.met.in_node,
            casting=self.casting,
        )

    def resolved(self, alone: Any) -> tuple[Application, NodeRecord, list[Any]]:
        """Run up to and including the Function, wait, and return what its run showed with its outputs. `alone` is the
        key without what is said of shared memory."""
        recorder, cls = self.recorder, self.cls
        record = NodeRecord(recorder, self._call(), self.sources, (CONTEXT,), user_site())
        recorder.add_record(record)
        record.effects = True
        record.pinned = True  # whether its context can leave its worker is not known yet (H10)
        learning = record.learn = Learning(self.where)
        context = record.output(0) if self.recording else None
        record.saved |= 1
        started = time.monotonic()
        try:
            recorder.session.submit(open_ended=True)
        except BaseException:
            if record in recorder.records:  # not sent: an error of earlier work came first
                recorder.records.remove(record)
            raise
        recorder.session.wait_for(record, lambda: learning.learned is not None)
        waits, seconds = recorder.session.resolved.get(cls.__name__, (0, 0.0))
        recorder.session.resolved[cls.__name__] = (waits + 1, seconds + time.monotonic() - started)
        known = shown(recorder, learning.learned)
        # objects are fetched at each apply: never remembered
        if all(entry.dtype is not None or number in known.fixed for number, entry in enumerate(known.outputs)):
            recorder.session.known[self.where] = known
        record.outputs = (CONTEXT, *known.outputs)
        values = [record.output(i + 1) for i in range(len(known.outputs))]
        recorder.session.hold(record)
        if context is not None:
            record.live |= 1
            values.append(context)
        application = self._application(known)
        application.pinned = True
        record.outputs = (context_of(known, application.bound or STAYS), *known.outputs)
        if self.shared is not None and not may_change(self.written, known):
            recorder.session.known[alone] = known
        elif self.shared is None and self.related > 1 and may_change(self.written, known):
            check_shared(self.written, self.args)
        return application, record, values

    def wrapped(self, record: NodeRecord, application: Application, values: list[Any]) -> Any:
        """Return what apply returns, as pending tensors with a node that records their vjp."""
        known, recorder, region = application.known, self.recorder, self.region
        context = repetition = None
        if self.recording:
            context = values.pop() if len(values) > len(known.outputs) else record.output(0)
            record.saved |= 1
        node = None
        if context is not None and True in known.differentiable:
            if application.repeats and region is None:
                repetition = Repetition.of(
                    recorder, application, record, self.read, self.sources, self.captured, values
                )
                context = None
            node = self._node(record, application, context, values)
            node.__dict__["_repetition"] = repetition
        if application.plain and not state.here.inference:
            result = fresh_outputs(known, values, node)
        else:
            result = wrap_outputs(recorder, self.written, record, known, self.args, self.inputs, values, node)
        if node is not None and self.shared is not None and may_change(self.written, known):
            self.shared.save(recorder, node, self.args)
        if node is not None and region is not None and (again := region.applied(node)) is not None:
            node.leave(OfRegion(again))
        return result

    def _node(
        self, record: NodeRecord, application: Application, context: Pending | None, values: list[Any]
    ) -> RecordedFunction:
        """Return the node of an application that is recorded for backward."""
        known, args, inputs = application.known, self.args, self.inputs
        if not application.members:
            application.members.update(self._members(application, values))
        saved_inputs: dict[int, Pending] = {}
        tensors: dict[int, Tensor] = {}
        versions: list[tuple[int, bool, list[int], int]] = []
        for i in application.saved:
            pending, arg = inputs[i], args[i]
            assert pending is not None
            if known.saved_inputs is not None and arg.is_inference():
                raise refuse_saving()
            saved_inputs[i] = pending
            pending.record.retained(pending.index)
            tensors[i] = arg
            if not known.unchecked or (i, False) not in known.unchecked:
                counter = arg.counter()
                versions.append((i, False, counter, counter[0]))
        saved_outputs: dict[int, Pending] = _NONE
        if (known.saved_outputs is None or known.saved_outputs) and context is not None:
            saved_outputs = {}
            places = range(len(values)) if known.saved_outputs is None else known.saved_outputs
            for j in [j for j in places if known.outputs[j].dtype is not None]:
                value = saved_outputs[j] = values[j]
                value.record.retained(value.index)
        edges: list[Any] = []
        tangents: dict[int, Any] = _NONE
        for i, arg in enumerate(args):
            if not isinstance(arg, Tensor):
                edges.append(None)
                continue
            if not arg._requires_grad:
                edges.append(NO_EDGE)
            else:
                edges.append(arg.edge() if arg.grad_fn is None else (arg.grad_fn, arg.output_nr))
            if arg._tangents:
                tangents = {**tangents, i: arg._tangents}
        node = RecordedFunction.of(self.written, application.members)
        node.__dict__.update(
            _site=record.site,
            _context=context,
            _edges=edges,
            _saved_inputs=saved_inputs,
            _saved_outputs=saved_outputs,
            _tensors=tensors,
            _shipped=self.shipped,
            _captured=self.captured[: len(self.shipped.captured)],  # the others are those of arguments
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

    def _members(self, application: Application, values: list[Any]) -> dict[str, Any]:
        """Return what the nodes of such applications have in common."""
        known, args = application.known, self.args
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
                    for v, entry in zip(values, known.outputs, strict=True)
                ]
            ),
            "_shapes": application.shapes,
            "_saves": known.saves,
            "_attributes_kind": known.attributes,
            "_pinned": application.pinned,
            "_barren": frozenset([j for j, flows in enumerate(known.differentiable) if not flows]),
            "_unchecked": known.unchecked,
            "_unseen": application.key if known.expected is None else None,
            "_conduct": self.recorder.conduct(self.cls, self.shipped, objects),
        }
        if application.placed:
            members["_input_places"] = tuple([a.device if isinstance(a, Tensor) else None for a in args])
            members["_places"] = tuple([entry.device for entry in known.outputs])
        return members


_NO_LEAVES: dict[int, Tensor] = {}
_NONE: dict[int, Any] = {}
"""Of what most applications have none of; never written to."""
