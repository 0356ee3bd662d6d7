"""The session: one program's connection to an executor.

Rules of this file: the public object and its life: what it is made of, waiting, raising, closing. Two parts of it are
functions of it in files of their own: `sending` (submissions) and `reading` (values). What the driver reports goes to
`arrivals`. Recording is in `recorder`, graphs in `submission`, cells in `cells`, running in the workers room.
"""

from __future__ import annotations

import itertools
import os
import time
import weakref
from collections.abc import Callable, Generator, Set
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from raygrad.autograd.core.modes import state
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import current_device_of_kind
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import DeviceError, SessionError
from raygrad.proto.ir.nodes import ObservedGradients
from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.explain.clock_alignment import ClockOffset
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.measured_costs import MeasuredCosts
from raygrad.scheduler.planning.planner import Planner
from raygrad.workers.code.shipping import Shipped
from raygrad.workers.executors.driver import Driver

from ..compile.compiled import CompiledFunction
from ..functions.saved_policy import WORKER, checked_policy
from ..options import MOST_THREADS, MOST_WORKERS, all_tensors, array_of, flag, named, path, seconds, shown, whole
from ..options import address as checked_address
from ..recording.garbage_collection import Rarely
from ..recording.records import NodeRecord
from ..submission.failures import Failures
from ..submission.graph_cache import Graphs
from ..submission.remote_warnings import Reissue
from ..submission.run import Run
from ..submission.run_listener import Arrivals
from ..submission.submission import Submitted
from .backends import devices_of, open_executor
from .costs import SessionCosts
from .explain import explain
from .fetch import fetched, is_output_defined, read_output, wait_for_record
from .memory_limits import Memory, limited_to
from .numerics_check import check_numerics
from .recorder import SessionRecorder
from .submit import send_off, submit_recorded

if TYPE_CHECKING:
    from raygrad.report.explanation import Explanation

P = ParamSpec("P")
R = TypeVar("R")


