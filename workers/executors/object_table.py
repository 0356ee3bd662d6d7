"""The objects of the in-process executor, by id: values that segments exported, or that were fetched for others."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from raygrad.errors import ExecutionError

from .base import ObjectId


class ObjectTable:
    """Objects that exist, with their sizes. Not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._values: dict[ObjectId, Any] = {}
        self._sizes: dict[ObjectId, int] = {}
        self._dropped: set[ObjectId] = set()
        """Objects that were dropped before they were made."""

    def __contains__(self, name: ObjectId) -> bool:
        return name in self._values

    def __getitem__(self, name: ObjectId) -> Any:
        """Return the values of an object, or POISON.

        Raises:
            ExecutionError: there is none of this name.
        """
        if name not in self._values:
            raise ExecutionError(f"the object {tuple(name)} was dropped, or never asked for")
        return self._values[name]

    def put(self, name: ObjectId, values: Any, size: int) -> None:
        """Hold an object, unless it was dropped before it was made."""
        if name in self._dropped:
            self._dropped.discard(name)
            return
        self._values[name] = values
        self._sizes[name] = size

    def drop(self, name: ObjectId, expected: Container[ObjectId]) -> None:
        """Release an object, as soon as it is made if it is among those `expected`."""
        self._sizes.pop(name, None)
        if self._values.pop(name, None) is None and name in expected:
            self._dropped.add(name)

    def forget(self, names: Iterable[ObjectId]) -> None:
        """Expect objects no longer, whether they were dropped or not: they will not be made."""
        self._dropped.difference_update(names)

    @property
    def nbytes(self) -> int:
        """The bytes of all objects."""
        return sum(self._sizes.values())

    def clear(self) -> None:
        """Release all objects."""
        self._values.clear()
        self._sizes.clear()
