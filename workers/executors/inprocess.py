"""The in-process executor: workers as hosts in the client's process, the default backend (H23).

One thread at a time runs segments on a host; names are released on the caller's. Segments run on the thread that
waits for them: a hop to another thread costs 55 µs when idle, milliseconds beside busy Python. With several workers
each has a daemon thread for segments predicted to be long. The work of one worker runs in the order given. A
`strict` executor sends everything as bytes, user code by value, as to another process."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from raygrad.autograd.devices.backends.device_memory import evicting_with
from raygrad.autograd.devices.serving import backend_if_installed
from raygrad.errors import DeviceError, ExecutionError, NotShippable, WaitTimeout
from raygrad.proto.ir.program import Pinned, Record
from raygrad.scheduler.model.plan import Cluster

from ..code.shipping import Shipment, opening_as_worker
from ..process.blas_threads import limit_blas, release_blas
from ..process.gpu_assignment import resource_requests
from ..process.host import WorkerHost
from ..process.run_record import packed_since
from ..values.device_staging import Left, noting
from ..values.packed_values import POISON, unpack_all
from ..values.wire import decode_call, decode_program, decode_record, encode_call, encode_program, encode_record
from .base import (
    Executor,
    ObjectId,
    Report,
    SegmentId,
    SegmentReturned,
    ValueReady,
    Work,
    WorksWithdrawn,
    failed_record,
    offered_resources,
    value_object,
)

OWN_THREAD_SECONDS: Final = 1e-3
"""A segment predicted to take longer is worth a hop to its worker's own thread."""

CLOSE_DEADLINE: Final = 5.0
"""Seconds that threads have to end on close; one that runs a long segment is left to it, being a daemon."""


class _Fetch:
    """Work that makes an object of a pinned value."""

    __slots__ = ("after", "requested", "run", "value", "worker")

    def __init__(self, worker: int, run: int, value: int, after: SegmentId | None, requested: bool) -> None:
        self.requested = requested
        self.worker = worker
        self.run = run
        self.value = value
        self.after = () if after is None else (after,)


class _Worker:
    """A host and its queue of work."""

    def __init__(self, name: str) -> None:
        self.host = WorkerHost(name)
        self.name = name
        self.queue: deque[Work | _Fetch] = deque()
        self.running = False
        self.programs: set[bytes] = set()
        self.code: set[str] = set()
        self.thread: threading.Thread | None = None


