"""Cost classes: the nodes of a graph grouped by function and specs, each class with its kind and its prior seconds.

`measured_costs` counts a plan's nodes by class and measures by kind: classes whose arrays have similar sizes share a
kind, which `Costs.kind_of` names.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from raygrad.proto.ir.graph import Graph

from .costs import Costs
from .priced_graph import PricedGraph


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
    number, classes = PricedGraph(graph, costs).classes
    return CostClasses(
        array("I", number), [costs.kind_of(*one) for one in classes], [costs.prior_seconds(*one) for one in classes]
    )
