"""The value store of a worker: where each value is, how that changes, and how the memory limits are kept.

A value is in one state wherever it is held (a slot of the running call, its names, a list that the call brought, the
inputs of a recipe), since all of these are moved together:

    state       what is held            counted                 a read gives
    IN_MEMORY   the value               in its memory           the value
    SPILLED     a `SpilledValue`        on disk, no memory      the bits that were written
    RECIPE      a `RecipeValue`         its inputs, if held     the bits that its steps make again

    from        to          when                                                            by
    -           IN_MEMORY   a step makes it; the call brings it; it is put                  `put`, input binding
    IN_MEMORY   SPILLED     a step of the plan spills it                                    `spill_slot`
                            other runs' values pass the headroom that a call leaves         `keep_headroom`
                            a step or an input needs the memory, within the limit           `reserve`
                            a device is full, or backward has left a large context          `free_device`, `spill_left`
    IN_MEMORY   RECIPE      a device is full, the disk does not take it, and it may rerun   `free_device`
    SPILLED     IN_MEMORY   a step reads it: in its slot and under its name                 `restore_inputs`
    RECIPE      IN_MEMORY   likewise, as often as it was dropped                            `restore_inputs`
    any         same        it is read from outside of a call, or exported: a copy          `get`, `restore`
    any         released    its last name and slot are gone; its part of the file with it   `release`

A write ends before the placeholder is put in the value's place, so no read finds a value that is half on disk; one that
fails leaves the value in memory. All methods are the worker's own thread's, except `release`, `is_array` and `peek`,
which any may call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from raygrad.autograd.devices.backends.device_memory import evicting_with
from raygrad.errors import NotShippable
from raygrad.proto.codec.values import pack_values, unpack_values
from raygrad.proto.ir.nodes import Spill
from raygrad.proto.ir.program import Call, Program, Step
from raygrad.scheduler.model.unseen_function_bytes import UnseenFunctions

from ..values.contexts import LARGE, Context
from ..values.packed_values import POISON, portable, restored
from ..values.placeholders import GONE, Placeholder, SpilledValue, ValueState, state_of
from ..values.slots import Execute
from ..values.spill_file import FileRegion, SpillFile
from .accounting import MemoryAccount, shares_of
from .call_values import CallValues
from .evictor import Evictor
from .input_binding import InputBinding
from .memory_limit import MemoryLimiter
from .named_values import NO_NAME, Name, NamedValues
from .rematerialize import RecipeFinder


class ValueStore:
    """The values of one worker. See the head of this file."""

    def __init__(self, worker: str, silently: Callable[[], AbstractContextManager[None]]) -> None:
        """`worker` is its name, for messages; `silently` opens a block in which steps run without a report or emits."""
        self.silently = silently
        self.file = SpillFile()
        self._named = NamedValues()
        self._evictor = Evictor(worker, self._named, self.spill)
        self._call: CallValues | None = None
        self._limited = False
        """Memory is limited in the latest call."""
        self._unseen = UnseenFunctions()

    # ---- named values -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._named)

    def put(self, name: Name, value: Any) -> None:
        """Hold a value, or a placeholder of one, under a name."""
        self._named[name] = value

    def get(self, name: Name) -> Any:
        """Return a value. One that is not in memory stays where it is.

        Raises:
            KeyError: there is none of this name.
        """
        return self.restore(self._named[name])

    def state(self, name: Name) -> ValueState:
        """Return where a value is.

        Raises:
            KeyError: there is none of this name.
        """
        return state_of(self._named[name])

    def is_array(self, name: Name) -> bool:
        """Tell whether an array of the host is held under a name, in memory. Any thread may call this."""
        return type(self._named.get(name)) is np.ndarray

    def peek(self, name: Name) -> Any:
        """Return an array of the host that is held under a name, in memory; else None. Any thread may call this."""
        value = self._named.get(name)
        return value if type(value) is np.ndarray else None

    def release(self, names: Iterable[Name]) -> None:
        """Hold values under these names no longer. Any thread may call this."""
        self._named.release(names)

    def poison(self, names: Iterable[Name]) -> None:
        """Hold POISON under the names of values that will not be made."""
        self._named.update(dict.fromkeys(names, POISON))

    # ---- one value ----------------------------------------------------------------------------------------------

    def spill(self, value: Any) -> SpilledValue:
        """Write a value to disk, and return its placeholder.

        Raises:
            ExecutionError: the disk does not take it.
            NotShippable: it cannot be pickled.
        """
        sizes = [(memory, size) for _, memory, size in shares_of(value)]
        # it stays with its worker
        return SpilledValue(self.file.write(pack_values([portable(value, asked=True)])), sizes)

    def load(self, region: FileRegion | None) -> Any:
        """Return the value that was written to a part of the file, None for an undefined one."""
        value = None if region is None else restored(unpack_values(region.read())[0])
        if type(value) is Context:
            value.settle()
        return value

    def restore(self, value: Any) -> Any:
        """Return a value that is held so, outside of the steps of a call. Others are evicted where a device is full."""
        if not isinstance(value, Placeholder):
            return value
        with evicting_with(self.free_device):
            return value.restore(self)

    def restore_all(self, values: Any) -> Any:
        """Return the values of an object, or POISON."""
        if values is POISON or not any([isinstance(value, Placeholder) for value in values]):
            return values
        return [self.restore(value) for value in values]

    def spill_left(self, context: Context) -> Context:
        """Return a context as backward left it. It may never be read, but stays as long as the client holds its graph
        (CX-02): on disk, where memory is limited and it is large."""
        if self._limited and context.nbytes >= LARGE and not any(context.bound()):
            with contextlib.suppress(NotShippable):
                spilled = self.spill(context)
                context.put_away(lambda: self.load(spilled.region).packed())
        return context

    # ---- the values of a call -----------------------------------------------------------------------------------

    def open_call(
        self,
        call: Call,
        program: Program,
        compiled: Sequence[tuple[Execute, tuple[int, ...]]],
        objects: Sequence[Any],
        position: Callable[[], int],
    ) -> CallValues:
        """Return the values of a call that is about to run, of which none is bound yet; see `CallValues`."""
        slots: list[Any] = [None] * (program.slots + 1)  # the last, number -1, takes what no step reads
        binding = InputBinding(call, program, objects, slots, self._named)
        self._call = values = CallValues((call.run, call.segment), program, compiled, slots, position, binding)
        self._limited = bool(call.headroom)
        return values

    def close_call(self) -> None:
        """Hold the values of the call no longer, but for named ones."""
        self._call = None

    def bind_inputs(self, call: Call) -> bool:
        """Fill the slots of the open call; return False if some input is poison. Where memory is limited, memory is
        reserved for them first.

        Raises:
            ExecutionError: the disk does not take what has to be evicted.
        """
        values = self._call
        assert values is not None
        binding = values.binding
        assert binding is not None
        if not call.headroom:
            if binding.bind_supplied():
                return True
            if not binding.bind_named():
                return False
            binding.bind_brought()
            return True
        self._evictor.keep_headroom(call, values)
        if not binding.bind_named():
            return False
        assert values.program is not None
        account = values.account = MemoryAccount(self._named.held(), values.slots)
        limiter = MemoryLimiter(call.limits, values.program, values.slots, account, self._unseen, self)
        values.limits = dict(call.limits)
        limiter.before_inputs(binding.sizes(account))
        filled = binding.bind_brought()
        limiter.after_inputs([*binding.inline, *[value for brought in binding.brought for value in brought]], filled)
        values.limiter = limiter
        return True

    def restore_inputs(self, step: Step) -> None:
        """Bring into memory what a step of the open call reads; what it spills stays on disk."""
        call = self._call
        assert call is not None
        assert call.binding is not None
        slots, absent, names = call.slots, call.binding.absent, call.binding.names
        spills = isinstance(step.node, Spill)
        for slot in step.node.inputs:
            if slot not in absent or (spills and type(slots[slot]) is SpilledValue):
                continue
            absent.discard(slot)
            placeholder = slots[slot]
            slots[slot] = value = placeholder.restore(self)
            named = slot in names and self._named.exchange(names[slot], placeholder, value)
            if call.account is not None:
                for _ in range(1 + named):
                    call.account.add(value)

    def spill_slot(self, slots: list[Any], slot: int) -> FileRegion | None:
        """Write the value in a slot to disk for a step of the plan; return its part of the file. Where the value is
        kept beyond that step, it is kept there.

        Raises:
            ExecutionError: the disk does not take it.
            NotShippable: a context that cannot be pickled.
        """
        value = slots[slot]
        if value is None or type(value) is SpilledValue:
            return None if value is None else value.region  # it is there already
        spilled = slots[slot] = self.spill(value)
        call = self._call
        if call is None or call.binding is None:
            return spilled.region
        name = call.binding.names.get(slot)
        named = name is not None and self._named.exchange(name, self._named.get(name, GONE), spilled)
        if call.account is not None:
            for _ in range(1 + named):
                call.account.remove(value)
        return spilled.region

    def keep_outputs(self, run: int, outputs: Iterable[tuple[int, int]], slots: Sequence[Any]) -> None:
        """Hold outputs of the open call under their names: (slot, value)."""
        self._named.update({(run, value): slots[slot] for slot, value in outputs})

    def note_recipes(self, contexts: Iterable[int]) -> None:
        """Give the contexts in some slots of the open call, which has run, their recipes, if they cannot be spilled
        and may hold something on a device."""
        call = self._call
        assert call is not None
        assert call.binding is not None
        slots, names, named = call.slots, call.binding.names, self._named
        finder: RecipeFinder | None = None
        for slot in contexts:
            held = slots[slot]
            if type(held) is Context and held.recipe is None and held.hides():
                if finder is None:

                    def find(slot: int, freed: bool) -> Any:  # what came without a name ends with the call
                        return named.get(names.get(slot, NO_NAME), GONE) if freed else slots[slot]

                    finder = call.recipes(len(call.compiled), find)
                assert finder is not None
                held.recipe = finder.of_context(slot, held)

    # ---- memory -------------------------------------------------------------------------------------------------

    def reserve(
        self,
        nbytes: int,
        device: str,
        position: int | None = None,
        *,
        fixed: Collection[int] = (),
        among: Iterable[int] | None = None,
    ) -> None:
        """Evict values of the open call, and named ones, until so many bytes fit within the limit of a memory, or
        nothing is left that the step at a position does not read.

        Args:
            nbytes: how many.
            device: which memory: "cpu", "cuda:0". One without a limit needs no eviction.
            position: that of the step; None for the one at hand.
            fixed: owners of memory that stay.
            among: the slots that may hold memory, if the caller knows; None for all.

        Raises:
            ExecutionError: the disk does not take what has to be evicted.
        """
        call = self._call
        if call is not None:
            at = call.position() if position is None else position
            self._evictor.reserve(call, nbytes, device, at, fixed, among)

    def evictable(self, device: str, position: int, keep: Container[int], among: Iterable[int] | None = None) -> int:
        """Return the bytes of a memory that could be evicted while a step runs, all slots to `keep` left alone."""
        return self._evictor.evictable(self._call or CallValues(), device, position, keep, among)

    def free_device(self, device: str, what: str) -> bool:
        """Evict some of what no step needs now from a device that is full; return whether there was anything.

        Values that the disk does not take are dropped, if their steps may run again. Between calls, named values are
        evicted. `what` says what was being made.

        Raises:
            ExecutionError: nothing could be evicted, since the disk takes no more.
        """
        return self._evictor.free_device(self._call or CallValues(), device, what)
