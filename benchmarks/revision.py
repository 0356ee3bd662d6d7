"""What plans are worth when times are other than predicted, and what revising them while they run gains.

Each graph is planned by predicted times and run in the simulator with times that are off by a log-normal factor per
node. The makespan is held against list scheduling that knows the times, and against HEFT, which keeps its assignment
and order. Withdrawing what has not begun takes some milliseconds in the simulator, planning none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from baselines import heft
from families import FAMILIES, RATIOS, make
from measure import Grid
from planner import progress

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.nodes import UNDEFINED, Node, OpCall
from raygrad.proto.ir.specs import ArraySpec, Spec
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.dag import Dag, Platform, Schedule, dag_of
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.simulation.simulate import simulate

SIGMA = math.log(1.5)
"""The standard deviation of the logarithm of the factors."""

BANDWIDTH = 1e6
"""Bytes per second: what edges carry has no other use here."""

WITHDRAW_SECONDS = 0.005
"""From the decision to revise a plan until workers withdraw, beside nodes of a second."""

QUICK = ((100, 4, 3),)
FULL = ((100, 4, 20), (1_000, 16, 20))
"""Nodes, workers and how many graphs of each family and ratio."""


@dataclass(frozen=True)
class NodeCosts(Costs):
    """Costs with a time for each node by its number; calls and transfers cost what they carry."""

    seconds: tuple[float, ...] = ()

    def node_seconds(self, node: Node, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> float:
        return self.seconds[int(node.fn)]


def graph_of(dag: Dag) -> tuple[Graph, NodeCosts]:
    """Return a graph of ops with the nodes and edges of a task graph, and costs that price it like that. Edges of one
    node that take equally long are one value."""
    specs: dict[int, int] = {}
    nodes: list[Node] = []
    reads: list[list[int]] = [[] for _ in range(len(dag))]
    out: list[list[tuple[int, float]]] = [[] for _ in range(len(dag))]
    for source, target, transfer in zip(dag.source.tolist(), dag.target.tolist(), dag.transfer.tolist(), strict=True):
        out[source].append((target, transfer))
    values = 0
    for index in range(len(dag)):
        sizes: dict[int, list[int]] = {}
        for target, transfer in out[index]:
            sizes.setdefault(max(int(transfer * BANDWIDTH), 1), []).append(target)
        outputs: list[int] = []
        for size, targets in sizes.items():
            outputs.append(specs.setdefault(size, len(specs)))
            for target in targets:
                reads[target].append(values)
            values += 1
        if not sizes:
            outputs.append(specs.setdefault(1, len(specs)))
            values += 1
        nodes.append(OpCall(tuple(reads[index]), tuple(outputs), -1, UNDEFINED, fn=str(index), params=()))
    arrays = tuple([ArraySpec((size,), "uint8") for size in specs])
    costs = NodeCosts(hop_seconds=0.0, call_seconds=1e-4, bandwidth=BANDWIDTH, seconds=tuple(dag.seconds.tolist()))
    return Graph(arrays, (), tuple(nodes), ()), costs


def executed(dag: Dag, planned: Schedule, workers: int) -> float:
    """Return the makespan of a schedule that keeps its assignment and order, with the times of `dag`."""
    worker = planned.worker.tolist()
    before = dag.edges_in()
    finish = [0.0] * len(dag)
    free = [0.0] * workers
    for node in np.lexsort((np.arange(len(dag)), planned.start)).tolist():
        start = free[worker[node]]
        for edge in range(before.bounds[node], before.bounds[node + 1]):
            source = before.other[edge]
            came = finish[source] + (before.transfer[edge] if worker[source] != worker[node] else 0.0)
            start = max(start, came)
        finish[node] = free[worker[node]] = start + float(dag.seconds[node])
    return max(finish)


@dataclass(frozen=True, slots=True)
class Case:
    """One graph, with makespans over that of list scheduling that knows the times."""

    family: str
    ccr: float
    workers: int
    heft: float
    """HEFT, keeping assignment and order."""
    kept: float
    """Our plan, kept."""
    revised: float
    """Our plan, revised while it runs."""
    revisions: int
    as_predicted: int
    """Revisions where times are as predicted."""
    disturbed: float
    """The makespan then, over that of the plan kept."""


def measured(family: str, size: int, workers: int, ccr: float, seed: int) -> Case:
    dag = make(FAMILIES[family], size, ccr, seed)
    factor = np.exp(SIGMA * np.random.default_rng((seed, 7)).standard_normal(len(dag)))
    actual = dag_of(dag.seconds * factor, dag.source, dag.target, dag.transfer)
    platform = Platform.of(workers)
    known = heft(actual, platform).makespan
    graph, costs = graph_of(dag)
    cluster = Cluster.of(workers)
    planned = make_plan(graph, (), costs, cluster, 0, b"")
    options: dict[str, Any] = {"in_order": False}
    seconds = [actual.seconds.tolist()]
    kept = simulate(planned, cluster, costs, node_seconds=seconds, **options)
    revised = simulate(planned, cluster, costs, node_seconds=seconds, withdraw_seconds=WITHDRAW_SECONDS, **options)
    calm = simulate(planned, cluster, costs, **options)
    quiet = simulate(planned, cluster, costs, withdraw_seconds=WITHDRAW_SECONDS, **options)
    return Case(
        family,
        ccr,
        workers,
        executed(actual, heft(dag, platform), workers) / known,
        kept.makespan / known,
        revised.makespan / known,
        len(revised.revisions),
        len(quiet.revisions),
        quiet.makespan / calm.makespan,
    )


def results(quick: bool) -> list[Grid]:
    """Measure everything of this file."""
    found: list[Grid] = []
    for size, workers, graphs in QUICK if quick else FULL:
        rows: list[list[Case]] = []
        for family in FAMILIES:
            for ccr in RATIOS:
                progress(f"revisions of {family} at {ccr:g}, {size:,} nodes on {workers} workers")
                rows.append([measured(family, size, workers, ccr, seed) for seed in range(graphs)])
        progress("")
        found.append(by_family(size, workers, graphs, rows))
    return found


def by_family(size: int, workers: int, graphs: int, rows: Sequence[Sequence[Case]]) -> Grid:
    """Return the table of one size: means over the graphs of a family and ratio, and of all."""
    lines: list[tuple[str, ...]] = [(row[0].family, f"{row[0].ccr:g}", *_figures(row)) for row in rows]
    every = [case for row in rows for case in row]
    lines.append(("all", "", *_figures(every)))
    over_heft = statistics.mean(case.revised for case in every) / statistics.mean(case.heft for case in every)
    lines.append((f"all, over HEFT kept: {over_heft:.3f} (aim <= 1.02); over known times: aim <= 1.15", *[""] * 7))
    return Grid(
        title=f"{size:,} nodes on {workers} workers, times off by a log-normal factor (sigma ln 1.5), {graphs} graphs "
        "each: mean makespan over list scheduling that knows the times",
        columns=(
            "family",
            "comm/comp",
            "HEFT kept",
            "plan kept",
            "plan revised",
            "revisions",
            "as predicted",
            "makespan then",
        ),
        rows=tuple(lines),
        records=tuple(every),
        words=2,
    )


def _figures(cases: Sequence[Case]) -> tuple[str, ...]:
    mean = statistics.mean
    return (
        f"{mean(case.heft for case in cases):.3f}",
        f"{mean(case.kept for case in cases):.3f}",
        f"{mean(case.revised for case in cases):.3f}",
        f"{mean(case.revisions for case in cases):.1f}",
        f"{mean(case.as_predicted for case in cases):.1f}",
        f"{mean(case.disturbed for case in cases):.3f}",
    )
