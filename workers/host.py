"""One worker: its programs, its copies of user code, the values pinned on it, and the running of calls.

Rules of this file: single-threaded use, no transport. `run` never raises for errors of user code: they come back in
the record, and the values that were not made are POISON, so that later segments are skipped, not hung.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.devices.room import GiveWay, giving_way
from raygrad.autograd.devices.serving import device_of, is_elsewhere, to_host
from raygrad.autograd.modes import Modes, state
from raygrad.autograd.tensor import Tensor
from raygrad.errors import ExecutionError, NotShippable
from raygrad.proto.graph import ROLE_MEMORY
from raygrad.proto.program import (
    INLINE_RESULT_BYTES,
    LONG_NODE_SECONDS,
    Call,
    Failure,
    Item,
    Learned,
    Pinned,
    Program,
    Record,
    Step,
    Timing,
)
from raygrad.proto.values import Packed, pack_values, unpack_values

from .collector import collecting_rarely
from .contexts import LARGE, Alike, Context
from .emit import emitting_to
from .parking import in_the_way, to_leave
from .registrations import use_registrations
from .runner import Execute, compile_steps, node_name
from .shipping import Shipment, open_shipment, pack_exception, pickle_value
from .spilling import Parked, Spilled, SpillFile
from .staged import pack_object, staged, unpack_object, unstaged
from .waits import SUSPECT_SECONDS, Waits
from .warned import WarningCollector
from .weighing import Scales

PROGRAM_CACHE: Final = 512
"""Programs kept per worker: enough for the plans of several training loops, a bound on memory."""


class _Poison:
    """Stands for a value that was not made, because something before it failed."""

    def __repr__(self) -> str:
        return "POISON"

    def __reduce__(self) -> str:
        return "POISON"


POISON: Final = _Poison()


class RunReport:
    """What a run tells besides its values; see `Record`."""

    def __init__(self) -> None:
        self.learned: list[Learned] = []
        self.undefined: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
        self.hooks: list[int] = []
        self.emits: list[tuple[int, int, str, Any]] = []
        self.began = 0.0
        """See `Timing`."""
        self.inputs = 0.0
        self.steps = 0.0
        self.waited = 0.0
        self.peaks: tuple[tuple[str, int], ...] = ()
        self.nodes: list[tuple[int, float, float]] = []


class WorkerHost:
    """A worker as its process sees it."""

    def __init__(self, name: str, warnings: WarningCollector | None = None) -> None:
        self.name = name
        self.report = RunReport()
        self._warnings = warnings
        """Where the process is the worker's own: what user code warns of goes to the client."""
        self._programs: dict[bytes, tuple[Program, list[tuple[Execute, tuple[int, ...]]]]] = {}
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
        if type(found) is not Parked:
            return found
        with giving_way(self._gives_way((), [None], lambda: 0)):
            return self.loaded(found.spilled)

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
        spilled = self._written(value)
        parked = slots[slot] = Parked(spilled)
        name = self._came.get(slot)
        pinned = name in self._pins
        if name is not None and pinned:
            self._pins[name] = parked
        if self._scales is not None:
            for _ in range(1 + pinned):
                self._scales.take(value)
        return spilled

    def _written(self, value: Any) -> Spilled:
        return self.spills.write(pack_values([portable(value)]))

    def loaded(self, spilled: Spilled | None) -> Any:
        """Return the value that was spilled, with the same bits."""
        return None if spilled is None else restored(unpack_values(spilled.read())[0])

    def left(self, context: Context) -> Context:
        """Return a context as backward left it. Nobody may ever look at it, but it stays as long as the client holds
        its graph (CX-02): on disk, where memory is limited and it holds much."""
        if self._spares and context.nbytes >= LARGE and not any(context.bound()):
            with contextlib.suppress(NotShippable):
                spilled = self._written(context)
                context.put_away(lambda: self.loaded(spilled).packed())
        return context

    def _make_way(self, call: Call) -> None:
        """Have values of other runs wait on disk, where the call needs their room."""
        reads = {source for source in call.externals if isinstance(source, Pinned)}
        for name in in_the_way(dict(self._pins), call.run, reads, call.beside):
            with contextlib.suppress(NotShippable):  # it stays, as the plan knows of what cannot be taken apart
                self._pins[name] = Parked(self._written(self._pins[name]))

    @property
    def pinned(self) -> int:
        """How many values are pinned here."""
        return len(self._pins)

    # ---- objects that cross processes -----------------------------------------------------------------------------

    def pack(self, values: list[Any] | _Poison, asked: bool = False) -> Packed | _Poison:
        """Return an object's values in a form that crosses processes; if the client `asked` for them, with what they
        hold on devices.

        Raises:
            NotShippable: a context that cannot be pickled, or something that holds an array of a device.
        """
        if isinstance(values, _Poison):
            return values
        alike = Alike()
        entries: list[Any] = []
        for number, value in enumerate(values):
            place = alike.place(value, number) if type(value) is Context else -1
            entries.append(portable(value, asked) if place < 0 else (LIKE, place))
        return pack_values(entries)

    def unpack(self, packed: Packed | _Poison) -> list[Any] | _Poison:
        """Return the values of a packed object; arrays are read-only."""
        if isinstance(packed, _Poison):
            return packed
        values: list[Any] = []
        rebuilt: dict[int, list[Any]] = {}
        entries = unpack_values(packed)
        for entry in entries:
            if type(entry) is tuple and entry[0] == LIKE:
                place = cast("tuple[str, int]", entry)[1]
                values.append(Context(packed=entries[place][1], rebuilt=rebuilt.setdefault(place, [])))
            else:
                values.append(restored(entry))
        return values

    # ---- running --------------------------------------------------------------------------------------------------

    def run(self, call: Call, objects: Sequence[Any], unpacking: float = 0.0) -> tuple[Record, list[Any]]:
        """Run a call; return its record and, per exported object, its values (POISON when it did not get there).

        `unpacking` are the seconds that decoding the call and unpacking its objects took, which the record tells.
        """
        self.unpin(call.unpin)
        program, steps = self._compiled(call.program)
        report = self.report = RunReport()
        self._opened.clear()
        self._spares = bool(call.beside)
        if call.beside:
            self._make_way(call)
        started = time.perf_counter()
        report.began = time.monotonic() - unpacking
        position = 0
        slots: list[Any] = [None] * (program.slots + 1)  # the last, number -1, takes what nobody reads
        callers = state.here
        state.here = Modes()  # none of the caller's, and none that user code leaves behind (DR-10)
        state.passes = callers.passes
        state.local = self._local
        try:
            filled = self._fill(program, call, objects, slots)
            away = self._away
            begun = time.perf_counter()
            report.inputs = begun - started + unpacking
            if not filled:
                return self._ended(call, program, report, started, "skipped", None)
            emit_index = 0

            def sink(name: str, value: Any) -> None:
                nonlocal emit_index
                report.emits.append((program.steps[position].index, emit_index, name, pickle_value(_detached(value))))
                emit_index += 1

            if self._warnings is not None:
                self._warnings.begin(lambda: program.steps[position].index)
            gives = self._gives_way(program.steps, slots, lambda: position)
            with emitting_to(sink), np.errstate(all="ignore"), giving_way(gives), collecting_rarely() as collector:
                clock, after_a_step = time.perf_counter, collector.after_a_step
                waits = Waits()
                scales = self._scales = Scales(list(self._pins.values()), slots) if call.beside else None
                since = clock()
                for position, (execute, frees) in enumerate(steps):
                    if away:
                        self._bring(program.steps[position], slots)
                    execute(slots)
                    if scales is not None:
                        scales.stepped(program.steps[position], slots)
                    for slot in frees:
                        slots[slot] = None
                    now = clock()
                    if now - since >= LONG_NODE_SECONDS:
                        took, offset = now - since, since - started + unpacking
                        if took >= SUSPECT_SECONDS:
                            took = max(took - waits.since(), LONG_NODE_SECONDS)
                        report.nodes.append((program.steps[position].index, offset, took))
                    since = after_a_step(now)
                report.steps = since - begun
                report.waited = waits.seconds
                report.peaks = () if scales is None else tuple(sorted(scales.peaks.items()))
            return self._done(call, program, report, started, slots)
        except Exception as error:
            failure = self._failure(program, position, slots, error)
            return self._ended(call, program, report, started, "failed", failure)
        finally:
            state.here = callers

    def _compiled(self, key: bytes) -> tuple[Program, list[tuple[Execute, tuple[int, ...]]]]:
        found = self._programs.get(key)
        if found is None:
            program = self._sources.get(key)
            if program is None:
                raise ExecutionError(f"the program {key.hex()} was not loaded on worker {self.name}")
            if len(self._programs) >= PROGRAM_CACHE:
                del self._programs[next(iter(self._programs))]
            frees = [step.frees for step in program.steps]
            found = self._programs[key] = (program, list(zip(compile_steps(program, self), frees, strict=True)))
        return found

    def _fill(self, program: Program, call: Call, objects: Sequence[Any], slots: list[Any]) -> bool:
        """Put what the call brings into slots; False if some of it is poisoned."""
        came = self._came = {}
        away = self._away = set()
        if any(values is POISON for values in objects):
            return False
        for targets, values in zip(program.imports, objects, strict=False):
            for slot, value in zip(targets, values, strict=True):
                if slot >= 0:
                    slots[slot] = value
        for (_, slot), source in zip(program.externals, call.externals, strict=True):
            if isinstance(source, Item):
                slots[slot] = objects[source.argument][source.index]
            elif isinstance(source, Pinned):
                slots[slot] = self._pins[source]
                came[slot] = source
                if slots[slot] is POISON:
                    return False
                if type(slots[slot]) is Parked:
                    away.add(slot)
            else:
                slots[slot] = source
        for value, slot, last in program.unpins:
            key = (call.run, value)
            slots[slot] = self._pins.pop(key) if last else self._pins[key]
            came[slot] = key
            if slots[slot] is POISON:
                return False
            if type(slots[slot]) is Parked:
                away.add(slot)
        return True

    def _bring(self, step: Step, slots: list[Any]) -> None:
        """Bring what a step reads and waits on disk."""
        if step.node.role == ROLE_MEMORY and step.node.fn == "spill":
            return  # it stays there
        for slot in step.node.inputs:
            if slot not in self._away:
                continue
            self._away.discard(slot)
            parked = slots[slot]
            slots[slot] = value = self.loaded(parked.spilled)
            name = self._came.get(slot)
            pinned = name is not None and self._pins.get(name) is parked
            if name is not None and pinned:
                self._pins[name] = value
            if self._scales is not None:
                for _ in range(1 + pinned):
                    self._scales.put(value)

    def _gives_way(self, steps: Sequence[Step], slots: list[Any], position: Callable[[], int]) -> GiveWay:
        """Return what has values leave a device while the step at a position runs: they wait on disk."""
        told = False

        def gives(device: str, what: str) -> bool:
            nonlocal told
            places, names, size = to_leave(device, steps, position(), slots, self._pins)
            if not size:
                return False
            for slot in places:
                self.spill(slots, slot)
                self._away.add(slot)
            for name in names:
                value = self._pins[name]
                if type(value) is not Parked:
                    self._pins[name] = Parked(self._written(value))
                    if self._scales is not None:
                        self._scales.take(value)
            if not told:
                told = True
                warnings.warn(
                    f"{device} ran out of memory {what}: values that are not needed now wait on the disk of "
                    f"{self.name}, and are read from there. Session(gpu_memory=...) has the plan see to that, which "
                    "is faster: by what costs least, making again what takes less time",
                    UserWarning,
                    stacklevel=1,
                )
            return True

        return gives

    def _done(
        self, call: Call, program: Program, report: RunReport, started: float, slots: list[Any]
    ) -> tuple[Record, list[Any]]:
        pins, results = program.pins, program.results
        sizes: list[tuple[int, int]] = []
        if program.open_base >= 0:
            extra = range(program.slots + 1, len(slots))  # after the slot of what nobody reads
            opened = tuple([(slot, program.open_base + i) for i, slot in enumerate(extra)])
            sizes = [(value, _size(slots[slot])) for slot, value in opened]
            pins, results = pins + opened, results + opened
        for slot, value in pins:
            self._pins[call.run, value] = slots[slot]
        small = [(value, slots[slot]) for slot, value in results if _rides(slots[slot])]
        exports = [[slots[slot] for slot in group] for group in program.exports]
        if call.beside or self._away:
            exports = [[self.loaded(v.spilled) if type(v) is Parked else v for v in values] for values in exports]
        record = self._record(call, report, started, "done", None)._replace(
            exports=tuple(
                [(sum(max(_size(v), 0) for v in values), sum(_saved_size(v) for v in values)) for values in exports]
            ),
            results=tuple(small),
            sizes=tuple(sizes),
        )
        return record, exports

    def _ended(
        self, call: Call, program: Program, report: RunReport, started: float, status: str, failure: Failure | None
    ) -> tuple[Record, list[Any]]:
        for _, value in program.pins:
            self._pins[call.run, value] = POISON
        return self._record(call, report, started, status, failure), [POISON for _ in program.exports]

    def _record(self, call: Call, report: RunReport, started: float, status: str, failure: Failure | None) -> Record:
        return Record(
            run=call.run,
            segment=call.segment,
            attempt=call.attempt,
            worker=self.name,
            pid=os.getpid(),
            seconds=time.perf_counter() - started,
            status=status,
            exports=(),
            results=(),
            sizes=(),
            learned=tuple(report.learned),
            undefined=tuple(report.undefined),
            emits=tuple(report.emits),
            hooks=tuple(report.hooks),
            failure=failure,
            warned=() if self._warnings is None else self._warnings.end(),
            timing=Timing(report.began, report.inputs, report.steps, 0.0, tuple(report.nodes), report.waited),
            peaks=report.peaks,
        )

    def _failure(self, program: Program, position: int, slots: list[Any], error: Exception) -> Failure:
        if position >= len(program.steps):
            return Failure(-1, "segment", (), _trace(error), pack_exception(error), type(error).__name__, str(error))
        step = program.steps[position]
        code = None
        if step.node.fn.startswith("@"):
            shipped = self._shipments.get(step.node.fn[1:])
            code = None if shipped is None else shipped
        shapes = tuple(_shape(slots[slot]) for slot in step.node.inputs if slot >= 0)
        name = node_name(step.node) if code is None else node_name(step.node._replace(fn=code.name))
        return Failure(step.index, name, shapes, _trace(error), pack_exception(error), type(error).__name__, str(error))


