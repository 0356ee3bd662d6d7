"""The states of a value on a worker, and the placeholders that stand for values which are not in memory.

A placeholder takes the value's place in slots and under its names until a step reads it; `memory.store` makes and
resolves it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, ClassVar, Final, Protocol

from .spill_file import FileRegion


class ValueState(Enum):
    """Where a value is."""

    IN_MEMORY = "in memory"
    SPILLED = "spilled"
    """On the worker's disk."""
    RECIPE = "recipe"
    """Nowhere: the steps that made it run again when it is read."""


class Restorer(Protocol):
    """What restoring takes: the store, as placeholders see it."""

    def load(self, region: FileRegion | None) -> Any:
        """Return the value that was written to a part of the spill file; an undefined one has none."""

    def silently(self) -> AbstractContextManager[None]:
        """Return a block in which steps run without a report or emits."""
        ...


class Placeholder(ABC):
    """Stands for a value that is not in memory."""

    __slots__ = ()
    state: ClassVar[ValueState]

    @abstractmethod
    def restore(self, store: Restorer) -> Any:
        """Return the value, with the same bits."""


class SpilledValue(Placeholder):
    """Stands for a value on disk."""

    __slots__ = ("region", "sizes")
    state = ValueState.SPILLED

    def __init__(self, region: FileRegion, sizes: Sequence[tuple[str, int]]) -> None:
        self.region = region
        self.sizes = sizes
        """Per memory where the value was, and will be again, its bytes there."""

    @property
    def nbytes(self) -> int:
        """Its bytes on disk."""
        return self.region.nbytes

    def restore(self, store: Restorer) -> Any:
        return store.load(self.region)


class _Gone:
    """The type of `GONE`."""

    def __repr__(self) -> str:
        return "GONE"


GONE: Final = _Gone()
"""Marks a slot or name whose value was released."""


def state_of(value: Any) -> ValueState:
    """Return the state of a value by what is held in its place."""
    return value.state if isinstance(value, Placeholder) else ValueState.IN_MEMORY
