"""Arrivals: what the driver reports of a session's runs, and what is learned from it.

Rules of this file: the driver's listener. It enters what came where the session's other parts look for it, calls the
handlers of emits, and raises nothing: errors are `failures`' to raise, at the next sync point (H21).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raygrad.autograd.devices.serving import CPU
from raygrad.errors import GraphError
from raygrad.proto.ir.nodes import ObservedGradients
from raygrad.proto.ir.program import Learned
from raygrad.proto.ir.program import Record as RunRecord
from raygrad.proto.ir.specs import ArraySpec, ContextSpec
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.workers.code.shipping import unpickle_value
from raygrad.workers.executors.driver import LostWorker
from raygrad.workers.interpreter.derivatives import CHANGES, CONDUCT

from ..functions.call_signature import context_of
from ..functions.observed_signature import Learning, outputs_told
from ..functions.observed_signature import shown as shown_by
from ..recording.records import NodeRecord, SpecEntry

if TYPE_CHECKING:
    from ..session.session import Session


class Arrivals:
    """Takes in what becomes of a session's runs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def record(self, called: TimedRecord) -> None:
        """A segment's record has arrived and counts."""
        session = self._session
        record = called.record
        run = session._runs.get(record.run)
        submitted = next((s for s in reversed(session._history) if s.run == record.run), None)
        session._warnings.take(record)
        if run is not None:
            run.take(called)
        if submitted is not None:
            for learned in record.learned:
                self._learned(submitted.learns[learned.index], learned)
            for index, undefined, flows in record.undefined:
                learner = submitted.learns.get(index)
                if learner is not None:
                    learner.learn.undefined = ObservedGradients(undefined, flows)
                    before = session.undefined.get(learner.learn.key)
                    ever = {*undefined} if before is None else {*before.undefined, *undefined}
                    found = ObservedGradients(tuple(sorted(ever)), flows)
                    if before != found:
                        session.undefined[learner.learn.key] = found
                        session._recorder.lessons += 1
        for node, ordinal, name, value in record.emits:
            opened = unpickle_value(value)
            if run is not None:
                run._emits.append((node, ordinal, name, opened))
            for handler in session._handlers.get(name, ()):
                handler(opened)

    def _learned(self, record: NodeRecord, learned: Learned) -> None:
        """A Function that was not known has run (H3); what its `infer` said must hold."""
        session = self._session
        learning: Learning = record.learn
        if learning.fn:
            self._conducted(learning.fn, dict(learned.outputs)[CONDUCT])
            return
        learning.learned = learned
        if learning.inferred is None:
            return
        found = shown_by(session._recorder, learned)
        said = [_told(entry) for entry in learning.inferred.outputs]
        was = [_told(entry) for entry in found.outputs]
        if said == was and learning.inferred.fixed == found.fixed:
            session.known[learning.key] = found
            record.outputs = (context_of(found, _stay(record.outputs[0])), *record.outputs[1:])
        else:
            session._failures.unraised.append(
                GraphError(
                    f"the infer of {session._failures.name(record)} said that its outputs are "
                    f"{outputs_told(learning.inferred)}, but its forward returned {outputs_told(found)}: let infer "
                    "describe each output as (shape, dtype), or leave it out; what a Function returns is then learned "
                    "by running it"
                )
            )

    def _conducted(self, fn: str, conduct: int) -> None:
        """The backward of a Function has run, and read or changed its context or not; later passes will go by that."""
        session = self._session
        if conduct & CHANGES and not session.conduct.get(fn, CHANGES) & CHANGES:
            warnings.warn(
                "a user's backward changed its ctx, and had not in earlier runs: this change is not kept, those of "
                "later passes are",
                UserWarning,
                stacklevel=2,
            )
        if session.conduct.get(fn) != conduct | session.conduct.get(fn, 0):
            session.conduct[fn] = conduct | session.conduct.get(fn, 0)
            session._recorder.lessons += 1

    def fetched(self, run: int, value: int, worker: int, left: Sequence[tuple[str, int]]) -> None:
        """A value was asked for here, and arrays left their devices for it."""
        session = self._session
        found = session._shown.get(run)
        if found is not None:
            found._brought.append((value, worker, left))

    def finished(self, run: int) -> None:
        """Every segment of a run is done."""
        session = self._session
        session._warnings.forget(run)
        if run in session._runs:
            session._runs[run].finished = True
            executor = session._driver.executor
            session.costs.finished(session._runs[run], executor.cluster, executor.host)
        for submitted in session._history:
            if submitted.run == run:
                submitted.finished = True
        while session._history and session._history[0].finished:
            session._runs.pop(session._history.pop(0).run, None)

    def failed(self, run: int, record: RunRecord | None, reason: str, lost: LostWorker | None = None) -> None:
        """A run cannot finish: user code raised, a worker was lost, or it reads from a run that failed."""
        session = self._session
        session._warnings.forget(run)
        session._failures.came(run, record, reason, lost)


def _stay(context: SpecEntry) -> int:
    """Return whether a context stays where it is: see `ContextSpec.stays`."""
    assert isinstance(context.spec, ContextSpec)
    return context.spec.stays


def _told(entry: SpecEntry) -> tuple[Any, ...]:
    """Return what an `infer` says of an output: its shape and dtype, and by its arguments the device."""
    spec = entry.spec
    if not isinstance(spec, ArraySpec):
        return ()
    return (spec.shape, spec.dtype) if entry.device is CPU else (spec.shape, spec.dtype, spec.device)
