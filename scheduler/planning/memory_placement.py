"""Placement of a graph on workers with limited memories: the nodes of each worker in an order that keeps its limits.

The planner calls `place_and_order`. Where a memory is too small, the graph is placed again on workers with more of it;
where that does not help either, the error names limits that suffice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from raygrad.errors import PlanError

from ..memory.execution_order import NodeOrder, order_nodes
from ..memory.feasible_workers import workers_with_more_memory
from ..model.costs import Costs
from ..model.plan import Cluster
from ..model.priced_graph import PricedGraph
from ..placing.constraints import Constraints, find_constraints
from ..placing.place import place

ROUNDS: Final = 8
"""The most times that limits which are to suffice are tried."""


def place_and_order(
    priced: PricedGraph, residency: tuple[int, ...], costs: Costs, cluster: Cluster, seed: int
) -> NodeOrder:
    """Place and order a graph.

    Raises PlanError, that of the first placement, if none fits.
    """
    try:
        return _placed_and_ordered(priced, residency, costs, cluster, seed)
    except PlanError as refusal:
        if not refusal.needs:
            raise
        raise _with_sufficient_limits(refusal, priced, residency, costs, cluster, seed) from None


def _placed_and_ordered(
    priced: PricedGraph, residency: tuple[int, ...], costs: Costs, cluster: Cluster, seed: int
) -> NodeOrder:
    constraints: Constraints | None = None
    small: frozenset[int] = frozenset()
    first: PlanError | None = None
    while True:
        placement = place(priced, residency, costs, cluster, seed, constraints)
        try:
            return order_nodes(priced, placement.blocks, placement.node_worker, residency, costs, cluster)
        except PlanError as refusal:
            first = refusal if first is None else first
            before, small = small, small.union(refusal.workers)
        others = workers_with_more_memory(cluster, small) if small > before else frozenset[int]()
        if not others:
            raise first
        constraints = find_constraints(priced, residency, cluster).confined(others)


def _with_sufficient_limits(
    refusal: PlanError, priced: PricedGraph, residency: tuple[int, ...], costs: Costs, cluster: Cluster, seed: int
) -> PlanError:
    """Return the error with what is needed besides: on workers with the memory that it names, nodes may be placed
    otherwise, and need more."""
    named = {(worker, memory): size for worker, memory, size in refusal.needs}
    needs = dict(named)
    for _ in range(ROUNDS):
        try:
            _placed_and_ordered(priced, residency, costs, _with_limits(cluster, needs), seed)
        except PlanError as other:
            more = {(one, memory): size for one, memory, size in other.needs if size > needs.get((one, memory), -1)}
            if not more:
                break
            needs.update(more)
        else:
            break
    parts = [
        f"{cluster.workers[worker].name} then needs {memory}={size}"
        for (worker, memory), size in sorted(needs.items())
        if named.get((worker, memory)) != size
    ]
    return refusal.with_more(f"; nodes are placed otherwise with that: {', '.join(parts)}") if parts else refusal


def _with_limits(cluster: Cluster, limits: dict[tuple[int, str], int]) -> Cluster:
    """Return a cluster with other limits: of the memory of this name of each worker."""
    workers = list(cluster.workers)
    for (worker, memory), size in limits.items():
        spec = workers[worker]
        workers[worker] = replace(spec, memory=size) if memory == "memory" else replace(spec, gpu_memory=size)
    return replace(cluster, workers=tuple(workers))
