"""The explanation of a plan before its run, in four forms: what `session.explain` returns.

It chooses the lines and tables; the facts are those of `scheduler.explain.explanation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from raygrad.scheduler.explain.explanation import PlanFacts, SegmentFacts, WorkerTransfer
from raygrad.scheduler.model.numerics_class import describe_differences

from . import figures
from .forms import Report
from .shown import LabelledGraph, as_plain_data
from .tables import Table

if TYPE_CHECKING:
    from .picture import Picture

PATH_NODES: Final = 30
"""A critical path of up to this many nodes is listed node by node, a longer one by segment."""


class SignatureWait(NamedTuple):
    """A Function whose first runs the session waited for, to observe its signature (H3)."""

    name: str
    waits: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherMachines:
    """The same graph planned for other machines, and that plan simulated."""

    workers: int
    gpus: int
    seconds: float
    used: int
    """Workers that have something to do."""
    segments: int
    utilisation: float
    """The share of all workers' time that is work."""
    moved_bytes: int
    peak_saved: int
    """The most bytes that are saved for backward at once on any one worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Report):
    """What would be submitted now, where it would run and why. Print it, show it in a notebook, `save` it."""

    plan: PlanFacts
    graph: LabelledGraph
    infer: tuple[SignatureWait, ...]
    """Functions that would gain from an `infer`: without one the session waits for the first run of each."""
    hooks: tuple[tuple[str, int], ...] = ()
    """Hooks that passes of this session called at the client (`client=True`), and how often."""
    elsewhere: OtherMachines | None = None
    """The plan for other machines, if requested."""

    # ---- forms ------------------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, texts and numbers."""
        return as_plain_data(self)

    def picture(self) -> Picture:
        """Return the drawing: node by node where they are few, else by segment."""
        from .draw import draw_plan

        return draw_plan(self.plan, self.graph, self.summary()[0])

    # ---- what it says -----------------------------------------------------------------------------------------------

    def summary(self) -> list[str]:
        """Return what matters most, in lines."""
        plan = self.plan
        if not plan.segments:
            return ["Nothing would be submitted: what these tensors need has been submitted, or is here."]
        used = sum(1 for worker in plan.workers if worker.segments)
        lines = [
            f"{figures.number(len(self.graph.names), 'node')} in {figures.number(len(plan.segments), 'segment')} "
            f"on {used} of {figures.number(len(plan.workers), 'worker')}, predicted to take "
            f"{figures.seconds(plan.seconds)}",
            f"All nodes together take {figures.seconds(plan.work)}, the critical path of "
            f"{figures.number(len(plan.critical), 'node')} {figures.seconds(plan.critical_seconds)}; "
            f"{figures.size(plan.crossing_bytes)} cross between workers.",
        ]
        if len(plan.chain) > 1:
            chain = ", ".join(f"{one}" for one in plan.chain[:12]) + (", …" if len(plan.chain) > 12 else "")
            lines.append(f"The time is that of segments {chain}: each holds up the next.")
        bits = describe_differences([(one.name, one.numerics) for one in plan.workers if one.segments])
        if bits:
            lines.append(f"These workers may give different bits for the same node: {bits}.")
        other = self.elsewhere
        if other is not None:
            lines.append(
                f"On {figures.number(other.workers, 'worker')}, {other.gpus:,} with a GPU, it would take "
                f"{figures.seconds(other.seconds)} by simulation, {figures.ratio(plan.seconds, other.seconds)} as fast."
            )
        return lines

    def tables(self) -> list[Table]:
        """Return the tables that have something to say."""
        plan = self.plan
        made = [self._segments(), self._workers()]
        if plan.moved:
            made.append(self._moved())
        if plan.transfers:
            made.append(self._transfers())
        if plan.critical:
            made.append(self._critical())
        if self.elsewhere is not None and plan.segments:
            made.insert(0, self._elsewhere(self.elsewhere))
        if not plan.segments:
            made.clear()
        if self.infer:
            made.append(self._infer())
        if self.hooks:
            made.append(self._hooks())
        return made

    def _segments(self) -> Table:
        plain_cpu = {one.device for one in self.plan.segments} == {"cpu"}
        workers = [worker.name for worker in self.plan.workers]
        rows = tuple(
            (
                str(one.index),
                workers[one.worker] if plain_cpu else f"{workers[one.worker]}, {one.device}",
                counts(one.forward, one.backward, one.hooks),
                figures.commonest(self.graph.label(node) for node in one.nodes),
                reasons(one, 2),
                figures.seconds(one.start),
                figures.seconds(one.end - one.start),
                "" if one.held_by < 0 else str(one.held_by),
                figures.size(one.bytes_in),
                figures.size(one.bytes_out),
            )
            for one in self.plan.segments
        )
        columns = (
            "#>", "worker" if plain_cpu else "worker, device", "nodes", "mainly", "why there", "starts>", "takes>",
            "waits for>", "in>", "out>",
        )  # fmt: skip
        return Table("Segments, in the order of submission", columns, rows)

    def _workers(self) -> Table:
        rows = tuple(
            (
                one.name,
                ", ".join(one.devices),
                f"{one.segments:,}",
                f"{one.nodes:,}",
                figures.seconds(one.busy),
                figures.share(one.busy, self.plan.seconds),
                figures.size(one.memory.bytes),
                figures.size(one.memory.saved),
                figures.size(one.memory.stored),
            )
            for one in self.plan.workers
        )
        columns = ("worker", "offers", "segments>", "nodes>", "work>", "busy>", "peak>", "saved>", "in the store>")
        return Table("Workers, with the most bytes that live there at once", columns, rows)

    def _moved(self) -> Table:
        return transfer_table(self.plan.moved, [one.name for one in self.plan.workers], lambda i: self._worker_of(i))

    def _transfers(self) -> Table:
        workers = [*[one.name for one in self.plan.workers], "the client"]
        rows = tuple(
            (
                self.graph.label(one.node) if one.node >= 0 else "crosses" if one.worker >= 0 else "is sent",
                workers[one.worker],
                one.source,
                one.target,
                figures.size(one.bytes),
                self.graph.places[one.node] if one.node >= 0 else "",
            )
            for one in self.plan.transfers
        )
        columns = ("what", "on", "from", "to", "bytes>", "recorded at")
        title = "Transfers between devices: no others, but of what you read (the report of the run lists that)"
        return Table(title, columns, rows)

    def _worker_of(self, segment: int) -> str:
        return self.plan.workers[self.plan.segments[segment].worker].name

    def _critical(self) -> Table:
        plan, graph = self.plan, self.graph
        segment_of = {node: one.index for one in plan.segments for node in one.nodes}
        if len(plan.critical) <= PATH_NODES:
            rows = tuple(
                (
                    str(node),
                    graph.label(node),
                    self._worker_of(segment_of[node]),
                    figures.seconds(plan.node_seconds[node]),
                    graph.places[node],
                )
                for node in plan.critical
            )
            return Table("Critical path", ("node>", "name", "worker", "takes>", "recorded at"), rows)
        long: list[tuple[str, ...]] = []
        for segment, group in groupby(plan.critical, key=segment_of.__getitem__):
            nodes = list(group)
            took = figures.seconds(sum(plan.node_seconds[node] for node in nodes))
            mainly = figures.commonest(graph.label(node) for node in nodes)
            long.append((str(segment), self._worker_of(segment), f"{len(nodes):,}", mainly, took))
        return Table("Critical path", ("segment>", "worker", "nodes>", "mainly", "takes>"), tuple(long))

    def _elsewhere(self, other: OtherMachines) -> Table:
        plan = self.plan
        gpus = sum(1 for one in plan.workers if any(device.startswith("cuda") for device in one.devices))
        work = sum(one.busy for one in plan.workers)
        rows = (
            (
                "this session",
                f"{len(plan.workers):,}",
                f"{gpus:,}",
                figures.seconds(plan.seconds),
                f"{sum(1 for one in plan.workers if one.segments):,}",
                f"{len(plan.segments):,}",
                figures.share(work, plan.seconds * len(plan.workers)),
                figures.size(plan.crossing_bytes),
                figures.size(max((one.memory.saved for one in plan.workers), default=0)),
            ),
            (
                "simulated",
                f"{other.workers:,}",
                f"{other.gpus:,}",
                figures.seconds(other.seconds),
                f"{other.used:,}",
                f"{other.segments:,}",
                f"{100 * other.utilisation:.0f} %",
                figures.size(other.moved_bytes),
                figures.size(other.peak_saved),
            ),
        )
        columns = (
            "on", "workers>", "with GPU>", "takes>", "used>", "segments>", "busy>", "crosses>", "most saved on one>",
        )  # fmt: skip
        return Table("What other machines would bring", columns, rows)

    def _hooks(self) -> Table:
        rows = tuple((name, f"{calls:,}") for name, calls in self.hooks)
        title = "Hooks at the client: a gradient that one reads comes here, and the pass waits for it"
        return Table(title, ("hook", "calls>"), rows)

    def _infer(self) -> Table:
        rows = tuple((name, str(waits), figures.seconds(took)) for name, waits, took in self.infer)
        title = "Functions that would gain from `infer`: recording waited for their first runs"
        return Table(title, ("Function", "waits>", "for>"), rows)


