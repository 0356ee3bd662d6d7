"""Input binding: fills the slots of a program from named values of the worker, objects and the call itself.

Named values are bound first, so that they can be evicted for what comes from elsewhere. No limit is kept here
(`memory_limit`), and nothing runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from raygrad.proto.codec.values import Packed
from raygrad.proto.ir.program import Call, Item, Pinned, Program

from ..values.packed_values import POISON, coming, unpack_all
from ..values.placeholders import GONE, Placeholder
from .accounting import MemoryAccount
from .named_values import NamedValues

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray


class InputBinding:
    """The inputs of one call.

    Args:
        call: which.
        program: what it runs.
        objects: what it brings: lists of values, which somebody else may hold, or `Packed`.
        slots: to be filled.
        named: the named values of the worker; those that this call is the last to read are taken out.
    """

    def __init__(
        self, call: Call, program: Program, objects: Sequence[Any], slots: list[Any], named: NamedValues
    ) -> None:
        self._call = call
        self._program = program
        self._objects = objects
        self._slots = slots
        self._named = named
        self.names: dict[int, tuple[int, int]] = {}
        """By slot, the name of the value that it was bound to."""
        self.absent: set[int] = set()
        """Slots that hold a placeholder, until a step reads them."""
        self.brought: list[list[Any]] = []
        """Per object, its values, once they are unpacked."""
        self.owned: list[list[Any]] = []
        """The lists among them that nobody else holds."""

    @property
    def inline(self) -> list[Any]:
        """The values that the call itself carries."""
        return [value for value in self._call.externals if not isinstance(value, Item | Pinned)]

    def bind_named(self) -> bool:
        """Fill slots from named values; return False, with nothing released, if some input of the call is poison: what
        was lost may be made again, and the call come again."""
        slots, names, named = self._slots, self.names, self._named
        if self._objects and any(values is POISON for values in self._objects):
            return False
        for (_, slot), source in zip(self._program.externals, self._call.externals, strict=True):
            if isinstance(source, Pinned):
                slots[slot] = named[source]
                names[slot] = source
        lasts: list[tuple[int, int]] = []
        for value, slot, last in self._program.unpins:
            key = names[slot] = (self._call.run, value)
            slots[slot] = named[key]
            if last:
                lasts.append(key)
        if not names:
            return True
        self.absent.update([slot for slot in names if isinstance(slots[slot], Placeholder)])
        for slot in names:
            if slots[slot] is POISON:
                return False
        named.release(lasts)
        return True

    def bind_supplied(self) -> bool:
        """Fill the slots of a program that reads nothing but arrays that its call carries, as a step that starts from
        leaves does; return False, with nothing done, for any other."""
        program, sources = self._program, self._call.externals
        if program.imports or program.unpins:
            return False
        for source in sources:
            if type(source) is not _ARRAY:
                return False
        slots = self._slots
        for (_, slot), source in zip(program.externals, sources, strict=True):
            slots[slot] = source
        return True

    def sizes(self, account: MemoryAccount) -> Mapping[str, int]:
        """Return, per memory, the bytes that the call will bring, beyond those in the account."""
        here = [value for values in self._objects if not isinstance(values, Packed) for value in values]
        sizes = Counter(account.additional([*self.inline, *here]))
        for packed in self._objects:
            if isinstance(packed, Packed):
                sizes.update(coming(packed))
        return sizes

    def bind_brought(self) -> list[int]:
        """Unpack what the call brings, and fill slots from it; return which."""
        for one in self._objects:
            values: list[Any] = [] if isinstance(one, Packed) else one
            if isinstance(one, Packed):
                self.owned.append(values)  # empty as yet: what comes first can be evicted for the rest
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
        # what came first may have been evicted for what came after it
        absent = [slot for slot in filled if type(slots[slot]) is not _ARRAY and isinstance(slots[slot], Placeholder)]
        self.absent.update(absent)
        return filled

    def bound(self, slot: int) -> Any:
        """Return what a slot was bound to, as long as it is held: GONE if it was released, or if nothing was bound."""
        name = self.names.get(slot)
        if name is not None:
            return self._named.get(name, GONE)
        for (_, number), source in zip(self._program.externals, self._call.externals, strict=True):
            if number == slot:
                return self.brought[source.argument][source.index] if isinstance(source, Item) else source
        for targets, values in zip(self._program.imports, self.brought, strict=False):
            if slot in targets:
                return values[targets.index(slot)]
        return GONE
