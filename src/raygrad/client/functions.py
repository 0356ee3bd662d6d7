"""User Functions in a session: resolved by running once (H3), recorded from then on.

Rules of this file: what `apply` does. The client never runs a user's forward here; what it gives is learned from
records of runs. The nodes that record its derivatives are in `vjps`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from raygrad.autograd.anomaly import remember as remember_origin
from raygrad.autograd.autocast import Moment, moment
from raygrad.autograd.devices.serving import CPU
from raygrad.autograd.elsewhere import check_kinds
from raygrad.autograd.function import Function
from raygrad.autograd.hooked import with_hooks
from raygrad.autograd.inference import refuse_saving
from raygrad.autograd.modes import state
from raygrad.autograd.node import NO_EDGE, next_sequence
from raygrad.autograd.recording import Pending
from raygrad.autograd.tensor import Tensor
from raygrad.proto.graph import LIVE, PURE, RECORDED, ROLE_FUNCTION, STAYS, context_spec
from raygrad.workers.shipping import Shipped

from .applied import RecordedFunction
from .learned import Known, Learning, inferred, shown
from .leaves import leaves_met
from .outputs import fresh_outputs, wrap_outputs
from .records import CONTEXT, Constant, NodeRecord, SpecEntry, place_embedded, snapshot
from .saving import RECOMPUTE, STORE, WORKER, OfRegion, Repetition, is_pinned, is_pure, policy_of, unheard
from .sharing import Shared, check_shared, may_change, shared_among
from .sites import user_site
from .vjps import VjpShape

if TYPE_CHECKING:
    from raygrad.autograd.saving import Region

    from .recorder import SessionRecorder


class Application:
    """What applications of a Function share over arguments of equal specs, once it is known: looked up once, as a
    `Template` of a built-in op is."""

    __slots__ = (
        "bound",
        "effects",
        "key",
        "known",
        "members",
        "meta",
        "name",
        "outputs",
        "pinned",
        "placed",
        "plain",
        "plan",
        "pure",
        "repeats",
        "saved",
        "shapes",
    )

    def __init__(
        self,
        cls: type[Function],
        known: Known,
        meta: tuple[Any, ...],
        given: tuple[Any, ...],
        casting: Moment,
        key: Any,
        policy: str,
        inputs: Sequence[Pending | None],
    ) -> None:
        self.plan = cls._plan
        """That of the class as it was: setting an attribute of the class makes another."""
        self.known = known
        self.key = key
        self.name = cls.__name__
        self.meta = (*meta, known.expected, *given, casting)
        self.placed = any(entry.device is not CPU for entry in known.outputs) or _are_placed(inputs)
        """It reads or makes tensors of a device: then its context stays on its worker, as they do."""
        unseen = self.placed and known.expected is None
        self.bound = LIVE if unseen or is_pinned(cls) else known.bound or STAYS * (policy == WORKER)
        """Whether its context stays on its worker, and whether it can be taken apart there: 0, STAYS or LIVE."""
        self.pinned = bool(self.bound)
        self.outputs = (_context_of(known, self.bound), *known.outputs)
        self.pure = bool(meta[2] & PURE) or self.placed
        """Whether a second run of forward is not compared with the first; of a device it never is: that would move
        what it returned."""
        self.repeats = policy == RECOMPUTE and known.holds > 0
        """Forward runs again before backward: its context holds more than references, and is not kept."""
        self.effects = bool(getattr(cls, "effects", False))
        self.shapes: dict[Any, VjpShape] = {}
        """How their backwards were recorded."""
        self.members: dict[str, Any] = {}
        """What their nodes have in common."""
        count, flags = meta[:2]
        tensors = [i for i in range(count) if flags[i] >= 0]
        self.saved = tensors if known.saved_inputs is None else [i for i in known.saved_inputs if flags[i] >= 0]
        """The arguments that may have been saved."""
        self.plain = not any(known.origins) and not known.fixed and max(known.twins, default=-1) < 0
        self.plain = self.plain and all(entry.dtype is not None for entry in known.outputs)
        """Every output is a new tensor."""

    def serves(self, cls: type[Function], known: Known | None) -> bool:
        """Tell whether it still holds."""
        return self.plan is cls._plan and self.known is known


def _context_of(known: Known, stays: int) -> SpecEntry:
    """Return what is known of the contexts of a Function."""
    size = -1 if known.expected is None else known.holds
    on = () if size < 0 else known.on
    entry = _contexts.get((size, stays, on))
    if entry is None:
        entry = _contexts[size, stays, on] = SpecEntry(context_spec(size, stays, on))
        if len(_contexts) > CONTEXTS_KEPT:
            del _contexts[next(iter(_contexts))]
    return entry


CONTEXTS_KEPT: Final = 1024
"""Sizes of contexts that are remembered: a bound on memory for Functions that save other bytes each time."""

_contexts: dict[tuple[int, int, tuple[tuple[str, int], ...]], SpecEntry] = {}


def apply_function(recorder: SessionRecorder, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Record `cls.apply(*args, **named)`; the first time for a key, run up to here and learn from it."""
    with recorder.lock:
        here = state.here
        recording = False
        if here.grad:
            for arg in args:
                if isinstance(arg, Tensor) and arg._requires_grad:
                    recording = True
        written = cls
        region = here.saving[-1].region if recording and here.saving else None
        if recording and here.saving and region is None:
            cls = with_hooks(cls)
        shipped = recorder.code(cls)
        sources: list[Any] = []
        inputs: list[Pending | None] = []
        flags: list[int] = []
        related = 0
        casting = () if here.casting is None and here.device is None else moment()
        embedded: list[Constant] = []
        objects: list[Any] = []
        """What they stand for."""
        key: list[Any] = [shipped.fingerprint, recording, casting]
        for arg in args:
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
                constant, identity = snapshot(arg, cls, len(flags))
                if constant.inside:
                    embedded.append(constant)
                    objects.append(arg)
                flag = -1
                key.append(identity)
                sources.append(constant)
                inputs.append(None)
            flags.append(flag)
            key.append(flag)
        for name, value in named.items():  # keyword-only ones are constants (FN-05)
            constant, identity = snapshot(value, cls, name)
            if constant.inside:
                embedded.append(constant)
                objects.append(value)
            key.append((name, identity))
            sources.append(constant)
        leaves: dict[int, Tensor] = _NO_LEAVES
        captured: Sequence[Pending | None] = recorder.captured(shipped) if shipped.captured else ()
        if embedded:
            others, said = place_embedded(embedded, args)
            held = [recorder.leaf(tensor) for tensor in others]
            key.append((said, *[pending.spec for pending in held]))
            captured = [*captured, *held]
            leaves = {number: one for number, one in enumerate(others) if one._requires_grad and one.grad_fn is None}
        met = None
        if captured and (conduct := recorder.conduct(cls, shipped, objects)):
            met = leaves_met(recorder, conduct, shipped.captured, (), leaves, forward=True)
        if met is not None:
            key.append((*met.params, *[None if grad is None else grad.spec for grad in met.grads]))
            captured = [*captured, *met.grads]
        sources.extend([None if value is None else recorder.source(value) for value in captured])
        where = tuple(key)
        known = recorder.session.known.get(where)
        read, shared, alone = inputs, None, where
        if related > 1 and may_change(written, known) and (shared := shared_among(args)):
            read, where = shared.read(recorder, inputs), (*where, shared.where)
            sources[: len(args)] = [s if v is None else recorder.source(v) for v, s in zip(read, sources, strict=False)]
            known = recorder.session.known.get(where)
        fn = "@" + shipped.fingerprint
        application: Application | None = recorder.applications.get(where)
        told = RECORDED * recording
        if cls is written and is_pure(cls):
            told |= PURE
        meta, policy = (len(args), tuple(flags), told), ""
        given: tuple[Any, ...] = tuple(named), () if shared is None else shared.where
        if met is not None:
            given = (*given, *met.params)
        if application is None or not application.serves(cls, known):
            application = None
            if _are_placed(inputs):
                check_kinds(written, [value.device for value in inputs if value is not None])
            policy = policy_of(written, recorder.session.saved) if recording else STORE
            if policy == RECOMPUTE and cls is not written:
                policy = STORE  # what hooks pack is where they have it, and they run once
            if known is None and cls is written and hasattr(cls, "infer"):
                known = inferred(recorder, cls, args)
            if known is not None:
                application = Application(cls, known, meta, given, casting, where, policy, inputs)
                if recorder.session.known.get(where) is known:
                    recorder.applications[where] = application
        if application is None:
            application, record, values = _resolve(
                recorder, cls, fn, sources, meta, given, casting, where, recording, policy, inputs
            )
            if shared is not None and not may_change(written, application.known):
                recorder.session.known[alone] = application.known
            elif shared is None and related > 1 and may_change(written, application.known):
                check_shared(written, args)
        else:
            known = application.known
            asked = unheard(application.meta) if here.again else application.meta
            record = NodeRecord(recorder, ROLE_FUNCTION, fn, (), sources, application.outputs, asked, user_site())
            record.pinned = application.pinned
            record.effects = application.effects
            if known.expected is None:
                record.learn = Learning(where, known)
            recorder.add_record(record)
            values = [record.output(i) for i in range(1, len(application.outputs))]
        result = _wrapped(
            recorder,
            written,
            cls,
            shipped,
            record,
            application,
            args,
            inputs,
            captured,
            leaves,
            values,
            recording,
            sources,
            region,
            shared,
            read,
        )
        if recorder.session.sync:
            recorder.session.wait_for_everything()
        return result


