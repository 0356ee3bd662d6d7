"""Cost classes: the nodes of a graph grouped by function and specs, each class with its kind and its prior seconds.

`measured_costs` counts a plan's nodes by class and measures by kind: classes whose arrays have similar sizes share a
kind, which `Costs.kind_of` names.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from raygrad.proto.ir.graph import Graph

from .costs import Costs


class CostClasses(NamedTuple):
    """The kinds of a graph's nodes. Nodes with equal specs are of one class, classes of like sizes of one kind."""

    node: array[int]
    """Per node, its class."""
    names: list[str]
    """Per class, its kind."""
    prior: list[float]
    """Per class, the seconds of one node, before anything is measured."""


def cost_classes_of(graph: Graph, costs: Costs) -> CostClasses:
    """Return the kinds of a graph's nodes. O(nodes + edges)."""
    spec = list(graph.externals)
    for node in graph.nodes:
        spec.extend(node.outputs)
    known: dict[tuple[object, ...], int] = {}
    nodes = array("I")
    names: list[str] = []
    prior: list[float] = []
    for node in graph.nodes:
        read = tuple([spec[value] for value in node.inputs if value >= 0])
        key = (node.role, node.fn, node.depth, read, node.outputs)
        number = known.get(key)
        if number is None:
            number = known[key] = len(names)
            inputs, outputs = [graph.specs[one] for one in read], [graph.specs[one] for one in node.outputs]
            names.append(costs.kind_of(node, inputs, outputs))
            prior.append(costs.prior_seconds(node, inputs, outputs))
        nodes.append(number)
    return CostClasses(nodes, names, prior)
