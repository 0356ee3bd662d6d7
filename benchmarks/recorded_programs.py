"""Recorded graphs of real programs, and how good their plans are: predicted time over a lower bound.

`record_programs` has recorded them on two Ray workers. Times of nodes are those measured; figures of links are fixed
here, those of an idle machine, so that what is compared is plans. The bound is max(critical path, work / workers); it
counts no call and no transfer.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from measure import Grid

from raygrad.proto.codec.graphs import decode_graph
from raygrad.proto.ir.graph import Graph
from raygrad.scheduler.model.arrays import graph_arrays
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.critical_path import lower_bound
from raygrad.scheduler.model.dag import Dag, Platform
from raygrad.scheduler.model.measured_costs import MeasuredCosts
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.model.running_estimates import Estimate
from raygrad.scheduler.planning.planner import Planned, make_plan

FOLDER = Path(__file__).parent / "recorded"
WORKERS = (2, 4)
RUNS = 3
"""The runs in which times count as measured: the values of numbers do not matter."""
LINKS = Costs(
    call_seconds=0.3e-3,
    hop_seconds=0.8e-3,
    send_seconds=0.3e-3,
    return_seconds=0.3e-3,
    submit_seconds=0.1e-3,
    client_seconds=0.2e-3,
    follow_seconds=0.2e-3,
    bandwidth=1e9,
    give_bandwidth=2e9,
)


@dataclass(frozen=True, slots=True)
class Program:
    """A recorded graph with its costs."""

    graph: Graph
    residency: tuple[int, ...]
    costs: Costs

    def plan(self, workers: int) -> Planned:
        """Return its plan for so many workers; what workers held that are not there comes with the calls."""
        residency = tuple([home if home < workers else -1 for home in self.residency])
        return make_plan(self.graph, residency, self.costs, Cluster.of(workers), 0, b"recorded")

    def dag(self) -> Dag:
        """Return it as a task graph."""
        return graph_arrays(PricedGraph(self.graph, self.costs)).dag()

    def bound(self, workers: int) -> float:
        """Return a time below which no plan can be."""
        return lower_bound(self.dag(), Platform.of(workers))


def names() -> list[str]:
    """Return the names of all recorded programs."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> Program:
    """Return a recorded program."""
    data = json.loads((FOLDER / f"{name}.json").read_text())
    graph = decode_graph(base64.b64decode(data["graph"]))
    priced = PricedGraph(graph, LINKS)
    measured = MeasuredCosts(LINKS)
    for number, took in zip(priced.classes.number, data["microseconds"], strict=True):
        node, read, made = priced.classes.classes[number]
        seconds = max(1e-6 * took, 1e-7)
        factor = seconds / LINKS.prior_seconds(node, read, made)
        measured.kinds[LINKS.kind_of(node, read, made)] = Estimate(factor, 0.0, seconds, RUNS)
    measured.links_were()
    return Program(graph, tuple(data["residency"]), measured.costs())


def results(_quick: bool) -> list[Grid]:
    """Return the table of predicted times."""
    rows: list[tuple[str, ...]] = []
    for name in names():
        program = load(name)
        for workers in WORKERS:
            plan, bound = program.plan(workers).plan, program.bound(workers)
            rows.append(
                (
                    name,
                    str(workers),
                    str(len(program.graph.nodes)),
                    f"{1e3 * bound:.1f}",
                    f"{plan.predicted_seconds / bound:.3f}",
                    str(len(plan.segments)),
                    f"{plan.crossing_bytes / 1e6:.1f}",
                )
            )
    columns = ("program", "workers", "nodes", "bound, ms", "predicted", "segments", "crossing, MB")
    return [
        Grid(
            title="plans of recorded programs: predicted time over max(critical path, work / workers); aim <= 1.05",
            columns=columns,
            rows=tuple(rows),
        )
    ]
