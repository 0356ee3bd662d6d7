"""Placement of loop-carried values: plans in which an iteration makes each value where the next iteration reads it.

A loop pairs external inputs of a graph with the values of its previous run that they are: parameters, and the state of
optimisers. A plan of one iteration makes a value wherever that does not end later, and the value then moves to another
worker in every iteration. Here its maker is tied to its first reader of the next iteration. `planner` decides whether
such a plan is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from raygrad.proto.ir.graph import Graph

from ..model.costs import Costs
from ..model.plan import Cluster, Plan
from ..model.priced_graph import PricedGraph
from ..placing.constraints import Constraints, find_constraints
from ..placing.place import place

LoopCarried: TypeAlias = "Sequence[tuple[int, int]]"
"""Pairs of an external, and the value of the same graph that is this external in the next iteration."""


def count_misplaced(graph: Graph, plan: Plan, residency: Sequence[int], loop: LoopCarried) -> int:
    """Return the number of loop-carried externals that are read on another worker than the one that holds them."""
    carries = {external for external, _ in loop if residency[external] >= 0}
    read = {
        value
        for node, worker in zip(graph.nodes, plan.node_worker, strict=True)
        for value in node.inputs
        if value in carries and residency[value] != worker
    }
    return len(read)


def next_residency(
    graph: Graph, node_worker: Sequence[int], residency: Sequence[int], loop: LoopCarried
) -> tuple[int, ...]:
    """Return the residency of the next iteration."""
    worker = list(residency)
    for node, one in zip(graph.nodes, node_worker, strict=True):
        worker += [one] * len(node.outputs)
    after = list(residency)
    for external, value in loop:
        after[external] = worker[value]
    return tuple(after)


def place_for_loop(
    graph: Graph, residency: Sequence[int], loop: LoopCarried, costs: Costs, cluster: Cluster, seed: int
) -> tuple[int, ...]:
    """Return the worker of every node, placed as if loop-carried values were where they are first read.

    Raises PlanError as `place` does.
    """
    priced = PricedGraph(graph, costs)
    carries = {external for external, _ in loop}
    free = tuple([-1 if value in carries else home for value, home in enumerate(residency)])
    bound = tie_loop_carried(find_constraints(priced, free, cluster), priced, loop)
    return place(priced, free, costs, cluster, seed, bound).node_worker


def tie_loop_carried(constraints: Constraints, priced: PricedGraph, loop: LoopCarried) -> Constraints:
    """Return the constraints with the maker of each loop-carried value tied to its first reader of the next iteration,
    unless they have to be on different workers."""
    reader: dict[int, int] = {}
    for index, node in enumerate(priced.graph.nodes):
        for value in node.inputs:
            reader.setdefault(value, index)
    pairs = [(priced.maker[value], reader.get(external, -1)) for external, value in loop]
    return constraints.tied([pair for pair in pairs if min(pair) >= 0])
