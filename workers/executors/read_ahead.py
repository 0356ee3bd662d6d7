"""Read-ahead: which kept values the client read of earlier runs of a graph, so that the next run's are fetched at once.

The driver asks it. A loop that reads the same gradients at each step would otherwise wait for one after the other, each
for a message to its worker and back. A value that was fetched and dropped unread is not fetched ahead any more."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

GRAPHS_KEPT: Final = 64
"""The number of graphs of which it is known what was read."""


class ReadAhead:
    """The values that were read, by graph."""

    def __init__(self) -> None:
        self._graphs: OrderedDict[bytes, set[int]] = OrderedDict()

    def of_graph(self, key: bytes) -> set[int]:
        """Return the values that the client is expected to read of a graph, to which what it reads is added."""
        known = self._graphs.setdefault(key, set())
        self._graphs.move_to_end(key)
        if len(self._graphs) > GRAPHS_KEPT:
            self._graphs.popitem(last=False)
        return known
