"""The explanation of a plan before its run, in four forms: what `session.explain` returns.

It chooses the lines and tables; the facts are those of `scheduler.explain.explanation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from raygrad.scheduler.explain.explanation import PlanFacts, SegmentFacts, WorkerTransfer
from raygrad.scheduler.model.function_costs import Origin
from raygrad.scheduler.model.numerics_class import describe_differences

from . import figures
from .forms import Report
from .shown import LabelledGraph
from .table_rendering import Table

if TYPE_CHECKING:
    from .picture import Picture

PATH_NODES: Final = 30
"""A critical path of up to this many nodes is listed node by node, a longer one by segment."""

NAMED_FUNCTIONS: Final = 5
"""Functions that never ran, of which the summary names so many."""

LISTED_FIGURES: Final = 20
"""Rows in the table of where times are from."""


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
        lines += self._unknown()
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

    def _unknown(self) -> list[str]:
        """Return what is to be said of Functions that never ran."""
        figures_ = self.plan.node_figures
        unknown = [index for index, one in enumerate(figures_) if one.origin is Origin.UNKNOWN]
        if not unknown:
            return []
        named = named_functions(self.graph, unknown)
        taken = figures.seconds(min(figures_[index].seconds for index in unknown))
        return [
            f"{figures.number(len(unknown), 'node')} of Functions that never ran ({named}): what they take is unknown, "
            f"and all these times with it. They count as {taken} and more{self._where_unknown(unknown)}; "
            "`cost` on the Function says better."
        ]

    def _where_unknown(self, unknown: Sequence[int]) -> str:
        """Return where nodes of Functions that never ran are to run."""
        worker = {node: one.worker for one in self.plan.segments for node in one.nodes}
        ordered = {*self.plan.ordered}
        free = [node for node in unknown if node not in ordered]
        said = ", so that they are divided over workers" if len({worker[node] for node in free}) > 1 else ""
        if len(free) < len(unknown):
            which = "" if not free else f" {len(unknown) - len(free):,} of them"
            said += f"{', but' if said else ', and'}{which} run one after the other in program order, because their "
            said += "code changes captured objects"
        return said

    def _costs(self) -> Table:
        """Return the table of the figures that the plan went by, those that take longest in all first."""
        groups: dict[tuple[str, str], list[float]] = {}
        for index, one in enumerate(self.plan.node_figures):
            groups.setdefault((self.graph.label(index), str(one)), []).append(one.seconds)
        return Table.of(
            "Where the predicted times are from",
            sorted(groups.items(), key=lambda group: (-sum(group[1]), group[0]))[:LISTED_FIGURES],
            ("node", lambda group: group[0][0]),
            ("nodes>", lambda group: f"{len(group[1]):,}"),
            ("one takes>", lambda group: figures.seconds(sum(group[1]) / len(group[1]))),
            ("in all>", lambda group: figures.seconds(sum(group[1]))),
            ("from", lambda group: group[0][1]),
        )

    def tables(self) -> list[Table]:
        """Return the tables that have something to say."""
        of_plan = (
            self._elsewhere,
            self._segments,
            self._workers,
            self._moved,
            self._transfers,
            self._critical,
            self._costs,
        )
        of_session = (self._infer, self._hooks)
        made = [make() for make in (*(of_plan if self.plan.segments else ()), *of_session)]
        return [table for table in made if table.rows]

    def _segments(self) -> Table:
        plain_cpu = {one.device for one in self.plan.segments} == {"cpu"}
        workers = [worker.name for worker in self.plan.workers]
        return Table.of(
            "Segments, in the order of submission",
            self.plan.segments,
            ("#>", lambda one: str(one.index)),
            (
                "worker" if plain_cpu else "worker, device",
                lambda one: workers[one.worker] if plain_cpu else f"{workers[one.worker]}, {one.device}",
            ),
            ("nodes", lambda one: counts(one.forward, one.backward, one.hooks)),
            ("mainly", lambda one: figures.commonest(self.graph.label(node) for node in one.nodes)),
            ("why there", lambda one: reasons(one, 2)),
            ("starts>", lambda one: figures.seconds(one.start)),
            ("takes>", lambda one: figures.seconds(one.end - one.start)),
            ("waits for>", lambda one: "" if one.held_by < 0 else str(one.held_by)),
            ("in>", lambda one: figures.size(one.bytes_in)),
            ("out>", lambda one: figures.size(one.bytes_out)),
        )

    def _workers(self) -> Table:
        return Table.of(
            "Workers, with the most bytes that live there at once",
            self.plan.workers,
            ("worker", lambda one: one.name),
            ("offers", lambda one: ", ".join(one.devices)),
            ("segments>", lambda one: f"{one.segments:,}"),
            ("nodes>", lambda one: f"{one.nodes:,}"),
            ("work>", lambda one: figures.seconds(one.busy)),
            ("busy>", lambda one: figures.share(one.busy, self.plan.seconds)),
            ("peak>", lambda one: figures.size(one.memory.bytes)),
            ("saved>", lambda one: figures.size(one.memory.saved)),
            ("in the store>", lambda one: figures.size(one.memory.stored)),
        )

    def _moved(self) -> Table:
        return transfer_table(self.plan.moved, [one.name for one in self.plan.workers], self._worker_of)

    def _transfers(self) -> Table:
        workers = [*[one.name for one in self.plan.workers], "the client"]
        return Table.of(
            "Transfers between devices: no others, but of what you read (the report of the run lists that)",
            self.plan.transfers,
            (
                "what",
                lambda one: (
                    self.graph.label(one.node) if one.node >= 0 else "crosses" if one.worker >= 0 else "is sent"
                ),
            ),
            ("on", lambda one: workers[one.worker]),
            ("from", lambda one: one.source),
            ("to", lambda one: one.target),
            ("bytes>", lambda one: figures.size(one.bytes)),
            ("recorded at", lambda one: self.graph.places[one.node] if one.node >= 0 else ""),
        )

    def _worker_of(self, segment: int) -> str:
        return self.plan.workers[self.plan.segments[segment].worker].name

    def _critical(self) -> Table:
        plan, graph = self.plan, self.graph
        segment_of = {node: one.index for one in plan.segments for node in one.nodes}
        if len(plan.critical) <= PATH_NODES:
            return Table.of(
                "Critical path",
                plan.critical,
                ("node>", str),
                ("name", graph.label),
                ("worker", lambda node: self._worker_of(segment_of[node])),
                ("takes>", lambda node: figures.seconds(plan.node_seconds[node])),
                ("recorded at", lambda node: graph.places[node]),
            )
        return Table.of(
            "Critical path",
            [(one, list(nodes)) for one, nodes in groupby(plan.critical, key=segment_of.__getitem__)],
            ("segment>", lambda part: str(part[0])),
            ("worker", lambda part: self._worker_of(part[0])),
            ("nodes>", lambda part: f"{len(part[1]):,}"),
            ("mainly", lambda part: figures.commonest(graph.label(node) for node in part[1])),
            ("takes>", lambda part: figures.seconds(sum(plan.node_seconds[node] for node in part[1]))),
        )

    def _elsewhere(self) -> Table:
        plan, other = self.plan, self.elsewhere
        work = sum(one.busy for one in plan.workers)
        here = OtherMachines(
            workers=len(plan.workers),
            gpus=sum(1 for one in plan.workers if any(device.startswith("cuda") for device in one.devices)),
            seconds=plan.seconds,
            used=sum(1 for one in plan.workers if one.segments),
            segments=len(plan.segments),
            utilisation=work / (plan.seconds * len(plan.workers) or 1.0),
            moved_bytes=plan.crossing_bytes,
            peak_saved=max((one.memory.saved for one in plan.workers), default=0),
        )
        busy = figures.share(work, plan.seconds * len(plan.workers))
        return Table.of(
            "What other machines would bring",
            ()
            if other is None
            else (("this session", here, busy), ("simulated", other, figures.share(other.utilisation, 1))),
            ("on", lambda row: row[0]),
            ("workers>", lambda row: f"{row[1].workers:,}"),
            ("with GPU>", lambda row: f"{row[1].gpus:,}"),
            ("takes>", lambda row: figures.seconds(row[1].seconds)),
            ("used>", lambda row: f"{row[1].used:,}"),
            ("segments>", lambda row: f"{row[1].segments:,}"),
            ("busy>", lambda row: row[2]),
            ("crosses>", lambda row: figures.size(row[1].moved_bytes)),
            ("most saved on one>", lambda row: figures.size(row[1].peak_saved)),
        )

    def _hooks(self) -> Table:
        return Table.of(
            "Hooks at the client: a gradient that one reads comes here, and the pass waits for it",
            self.hooks,
            ("hook", lambda one: one[0]),
            ("calls>", lambda one: f"{one[1]:,}"),
        )

    def _infer(self) -> Table:
        return Table.of(
            "Functions that would gain from `infer`: recording waited for their first runs",
            self.infer,
            ("Function", lambda one: one.name),
            ("waits>", lambda one: str(one.waits)),
            ("for>", lambda one: figures.seconds(one.seconds)),
        )


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


def named_functions(graph: LabelledGraph, nodes: Sequence[int]) -> str:
    """Return the names of the Functions of nodes, the first few of them."""
    functions = list(dict.fromkeys(graph.names[index] for index in nodes))
    return ", ".join(functions[:NAMED_FUNCTIONS]) + (", …" if len(functions) > NAMED_FUNCTIONS else "")


def transfer_table(moved: Sequence[WorkerTransfer], workers: Sequence[str], worker_of: Callable[[int], str]) -> Table:
    """Return the table of transfers between workers, the most bytes first."""
    return Table.of(
        "What crosses between workers",
        sorted(moved, key=lambda one: (-one.bytes, one.target, one.source)),
        ("from", lambda one: f"segment {one.source}" if one.source >= 0 else "an earlier run"),
        ("on", lambda one: workers[one.worker]),
        ("to", lambda one: f"segment {one.target}"),
        ("on", lambda one: worker_of(one.target)),
        ("values>", lambda one: f"{one.values:,}"),
        ("bytes>", lambda one: figures.size(one.bytes)),
    )
