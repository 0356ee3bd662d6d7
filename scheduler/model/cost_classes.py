"""Cost classes: the nodes of a graph grouped by function and specs, each class with its kind and its prior seconds.

`measured_costs` counts a plan's nodes by class and measures by kind: classes whose arrays have similar sizes share a
kind, which `Costs.kind_of` names.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from raygrad.proto.ir.graph import Graph

from .costs import Costs
from .function_costs import CostKind
from .priced_graph import PricedGraph


class CostClasses(NamedTuple):
    """The kinds of a graph's nodes. Nodes with equal specs are of one class, classes of like sizes of one kind."""

    node: array[int]
    """Per node, its class."""
    kinds: list[CostKind]
    """Per class, its kind."""


def cost_classes_of(graph: Graph, costs: Costs) -> CostClasses:
    """Return the kinds of a graph's nodes. O(nodes + edges)."""
    number, classes, hints = PricedGraph(graph, costs).classes
    return CostClasses(array("I", number), [costs.kind(*one, hints.get(i)) for i, one in enumerate(classes)])


class PlanCostClasses(NamedTuple):
    """The nodes of a plan, counted by class (`CostClasses`)."""

    kinds: Sequence[CostKind]
    segments: Sequence[Mapping[int, int]]
    """Per segment, how many nodes it has of each class."""

    def seconds(self, costs: Costs) -> list[float]:
        """Return the seconds of one node of each class."""
        factors = costs.factors
        return [
            costs.figure(kind).seconds if kind.family else kind.prior * factors.get(kind.name, 1.0)
            for kind in self.kinds
        ]

    def work(self, costs: Costs) -> list[float]:
        """Return the seconds of each segment's nodes."""
        seconds = self.seconds(costs)
        return [sum([number * seconds[one] for one, number in counts.items()]) for counts in self.segments]

    def taken(self, costs: Costs) -> dict[str, float]:
        """Return the seconds of all nodes of each kind."""
        seconds = self.seconds(costs)
        taken: dict[str, float] = {}
        for one, number in self._total().items():
            name = self.kinds[one].name
            taken[name] = taken.get(name, 0.0) + number * seconds[one]
        return taken

    def guessed_share(self, before: Costs, now: Costs) -> float:
        """Return the share of the time of user Functions that were not measured before, and are now."""
        total, guessed = self._total(), 0.0
        for one, number in total.items():
            kind = self.kinds[one]
            if kind.family and not before.figure(kind).runs and (figure := now.figure(kind)).runs:
                guessed += number * figure.seconds
        seconds = self.seconds(now)
        return guessed / max(sum([number * seconds[one] for one, number in total.items()]), MIN_WORK)

    def _total(self) -> Counter[int]:
        total: Counter[int] = Counter()
        for counts in self.segments:
            total.update(counts)
        return total


MIN_WORK: Final = 1e-12
"""Seconds that all nodes of a plan take at least."""
