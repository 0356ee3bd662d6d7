"""One worker: its programs, its copies of user code, and the running of calls over the values in its store.

Executors call it from one thread. `run` never raises for errors of user code: they come back in the record, and the
values that were not made are POISON, so that later segments are skipped, not hung.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from raygrad.autograd.core.modes import Modes, state
from raygrad.autograd.core.random_streams import ALL_ALIKE
from raygrad.errors import ExecutionError
from raygrad.proto.codec.values import Packed
from raygrad.proto.ir.program import LONG_NODE_SECONDS, Call, Failure, Pinned, Program, Record

from ..code.changing_code import note_run
from ..code.op_registry_sync import use_registrations
from ..code.shipping import Shipment, open_shipment, pickle_value
from ..code.unpickling import opens_as_worker
from ..code.warning_capture import WarningCollector
from ..code.warning_filters import filtered_by, numbered_filters, unpack_filters
from ..interpreter.compiled_steps import CompiledStep, compiled_steps
from ..interpreter.default_settings import WorkerSettings
from ..interpreter.interruption import InterruptGate
from ..interpreter.user_emits import emitting_to
from ..memory.rematerialize import rerunnable_contexts
from ..memory.store import ValueStore
from ..values.packed_values import POISON, Poison, pack_all
from .call_emits import CallEmits, Send
from .fault_points import FaultHook, watched_steps
from .garbage_collection import CollectorSchedule, fewer_collections
from .gil_wait import SUSPECT_SECONDS, GilWaitClock
from .run_record import (
    NO_VALUES,
    RecordBuilder,
    RecordedValues,
    detached,
    failure_of,
    record_of,
    recorded_values,
    size_of,
)

PROGRAM_CACHE: Final = 512
"""Programs kept per worker: enough for the plans of several training loops, a bound on memory."""

STOPPED_RUNS: Final = 4096
"""The most runs that are remembered as stopped. Calls of earlier ones have ended long since."""


class CallProgress(NamedTuple):
    """How far the call is that a host runs."""

    run: int
    segment: int
    attempt: int
    node: int
    """The index of the node that runs, -1 before the first."""
    node_seconds: float
    """For how long that node has been running."""
    seconds: float
    """For how long the call has been running."""


class _Compiled(NamedTuple):
    """A program, ready to run."""

    program: Program
    steps: Sequence[CompiledStep]
    user_code: tuple[int, ...]
    """Node indices of the steps that run user code."""
    contexts: tuple[int, ...]
    """Slots of what is pinned and may be the context of a pure Function."""


class WorkerHost:
    """A worker as its process sees it."""

    def __init__(self, name: str, warnings: WarningCollector | None = None, *, may_be_lost: bool = False) -> None:
        """What a worker has done that `may_be_lost` may be done again by another one: its records tell fingerprints."""
        self.name = name
        self._may_be_lost = may_be_lost
        self.report = RecordBuilder()
        self._warnings = warnings
        """Where the process is the worker's own: what user code warns of goes to the client."""
        self._programs: dict[bytes, _Compiled] = {}
        self._sources: dict[bytes, Program] = {}
        self._shipments: dict[str, Shipment] = {}
        self._opened: dict[str, tuple[Shipment, Any]] = {}
        """Code that this run has used, by its name in the graph."""
        self.values = ValueStore(name, self._silently)
        self.gate = InterruptGate()
        self._stopped: dict[int, None] = {}
        """Runs whose calls are skipped, in the order of being stopped."""
        self._collector: CollectorSchedule | None = None
        """Of the call that runs, between whose steps it is looked at."""
        self._progress: Callable[[], tuple[int, float, float]] | None = None
        """Returns the last fields of `CallProgress` of the call that runs."""
        self.send_emits: Send | None = None
        """Sends chunks of emits ahead of the record of a call that goes on."""
        self.faults: FaultHook | None = None
        """Called at the points of `fault_points`."""
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
            use_registrations(known[0].registrations)
            return known[1]
        shipment = self._shipments.get(fn[1:])
        if shipment is None:
            raise ExecutionError(f"the code '{fn}' was not shipped to worker {self.name}")
        use_registrations(shipment.registrations)
        opened = open_shipment(shipment, captured)
        if not captured:
            self._opened[fn] = (shipment, opened)
        return opened

    def filtered(self, number: int, packed: bytes) -> AbstractContextManager[None]:
        """Return a block under the filters of `warnings` with which user code was recorded: by their number in the
        client's process or, in another one, by what the client packed."""
        if self._warnings is None:
            return filtered_by(numbered_filters(number))
        return filtered_by(unpack_filters(packed), of_program=False) if packed else contextlib.nullcontext()

    def forget(self, keys: Sequence[bytes]) -> None:
        """Forget programs that no call will name any more. Any thread may call this."""
        for key in keys:
            self._sources.pop(key, None)

    def unpin(self, values: Sequence[Pinned]) -> None:
        """Release pinned values. Any thread may call this."""
        self.values.release(values)

    def poison(self, values: Sequence[Pinned]) -> None:
        """Pin POISON in the place of values that will not be made."""
        self.values.poison(values)

    def fetch(self, run: int, value: int) -> Any:
        """Return a pinned value.

        Raises:
            KeyError: it is not here.
        """
        return self.values.get((run, value))

    def has_in_memory(self, run: int, value: int) -> bool:
        """Tell whether a pinned value is an array in this process's memory, which any thread may read."""
        return self.values.is_array((run, value))

    def peek(self, run: int, value: int) -> Any:
        """Return a pinned value that is an array in this process's memory, else None. Any thread may call this."""
        return self.values.peek((run, value))

    def brought(self, exports: list[Any]) -> list[Any]:
        """Return what a run exports, with what is not in memory."""
        return [self.values.restore_all(values) for values in exports]

    @property
    def pinned(self) -> int:
        """How many values are pinned here."""
        return len(self.values)

    def stop(self, runs: Iterable[int]) -> tuple[int, int] | None:
        """Skip all calls of these runs from now on, and interrupt the one that runs, if it is of them: return its (run,
        segment). Any thread may call this."""
        self._stopped.update(dict.fromkeys(runs))
        while len(self._stopped) > STOPPED_RUNS:
            del self._stopped[next(iter(self._stopped))]
        call = self.gate.call  # set before a call looks whether its run is stopped
        if call is None or call.run not in self._stopped:
            return None
        self.gate.interrupt(call)
        collector = self._collector
        if collector is not None:
            collector.due = 0.0  # have it looked at after this node
        return call.run, call.segment

    def progress(self) -> CallProgress | None:
        """Return how far the call that runs is. Any thread may call this."""
        call, progress = self.gate.call, self._progress
        return None if call is None or progress is None else CallProgress(*call[:3], *progress())

    # ---- objects that cross processes -----------------------------------------------------------------------------

    def pack(self, values: list[Any] | Poison, asked: bool = False) -> Packed | Poison:
        """See `pack_all`."""
        return pack_all(values, self.values.restore, asked)

    def stored(self) -> None:
        """Enter that the objects of a call are made, and that its reply has not left."""
        if self.faults is not None:
            self.faults.reached("stored")

    # ---- running --------------------------------------------------------------------------------------------------

    def run(self, call: Call, objects: Sequence[Any], unpacking: float = 0.0) -> tuple[Record, list[Any]]:
        """Run a call; return its record and, per exported object, its values (POISON when it did not get there), for
        `pack` or `brought`.

        Objects that are `Packed` are unpacked once memory is reserved for what is in them; of others somebody else may
        have the lists. `unpacking` are the seconds that decoding the call took, which the record tells.
        """
        store = self.values
        if call.unpin:
            store.release(call.unpin)
        program, steps, user_code, _ = self._compiled(call.program)
        report = self.report = RecordBuilder()
        self._opened.clear()
        gate = self.gate
        gate.begin(call)
        started = since = time.perf_counter()
        report.began = time.monotonic() - unpacking
        position = -1
        values = store.open_call(call, program, steps, objects, lambda: max(position, 0))
        slots = values.slots
        callers = state.here
        # none of the caller's modes, and none that user code leaves behind (DR-10)
        state.here = Modes(callers.passes, self._local, store.free_device)
        state.here.paths = values.paths = dict(zip(user_code, call.paths, strict=True)) if call.paths else ALL_ALIKE
        clock = time.perf_counter

        def progress() -> tuple[int, float, float]:
            now = clock()
            return program.steps[position].index if position >= 0 else -1, now - since, now - started

        self._progress = progress
        try:
            if call.run in self._stopped:
                return self._ended(call, program, report, started, "skipped", None)
            faults = self.faults
            if faults is not None:
                faults.reached("call")
            complete = store.bind_inputs(call)
            begun = time.perf_counter()
            report.inputs = begun - started + unpacking
            if not complete:
                return self._ended(call, program, report, started, "skipped", None)
            limiter, absent = values.limiter, values.absent
            emits = report.emits = CallEmits(call, self.name, self.send_emits)

            def sink(name: str, value: Any) -> None:
                emits.add(program.steps[position].index, name, pickle_value(detached(value)))

            if self._warnings is not None:
                self._warnings.begin(lambda: program.steps[position].index)
            with emitting_to(sink), WorkerSettings(), fewer_collections() as collector:
                self._collector = collector
                waits, idled = GilWaitClock(), 0.0
                since = clock()
                for position, (execute, frees) in enumerate(steps if faults is None else watched_steps(steps, faults)):
                    if limiter is not None:
                        limiter.before_step(position)
                    if absent:
                        store.restore_inputs(program.steps[position])
                    execute(slots)
                    if limiter is not None:
                        limiter.after_step(position)
                    for slot in frees:
                        slots[slot] = None
                    now = clock()
                    if now - since >= LONG_NODE_SECONDS:
                        took, offset = now - since, since - started + unpacking
                        if took >= SUSPECT_SECONDS:
                            took = max(took - waits.since() - (emits.waited - idled), LONG_NODE_SECONDS)
                            idled = emits.waited
                        report.nodes.append((program.steps[position].index, offset, took))
                    since = now if now <= collector.due else self._pause(collector)
                report.steps = since - begun
                report.waited = waits.seconds + emits.waited
                if values.account is not None:
                    report.peaks = tuple(sorted(values.account.peaks.items()))
            return self._done(call, program, report, started, slots)
        except BaseException as error:
            if gate.requested and type(error) is not KeyboardInterrupt:
                return self._ended(call, program, report, started, "skipped", None)
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # where Ctrl-C arrives; elsewhere user code raised it, like any other
            failure = self._failure(program, position, slots, error)
            return self._ended(call, program, report, started, "failed", failure)
        finally:
            gate.call = self._progress = self._collector = None
            state.here = callers
            store.close_call()
            for shipment, opened in self._opened.values():
                if shipment.watched is not None and opened is shipment.live:
                    note_run(shipment)

    def _pause(self, collector: CollectorSchedule) -> float:
        """Look, between two steps, for what is not looked for after each; return the time at the end.

        Raises:
            SegmentInterrupted: the call is to end.
        """
        self.gate.check()
        return collector.look()

    def _compiled(self, key: bytes) -> _Compiled:
        found = self._programs.get(key)
        if found is None:
            program = self._sources.get(key)
            if program is None:
                raise ExecutionError(f"the program {key.hex()} was not loaded on worker {self.name}")
            if len(self._programs) >= PROGRAM_CACHE:
                del self._programs[next(iter(self._programs))]
            steps = compiled_steps(program, self, fingerprints=self._may_be_lost)
            found = self._programs[key] = _Compiled(
                program, steps, tuple([index for index, _ in program.user_code]), rerunnable_contexts(program)
            )
        return found

    @contextlib.contextmanager
    def _silently(self) -> Generator[None]:
        """Return a block in which steps run whose records and emits nobody gets."""
        report, self.report = self.report, RecordBuilder()
        callers = state.here
        state.here = Modes(callers.passes, self._local, callers.evict)
        try:
            with WorkerSettings(), emitting_to(None):
                yield
        finally:
            self.report, state.here = report, callers

    def _done(
        self, call: Call, program: Program, report: RecordBuilder, started: float, slots: list[Any]
    ) -> tuple[Record, list[Any]]:
        pins, results = program.pins, program.results
        sizes: list[tuple[int, int]] = []
        if program.open_base >= 0:
            extra = range(program.slots + 1, len(slots))  # after the slot of what nobody reads
            opened = tuple([(slot, program.open_base + i) for i, slot in enumerate(extra)])
            sizes = [(value, size_of(slots[slot])) for slot, value in opened]
            pins, results = pins + opened, results + opened
        self.values.keep_outputs(call.run, pins, slots)
        contexts = self._programs[call.program].contexts
        if contexts:
            self.values.note_recipes(contexts)
        exports = [[slots[slot] for slot in group] for group in program.exports]
        values = recorded_values(slots, results, exports, sizes)
        return self._record(call, report, started, "done", values=values), exports

    def _ended(
        self, call: Call, program: Program, report: RecordBuilder, started: float, status: str, failure: Failure | None
    ) -> tuple[Record, list[Any]]:
        self.values.poison([(call.run, value) for _, value in program.pins])
        return self._record(call, report, started, status, failure), [POISON for _ in program.exports]

    def _record(
        self,
        call: Call,
        report: RecordBuilder,
        started: float,
        status: str,
        failure: Failure | None = None,
        values: RecordedValues = NO_VALUES,
    ) -> Record:
        warned = () if self._warnings is None else self._warnings.end()
        return record_of(call, self.name, report, started, status, failure, warned, values)

    def _failure(self, program: Program, position: int, slots: list[Any], error: BaseException) -> Failure:
        fn = program.steps[position].node.fn if 0 <= position < len(program.steps) else ""
        shipped = self._shipments.get(fn[1:]) if fn.startswith("@") else None
        shares = self._warnings is None and not opens_as_worker()
        name = None if shipped is None else shipped.name
        return failure_of(program, position, slots, error, name, shares_process=shares)
