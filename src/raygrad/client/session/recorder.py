"""Recording: what autograd tells a session becomes records, and a submission point turns them into a graph.

Rules of this file: the session's implementation of `Recorder`: what is recorded and not submitted yet, and what its
parts share. Its parts are functions of it in files of their own: `sources` (what records read), `operations` (built-in
ops), `repeats` (those again), `hooking`, `codes` (user code), `functions` and `vjps` (user Functions). The building of
graphs is in `submission`, versions of cells in `cells`. Nothing here runs user code.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Data, Pending, Recorder
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import CPU
from raygrad.autograd.nodes.node import Node
from raygrad.autograd.registry.vjp_rules import Meta
from raygrad.autograd.storage.views import StaleData
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import SessionError
from raygrad.proto.ir.array_layout import Layout, strides_of
from raygrad.proto.ir.nodes import OpCall
from raygrad.proto.ir.program import INLINE_RESULT_BYTES
from raygrad.proto.ir.specs import Spec
from raygrad.workers.code.shipping import Shipped

from ..functions.functions import apply_function
from ..functions.hooks import record_emit, record_hook
from ..functions.resource_requests import Asked
from ..functions.user_code import captured_by, code_of, conduct_of
from ..functions.vjps import vjp_of_eager
from ..recording.garbage_collection import collector_paused
from ..recording.operations import (
    record_after,
    record_op,
    record_op_vjp,
    record_refusal_of_nan,
    record_required,
    record_sum,
)
from ..recording.record_fast_path import op_again, vjp_again
from ..recording.record_inputs import constant_array_of, constant_of, leaf_of, source_of
from ..recording.records import Constant, LeafRecord, NodeRecord, SpecEntry, Template, spec_of_array
from ..recording.snapshot_cache import Copies
from ..recording.variables import CellLog

if TYPE_CHECKING:
    from ..compile.tracing import Trace
    from .session import Session

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
        """Whether the pass that records keeps what was saved."""
        self.deferred = False
        """Passes and steps are recorded only: see `Session.deferred`."""
        self.lessons = 0
        """Moves whenever something is learned of the backward of user Functions."""
        self.trace: Trace | None = None
        """What sees a function that is being compiled."""
        self.applications: dict[Any, Any] = {}
        """By key, what applications of a user Function share; see `functions`."""
        self._specs: dict[Spec, SpecEntry] = {}
        self._plain: dict[Meta, SpecEntry] = {}
        self._of_arrays: dict[Any, SpecEntry] = {}
        """By shape, dtype and strides of arrays."""
        self._memo: dict[Any, Template] = {}
        self._copies = Copies(partial(constant_of, self))
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

    def plain_on(self, meta: Meta, device: Device) -> SpecEntry:
        """Return the same of an array of a device."""
        if device is CPU:
            return self.plain(meta)
        return self.entry(spec_of_array(tuple(meta[0]), np.dtype(meta[1]).name, None, str(device)))

    def place(self, device: Device) -> Device:
        return self.session.place(device)

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

    def forget_code(self) -> None:
        """Take fingerprints anew from here on: a submission has been made."""
        self._shipped.clear()

    # ---- what is recorded, each in a file of its own ----------------------------------------------------------------

    leaf = leaf_of
    source = source_of
    constant_array = constant_array_of

    op = record_op
    op_vjp = record_op_vjp
    repeat_op = op_again
    repeat_op_vjp = vjp_again
    add = record_sum
    with_dependencies = record_after
    require = record_required
    refuse_nan = record_refusal_of_nan

    code = code_of
    conduct = conduct_of
    captured = captured_by

    hook = record_hook
    emit = record_emit

    def function(self, cls: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return apply_function(self, cls, args, named)

    def function_vjp(self, node: Node, grads: Sequence[Data | None]) -> list[Data | None]:
        return vjp_of_eager(self, node, grads)

    # ---- what is known of it ----------------------------------------------------------------------------------------

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

    def check_hook(self, kind: str, hook: Any) -> Any:
        self.code(hook)
        return hook

    def called_here(self, name: str) -> None:
        self.session.hooked[name] = self.session.hooked.get(name, 0) + 1

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

    def write(self, variable: Any, attribute: str, value: Any) -> None:
        if attribute == "_data" and type(value) not in (Pending, StaleData):
            value = self.leaf(Tensor.made(value))
        self.cells.write(variable, attribute, value)


def _is_light(record: NodeRecord) -> bool:
    """Tell whether a record is a built-in op on small values, with nothing to it."""
    if not isinstance(record.work, OpCall) or record.effects or record.story:
        return False
    entries = list(record.outputs)
    for source in record.sources:
        if isinstance(source, Constant):
            entries.append(source.spec)
        elif source is not None:
            entries.append(source[0].outputs[source[1]])
    return all(entry.bytes <= INLINE_RESULT_BYTES for entry in entries)
