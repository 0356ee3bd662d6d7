"""Run: the user's handle of one submission, with its plan, its progress, its report and its emits.

The submitter makes it, the run listener fills it in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from raygrad.scheduler.explain.actual_run import RunFacts, run_facts
from raygrad.scheduler.explain.clock_alignment import ClockOffset
from raygrad.scheduler.explain.device_transfers import fetched_arrays
from raygrad.scheduler.model.measured_costs import MeasuredCosts, TimedRecord
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.tracebacks import public

from ..options import path_of, seconds
from .emitted import Emitted

if TYPE_CHECKING:
    from raygrad.proto.ir.graph import Graph
    from raygrad.proto.ir.nodes import Settings
    from raygrad.proto.ir.program import Record
    from raygrad.report.run_report import RunReport
    from raygrad.scheduler.model.costs import Costs
    from raygrad.scheduler.model.plan import Plan
    from raygrad.scheduler.model.progress import PlanRevision
    from raygrad.workers.executors.session_driver import SessionWorkers

    from ..functions.call_costs import CallCost, ReplayedCallCost
    from ..recording.record_log import RecordLog
    from ..recording.source_locations import Site
    from .waiter import Waiter


class RunLink(NamedTuple):
    """What handles of runs reach of their session."""

    waiter: Waiter
    log: RecordLog
    clocks: dict[str, ClockOffset]
    name_of: Callable[[str], str]
    """Returns the user's name of code that graphs name "@..."."""
    same_clock: bool = False
    """Workers go by the session's own clock: they are in its process."""