def _machine() -> dict[str, float]:
    """Return the resources of this machine, as options of a worker."""
    known = {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(os.sysconf_names)
    memory = {"memory": float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")} if known else {}
    return {"num_cpus": float(len(os.sched_getaffinity(0))), **memory}


def _devices(workers: int, gpus: int | None) -> list[tuple[str, ...]]:
    """Return the GPUs that each worker serves."""
    backend = None if gpus == 0 else backend_if_installed()
    names = [] if backend is None else [f"{backend.kind}:{index}" for index in range(backend.count())]
    if gpus is None:
        return [tuple(names)] * workers
    if gpus > len(names):
        raise DeviceError(
            f"gpus={gpus}: there {'is' if len(names) == 1 else 'are'} {len(names)} in this process; install "
            "raygrad[cuda12] or raygrad[cuda13] where there are GPUs, or call "
            "raygrad.autograd.devices.use_stand_in() before the session to simulate them"
        )
    return [(name,) for name in names[:gpus]] + [()] * (workers - gpus)


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
    ) -> None:
        """`worker_options` say what each worker offers; by default that is what the machine has. Each worker serves all
        GPUs of this process; with `gpus` that many of them serve one each.

        Raises:
            DeviceError: there are not so many GPUs here.
            ValueError: an unknown option.
        """
        devices = _devices(workers, gpus)
        options = {**_machine(), **(worker_options or {})}
        unknown = options.keys() - {"num_cpus", "num_gpus", "memory", "resources"}
        if unknown:
            raise ValueError(f"worker_options of a local session say what workers offer; unknown: {sorted(unknown)}")
        requests = resource_requests(workers, gpus, options)
        specs = [
            replace(worker, devices=("cpu", *own), resources=offered_resources({"num_gpus": float(len(own)), **one}))
            for worker, own, one in zip(Cluster.of(workers).workers, devices, requests, strict=True)
        ]
        super().__init__(Cluster(tuple(specs)))
        self._strict = strict
        self._blas_threads = blas_threads
        self._workers = [_Worker(spec.name) for spec in self.cluster.workers]
        self._lock = threading.Lock()
        """Guards all fields below."""
        self._changed = threading.Condition(self._lock)
        """Notified when work arrives or ends."""
        self._objects: dict[ObjectId, Any] = {}
        self._sizes: dict[ObjectId, int] = {}
        self._dropped: set[ObjectId] = set()
        """Objects that were dropped before they were made."""
        self._expected: set[ObjectId] = set()
        """Objects of work that has not ended."""
        self._unfinished: set[SegmentId] = set()
        self._pending = 0
        self._running: list[int] = []
        """The threads that run calls, once per call."""
        self._reports: deque[Report] = deque()
        self._polled_in_vain = False
        """Whether a poll without a timeout found nothing since work last arrived or ended."""
        self._closed = False

    # ---- submission of work -----------------------------------------------------------------------------------------

    def start(self, work: Work) -> None:
        with self._lock:
            self._check_open()
            for name in work.arguments:
                if name not in self._objects and name not in self._expected:
                    raise ExecutionError(f"the object {tuple(name)} was dropped, or never asked for")
            if self._strict:
                work = _through_codec(work)
            call = work.call
            self._expected.update(ObjectId(call.run, call.segment, i) for i in range(len(work.program.exports)))
            self._unfinished.add(SegmentId(call.run, call.segment))
            self._enqueue(work)

    def fetch(self, worker: int, run: int, value: int, after: SegmentId | None, *, requested: bool = False) -> None:
        with self._lock:
            self._check_open()
            self._expected.add(value_object(run, value))
            self._enqueue(_Fetch(worker, run, value, after, requested))

    def _enqueue(self, work: Work | _Fetch) -> None:
        worker = self._workers[work.worker]
        worker.queue.append(work)
        if not self._pending:
            limit_blas(self._blas_threads)
        self._pending += 1
        self._polled_in_vain = False
        if len(self._workers) > 1:
            if worker.thread is None and _is_long(work):
                worker.thread = threading.Thread(
                    target=self._serve, args=(worker,), name=f"raygrad {worker.name}", daemon=True
                )
                worker.thread.start()
            self._changed.notify_all()

    def withdraw(self, names: Sequence[tuple[int, SegmentId]]) -> None:
        with self._lock:
            asked = {name for _, name in names}
            works: list[Work] = []
            for worker in self._workers:
                for work in list(worker.queue):
                    if isinstance(work, Work) and SegmentId(work.call.run, work.call.segment) in asked:
                        works.append(work)
                gone = set(map(id, works))
                worker.queue = deque([work for work in worker.queue if id(work) not in gone])
            for work in works:
                call = work.call
                self._unfinished.discard(SegmentId(call.run, call.segment))
                names_made = {ObjectId(call.run, call.segment, number) for number in range(len(work.program.exports))}
                self._expected -= names_made
                self._dropped -= names_made
                self._ended()
            self._reports.append(WorksWithdrawn(tuple(works)))
            self._changed.notify_all()

    def unpin(self, worker: int, values: Sequence[Pinned]) -> None:
        self._workers[worker].host.unpin(values)  # entries of a dict: safe beside a running segment

    # ---- execution of work ------------------------------------------------------------------------------------------

    def poll(self, timeout: float) -> list[Report]:
        deadline = time.monotonic() + timeout
        with self._lock:
            while not self._reports and not self._closed:
                looks_again, self._polled_in_vain = self._polled_in_vain, True
                worker = self._next_ready() if timeout > 0 or looks_again else None
                if worker is not None:
                    self._run_next(worker)
                    continue
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self._pending:
                    break
                self._changed.wait(remaining)
            reports = list(self._reports)
            self._reports.clear()
            return reports

    def check_wait(self) -> None:
        if not self._running:
            return
        thread = threading.get_ident()
        with self._lock:
            if thread not in self._running or any(other != thread for other in self._running) or self._reports:
                return
            if any(worker.queue and self._is_ready(worker) for worker in self._workers):
                return
        raise ExecutionError(
            "user code that a worker runs asks for a value that is computed only after it: it reads a pending tensor "
            "of the client's, the .grad of a captured leaf, say. Pass it as an argument, read it before, or register a "
            "hook that needs it with client=True"
        )

    def _serve(self, worker: _Worker) -> None:
        """Run long work of a worker: the loop of its own thread."""
        with self._lock:
            while not self._closed:
                if worker.queue and _is_long(worker.queue[0]) and self._is_ready(worker):
                    self._run_next(worker)
                else:
                    self._changed.wait()

    def _next_ready(self) -> _Worker | None:
        """Return a worker whose next work can run now and is not for its own thread."""
        for worker in self._workers:
            if worker.queue and not (worker.thread and _is_long(worker.queue[0])) and self._is_ready(worker):
                return worker
        return None

    def _is_ready(self, worker: _Worker) -> bool:
        if worker.running:
            return False
        work = worker.queue[0]
        if not self._unfinished.isdisjoint(work.after):
            return False
        return isinstance(work, _Fetch) or self._expected.isdisjoint(work.arguments)

    def _run_next(self, worker: _Worker) -> None:
        """Run the next work of a worker. The caller holds the lock, which is released while user code runs."""
        work = worker.queue.popleft()
        if isinstance(work, _Fetch):
            self._fetched(worker, work)
            self._ended()
            return
        worker.running = True
        interrupt: BaseException | None = None
        try:
            objects = [self._objects[name] for name in work.arguments]
            self._running.append(threading.get_ident())
            self._lock.release()
            try:
                record, exports = self._execute(worker, work, objects)
            finally:
                self._lock.acquire()
                self._running.remove(threading.get_ident())
        except BaseException as error:
            record = failed_record(work.call, worker.name, os.getpid(), error)
            exports = [POISON for _ in work.program.exports]
            if not isinstance(error, Exception):
                interrupt = error
        worker.running = False
        self._returned(work, record, exports)
        self._ended()
        if interrupt is not None and threading.current_thread() is not worker.thread:
            raise interrupt

    def _execute(self, worker: _Worker, work: Work, objects: list[Any]) -> tuple[Record, list[Any]]:
        """Run a call on a host; only here is user code run."""
        host, call = worker.host, work.call
        if call.program not in worker.programs:
            for fingerprint, shipment in self.code_of(work.program).items():
                if fingerprint not in worker.code:
                    host.learn(fingerprint, Shipment.of(shipment.portable()) if self._strict else shipment)
                    worker.code.add(fingerprint)
            program = decode_program(encode_program(work.program)) if self._strict else work.program
            host.load(call.program, program)
            worker.programs.add(call.program)
        if not self._strict:
            record, exports = host.run(call, objects)
            return record, host.brought(exports)
        started = time.perf_counter()
        with opening_as_worker():
            record, exports = host.run(call, objects, time.perf_counter() - started)
            packing = time.perf_counter()
            packed_exports = [host.pack(values) for values in exports]
            frame = encode_record(packed_since(record, packing))
        return decode_record(frame), packed_exports

    def _returned(self, work: Work, record: Record, exports: list[Any]) -> None:
        """Store the objects that a segment returned, and report its record."""
        call = work.call
        self._unfinished.discard(SegmentId(call.run, call.segment))
        for index, values in enumerate(exports):
            size = record.exports[index][0] if index < len(record.exports) else 0
            self._made(ObjectId(call.run, call.segment, index), values, size)
        self._reports.append(SegmentReturned(record))

    def _fetched(self, worker: _Worker, fetch: _Fetch) -> None:
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
        self._made(value_object(fetch.run, fetch.value), values, size)
        self._reports.append(ValueReady(fetch.run, fetch.value, values is not POISON, size, reason, left))

    def _made(self, name: ObjectId, values: Any, size: int) -> None:
        self._expected.discard(name)
        if name in self._dropped:
            self._dropped.discard(name)
            return
        self._objects[name] = values
        self._sizes[name] = size

    def _ended(self) -> None:
        if self._closed:
            return
        self._pending -= 1
        self._polled_in_vain = False
        if not self._pending:
            release_blas(self._blas_threads)
        if len(self._workers) > 1:
            self._changed.notify_all()

    # ---- objects ----------------------------------------------------------------------------------------------------

    def read(self, name: ObjectId, timeout: float | None) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while name in self._expected:
                worker = self._next_ready()
                if worker is not None:
                    self._run_next(worker)
                    continue
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    raise WaitTimeout(f"the object {tuple(name)} was not made in {timeout} s")
                self._changed.wait(remaining)
            if name not in self._objects:
                raise ExecutionError(f"the object {tuple(name)} was dropped, or never asked for")
            values = self._objects[name]
        if not self._strict:
            return values
        with evicting_with(self._give_way):  # a copy for the client, beside the value on the same device
            return unpack_all(values)

    def _give_way(self, device: str, what: str) -> bool:
        """Have idle workers evict values from a device; return whether one evicted any."""
        with self._lock:
            return any([worker.host.values.free_device(device, what) for worker in self._workers if not worker.running])

    def drop(self, name: ObjectId) -> None:
        with self._lock:
            self._sizes.pop(name, None)
            if self._objects.pop(name, None) is None and name in self._expected:
                self._dropped.add(name)

    @property
    def busy(self) -> bool:
        return bool(self._pending or self._reports)

    @property
    def has_reports(self) -> bool:
        return bool(self._reports)

    def stored_bytes(self) -> int:
        with self._lock:
            return sum(self._sizes.values())

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
            self._objects.clear()
            self._sizes.clear()
            self._changed.notify_all()
        deadline = time.monotonic() + CLOSE_DEADLINE
        for worker in self._workers:
            if worker.thread is not None and worker.thread is not threading.current_thread():
                worker.thread.join(max(0.0, deadline - time.monotonic()))

    def _check_open(self) -> None:
        if self._closed:
            raise ExecutionError("this executor is closed")


def _is_long(work: Work | _Fetch) -> bool:
    return isinstance(work, Work) and work.predicted_seconds >= OWN_THREAD_SECONDS


def _through_codec(work: Work) -> Work:
    """Return work with its call encoded and decoded, as for another process."""
    frame = encode_call(work.call)
    with opening_as_worker():
        return work._replace(call=decode_call(frame))