def _resolve(
    recorder: SessionRecorder,
    cls: type[Function],
    fn: str,
    sources: list[Any],
    meta: tuple[Any, ...],
    given: tuple[Any, ...],
    casting: Moment,
    where: Any,
    recording: bool,
    policy: str,
    inputs: Sequence[Pending | None],
) -> tuple[Application, NodeRecord, list[Any]]:
    """Run up to and including the Function, wait, and return what its run showed with its outputs."""
    record = NodeRecord(
        recorder, ROLE_FUNCTION, fn, (), sources, (CONTEXT,), (*meta, None, *given, casting), user_site()
    )
    recorder.add_record(record)
    record.effects = True
    record.pinned = True  # whether its context can leave its worker is not known yet (H10)
    learning = record.learn = Learning(where)
    context = record.output(0) if recording else None
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
        recorder.session.known[where] = known
    record.outputs = (CONTEXT, *known.outputs)
    values = [record.output(i + 1) for i in range(len(known.outputs))]
    recorder.session.hold(record)
    if context is not None:
        record.live |= 1
        values.append(context)
    application = Application(cls, known, meta, given, casting, where, policy, inputs)
    application.pinned = True
    record.outputs = (_context_of(known, application.bound or STAYS), *known.outputs)
    return application, record, values


def _wrapped(
    recorder: SessionRecorder,
    cls: type[Function],
    applied: type[Function],
    shipped: Shipped,
    record: NodeRecord,
    application: Application,
    args: tuple[Any, ...],
    inputs: list[Pending | None],
    captured: Sequence[Any],
    leaves: dict[int, Tensor],
    values: list[Any],
    recording: bool,
    sources: list[Any],
    region: Region | None,
    shared: Shared | None,
    read: Sequence[Pending | None],
) -> Any:
    """Return what apply returns, as pending tensors with a node that records their vjp."""
    known = application.known
    context = repetition = None
    if recording:
        context = values.pop() if len(values) > len(known.outputs) else record.output(0)
        record.saved |= 1
    node = None
    if context is not None and True in known.differentiable:
        if application.repeats and region is None:
            repetition = Repetition.of(recorder, application, record, read, sources, captured, values)
            context = None
        node = _node(
            recorder, cls, applied, shipped, record.site, context, application, args, inputs, captured, leaves, values
        )
        node.__dict__["_repetition"] = repetition
    if application.plain and not state.here.inference:
        result = fresh_outputs(known, values, node)
    else:
        result = wrap_outputs(recorder, cls, record, known, args, inputs, values, node)
    if node is not None and shared is not None and may_change(cls, known):
        shared.save(recorder, node, args)
    if node is not None and region is not None and (again := region.applied(node)) is not None:
        node.leave(OfRegion(again))
    return result