def counts(forward: int, backward: int, hooks: int) -> str:
    """Return "12 forward, 10 backward" without what there is none of."""
    parts = ((forward, "forward"), (backward, "backward"), (hooks, "hooks"))
    return ", ".join(f"{count:,} {what}" for count, what in parts if count) or "none"


def reasons(segment: SegmentFacts, most: int = 9) -> str:
    """Return why a segment is where it is, each reason with the number of its nodes where there are several."""
    if len(segment.reasons) == 1:
        return str(segment.reasons[0][0])
    shown = [f"{reason} ({count:,})" for reason, count in segment.reasons[:most]]
    return "; ".join([*shown, "…"] if len(segment.reasons) > most else shown)


def transfer_table(moved: Sequence[WorkerTransfer], workers: Sequence[str], worker_of: Callable[[int], str]) -> Table:
    """Return the table of transfers between workers, the most bytes first."""
    ordered = sorted(moved, key=lambda one: (-one.bytes, one.target, one.source))
    rows = tuple(
        (
            f"segment {one.source}" if one.source >= 0 else "an earlier run",
            workers[one.worker],
            f"segment {one.target}",
            worker_of(one.target),
            f"{one.values:,}",
            figures.size(one.bytes),
        )
        for one in ordered
    )
    return Table("What crosses between workers", ("from", "on", "to", "on", "values>", "bytes>"), rows)
