"""Failures: what a failed run takes along, and the exception that its user sees, with notes on where (H8, H21).

The run listener reports failures, the next sync point raises them. Dependent runs are dropped here, and `rollback`
sets variables back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from raygrad.autograd.nodes.anomaly import warn_of_origin
from raygrad.errors import DeadlineExceeded, DroppedError, ExecutionError, RunCancelled, WorkerLost
from raygrad.proto.ir.program import INTERRUPTED, Failure, Record
from raygrad.tracebacks import add_note, users_text
from raygrad.workers.code.shipping import message_of, unpack_exception
from raygrad.workers.executors.deadlines import Expired
from raygrad.workers.executors.disagreement import Disagreement
from raygrad.workers.executors.run_state import MOST_DEATHS

from .node_names import added_name, node_name, segment_name
from .rollback import roll_back
from .submission import unsubmitted_dependencies

if TYPE_CHECKING:
    from raygrad.workers.executors.run_state import Lost

    from ..recording.held_records import HeldRecords
    from ..recording.record_log import RecordLog
    from ..recording.records import NodeRecord
    from .run_table import RunTable


class Failures:
    """The failures of one session."""

    def __init__(
        self,
        log: RecordLog,
        held: HeldRecords,
        table: RunTable,
        name_of: Callable[[str], str],
    ) -> None:
        """`name_of` returns the user's name of code that graphs name "@..."."""
        self.runs: dict[int, str] = {}
        """By its number, why a run was dropped."""
        self.unraised: list[BaseException] = []
        """What the next sync or submission point raises, one each."""
        self.cancelled: set[int] = set()
        """The runs among `runs` that were cancelled, or read from such."""
        self._log = log
        self._held = held
        self._table = table
        self._name_of = name_of

    def raise_next(self) -> None:
        """Raise the oldest error that was not raised, if there is one."""
        if self.unraised:
            raise self.unraised.pop(0)

    def name(self, record: NodeRecord) -> str:
        """Return what errors call a recorded node."""
        return node_name(record.work, record.site, self._name_of)

    def dropped(self, record: NodeRecord) -> DroppedError:
        """Return the error for a read of a dropped value."""
        why = self.runs.get(record.run, "its run failed")
        if record.run in self.cancelled:
            return RunCancelled(f"this value, made by {self.name(record)}, was not computed: {why}; apply it again")
        return DroppedError(f"this value, made by {self.name(record)}, was dropped: {why}; compute it again")

    def report(self, run: int, record: Record | None, reason: str, lost: Lost | None) -> None:
        """Note that a run cannot finish, see `Listener.failed`; the next sync point raises its error."""
        if run in self.runs:
            return
        where = ""
        if record is not None and record.failure is not None:
            where = self._where(run, record)
            error = self._rebuilt(run, record, where)
        elif reason.startswith("dependency"):
            return
        elif reason == "cancelled":
            self.fail(run, RunCancelled(f"run {run} was cancelled"))
            return  # the user knows
        elif isinstance(lost, Expired):
            where = self._expired_name(run, lost)
            error = _deadline_error(run, lost, where)
        elif isinstance(lost, Disagreement):
            where = self._node_name(lost.run, lost.node) if lost.run in self._table.active else ""
            error = lost.error(where)
        elif lost is None:
            error = ExecutionError(f"run {run} was given up: {reason}")
        else:
            there = self.segment_name(run, lost.segments[0]) if lost.segments else ""
            if lost.killer >= 0:
                killer, there = self._node_name(run, lost.killer), ""
                reason += f"; {MOST_DEATHS} workers have died while they ran {killer}, which is not tried again"
            left = "worker that is left" if lost.left == 1 else f"{lost.left} workers that are left"
            remedy = f"the session goes on with the {left}" if lost.left else "open a new session to go on"
            error = WorkerLost(
                f"run {run} was lost: {reason}{f', which had been given {there}' if there else ''}; its values are "
                f"dropped, {remedy}",
                lost.worker,
            )
        self.fail(run, error, where)
        if record is None or record.failure is None or record.failure.index != INTERRUPTED:
            self.unraised.append(error)  # the user who interrupted it knows

    def fail(self, run: int, error: BaseException, where: str = "") -> None:
        """Drop a run and all that read from it, and roll back every variable (H8)."""
        tainted = {run}
        for submitted in self._table.history:
            if submitted.depends & tainted:
                tainted.add(submitted.run)
        dropped = sorted(tainted)
        why = message_of(error)
        for submitted in self._table.history:
            if submitted.run in tainted:
                submitted.error = error
                if submitted.run in self._table.active:
                    self._table.active[submitted.run].failed = True
        if isinstance(error, RunCancelled):
            self.cancelled.update(dropped)
        else:
            why = f"run {run} failed with {type(error).__name__}: {why}{f', raised by {where}' if where else ''}"
        for number in dropped:
            self.runs[number] = why

        def depends(value: Any) -> bool:
            return unsubmitted_dependencies(value, lambda record: record.failed or record.run in tainted)

        self._log.record_again(self._held.take_leaves(tainted))
        self._log.drop_dependants(tainted)
        variables = self._log.variables
        pending = variables.take()
        roll_back([*((s.writes, s.run in tainted) for s in self._table.history), (pending, False)], depends)
        for write in pending:
            if not depends(write.new):
                variables.keep(write)
        self._table.history[:] = [s for s in self._table.history if s.run not in tainted]
        _note_before_trace(
            error,
            f"raygrad: dropped with it: {', '.join(f'run {n}' for n in dropped)}; parameters, gradients and optimiser "
            "state are as after the newest run that does not depend on it",
        )

    def of_run(self, run: int) -> RunCancelled | None:
        """Return the error for waiting for a run that was cancelled; None if it was not."""
        return RunCancelled(self.runs[run]) if run in self.cancelled else None

    def segment_name(self, run: int, segment: int) -> str:
        """Return what errors call a segment of a run; "" if nothing is known of it."""
        known = self._table.active.get(run)
        if known is None or not 0 <= segment < len(known.plan.segments):
            return ""
        return segment_name(known._graph, known.plan.segments[segment].nodes, known._sites, self._name_of)

    def _node_name(self, run: int, node: int) -> str:
        """Return what errors call a node of a run that is under way, with its line."""
        known = self._table.active.get(run)
        if known is None:
            return f"node {node} of run {run}"
        if node in known.added:
            return added_name(known._graph, node, known.added, known._sites, self._name_of)
        return node_name(known._graph.nodes[node], known._sites[node], self._name_of)

    def _expired_name(self, run: int, expired: Expired) -> str:
        """Return what to call what has passed its deadline: a node and its line, or the nodes of the segment or run."""
        known = self._table.active.get(run)
        if known is None:
            return f"run {run}"
        if expired.node >= 0:
            return self._node_name(run, expired.node)
        if expired.segment >= 0:
            return self.segment_name(run, expired.segment)
        return segment_name(known._graph, range(len(known._graph.nodes)), known._sites, self._name_of)

    def _where(self, run: int, record: Record) -> str:
        """Return what raised: a node and its line, or the nodes around which something raised."""
        failure, known = cast(Failure, record.failure), self._table.active.get(run)
        if failure.index < 0 or known is None:
            return self.segment_name(run, record.segment)
        return self._node_name(run, failure.index)

    def _rebuilt(self, run: int, record: Record, where: str) -> BaseException:
        """Return the user's exception as it was raised, with notes that say where (DR-09)."""
        failure = cast(Failure, record.failure)
        error = unpack_exception(failure.exception)
        site, known = None, self._table.active.get(run)
        for submitted in self._table.history:
            if submitted.run == run and 0 <= failure.index < len(submitted.sites):
                site = submitted.sites[failure.index]
                learner = submitted.learns.get(failure.index)
                if learner is not None and learner.learn.presumes:
                    error = learner.learn.explained(error)
                if failure.index in submitted.stories:
                    warn_of_origin(submitted.stories[failure.index], error)
        if failure.index < 0:
            add_note(error, f"raygrad: raised on {record.worker} around the run of {where or f'run {run}'}")
        elif known is not None and failure.index in known.added:
            add_note(
                error,
                f"raygrad: raised by {where}, on {record.worker}, inputs {', '.join(failure.shapes)}; the plan of run "
                f"{run} added it to keep within a memory limit",
            )
        else:
            add_note(
                error,
                f"raygrad: raised by node {failure.index} '{failure.node}' of run {run} on {record.worker}, "
                f"inputs {', '.join(failure.shapes) or 'none'}, recorded at {site or 'an unknown line'}",
            )
        add_note(error, _TRACE + users_text(failure.traceback, error).rstrip())
        return error


def _deadline_error(run: int, expired: Expired, where: str) -> DeadlineExceeded:
    """Return the error for what has passed its deadline."""
    option = f"{expired.scope}_timeout"
    what = {"node": where, "segment": f"the segment of run {run} with {where}", "run": f"run {run} with {where}"}
    since = " since it was submitted" if expired.scope == "run" else f" on {expired.worker}"
    return DeadlineExceeded(
        f"{what[expired.scope]} was running for {expired.seconds:.3g} s{since}, and the session has "
        f"{option}={expired.limit:g}: run {run} was stopped. Give it more with Session({option}=...), or less to do at "
        "once",
        expired.scope,
        where,
        expired.seconds,
        expired.limit,
        expired.worker,
    )


_TRACE: Final = "traceback on the worker:\n"
"""How the last note of an error begins."""


def _note_before_trace(error: BaseException, note: str) -> None:
    """Add a note before that with the worker's traceback, so that what is printed ends with the error itself."""
    add_note(error, note)
    notes: list[str] = object.__getattribute__(error, "__dict__")["__notes__"]
    if len(notes) > 1 and notes[-2].startswith(_TRACE):
        notes[-2:] = notes[:-3:-1]