def _node(
    recorder: SessionRecorder,
    cls: type[Function],
    applied: type[Function],
    shipped: Shipped,
    site: Any,
    context: Pending | None,
    application: Application,
    args: tuple[Any, ...],
    inputs: list[Pending | None],
    captured: Sequence[Any],
    leaves: dict[int, Tensor],
    values: list[Any],
) -> RecordedFunction:
    """Return the node of an application that is recorded for backward."""
    known = application.known
    if not application.members:
        objects = [arg for arg in args if not isinstance(arg, Tensor)] if leaves else []
        application.members.update(
            _recorder=recorder,
            _fn="@" + shipped.fingerprint,
            _applied=applied,
            _inputs=tuple([(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args]),
            needs_input_grad=tuple([isinstance(a, Tensor) and a._requires_grad for a in args]),
            _metas=tuple(
                [
                    (v.shape, v.dtype) if entry.dtype is not None else None
                    for v, entry in zip(values, known.outputs, strict=True)
                ]
            ),
            _shapes=application.shapes,
            _saves=known.saves,
            _attributes_kind=known.attributes,
            _pinned=application.pinned,
            _barren=frozenset([j for j, flows in enumerate(known.differentiable) if not flows]),
            _unchecked=known.unchecked,
            _unseen=application.key if known.expected is None else None,
            _conduct=recorder.conduct(applied, shipped, objects),
        )
        if application.placed:
            application.members.update(
                _input_places=tuple([a.device if isinstance(a, Tensor) else None for a in args]),
                _places=tuple([entry.device for entry in known.outputs]),
            )
    saved_inputs: dict[int, Pending] = {}
    tensors: dict[int, Tensor] = {}
    versions: list[tuple[int, bool, list[int], int]] = []
    for i in application.saved:
        pending, arg = inputs[i], args[i]
        assert pending is not None
        if arg._inference is not None and known.saved_inputs is not None:
            raise refuse_saving()
        saved_inputs[i] = pending
        pending.record.claimed(pending.index)
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
            value.record.claimed(value.index)
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
    node = RecordedFunction.of(cls, application.members)
    node.__dict__.update(
        _site=site,
        _context=context,
        _edges=edges,
        _saved_inputs=saved_inputs,
        _saved_outputs=saved_outputs,
        _tensors=tensors,
        _shipped=shipped,
        _captured=captured[: len(shipped.captured)],  # the others are those of arguments
        _versions=versions,
        _sequence=next_sequence(),
        _input_tangents=tangents,
    )
    if leaves:
        node.__dict__["_held_leaves"] = leaves
    here = state.here
    if here.anomaly is not None:
        remember_origin(node)
    if here.transforms:
        node._suffix = "GeneratedBackward"
    return node


def _are_placed(inputs: Sequence[Pending | None]) -> bool:
    return any(value is not None and value.device is not CPU for value in inputs)


_NO_LEAVES: dict[int, Tensor] = {}
_NONE: dict[int, Any] = {}
"""Of what most applications have none of; never written to."""
