"""Record log: what a session has recorded and not submitted yet, with the state that all its recorders share.

The lowest collaborator of a session. Recorders of operators, hooks and Functions append to it, a submission takes its
records, and a failure drops those that can no longer run.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from raygrad.errors import DroppedError, SessionError
from raygrad.proto.ir.nodes import OpCall
from raygrad.proto.ir.program import INLINE_RESULT_BYTES
from raygrad.workers.process.forked_locks import renew_after_fork

from .records import Constant, NodeRecord, SpecEntry
from .shared_memory import SharedMemory
from .spec_table import SpecTable
from .variables import VariableLog

if TYPE_CHECKING:
    from raygrad.autograd.core.recorder import Recorder

    from ..compile.tracing import Trace
    from .deferred_operations import DeferredOperation

MAX_DEFERRED_RECORDS: Final = 32
"""Records that may stay unsubmitted while compiled functions are replayed."""


class RecordLog:
    """The records of one session that are not submitted yet, in program order.

    Its lists and tables stay the same objects for the session's life, so that fast paths can bind them once.
    """

    recorder: Recorder
    """The recorder that pending values name, as autograd sees it: set once, by that recorder."""

    def __init__(self, *, stores_residuals: bool) -> None:
        self.residual_bit = int(stores_residuals)
        """1 if residuals of backward nodes go to the object store, 0 if they stay on their worker."""
        self.lock = threading.RLock()
        self.records: list[NodeRecord] = []
        self.variables = VariableLog()
        self.shared = SharedMemory()
        """The arrays of the program whose tensors were changed in place."""
        self.specs = SpecTable()
        self.order_kinds: dict[SpecEntry, int] = {}
        """By the spec of what they pass on, the kinds of control dependencies for program order."""
        self.kinds = itertools.count(1)
        """See `NodeRecord.kind`."""
        self.dropped: deque[tuple[int, int]] = deque()
        """Submitted values (run, value id) that lost their last holder."""
        self.operations: weakref.WeakSet[DeferredOperation] = weakref.WeakSet()
        """Operations that are recorded once the shapes of their operands are known."""
        self.calls: weakref.WeakSet[NodeRecord] = weakref.WeakSet()
        """Deferred calls whose runs have not shown what they return."""
        self.pin = -1
        """The worker that `rg.place` asks for, or -1."""
        self.deferred = False
        """Whether passes and steps are recorded without being submitted; see `Session.deferred`."""
        self.trace: Trace | None = None
        """The observer of a function that is being compiled."""
        self.closed = False
        self.left_to_parent = False
        """Whether this process was forked from the session's."""
        self._why_closed = ""

    def close(self, why: str = "") -> None:
        """Record no more; `why` is what to tell users instead of that the session is closed."""
        self.closed = self.recorder.closed = True
        self._why_closed = why
        self.records.clear()
        self.variables.clear()

    def closed_error(self, text: str) -> SessionError:
        """Return the error for a use after the end, which `text` describes for a session that was closed."""
        return SessionError(self._why_closed or text)

    def leave_to_parent(self, why: str) -> None:
        """End it in a process that was forked from the session's: see `client.session.forked`."""
        renew_after_fork(self.lock)
        self.left_to_parent = True
        self.close(why)

    @contextmanager
    def unlocked(self) -> Generator[None]:
        """Let other threads have the lock meanwhile, however often this thread holds it, in a context manager: around
        waits in a session whose workers run user code on threads of this process, which may use the session."""
        depth = 0
        with suppress(RuntimeError):  # not held any more
            while True:
                self.lock.release()
                depth += 1
        try:
            yield
        finally:
            for _ in range(depth):
                self.lock.acquire()

    def add(self, record: NodeRecord) -> None:
        """Append a record.

        Raises:
            SessionError: the session is closed.
        """
        if self.closed:
            raise self.closed_error(
                "this session is closed; open a new one, or leave its block (after start(): close() it here, too)"
            )
        record.pin = self.pin
        self.records.append(record)

    def reads(self, made: NodeRecord) -> bool:
        """Tell whether a record that is not submitted yet reads an output of another one."""
        sources = [source for record in self.records for source in (*record.sources, record.near)]
        return any(isinstance(source, tuple) and source[0] is made for source in sources)

    def await_calls(self) -> None:
        """Wait for what deferred calls return: memory is about to be changed that outputs may prove to share. The error
        of a run that failed is raised once; whoever reads what it dropped is told then."""
        with self.lock:
            calls = list(self.calls)
        for call in calls:  # which stays in the set meanwhile: another thread has to wait, too
            with suppress(DroppedError):
                call.await_facts(reading=False)
            self.calls.discard(call)

    def can_wait(self) -> bool:
        """Tell whether the records may be submitted after replays of compiled functions: they are few and small, and
        only compute values that no variable holds. What a training loop does with losses is so."""
        if len(self.records) > MAX_DEFERRED_RECORDS or self.variables.pending() or self.deferred:
            return False
        return all(_is_light(record) for record in self.records)

    def record_again(self, records: Iterable[NodeRecord]) -> None:
        """Record submitted device transfers of the client's arrays anew: tensors that it made must not die with the run
        that moved them."""
        again: list[NodeRecord] = []
        for record in records:
            assert record.leaf is not None
            record.run = record.base = record.needed = -1
            record.sources = (record.leaf,)
            record.values = None
            again.append(record)
        self.records[:0] = again

    def drop_dependants(self, failed: set[int]) -> None:
        """Drop the records that read, directly or not, from runs that failed: they can never run."""
        kept: list[NodeRecord] = []
        for record in self.records:
            for source in (*record.sources, record.near):
                if isinstance(source, tuple) and (source[0].failed or source[0].run in failed):
                    record.failed = True
                    record.run = source[0].run  # by which errors say why
                    record.sources = ()
                    record.near = None
                    break
            else:
                kept.append(record)
        self.records[:] = kept


def _is_light(record: NodeRecord) -> bool:
    """Tell whether a record is a built-in op on small values, without effects."""
    if not isinstance(record.work, OpCall) or record.effects or record.story:
        return False
    entries = list(record.outputs)
    for source in record.sources:
        if isinstance(source, Constant):
            entries.append(source.spec)
        elif source is not None:
            entries.append(source[0].outputs[source[1]])
    return all(entry.bytes <= INLINE_RESULT_BYTES for entry in entries)
