"""The evictor: spills values of a worker, or drops them for recipes, wherever they are held.

What leaves first is the policy's affair (`eviction`). A value is written once, however many places hold it, and its
placeholder is put in each of them. What cannot be written stays; on a full device it is dropped if it has a recipe.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Container, Iterable
from typing import Any, Final

from raygrad.errors import ExecutionError, NotShippable
from raygrad.proto.ir.program import Call, Pinned

from ..values.contexts import Context
from ..values.placeholders import Placeholder, SpilledValue
from .accounting import owners_of
from .call_values import CallValues
from .eviction import (
    NEVER,
    Location,
    Victims,
    choose_victims,
    headroom_victims,
    locations_in,
    until_freed,
)
from .named_values import NamedValues
from .rematerialize import RecipeFinder, RecipeValue

EVICTED_BESIDES: Final = 8
"""Whenever something is evicted for a step, this part of the limit is besides, so that not every step evicts."""


class Evictor:
    """Evicts the values of one worker.

    Args:
        worker: its name, for messages.
        named: its named values.
        spill: writes a value to disk; it may raise NotShippable, MemoryError or ExecutionError.
    """

    def __init__(self, worker: str, named: NamedValues, spill: Callable[[Any], SpilledValue]) -> None:
        self._worker = worker
        self._named = named
        self._spill = spill

    def reserve(
        self,
        call: CallValues,
        nbytes: int,
        device: str,
        position: int,
        fixed: Collection[int],
        among: Iterable[int] | None,
    ) -> None:
        """See `ValueStore.reserve`."""
        if call.account is None or device not in call.limits:
            return
        held, limit = call.account.held, call.limits[device]
        want = held.get(device, 0) + nbytes - limit + limit // EVICTED_BESIDES
        while held.get(device, 0) + nbytes > limit:
            if not self._evict(call, device, position, want, fixed=fixed, among=among):
                if call.disk_error is not None:
                    raise call.disk_error
                break

    def evictable(
        self, call: CallValues, device: str, position: int, keep: Container[int], among: Iterable[int] | None
    ) -> int:
        """See `ValueStore.evictable`."""
        return choose_victims(device, self._candidates(call, position, keep, among), position, want=NEVER).size

    def keep_headroom(self, call: Call, values: CallValues) -> None:
        """Evict named values of other runs, as far as they pass the headroom that a call leaves them."""
        reads = {source for source in call.externals if isinstance(source, Pinned)}
        for memory, headroom in call.headroom:
            victims = headroom_victims(self._named.locations(), call.run, reads, memory, headroom)
            self._spill_all(values, victims)
        if values.disk_error is not None:
            raise values.disk_error

    def free_device(self, call: CallValues, device: str, what: str) -> bool:
        """See `ValueStore.free_device`."""
        if self._forget_unwritable(call):
            return True
        evicted = self._evict(call, device, call.position()) or self._drop(call, device)
        if evicted:
            self._forget_unwritable(call)
            self._warn_once(call, device, what)
        elif call.disk_error is not None:
            raise call.disk_error
        return evicted

    def _evict(
        self,
        call: CallValues,
        memory: str,
        position: int,
        want: int | None = None,
        *,
        fixed: Collection[int] = (),
        among: Iterable[int] | None = None,
    ) -> bool:
        """Spill values that a step does not read; return whether one was. See `choose_victims`."""
        while True:
            staying = {owner for value in call.unwritable.values() for owner, _, _ in owners_of(value)}
            candidates = self._candidates(call, position, (), among)
            victims = choose_victims(memory, candidates, position, want=want, fixed=staying.union(fixed))
            if not victims.locations:
                return False
            if self._spill_all(call, victims):
                return True

    def _candidates(
        self, call: CallValues, position: int, keep: Container[int], among: Iterable[int] | None
    ) -> Iterable[tuple[Location, int]]:
        """Yield where values are held, each with the step that uses it next; slots to `keep` are used now."""
        slots, uses = call.slots, call.next_uses
        for slot in range(len(slots) - 1) if among is None else among:
            yield Location(slots, slot, slots[slot]), position if slot in keep else uses.next(slot, position)
        for place in self._outside_slots(call):
            yield place, NEVER

    def _outside_slots(self, call: CallValues) -> Iterable[Location]:
        """Yield where values are held besides slots: names, lists that the call brought, inputs of recipes."""
        named = self._named.locations()
        yield from named
        yield from locations_in(call.owned)
        held = [one.recipe if type(one) is Context else one for one in (*call.slots, *[one.value for one in named])]
        stack = [value.recipe for value in held if type(value) is RecipeValue]
        seen: set[int] = set()
        while stack:
            recipe = stack.pop()
            if id(recipe.inputs) not in seen:
                seen.add(id(recipe.inputs))
                stack.extend([value.recipe for value in recipe.inputs.values() if type(value) is RecipeValue])
                yield from locations_in([recipe.inputs])

    def _spill_all(self, call: CallValues, victims: Victims) -> bool:
        """Spill values wherever they are held; return whether one was."""
        written: dict[int, SpilledValue | None] = {}
        for place in victims.locations:
            value = place.value
            if id(value) not in written:
                written[id(value)] = self._spilled(call, value)
            placeholder = written[id(value)]
            if placeholder is not None:
                self._substitute(call, place, placeholder)
        return any([one is not None for one in written.values()])

    def _spilled(self, call: CallValues, value: Any) -> SpilledValue | None:
        """Return the placeholder of a value that was written, None if it cannot be."""
        try:
            if type(value) is not Context or not any(value.bound()):  # a copy would hold other tensors than these
                return self._spill(value)
        except (NotShippable, MemoryError):  # one with gaps is made dense on its device, which is full
            pass
        except ExecutionError as error:
            call.disk_error = type(error)(*error.args)  # the frames of that hold the value
        call.unwritable[id(value)] = value
        return None

    def _drop(self, call: CallValues, device: str) -> bool:
        """Hold recipes in the place of values on a device that cannot be spilled; return whether there was one."""
        position = call.position()
        finder = call.recipes(position)
        found: list[tuple[int, int, Location, RecipeValue]] = []
        for slot, value in enumerate(call.slots[:-1]):
            until = call.next_uses.next(slot, position)
            if until > position and self._is_unspillable(call, value, device):
                recipe = _recipe_of(finder, slot, value)
                if recipe is not None:
                    found.append((until, _size_on(value, device), Location(call.slots, slot, value), recipe))
        held = {id(value) for value in call.slots}
        for place in self._named.locations():
            if id(place.value) not in held and self._is_unspillable(call, place.value, device):
                recipe = _recipe_of(None, -1, place.value)
                if recipe is not None:
                    found.append((NEVER, _size_on(place.value, device), place, recipe))
        found.sort(key=lambda one: -one[0])
        dropped: dict[int, tuple[Any, RecipeValue]] = {}
        for _, _, place, recipe in until_freed(found, lambda one: one[1]):
            dropped[id(place.value)] = place.value, recipe
            self._substitute(call, place, recipe)
        for place in list(self._outside_slots(call)) if dropped else ():  # the same, where it is held besides
            one = dropped.get(id(place.value))
            if one is not None and one[0] is place.value:
                self._substitute(call, place, one[1])
        return bool(dropped)

    def _is_unspillable(self, call: CallValues, value: Any, device: str) -> bool:
        """Tell whether a value could not be written, or is a context that may hold more on a device than is seen."""
        if isinstance(value, Placeholder):
            return False
        return id(value) in call.unwritable or (isinstance(value, Context) and value.hides(device))

    def _forget_unwritable(self, call: CallValues) -> bool:
        """Hold values no longer that could not be written, if nothing else holds them; return whether there was one."""
        held = {id(value) for value in call.slots}
        held.update([id(place.value) for place in self._outside_slots(call)])
        gone = [one for one in call.unwritable if one not in held]
        for one in gone:
            del call.unwritable[one]
        return bool(gone)

    def _substitute(self, call: CallValues, place: Location, placeholder: Placeholder) -> None:
        """Hold a placeholder in a value's place."""
        holder, key, value = place
        if holder is self._named:
            self._named.exchange(key, value, placeholder)
        else:
            holder[key] = placeholder
            if holder is not call.slots:
                return
            if call.binding is not None:
                call.binding.absent.add(key)
        if call.account is not None:
            call.account.remove(value)

    def _warn_once(self, call: CallValues, device: str, what: str) -> None:
        if not call.has_warned:
            call.has_warned = True
            warnings.warn(
                f"{device} ran out of memory {what}: values that are not needed now wait on the disk of "
                f"{self._worker}, and are read from there, or are made again if they cannot be written there. "
                "Session(gpu_memory=...) has the plan see to that, which is faster: by what costs least",
                UserWarning,
                stacklevel=1,
            )


def _recipe_of(finder: RecipeFinder | None, slot: int, value: Any) -> RecipeValue | None:
    """Return what makes a value again that is in a slot, or that is a context whose recipe is known."""
    if isinstance(value, Context):
        if value.recipe is None and finder is not None:
            value.recipe = finder.of_context(slot, value)
        return value.recipe
    recipe = None if finder is None else finder.of(slot)
    return None if recipe is None else RecipeValue(recipe)


def _size_on(value: Any, device: str) -> int:
    """Return the bytes of a value that are seen on a device; at least one."""
    return max(sum([size for _, memory, size in owners_of(value) if memory == device]), 1)
