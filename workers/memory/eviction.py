"""Making room in a memory that has none, or would pass its limit, while the steps of a call run.

Rules of this file: what is done with values that no step needs now (`parking` says which). They wait on the worker's
disk: for the limits of a session that is all (`within`). Where a device has no room at all, those that cannot be
written are let go, and made again when a step asks for them, if their steps may run again (`again`). What can do
neither stays, and the error says that there is no room.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol

from raygrad.autograd.devices.backends.device_memory import shapes_of, with_room
from raygrad.autograd.devices.serving import at_hand, is_elsewhere
from raygrad.errors import ExecutionError, NotShippable, OutOfDeviceMemory
from raygrad.proto.ir.nodes import UNDEFINED
from raygrad.proto.ir.program import Program, Step

from ..interpreter.arguments import Slots
from ..interpreter.functions import Execute, Host
from ..values.contexts import Context
from ..values.memory_accounting import owners_of
from ..values.spill_files import Away, Parked
from .eviction_policy import NEVER, Place, Reads, half_of, held_by, places_to_leave
from .rematerialize import Again, Recipes, repeats


class Holder(Protocol):
    """The worker, as far as it is asked for."""

    @property
    def name(self) -> str:
        """Its name, for messages."""
        ...

    @property
    def pins(self) -> dict[tuple[int, int], Any]:
        """What is pinned on it."""
        ...

    def parked(self, value: Any) -> Parked:
        """Write a value to disk.

        Raises:
            NotShippable, ExecutionError: it cannot be written.
        """
        ...

    def moved(self, value: Any, slot: int = -1) -> None:
        """A value that was pinned, or in a slot, has gone."""


class MakingWay:
    """Has values leave a device. See the head of this file."""

    def __init__(
        self,
        holder: Holder,
        origin: tuple[int, int],
        program: Program | None,
        steps: Sequence[tuple[Execute, tuple[int, ...]]],
        slots: list[Any],
        position: Callable[[], int],
        came: Callable[[int], Any],
        objects: Sequence[list[Any]] = (),
    ) -> None:
        """`origin` are run and segment of the call; `position` is that of the step at hand among the steps of the
        program; `came` gives what the call brought in a slot, GONE for none or what is not there any more; of
        `objects` it brought, nobody else holds the lists."""
        self._objects = objects
        self._came = came
        self._holder = holder
        self._origin = origin
        self._program = program
        self._steps: Sequence[Step] = () if program is None else program.steps
        self._compiled = steps
        self._slots = slots
        self._position = position
        self._stays: dict[int, Any] = {}
        """By identity, values that cannot be written."""
        self.failed: ExecutionError | None = None
        """Why the disk did not take something."""
        self._told = False

    def __call__(self, device: str, what: str) -> bool:
        """Have some of what no step needs now leave a device; return whether there was anything.

        Raises:
            ExecutionError: nothing could leave, since the disk takes no more.
        """
        if self._purged():
            return True
        went = self.leave(device, self._position()) or self._let_go(device)
        if went:
            self._purged()
            self._tell(device, what)
        elif self.failed is not None:
            raise self.failed
        return went

    def _purged(self) -> bool:
        """Let go of what was found not to go to disk, and is held by nobody else any more; return whether there was
        something."""
        held = {id(value) for value in self._slots}
        held.update([id(place.value) for place in held_by(self._others())])
        gone = [one for one in self._stays if one not in held]
        for one in gone:
            del self._stays[one]
        return bool(gone)

    def leave(
        self,
        memory: str,
        position: int,
        want: int | None = None,
        *,
        stays: Collection[int] = (),
        among: Iterable[int] | None = None,
    ) -> bool:
        """Write to disk what a step at a position does not read, for so many bytes of a memory or half of what can go;
        return whether anything was. For the arguments see `places_to_leave`."""
        while True:
            places, _ = self._to_leave(memory, position, want, stays=stays, among=among)
            if not places:
                return False
            if self.put_away(places):
                return True

    def spare(self, memory: str, position: int, but: Container[int], among: Iterable[int]) -> int:
        """Return how many bytes of a memory could leave it, while a step runs, of all but some slots."""
        return self._to_leave(memory, position, NEVER, but=but, among=among, unwritten=False)[1]

    def _to_leave(
        self,
        memory: str,
        position: int,
        want: int | None,
        *,
        stays: Collection[int] = (),
        but: Container[int] = (),
        among: Iterable[int] | None = None,
        unwritten: bool = True,
    ) -> tuple[list[Place], int]:
        staying = set(stays)
        if unwritten:
            staying.update([owner for value in self._stays.values() for owner, _, _ in owners_of(value)])
        others = self._others()
        return places_to_leave(
            memory, self._reads, position, self._slots, others, want=want, stays=staying, but=but, among=among
        )

    @cached_property
    def _reads(self) -> Reads:
        return Reads(self._steps)

    def put_away(self, places: Sequence[Place]) -> bool:
        """Write values to disk; return whether one was."""
        written: dict[int, Parked | None] = {}
        for place in places:
            value = place.value
            if id(value) not in written:
                written[id(value)] = self._written(value)
            parked = written[id(value)]
            if parked is not None:
                place.put(parked)
                self._moved(place, value)
        return any([parked is not None for parked in written.values()])

    def _moved(self, place: Place, value: Any) -> None:
        if place.holder is self._slots:
            self._holder.moved(value, place.key)
        elif place.holder is self._holder.pins:
            self._holder.moved(value)

    def _written(self, value: Any) -> Parked | None:
        try:
            if type(value) is not Context or not any(value.bound()):  # a copy would hold other tensors than these
                return self._holder.parked(value)
        except (NotShippable, MemoryError):  # one with gaps is made dense on its device, which is full
            pass
        except ExecutionError as error:
            self.failed = ExecutionError(str(error))  # the frames of that hold the value
        self._stays[id(value)] = value
        return None

    def _let_go(self, device: str) -> bool:
        """Let go of values that cannot be written and can be made again; return whether there was one."""
        position = self._position()
        recipes = (
            None
            if self._program is None
            else Recipes(self._origin, self._program, self._compiled, position, self._at_hand)
        )
        found: list[tuple[int, int, Place, Again]] = []
        for slot in range(len(self._slots) - 1):
            until = self._reads.next(slot, position)
            if until > position and self._may_go(self._slots[slot], device):
                value = self._slots[slot]
                again = self._again(recipes, slot, value)
                if again is not None:
                    found.append((until, _size(value, device), Place(self._slots, slot), again))
        held = {id(value) for value in self._slots}
        for name, value in self._holder.pins.items():
            if id(value) not in held and self._may_go(value, device):
                again = self._again(None, -1, value)
                if again is not None:
                    found.append((NEVER, _size(value, device), Place(self._holder.pins, name), again))
        found.sort(key=lambda one: -one[0])
        gone: dict[int, tuple[Any, Again]] = {}
        for _, _, place, again in half_of(found, lambda one: one[1]):
            value = place.value
            gone[id(value)] = value, again
            place.put(again)
            self._moved(place, value)
        for place in held_by(self._others()) if gone else ():  # the same, where it is held besides
            value = place.value
            if id(value) in gone and gone[id(value)][0] is value:
                place.put(gone[id(value)][1])
                self._moved(place, value)
        return bool(gone)

    def _may_go(self, value: Any, device: str) -> bool:
        """Tell whether a value was found not to go to disk, or may hold more on the device than is seen."""
        if isinstance(value, Away):
            return False
        return id(value) in self._stays or (isinstance(value, Context) and value.hides(device))

    def _again(self, recipes: Recipes | None, slot: int, value: Any) -> Again | None:
        """Return what makes a value again."""
        if isinstance(value, Context):
            if value.again is None and recipes is not None:
                value.again = recipes.of_context(slot, value)
            return value.again
        recipe = None if recipes is None else recipes.of(slot)
        return None if recipe is None else Again(recipe)

    def _at_hand(self, slot: int, freed: bool) -> Any:
        return self._came(slot) if freed else self._slots[slot]

    def _others(self) -> list[dict[Any, Any] | list[Any]]:
        """Return where else values are held than in slots."""
        pins = self._holder.pins
        found: list[dict[Any, Any] | list[Any]] = [pins, *self._objects]
        held = [value.again if type(value) is Context else value for value in (*self._slots, *pins.values())]
        stack = [value.recipe for value in held if type(value) is Again]
        seen: set[int] = set()
        while stack:
            recipe = stack.pop()
            if id(recipe.inputs) in seen:
                continue
            seen.add(id(recipe.inputs))
            found.append(recipe.inputs)
            stack.extend([one.recipe for one in recipe.inputs.values() if type(one) is Again])
        return found

    def _tell(self, device: str, what: str) -> None:
        if not self._told:
            self._told = True
            warnings.warn(
                f"{device} ran out of memory {what}: values that are not needed now wait on the disk of "
                f"{self._holder.name}, and are read from there, or are made again if they cannot be written there. "
                "Session(gpu_memory=...) has the plan see to that, which is faster: by what costs least",
                UserWarning,
                stacklevel=1,
            )


def in_room(execute: Execute, step: Step, host: Host) -> Execute:
    """Return what runs a step of user code, of which a kernel of its own may find no room on a device: it runs again
    once others have made way, if it may run again at all."""

    def run(slots: Slots) -> None:
        emitted = len(host.report.emits)
        try:
            execute(slots)
            return
        except MemoryError as error:
            backend = None if isinstance(error, OutOfDeviceMemory) else at_hand()
            if backend is None or not isinstance(error, backend.exhausted):
                raise  # of the host, or by who made way already
            last = error.with_traceback(None)  # whose frames hold what was made so far
        given = [slots[slot] for slot in step.node.inputs if slot != UNDEFINED and is_elsewhere(slots[slot])]
        index = backend.index_of(given[0]) if given else backend.current()
        what = f"in user code that was given {shapes_of(given)}"
        if not repeats(step):
            raise OutOfDeviceMemory(
                f"{backend.kind}:{index} is out of memory {what}: {last}; only for raygrad's own operations other "
                "values make way: use these, have the plan leave room (Session(gpu_memory=...)), or set pure = True on "
                "a Function whose forward may run again once others have made way"
            ) from last

        def again() -> None:
            del host.report.emits[emitted:]
            execute(slots)

        with_room(backend, index, lambda: what, again)

    return run


def _size(value: Any, device: str) -> int:
    """Return the bytes of a value that are seen on a device; at least one."""
    return max(sum([size for _, memory, size in owners_of(value) if memory == device]), 1)
