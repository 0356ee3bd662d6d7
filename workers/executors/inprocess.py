"""The in-process executor: workers as hosts in the client's process, the default backend (H23).

One thread at a time runs segments on a host; names are released on the caller's. With one worker segments run on the
thread that waits for them: a hop to another thread costs 55 µs when idle, milliseconds beside busy Python. With several
each has a daemon thread for heavy ones (`heavy_calls`). Which work of a worker is next, `ready_queue` says. A `strict`
executor sends everything as bytes, user code by value, as to another process."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import Context, copy_context
from typing import Any, Final

import numpy as np

from raygrad.autograd.devices.backends.device_memory import evicting_with
from raygrad.errors import ExecutionError, NotShippable, WaitTimeout
from raygrad.proto.ir.program import Pinned, Program, Record

from ..code.shipping import Shipment, opening_as_worker
from ..code.warning_capture import ThreadWarningCollector
from ..code.warning_filters import filtered_by, has_default_filters
from ..process.blas_threads import limit_blas, limit_own_thread, release_blas
from ..process.fault_points import FaultHook, FaultNotes, LocalNotes
from ..process.host import WorkerHost
from ..process.run_record import packed_since
from ..values.device_staging import Left, noting
from ..values.emit_chunks import ChunkStore, EmitChunk
from ..values.packed_values import POISON, unpack_all
from ..values.wire import decode_call, decode_program, decode_record, encode_call, encode_program, encode_record
from .base import (
    CallInterrupted,
    EmitsArrived,
    Executor,
    ObjectId,
    Report,
    SegmentId,
    SegmentReturned,
    ValueReady,
    Work,
    WorksWithdrawn,
    failed_record,
    skipped_record,
    value_object,
)
from .deadlines import WorkerProgress
from .heavy_calls import HeavyCalls
from .local_cluster import local_cluster
from .object_table import ObjectTable
from .ready_queue import Fetch, Outstanding, ReadyQueue

LATE_SECONDS: Final = 0.01
"""A call that runs on a thread that waits for results, and takes this long, holds up others: they get threads."""

WATCH_SECONDS: Final = 1.0
"""Seconds without such a call after which nobody looks for one."""

CLOSE_DEADLINE: Final = 5.0
"""Seconds that threads have to end on close; one that runs a long segment is left to it, being a daemon."""


class _Worker:
    """A host, the work that waits for it, and the thread that it has for heavy segments."""

    def __init__(self, name: str, lock: threading.Lock, *, serves_others: bool) -> None:
        self.host = WorkerHost(name, ThreadWarningCollector() if serves_others else None)
        self.name = name
        self.queue = ReadyQueue()
        self.running = False
        self.programs: set[bytes] = set()
        self.code: set[str] = set()
        self.thread: threading.Thread | None = None
        self.wake = threading.Condition(lock)
        """Notified when there is something for its thread."""


class InProcessExecutor(Executor):
    """Runs calls in this process, on `workers` hosts."""

    reports_unasked = False

    def __init__(
        self,
        workers: int = 1,
        *,
        gpus: int | None = None,
        strict: bool = False,
        blas_threads: int = 1,
        worker_options: Mapping[str, Any] | None = None,
        user_threads: bool = True,
        serves_others: bool = False,
    ) -> None:
        """`worker_options` say what each worker offers; by default that is what the machine has. Each worker serves all
        GPUs of this process; with `gpus` that many of them serve one each. With `user_threads`, heavy user code of
        several workers runs on their threads, else all of it on those that wait. With `serves_others`, the code is that
        of programs in other processes: its warnings are captured, to be issued there.

        Raises:
            DeviceError: there are not so many GPUs here.
            ValueError: an unknown option.
        """
        super().__init__(local_cluster(workers, gpus, worker_options))
        self._strict = strict
        self._filters = list(warnings.filters)
        self._serves_others = serves_others
        self._blas_threads = blas_threads
        self._lock = threading.Lock()
        """Guards all fields below."""
        self._news = threading.Condition(self._lock)
        """Notified when there is something for the threads that wait for results."""
        self._waiting = 0
        """The number of these threads."""
        self._workers = [_Worker(spec.name, self._lock, serves_others=serves_others) for spec in self.cluster.workers]
        self._emits = ChunkStore()
        for worker in self._workers:
            worker.host.send_emits = self._send_emits
        self._objects = ObjectTable()
        self._outstanding = Outstanding()
        self._heavy = HeavyCalls(with_user_code=user_threads) if workers > 1 else None
        """None with one worker: whatever it runs, it runs on the threads that wait."""
        self._ordered: set[bytes] = set()
        """By their keys, programs whose code changes what it captures."""
        self._pending = 0
        self._contexts: dict[SegmentId, Context] = {}
        """The context variables of the thread that gave a segment, which user code reads on a worker's thread, too."""
        self._running: list[int] = []
        """The threads that run calls, once per call."""
        self._own_threads: set[int] = set()
        """The threads of workers."""
        self._ends = 0
        """How many calls and fetches have been given or have ended."""
        self._blocked: dict[int, int] = {}
        """Per thread that runs a call and waits in it for a result, `_ends` when it last looked."""
        self._reports: deque[Report] = deque()
        self._light_calls = 0
        """How many calls have been started on threads that wait."""
        self._light_running = 0
        """How many of these run."""
        self._watcher: threading.Thread | None = None
        self._watch = threading.Condition(self._lock)
        """Notified when the watcher is to look for late calls."""
        self._watching = False
        self._polled_in_vain = False
        """Whether a poll without a timeout found nothing since work last arrived or ended."""
        self._closed = False
        self._torn = False
        """Whether the account of a call that begins or ends is being changed: between polls, by what broke that off."""

    # ---- submission of work -----------------------------------------------------------------------------------------

    def start(self, work: Work) -> None:
        with self._lock:
            self._check_open()
            objects = self._outstanding.objects
            for name in work.arguments:
                if name not in self._objects and name not in objects:
                    raise ExecutionError(f"the object {tuple(name)} was dropped, or never asked for")
            if self._strict:
                work = _through_codec(work)
            call, worker = work.call, self._workers[work.worker]
            if call.program not in worker.programs:
                self._load(worker, call.program, work.program)
            for index in range(len(work.program.exports)):
                objects.add(ObjectId(call.run, call.segment, index))
            segment = SegmentId(call.run, call.segment)
            self._outstanding.segments.add(segment)
            if call.program in self._ordered:
                self._outstanding.ordered.append(segment)
            heavy = False
            if self._heavy is not None:
                self._contexts[segment] = copy_context()
                heavy = self._heavy.is_heavy(call.program, work.predicted_seconds)
            self._enqueue(worker, work, heavy=heavy)

    def fetch(self, worker: int, run: int, value: int, after: SegmentId | None, *, requested: bool = False) -> None:
        with self._lock:
            self._check_open()
            host, fetch = self._workers[worker].host, Fetch(worker, run, value, after, requested)
            if not self._strict and self._outstanding.is_ready(fetch) and host.has_in_memory(run, value):
                self._fetched(self._workers[worker], fetch)  # also beside a running segment, which may take long
                self._ends += 1
                self._notify()
                return
            self._outstanding.objects.add(value_object(run, value))
            self._enqueue(self._workers[worker], fetch, heavy=False)

    def _load(self, worker: _Worker, key: bytes, program: Program) -> None:
        """Give a worker a program, and the user code in it that the worker has not got."""
        code = self.code_of(program)
        for fingerprint, shipment in code.items():
            if fingerprint not in worker.code:
                worker.host.learn(fingerprint, Shipment.of(shipment.portable()) if self._strict else shipment)
                worker.code.add(fingerprint)
        worker.host.load(key, decode_program(encode_program(program)) if self._strict else program)
        worker.programs.add(key)
        if self._heavy is not None:
            self._heavy.load(key, program)
            if any([shipment.shares_state for shipment in code.values()]):
                self._ordered.add(key)

    def _enqueue(self, worker: _Worker, work: Work | Fetch, *, heavy: bool) -> None:
        worker.queue.add(work, heavy=heavy)
        if not self._pending:
            limit_blas(self._blas_threads)
        self._pending += 1
        self._ends += 1
        self._polled_in_vain = False
        if heavy:
            self._start_thread(worker)
        self._notify()

    def withdraw(self, names: Sequence[tuple[int, SegmentId]]) -> None:
        with self._lock:
            found = [(self._workers[index].queue.find(name), name) for index, name in names]
            waiting = {name: work for work, name in found if work is not None}
            for name in self._outstanding.held_in_order(waiting.values()):
                del waiting[name]
            for name, work in waiting.items():
                self._workers[work.worker].queue.remove(work)
                made = [ObjectId(*name, number) for number in range(len(work.program.exports))]
                self._outstanding.ended(name)
                self._contexts.pop(name, None)
                self._outstanding.objects.difference_update(made)
                self._objects.forget(made)
                self._ended()
            self._reports.append(WorksWithdrawn(tuple(waiting.values())))
            self._notify()

    def stop(self, worker: int, runs: Sequence[int]) -> None:
        with self._lock:
            found = self._workers[worker]
            for work in found.queue.of_runs(runs):
                found.queue.remove(work)
                self._contexts.pop(SegmentId(work.call.run, work.call.segment), None)
                found.host.poison([Pinned(work.call.run, value) for _, value in work.program.pins])
                self._returned(work, skipped_record(work.call, found.name), [POISON] * len(work.program.exports))
                self._ended()
            interrupted = found.host.stop(runs)
            if interrupted is not None:
                self._reports.append(CallInterrupted(*interrupted))
            self._notify()

    def progress(self) -> list[WorkerProgress]:
        return [WorkerProgress(index, worker.host.progress()) for index, worker in enumerate(self._workers)]

    def set_fault_hook(self, worker: int, hook: FaultHook | None) -> None:
        self._workers[worker].host.faults = hook

    def fault_notes(self) -> FaultNotes:
        return LocalNotes()

    @property
    def runs_here(self) -> bool:
        return threading.get_ident() in self._running

    def forget_programs(self, keys: Sequence[bytes]) -> None:
        with self._lock:
            self._ordered.difference_update(keys)
            if self._heavy is not None:
                self._heavy.forget(keys)
            for worker in self._workers:
                worker.programs.difference_update(keys)
                worker.host.forget(keys)

    def unpin(self, worker: int, values: Sequence[Pinned]) -> None:
        self._workers[worker].host.unpin(values)  # entries of a dict: safe beside a running segment

    # ---- execution of work ------------------------------------------------------------------------------------------

    def poll(self, timeout: float) -> list[Report]:
        deadline = time.monotonic() + timeout
        with self._lock:
            if self._torn:
                raise ExecutionError(
                    "an exception was raised while this session kept account of a call (near the limit of recursion, "
                    "or by a signal handler), so that it cannot go on: open a new one"
                )
            while not self._reports and not self._closed:
                looks_again, self._polled_in_vain = self._polled_in_vain, True
                if (timeout > 0 or looks_again) and self._run_light():
                    continue
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self._pending:
                    break
                self._wait(remaining)
            reports = list(self._reports)
            self._reports.clear()
            return reports

    def _wait(self, timeout: float | None) -> None:
        """Wait for news, on a thread that waits for results."""
        self._waiting += 1
        try:
            self._news.wait(timeout)
        finally:
            self._waiting -= 1

    def _notify(self) -> None:
        """Wake the threads for which there may be something: those of idle workers with heavy work, and those that wait
        for results."""
        if self._heavy is not None:
            for worker in self._workers:
                if worker.queue.has_heavy and self._next_on(worker) is not None:
                    worker.wake.notify()
        if self._waiting:
            self._news.notify_all()

    def _send_emits(self, chunk: EmitChunk) -> tuple[float, int]:
        """Report what a running call has emitted. A thread of a worker waits until there is room; one that waits for
        results would wait for itself."""
        waited = self._emits.wait_for_room() if threading.get_ident() in self._own_threads else 0.0
        held = self._emits.hold(chunk)
        with self._lock:
            if not self._closed:
                self._reports.append(EmitsArrived(held))
                self.emits_paused = True
                if self._waiting:
                    self._news.notify_all()
        return waited, 1

    def take_emits(self, *, waited_for: bool) -> None:
        if waited_for:
            self._emits.pass_on()
        else:
            self.emits_paused = False

    def check_wait(self) -> None:
        if not self._running:
            return
        thread = threading.get_ident()
        with self._lock:
            if thread not in self._running or self._reports:
                return
            if any([self._next_on(worker) is not None for worker in self._workers]):
                return
            self._blocked[thread] = self._ends
            if any([self._blocked.get(other) != self._ends for other in self._running]):
                return  # that one runs code, and does not wait as this one does
        raise ExecutionError(
            "user code that a worker runs asks for a value that is computed only after it: it reads a pending tensor "
            "of the client's, the .grad of a captured leaf, say. Pass it as an argument, read it before, or register a "
            "hook that needs it with client=True"
        )

    def _serve(self, worker: _Worker) -> None:
        """Run heavy work of a worker, and what else is ready when that ends: the loop of its own thread."""
        limit_own_thread(self._blas_threads)
        awake = False
        with self._lock:
            self._own_threads.add(threading.get_ident())
            while not self._closed:
                work = self._next_on(worker)
                if work is not None and (awake or worker.queue.has_heavy) and self._may_hop(work):
                    self._run(worker, work)
                    awake = True
                elif not (awake and not self._waiting and self._run_light(hops=True)):
                    awake = False
                    worker.wake.wait()

    def _start_thread(self, worker: _Worker) -> None:
        """Give a worker a thread of its own, if it has none."""
        if worker.thread is None:
            name = f"raygrad {worker.name}"
            worker.thread = threading.Thread(target=self._serve, args=(worker,), name=name, daemon=True)
            worker.thread.start()

    def _look_for_late_calls(self) -> None:
        """Give what is ready to the workers' own threads while a call that was taken to be light takes long: the loop
        of the watcher. It looks at intervals, so that nobody has to wake it for each call."""
        before, since = 0, time.monotonic()
        with self._lock:
            while not self._closed:
                if self._light_running and self._light_calls == before:
                    for worker in self._workers:
                        work = self._next_on(worker)
                        if work is not None and self._may_hop(work):
                            worker.queue.make_heavy(work)
                            self._start_thread(worker)
                    self._notify()
                if self._light_calls != before:
                    before, since = self._light_calls, time.monotonic()
                self._watching = bool(self._light_running) or time.monotonic() - since < WATCH_SECONDS
                self._watch.wait(LATE_SECONDS if self._watching else None)

    def _watch_light_call(self) -> None:
        """Have the watcher look for late calls from now on, since one is about to hold up other workers."""
        self._watching = True
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._look_for_late_calls, name="raygrad watcher", daemon=True)
            self._watcher.start()
        else:
            self._watch.notify()

    def _next_on(self, worker: _Worker) -> Work | Fetch | None:
        """Return what a worker can run now."""
        return None if worker.running else worker.queue.next(self._outstanding)

    def _may_hop(self, work: Work | Fetch) -> bool:
        """Tell whether work may run on any worker's own thread."""
        return self._heavy is None or isinstance(work, Fetch) or self._heavy.may_hop(work.call.program)

    def _run_light(self, *, hops: bool = False) -> bool:
        """Run the next work that can run now and is not for a worker's own thread; return whether there was any. With
        `hops`, this is a thread of a worker."""
        for worker in self._workers:
            if len(worker.queue):
                work = self._next_on(worker)
                if work is not None and not worker.queue.is_heavy(work) and (not hops or self._may_hop(work)):
                    self._light_calls += 1
                    self._light_running += 1
                    if self._pending > 1 and self._heavy is not None and not self._watching:
                        self._watch_light_call()
                    try:
                        self._run(worker, work)
                    finally:
                        self._light_running -= 1
                    return True
        return False

    def _run(self, worker: _Worker, work: Work | Fetch) -> None:
        """Run work of a worker. The caller holds the lock, which is released while user code runs."""
        self._torn = True
        worker.queue.remove(work)
        if isinstance(work, Fetch):
            self._fetched(worker, work)
            self._ended()
            self._torn = False
            return
        worker.running = True
        interrupt: BaseException | None = None
        thread = threading.get_ident()
        try:
            context = self._contexts.pop(SegmentId(work.call.run, work.call.segment), None)
            objects = [self._objects[name] for name in work.arguments]
            self._running.append(thread)
            self._torn = False
            self._lock.release()
            try:
                if context is None or thread not in self._own_threads:
                    record, exports = self._execute(worker, work, objects)
                else:
                    record, exports = context.run(self._execute, worker, work, objects)
            finally:
                self._lock.acquire()
                self._torn = True
                self._running.remove(thread)
                self._blocked.pop(thread, None)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and thread not in self._own_threads:
                interrupt = error
            interrupted = interrupt is not None
            record = failed_record(work.call, worker.name, os.getpid(), error, interrupted=interrupted)
            exports = [POISON for _ in work.program.exports]
        worker.running = False
        self._returned(work, record, exports)
        self._ended()
        self._torn = False
        if interrupt is not None:
            raise interrupt

    def _execute(self, worker: _Worker, work: Work, objects: list[Any]) -> tuple[Record, list[Any]]:
        """Run a call on a host; only here is user code run: under the filters of `warnings` with which the session
        began, unless it was recorded under others."""
        if not self._serves_others and warnings.filters != self._filters and has_default_filters(work.program):
            with filtered_by(self._filters):
                return self._executed(worker, work, objects)
        return self._executed(worker, work, objects)

    def _executed(self, worker: _Worker, work: Work, objects: list[Any]) -> tuple[Record, list[Any]]:
        host, call = worker.host, work.call
        if not self._strict:
            record, exports = host.run(call, objects)
            brought = host.brought(exports)
            host.stored()
            return record, brought
        started = time.perf_counter()
        with opening_as_worker():
            record, exports = host.run(call, objects, time.perf_counter() - started)
            packing = time.perf_counter()
            packed_exports = [host.pack(values) for values in exports]
            host.stored()
            frame = encode_record(packed_since(record, packing))
        return decode_record(frame), packed_exports

    def _returned(self, work: Work, record: Record, exports: list[Any]) -> None:
        """Store the objects that a segment returned, and report its record."""
        call = work.call
        self._outstanding.ended(SegmentId(call.run, call.segment))
        if self._heavy is not None and record.status == "done":
            self._heavy.ran(call.program, record.seconds)
        for index, values in enumerate(exports):
            size = record.exports[index][0] if index < len(record.exports) else 0
            self._made(ObjectId(call.run, call.segment, index), values, size)
        self._reports.append(SegmentReturned(record))

    def _fetched(self, worker: _Worker, fetch: Fetch) -> None:
        """Make an object of a pinned value."""
        values: Any = POISON
        size, reason = 0, ""
        left: tuple[Left, ...] = ()
        try:
            value = worker.host.fetch(fetch.run, fetch.value)
            if value is not POISON:
                size = int(getattr(value, "nbytes", 0))
                with noting() as noted:
                    values = worker.host.pack([value], fetch.requested) if self._strict else [value]
                left = tuple(noted)
        except KeyError:  # the segment that was to pin it failed
            reason = "it was never made"
        except NotShippable as error:
            reason = str(error)
        except Exception as error:  # it had to be read from disk, or made again
            reason = f"it could not be restored: {type(error).__name__}: {error}"
        self._made(value_object(fetch.run, fetch.value), values, size)
        self._reports.append(ValueReady(fetch.run, fetch.value, values is not POISON, size, reason, left))

    def _made(self, name: ObjectId, values: Any, size: int) -> None:
        self._outstanding.objects.discard(name)
        self._objects.put(name, values, size)

    def _ended(self) -> None:
        if self._closed:
            return
        self._pending -= 1
        self._ends += 1
        self._polled_in_vain = False
        if not self._pending:
            release_blas(self._blas_threads)
        self._notify()

    # ---- objects ----------------------------------------------------------------------------------------------------

    def read(self, name: ObjectId, timeout: float | None) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while name in self._outstanding.objects and not self._closed:
                if self._run_light():
                    continue
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    raise WaitTimeout(f"the object {tuple(name)} was not made in {timeout} s")
                self._wait(remaining)
            values = self._objects[name]
        if not self._strict:
            return values
        with evicting_with(self._give_way):  # a copy for the client, beside the value on the same device
            return unpack_all(values)

    def peek(self, worker: int, run: int, value: int) -> Any:
        return None if self._strict else self._workers[worker].host.peek(run, value)

    def peek_object(self, name: ObjectId, position: int) -> Any:
        if self._strict or not self._lock.acquire(blocking=False):
            return None
        try:
            values: Any = self._objects[name] if name in self._objects else POISON
            value: Any = None if values is POISON else values[position]
            return value if type(value) is np.ndarray else None
        finally:
            self._lock.release()

    def _give_way(self, device: str, what: str) -> bool:
        """Have idle workers evict values from a device; return whether one evicted any."""
        with self._lock:
            return any([worker.host.values.free_device(device, what) for worker in self._workers if not worker.running])

    def drop(self, name: ObjectId) -> None:
        with self._lock:
            self._objects.drop(name, self._outstanding.objects)

    @property
    def busy(self) -> bool:
        return bool(self._pending or self._reports)

    @property
    def has_reports(self) -> bool:
        return bool(self._reports)

    def stored_bytes(self) -> int:
        with self._lock:
            return self._objects.nbytes

    def pids(self) -> tuple[int, ...]:
        return (os.getpid(),) * len(self._workers)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for worker in self._workers:
                worker.queue.clear()
            if self._pending:
                release_blas(self._blas_threads)
            self._pending = 0
            self._emits.close()
            self._objects.clear()
            self._news.notify_all()
            self._watch.notify_all()
            for worker in self._workers:
                worker.wake.notify_all()
        deadline = time.monotonic() + CLOSE_DEADLINE
        for thread in (self._watcher, *[worker.thread for worker in self._workers]):
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _check_open(self) -> None:
        if self._closed:
            raise ExecutionError("this executor is closed")


def _through_codec(work: Work) -> Work:
    """Return work with its call encoded and decoded, as for another process."""
    frame = encode_call(work.call)
    with opening_as_worker():
        return work._replace(call=decode_call(frame))
