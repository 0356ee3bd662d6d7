"""Node names: what errors call the nodes of a graph, with the user's line that recorded them.

`failures` and errors of planning use them; the names in tables and drawings are in `report.shown`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from raygrad.errors import PlanError
from raygrad.proto.ir.nodes import ROLE_SUM, Emit, GradSum, HookCall

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
    elif node.role == ROLE_SUM:
        name = f"the check {name} of a gradient"
    elif node.depth:
        name = f"the backward of {name}"
    return name if site is None else f"{name} ({site})"


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
