"""A graph with predicted seconds of every node and predicted bytes of every value, as lists.

The planner builds it once per plan, in O(nodes + edges); placement, ordering, segmentation and the explanation of a
plan read it. A user Function that never ran, and has no hint, takes at least `Costs.function_seconds` here, and a
multiple of what bringing its largest input takes. Lists are shared and must not be changed; those of nodes are computed
when they are first read. `arrays` converts it to NumPy arrays for large graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from raygrad.proto.ir.graph import CostHint, Graph, first_outputs, makers
from raygrad.proto.ir.nodes import ROLE_FUNCTION, Node
from raygrad.proto.ir.specs import Spec

from .costs import Costs
from .function_costs import Figure

T = TypeVar("T")

UNKNOWN_TRANSFERS: Final = 4.0
"""A Function that never ran is taken to run at least this many times as long as what it reads takes to transfer."""


class computed_once(Generic[T]):
    """A property that is computed when it is first read. `functools.cached_property` would lock in Python 3.11, which
    takes longer than pricing a small graph."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: object, owner: type) -> T:
        value = instance.__dict__[self.name] = self.compute(instance)
        return value


NodeClass: TypeAlias = tuple[Node, list[Spec], list[Spec]]
"""The first node of a class, and the specs of what it reads (without undefined inputs) and makes."""


class NodeClasses(NamedTuple):
    """The nodes of a graph grouped by function, specs and cost hints: those of one class cost the same."""

    number: list[int]
    """Per node, its class."""
    classes: list[NodeClass]
    hints: dict[int, CostHint]
    """By class, the hint for its first node, if there is one."""