class Run:
    """A submitted graph.

    Attributes:
        number: the run's number in its session.
        plan: which worker runs which nodes, in which order, and what crosses between them.
        records: what has come back of its segments.
    """

    def __init__(
        self, link: RunLink, number: int, plan: Plan, graph: Graph, sites: Sequence[Site | None], submitted: float
    ) -> None:
        self._link = link
        self.number = number
        self.plan = plan
        self.nodes = len(graph.nodes)
        self.records: list[Record] = []
        self._graph = graph
        self._sites = sites
        self._submitted = submitted
        """When planning began, on the session's clock, `time.monotonic`."""
        self._answers: list[TimedRecord] = []
        self.revisions: list[PlanRevision] = []
        """Each time that the rest of the run was planned again."""
        self.costs: Costs | None = None
        """The cost model that it was planned by, as it was then."""
        self.finished = False
        self.failed = False
        self.alone = False
        """No other run of the session was under way meanwhile."""
        self.added = range(0)
        """The nodes of the graph that the plan has added, to keep within a memory limit."""
        self.called: Mapping[int, CallCost | ReplayedCallCost] = MappingProxyType({})
        """By node of a user Function, what is known of the time of the call, with its arguments."""
        self.emitted = Emitted()
        self.emit_seconds = 0.0
        """Seconds for which its nodes have waited for the handlers of what they emit."""
        self._brought: list[tuple[int, int, Sequence[tuple[str, int]]]] = []

    def take(self, called: TimedRecord) -> None:
        """Enter the record of a segment."""
        record = called.record
        self.records.append(record)
        self._answers.append(called)
        offset = self._link.clocks.setdefault(record.worker, ClockOffset())
        if record.timing.began and not self._link.same_clock:
            offset.saw(called)

    def settings(self, index: int) -> Settings:
        """Return the settings under which a node was recorded; () of a built-in op."""
        node: Any = self._graph.nodes[index]
        return getattr(node, "settings", ())

    def continue_with(self, plan: Plan, revision: PlanRevision) -> None:
        """Go on with a plan that continues that of the run: its rest was planned again."""
        self.plan = plan
        self.revisions.append(revision)

    def teach_early(self, measured: MeasuredCosts, record: Record) -> None:
        """Tell a cost model what a record of this run shows, which goes on."""
        measured.arrived(self._graph, self.plan, record)

    def teach(self, measured: MeasuredCosts, workers: SessionWorkers) -> None:
        """Tell a cost model what this run, which has ended well, took, if it is one to learn from."""
        if not measured.wants(self.plan):
            return
        called = self.called
        alone = self.alone and not self.revisions

        def values(node: int) -> str:
            return called[node].values() if node in called else ""

        here = workers.host
        measured.take(self._graph, self.plan, self._answers, workers.cluster, here, alone=alone, values=values)

    @property
    def submitted(self) -> float:
        """When planning began, on the session's clock, `time.monotonic`."""
        return self._submitted

    @property
    def seconds(self) -> float | None:
        """Seconds from the first call to a worker to the last record, to be held against
        `plan.predicted_seconds`; None until it has finished. A record that came while nobody waited counts from when
        it was taken in."""
        if not self.finished or not self._answers:
            return None
        return max(answer.came for answer in self._answers) - min(answer.sent for answer in self._answers)

    def done(self) -> bool:
        """Tell whether it has ended, well or not, without blocking.

        Raises:
            SessionError: this process was forked from that of its session.
        """
        if self._link.log.left_to_parent:
            raise self._link.log.closed_error("")
        self._link.waiter.poll()
        return self.finished or self.failed or self._dropped

    @public
    def wait(self, timeout: float | None = None) -> Run:
        """Wait until it has ended.

        Raises:
            TypeError, ValueError: `timeout` is no number of seconds.
            WaitTimeout: `timeout` seconds have passed.
            SessionError: its session was closed before it had ended.
            RunCancelled: it was cancelled.
            The error that ended it, if the session has not raised it before.
        """
        limit = seconds("run.wait(timeout)", timeout, zero=True)
        if self._dropped:
            raise self._link.log.closed_error(
                f"run {self.number} had not ended when its session was closed without waiting (`close(discard=True)`, "
                "or an error that left the `with` block): wait for it before, or run it again in an open session"
            )
        self._link.waiter.wait_until(lambda: self.finished or self.failed, limit)
        cancelled = self._link.waiter.error_of(self.number)
        if cancelled is not None:
            raise cancelled
        return self

    @public
    def cancel(self) -> bool:
        """Cancel it: what of it has not begun never will, what runs is interrupted, and runs that read from it are
        cancelled, too. When this returns, nothing of it runs any more. Reading a value that it was to compute raises
        RunCancelled, parameters and gradients are as before it, and other runs go on. Any thread may call this.

        User code that does not end within a second, because it sleeps or computes outside of Python, is ended with its
        Ray worker, which is replaced: other values that live on that worker alone are lost, and so is what else it
        runs. In process such code runs on, which a RuntimeWarning says.

        Returns:
            Whether it had not ended: cancelling a run that has does nothing.

        Raises:
            SessionError: this process was forked from that of its session.
        """
        if self._link.log.left_to_parent:
            raise self._link.log.closed_error("")
        return not (self.finished or self.failed or self._dropped) and self._link.waiter.cancel(self.number)

    def report(self) -> RunReport:
        """Return what it did beside what was predicted, so far or in full. Does not wait: see `wait`."""
        from raygrad.report.run_report import RunReport
        from raygrad.report.shown import label_graph

        link = self._link
        link.waiter.poll()
        return RunReport(
            number=self.number,
            state=self._state(),
            plan=self.plan,
            run=self._facts(),
            unknown=() if self.costs is None else tuple(PricedGraph(self._graph, self.costs).unknown_nodes),
            graph=label_graph(self._graph, link.name_of, self._sites),
            brought=fetched_arrays(self._graph, self._brought),
            revisions=tuple([one._replace(at=one.at - self._submitted) for one in self.revisions]),
            emit_wait=self.emit_seconds,
        )

    def trace(self, path: str | Path) -> Path:
        """Write what it did as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing, and return the path."""
        from raygrad.report.trace import trace

        path = Path(path_of("run.trace(path)", path))
        report = self.report()
        path.write_text(json.dumps(trace(self.number, self.plan, report.run, report.graph)), encoding="utf-8")
        return path

    def _facts(self) -> RunFacts:
        stopped = self.failed or self._dropped
        return run_facts(self.plan, self._answers, self._link.clocks, self._submitted, stopped=stopped)

    @property
    def _dropped(self) -> bool:
        """Whether the session was closed before it had ended."""
        return self._link.log.closed and not (self.finished or self.failed)

    def _state(self) -> str:
        if self._dropped:
            return "dropped"
        if self.failed and self._link.waiter.error_of(self.number) is not None:
            return "cancelled"
        return "failed" if self.failed else "finished" if self.finished else "running"

    @property
    def emits(self) -> list[tuple[str, Any]]:
        """What `rg.emit` sent from this run, as (name, value), in the engine's order (H20).

        Raises:
            ExecutionError: that was more than a run keeps, and handlers took it.
            DiskFull: no handler took it, and the disk had no room for more.
        """
        return self.emitted.read()

    @property
    def hooks(self) -> dict[int, int]:
        """How many hooks fired in each process, by process id."""
        fired: dict[int, int] = {}
        for record in self.records:
            if record.hooks:
                fired[record.pid] = fired.get(record.pid, 0) + len(record.hooks)
        return fired

    def __repr__(self) -> str:
        return f"<run {self.number}: {self.nodes} nodes in {len(self.plan.segments)} segments, {self._state()}>"
