"""The codec of graphs: canonical bytes, equal for equal graphs.

Plans are cached by the hash of these bytes (`ir.graph.structural_hash`)."""

from __future__ import annotations

from typing import Any, Final

from raygrad.errors import ProtocolError

from ..ir.graph import KEEP_FOR_RUNS, CostHint, Demand, Graph
from ..ir.nodes import ROLE_FUNCTION, Node
from .checks import fields, flag, integer, integers, many, of, pack, row, sequence, shown, text, unpack
from .nodes import MAX_VALUES, node_fields, nodes_of
from .specs import spec_fields, specs_of

IR_VERSION: Final = 1


def encode_graph(graph: Graph) -> bytes:
    """Return the canonical bytes of a graph; one without hints, or without both them and demands, has no field for
    them."""
    specs, nodes = [spec_fields(spec) for spec in graph.specs], node_fields(graph.nodes)
    body = (IR_VERSION, specs, graph.externals, nodes, graph.keep, graph.open_ended)
    if graph.hints:
        body = (*body, graph.demands, graph.hints)
    elif graph.demands:
        body = (*body, graph.demands)
    return pack(body)


def decode_graph(encoded: Any) -> Graph:
    """Return the graph for which `encode_graph` gave these bytes.

    Raises:
        ProtocolError: they are none of a graph: says which part is wrong, down to the field of a node.
    """
    body = unpack(encoded, "graph")
    version = sequence(body, "graph")[:1]
    if version != (IR_VERSION,):
        raise ProtocolError(f"the graph is of version {shown(version)}; this side reads version {IR_VERSION}")
    further = len(sequence(body, "graph")) - 6
    _, specs, externals, nodes, keep, open_ended = fields(body[:6] if further > 0 else body, 6, "graph")
    specs = specs_of(specs)
    externals = integers(externals, "specs of the externals", 0, len(specs))
    nodes = nodes_of(nodes, len(specs))
    graph = Graph(specs, externals, nodes, _KEPT(keep), flag(open_ended, "open-ended flag"))
    if further == 1:
        graph = graph._replace(demands=_demands(fields(body, 7, "graph")[6], len(nodes)))
    elif further > 1:
        demands, hints = fields(body, 8, "graph")[6:]
        demands = _demands(demands, len(nodes)) if sequence(demands, "demands") else ()
        graph = graph._replace(demands=demands, hints=_hints(hints, nodes))
    _check_order(graph)
    return graph


_KEPT: Final = many(
    "kept values", row("kept value", of(integer, "kept value", 0), of(integer, "KEEP_*", 0, KEEP_FOR_RUNS + 1))
)


def _demands(raw: Any, nodes: int) -> tuple[Demand, ...]:
    demands: list[Demand] = []
    for entry in sequence(raw, "demands"):
        node, name, needs = fields(entry, len(Demand._fields), "demand")
        index = integer(node, "node of a demand", demands[-1].node + 1 if demands else 0, nodes)
        pairs = [fields(pair, 2, f"demand of node {index}") for pair in sequence(needs, f"demands of node {index}")]
        for resource, amount in pairs:
            text(resource, f"resource of node {index}")
            if type(amount) is not float or not 0.0 <= amount < float("inf"):
                raise ProtocolError(f"the amount that node {index} asks for is {shown(amount)}")
        demands.append(Demand(index, text(name, f"name of what node {index} runs"), tuple(pairs)))
    if not demands:
        raise ProtocolError("a graph without demands has no field for them")
    return tuple(demands)


def _hints(raw: Any, nodes: tuple[Node, ...]) -> tuple[CostHint, ...]:
    hints: list[CostHint] = []
    for entry in sequence(raw, "cost hints"):
        node, seconds, values = fields(entry, len(CostHint._fields), "cost hint")
        index = integer(node, "node of a cost hint", hints[-1].node + 1 if hints else 0, len(nodes))
        if nodes[index].role != ROLE_FUNCTION:
            raise ProtocolError(f"node {index} has a cost hint and is no user Function's")
        if type(seconds) is not float or not 0.0 <= seconds < float("inf"):
            raise ProtocolError(f"the seconds hinted of node {index} are {shown(seconds)}")
        hints.append(CostHint(index, seconds, text(values, f"argument values of node {index}")))
    if not hints:
        raise ProtocolError("a graph without cost hints has no field for them")
    return tuple(hints)


def _check_order(graph: Graph) -> None:
    """Check that each node reads only what stands before it, and that what is kept exists."""
    known = len(graph.externals)
    for index, node in enumerate(graph.nodes):
        inputs = node.inputs
        if node.near >= known or (inputs and max(inputs) >= known):
            late = [i for i in (*node.inputs, node.near) if i >= known]
            raise ProtocolError(f"node {index} ({node.fn}) reads value {late[0]}, which does not exist before it")
        known += len(node.outputs)
    if known > MAX_VALUES:
        raise ProtocolError(f"the graph has {known} values; at most {MAX_VALUES} are allowed")
    if graph.open_ended and (not graph.nodes or graph.nodes[-1].role != ROLE_FUNCTION):
        raise ProtocolError("an open-ended graph ends with a user Function")
    for value, _ in graph.keep:
        if value >= known:
            raise ProtocolError(f"value {value} is to be kept and does not exist")
