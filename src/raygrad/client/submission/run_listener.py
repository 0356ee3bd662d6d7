"""Run listener: takes in what the driver reports of a session's runs.

It fills the run table and the observations, calls the handlers of emits, and passes on warnings and failures. It raises
nothing: `failures` raises errors at the next sync point (H21).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raygrad.errors import GraphError
from raygrad.proto.ir.nodes import ObservedGradients
from raygrad.proto.ir.program import FunctionObservation, Record
from raygrad.proto.ir.specs import ContextSpec
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.tracebacks import users_level
from raygrad.workers.interpreter.derivatives import CHANGES, CONDUCT

from ..functions.call_signature import context_of
from ..functions.observed_signature import PendingObservation, outputs_text, signature_of_run
from ..recording.records import NodeRecord, SpecEntry
from .emit_queue import EmitQueue

if TYPE_CHECKING:
    from raygrad.scheduler.model.plan import Plan
    from raygrad.scheduler.model.progress import PlanRevision
    from raygrad.workers.executors.run_state import Lost
    from raygrad.workers.executors.session_driver import SessionWorkers
    from raygrad.workers.values.emit_chunks import HeldChunk

    from ..functions.observations import Observations
    from ..functions.unconfirmed_signature import UnconfirmedSignature
    from ..recording.spec_table import SpecTable
    from ..session.costs import SessionCosts
    from .failures import Failures
    from .remote_warnings import RemoteWarnings
    from .run_table import RunTable


class RunListener:
    """The driver's listener in one session."""

    def __init__(
        self,
        table: RunTable,
        observed: Observations,
        failures: Failures,
        warnings: RemoteWarnings,
        specs: SpecTable,
        costs: SessionCosts,
        workers: SessionWorkers,
    ) -> None:
        self._emits = EmitQueue(failures.unraised)
        self.handlers = self._emits.handlers
        self._table = table
        self._observed = observed
        self._failures = failures
        self._warnings = warnings
        self._specs = specs
        self._costs = costs
        self._workers = workers

    def record(self, called: TimedRecord, finished: bool) -> None:
        """A segment's record has arrived and counts; with `finished` its run is done."""
        record = called.record
        run = self._table.active.get(record.run)
        submitted = self._table.submitted(record.run)
        if record.warned:
            self._warnings.take(record, None if run is None else run.settings)
        if run is not None:
            run.take(called)
            if not finished:
                self._costs.arrived(run, record)
        if submitted is not None:
            for learned in record.observations:
                learner = submitted.learns.get(learned.index)
                if learner is not None and learner.learn.presumes:
                    self._confirm(learner, learned, record)
                elif learner is not None:
                    self._observe(learner, learned)
            for index, undefined, flows in record.undefined:
                learner = submitted.learns.get(index)
                if learner is not None:
                    learner.learn.undefined = ObservedGradients(undefined, flows)
                    before = self._observed.gradients.get(learner.learn.key)
                    ever = {*undefined} if before is None else {*before.undefined, *undefined}
                    found = ObservedGradients(tuple(sorted(ever)), flows)
                    if before != found:
                        self._observed.gradients[learner.learn.key] = found
                        self._observed.generation += 1
        if record.emits:
            self._emits.add(run, record.emits)
        if self._emits.waiting:
            self._emits.deliver()
        if finished:
            self.finished(record.run)

    def _observe(self, record: NodeRecord, learned: FunctionObservation) -> None:
        """Take in the first run of a Function (H3); what its `infer` said must hold."""
        learning: PendingObservation = record.learn
        if learning.fn:
            self._observe_backward(learning.fn, dict(learned.outputs)[CONDUCT])
            return
        learning.learned = learned
        if learning.declared is None:
            return
        found = signature_of_run(self._specs, learned)
        if learning.declared.declares(found):
            self._observed.enter(learning.key, found, learning.general, learning.numbers)
            record.outputs = (context_of(found, _stay(record.outputs[0])), *record.outputs[1:])
        else:
            self._failures.unraised.append(
                GraphError(
                    f"the infer of {self._failures.name(record)} said that its outputs are "
                    f"{outputs_text(learning.declared)}, but its forward returned {outputs_text(found)}: let infer "
                    "describe each output as (shape, dtype), or leave it out; what a Function returns is then learned "
                    "by running it"
                )
            )

    def _confirm(self, record: NodeRecord, learned: FunctionObservation, run: Record) -> None:
        """Take in the run of a call whose signature was presumed (H3); the error of one that has failed is raised with
        that failure."""
        presumed: UnconfirmedSignature = record.learn
        failed = run.failure is not None
        if not presumed.confirm(record, signature_of_run(self._specs, learned), failed=failed) and not failed:
            assert presumed.wrong is not None
            presumed.wrong.add_note(f"raygrad: raised for {self._failures.name(record)} of run {run.run}")
            self._failures.fail(run.run, presumed.wrong, self._failures.name(record))
            self._failures.unraised.append(presumed.wrong)

    def _observe_backward(self, fn: str, effects: int) -> None:
        """Take in the effects of a Function's backward on its context; later passes go by them."""
        known = self._observed.backward_effects
        if effects & CHANGES and not known.get(fn, CHANGES) & CHANGES:
            warnings.warn(
                "a user's backward changed its ctx, and had not in earlier runs: this change is not kept, those of "
                "later passes are",
                UserWarning,
                stacklevel=2,
            )
        if known.get(fn) != effects | known.get(fn, 0):
            known[fn] = effects | known.get(fn, 0)
            self._observed.generation += 1

    @property
    def handling(self) -> int:
        """The thread that is in a handler of emits, 0 for none."""
        return self._emits.thread

    def emitted(self, held: HeldChunk) -> None:
        """A segment that goes on has emitted much; its record comes later."""
        self._emits.add(self._table.active.get(held.run), held)
        self._emits.deliver()

    def fetched(self, run: int, value: int, worker: int, left: Sequence[tuple[str, int]]) -> None:
        """A value was requested by the client, and arrays left their devices for it."""
        found = self._table.visible(run)
        if found is not None:
            found._brought.append((value, worker, left))

    def finished(self, run: int) -> None:
        """Every segment of a run is done."""
        self._warnings.forget(run)
        if self._emits.waiting:  # an interrupt has left some
            self._emits.deliver()
        found = self._table.active.get(run)
        if found is not None:
            found.finished = True
            self._costs.finished(found, self._workers)
        self._table.finish(run)

    def replanned(self, run: int, plan: Plan, revision: PlanRevision) -> None:
        """The rest of a run was planned again while it runs."""
        found = self._table.active.get(run)
        if found is not None:
            found.continue_with(plan, revision)

    def still_running(self, run: int, segment: int) -> None:
        """What was cancelled runs on in a thread of this process, which cannot be ended."""
        warnings.warn(
            f"run {run} was cancelled, and {self._failures.segment_name(run, segment) or 'a node of it'} still runs in "
            "this process: Python interrupts no thread in the middle of a call of C (a sleep, a solver). It ends with "
            "that call, its worker takes no other work before, and its result is dropped. Workers on Ray are replaced "
            'instead: Session("ray")',
            RuntimeWarning,
            stacklevel=users_level(),
        )

    def failed(self, run: int, record: Record | None, reason: str, lost: Lost | None = None) -> None:
        """A run cannot finish: user code raised, a worker was lost, or it reads from a run that failed."""
        self._warnings.forget(run)
        self._failures.report(run, record, reason, lost)


def _stay(context: SpecEntry) -> int:
    """Return whether a context stays where it is: see `ContextSpec.stays`."""
    assert isinstance(context.spec, ContextSpec)
    return context.spec.stays
