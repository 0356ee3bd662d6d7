"""A graph with predicted seconds of every node and predicted bytes of every value, as lists.

The planner builds it once per plan, in O(nodes + edges); placement, ordering, segmentation and the explanation of a
plan read it. Its lists are shared and must not be changed. `arrays` holds the same for large graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

from raygrad.proto.ir.graph import Graph, first_outputs
from raygrad.proto.ir.specs import Spec

from .costs import Costs


@dataclass(frozen=True, slots=True)
class PricedGraph:
    """A graph with predicted bytes of its values and predicted seconds of its nodes. See `price_graph`."""

    graph: Graph
    first: list[int]
    """Per node, the value id of its first output."""
    maker: list[int]
    """Per value, the node that makes it; -1 for an external."""
    spec: list[int]
    """Per value, its spec index."""
    size: list[int]
    """Per value, its predicted bytes."""
    transfer: list[float]
    """Per value, the predicted seconds to bring it to another worker."""
    seconds: list[float]
    """Per node, its predicted seconds."""


@dataclass(frozen=True, slots=True)
class NodeEdges:
    """The edges between nodes, each once."""

    before: list[tuple[int, ...]]
    """Per node, the nodes that make what it reads."""
    after: list[list[int]]
    """Per node, the nodes that read what it makes, ascending."""


def price_graph(graph: Graph, costs: Costs) -> PricedGraph:
    """Return the graph with predicted seconds and bytes. O(nodes + edges); equal nodes are computed once."""
    maker = [-1] * len(graph.externals)
    spec = list(graph.externals)
    for node in graph.nodes:  # before the next loop: a node of a rewritten graph may read from one with a higher number
        spec.extend(node.outputs)
    seconds: list[float] = []
    known: dict[tuple[object, ...], float] = {}
    for index, node in enumerate(graph.nodes):
        read = tuple([spec[value] for value in node.inputs if value >= 0])
        key = (node.role, node.fn, node.depth, read, node.outputs)
        cost = known.get(key)
        if cost is None:
            inputs: list[Spec] = [graph.specs[one] for one in read]
            cost = known[key] = costs.node_seconds(node, inputs, [graph.specs[one] for one in node.outputs])
        seconds.append(cost)
        maker.extend([index] * len(node.outputs))
    sizes = [costs.value_bytes(one) for one in graph.specs]
    transfers = [costs.transfer_seconds(size) for size in sizes]
    return PricedGraph(
        graph=graph,
        first=first_outputs(graph),
        maker=maker,
        spec=spec,
        size=[sizes[one] for one in spec],
        transfer=[transfers[one] for one in spec],
        seconds=seconds,
    )


def value_sizes(graph: Graph, costs: Costs) -> list[int]:
    """Return the predicted bytes of each value alone, as in `PricedGraph.size`."""
    sizes = [costs.value_bytes(one) for one in graph.specs]
    found = [sizes[one] for one in graph.externals]
    found.extend([sizes[one] for node in graph.nodes for one in node.outputs])
    return found


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
