"""Plan errors: the `PlanError` of a graph that cannot be planned, with names of the nodes concerned.

The planner names nodes by index and function; the client replaces these by the user's names and source lines
(`PlanError.call_nodes`).
"""

from __future__ import annotations

from raygrad.errors import PlanError
from raygrad.proto.ir.nodes import Node, transforms_of


def describe_node(index: int, node: Node) -> str:
    """Return how errors name a node, as long as nobody knows better."""
    return f"node {index} ({'.'.join((*transforms_of(node), node.fn))})"


def plan_error(*parts: str | tuple[int, Node], workers: tuple[int, ...] = ()) -> PlanError:
    """Return the error whose message has these parts, names of nodes among them; `workers` have too little memory."""
    named = [part if isinstance(part, str) else (part[0], describe_node(*part)) for part in parts]
    message = "".join([part if isinstance(part, str) else part[1] for part in named])
    return PlanError(message, tuple([part for part in named if not isinstance(part, str)]), workers)
