"""The values of a worker that outlive the call which made them, by name: (run, value).

The one part of the store that several threads use: the client's releases names while a call runs and evicts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from ..values.packed_values import POISON
from ..values.placeholders import GONE
from .eviction import Location

Name = tuple[int, int]


class NamedValues:
    """Values, or placeholders of them, by name; the oldest first."""

    def __init__(self) -> None:
        self._values: dict[Name, Any] = {}
        self._lock = threading.RLock()
        """Taken again by a thread that holds it when garbage is collected which holds names."""

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __getitem__(self, name: Name) -> Any:
        return self._values[name]

    def get(self, name: Name | None) -> Any:
        """Return what a name holds: GONE if it was released."""
        return GONE if name is None else self._values.get(name, GONE)

    def put(self, name: Name, value: Any) -> None:
        """Hold a value under a name."""
        self._values[name] = value

    def update(self, values: Mapping[Name, Any]) -> None:
        """Hold values under names."""
        self._values.update(values)

    def take(self, name: Name) -> Any:
        """Release a name, and return what it held."""
        with self._lock:
            return self._values.pop(name)

    def release(self, names: Iterable[Name]) -> None:
        """Release names, those that hold something."""
        with self._lock:
            for run, value in names:
                self._values.pop((run, value), None)

    def poison(self, names: Iterable[Name]) -> None:
        """Hold POISON under names whose values will not be made."""
        for run, value in names:
            self._values[run, value] = POISON

    def exchange(self, name: Name, before: Any, after: Any) -> bool:
        """Hold another value under a name, unless it was released meanwhile, or holds another than `before`; return
        whether it holds it now."""
        with self._lock:
            if self._values.get(name, GONE) is not before:
                return False
            self._values[name] = after
            return True

    def held(self) -> list[Any]:
        """Return what is held."""
        with self._lock:
            return list(self._values.values())

    def locations(self) -> list[Location]:
        """Return what is held, with where: the holder is this."""
        with self._lock:
            values = self._values.copy()
        return [Location(self, name, value) for name, value in values.items()]
