"""User Functions in a session: resolved by running once (H3), recorded from then on, differentiated to any order (H7).

Rules of this file: the recorded nodes of Functions and their vjps. The client never runs a user's forward or backward
here; what they do is learned from records of runs.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import cloudpickle
import numpy as np

from raygrad.autograd.derive import Meta
from raygrad.autograd.dtypes import is_differentiable
from raygrad.autograd.function import INPUT, OUTPUT, VALUE, Function, FunctionNode
from raygrad.autograd.layout import is_array
from raygrad.autograd.modes import state
from raygrad.autograd.node import FREED, NO_EDGE, AccumulateGrad, Edge, Node, next_sequence
from raygrad.autograd.recording import Data, Pending, Recorder
from raygrad.autograd.tensor import Tensor
from raygrad.errors import AutogradError, NotShippable, SessionError
from raygrad.proto.graph import KIND_OBJECT, ROLE_FUNCTION, VJP, Spec
from raygrad.proto.program import Learned
from raygrad.workers.contexts import Context

from .records import CONTEXT, Constant, NodeRecord, SpecEntry, spec_of_array
from .sites import user_site

if TYPE_CHECKING:
    from .recorder import SessionRecorder


class Known(NamedTuple):
    """What the first run of a Function showed for a key, or what its `infer` says."""

    expected: Any
    """The description that later runs must match, or None if only `infer` is known."""
    outputs: tuple[SpecEntry, ...]
    differentiable: tuple[bool, ...]
    twins: tuple[int, ...]
    """Per output, an earlier output that is the same tensor, or -1 (OU-08)."""
    saved_inputs: tuple[int, ...] | None
    """None: not known; every input may have been saved."""
    saved_outputs: tuple[int, ...] | None
    as_tuple: bool
    saves: bool
    """Whether it saves tensors at all: else there is nothing to free, and another backward may run (CX-11)."""


class Learning:
    """What a record of a run is to teach: filled in by the session when the record arrives."""

    __slots__ = ("inferred", "key", "learned", "undefined")

    def __init__(self, key: Any, inferred: Known | None = None) -> None:
        self.key = key
        self.inferred = inferred
        """What the Function's `infer` said, to be replaced by what its run shows."""
        self.learned: Any = None
        self.undefined: tuple[tuple[int, ...], tuple[int, ...]] | None = None


# ---- forward -------------------------------------------------------------------------------------------------------


def apply_function(recorder: SessionRecorder, cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Record `cls.apply(*args)`; the first time for a key, run up to here and learn from it."""
    with recorder.lock:
        shipped = recorder.code(cls)
        recording = state.grad and any(isinstance(a, Tensor) and a._requires_grad for a in args)
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
        sources.extend(recorder.captured(shipped))
        where = tuple(key)
        known = recorder.session.known.get(where)
        if known is None and hasattr(cls, "infer"):
            known = _inferred(recorder, cls, args)
        meta = (len(args), tuple(flags), int(recording))
        fn = "@" + shipped.fingerprint
        if known is None:
            known, record, values = _resolve(recorder, fn, sources, meta, where, recording)
        else:
            record = NodeRecord(
                recorder,
                ROLE_FUNCTION,
                fn,
                (),
                sources,
                (CONTEXT, *known.outputs),
                (*meta, known.expected),
                user_site(),
            )
            record.effects = bool(getattr(cls, "effects", False))
            if known.expected is None:
                record.learn = Learning(where, known)
            recorder.add_record(record)
            values = [record.output(i + 1) for i in range(len(known.outputs))]
        result = _wrapped(recorder, cls, fn, record, known, args, inputs, values, recording)
        if recorder.session.sync:
            recorder.session.wait_for_everything()
        return result


def snapshot(value: Any) -> tuple[Constant, Any]:
    """Return a non-tensor argument as it is now, and what identifies it among equal ones (H17).

    Raises:
        NotShippable: it cannot be copied or pickled.
    """
    kind = cast("type[Any]", type(value))
    if kind in (int, float, bool, str, bytes, complex, type(None)):
        return Constant(value), (kind, value)
    if is_array(value) and value.dtype.kind in "biufc":
        kept = value.copy(order="K")
        kept.flags.writeable = False
        return Constant(kept), ("array", value.shape, value.dtype.str, kept.strides)
    try:
        blob = cloudpickle.dumps(value)
        kept = copy.deepcopy(value)
    except Exception as error:
        raise NotShippable(
            f"an argument of type {kind.__name__} cannot travel to a worker ({error}); pass plain data, "
            "or make it inside forward"
        ) from error
    return Constant(kept), ("pickle", blob)


def _inferred(recorder: SessionRecorder, cls: Any, args: tuple[Any, ...]) -> Known:
    """Return what the Function's `infer(*specs)` says: one (shape, dtype) or a tuple of them."""
    specs = [Spec("array", a.shape, a.dtype.name) if isinstance(a, Tensor) else a for a in args]
    said = cls.infer(*specs)
    many = not (len(said) == 2 and not isinstance(said[1], tuple | list))
    metas = list(said) if many else [said]
    try:
        entries = tuple(
            recorder.entry(spec_of_array(tuple(int(n) for n in shape), np.dtype(dtype).name)) for shape, dtype in metas
        )
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{cls.__name__}.infer must return (shape, dtype), or a tuple of such pairs for several outputs; "
            f"got {said!r}"
        ) from error
    flows = tuple(is_differentiable(entry.dtype) for entry in entries)  # type: ignore[arg-type]
    return Known(None, entries, flows, (-1,) * len(entries), None, None, many, True)


