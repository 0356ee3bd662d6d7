"""User Functions in a session: resolved by running once (H3), recorded from then on.

Rules of this file: what `apply` does. The client never runs a user's forward here; what it gives is learned from
records of runs. The nodes that record its derivatives are in `vjps`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raygrad.autograd.anomaly import remember as remember_origin
from raygrad.autograd.function import Function
from raygrad.autograd.hooked import with_hooks
from raygrad.autograd.inference import refuse_saving
from raygrad.autograd.modes import state
from raygrad.autograd.node import NO_EDGE, next_sequence
from raygrad.autograd.recording import Pending
from raygrad.autograd.tensor import Tensor
from raygrad.proto.graph import ROLE_FUNCTION

from .applied import RecordedFunction
from .learned import Known, Learning, inferred, shown
from .outputs import wrap_outputs
from .records import CONTEXT, NodeRecord, snapshot
from .sites import user_site

if TYPE_CHECKING:
    from .recorder import SessionRecorder


def apply_function(recorder: SessionRecorder, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Record `cls.apply(*args, **named)`; the first time for a key, run up to here and learn from it."""
    with recorder.lock:
        recording = state.grad and any(isinstance(a, Tensor) and a._requires_grad for a in args)
        written = cls
        if recording and state.saving:
            cls = with_hooks(cls)
        shipped = recorder.code(cls)
        sources: list[Any] = []
        inputs: list[Pending | None] = []
        flags: list[int] = []
        key: list[Any] = [shipped.fingerprint, recording]
        for arg in args:
            if isinstance(arg, Tensor):
                pending = recorder.leaf(arg)
                flag = 1 if arg._requires_grad else 0
                key.append((pending.spec, flag))
                sources.append(recorder.source(pending))
                inputs.append(pending)
                flags.append(flag)
            else:
                constant, identity = snapshot(arg)
                key.append(identity)
                sources.append(constant)
                inputs.append(None)
                flags.append(-1)
        for name, value in named.items():  # keyword-only ones are constants (FN-05)
            constant, identity = snapshot(value)
            key.append((name, identity))
            sources.append(constant)
        captured = recorder.captured(shipped)
        sources.extend([recorder.source(value) for value in captured])
        where = tuple(key)
        known = recorder.session.known.get(where)
        if known is None and cls is written and hasattr(cls, "infer"):
            known = inferred(recorder, cls, args)
        meta = (len(args), tuple(flags), int(recording))
        names = tuple(named)
        fn = "@" + shipped.fingerprint
        if known is None:
            known, record, values = _resolve(recorder, fn, sources, (*meta, None, names), where, recording)
        else:
            record = NodeRecord(
                recorder,
                ROLE_FUNCTION,
                fn,
                (),
                sources,
                (CONTEXT, *known.outputs),
                (*meta, known.expected, names),
                user_site(),
            )
            record.pinned = not known.pickles or bool(getattr(cls, "pinned", False))
            record.effects = bool(getattr(cls, "effects", False))
            if known.expected is None:
                record.learn = Learning(where, known)
            recorder.add_record(record)
            values = [record.output(i + 1) for i in range(len(known.outputs))]
        result = _wrapped(recorder, written, cls, fn, record, known, args, inputs, captured, values, recording)
        if recorder.session.sync:
            recorder.session.wait_for_everything()
        return result


def _resolve(
    recorder: SessionRecorder, fn: str, sources: list[Any], meta: tuple[Any, ...], where: Any, recording: bool
) -> tuple[Known, NodeRecord, list[Any]]:
    """Run up to and including the Function, wait, and return what its run showed with its outputs."""
    record = NodeRecord(recorder, ROLE_FUNCTION, fn, (), sources, (CONTEXT,), meta, user_site())
    recorder.add_record(record)
    record.effects = True
    record.pinned = True  # whether its context can leave its worker is not known yet (H10)
    learning = record.learn = Learning(where)
    context = record.output(0) if recording else None
    record.saved |= 1
    try:
        recorder.session.submit(open_ended=True)
    except BaseException:
        if record in recorder.records:  # not sent: an error of earlier work came first
            recorder.records.remove(record)
        raise
    recorder.session.wait_for(record, lambda: learning.learned is not None)
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
    return known, record, values


def _wrapped(
    recorder: SessionRecorder,
    cls: type[Function],
    applied: type[Function],
    fn: str,
    record: NodeRecord,
    known: Known,
    args: tuple[Any, ...],
    inputs: list[Pending | None],
    captured: list[Pending],
    values: list[Any],
    recording: bool,
) -> Any:
    """Return what apply returns, as pending tensors with a node that records their vjp."""
    context = None
    if recording:
        context = values.pop() if len(values) > len(known.outputs) else record.output(0)
        record.saved |= 1
    node = None
    if recording and context is not None and any(known.differentiable):
        saved_in = range(len(args)) if known.saved_inputs is None else known.saved_inputs
        if any([isinstance(args[i], Tensor) and args[i]._inference is not None for i in known.saved_inputs or ()]):
            raise refuse_saving()
        saved_out = range(len(values)) if known.saved_outputs is None else known.saved_outputs
        node = RecordedFunction.of(cls, recorder, fn, record.site, context)
        node.__dict__.update(
            _applied=applied,
            _inputs=[(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args],
            _edges=[(a.edge() if a._requires_grad else NO_EDGE) if isinstance(a, Tensor) else None for a in args],
            needs_input_grad=tuple(isinstance(a, Tensor) and a._requires_grad for a in args),
            _metas=[
                (v.shape, v.dtype) if entry.dtype is not None else None
                for v, entry in zip(values, known.outputs, strict=True)
            ],
            _saved_inputs={i: inputs[i] for i in saved_in if inputs[i] is not None},
            _saved_outputs={j: values[j] for j in saved_out},
            _tensors={i: args[i] for i in saved_in if inputs[i] is not None},
            _saves=known.saves,
            _attributes_kind=known.attributes,
            _pinned=record.pinned,
            _captured=captured,
            _versions={
                (i, False): _version_of(args[i])
                for i in saved_in
                if inputs[i] is not None and (i, False) not in known.unchecked
            },
            _barren=frozenset(j for j, flows in enumerate(known.differentiable) if not flows),
            _sequence=next_sequence(),
            _input_tangents={i: a._tangents for i, a in enumerate(args) if isinstance(a, Tensor) and a._tangents},
        )
        if state.anomaly is not None:
            remember_origin(node)
        if state.transforms:
            node._suffix = "GeneratedBackward"
        for held in (*node._saved_inputs.values(), *node._saved_outputs.values()):
            held.record.claimed(held.index)
    return wrap_outputs(recorder, cls, record, known, args, inputs, values, node)


def _version_of(tensor: Tensor) -> tuple[list[int], int]:
    counter = tensor.counter()
    return counter, counter[0]