def packed_since(record: Record, started: float) -> Record:
    """Return the record of a run whose outputs have been packed since then, by `time.perf_counter`."""
    return record._replace(timing=record.timing._replace(outputs=time.perf_counter() - started))


def _trace(error: Exception) -> str:
    return "".join(traceback.format_exception(error))


def _shape(value: Any) -> str:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return f"{array.dtype}{list(array.shape)}"
    if is_elsewhere(value):
        return f"{value.dtype}{list(value.shape)} on {device_of(value)}"
    return "context" if isinstance(value, Context) else type(value).__name__


def _detached(value: Any) -> Any:
    if isinstance(value, Tensor):
        return Tensor.made(to_host(value.read()))
    if isinstance(value, tuple):
        return tuple(_detached(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_detached(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {k: _detached(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _size(value: Any) -> int:
    if value is None:
        return -1
    if isinstance(value, np.ndarray | Context) or is_elsewhere(value):
        return value.nbytes
    return 0


def _saved_size(value: Any) -> int:
    return value.nbytes if isinstance(value, Context) else 0


def _rides(value: Any) -> bool:
    """Tell whether a kept value is small enough to ride in the record; objects that are no arrays always do. Arrays of
    a device never do, nor what waits on disk: they stay there until somebody asks."""
    if isinstance(value, Context | Parked) or is_elsewhere(value):
        return False
    return not isinstance(value, np.ndarray) or value.nbytes <= INLINE_RESULT_BYTES


LIKE: Final = "like"
"""Of an entry of an object: a context that is packed like an earlier entry."""


def portable(value: Any, asked: bool = False) -> Any:
    """Return a value as arrays, plain data and blobs, which the codec takes; `restored` is its inverse. What the client
    `asked` for goes with what it holds on devices.

    Raises:
        NotShippable: it cannot be pickled, or holds an array of a device and was not asked for.
    """
    if value is None or type(value) in (np.ndarray, float, int, bool, str):
        return value
    if isinstance(value, Context):
        return ("context", value.packed(asked))
    if is_elsewhere(value):
        return ("device", *staged(value))
    return ("object", *pack_object(value, asked))


def restored(value: Any) -> Any:
    """Return the value that `portable` was given."""
    if type(value) is not tuple:
        return value
    kind, *body = cast("tuple[Any, ...]", value)
    if kind == "device":
        return unstaged(*body)
    if kind == "context":
        return Context(packed=body[0])
    return unpack_object(body)
