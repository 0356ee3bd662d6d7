"""Lock between concurrent backward passes over one graph (EN-25).

The engine holds the nodes of a pass that frees saved values. A pass waits for another only if both free and they share
a node that still holds something; it then finds that freed, as on a single thread. A pass inside another one never
waits, so no circle of waits arises.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..nodes.node import Node

_condition = threading.Condition(threading.Lock())
_waiting: list[int] = []
"""One entry for each thread that waits."""
_running: dict[int, Collection[Node]] = {}
"""The nodes of each freeing pass that is under way, by the identity of what they are kept in."""


def acquire_nodes(nodes: Collection[Node]) -> None:
    """Wait until no other pass is about to free what these nodes hold, and hold them until `release_nodes`."""
    with _condition:
        while _running and any(_meet(nodes, others) for others in _running.values()):
            _waiting.append(1)
            try:
                _condition.wait()
            finally:
                _waiting.pop()
        _running[id(nodes)] = nodes


def release_nodes(nodes: Collection[Node]) -> None:
    """Note that the pass over these nodes is over."""
    with _condition:
        del _running[id(nodes)]
        if _waiting:
            _condition.notify_all()


def _meet(left: Collection[Node], right: Collection[Node]) -> bool:
    few, many = (left, right) if len(left) <= len(right) else (right, left)
    return any(node in many and node._holds() for node in few)
