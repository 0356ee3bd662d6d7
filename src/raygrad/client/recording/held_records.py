"""Held records: submitted records of which somebody still holds an output.

Closing a session fetches their values; a failure takes out those that moved arrays of the client to a device, to record
them again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Set
from typing import Final

from .records import NodeRecord

SWEEP_AT: Final = 64
"""Weak references among which dead ones are dropped, at the least: a callback for each would take longer."""


class HeldRecords:
    """Weak references to the submitted records of one session."""

    def __init__(self) -> None:
        self._held: dict[weakref.ref[NodeRecord], None] = {}
        self._sweep_at = SWEEP_AT

    def hold(self, record: NodeRecord) -> None:
        """Remember a submitted record for as long as it lives."""
        self._held[weakref.ref(record)] = None
        if len(self._held) > self._sweep_at:
            self._held = {held: None for held in self._held if held() is not None}
            self._sweep_at = SWEEP_AT + 2 * len(self._held)

    def __iter__(self) -> Iterator[NodeRecord]:
        """Return the records that are alive, one at a time: the others may die meanwhile."""
        for reference in list(self._held):
            record = reference()
            if record is not None:
                yield record

    def take_leaves(self, runs: Set[int]) -> list[NodeRecord]:
        """Remove and return the records of these runs that move an array of the client to a device."""
        leaves = [one for one in self if one.leaf is not None and one.run in runs]
        for leaf in leaves:
            self._held.pop(weakref.ref(leaf), None)
        return leaves
