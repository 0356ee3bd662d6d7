"""Collections by Python's cyclic garbage collector while a backward graph grows eagerly.

Each node makes about ten containers that live until the graph is released. The collector would walk over those again
and again for nothing, and with them over all objects of the process each time they are a fourth more. So those who make
nodes call `graph_grew` now and then: it looks at young objects once, and has them old afterwards without being counted.
What Python would do upon the count, a full collection, is done here instead, for a thirtieth of the time at most.

Thresholds are the user's, and so is whether there are collections at all; nothing is ever exempt from collection.
"""

from __future__ import annotations

import gc
import threading
import time
from typing import Final

NODES: Final = 15
"""Every node whose number has none of these bits tells that the graph grew: one in 16."""

SHARE: Final = 30
"""Full collections take at most this part of the time: the next one is this many times as far away as the last took."""

GROWTH: Final = 4
"""A full collection is due when this part of all objects came anew, as in Python's own schedule."""

_BACK_OFF: Final = 4096
"""How often to leave the collector alone once the user was seen to have frozen objects (`gc.freeze`)."""


class GraphCollections:
    """The schedule of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._skip = 0
        """How often to do nothing."""
        self._young = 0
        """Objects that have become old since they were counted."""
        self._all = 0
        """Objects that there were then."""
        self._full = -1
        """How many full collections there were by then."""
        self._due = 0.0
        """The time before which there is no other one."""

    def graph_grew(self) -> None:
        """Collect young garbage if there is about to be a collection anyway, and let what remains be old."""
        threshold = gc.get_threshold()[0]
        young = gc.get_count()[0]
        if 3 * young < 2 * threshold or not threshold or not gc.isenabled() or not self._lock.acquire(blocking=False):
            return
        try:
            if self._skip:
                self._skip -= 1
            elif gc.get_freeze_count():  # to let the young be old would thaw these; to count them takes long
                self._skip = _BACK_OFF
            else:
                self._collect(young)
        finally:
            self._lock.release()

    def _collect(self, young: int) -> None:
        gc.collect(0)
        try:
            gc.freeze()
        finally:
            gc.unfreeze()  # of what was frozen all is old now, and none of it is counted
        self._young += young
        if self._young * GROWTH > self._all:
            self._collect_all()

    def _collect_all(self) -> None:
        """Run a full collection if there really are so many more objects, unless there was one lately."""
        start = time.perf_counter()
        if start < self._due:
            return
        self._young = 0
        full = gc.get_stats()[2]["collections"]
        count = len(gc.get_objects())
        if full == self._full and (count - self._all) * GROWTH > self._all:
            gc.collect()
            full += 1
            self._all = len(gc.get_objects())
        elif full != self._full:  # Python or the user ran one in between
            self._all = count
        self._full = full
        now = time.perf_counter()
        self._due = now + SHARE * (now - start)


graph_grew = GraphCollections().graph_grew