def _resolve(
    recorder: SessionRecorder, fn: str, sources: list[Any], meta: tuple[Any, ...], where: Any, recording: bool
) -> tuple[Known, NodeRecord, list[Any]]:
    """Run up to and including the Function, wait, and return what its run showed with its outputs."""
    record = NodeRecord(recorder, ROLE_FUNCTION, fn, (), sources, (CONTEXT,), (*meta, None), user_site())
    recorder.add_record(record)
    record.effects = True
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
    if all(entry.dtype is not None for entry in known.outputs):  # objects are fetched at each apply: never remembered
        recorder.session.known[where] = known
    record.outputs = (CONTEXT, *known.outputs)
    values = [record.output(i + 1) for i in range(len(known.outputs))]
    recorder.session.hold(record)
    if context is not None:
        record.live |= 1
        values.append(context)
    return known, record, values


def shown(recorder: SessionRecorder, learned: Learned) -> Known:
    """Return what a run of a Function showed, from its record."""
    *described, (_, as_tuple), (_, saves) = learned.outputs
    entries: list[SpecEntry] = []
    kinds: list[tuple[Any, ...]] = []
    for kind, body in described:
        if kind == "object":
            entries.append(recorder.entry(Spec(KIND_OBJECT)))
            kinds.append(("object",))
        else:
            shape, dtype, differentiable, twin, layout = body
            layout = None if layout is None else (tuple(layout[0]), tuple(layout[1]))
            entries.append(recorder.entry(spec_of_array(tuple(shape), dtype, layout)))
            kinds.append(("array", tuple(shape), dtype, int(differentiable), int(twin)))
    expected = (
        tuple(kinds),
        tuple(learned.saved_inputs),
        tuple(learned.saved_outputs),
        int(as_tuple),
        int(saves),
    )
    return Known(
        expected,
        tuple(entries),
        tuple(kind[0] == "array" and bool(kind[3]) for kind in kinds),
        tuple(-1 if kind[0] == "object" else kind[4] for kind in kinds),
        tuple(learned.saved_inputs),
        tuple(learned.saved_outputs),
        bool(as_tuple),
        bool(saves),
    )