class Session:
    """Runs what is recorded while it is ambient, here or on a Ray cluster.

    Args:
        address: "local" (this process), "ray" (the running Ray, or a new local one), "ray:HOST:PORT".
        workers: how many; None means one per CPU that the address offers.
        gpus: how many of the workers, the first ones, serve a GPU: the first serves "cuda:0". On Ray each asks for one
            of its own, or for what `worker_options` say by `num_gpus`. None: in this process each worker serves all
            GPUs that there are; on Ray those that `worker_options` ask for, if any.
        memory: what the values of one submission may take at once on each worker, a hard limit: bytes, a text like
            "2GiB per worker", one of these or None per worker, or a dict from workers to them. What does not fit is
            run in another order, spilled to disk or made again, or refused. None sets no limit.
        gpu_memory: the same of what they may take on each GPU that a worker serves, in the same words.
        saved: where what forward saves for backward is kept, if it outlives the segment that makes it: in the object
            "store", on its "worker", or nowhere ("recompute": forwards of user Functions run again before their
            backwards). A Function may say otherwise of its own context, by its `saved_policy`.
        deterministic: refuse workers whose libraries may give different bits (CPU models, BLAS or NumPy builds, GPU
            models differ): where a plan runs a node would show in its last digits. False only warns.
        strict: in this process, send everything through the codec and user code by value, as a cluster would.
        sync: wait inside `apply` and `backward`, so that errors appear on their own line (debugging).
        seed: the planner's seed; that of random draws is `rg.manual_seed`'s, as without a session.
        timeout: seconds that a wait may take; None waits as long as the workers live. In process, what runs on the
            thread that waits is not interrupted.
        blas_threads: BLAS threads per worker; bits are promised for equal numbers (H12).
        costs: a file that `session.costs.save` wrote: plans go by it until this session's own runs tell more.
        options: `worker_options`, which say what each worker offers (num_cpus, memory, resources); and, passed to Ray
            like those, `runtime_env`, `placement_group`, `object_store_memory`.

    Raises:
        TypeError, ValueError: an address, option or policy that does not exist, or a value that an option cannot have.
        CostsError: the file of costs is none.
        BackendUnavailable: Ray is asked for and not installed.
        DeviceError: there are not so many GPUs, or they cannot be used.
        NumericsError: workers may give different bits.
    """

    def __init__(
        self,
        address: str = "local",
        *,
        workers: int | None = None,
        gpus: int | None = None,
        memory: Memory = None,
        gpu_memory: Memory = None,
        saved: str = "store",
        deterministic: bool = True,
        strict: bool = False,
        sync: bool = False,
        seed: int = 0,
        timeout: float | None = None,
        blas_threads: int = 1,
        costs: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        address = checked_address(address)
        workers = None if workers is None else whole("Session(workers=...)", workers, 1, MOST_WORKERS)
        deterministic = flag("Session(deterministic=...)", deterministic)
        strict, sync = flag("Session(strict=...)", strict), flag("Session(sync=...)", sync)
        seed = whole("Session(seed=...)", seed)
        timeout = seconds("Session(timeout=...)", timeout)
        blas_threads = whole("Session(blas_threads=...)", blas_threads, 1, MOST_THREADS)
        costs = None if costs is None else path("Session(costs=...)", costs)
        self.address = address
        self.sync = sync
        self.timeout = timeout
        self.saved = checked_policy(saved, "saved")
        self.known: dict[Any, Any] = {}
        """What runs of user Functions showed, by key (H3)."""
        self.undefined: dict[Any, ObservedGradients] = {}
        """Which gradients of user Functions proved undefined, and which require grad, by key (H5, H7)."""
        self.of_gradients: dict[str, int] = {}
        """By fingerprint, what code might do with the `.grad` of leaves."""
        self.conduct: dict[str, int] = {}
        """Per user Function, what its backward does with its context (CX-11, DR-05); learned from its runs."""
        self.resolved: dict[str, tuple[int, float]] = {}
        """Per user Function without an `infer`, how often and how long recording waited for a first run (H3)."""
        self.hooked: dict[str, int] = {}
        """Per hook that passes called in this process (`client=True`), how often (DR-06)."""
        self.clocks: dict[str, ClockOffset] = {}
        """Per worker, how far its clock is from this one."""
        self.last_run: Run | None = None
        self._measured = MeasuredCosts()
        self.costs = SessionCosts(self._measured)
        """What runs have shown of what things cost."""
        if costs is not None:
            self.costs.load(costs)
        executor = open_executor(
            address, workers=workers, gpus=gpus, strict=strict, blas_threads=blas_threads, options=options
        )
        self._measured.links_were(**executor.links())
        try:
            check_numerics(executor.cluster, deterministic)
            limited = limited_to(executor.cluster, memory, gpu_memory)
            cluster = replace(limited, saved_stays=saved == WORKER)
            planner = Planner(cluster, seed=seed, measured=self._measured)
        except BaseException:
            executor.close()
            raise
        self._driver = Driver(executor, planner, Machine(), Arrivals(self))
        self._devices = devices_of(executor.cluster)
        self._recorder = SessionRecorder(self, by_reference=address == "local" and not strict)
        self._graphs = Graphs()
        self._numbers = itertools.count(1)
        self._runs: dict[int, Run] = {}
        self._shown: weakref.WeakValueDictionary[int, Run] = weakref.WeakValueDictionary()
        """All that somebody may still look at."""
        self._history: list[Submitted] = []
        self._failures = Failures(self._recorder, self._history, self._runs, executor.name_of)
        self._warnings = Reissue()
        self._handlers: dict[str, list[Callable[[Any], Any]]] = {}
        self._holders: dict[int, weakref.ref[NodeRecord]] = {}
        self._ambient_before: list[Any] = []
        self._collector = Rarely()

    # ---- its life ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        if self._recorder.closed:
            raise SessionError("this session is closed; open a new one")
        outer = state.recorder
        if isinstance(outer, SessionRecorder) and outer.trace is not None:
            raise outer.trace.refusal("a session is opened")
        self._ambient_before.append(state.recorder)
        state.recorder = self._recorder
        if len(self._ambient_before) == 1:
            self._collector.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._ambient_before:
            state.recorder = self._ambient_before.pop()
        self._collector.end()
        self.close(discard=error is not None)

    def start(self) -> Session:
        """Make it the ambient session of this thread until `close()`: for notebooks, where no `with` spans cells."""
        return self.__enter__()

    def close(self, discard: bool = False) -> None:
        """Wait for submitted work, fetch every value that still has a handle, and let go of the workers.

        Args:
            discard: do not wait; values not yet here are dropped, and reading them says so.

        Raises:
            TypeError: `discard` is neither True nor False.
            An error of the session's work that was not raised before.
        """
        discard = flag("session.close(discard=...)", discard)
        if self._recorder.closed:
            return
        while state.recorder is self._recorder and self._ambient_before:  # started more than once
            state.recorder = self._ambient_before.pop()
        try:
            if not discard:
                self._finish()
        finally:
            self._recorder.close()
            self._driver.close()
            self._collector.end()
            self._history.clear()
            self._warnings.close()

    def _finish(self) -> None:
        """Run what is left and bring home what is still held."""
        self._raise_errors()
        with self._warnings.kept():  # one that is made an error must not keep values from coming home
            self.submit()
            self.wait_for_everything()
            for reference in list(self._holders.values()):
                record = reference()
                if record is None or record.run in self._failures.runs:
                    continue
                for index, entry in enumerate(record.outputs):
                    here = record.values is not None and index in record.values
                    if record.live >> index & 1 and isinstance(entry.spec, ArraySpec) and not here:
                        fetched(self, record, index)
        self._raise_errors()

    # ---- what its users call ----------------------------------------------------------------------------------------

    def run(self, *values: Tensor) -> Run:
        """Submit what is recorded, `values` among it, and return the run; does not block."""
        all_tensors("session.run", values)
        if self._recorder.trace is not None:
            raise self._recorder.trace.refusal("session.run() is called")
        self.submit()
        if self.last_run is None:
            raise SessionError("nothing has been recorded in this session yet")
        return self.last_run

    def explain(self, *tensors: Tensor, workers: int | None = None, gpus: int | None = None) -> Explanation:
        """Explain what would be submitted now for these tensors, or at all, without submitting it: segments, the worker
        of each and why, what crosses, the predicted time, the critical path, memory.

        `backward()` submits; inside `with session.deferred():` it is recorded only, and so explained with the forward
        it belongs to. `Run.report` tells afterwards what the run did.

        Args:
            workers, gpus: also plan it for that many workers, so many of them with a GPU, and simulate that.

        Raises:
            TypeError: one of them is no tensor.
            PlanError: no worker, here or there, can run one of the nodes; or there are more GPUs than workers.
        """
        return explain(self, tensors, workers, gpus)

    @contextmanager
    def deferred(self) -> Generator[None]:
        """Record passes and optimiser steps without submitting them: the next read, `run()`, pass or step after it
        submits all that was recorded as one graph, and so does a read inside."""
        before, self._recorder.deferred = self._recorder.deferred, True
        try:
            yield
        finally:
            self._recorder.deferred = before

    def on(self, name: str, handler: Callable[[Any], Any]) -> None:
        """Call `handler(value)` for every `rg.emit(name, value)` of this session's code, on the thread that waits.

        Raises:
            TypeError: the name is no string, or the handler cannot be called.
        """
        named("session.on(name, handler)", name)
        if not callable(handler):
            raise TypeError(f"session.on({name!r}, handler) takes a function of the value, got {shown(handler)}")
        self._handlers.setdefault(name, []).append(handler)

    def compile(self, fn: Callable[P, R]) -> CompiledFunction[P, R]:
        """Return `fn` as a function that is recorded once and then replayed with new arguments: a training step without
        recording and planning; see `CompiledFunction`."""
        return CompiledFunction(self, fn)

    def put(self, value: Any) -> Tensor:
        """Return a tensor that stands for an array which is sent to each worker once, whatever uses it later.

        Raises:
            TypeError: it is no array of numbers.
            SessionError: the session is closed.
        """
        if self._recorder.closed:
            raise SessionError("this session is closed; open a new one")
        array = value.read() if isinstance(value, Tensor) else array_of("session.put", value)
        return Tensor.made(self._recorder.constant_array(array.copy(order="K")))

    @property
    def workers(self) -> int:
        """How many workers it has; `rg.place(worker=...)` counts them from 0."""
        return len(self._driver.executor.cluster.workers)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that its workers serve beside the host."""
        return self._devices

    def place(self, device: Device) -> Device:
        """Return one of its devices, with its number; "cuda" is the current one of this process, or else the first.

        Raises:
            DeviceError: no worker serves it.
        """
        if device.index is None:
            current = current_device_of_kind(device.type)
            known = current is not None and current in self._devices
            device = current if known and current is not None else next(iter(self._devices), device)
        if device not in self._devices:
            there = f"serve {', '.join(map(str, self._devices))}" if self._devices else "serve no GPU"
            raise DeviceError(
                f"device '{device}' is not among those of this session: its workers {there}; ask for more with "
                "Session(gpus=...), on machines that have them, or call raygrad.autograd.devices.use_stand_in() before "
                "the session to simulate them"
            )
        return device

    @property
    def saved_bytes(self) -> int:
        """Bytes of saved tensors and contexts in the object store now."""
        self.poll()
        return self._driver.saved_bytes

    @property
    def peak_saved_bytes(self) -> int:
        """The most that `saved_bytes` has been."""
        return self._driver.peak_saved_bytes

    def stored_bytes(self) -> int:
        """Return the bytes that the executor's object store holds: on Ray, from its own statistics."""
        self._drop()
        return self._driver.executor.stored_bytes()

    # ---- submitting -------------------------------------------------------------------------------------------------

    def learn(self, shipped: Shipped) -> None:
        """Make user code known to the executor."""
        self._driver.executor.learn(shipped.fingerprint, shipped.shipment)

    def hold(self, record: NodeRecord) -> None:
        """Remember a submitted record whose values may have to be fetched at the end."""
        key = id(record)
        self._holders[key] = weakref.ref(record, lambda _: self._holders.pop(key, None))

    def leaves_of(self, runs: Set[int]) -> list[NodeRecord]:
        """Let go of the records of these runs that move to a device what the client has, and return them."""
        held = [reference() for reference in list(self._holders.values())]
        leaves = [one for one in held if one is not None and one.leaf is not None and one.run in runs]
        for leaf in leaves:
            self._holders.pop(id(leaf), None)
        return leaves

    submit = submit_recorded
    send = send_off

    def settle(self) -> int:
        """Take in what has arrived, raise what went wrong, and return the number of the next run, which is submitted
        next if there is anything to run."""
        self._drop()
        self._collector.look()
        self._driver.poll(submits=True)
        self._raise_errors()
        return next(self._numbers)

    def _drop(self) -> None:
        dropped = self._recorder.dropped
        gone: list[tuple[int, int]] = []
        while dropped:
            gone.append(dropped.popleft())
        if gone:
            self._driver.drop(gone)

    # ---- waiting and reading ----------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take in what has arrived, without waiting."""
        self._collector.look()
        self._driver.poll(0.0)

    def wait_until(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        """Wait until `done()`, or until an error is to be raised, and raise it."""
        limit = self.timeout if timeout is None else timeout
        deadline = None if limit is None else time.monotonic() + limit
        self._driver.wait(lambda: done() or bool(self._failures.unraised), deadline)
        self._raise_errors()

    wait_for = wait_for_record
    read = read_output
    is_defined = is_output_defined

    def wait_for_everything(self) -> None:
        """Wait for every run."""
        self.wait_until(lambda: all(s.finished or s.error is not None for s in self._history))

    def _limit(self) -> float | None:
        """Return when a wait that begins now passes its deadline."""
        return None if self.timeout is None else time.monotonic() + self.timeout

    def _raise_errors(self) -> None:
        self._warnings.issue()
        self._failures.raise_next()


def ambient() -> Session | None:
    """Return the session that this thread records into, or None."""
    recorder = state.recorder
    return recorder.session if isinstance(recorder, SessionRecorder) else None
