"""The values of a worker that outlive the call which made them, by name: (run, value).

The one part of the store that several threads use: the client's releases names while a call runs and evicts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

from ..values.placeholders import GONE
from .eviction import Location

Name = tuple[int, int]

NO_NAME: Final = (-1, -1)
"""The name of no value."""


class NamedValues(dict[Name, Any]):
    """Values, or placeholders of them, by name; the oldest first. Another thread may call `release`, nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        """Taken again by a thread that holds it when garbage is collected which holds names."""

    def release(self, names: Iterable[Name]) -> None:
        """Release names, those that hold something."""
        with self._lock:
            for run, value in names:
                self.pop((run, value), None)

    def exchange(self, name: Name, before: Any, after: Any) -> bool:
        """Hold another value under a name, unless it was released meanwhile, or holds another than `before`; return
        whether it holds it now."""
        with self._lock:
            if self.get(name, GONE) is not before:
                return False
            self[name] = after
            return True

    def held(self) -> list[Any]:
        """Return what is held."""
        with self._lock:
            return list(self.values())

    def locations(self) -> list[Location]:
        """Return what is held, with where: the holder is this."""
        with self._lock:
            values = self.copy()
        return [Location(self, name, value) for name, value in values.items()]
