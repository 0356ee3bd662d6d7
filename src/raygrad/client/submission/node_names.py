"""Node names: what errors call the nodes of a graph, with the user's line that recorded them.

`failures` and errors of planning use them; the names in tables and drawings are in `report.shown`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from raygrad.errors import PlanError
from raygrad.proto.ir.nodes import ROLE_SUM, CheckDigest, Digest, Emit, GradSum, HookCall, Load, Spill

if TYPE_CHECKING:
    from raygrad.proto.ir.graph import Graph
    from raygrad.proto.ir.nodes import Node

    from ..recording.source_locations import Site


NAMED: Final = 3
"""Nodes of a segment that an error names."""


def node_name(node: Node, site: Site | None, name_of: Callable[[str], str]) -> str:
    """Return what to call a node: "the backward of 'Solve' (train.py:12 in step)". `name_of` gives user code, named
    "@..." in the graph, the name that it has."""
    name = f"'{name_of(node.fn) if node.fn.startswith('@') else node.fn}'"
    if isinstance(node, HookCall):
        name = f"the hook {name}"
    elif isinstance(node, Emit):
        name = "an emit"
    elif isinstance(node, GradSum):
        name = "a sum of gradients"
    elif isinstance(node, Digest):
        name = "the digest of the outputs of a Function"
    elif isinstance(node, CheckDigest):
        name = f"the check of '{node.function}', which was run again"
    elif node.role == ROLE_SUM:
        name = f"the check {name} of a gradient"
    elif node.depth:
        name = f"the backward of {name}"
    return name if site is None else f"{name} ({site})"


def added_name(
    graph: Graph, index: int, added: range, sites: Sequence[Site | None], name_of: Callable[[str], str]
) -> str:
    """Return what to call a node that a plan has added: "the spill of what 'Solve' (train.py:12 in step) made". `added`
    are all such nodes of the graph, and `sites` has the place of each node."""
    nodes = graph.nodes
    first = len(graph.externals)
    makers = [maker for maker, node in enumerate(nodes) for _ in node.outputs]
    source = index
    while isinstance(nodes[source], Spill | Load):
        value = nodes[source].inputs[0] - first
        if value < 0:
            source = -1
            break
        source = makers[value]
    if source < 0:
        name = "an input"
    else:
        alike = [one for one in range(len(nodes)) if one not in added and _repeats(nodes[source], nodes[one])]
        places = {sites[one] for one in ([source] if source not in added else alike)}
        made = node_name(nodes[source], places.pop() if len(places) == 1 else None, name_of)
        name = made if source == index else f"what {made} made"
    node = nodes[index]
    if isinstance(node, Spill):
        return f"the spill of {name}"
    return f"the load from disk of {name}" if isinstance(node, Load) else f"the rematerialisation of {name}"


def _repeats(node: Node, original: Node) -> bool:
    """Tell whether a node may be one that runs another a second time."""
    return type(node) is type(original) and (node.fn, node.outputs) == (original.fn, original.outputs)


def segment_name(
    graph: Graph, nodes: Sequence[int], sites: Sequence[Site | None], name_of: Callable[[str], str]
) -> str:
    """Return what to call nodes that run together: the first of the user's own, of others if there are none, and how
    many more there are."""
    own = [index for index in nodes if graph.nodes[index].fn.startswith("@")] or list(nodes)
    named = list(dict.fromkeys(node_name(graph.nodes[index], sites[index], name_of) for index in own))
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return ", ".join(named[:NAMED]) + more


def call_nodes(error: BaseException, graph: Graph, sites: Sequence[Site | None], name_of: Callable[[str], str]) -> None:
    """Let an error that names nodes of a graph name them as the user does; `sites` has the place of each."""
    if isinstance(error, PlanError):
        error.call_nodes(lambda index: node_name(graph.nodes[index], sites[index], name_of))