def _wrapped(
    recorder: SessionRecorder,
    cls: type[Function],
    fn: str,
    record: NodeRecord,
    known: Known,
    args: tuple[Any, ...],
    inputs: list[Pending | None],
    values: list[Any],
    recording: bool,
) -> Any:
    """Return what apply returns, as pending tensors with a node that records their vjp."""
    context = None
    if recording:
        context = values.pop() if len(values) > len(known.outputs) else record.output(0)
        record.saved |= 1
    node = None
    if recording and any(known.differentiable):
        saved_in = range(len(args)) if known.saved_inputs is None else known.saved_inputs
        saved_out = range(len(values)) if known.saved_outputs is None else known.saved_outputs
        node = RecordedFunction.of(cls, recorder, fn, record, context)
        node._inputs = [(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args]
        node._edges = [(a.edge() if a._requires_grad else NO_EDGE) if isinstance(a, Tensor) else None for a in args]
        node.needs_input_grad = tuple(isinstance(a, Tensor) and a._requires_grad for a in args)
        node._metas = [
            (v.shape, v.dtype) if entry.dtype is not None else None
            for v, entry in zip(values, known.outputs, strict=True)
        ]
        node._saved_inputs = {i: inputs[i] for i in saved_in if inputs[i] is not None}  # type: ignore[misc]
        node._saved_outputs = {j: values[j] for j in saved_out}
        node._saves = known.saves
        node._versions = {
            i: (a.counter(), a.counter()[0])
            for i, a in enumerate(args)
            if i in node._saved_inputs and isinstance(a, Tensor)
        }
        node._sequence = next_sequence()
        node._running_forward = False
        for held in (*node._saved_inputs.values(), *node._saved_outputs.values()):
            held.record.claimed(held.index)
    results: list[Any] = []
    for number, (value, entry) in enumerate(zip(values, known.outputs, strict=True)):
        if entry.spec.kind == KIND_OBJECT:
            results.append(recorder.session.read(record, number + 1))
        elif known.twins[number] >= 0:
            twin = results[known.twins[number]]
            twin.output_nr = number if twin.grad_fn is not None else 0
            results.append(twin)
        else:
            flows = node is not None and known.differentiable[number]
            results.append(Tensor.made(value, node if flows else None, number if flows else 0))
    return tuple(results) if known.as_tuple else results[0]


# ---- backward ------------------------------------------------------------------------------------------------------


class RecordedFunction(FunctionNode):
    """The node of a Function applied in a session: its backward records a vjp."""

    _recorder: SessionRecorder
    _fn: str
    _site: Any
    _context: Pending | None
    _extra: Sequence[Any]
    _saved_inputs: dict[int, Pending]
    _saved_outputs: dict[int, Pending]
    _versions: dict[int, tuple[list[int], int]]
    _saves: bool
    _freed: bool = False

    @staticmethod
    def of(
        function: type[Function], recorder: SessionRecorder, fn: str, record: NodeRecord, context: Pending | None
    ) -> RecordedFunction:
        """Return a node named after the Function, for an application recorded as `record`."""
        made = _node_classes.get(function)
        if made is None:
            made = _node_classes[function] = type(
                function.__name__ + "Backward", (RecordedFunction,), {"_function": function}
            )
        node: RecordedFunction = made()
        node._recorder = recorder
        node._fn = fn
        node._site = record.site
        node._context = context
        return node

    def _release(self) -> None:
        self._freed = True
        if self._saves:
            self._context = None
            self._saved_inputs = {}
            self._saved_outputs = {}

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if self._context is None:
            raise AutogradError(FREED)
        if self._recorder.closed:
            raise SessionError(f"the session that ran {self.name()} is closed: run backward inside the session")
        for position, (counter, version) in self._versions.items():
            if counter[0] != version:
                from raygrad.autograd.node import stale_message

                raise AutogradError(stale_message(f"argument {position} saved by {self.name()}", counter[0], version))
        if create_graph:
            return self._differentiably(grads)
        items: list[Data | None] = [*grads]
        items.extend(self._saved_inputs.get(i) for i in range(len(self._inputs)))
        items.extend(self._saved_outputs.get(j) for j in range(len(self._metas)))
        wanted = [i for i, edge in enumerate(self._edges) if edge is not None and edge[0] is not None]
        metas = [self._inputs[i] for i in wanted]
        shift = len(self._metas)
        requires = [shift + i for i in wanted] + [shift + len(self._inputs) + j for j in self._saved_outputs]
        results, _ = record_vjp(self, self._context, 1, items, requires, wanted, metas, False, self._freed)
        out: list[Data | None] = [None] * len(self._edges)
        for position, value in zip(wanted, results, strict=True):
            out[position] = value
        return out

    def _differentiably(self, grads: Sequence[Any]) -> list[Any]:
        """Record the vjp as a node that can itself be differentiated; gradients are tensors here (H7)."""
        assert self._context is not None
        items: list[Tensor | None] = [*grads]
        for i in range(len(self._inputs)):
            value = self._saved_inputs.get(i)
            items.append(None if value is None else _at_edge(value, self._edges[i]))
        for j in range(len(self._metas)):
            value = self._saved_outputs.get(j)
            items.append(None if value is None else Tensor.made(value, self, j))
        wanted = [i for i, edge in enumerate(self._edges) if edge is not None and edge[0] is not None]
        return RecordedVjp.run(
            self, self._context, 1, items, wanted, [self._inputs[i] for i in wanted], len(self._edges)
        )


class RecordedVjp(Node):
    """A vjp recorded under create_graph: a node of level `depth`, whose own backward records level `depth + 1`."""

    _base: RecordedFunction
    _context: Pending | None
    _depth: int
    _items: list[Tensor | None]
    _wanted: list[int]
    _results: int

    def name(self) -> str:
        """Return the Function's node name with the order of the derivative."""
        return self._base.name() + "Backward" * self._depth

    @staticmethod
    def run(
        base: RecordedFunction,
        context: Pending,
        depth: int,
        items: list[Tensor | None],
        wanted: list[int],
        metas: list[Meta | None],
        results: int,
    ) -> list[Any]:
        """Record level `depth` and return its `results` gradients as tensors, the wanted ones with a new node."""
        requires = [i for i, item in enumerate(items) if item is not None and item._requires_grad]
        values, flows = record_vjp(
            base,
            context,
            depth,
            [None if t is None else base._recorder.leaf(t) for t in items],
            requires,
            wanted,
            metas,
            True,
        )
        node = RecordedVjp()
        node._base, node._context, node._depth, node._items = base, context, depth, items
        node._wanted, node._results = wanted, results
        node._edges = [None if t is None else t.edge() if t._requires_grad else NO_EDGE for t in items]
        node._metas = [None] * results
        metas_by_result: list[Meta | None] = [None] * results
        for position, meta in zip(wanted, metas, strict=True):
            metas_by_result[position] = meta
        node._metas = metas_by_result
        node._sequence = next_sequence()
        for item in items:
            if item is not None and type(item._data) is Pending:
                item._data.record.claimed(item._data.index)
        out: list[Any] = [None] * results
        for number, (position, value) in enumerate(zip(wanted, values, strict=True)):
            if value is not None:
                flowing = number in flows
                out[position] = Tensor.made(value, node if flowing else None, position if flowing else 0)
        return out

    def _input_metas(self) -> Sequence[Meta | None]:
        return [None if t is None else (t.shape, t.dtype) for t in self._items]

    def _release(self) -> None:
        self._context = None
        self._items = []

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if self._context is None:
            raise AutogradError(FREED)
        owner = self._base._recorder
        wanted = [i for i, edge in enumerate(self._edges) if edge is not None and edge[0] is not None]
        metas = [self._input_metas()[i] for i in wanted]
        if create_graph:
            return RecordedVjp.run(
                self._base, self._context, self._depth + 1, [*grads, *self._items], wanted, metas, len(self._items)
            )
        items = [*grads, *(None if t is None else owner.leaf(t) for t in self._items)]
        shift = len(grads)
        requires = [shift + i for i, t in enumerate(self._items) if t is not None and t._requires_grad]
        values, _ = record_vjp(self._base, self._context, self._depth + 1, items, requires, wanted, metas, False)
        out: list[Data | None] = [None] * len(self._edges)
        for position, value in zip(wanted, values, strict=True):
            out[position] = value
        return out


_node_classes: dict[type[Function], type[RecordedFunction]] = {}


def record_vjp(
    base: RecordedFunction,
    context: Pending,
    depth: int,
    items: Sequence[Data | None],
    requires: Sequence[int],
    wanted: Sequence[int],
    metas: Sequence[Meta | None],
    differentiate: bool,
    freed: bool = False,
) -> tuple[list[Pending | None], frozenset[int]]:
    """Record level `depth` of a Function's derivatives.

    Returns:
        One pending gradient per wanted position (None where known to be undefined), and the numbers of those that
        require grad; the latter is learned by running when `differentiate` (H7).
    """
    recorder = base._recorder
    with recorder.lock:
        sources = [recorder.source(context), *(recorder.source(item) for item in items)]
        sources.extend(base._extra if hasattr(base, "_extra") else recorder.captured(recorder.code(base._function)))
        present = tuple(None if i is None else (i.shape, i.dtype.char) for i in items)
        key = ("vjp", base._fn, depth, present, tuple(requires), tuple(wanted), differentiate)
        outputs = [recorder.plain(meta) for meta in metas]  # type: ignore[arg-type]
        known = recorder.session.undefined.get(key)
        flags = (int(differentiate), int(freed), known if differentiate else None)
        meta = (len(items), len(base._inputs), len(base._metas), tuple(wanted), tuple(requires), *flags)
        made = NodeRecord(recorder, ROLE_FUNCTION, base._fn, (VJP,) * depth, sources, outputs, meta, base._site)
        made.effects = True
        made.near = recorder.source(context)
        recorder.add_record(made)
        learning = None
        if known is None or not differentiate:
            learning = made.learn = Learning(key)
        results: list[Pending | None] = [
            made.output(i, None, known is not None and i not in known[0]) for i in range(len(outputs))
        ]
        if differentiate and known is None:
            assert learning is not None
            recorder.session.submit()
            recorder.session.wait_for(made, lambda: learning.undefined is not None)
            known = learning.undefined
        if not differentiate:
            return results, frozenset()
        assert known is not None
        for i, result in enumerate(results):
            if i in known[0]:
                results[i] = None
            elif result is not None:
                result.defined = True
        return results, frozenset(known[1])


def _at_edge(value: Pending, edge: Edge | None) -> Tensor:
    """Return a saved input as a tensor in its place in the graph."""
    if edge is None or edge[0] is None:
        return Tensor.made(value)
    if isinstance(edge[0], AccumulateGrad):
        return edge[0].variable
    return Tensor.made(value, edge[0], edge[1])


# ---- Functions that ran eagerly, whose gradients arrive in a session -----------------------------------------------


def vjp_of_eager(recorder: SessionRecorder, node: Any, grads: Sequence[Data | None]) -> list[Data | None]:
    """Record the backward of a Function that was applied outside the session: its context goes along as a value."""
    if node._saved is None:
        raise AutogradError(FREED)
    node.saved_tensors  # noqa: B018 - raises when something saved was changed in place
    shipped = recorder.code(node._function)
    context = Constant(Context(_without_graph(node)), CONTEXT)
    items: list[Data | None] = [*grads]
    saved = {(slot.kind, slot.position): slot for slot in node._saved if slot is not None and slot.kind is not VALUE}
    for kind, count in ((INPUT, len(node._inputs)), (OUTPUT, len(node._metas))):
        for position in range(count):
            slot = saved.get((kind, position))
            if slot is None:
                items.append(None)
            else:
                items.append(slot.value if kind is OUTPUT else recorder.leaf(slot.value))
    wanted = [i for i, edge in enumerate(node._edges) if edge is not None and edge[0] is not None]
    with recorder.lock:
        sources = [context, *(recorder.source(item) for item in items), *recorder.captured(shipped)]
        outputs = [recorder.plain(node._inputs[i]) for i in wanted]
        requires = tuple(len(node._metas) + i for i in wanted)
        meta = (len(items), len(node._inputs), len(node._metas), tuple(wanted), requires, 0, 0, None)
        made = NodeRecord(
            recorder, ROLE_FUNCTION, "@" + shipped.fingerprint, (VJP,), sources, outputs, meta, user_site()
        )
        made.effects = True
        recorder.add_record(made)
    out: list[Data | None] = [None] * len(node._edges)
    for number, position in enumerate(wanted):
        out[position] = made.output(number, None)
    return out


def _without_graph(node: Any) -> FunctionNode:
    """Return a copy of an eager context that holds no tensors of the client's graph: workers get data only."""
    import copy as _copy

    clone: FunctionNode = _copy.copy(node)
    packed = Context(clone).packed()
    return Context(packed=packed).live(node._function)
