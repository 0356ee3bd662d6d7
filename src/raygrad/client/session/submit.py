"""Submitter: submits what a session has recorded, or a replay of a compiled function, as a run.

Graphs are built by `submission`, planned and run by the driver. An error before the run is under way is raised here,
and rolls back the variables that were written for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from raygrad.errors import DroppedError, RaygradError, RunCancelled
from raygrad.workers.executors.calls import GraphSubmission, KeptExternal

from ..recording.records import NodeRecord
from ..recording.source_locations import Site
from ..submission.backpressure import SubmissionLimit
from ..submission.node_names import call_nodes
from ..submission.program_order import in_program_order
from ..submission.run import Run, RunLink
from ..submission.submission import Submitted, needed_records

if TYPE_CHECKING:
    from raygrad.workers.executors.session_driver import SessionDriver

    from ..functions.call_costs import CallCost, ReplayedCallCost
    from ..functions.user_code import UserCode
    from ..recording.garbage_collection import GarbageCollectorTuning
    from ..recording.held_records import HeldRecords
    from ..submission.failures import Failures
    from ..submission.graph_cache import GraphCache
    from ..submission.run_table import RunTable
    from .costs import SessionCosts


class Submitter:
    """Submits for one session."""

    def __init__(
        self,
        link: RunLink,
        code: UserCode,
        table: RunTable,
        held: HeldRecords,
        failures: Failures,
        graphs: GraphCache,
        costs: SessionCosts,
        driver: SessionDriver,
        collector: GarbageCollectorTuning,
        *,
        sync: bool,
    ) -> None:
        self.sync = sync
        """Whether each submission is waited for."""
        self.preview: Callable[[GraphSubmission, Sequence[Site | None]], None] | None = None
        """Called with each submission before it is planned, but those that only learn the outputs of a Function; it may
        raise, and nothing is submitted then."""
        self._link = link
        self._log = link.log
        self._waiter = link.waiter
        self._code = code
        self._table = table
        self._held = held
        self._failures = failures
        self._graphs = graphs
        self._costs = costs
        self._driver = driver
        self._collector = collector
        self._limit = SubmissionLimit(table, link.waiter)
        self._released: list[tuple[int, int]] = []
        """Values dropped before the next run was numbered: that run does not read them."""

    def submit(self, *, open_ended: bool = False) -> None:
        """Submit the records that are needed; `open_ended`: the last one is waited for to learn its outputs."""
        log = self._log
        with log.lock:
            if log.trace is not None:
                log.trace.interrupt("something had to be learned by running it")
            number = self.next_run()
            records = in_program_order(log, needed_records(log.records, number), self._code.ordered)
            log.records.clear()
            self._code.forget()
            if not records:
                self.release_dropped()
                self._waiter.poll()
                return
            hints = self._code.call_costs.hints(records)
            submission = self._graphs.submission(
                number, records, self._code.requests, hints=hints, open_ended=open_ended
            )
            learns: dict[int, NodeRecord] = {}
            stories: dict[int, str] = {}
            called: dict[int, CallCost] = {}
            for index, record in enumerate(records):
                record.run = number
                record.sources = ()
                record.near = None
                if record.live:
                    self._held.hold(record)
                if record.learn is not None:
                    learns[index] = record
                if record.story:
                    stories[index] = record.story
                if record.call_cost is not None:
                    called[index] = record.call_cost
            self.send(submission, [record.site for record in records], learns, stories, called)
            if self.sync and not open_ended:
                self._waiter.wait_for_everything()

    def send(
        self,
        submission: GraphSubmission,
        sites: list[Site | None],
        learns: dict[int, NodeRecord],
        stories: dict[int, str],
        called: Mapping[int, CallCost | ReplayedCallCost],
    ) -> None:
        """Send a submission, with the writes to variables since the last one.

        Args:
            submission: the graph and its external values, numbered by `next_run`.
            sites: the user's line of each node.
            learns: by node, the records that learn from the run.
            stories: by node, where its forward was recorded, under anomaly detection.
            called: by node of a user Function, what is known of the time of the call, with its arguments.

        Raises:
            DroppedError: it reads a value of a run that failed.
            RaygradError: it cannot be planned.
        """
        number = submission.run
        table, failures = self._table, self._failures
        depends = {external.run for external in submission.externals if isinstance(external, KeptExternal)}
        submitted = Submitted(number, sites, learns, self._log.variables.take(), depends)
        submitted.stories = stories
        submitted.nbytes = self._limit.given(submission.externals)
        alone = not table.history
        table.history.append(submitted)
        failed = failures.runs
        lost = sorted(depends & failed.keys())
        if lost:
            error = DroppedError(f"what was recorded reads a value that was dropped: {failed[lost[0]]}")
            failures.fail(number, error)
            raise error
        if self.preview is not None and not submission.graph.open_ended:
            try:
                self.preview(submission, sites)
            except BaseException:
                failures.fail(number, RunCancelled(f"run {number} was previewed, and not submitted"))
                raise
        started = time.monotonic()
        try:
            with self._costs.lock:
                self._costs.learn()
                released, self._released = self._released, []
                planned = self._driver.submit(submission, released)
        except RaygradError as error:
            call_nodes(error, submission.graph, sites, self._link.name_of)
            failures.fail(number, error)
            raise
        except KeyboardInterrupt:  # while it was planned
            self._driver.cancel((number,))
            failures.fail(number, RunCancelled(f"run {number} was cancelled"))
            raise
        added = len(planned.graph.nodes) - len(submission.graph.nodes)
        first = len(submission.graph.nodes) - submission.graph.open_ended
        if added:
            submitted.sites = sites = [*sites[:first], *[None] * added, *sites[first:]]
        if added and submission.graph.open_ended:  # the node that is to be learned of has remained the last
            learns[first + added] = record = learns.pop(first)
            record.base = planned.graph.values - 1
            if first in stories:
                stories[first + added] = stories.pop(first)
            if first in called:
                called = {**called, first + added: called[first]}
        run = Run(self._link, number, planned.plan, planned.graph, sites, started)
        run.added = range(first, first + added)
        run.alone = alone
        run.called = called
        run.costs = self._costs.latest
        table.enter(run)

    def next_run(self) -> int:
        """Process what has arrived, raise what went wrong, and return the number of the next run, which is submitted
        next if there is anything to run."""
        self._take_dropped()  # of what is dropped from here on, the run may read some
        self._collector.collect_if_due()
        if self._table.history or self._driver.reports_unasked:
            self._driver.poll(submits=True)
        self._limit.wait()
        self._waiter.raise_errors()
        return next(self._table.numbers)

    def release_dropped(self) -> None:
        """Tell the driver which values have lost their last holder."""
        self._take_dropped()
        released, self._released = self._released, []
        if released:
            self._driver.drop(released)

    def _take_dropped(self) -> None:
        dropped = self._log.dropped
        while dropped:
            self._released.append(dropped.popleft())
