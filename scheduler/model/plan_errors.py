"""Plan errors: the `PlanError` of a graph that cannot be planned, with names of the nodes concerned.

The planner names nodes by index and function; the client replaces these by the user's names and source lines
(`PlanError.call_nodes`).
"""

from __future__ import annotations

from raygrad.errors import PlanError
from raygrad.proto.ir.nodes import Node, transforms_of


def describe_node(index: int, node: Node) -> str:
    """Return the name of a node in errors, before the client replaces it by the user's."""
    return f"node {index} ({'.'.join((*transforms_of(node), node.fn))})"


def plan_error(
    *parts: str | tuple[int, Node], workers: tuple[int, ...] = (), needs: tuple[tuple[int, str, int], ...] = ()
) -> PlanError:
    """Return a `PlanError` whose message is made of texts and nodes; `workers` are those with too little memory,
    `needs` the limits that would do."""
    named = [part if isinstance(part, str) else (part[0], describe_node(*part)) for part in parts]
    message = "".join([part if isinstance(part, str) else part[1] for part in named])
    return PlanError(message, tuple([part for part in named if not isinstance(part, str)]), workers, needs)
