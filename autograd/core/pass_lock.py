"""Passes of several threads over one graph take turns (SEMANTICS EN-25).

Rules of this file: who waits for whom. Only passes that free what they use, and that meet at a node which holds
something to free, wait for one another: the later one then finds it freed, as it would on one thread. All others are
independent. A pass inside another one never waits, so that nobody waits in a ring.
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
    """Wait until no other pass is about to free what these nodes hold; then count as under way until `release_nodes`."""
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
