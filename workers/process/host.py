"""One worker: its programs, its copies of user code, the values pinned on it, and the running of calls.

Rules of this file: single-threaded use, no transport. `run` never raises for errors of user code: they come back in
the record, and the values that were not made are POISON, so that later segments are skipped, not hung.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import numpy as np

from raygrad.autograd.core.modes import Modes, state
from raygrad.autograd.devices.backends.device_memory import giving_way
from raygrad.errors import ExecutionError, NotShippable
from raygrad.proto.codec.values import Packed, pack_values, unpack_values
from raygrad.proto.ir.nodes import Spill
from raygrad.proto.ir.program import LONG_NODE_SECONDS, Call, Failure, Pinned, Program, Record, Step

from ..code.op_registry_sync import use_registrations
from ..code.shipping import Shipment, open_shipment, pickle_value
from ..code.warning_capture import WarningCollector
from ..interpreter.emit import emitting_to
from ..interpreter.runner import Execute, compile_steps
from ..memory.eviction import MakingWay
from ..memory.eviction_policy import in_the_way
from ..memory.input_binding import TakingIn
from ..memory.memory_limiter import Within
from ..memory.rematerialize import GONE, Recipes, contexts_in
from ..values.contexts import LARGE, Context
from ..values.memory_accounting import Scales, shares_of
from ..values.packed_values import POISON, Poison, pack_all, portable, restored
from ..values.spill_files import Away, Parked, Spilled, SpillFile
from .garbage_collection import collecting_rarely
from .gil_wait import SUSPECT_SECONDS, Waits
from .run_record import RunReport, detached, failure_of, record_of, size_of, with_values

PROGRAM_CACHE: Final = 512
"""Programs kept per worker: enough for the plans of several training loops, a bound on memory."""


class _Compiled(NamedTuple):
    """A program, ready to run."""

    program: Program
    steps: list[tuple[Execute, tuple[int, ...]]]
    """Each with the slots that it frees."""
    contexts: tuple[int, ...]
    """Slots of what is pinned and may be the context of a pure Function."""


class WorkerHost:
    """A worker as its process sees it."""

    def __init__(self, name: str, warnings: WarningCollector | None = None) -> None:
        self.name = name
        self.report = RunReport()
        self._warnings = warnings
        """Where the process is the worker's own: what user code warns of goes to the client."""
        self._programs: dict[bytes, _Compiled] = {}
        self._sources: dict[bytes, Program] = {}
        self._shipments: dict[str, Shipment] = {}
        self._opened: dict[str, tuple[bytes, Any]] = {}
        """Code that this run has used, with the registrations under which it runs."""
        self._pins: dict[tuple[int, int], Any] = {}
        self.spills = SpillFile()
        self._spares = False
        """Memory is limited in the run that is under way."""
        self._came: dict[int, tuple[int, int]] = {}
        """By slot, under which name what came in it is pinned."""
        self._away: set[int] = set()
        """Slots of which the value waits on disk, until a step reads it."""
        self._scales: Scales | None = None
        self._made_for: dict[str, float] = {}
        """Per Function that ran first while memory was limited, how many bytes it made for each that it read."""
        self._local: dict[str, Any] = {}
        """What user code keeps here (`worker_local`, H24)."""

    # ---- what it is told ------------------------------------------------------------------------------------------

    def load(self, key: bytes, program: Program) -> None:
        """Keep a program under its hash."""
        self._sources.setdefault(key, program)

    def learn(self, fingerprint: str, shipment: Shipment) -> None:
        """Keep user code under its fingerprint."""
        self._shipments.setdefault(fingerprint, shipment)

    def code(self, fn: str, captured: Sequence[Any]) -> Any:
        """Return user code by its name in a graph ("@" and the fingerprint), with captured values bound.

        Raises:
            ExecutionError: it was never shipped here.
        """
        known = None if captured else self._opened.get(fn)
        if known is not None:
            use_registrations(known[0])
            return known[1]
        shipment = self._shipments.get(fn[1:])
        if shipment is None:
            raise ExecutionError(f"the code '{fn}' was not shipped to worker {self.name}")
        use_registrations(shipment.registrations)
        opened = open_shipment(shipment, captured)
        if not captured:
            self._opened[fn] = (shipment.registrations, opened)
        return opened

    def unpin(self, values: Sequence[Pinned]) -> None:
        """Let go of pinned values."""
        for run, value in values:
            self._pins.pop((run, value), None)

    def poison(self, values: Sequence[Pinned]) -> None:
        """Pin POISON in the place of values that will not be made."""
        for run, value in values:
            self._pins[run, value] = POISON

    def fetch(self, run: int, value: int) -> Any:
        """Return a pinned value.

        Raises:
            KeyError: it is not here.
        """
        found = self._pins[run, value]
        return self._back(found) if isinstance(found, Away) else found

    def giving(self) -> AbstractContextManager[None]:
        """Return a block in which what is pinned here makes way where a device has no room, while nothing runs."""
        return giving_way(self.give_way)

    def give_way(self, device: str, what: str) -> bool:
        """Have some of what is pinned here leave a device, while nothing runs; return whether there was anything."""
        return MakingWay(self, (-1, -1), None, (), [None], lambda: 0, lambda _: GONE)(device, what)

    def brought(self, exports: list[Any]) -> list[Any]:
        """Return what a run exports, with what waits on disk."""
        return [self._all_here(values) for values in exports]

    def _all_here(self, values: Any) -> Any:
        if values is POISON or not any([isinstance(value, Away) for value in values]):
            return values
        return [self._back(value) if isinstance(value, Away) else value for value in values]

    def _back(self, away: Away) -> Any:
        with self.giving():
            return away.back(self)

    def spill(self, slots: list[Any], slot: int) -> Spilled | None:
        """Write the value in a slot to disk, and return what stands for it there. Where the value is kept beyond the
        step that asks for this, it is kept there.

        Raises:
            ExecutionError: it cannot be written there.
            NotShippable: a context that cannot be pickled.
        """
        value = slots[slot]
        if value is None or type(value) is Parked:
            return None if value is None else value.spilled  # it waits there already
        parked = slots[slot] = self.parked(value)
        name = self._came.get(slot)
        pinned = name in self._pins
        if name is not None and pinned:
            self._pins[name] = parked
        if self._scales is not None:
            for _ in range(1 + pinned):
                self._scales.take(value)
        return parked.spilled

    def parked(self, value: Any) -> Parked:
        """See `Holder`."""
        sizes = [(memory, size) for _, memory, size in shares_of(value)]
        return Parked(self._written(value), sizes)

    def _written(self, value: Any) -> Spilled:
        return self.spills.write(pack_values([portable(value, asked=True)]))  # it stays with its worker

    def loaded(self, spilled: Spilled | None) -> Any:
        """Return the value that was spilled, with the same bits."""
        value = None if spilled is None else restored(unpack_values(spilled.read())[0])
        if type(value) is Context:
            value.settle()
        return value

    def left(self, context: Context) -> Context:
        """Return a context as backward left it. Nobody may ever look at it, but it stays as long as the client holds
        its graph (CX-02): on disk, where memory is limited and it holds much."""
        if self._spares and context.nbytes >= LARGE and not any(context.bound()):
            with contextlib.suppress(NotShippable):
                spilled = self._written(context)
                context.put_away(lambda: self.loaded(spilled).packed())
        return context

    def _make_way(self, call: Call, gives: MakingWay) -> None:
        """Have values of other runs wait on disk, where the call needs their room."""
        reads = {source for source in call.externals if isinstance(source, Pinned)}
        for memory, room in call.beside:
            gives.put_away(in_the_way(self._pins, call.run, reads, memory, room))
        if gives.failed is not None:
            raise gives.failed

    @property
    def pinned(self) -> int:
        """How many values are pinned here."""
        return len(self._pins)

    # ---- objects that cross processes -----------------------------------------------------------------------------

    def pack(self, values: list[Any] | Poison, asked: bool = False) -> Packed | Poison:
        """See `pack_all`."""
        return pack_all(values, self._back, asked)

    # ---- running --------------------------------------------------------------------------------------------------

    def run(self, call: Call, objects: Sequence[Any], unpacking: float = 0.0) -> tuple[Record, list[Any]]:
        """Run a call; return its record and, per exported object, its values (POISON when it did not get there), for
        `pack` or `brought`.

        Objects that are `Packed` are unpacked once there is room for what is in them; of others somebody else may have
        the lists. `unpacking` are the seconds that decoding the call took, which the record tells.
        """
        self.unpin(call.unpin)
        program, steps, _ = self._compiled(call.program)
        report = self.report = RunReport()
        self._opened.clear()
        self._scales = None
        self._spares = bool(call.beside)
        started = time.perf_counter()
        report.began = time.monotonic() - unpacking
        position = -1
        slots: list[Any] = [None] * (program.slots + 1)  # the last, number -1, takes what nobody reads
        taking = TakingIn(call, program, objects, slots, self._pins)
        self._came = taking.names
        away = self._away = taking.away
        origin, at = (call.run, call.segment), lambda: max(position, 0)
        gives = MakingWay(self, origin, program, steps, slots, at, taking.came, taking.owned)
        callers = state.here
        state.here = Modes()  # none of the caller's, and none that user code leaves behind (DR-10)
        state.passes = callers.passes
        state.local = self._local
        try:
            with giving_way(gives):
                within = self._taken_in(call, program, slots, taking, gives)
            begun = time.perf_counter()
            report.inputs = begun - started + unpacking
            if isinstance(within, Poison):
                return self._ended(call, program, report, started, "skipped", None)
            emit_index = 0

            def sink(name: str, value: Any) -> None:
                nonlocal emit_index
                report.emits.append((program.steps[position].index, emit_index, name, pickle_value(detached(value))))
                emit_index += 1

            if self._warnings is not None:
                self._warnings.begin(lambda: program.steps[position].index)
            with emitting_to(sink), np.errstate(all="ignore"), giving_way(gives), collecting_rarely() as collector:
                clock = time.perf_counter
                waits = Waits()
                since = clock()
                for position, (execute, frees) in enumerate(steps):
                    if within is not None:
                        within.begin(position, self._waiting(program.steps[position], slots) if away else ())
                    if away:
                        self._bring(program.steps[position], slots)
                    execute(slots)
                    if within is not None:
                        within.weigh(position)
                    for slot in frees:
                        slots[slot] = None
                    now = clock()
                    if now - since >= LONG_NODE_SECONDS:
                        took, offset = now - since, since - started + unpacking
                        if took >= SUSPECT_SECONDS:
                            took = max(took - waits.since(), LONG_NODE_SECONDS)
                        report.nodes.append((program.steps[position].index, offset, took))
                    since = now if now <= collector.due else collector.look()
                report.steps = since - begun
                report.waited = waits.seconds
                if self._scales is not None:
                    report.peaks = tuple(sorted(self._scales.peaks.items()))
            return self._done(call, program, report, started, slots)
        except Exception as error:
            failure = self._failure(program, position, slots, error)
            return self._ended(call, program, report, started, "failed", failure)
        finally:
            state.here = callers

    def _taken_in(
        self, call: Call, program: Program, slots: list[Any], taking: TakingIn, gives: MakingWay
    ) -> Within | Poison | None:
        """Have what the call reads and brings in slots: POISON if some of it is that. Where memory is limited there is
        room made for it first; return what goes on keeping to the limits."""
        if call.beside:
            self._make_way(call, gives)
        if not taking.find():
            return POISON
        if not call.beside:
            taking.take()
            return None
        scales = self._scales = Scales([*self._pins.values()], slots)
        within = Within(call.limits, program, slots, scales, self._made_for, gives)
        within.welcome(taking.sizes(scales))
        filled = taking.take()
        within.brought([*taking.given, *[value for values in taking.brought for value in values]], filled)
        return within

    def _compiled(self, key: bytes) -> _Compiled:
        found = self._programs.get(key)
        if found is None:
            program = self._sources.get(key)
            if program is None:
                raise ExecutionError(f"the program {key.hex()} was not loaded on worker {self.name}")
            if len(self._programs) >= PROGRAM_CACHE:
                del self._programs[next(iter(self._programs))]
            frees = [step.frees for step in program.steps]
            steps = list(zip(compile_steps(program, self), frees, strict=True))
            found = self._programs[key] = _Compiled(program, steps, contexts_in(program))
        return found

    def _bring(self, step: Step, slots: list[Any]) -> None:
        """Bring what a step reads and waits on disk."""
        spills = isinstance(step.node, Spill)
        for slot in step.node.inputs:
            if slot not in self._away or (spills and type(slots[slot]) is Parked):  # it stays there
                continue
            self._away.discard(slot)
            parked = slots[slot]
            slots[slot] = value = parked.back(self)
            name = self._came.get(slot)
            pinned = name is not None and self._pins.get(name) is parked
            if name is not None and pinned:
                self._pins[name] = value
            if self._scales is not None:
                for _ in range(1 + pinned):
                    self._scales.put(value)

    # ---- what leaves a device that has no room ---------------------------------------------------------------------

    @property
    def pins(self) -> dict[tuple[int, int], Any]:
        """See `Holder`."""
        return self._pins

    def moved(self, value: Any, slot: int = -1) -> None:
        """See `Holder`."""
        if slot >= 0:
            self._away.add(slot)
        if self._scales is not None:
            self._scales.take(value)

    @contextlib.contextmanager
    def unnoticed(self) -> Generator[None]:
        """Return a block in which steps run whose records nobody gets."""
        report, self.report = self.report, RunReport()
        callers = state.here
        state.here = Modes()
        state.passes, state.local = callers.passes, self._local
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            self.report, state.here = report, callers

    def _note_recipes(self, call: Call, program: Program, slots: list[Any]) -> None:
        """Note how pinned contexts are made again that cannot be taken apart, and may hold something on a device."""
        _, steps, made = self._programs[call.program]
        recipes: Recipes | None = None
        for slot in made:
            held = slots[slot]
            if type(held) is Context and held.again is None and held.hides():
                if recipes is None:

                    def find(slot: int, freed: bool) -> Any:
                        return self._pins.get(self._came.get(slot, (-1, -1)), GONE) if freed else slots[slot]

                    recipes = Recipes((call.run, call.segment), program, steps, len(steps), find)
                held.again = recipes.of_context(slot, held)

    def _waiting(self, step: Step, slots: Sequence[Any]) -> list[tuple[str, int]]:
        """Return memory and bytes of what a step reads and waits on disk."""
        if isinstance(step.node, Spill):
            return []
        parked = [slots[slot] for slot in {*step.node.inputs} & self._away]
        return [share for one in parked if type(one) is Parked for share in one.sizes]

    def _done(
        self, call: Call, program: Program, report: RunReport, started: float, slots: list[Any]
    ) -> tuple[Record, list[Any]]:
        pins, results = program.pins, program.results
        sizes: list[tuple[int, int]] = []
        if program.open_base >= 0:
            extra = range(program.slots + 1, len(slots))  # after the slot of what nobody reads
            opened = tuple([(slot, program.open_base + i) for i, slot in enumerate(extra)])
            sizes = [(value, size_of(slots[slot])) for slot, value in opened]
            pins, results = pins + opened, results + opened
        for slot, value in pins:
            self._pins[call.run, value] = slots[slot]
        if self._programs[call.program][2]:
            self._note_recipes(call, program, slots)
        exports = [[slots[slot] for slot in group] for group in program.exports]
        record = with_values(self._record(call, report, started, "done"), slots, results, exports, sizes)
        return record, exports

    def _ended(
        self, call: Call, program: Program, report: RunReport, started: float, status: str, failure: Failure | None
    ) -> tuple[Record, list[Any]]:
        for _, value in program.pins:
            self._pins[call.run, value] = POISON
        return self._record(call, report, started, status, failure), [POISON for _ in program.exports]

    def _record(
        self, call: Call, report: RunReport, started: float, status: str, failure: Failure | None = None
    ) -> Record:
        warned = () if self._warnings is None else self._warnings.end()
        return record_of(call, self.name, report, started, status, failure, warned)

    def _failure(self, program: Program, position: int, slots: list[Any], error: Exception) -> Failure:
        fn = program.steps[position].node.fn if 0 <= position < len(program.steps) else ""
        shipped = self._shipments.get(fn[1:]) if fn.startswith("@") else None
        return failure_of(program, position, slots, error, None if shipped is None else shipped.name)
