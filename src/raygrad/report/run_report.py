"""The report of a run beside its plan, in four forms: what `run.report()` returns.

It chooses the lines and tables; the facts are those of `scheduler.explain.actual_run`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from raygrad.scheduler.explain.actual_run import RunFacts, SegmentRun
from raygrad.scheduler.explain.device_transfers import FetchedArray
from raygrad.scheduler.model.plan import Plan

from . import figures
from .explanation import transfer_table
from .forms import Report
from .shown import LabelledGraph, as_plain_data
from .tables import Table

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
        what += f"{figures.number(len(self.plan.segments), 'segment')} on {figures.number(used, 'worker')}"
        crossed = sum(one.bytes for one in run.moved)
        return [
            f"{what}, {figures.seconds(run.seconds)} (predicted {figures.seconds(run.predicted_seconds)})",
            f"Nodes took {figures.seconds(run.work)} of work (predicted {figures.seconds(run.predicted_work)}), "
            f"packing {figures.seconds(run.packing)}; workers waited {figures.seconds(run.data_wait)} for each other "
            f"and {figures.seconds(run.latency)} for calls and what they bring.",
            f"The first call was sent after {figures.seconds(run.unsent)}; {figures.size(crossed)} crossed between "
            "workers.",
        ]

    def tables(self) -> list[Table]:
        """Return the tables that have something to say."""
        made = [self._segments(), self._workers()]
        if self.plan.peaks:
            made.append(self._memory())
        if self.run.moved:
            names = [one.name for one in self.run.workers]
            made.append(transfer_table(self.run.moved, names, lambda i: names[self.plan.segments[i].worker]))
        if self.brought:
            made.append(self._brought())
        if any(one.nodes for one in self.run.segments):
            made.append(self._longest())
        return made

    def _brought(self) -> Table:
        rows = tuple(
            (
                self.graph.label(one.node) if one.node >= 0 else "recorded on its worker",
                self.run.workers[one.worker].name,
                one.device,
                figures.size(one.bytes),
                self.graph.places[one.node] if one.node >= 0 else "",
            )
            for one in self.brought
        )
        columns = ("what", "on", "from", "bytes>", "recorded at")
        return Table("Brought to you from devices: what you read, or held at the end", columns, rows)

    def _segments(self) -> Table:
        run = self.run
        rows = tuple(
            (
                str(one.index),
                run.workers[one.worker].name,
                figures.commonest(self.graph.label(node) for node in self.plan.segments[one.index].nodes),
                figures.seconds(one.predicted),
                figures.seconds(one.seconds) if one.status == "done" else one.status,
                figures.ratio(one.seconds, one.predicted),
                figures.seconds(one.start),
                _waited(one),
                figures.seconds(one.latency),
                figures.seconds(one.inputs + one.outputs),
                figures.size(one.bytes_out),
            )
            for one in run.segments
        )
        columns = (
            "#>", "worker", "mainly", "predicted>", "took>", "ratio>", "started>", "waited for data>", "call>",
            "packing>", "out>",
        )  # fmt: skip
        return Table("Segments, predicted and actual", columns, rows)

    def _workers(self) -> Table:
        rows = tuple(
            (
                one.name,
                f"{one.segments:,}",
                figures.seconds(one.predicted),
                figures.seconds(one.seconds),
                figures.ratio(one.seconds, one.predicted),
                figures.share(one.seconds, self.run.seconds),
                figures.seconds(one.data_wait),
                figures.seconds(one.latency),
                figures.seconds(one.packing),
                figures.size(one.peak_stored),
            )
            for one in self.run.workers
        )
        columns = (
            "worker", "segments>", "predicted>", "took>", "ratio>", "busy>", "waited for data>", "calls>", "packing>",
            "most in the store>",
        )  # fmt: skip
        return Table("Workers", columns, rows)

    def _memory(self) -> Table:
        rows = tuple(
            (
                one.name,
                "host" if device == "cpu" else device,
                figures.size(predicted),
                figures.size(measured),
                figures.ratio(measured, predicted),
            )
            for one in self.run.workers
            for device, predicted, measured in one.peaks
        )
        columns = ("worker", "memory", "predicted>", "measured>", "ratio>")
        return Table("Memory: the most bytes that values held", columns, rows)

    def _longest(self) -> Table:
        found = [(seconds, node, one) for one in self.run.segments for node, _, seconds in one.nodes]
        found.sort(key=lambda entry: (-entry[0], entry[1]))
        rows = tuple(
            (str(node), self.graph.label(node), str(one.index), figures.seconds(seconds), self.graph.places[node])
            for seconds, node, one in found[:LONGEST_NODES]
        )
        return Table("The longest nodes", ("node>", "name", "segment>", "took>", "recorded at"), rows)


def _waited(one: SegmentRun) -> str:
    return f"{figures.seconds(one.data_wait)} ({one.held_by})" if one.data_wait else "0"
