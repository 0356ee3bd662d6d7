"""Held records: submitted records of which somebody still holds an output.

Closing a session fetches their values; a failure takes out those that moved arrays of the client to a device, to record
them again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Set

from .records import NodeRecord


class HeldRecords:
    """Weak references to the submitted records of one session."""

    def __init__(self) -> None:
        self._held: dict[int, weakref.ref[NodeRecord]] = {}

    def hold(self, record: NodeRecord) -> None:
        """Remember a submitted record for as long as it lives."""
        key = id(record)
        self._held[key] = weakref.ref(record, lambda _: self._held.pop(key, None))

    def __iter__(self) -> Iterator[NodeRecord]:
        """Return the records that are alive, one at a time: the others may die meanwhile."""
        for reference in list(self._held.values()):
            record = reference()
            if record is not None:
                yield record

    def take_leaves(self, runs: Set[int]) -> list[NodeRecord]:
        """Remove and return the records of these runs that move an array of the client to a device."""
        leaves = [one for one in self if one.leaf is not None and one.run in runs]
        for leaf in leaves:
            self._held.pop(id(leaf), None)
        return leaves
