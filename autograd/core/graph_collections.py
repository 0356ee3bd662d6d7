"""Full collections by Python's cyclic garbage collector while a backward graph grows eagerly.

Each node makes about ten containers that live until the graph is released. Python collects young and middle-aged
objects by their number, which takes little, and everything whenever a fourth as many objects have become old. A growing
graph makes them old by the ten thousand, and each time the walk over all objects of the process takes as long as
thousands of nodes. So those who make nodes call `graph_grew` now and then: where the middle generation is due, it
collects that, and has the survivors be old uncounted. Full collections have a schedule here instead, which limits their
part of the time.

Thresholds are the user's, and so is whether there are collections at all; nothing is ever exempt from collection.
"""

from __future__ import annotations

import gc
import threading
import time
from typing import Final

NODES: Final = 15
"""Every node whose number has none of these bits tells that the graph grew: one in 16."""

SHARE: Final = 20
"""Full collections take at most this part of the time: the next one is this many times as far away as the last took."""

GROWTH: Final = 4
"""A full collection is due when this part of all objects has become old anew, as in Python's own schedule."""

_BACK_OFF: Final = 256
"""How often to leave the collector alone once the user was seen to have frozen objects (`gc.freeze`)."""


class GraphCollections:
    """The schedule of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._skip = 0
        """How often to do nothing."""
        self._old = 0
        """Objects that have become old since the last full collection."""
        self._times = 0
        """In how many collections they did."""
        self._all = 0
        """Objects that there were when they were counted last."""
        self._full = -1
        """How many full collections there were by then."""
        self._due = 0.0
        """The time before which there is no other one."""

    def graph_grew(self) -> None:
        """Collect the middle generation where Python is about to, and let what remains be old."""
        young, middle, old = gc.get_threshold()
        if gc.get_count()[1] < (middle or 1) or not young or not gc.isenabled():
            return
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._skip:
                self._skip -= 1
            elif gc.get_freeze_count():  # to let objects be old would thaw these; to count them takes long
                self._skip = _BACK_OFF
            else:
                self._collect(old)
        finally:
            self._lock.release()

    def _collect(self, old: int) -> None:
        self._old += len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1))
        self._times += 1
        gc.collect(1)
        try:
            gc.freeze()
        finally:
            gc.unfreeze()  # all counts are zero now
        if self._times > old and self._old * GROWTH > self._all:
            self._collect_all()

    def _collect_all(self) -> None:
        """Run a full collection, unless there was one lately."""
        start = time.perf_counter()
        full: int = gc.get_stats()[2]["collections"]
        if full == self._full:
            if start < self._due:
                return
            gc.collect()
            full += 1
            self._all = len(gc.get_objects())
            self._due = time.perf_counter() * (1 + SHARE) - SHARE * start
        elif not self._all:
            self._all = len(gc.get_objects())
        # else one of Python's own or of the user's was in between; to count all objects takes as long as many nodes
        self._old, self._times, self._full = 0, 0, full


graph_grew = GraphCollections().graph_grew
