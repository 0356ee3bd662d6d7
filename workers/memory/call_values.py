"""The values of the call that a worker runs: its slots, what they were bound to, and what is counted meanwhile.

A passive record: the host fills it and runs steps over its slots, and the store moves its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from raygrad.autograd.core.random_streams import ALL_ALIKE
from raygrad.errors import ExecutionError
from raygrad.proto.ir.program import Program

from ..values.placeholders import GONE
from ..values.slots import Execute
from .accounting import MemoryAccount
from .eviction import NextUses
from .input_binding import InputBinding
from .memory_limit import MemoryLimiter
from .rematerialize import Origin, RecipeFinder


class CallValues:
    """The values of one call; made without arguments, of none: what is evicted then is named values."""

    account: MemoryAccount | None = None
    """Where memory is limited."""
    limiter: MemoryLimiter | None = None
    """Likewise."""
    limits: Mapping[str, int] = MappingProxyType({})
    """Per limited memory, its bytes."""
    paths: Mapping[int, tuple[Any, ...]] = ALL_ALIKE
    """By node index of user code, the paths by which it draws random numbers."""
    disk_error: ExecutionError | None = None
    """Why the disk did not take a value."""
    has_warned = False
    """The user was told that a device is full."""

    def __init__(
        self,
        origin: Origin = (-1, -1),
        program: Program | None = None,
        compiled: Sequence[tuple[Execute, tuple[int, ...]]] = (),
        slots: list[Any] | None = None,
        position: Callable[[], int] = lambda: 0,
        binding: InputBinding | None = None,
    ) -> None:
        """`origin` are run and segment of the call, `compiled` its steps; `position` gives that of the step at hand."""
        self.origin = origin
        self.program = program
        self.compiled = compiled
        self.slots: list[Any] = [None] if slots is None else slots
        self.position = position
        self.binding = binding
        self.unwritable: dict[int, Any] = {}
        """By identity, values that could not be spilled."""

    @cached_property
    def next_uses(self) -> NextUses:
        """The steps at which each slot is read."""
        return NextUses(() if self.program is None else self.program.steps)

    @property
    def absent(self) -> set[int]:
        """Slots that hold a placeholder, until a step reads them."""
        return set() if self.binding is None else self.binding.absent

    @property
    def owned(self) -> Sequence[list[Any]]:
        """Lists of values that the call brought and that nobody else holds."""
        return () if self.binding is None else self.binding.owned

    def recipes(self, position: int, find: Callable[[int, bool], Any] | None = None) -> RecipeFinder | None:
        """Return what finds recipes for its values before the step at a position; see `RecipeFinder`."""
        if self.program is None:
            return None
        return RecipeFinder(self.origin, self.program, self.compiled, position, find or self._find, self.paths)

    def _find(self, slot: int, freed: bool) -> Any:
        if not freed:
            return self.slots[slot]
        return GONE if self.binding is None else self.binding.bound(slot)
