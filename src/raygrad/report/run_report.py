"""The report of a run beside its plan, in four forms: what `run.report()` returns.

It chooses the lines and tables; the facts are those of `scheduler.explain.actual_run`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from raygrad.scheduler.explain.actual_run import RunFacts, SegmentRun
from raygrad.scheduler.explain.device_transfers import FetchedArray
from raygrad.scheduler.model.plan import Plan
from raygrad.scheduler.model.progress import PlanRevision

from . import figures
from .explanation import named_functions, transfer_table
from .forms import Report
from .shown import LabelledGraph, as_plain_data
from .table_rendering import Table

if TYPE_CHECKING:
    from .picture import Picture

LONGEST_NODES: Final = 12
"""Nodes in the table of the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(Report):
    """What a run did beside what was predicted. Print it, show it in a notebook, `save` it."""

    number: int
    state: str
    """"finished", "failed" or "running"; of a run that is not over, it says what is known so far."""
    plan: Plan
    run: RunFacts
    graph: LabelledGraph
    brought: tuple[FetchedArray, ...] = ()
    """What left a device because you read it, or held it at the end of the session."""
    unknown: tuple[int, ...] = ()
    """The nodes of Functions that had never run when it was planned: what was predicted of it is a guess."""
    revisions: tuple[PlanRevision, ...] = ()
    """Each time that what had not begun was planned again while the run went on, in seconds since the submission."""

    emit_wait: float = 0.0
    """Seconds for which nodes waited until handlers had taken what they had emitted before."""

    # ---- forms ------------------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, texts and numbers; of the plan, its segments' nodes and workers."""
        data = as_plain_data(self)
        del data["plan"]
        for segment, given in zip(data["run"]["segments"], self.plan.segments, strict=True):
            segment["members"] = list(given.nodes)
        return data

    def picture(self) -> Picture:
        """Return the drawing: node by node where they are few, else by segment."""
        from .draw import draw_run

        return draw_run(self.plan, self.run, self.graph, self.summary()[0])

    # ---- what it says -----------------------------------------------------------------------------------------------

    def summary(self) -> list[str]:
        """Return what matters most, in lines."""
        run = self.run
        used = sum(1 for worker in run.workers if worker.segments)
        what = f"Run {self.number}, {self.state}: {figures.number(len(self.graph.names), 'node')} in "
        segments = sum(1 for one in run.segments if one.status != "replaced")
        what += f"{figures.number(segments, 'segment')} on {figures.number(used, 'worker')}"
        crossed = sum(one.bytes for one in run.moved)
        revised = [self._revised()] if self.revisions else []
        slowed = (
            [f"Nodes waited {figures.seconds(self.emit_wait)} for the handlers of what they emit."]
            if self.emit_wait
            else []
        )
        return [
            f"{what}, {figures.seconds(run.seconds)} ({self._predicted()})",
            f"Nodes took {figures.seconds(run.work)} of work (predicted {figures.seconds(run.predicted_work)}), "
            f"packing {figures.seconds(run.packing)}; workers waited {figures.seconds(run.data_wait)} for each other "
            f"and {figures.seconds(run.latency)} for calls and what they bring.",
            f"The first call was sent after {figures.seconds(run.unsent)}; {figures.size(crossed)} crossed between "
            "workers.",
            *revised,
            *slowed,
        ]

    def _predicted(self) -> str:
        """Return the predicted time, and where it went by Functions that had never run."""
        said = f"predicted {figures.seconds(self.run.predicted_seconds)}"
        if not self.unknown:
            return said
        functions = named_functions(self.graph, self.unknown)
        count = figures.number(len(self.unknown), "node")
        return f"{said}, a guess: {count} of Functions that had never run, {functions}"

    def _revised(self) -> str:
        lost = [one for one in self.revisions if one.lost]
        said: list[str] = []
        if len(lost) < len(self.revisions):
            times = figures.number(len(self.revisions) - len(lost), "time")
            said.append(
                f"The plan was revised {times}: a worker had nothing to do while another had much that it had not "
                "begun, because times were other than predicted. What had not begun was planned again."
            )
        if lost:
            workers = ", ".join(dict.fromkeys([worker for one in lost for worker in one.lost]))
            again = [node for one in lost for node in one.remade]
            said.append(
                f"The plan was made again {figures.number(len(lost), 'time')} for what was lost with {workers}: "
                f"{figures.number(len(again), 'node')} that had run, or were running, ran again"
                f"{f' ({named_functions(self.graph, sorted({*again}))})' if again else ''}, and what had not begun was "
                "planned again."
            )
        return " ".join(said)

    def tables(self) -> list[Table]:
        """Return the tables that have something to say."""
        names = [one.name for one in self.run.workers]
        moved = transfer_table(self.run.moved, names, lambda segment: names[self.plan.segments[segment].worker])
        made = (
            self._segments(),
            self._replanned(),
            self._workers(),
            self._memory(),
            moved,
            self._brought(),
            self._longest(),
        )
        return [table for table in made if table.rows]

    def _brought(self) -> Table:
        return Table.of(
            "Brought to you from devices: what you read, or held at the end",
            self.brought,
            ("what", lambda one: self.graph.label(one.node) if one.node >= 0 else "recorded on its worker"),
            ("on", lambda one: self.run.workers[one.worker].name),
            ("from", lambda one: one.device),
            ("bytes>", lambda one: figures.size(one.bytes)),
            ("recorded at", lambda one: self.graph.places[one.node] if one.node >= 0 else ""),
        )

    def _replanned(self) -> Table:
        """Return when the rest of the run was planned again."""
        first = len(self.plan.segments) - sum(one.new for one in self.revisions)
        rows: list[tuple[PlanRevision, int]] = []
        for one in self.revisions:
            rows.append((one, first))
            first += one.new
        return Table.of(
            "Planned again while it ran",
            rows,
            ("at>", lambda row: figures.seconds(row[0].at)),
            ("segments that had not begun", lambda row: ", ".join(map(str, row[0].replaced))),
            ("nodes that ran again", lambda row: ", ".join(map(str, row[0].remade)) or "none"),
            ("new segments", lambda row: f"{row[1]} to {row[1] + row[0].new - 1}"),
        )

    def _segments(self) -> Table:
        nodes = [segment.nodes for segment in self.plan.segments]

        def measured(text: Callable[[SegmentRun], str]) -> Callable[[SegmentRun], str]:
            return lambda one: text(one) if one.recorded else "-"

        return Table.of(
            "Segments, predicted and actual",
            [one for one in self.run.segments if one.status != "replaced"],
            ("#>", lambda one: str(one.index)),
            ("worker", lambda one: self.run.workers[one.worker].name),
            ("mainly", lambda one: figures.commonest(self.graph.label(node) for node in nodes[one.index])),
            ("predicted>", lambda one: figures.seconds(one.predicted)),
            ("took>", lambda one: figures.seconds(one.seconds) if one.status == "done" else one.status),
            ("ratio>", lambda one: figures.ratio(one.seconds, one.predicted)),
            ("started>", measured(lambda one: figures.seconds(one.start))),
            (
                "waited for data>",
                measured(lambda one: f"{figures.seconds(one.data_wait)} ({one.held_by})" if one.data_wait else "0"),
            ),
            ("call>", measured(lambda one: figures.seconds(one.latency))),
            ("packing>", measured(lambda one: figures.seconds(one.inputs + one.outputs))),
            ("out>", measured(lambda one: figures.size(one.bytes_out))),
        )

    def _workers(self) -> Table:
        return Table.of(
            "Workers",
            self.run.workers,
            ("worker", lambda one: one.name),
            ("segments>", lambda one: f"{one.segments:,}"),
            ("predicted>", lambda one: figures.seconds(one.predicted)),
            ("took>", lambda one: figures.seconds(one.seconds)),
            ("ratio>", lambda one: figures.ratio(one.seconds, one.predicted)),
            ("busy>", lambda one: figures.share(one.seconds, self.run.seconds)),
            ("waited for data>", lambda one: figures.seconds(one.data_wait)),
            ("calls>", lambda one: figures.seconds(one.latency)),
            ("packing>", lambda one: figures.seconds(one.packing)),
            ("most in the store>", lambda one: figures.size(one.peak_stored)),
        )

    def _memory(self) -> Table:
        return Table.of(
            "Memory: the most bytes that values held",
            [(one.name, *peak) for one in self.run.workers for peak in one.peaks],
            ("worker", lambda row: row[0]),
            ("memory", lambda row: "host" if row[1] == "cpu" else row[1]),
            ("predicted>", lambda row: figures.size(row[2])),
            ("measured>", lambda row: figures.size(row[3])),
            ("ratio>", lambda row: figures.ratio(row[3], row[2])),
        )

    def _longest(self) -> Table:
        found = [(seconds, node, one.index) for one in self.run.segments for node, _, seconds in one.nodes]
        found.sort(key=lambda entry: (-entry[0], entry[1]))
        return Table.of(
            "The longest nodes",
            found[:LONGEST_NODES],
            ("node>", lambda entry: str(entry[1])),
            ("name", lambda entry: self.graph.label(entry[1])),
            ("segment>", lambda entry: str(entry[2])),
            ("took>", lambda entry: figures.seconds(entry[0])),
            ("recorded at", lambda entry: self.graph.places[entry[1]]),
        )
