"""The Ray actor of a worker: a host behind remote calls.

It runs in the worker's process and imports no backend. Arguments and results are bytes and packed objects. Nothing is
put into the object store from here: what an actor puts there is lost with it. Calls come on several threads and in any
order: the call sequencer orders them, and one thread carries them out."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from raygrad.errors import NotShippable
from raygrad.proto.codec.values import Packed
from raygrad.proto.ir.program import Pinned
from raygrad.scheduler.machine.machine import DEFAULT_WINDOW
from raygrad.scheduler.model.numerics_class import Numerics

from ...code.shipping import Shipment
from ...code.warning_capture import WarningCollector
from ...process.blas_threads import limit_blas
from ...process.call_sequencer import FIRST_RANK, LAST_RANK, UNSEQUENCED, CallSequencer
from ...process.copy_budget import CopyBudget
from ...process.default_session import remove_from_environment
from ...process.emit_outbox import EmitOutbox
from ...process.fault_points import REPLY_SECONDS, FaultHook
from ...process.garbage_collection import freeze_loaded_modules
from ...process.gpu_assignment import serve_gpus
from ...process.host import CallProgress, WorkerHost
from ...process.numerics_class import numerics
from ...process.run_record import packed_since
from ...process.single_thread_executor import SingleThreadExecutor
from ...values.device_staging import Left, noting
from ...values.emit_chunks import ChunkStore, EmitChunk
from ...values.packed_values import POISON, WITHDRAWN
from ...values.wire import (
    Frame,
    compact,
    decode_call,
    decode_order,
    decode_program,
    encode_answer,
    encode_record,
    pieces,
)
from ..base import failed_record

T = TypeVar("T")

FetchReply: TypeAlias = tuple[bool, int, tuple[Left, ...]]
"""(whether the value exists, its bytes, what left its device for it)."""

MAX_CONCURRENT_CALLS: Final = 2 * DEFAULT_WINDOW + 1
"""Threads on which calls wait for the sequencer: one for each segment that may be sent ahead, and as many again, so
that a call for which others wait always finds one; and one on which the client waits for emits."""


CONTROL_GROUP: Final = "control"
"""The concurrency group of methods that are called while others run."""


class WorkerActor:
    """The actor: a host behind remote calls. Its methods answer with values, never with errors of user code."""

    def __init__(self, name: str, blas_threads: int) -> None:
        _remove_repository_from_path()
        remove_from_environment()
        importlib.import_module("raygrad.autograd")  # the catalogue of built-in ops
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = str(blas_threads)  # for libraries that are loaded later
        limit_blas(blas_threads)
        self._host = WorkerHost(name, WarningCollector(), may_be_lost=True)
        self._sequencer = CallSequencer()
        self._copy_budget = CopyBudget()
        self._thread = SingleThreadExecutor("raygrad-worker")
        self._outbox = EmitOutbox(ChunkStore())
        self._host.send_emits = self._outbox.send
        self._unread: dict[bytes, Frame | bytes] = {}
        """By key, encoded programs that no call has named yet."""
        freeze_loaded_modules()

    def hello(self, whereabouts: Callable[[], T]) -> tuple[int, T]:
        """Return the process id, and the result of `whereabouts` in this process."""
        return os.getpid(), whereabouts()

    def serve(
        self, numbers: Sequence[int], simulated: bool, memory: int | None = None, name: str = ""
    ) -> tuple[str, Numerics]:
        """Serve the GPUs of this process under these numbers, and no others. Return why that is impossible, or "", and
        the numerics classes of this process. With a `name`, take it: that of a worker which joins is known late."""
        self._host.name = name or self._host.name
        return serve_gpus(self._host.name, numbers, simulated, memory), numerics()

    def pass_on(self, size: int, *_waited_for: Any) -> Any:
        """Return `size` bytes once its arguments are here; `links` measures calls and links with it."""
        return self._sequenced(lambda: np.zeros(size, np.uint8) if size else b"")

    def compute(self, seconds: float) -> None:
        """Work for so many CPU seconds; `links` measures with it what delays a call."""

        def computed() -> None:
            numbers = np.ones(8192)
            end = time.thread_time() + seconds
            while time.thread_time() < end:
                np.sin(numbers)

        self._sequenced(computed)

    def load(self, number: int, programs: Mapping[bytes, Frame | bytes], code: Mapping[str, Shipment]) -> None:
        """Store programs and their user code. Each program is decoded when a call names it: a later one delays no call,
        and one that cannot be decoded fails its own calls only."""

        def loaded() -> None:
            for fingerprint, shipment in code.items():
                self._host.learn(fingerprint, shipment)
            self._unread.update(programs)

        self._sequenced(loaded, number)

    def run(self, *arguments: Any) -> Any:
        """Carry out an order: its calls, one after the other. The objects that they read follow it as arguments.

        Returns the answer, followed by the exported objects, if any.
        """
        (number, after, exports, frames, run, priority), references = decode_order(arguments)

        def ran() -> Any:
            began = time.perf_counter()
            records: list[Frame | bytes] = []
            packed: list[Any] = []
            withdrawn = self._sequencer.withdrawn_parts(number)
            for position, frame in enumerate(frames):
                if position in withdrawn:
                    records.append(b"")
                    continue
                record, objects = self._ran(frame, references, exports)
                records.append(record)
                packed += objects
            answer = encode_answer(records)
            if self._copy_budget.worked(time.perf_counter() - began):
                self._sequencer.hurry()
            if self._host.faults is not None:
                threading.Timer(REPLY_SECONDS, self._host.faults.reached, ("reply",)).start()
            return (answer, *packed) if exports else answer

        withdrawn = any([one is WITHDRAWN for one in references])
        if withdrawn:
            self._sequencer.skip(number)
        if withdrawn or not self._sequencer.acquire(number, after, (run, -priority)):
            return (None, *[WITHDRAWN] * exports) if exports else None
        return self._call(ran, number)

    def take_emits(self) -> list[EmitChunk]:
        """Wait until running calls have sent emits ahead of their records, and return them."""
        return self._outbox.take()

    def withdraw(self, messages: Sequence[tuple[int, tuple[int, ...], bool]]) -> tuple[int, ...]:
        """Withdraw calls that have not begun: per message its number, their positions in it, and whether these are all.
        Return the messages that had not begun."""
        return tuple(self._sequencer.withdraw(messages))

    def _ran(self, frame: Frame | bytes, references: Sequence[Any], exports: int) -> tuple[Frame | bytes, list[Any]]:
        """Run one call; return its record, encoded, and its packed objects."""
        started = time.perf_counter()
        call = decode_call(pieces(frame))
        host = self._host
        try:
            unread = self._unread.get(call.program)
            if unread is not None:
                host.load(call.program, decode_program(pieces(unread)))
                del self._unread[call.program]
            record, values = host.run(call, references, time.perf_counter() - started)
            packing = time.perf_counter()
            packed = [host.pack(one) for one in values]
            host.stored()
            return compact(encode_record(packed_since(record, packing))), packed
        except BaseException as error:  # also SystemExit, which would end the actor: the record says what happened
            seconds = time.perf_counter() - started
            failed = failed_record(call, host.name, os.getpid(), error, seconds)
            return compact(encode_record(failed)), [POISON] * exports

    def stop(self, runs: Sequence[int]) -> tuple[int, int] | None:
        """See `WorkerHost.stop`. Called beside all others, in a concurrency group of its own (`CONTROL_GROUP`)."""
        return self._host.stop(runs)

    def progress(self) -> CallProgress | None:
        """See `WorkerHost.progress`; called as `stop`."""
        return self._host.progress()

    def set_fault_hook(self, hook: FaultHook | None) -> None:
        """Call a hook at the points of this worker; see `fault_points`."""
        self._host.faults = hook

    def abandon_message(self, number: int, values: Sequence[Pinned]) -> None:
        """Cancel order `number`, whose arguments were lost: the values that it would have pinned are poison."""
        self._host.poison(values)
        self._sequencer.end(number)

    def fetch(self, run: int, value: int, requested: bool, *_waited_for: Any) -> tuple[FetchReply, Any]:
        """Return a `FetchReply` and, as an object, a pinned value; with `requested`, including its arrays on
        devices."""

        return self._sequenced(lambda: self._fetched(run, value, requested))

    def copy(self, values: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
        """Return the `FetchReply`s of values, each (run, value), and these as objects: between two calls if the budget
        is open, else when nothing else waits for its turn. They are copies of their own: Ray stores them while the next
        call runs, which may write to what a context holds."""

        def copied() -> tuple[Any, ...]:
            began = time.perf_counter()
            made = [self._copied(*one) for one in values]
            self._copy_budget.copied(time.perf_counter() - began)
            return ([reply for reply, _ in made], *[packed for _, packed in made])

        return self._sequenced(copied, rank=FIRST_RANK if self._copy_budget.open else LAST_RANK)

    def _copied(self, run: int, value: int) -> tuple[FetchReply, Any]:
        try:
            reply, packed = self._fetched(run, value, requested=False)
        except NotShippable:  # what comes with it goes on its way
            return (False, 0, ()), POISON
        return reply, packed.copied() if isinstance(packed, Packed) else packed

    def _fetched(self, run: int, value: int, requested: bool) -> tuple[FetchReply, Any]:
        try:
            found = self._host.fetch(run, value)
        except KeyError:  # the segment that was to pin it failed, or its last reader has run
            found = POISON
        if found is POISON:
            return (False, 0, ()), POISON
        with noting() as left:
            packed = self._host.pack([found], requested)
        return (True, packed.nbytes if isinstance(packed, Packed) else 0, tuple(left)), packed

    def forget_programs(self, keys: Sequence[bytes]) -> None:
        """Forget programs that no call will name any more."""

        def forgotten() -> None:
            for key in keys:
                self._unread.pop(key, None)
            self._host.forget(keys)

        self._sequenced(forgotten)

    def unpin(self, number: int, after: tuple[int, ...], values: Sequence[Pinned]) -> None:
        """Release pinned values: message `number`, which comes after those named."""
        self._sequenced(lambda: self._host.unpin(values), number, after)

    def _sequenced(
        self,
        function: Callable[[], T],
        number: int = UNSEQUENCED,
        after: tuple[int, ...] = (),
        rank: tuple[int, float] = FIRST_RANK,
    ) -> T:
        """Call a function on the worker's thread, in the order of the sequencer."""
        self._sequencer.acquire(number, after, rank)
        return self._call(function, number)

    def _call(self, function: Callable[[], T], number: int) -> T:
        """Call a function that the sequencer has admitted on the worker's thread."""
        try:
            return self._thread.call(function)
        finally:
            self._sequencer.release(number)


def _remove_repository_from_path() -> None:
    """Remove raygrad's repository from `sys.path`, where Ray puts the driver's folder: other projects are called
    `autograd` and `proto`, too."""
    root = Path(__file__).resolve().parents[3]
    if (root / "proto" / "ir" / "graph.py").exists() and root.name != "raygrad":
        sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != root]