class PricedGraph:
    """A graph with predicted bytes of its values and predicted seconds of its nodes; nodes of one class are priced
    once."""

    def __init__(self, graph: Graph, costs: Costs) -> None:
        self.graph = graph
        self.costs = costs
        self.spec: list[int] = [*graph.externals, *chain.from_iterable(map(attrgetter("outputs"), graph.nodes))]
        """Per value, its spec index."""
        self.spec_size = list(map(costs.value_bytes, graph.specs))
        """Per spec, the predicted bytes of a value."""
        self.spec_transfer = list(map(costs.transfer_seconds, self.spec_size))
        """Per spec, the predicted seconds to bring a value to another worker."""
        self.size = list(map(self.spec_size.__getitem__, self.spec))
        """Per value, its predicted bytes."""
        self.transfer = list(map(self.spec_transfer.__getitem__, self.spec))
        """Per value, the predicted seconds to bring it to another worker."""

    @computed_once
    def classes(self) -> NodeClasses:
        """The classes of the nodes, numbered by their first nodes."""
        spec, specs = self.spec, self.graph.specs
        known: dict[tuple[object, ...], int] = {}
        key: tuple[object, ...]
        number: list[int] = []
        classes: list[NodeClass] = []
        hinted = {hint.node: hint for hint in self.graph.hints}
        hints: dict[int, CostHint] = {}
        for node in self.graph.nodes:
            outputs = node.outputs
            read = tuple([spec[value] for value in node.inputs if value >= 0])
            key = (node.role, node.fn, node.depth, read, outputs)
            if hinted and (hint := hinted.get(len(number))) is not None:
                key = (*key, hint.seconds, hint.values)
                hints.setdefault(known.get(key, len(classes)), hint)
            one = known.get(key)
            if one is None:
                one = known[key] = len(classes)
                classes.append((node, [specs[each] for each in read], [specs[each] for each in outputs]))
            number.append(one)
        return NodeClasses(number, classes, hints)

    @computed_once
    def unknown_classes(self) -> list[int]:
        """The classes of user Functions that never ran and have no hint."""
        is_unknown, hints = self.costs.is_unknown, self.classes.hints
        return [
            one
            for one, (node, _, _) in enumerate(self.classes.classes)
            if node.role == ROLE_FUNCTION and is_unknown(node) and not (one in hints and hints[one].seconds)
        ]

    @computed_once
    def class_seconds(self) -> list[float]:
        """Per class of nodes, the predicted seconds of one node.

        Unknown ones are taken to be as heavy as the heaviest known one beside them, and heavy beside what they read:
        so both the unknown and the known ones are divided over workers, whatever the unknown ones turn out to take.
        """
        costs, (_, classes, hints) = self.costs, self.classes
        seconds = [costs.node_seconds(*nodes) for nodes in classes]
        for one, hint in hints.items():
            seconds[one] = costs.figure(costs.kind(*classes[one], hint)).seconds
        unknown = {*self.unknown_classes}
        if unknown:
            read = [costs.value_bytes(spec) for one in unknown for spec in classes[one][1]]
            known = [took for one, took in enumerate(seconds) if one not in unknown]
            least = max(*known, UNKNOWN_TRANSFERS * costs.transfer_seconds(max(read, default=0)), 0.0)
            factor = max(least / costs.function_seconds, 1.0)
            for one in unknown:
                seconds[one] *= factor
        return seconds

    @computed_once
    def node_figures(self) -> list[Figure]:
        """Per node, its predicted seconds and where they are from."""
        costs, (number, classes, hints) = self.costs, self.classes
        by_class = [
            costs.figure(costs.kind(*nodes, hints.get(one)))._replace(seconds=self.class_seconds[one])
            for one, nodes in enumerate(classes)
        ]
        return list(map(by_class.__getitem__, number))

    @computed_once
    def known_share(self) -> float:
        """The share of the predicted work that is not of unknown Functions."""
        if not self.unknown_nodes:
            return 1.0
        seconds = self.seconds
        return 1.0 - sum([seconds[node] for node in self.unknown_nodes]) / sum(seconds)

    @computed_once
    def unknown_nodes(self) -> list[int]:
        """The nodes of user Functions that never ran and have no hint."""
        unknown = {*self.unknown_classes}
        return [node for node, one in enumerate(self.classes.number) if one in unknown] if unknown else []

    @computed_once
    def seconds(self) -> list[float]:
        """Per node, its predicted seconds."""
        return list(map(self.class_seconds.__getitem__, self.classes.number))

    @computed_once
    def first(self) -> list[int]:
        """Per node, the value id of its first output."""
        return first_outputs(self.graph)

    @computed_once
    def maker(self) -> list[int]:
        """Per value, the node that makes it; -1 for an external."""
        return makers(self.graph)

    def maker_of(self, value: int) -> int:
        """Return the node that makes a value that some node makes; numbers above those of the graph are given to what
        the open-ended node makes."""
        return self.maker[value] if value < len(self.maker) else len(self.graph.nodes) - 1

    def with_sizes(self, size: list[int]) -> PricedGraph:
        """Return the graph with other bytes of its values, and equal seconds."""
        other = copy(self)
        other.size = size
        return other


def unmeasured_functions(graph: Graph, costs: Costs) -> frozenset[tuple[str, int]]:
    """Return the user Functions of a graph, with the level of the derivative, whose figures were not measured for the
    arguments that they have there."""
    if not any([node.role == ROLE_FUNCTION for node in graph.nodes]):
        return frozenset()
    _, classes, hints = PricedGraph(graph, costs).classes
    return frozenset(
        [
            (nodes[0].fn, nodes[0].depth)
            for one, nodes in enumerate(classes)
            if nodes[0].role == ROLE_FUNCTION and not costs.figure(costs.kind(*nodes, hints.get(one))).runs
        ]
    )


@dataclass(frozen=True, slots=True)
class NodeEdges:
    """The edges between nodes, each once."""

    before: list[tuple[int, ...]]
    """Per node, the nodes that make what it reads."""
    after: list[list[int]]
    """Per node, the nodes that read what it makes, ascending."""


def node_edges(priced: PricedGraph) -> NodeEdges:
    """Return the edges between the nodes of a graph, each once however many values it carries."""
    maker = priced.maker
    before: list[tuple[int, ...]] = []
    after: list[list[int]] = [[] for _ in priced.graph.nodes]
    for index, node in enumerate(priced.graph.nodes):
        makers = {maker[value] for value in node.inputs if value >= 0}
        makers.discard(-1)
        before.append(tuple(makers))
        for one in makers:
            after[one].append(index)
    return NodeEdges(before=before, after=after)
