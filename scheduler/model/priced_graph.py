"""A graph with predicted seconds of every node and predicted bytes of every value, as lists.

The planner builds it once per plan, in O(nodes + edges); placement, ordering, segmentation and the explanation of a
plan read it. Each list is computed when it is first read, is shared, and must not be changed. `arrays` converts it to
NumPy arrays for large graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from raygrad.proto.ir.graph import Graph, first_outputs
from raygrad.proto.ir.nodes import Node
from raygrad.proto.ir.specs import Spec

from .costs import Costs

T = TypeVar("T")


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
    """The nodes of a graph grouped by function and specs: those of one class cost the same."""

    number: list[int]
    """Per node, its class."""
    classes: list[NodeClass]


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

    @computed_once
    def classes(self) -> NodeClasses:
        """The classes of the nodes, numbered by their first nodes."""
        spec, specs = self.spec, self.graph.specs
        known: dict[tuple[object, ...], int] = {}
        number: list[int] = []
        classes: list[NodeClass] = []
        for node in self.graph.nodes:
            outputs = node.outputs
            read = tuple([spec[value] for value in node.inputs if value >= 0])
            key = (node.role, node.fn, node.depth, read, outputs)
            one = known.get(key)
            if one is None:
                one = known[key] = len(classes)
                classes.append((node, [specs[each] for each in read], [specs[each] for each in outputs]))
            number.append(one)
        return NodeClasses(number, classes)

    @computed_once
    def class_seconds(self) -> list[float]:
        """Per class of nodes, the predicted seconds of one node."""
        node_seconds = self.costs.node_seconds
        return [node_seconds(node, inputs, outputs) for node, inputs, outputs in self.classes.classes]

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
        maker = [-1] * len(self.graph.externals)
        for index, node in enumerate(self.graph.nodes):
            maker.extend([index] * len(node.outputs))
        return maker

    @computed_once
    def size(self) -> list[int]:
        """Per value, its predicted bytes."""
        return list(map(self.spec_size.__getitem__, self.spec))

    @computed_once
    def transfer(self) -> list[float]:
        """Per value, the predicted seconds to bring it to another worker."""
        return list(map(self.spec_transfer.__getitem__, self.spec))

    def with_sizes(self, size: list[int]) -> PricedGraph:
        """Return the graph with other bytes of its values, and equal seconds."""
        other = copy(self)
        other.__dict__["size"] = size
        return other


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
