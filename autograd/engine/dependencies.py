"""Dependencies of a backward pass: how many contributions each node waits for, and which nodes lead to requested edges.

`traversal` asks before it runs the first node. Deep graphs are walked with explicit stacks, never by recursion (ND-16).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..nodes.node import Node


def dependencies(roots: Sequence[Node | None], outer_nodes: frozenset[Node]) -> dict[Node, int]:
    """Return the number of contributions that each reachable node waits for, without those behind `outer_nodes`."""
    waiting: dict[Node, int] = dict.fromkeys([root for root in roots if root is not None], 0)
    stack = [root for root in waiting if root not in outer_nodes]
    while stack:
        node = stack.pop()
        for edge in node._edges:
            if edge is not None:
                below = edge[0]
                if below is not None:
                    if below in waiting:
                        waiting[below] += 1
                    else:
                        waiting[below] = 1
                        if below not in outer_nodes:
                            stack.append(below)
    return waiting


def leading_to(nodes: Iterable[Node], targets: set[Node | None]) -> set[Node | None]:
    """Return the nodes from which a path of at least one edge leads to a target."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for edge in node._edges:
            if edge is not None and edge[0] is not None:
                users.setdefault(edge[0], []).append(node)
    leading: set[Node | None] = set()
    stack = [target for target in targets if target is not None]
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in leading:
                leading.add(user)
                stack.append(user)
    return leading
