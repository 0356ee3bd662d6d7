"""Sending off: what a session has recorded and needs becomes a run.

Rules of this file: the methods of `Session` that submit; graphs are built in `graphs` and `submission`, planned and run
by the driver. What fails before it is under way fails here, and the cells that were written for it with it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from raygrad.errors import DroppedError, RaygradError
from raygrad.workers.executors.calls import GraphSubmission, KeptExternal

from ..recording.records import NodeRecord
from ..recording.source_locations import Site
from ..submission.node_names import call_nodes
from ..submission.run import Run
from ..submission.submission import Submitted, needed_records

if TYPE_CHECKING:
    from .session import Session


def submit_recorded(self: Session, *, open_ended: bool = False) -> None:
    """Send off what is recorded and needed."""
    recorder = self._recorder
    with recorder.lock:
        if recorder.trace is not None:
            recorder.trace.interrupt("something had to be learned by running it")
        number = self.settle()
        records = needed_records(recorder.records, number)
        recorder.records.clear()
        recorder.forget_code()
        if not records:
            self.poll()
            return
        submission = self._graphs.submission(number, records, recorder.demands, open_ended=open_ended)
        learns: dict[int, NodeRecord] = {}
        stories: dict[int, str] = {}
        for index, record in enumerate(records):
            record.run = number
            record.sources = ()
            record.near = None
            if record.live:
                self.hold(record)
            if record.learn is not None:
                learns[index] = record
            if record.story:
                stories[index] = record.story
        self.send(submission, [record.site for record in records], learns, stories)
        if self.sync and not open_ended:
            self.wait_for_everything()


def send_off(
    self: Session,
    submission: GraphSubmission,
    sites: list[Site | None],
    learns: dict[int, NodeRecord],
    stories: dict[int, str],
) -> None:
    """Send off a submission, with the writes to cells that were made for it."""
    number = submission.run
    depends = {external.run for external in submission.externals if isinstance(external, KeptExternal)}
    submitted = Submitted(number, sites, learns, self._recorder.cells.take(), depends)
    submitted.stories = stories
    alone = not self._history
    self._history.append(submitted)
    failed = self._failures.runs
    lost = sorted(depends & failed.keys())
    if lost:
        error = DroppedError(f"what was recorded reads a value that was dropped: {failed[lost[0]]}")
        self._failures.fail(number, error)
        raise error
    started = time.monotonic()
    try:
        with self.costs.lock:
            self.costs.learn()
            planned = self._driver.submit(submission)
    except RaygradError as error:
        call_nodes(error, submission.graph, sites, self._driver.executor.name_of)
        self._failures.fail(number, error)
        raise
    added = len(planned.graph.nodes) - len(submission.graph.nodes)
    if added and submission.graph.open_ended:  # the node that is to be learned of has remained the last
        last = len(submission.graph.nodes) - 1
        learns[last + added] = record = learns.pop(last)
        record.base = planned.graph.values - 1
        sites[-1:] = [*[None] * added, sites[-1]]
        if last in stories:
            stories[last + added] = stories.pop(last)
    if self.last_run is not None:
        self.last_run.alone &= self.last_run.finished
    self.last_run = self._runs[number] = Run(self, number, planned.plan, planned.graph, sites, started)
    self._shown[number] = self.last_run
    self.last_run.alone = alone
