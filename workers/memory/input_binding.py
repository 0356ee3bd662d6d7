"""What a call reads and brings, put into the slots of its program.

Rules of this file: what is where, and how much will come; no limit is kept here (`within`), and nothing runs. What is
pinned on the worker goes into slots first, so that it can make way for what comes from elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from raygrad.proto.codec.values import Packed
from raygrad.proto.ir.program import Call, Item, Pinned, Program

from ..values.memory_accounting import Scales
from ..values.packed_values import POISON, coming, unpack_all
from ..values.spill_files import Away
from .rematerialize import GONE


class TakingIn:
    """What one call reads and brings.

    Args:
        call: which.
        program: what it runs.
        objects: those that it brings: lists of values, which somebody else may have, or `Packed`.
        slots: to be filled.
        pins: what is pinned on the worker.
    """

    def __init__(
        self, call: Call, program: Program, objects: Sequence[Any], slots: list[Any], pins: dict[tuple[int, int], Any]
    ) -> None:
        self._call = call
        self._program = program
        self._objects = objects
        self._slots = slots
        self._pins = pins
        self.names: dict[int, tuple[int, int]] = {}
        """By slot, under which name what came in it is pinned."""
        self.away: set[int] = set()
        """Slots of which the value waits on disk, until a step reads it."""
        self.brought: list[list[Any]] = []
        """Per object, its values, once they are taken in."""
        self.owned: list[list[Any]] = []
        """Those of them that nobody else has."""

    @property
    def given(self) -> list[Any]:
        """What came with the call itself."""
        return [value for value in self._call.externals if not isinstance(value, Item | Pinned)]

    def find(self) -> bool:
        """Put into slots what is pinned; return whether all is there, and will be, that the call reads."""
        slots, names, pins = self._slots, self.names, self._pins
        if any(values is POISON for values in self._objects):
            return False
        for (_, slot), source in zip(self._program.externals, self._call.externals, strict=True):
            if isinstance(source, Pinned):
                slots[slot] = pins[source]
                names[slot] = source
        for value, slot, last in self._program.unpins:
            key = names[slot] = (self._call.run, value)
            slots[slot] = pins.pop(key) if last else pins[key]
        self.away.update([slot for slot in names if isinstance(slots[slot], Away)])
        return all([slots[slot] is not POISON for slot in names])

    def sizes(self, scales: Scales) -> Mapping[str, int]:
        """Return, per memory, the bytes that will come, beside what is held."""
        here = [value for values in self._objects if not isinstance(values, Packed) for value in values]
        sizes = Counter(scales.more([*self.given, *here]))
        for packed in self._objects:
            if isinstance(packed, Packed):
                sizes.update(coming(packed))
        return sizes

    def take(self) -> list[int]:
        """Unpack what came, and put it into slots; return which."""
        for one in self._objects:
            values: list[Any] = [] if isinstance(one, Packed) else one
            if isinstance(one, Packed):
                self.owned.append(values)  # empty as yet: what comes first may make way for the rest
                unpack_all(one, values)
            self.brought.append(values)
        slots, brought = self._slots, self.brought
        filled: list[int] = []
        for targets, values in zip(self._program.imports, brought, strict=False):
            for slot, value in zip(targets, values, strict=True):
                if slot >= 0:
                    slots[slot] = value
                    filled.append(slot)
        for (_, slot), source in zip(self._program.externals, self._call.externals, strict=True):
            if not isinstance(source, Pinned):
                slots[slot] = brought[source.argument][source.index] if isinstance(source, Item) else source
                filled.append(slot)
        # what came first may have made way for what came after it
        self.away.update([slot for slot in filled if isinstance(slots[slot], Away)])
        return filled

    def came(self, slot: int) -> Any:
        """Return what came in a slot, as long as it is there: GONE for what is not, or came in none."""
        name = self.names.get(slot)
        if name is not None:
            return self._pins.get(name, GONE)
        for (_, number), source in zip(self._program.externals, self._call.externals, strict=True):
            if number == slot:
                return self.brought[source.argument][source.index] if isinstance(source, Item) else source
        for targets, values in zip(self._program.imports, self.brought, strict=False):
            if slot in targets:
                return values[targets.index(slot)]
        return GONE
