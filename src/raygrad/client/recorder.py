"""Recording: what autograd tells a session becomes records, and a submission point turns them into a graph.

Rules of this file: the session's implementation of `Recorder` for built-in ops, gradients and hooks; user Functions
are in `functions`, the building of graphs in `submission`, versions of cells in `cells`. Nothing here runs user code.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from raygrad.autograd.anomaly import story_of
from raygrad.autograd.autocast import moment
from raygrad.autograd.batched import Batched, refused
from raygrad.autograd.derive import Meta
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import CPU, device_of, is_elsewhere, is_placed, named, to_host
from raygrad.autograd.devices.sums import check_together
from raygrad.autograd.elsewhere import copied, missing
from raygrad.autograd.function import FunctionNode
from raygrad.autograd.layout import is_array
from raygrad.autograd.modes import state
from raygrad.autograd.node import Node, OpNode
from raygrad.autograd.recording import Data, Pending, Recorder
from raygrad.autograd.registry import Op, get_op
from raygrad.autograd.tensor import Tensor
from raygrad.autograd.views import Stale
from raygrad.errors import NotShippable, SessionError
from raygrad.proto.graph import KIND_UNKNOWN, ROLE_EMIT, ROLE_HOOK, ROLE_OP, ROLE_SUM, VJP, Spec
from raygrad.proto.layout import Layout, layout_of, strides_of
from raygrad.proto.program import INLINE_RESULT_BYTES
from raygrad.workers.captures import of_gradients
from raygrad.workers.pickling import pickle_around_tensors
from raygrad.workers.placed import MOVING
from raygrad.workers.registrations import with_registrations
from raygrad.workers.shipping import Shipped, ship

from .cells import CellLog
from .collector import collector_paused
from .copies import Copies, is_owned_elsewhere, is_still, value_of_leaf
from .demands import Asked, asked_of
from .leaves import leaves_met
from .records import Constant, LeafRecord, NodeRecord, SpecEntry, Template, spec_of_array
from .repeats import exact, op_again, vjp_again
from .sites import user_site

if TYPE_CHECKING:
    from .session import Session
    from .tracing import Trace

MEMO_LIMIT = 65_536
"""Shape rules remembered per session; slice bounds that never repeat must not grow it without end."""


MOST_WAITING = 32
"""Records that may wait while compiled functions are replayed."""


class SessionRecorder(Recorder):
    """Records for one session; what it knows of the world beyond recording it asks the session."""

    def __init__(self, session: Session, *, by_reference: bool) -> None:
        self.session = session
        self.claims = int(session.saved != "worker")
        """Whether what backward nodes hold as residuals goes to the store; else it stays on its worker."""
        self.by_reference = by_reference
        """User code may be used as it is, in this process (H23)."""
        self.lock = threading.RLock()
        self.records: list[NodeRecord] = []
        self.cells = CellLog()
        self.dropped: deque[tuple[int, int]] = deque()
        self.pin = -1
        """The worker that `rg.place` asks for, or -1."""
        self.demands: dict[str, Asked] = {}
        """By name in the graph, what user Functions ask of workers."""
        self.retaining = False
        self.deferred = False
        """Passes and steps are recorded only: see `Session.deferred`."""
        """Whether the pass that records keeps what was saved."""
        self.lessons = 0
        """Moves whenever something is learned of the backward of user Functions."""
        self.trace: Trace | None = None
        """What sees a function that is being compiled."""
        self.applications: dict[Any, Any] = {}
        """By key, what applications of a user Function share; see `functions`."""
        self._specs: dict[Spec, SpecEntry] = {}
        self._plain: dict[Meta, SpecEntry] = {}
        self._memo: dict[Any, Template] = {}
        self._copies = Copies(self._constant)
        self._sums: dict[tuple[str, SpecEntry], int] = {}
        """Kinds of records of sums."""
        self._shipped: dict[Any, Shipped] = {}
        self.kinds = itertools.count(1)
        """See `NodeRecord.kind`."""
        self._closed = False

    # ---- values -----------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Record no more."""
        self._closed = True
        self.records.clear()
        self.cells.clear()

    def entry(self, spec: Spec) -> SpecEntry:
        """Return the interned entry of a spec."""
        found = self._specs.get(spec)
        if found is None:
            found = self._specs[spec] = SpecEntry(spec)
        return found

    def plain(self, meta: Meta) -> SpecEntry:
        """Return the entry of an array of a shape and dtype whose layout only the kernel knows."""
        found = self._plain.get(meta)
        if found is None:
            found = self._plain[meta] = self.entry(spec_of_array(tuple(meta[0]), np.dtype(meta[1]).name))
        return found

    def after(self, value: Pending, awaited: Sequence[Data]) -> Pending:
        sources = [self.source(value), *map(self.source, awaited)]
        made = NodeRecord(self, ROLE_SUM, "after", (), sources, (value.spec,), (), user_site())
        self.add_record(made)
        return made.output(0)

    def plain_on(self, meta: Meta, device: Device) -> SpecEntry:
        """Return the same of an array of a device."""
        if device is CPU:
            return self.plain(meta)
        return self.entry(spec_of_array(tuple(meta[0]), np.dtype(meta[1]).name, None, str(device)))

    def place(self, device: Device) -> Device:
        return self.session.place(device)

    def leaf(self, tensor: Tensor) -> Pending:
        if self.trace is not None:
            self.trace.saw(tensor)
        data = tensor._data
        if type(data) is Stale:
            data = data.for_use(False)
        if type(data) is Pending:
            if data.record.recorder is not self:
                self._refuse_mixing(data)
            return data
        if type(data) is Batched:
            raise refused("a session")
        counter = tensor.counter()
        cached = tensor._snapshot
        if cached is not None and cached[0] is self and cached[1] == counter[0]:
            if not tensor._shares_memory or (is_array(data) and is_still(value_of_leaf(cached[2]), data)):
                return cached[2]
        if is_elsewhere(data):
            pending = self._leaf_on_device(data)
        elif is_owned_elsewhere(data):
            pending = self.constant_array(data)
        elif tensor._shares_memory and self.trace is None:
            pending = LeafRecord(self, self._copies.of(data)).output()
        else:
            pending = self.constant_array(data.copy(order="K"))
        tensor._snapshot = (self, counter[0], pending)
        return pending

    def _leaf_on_device(self, data: Any) -> Pending:
        """Return the pending value that stands for an array of a device: in this process a copy of it there, elsewhere
        one that a node makes of a copy that the client sends (which is listed with it: `Constant.moved`)."""
        device = str(self.place(device_of(data)))
        if self.by_reference:
            spec = spec_of_array(data.shape, data.dtype.name, layout_of(data), device)
            return LeafRecord(self, Constant(copied(data), self.entry(spec))).output()
        sent = self.constant_array(to_host(data))
        cast("LeafRecord", sent.record).constant.moved = device
        return self.op(get_op("to_device"), (sent,), (device, "cpu"))[0]

    def constant_array(self, array: np.ndarray[Any, Any]) -> Pending:
        """Return the pending value that stands for an array which nobody will write to any more."""
        return LeafRecord(self, self._constant(array)).output()

    def _constant(self, array: np.ndarray[Any, Any]) -> Constant:
        if array.flags.writeable:
            array.flags.writeable = False
        return Constant(array, self.entry(spec_of_array(array.shape, array.dtype.name, layout_of(array))))

    def source(self, data: Data | None) -> Any:
        """Return how a record names a value that it reads: a constant, or (record, output, holder).

        A value that was submitted before would be dropped when its last holder lets go, so the source holds it; one
        that is not yet submitted is part of the same submission, and must die when nobody else wants it.
        """
        if data is None:
            return None
        if type(data) is Pending:
            record: Any = data.record
            if record.recorder is not self:
                return self.source(self._from_before(data))
            if type(record) is NodeRecord:
                return record, data.index, data if record.run >= 0 else None
            return record.constant
        if is_array(data):
            if data.flags.writeable and self.trace is None:
                return self._copies.of(data)
            return self._constant(data.copy(order="K") if data.flags.writeable else data)
        if type(data) is Batched:
            raise refused("a session")
        if is_elsewhere(data):
            return self.source(self._leaf_on_device(data))
        return Constant(data)

    def _from_before(self, value: Pending) -> Data | None:
        """Return what a value of another session is, which was read before that was closed."""
        other = value.record.recorder
        if other.closed:
            try:
                return other.read(value)
            except SessionError:  # it says how to read it there, which is too late now
                pass
        self._refuse_mixing(value)

    def _refuse_mixing(self, value: Pending) -> NoReturn:
        what = "a session that is closed" if value.record.recorder.closed else "another session"
        raise SessionError(
            f"a tensor of {what} (shape {value.shape}) is used in this one; read it there first: "
            "raygrad.tensor(value.detach().numpy())"
        )

    def add_record(self, record: NodeRecord) -> None:
        """Append a record, in program order."""
        if self._closed:
            raise SessionError("this session is closed; open a new one, or use eager tensors")
        record.pin = self.pin
        self.records.append(record)

    def can_wait(self) -> bool:
        """Tell whether what is recorded may be submitted later, after replays of compiled functions: it is little,
        holds nothing large, and does nothing but compute values that no cell has. What a loop does with losses is so.
        """
        if len(self.records) > MOST_WAITING or self.cells.pending() or self.deferred or self.session.sync:
            return False
        return all(_is_light(record) for record in self.records)

    def revive(self, records: Iterable[NodeRecord]) -> None:
        """Record again what was submitted, and moves what the client has to a device: tensors that it made do not die
        with the run that moved them."""
        again: list[NodeRecord] = []
        for record in records:
            assert record.leaf is not None
            record.run = record.base = record.needed = -1
            record.sources = (record.leaf,)
            record.values = None
            again.append(record)
        self.records[:0] = again

    def forget_dependants(self, failed: set[int]) -> None:
        """Drop the recorded nodes that read, directly or not, from runs that failed: they can never run."""
        kept: list[NodeRecord] = []
        for record in self.records:
            for source in (*record.sources, record.near):
                if isinstance(source, tuple) and (source[0].failed or source[0].run in failed):
                    record.failed = True
                    record.sources = ()
                    record.near = None
                    break
            else:
                kept.append(record)
        self.records[:] = kept

    def code(self, obj: Any) -> Shipped:
        """Return how user code travels: its fingerprint, taken anew when something that it reads has changed, and what
        it captures (H16, H17)."""
        found = self._shipped.get(obj) if _hashable(obj) else None
        if found is None or not found.watch.holds():
            found = ship(obj, in_process=self.by_reference)
            if not self.by_reference:
                found = with_registrations(found)
            if _hashable(obj):
                self._shipped[obj] = found
            if isinstance(obj, type):
                self._ask("@" + found.fingerprint, obj)
            self.session.learn(found)
        if self.trace is not None:
            self.trace.code[found.fingerprint] = found
        return found

    def _ask(self, fn: str, function: type[Any]) -> None:
        """Note what a Function asks of the workers that run it, forward and backward."""
        needs = asked_of(function)
        if needs:
            self.demands[fn] = Asked(function.__name__, needs)

    def forget_code(self) -> None:
        """Take fingerprints anew from here on: a submission has been made."""
        self._shipped.clear()

    def conduct(self, obj: Any, shipped: Shipped, objects: Sequence[Any] = ()) -> int:
        """Return what user code, with objects that it is given, might do with the `.grad` of leaves (H16); see
        `of_gradients`."""
        known = self.session.of_gradients
        found = known.get(shipped.fingerprint)
        if found is None:
            found = known[shipped.fingerprint] = of_gradients(obj)
        for one in objects:
            found |= of_gradients(one)
        return found

    def captured(self, shipped: Shipped) -> list[Pending]:
        """Return what user code captures, as it is now."""
        values: list[Pending] = []
        for one in shipped.captured:
            if isinstance(one, Tensor):
                values.append(self.leaf(one))
                continue
            values.append(self.constant_array(np.array(one, copy=True, order="K")))
            if self.trace is not None:
                self.trace.copied(one, values[-1])
        return values

    # ---- built-in ops -----------------------------------------------------------------------------------------------

    again = op_again
    vjp_again = vjp_again

    def op(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[Pending]:
        with self.lock:
            # the shape depends on the values: reading them submits what makes them, so that comes first
            found = self._infer(op, operands, params) if op.infer is None else None
            sources: list[Any] = []
            key: list[Any] = [op.name, exact(params)]
            defined: bool | None = True
            assumed = True
            for operand in operands:
                if type(operand) is Pending:
                    if operand.record.recorder is not self:
                        self._refuse_mixing(operand)
                    key.append(operand.spec)
                    if operand.defined is not True:  # an op of an undefined gradient is undefined
                        defined, assumed = None, assumed and operand.assumed
                    record: Any = operand.record
                    if type(record) is NodeRecord:
                        sources.append((record, operand.index, operand if record.run >= 0 else None))
                    else:
                        sources.append(record.constant)
                elif operand is None:
                    key.append(None)
                    sources.append(None)
                elif is_array(operand):
                    source = self.source(operand)
                    key.append(source.spec)
                    sources.append(source)
                elif is_elsewhere(operand):
                    operand = self._leaf_on_device(operand)
                    key.append(operand.spec)
                    sources.append(self.source(operand))
                else:
                    key.append(type(operand) if op.weak_numbers else (type(operand), operand))
                    sources.append(Constant(operand))
            memo = tuple(key)
            template = self._memo.get(memo) if found is None else Template(found, 0)
            if template is None:
                outputs = self._infer(op, operands, params)
                if len(self._memo) >= MEMO_LIMIT:
                    self._forget_templates()
                template = self._memo[memo] = Template(outputs, next(self.kinds))
                if template.again and len(memo) == 3 and not params and type(memo[2]) is SpecEntry:
                    memo[2].unary[op.name] = template
            outputs = template.outputs
            made = NodeRecord(self, ROLE_OP, op.name, (), sources, outputs, params, user_site())
            made.template = template
            made.kind = template.kind
            if op.name == MOVING and isinstance(sources[0], Constant):
                made.leaf = sources[0]
            self.add_record(made)
            if len(outputs) == 1:
                return [made.output(0, defined, assumed)]
            return [made.output(i, defined, assumed) for i in range(len(outputs))]

    def _forget_templates(self) -> None:
        self._memo.clear()
        for entry in self._specs.values():
            entry.unary.clear()

    def _infer(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[SpecEntry]:
        """Return the specs of an op's outputs, by its shape rule; where it has none, by reading the operands: on the
        host, so that those of a device are moved."""
        device = _device_of(op, operands, params)
        if device.type != "cpu" and op.lands is None and not op.has_kernel(device.type, _dtype_of(operands)):
            raise missing(op, device.type)
        if op.infer is not None:
            result = op.infer(params, *operands)
            metas = [result] if op.outputs == 1 else list(result)
        else:
            arrays = [self.read(self._on_host(o)) if type(o) is Pending else o for o in operands]
            dtype = next((a.dtype for a in arrays if is_array(a)), None)
            result = op.kernel("cpu", dtype)(*arrays, *params)
            metas = [(a.shape, a.dtype) for a in ((result,) if op.outputs == 1 else result)]
        natural = [tuple(range(len(shape))) for shape, _ in metas]
        rowwise = op.promotes is not None and all(
            o.spec.spec.layout == (tuple(range(o.ndim)), ()) for o in operands if type(o) is Pending
        )
        if op.name == MOVING:  # what arrives is dense, in its own axis order
            (held,) = operands
            layout = held.spec.spec.layout
            natural, rowwise = [tuple(range(held.ndim)) if layout is None else layout[0]], layout is not None
        return [
            self.entry(spec_of_array(tuple(shape), np.dtype(dtype).name, (order, ()) if rowwise else None, str(device)))
            for (shape, dtype), order in zip(metas, natural, strict=True)
        ]

    def _on_host(self, value: Pending) -> Pending:
        """Return a value as it is to be read on the host."""
        if value.device is CPU:
            return value
        return self.op(get_op("to_device"), (value,), ("cpu", str(value.device)))[0]

    def op_vjp(self, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]) -> list[Pending | None]:
        with self.lock:
            source = self.source
            sources = [source(data) for data in (*saved, *grads)]
            edges = node._edges
            if len(edges) == 1 and edges[0] is not None and edges[0][0] is not None:
                needs = _ONE
            else:
                needs = tuple([0 if edge is None or edge[0] is None else 1 for edge in edges])
            alike: Any = (needs, tuple(node.inputs)) if node._converts else needs
            origin = node._origin
            template = origin.template if type(origin) is NodeRecord and origin.recorder is self else None
            found = None if template is None else template.vjps.get(alike)
            if found is None:
                found = (
                    *self._vjp_shape(node, needs, grads),
                    0 if template is None or not template.kind else next(self.kinds),
                )
                if template is not None:
                    template.vjps[alike] = found
            meta, wanted, kind = found
            site = origin.site if type(origin) is NodeRecord else None
            made = NodeRecord(self, ROLE_OP, node.op.name, (VJP,), sources, wanted, meta, site)
            made.kind = kind
            if state.anomaly is not None:
                made.story = story_of(node)
            self.add_record(made)
            defined, assumed = _definedness(grads)
            if needs is _ONE:
                return [made.output(0, defined, assumed)]
            results: list[Pending | None] = []
            position = 0
            for need in needs:
                results.append(made.output(position, defined, assumed) if need else None)
                position += need
            return results

    def _vjp_shape(
        self, node: OpNode, needs: tuple[int, ...], grads: Sequence[Data | None]
    ) -> tuple[tuple[Any, ...], list[SpecEntry]]:
        """Return the params and outputs of an op's vjp node."""
        made = next((device_of(grad) for grad in grads if grad is not None), CPU)
        read = _read_by(node, made)
        inputs = [None if meta is None else self.plain_on(meta, read) for meta in node.inputs]
        outputs = tuple([self.plain_on(meta, made) for meta in node._metas if meta is not None])
        wanted = [entry for entry, need in zip(inputs, needs, strict=True) if need and entry is not None]
        return (node.params, needs, tuple(inputs), outputs), wanted

    def add(self, left: Data, right: Data) -> Pending:
        with self.lock:
            sources = [self.source(left), self.source(right)]
            if is_placed(left) or is_placed(right):
                check_together(left, right)
            entry = self.plain_on((left.shape, left.dtype), device_of(left))
            made = NodeRecord(self, ROLE_SUM, "sum", (), sources, (entry,), (), None)
            made.kind = self._kind_of_sum("sum", entry)
            self.add_record(made)
            return made.output(0, *_definedness((left, right)))

    def _kind_of_sum(self, fn: str, entry: SpecEntry) -> int:
        found = self._sums.get((fn, entry))
        if found is None:
            found = self._sums[fn, entry] = next(self.kinds)
        return found

    def is_defined(self, value: Pending) -> bool:
        if self.trace is not None:
            if value.assumed:  # as for an optimiser: what earlier runs showed is gone by, and checked by this one
                self.require(value)
                return True
            self.trace.interrupt("whether a gradient is defined had to be found out")
        return self.session.is_defined(cast(NodeRecord, value.record), value.index)

    def drawn(self, made: Tensor | None, again: Callable[[], Any]) -> None:
        if self.trace is not None:
            self.trace.draw(made, again)

    def require(self, value: Pending) -> Pending:
        with self.lock:
            made = NodeRecord(self, ROLE_SUM, "defined", (), (self.source(value),), (value.spec,), (), user_site())
            made.kind = self._kind_of_sum("defined", value.spec)
            made.effects = True
            self.add_record(made)
            return made.output(0)

    def refuse_nan(self, value: Pending, message: str, story: str) -> None:
        with self.lock:
            record: Any = value.record
            site = record.site if type(record) is NodeRecord and record.site is not None else user_site()
            made = NodeRecord(self, ROLE_SUM, "no nan", (), (self.source(value),), (value.spec,), (message,), site)
            made.effects = True
            made.story = story
            self.add_record(made)

    # ---- hooks ------------------------------------------------------------------------------------------------------

    def check_hook(self, kind: str, hook: Any) -> Any:
        self.code(hook)
        return hook

    def hook(
        self,
        kind: str,
        hook: Any,
        owner: Node,
        values: Sequence[Data | None],
        metas: Sequence[Meta | None],
        beside: Sequence[Data | None] = (),
    ) -> list[Data | None]:
        with self.lock:
            shipped = self.code(hook)
            sources = [self.source(v) for v in (*values, *beside, *self.captured(shipped))]
            met = leaves_met(self, self.conduct(hook, shipped), shipped.captured) if shipped.captured else None
            unknown = self.entry(Spec(KIND_UNKNOWN))
            outputs: Sequence[SpecEntry] = [
                self.plain_on((v.shape, v.dtype), device_of(v))
                if v is not None
                else self.plain_on(m, _place_in(owner, kind, j))
                if m is not None
                else unknown
                for j, (v, m) in enumerate(zip(values, metas, strict=True))
            ]
            meta: tuple[Any, ...] = (kind, len(values), len(beside), moment())
            if met is not None:
                outputs, meta = met.join(self, sources, outputs, meta)
            made = NodeRecord(self, ROLE_HOOK, "@" + shipped.fingerprint, (), sources, outputs, meta, user_site())
            made.effects = True
            made.near = self.source(getattr(owner, "_context", None))
            self.add_record(made)
            if met is not None:
                met.come_home(self, made)
            results: list[Data | None] = []
            for i, value in enumerate(values):
                if metas[i] is None and value is None:
                    results.append(None)  # no tensor there: nothing can be put in its place
                else:
                    # a tensor hook cannot take a gradient away; a node hook can
                    results.append(made.output(i, *(_definedness((value,)) if kind == "tensor" else (None, False))))
            return results

    def called_here(self, name: str) -> None:
        self.session.hooked[name] = self.session.hooked.get(name, 0) + 1

    def emit(self, name: str, value: Any) -> None:
        try:
            packed, tensors = pickle_around_tensors((name, value))
        except NotShippable as error:
            raise NotShippable(f"rg.emit({name!r}, ...) at {user_site()}: {error}") from error
        with self.lock:
            sources = [Constant(packed), *(self.source(self._on_host(self.leaf(tensor))) for tensor in tensors)]
            made = NodeRecord(self, ROLE_EMIT, "emit", (), sources, (), (), user_site())
            made.effects = True
            self.add_record(made)

    # ---- sync, submission and cells: the session's ------------------------------------------------------------------

    def strides(self, value: Pending) -> tuple[int, ...] | None:
        layout: Layout | None = value.spec.spec.layout
        if value.size <= 1:  # then no stride matters
            layout = tuple(range(value.ndim)), ()
        return None if layout is None else strides_of(value.shape, layout[0], layout[1], value.dtype.itemsize)

    def may_wait(self) -> bool:
        return self.trace is None

    def read(self, value: Pending) -> np.ndarray[Any, Any] | None:
        if self.trace is not None:
            self.trace.refuse_read(value)
        record = value.record
        if type(record) is LeafRecord:
            return record.constant.value
        return self.session.read(cast(NodeRecord, record), value.index)

    @contextmanager
    def during_pass(self, retain: bool) -> Generator[None]:
        before, self.retaining = self.retaining, retain
        try:
            with collector_paused():
                yield
        finally:
            self.retaining = before

    def until_submitted(self) -> AbstractContextManager[None]:
        return collector_paused()

    def submit(self) -> None:
        task = state.here.task
        if task is not None and task.recorder is self:
            return  # an optimiser's step in a hook: the pass submits when it ends, and fails or holds as a whole (H8)
        if self.trace is not None or self.deferred:
            return  # all that a compiled function does is one submission; see `Session.deferred` for the other
        with collector_paused():
            self.session.submit()

    def write(self, cell: Any, attribute: str, value: Any) -> None:
        if attribute == "_data" and type(value) not in (Pending, Stale):
            value = self.leaf(Tensor.made(value))
        self.cells.write(cell, attribute, value)

    def function(self, cls: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        from .functions import apply_function

        return apply_function(self, cls, args, named)

    def function_vjp(self, node: Node, grads: Sequence[Data | None]) -> list[Data | None]:
        from .vjps import vjp_of_eager

        return vjp_of_eager(self, node, grads)


_ONE = (1,)
"""Of an op of one operand, nearly always, which are wanted."""


def _definedness(grads: Sequence[Data | None]) -> tuple[bool | None, bool]:
    """Return whether a result of these gradients is defined (None: only running tells), and is assumed to be."""
    assumed = False
    for grad in grads:
        if grad is not None:
            if type(grad) is not Pending or grad.defined:
                return True, False
            assumed = assumed or grad.assumed
    return None, assumed


def _is_light(record: NodeRecord) -> bool:
    """Tell whether a record is a built-in op on small values, with nothing to it."""
    if record.role != ROLE_OP or record.transforms or record.effects or record.story:
        return False
    entries = list(record.outputs)
    for source in record.sources:
        if isinstance(source, Constant):
            entries.append(source.spec)
        elif source is not None:
            entries.append(source[0].outputs[source[1]])
    return all(entry.bytes <= INLINE_RESULT_BYTES for entry in entries)


def _device_of(op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> Device:
    """Return the device of an op's results: that which its params name, or that of its operands."""
    if op.lands is not None:
        return named(op.lands(params))
    return next((operand.device for operand in operands if type(operand) is Pending and is_placed(operand)), CPU)


def _read_by(node: OpNode, made: Device) -> Device:
    """Return the device of the operands of an op whose results are on one."""
    return named(node.params[1]) if node.op.name == MOVING else made


def _place_in(owner: Node, kind: str, number: int) -> Device:
    """Return the device on which a gradient is that a hook is shown: of an output of a node, or behind it of an
    argument."""
    if kind != "post":
        return owner._device(number)
    if isinstance(owner, OpNode):
        return _read_by(owner, owner._device(0))
    places = owner._input_places if isinstance(owner, FunctionNode) else None
    return CPU if places is None else places[number] or CPU


def _dtype_of(operands: Sequence[Data]) -> Any:
    return next((operand.dtype for operand in operands if type(operand) is Pending), None)


def _hashable(obj: Any) -> bool:
    return type(obj).__hash__ is not None
