"""Session: one program's connection to an executor, as its user opens, uses and closes it.

It makes the collaborators that do the work, and connects them: the recorder, the submitter, the fetcher, the run
listener and the driver.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.session_threads import OPEN_SESSIONS, OpenSession
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import current_device_of_kind
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import DeviceError, SessionError
from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.explain.clock_alignment import ClockOffset
from raygrad.scheduler.model.measured_costs import MeasuredCosts
from raygrad.tracebacks import public
from raygrad.workers.code.warning_filters import filters_in_force
from raygrad.workers.executors.base import Executor
from raygrad.workers.executors.driver import Driver
from raygrad.workers.executors.session_driver import DriverSettings, SessionWorkers

from ..compile.compiled import CompiledFunction
from ..functions.call_costs import CallCosts
from ..functions.observations import Observations
from ..functions.saved_policy import WORKER
from ..functions.user_code import UserCode
from ..options import (
    MOST_WORKERS,
    SessionOptions,
    all_tensors,
    array_of,
    flag,
    named,
    options_of,
    path_of,
    seconds,
    shown,
    whole,
)
from ..recording.deferred_operations import record_deferred
from ..recording.garbage_collection import GarbageCollectorTuning
from ..recording.held_records import HeldRecords
from ..recording.record_inputs import InputRecorder
from ..recording.record_log import RecordLog
from ..submission.failures import Failures
from ..submission.graph_cache import GraphCache
from ..submission.remote_warnings import RemoteWarnings
from ..submission.run import Run, RunLink
from ..submission.run_listener import RunListener
from ..submission.run_table import RunTable
from ..submission.waiter import Waiter
from . import session_defaults
from .backends import devices_of, open_workers
from .costs import SessionCosts
from .elastic import JOIN_SECONDS, Workers, admission, check_addition, worker_index
from .execution import SessionExecution
from .explain import explain
from .fetch import Fetcher
from .forked import leave_to_parent_in_forks
from .memory_limits import Memory, limited_to
from .numerics_check import check_numerics
from .recorder import SessionRecorder
from .saved_state import SavedState
from .session_arguments import SessionArguments, checked_arguments
from .submit import Submitter

if TYPE_CHECKING:
    from raygrad.report.explanation import Explanation

P = ParamSpec("P")
R = TypeVar("R")


class Session:
    """Runs what is recorded while it is ambient, here or on a Ray cluster.

    It is ambient in the threads that have entered it, by `with` or `start`. Several may, and one may do so again; the
    block that entered first closes it.

    Args:
        address: "local" (this process), "ray" (the running Ray, or a new local one), "ray:HOST:PORT", or a service at
            "wss://HOST:PORT" ("ws://HOST:PORT" without TLS). None: what RAYGRAD_ADDRESS says in the environment, as
            `raygrad run --on` sets it, and else "local".
        workers: how many; None means one per CPU that the address offers. On Ray also (least, most): as many as there
            is room for, more as Ray's autoscaler brings nodes while work waits, fewer when they have been idle for a
            minute.
        gpus: how many of the workers, the first ones, serve a GPU: the first serves "cuda:0". On Ray each asks for one
            of its own, or for what `worker_options` say by `num_gpus`. None: in this process each worker serves all
            GPUs that there are; on Ray those that `worker_options` ask for, if any.
        memory: what the values of one submission may take at once on each worker, a hard limit: bytes, a text like
            "2GiB per worker", one of these or None per worker, or a dict from workers to them. What does not fit is
            run in another order, spilled to disk or made again, or refused. None sets no limit.
        gpu_memory: the same of what they may take on each GPU that a worker serves, in the same words.
        saved: where what forward saves for backward is kept, if it outlives its submission: in the object "store", on
            its "worker", or nowhere ("recompute": forwards of user Functions run again before their backwards). A
            Function may say otherwise of its own context, by its `saved_policy`. See also `recovery_time`.
        deterministic: refuse workers whose libraries may give different bits (CPU models, BLAS or NumPy builds, GPU
            models differ): where a plan runs a node would show in its last digits. False only warns.
        strict: in this process, send everything through the codec and user code by value, as a cluster would.
        sync: wait inside `apply` and `backward`, so that errors appear on their own line (debugging).
        seed: the planner's seed; that of random draws is `rg.manual_seed`'s, as without a session.
        timeout: seconds that a wait may take; None waits as long as the workers live. In process, what runs on the
            thread that waits is not interrupted.
        node_timeout, segment_timeout, run_timeout: seconds that a node, a segment (what a worker runs in one call) or a
            run (from its submission to its end) may take; None sets no limit. What takes longer is stopped, as
            `run.cancel()` does it, and the next sync point raises DeadlineExceeded.
        recovery_time: seconds of work on one submission that may be lost with a Ray worker. What forward saves stays on
            its worker while backward of the same submission reads it there; once the worker has worked for longer than
            this, what is still to be read is copied to the object store, in up to 2 % of the worker's time, or when it
            has nothing else to do. None copies nothing. Nor is anything copied that is saved on its "worker", that a
            worker with a `memory` limit saves, or in this process, where no worker is lost alone. Values that you hold
            on workers, as parameters of a training, are copied after as much work on all submissions. No call to a
            worker runs several nodes that are predicted to take longer.
        retries: how often what one submission loses with Ray workers is made again, on those that remain and on new
            ones; a submission that loses more raises `WorkerLost`. So does one with a node during which three workers
            have died. 0: the first loss raises.
        blas_threads: BLAS threads per worker; bits are promised for equal numbers (H12).
        costs: a file that `session.costs.save` wrote: plans go by it until this session's own runs tell more.
        journal: a file that `steps` writes each completed step to, and goes on from when the program is run again.
        options: `worker_options`, which say what each worker offers (num_cpus, memory, resources); and, passed to Ray
            like those, `runtime_env`, `placement_group`, `object_store_memory`. On a service: its `token`, by default
            what RAYGRAD_TOKEN says; `ca`, the file (PEM) of an authority that the system does not trust; and
            `allow_pickle`, with which code of both sides runs on the other. Sessions that name no address take the
            last two from RAYGRAD_CA and RAYGRAD_ALLOW_PICKLE=1.

    Raises:
        TypeError, ValueError: an address, option or policy that does not exist, or a value that an option cannot have.
        CostsError: the file of costs is none.
        FileNotFoundError: there is no folder for the journal.
        BackendUnavailable: Ray is asked for and not installed.
        DeviceError: there are not so many GPUs, or they cannot be used.
        ExecutionError: Ray has too little for the workers, or none of them comes up for 60 s, or they run other
            versions.
        NumericsError: workers may give different bits.
        SessionError: on Ray, in a process that was forked from one that used Ray.
    """

    @public
    def __init__(
        self,
        address: str | None = None,
        *,
        workers: Workers = None,
        gpus: int | None = None,
        memory: Memory = None,
        gpu_memory: Memory = None,
        saved: str = "store",
        deterministic: bool = True,
        strict: bool = False,
        sync: bool = False,
        seed: int = 0,
        timeout: float | None = None,
        node_timeout: float | None = None,
        segment_timeout: float | None = None,
        run_timeout: float | None = None,
        recovery_time: float | None = 10.0,
        retries: int = 64,
        blas_threads: int = 1,
        costs: str | os.PathLike[str] | None = None,
        journal: str | os.PathLike[str] | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        given = checked_arguments(
            address,
            workers=workers,
            gpus=gpus,
            memory=memory,
            gpu_memory=gpu_memory,
            saved=saved,
            deterministic=deterministic,
            strict=strict,
            sync=sync,
            seed=seed,
            timeout=timeout,
            node_timeout=node_timeout,
            segment_timeout=segment_timeout,
            run_timeout=run_timeout,
            recovery_time=recovery_time,
            retries=retries,
            blas_threads=blas_threads,
            costs=costs,
            journal=journal,
            options=cast("dict[str, Any]", options),
        )
        self.address, self.saved = given.address, given.saved
        self._memory = memory, gpu_memory
        self._saved_state = SavedState(given.journal)
        measured = MeasuredCosts()
        self.costs = SessionCosts(measured)
        """What runs have shown of what things cost."""
        if given.costs is not None:
            self.costs.load(given.costs)
        for listener in tuple(session_defaults.before_open):
            listener()
        opened = open_workers(
            given.address,
            workers=given.workers,
            gpus=gpus,
            most=None if given.scale is None else given.scale.most,
            strict=given.strict,
            blas_threads=given.blas_threads,
            options=given.options,
        )
        try:
            settings = _driver_settings(given, opened, measured)
        except BaseException:
            opened.close()
            raise
        self._connect(given, opened, settings)
        self._entered: dict[int, list[Any]] = {}
        """By thread that has entered it, the recorders that were ambient before, outermost first."""
        self._open: OpenSession | None = None
        """Set by the first to enter."""
        self._owner = 0
        """The thread that entered first."""
        leave_to_parent_in_forks(self._log, self._driver)
        for listener in tuple(session_defaults.after_open):
            listener(self)

    def _connect(self, given: SessionArguments, opened: SessionWorkers, settings: DriverSettings) -> None:
        """Make the collaborators that do the work, and connect them with the workers and with each other."""
        self._devices = devices_of(opened.cluster)
        self._observed = observed = Observations()
        self._runs = runs = RunTable()
        self._held = held = HeldRecords()
        self._collector = collector = GarbageCollectorTuning()
        self._warnings = warnings = RemoteWarnings(filters_in_force())
        self._log = log = RecordLog(stores_residuals=given.saved != WORKER)
        self._failures = failures = Failures(log, held, runs, opened.name_of)
        self._listener = RunListener(runs, observed, failures, warnings, log.specs, self.costs, opened)
        self._name_of = opened.name_of
        self._driver = driver = opened.start(settings, self._listener)
        several, local = len(opened.cluster.workers) > 1, given.is_local
        unlocked = log.unlocked if several and given.workers is not None and local else None
        self._waiter = waiter = Waiter(driver, failures, warnings, runs, collector, given.timeout, unlocked)
        inputs = InputRecorder(log, by_reference=local and not given.strict)
        code = UserCode(
            inputs,
            observed,
            lambda shipped: opened.learn(shipped.fingerprint, shipped.shipment),
            CallCosts(lambda: settings.measured.values.functions),
            several_workers=several,
            remote=not local,
            named=opened.named,
        )
        link = RunLink(waiter, log, runs.clocks, opened.name_of, same_clock=local)
        self._submitter = Submitter(
            link, code, runs, held, failures, GraphCache(), self.costs, driver, collector, sync=given.sync
        )
        self._fetcher = Fetcher(log, self._submitter, waiter, failures, driver)
        log.shared.settle = self._fetcher.bring_home
        limited = given.memory is not None or given.gpu_memory is not None
        self._execution = SessionExecution(self._submitter, self._fetcher, waiter, held, given.saved, limited=limited)
        self._recorder = SessionRecorder(self, inputs, code, observed, self._execution, self._device_of)

    # ---- its life ---------------------------------------------------------------------------------------------------

    @public
    def __enter__(self) -> Session:
        self._check_open()
        outer = state.recorder
        if isinstance(outer, SessionRecorder) and outer.log.trace is not None:
            raise outer.log.trace.refusal("a session is opened")
        thread = threading.get_ident()
        self._entered.setdefault(thread, []).append(outer)
        state.recorder = self._recorder
        if self._open is None:
            self._open, self._owner = OpenSession(threading.current_thread().name), thread
            OPEN_SESSIONS.add(self._open)
            self._collector.begin()
        return self

    @public
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        thread = threading.get_ident()
        before = self._entered.get(thread)
        if before:
            self._leave(before)
            if not before:
                del self._entered[thread]
            if before or thread != self._owner:
                return  # the block that entered first closes it
        self._collector.end()
        if not self._log.left_to_parent:  # a forked process leaves the block, and the session to its parent
            self.close(discard=error is not None)

    def start(self) -> Session:
        """Make it the ambient session of this thread until `close()`: for notebooks, where no `with` spans cells."""
        return self if state.recorder is self._recorder else self.__enter__()

    @public
    def close(self, discard: bool = False) -> None:
        """Wait for submitted work, fetch every value that still has a handle, and let go of the workers.

        Args:
            discard: do not wait; values not yet here are dropped, and reading them says so.

        Raises:
            TypeError: `discard` is neither True nor False.
            An error of the session's work that was not raised before.
        """
        discard = flag("session.close(discard=...)", discard)
        self._check_process()
        before = self._entered.get(threading.get_ident())
        while state.recorder is self._recorder and before:  # started more than once, or closed by another thread
            self._leave(before)
        if self._log.closed:
            return
        if self._open is not None:
            OPEN_SESSIONS.discard(self._open)
        try:
            if not discard:
                self._finish()
        finally:
            self._log.close(self._driver.unusable)
            self._driver.close()
            self._collector.end()
            self._runs.history.clear()
            self._warnings.close()

    def _leave(self, before: list[Any]) -> None:
        """Make ambient what was so before this thread entered last, unless another session is meanwhile: blocks may end
        in any order, those of generators for instance."""
        outer = before.pop()
        if state.recorder is self._recorder:
            thread = threading.get_ident()
            while isinstance(outer, SessionRecorder) and outer.closed:
                earlier = outer.session._entered.get(thread)
                outer = earlier.pop() if earlier else None
            state.recorder = outer

    def _finish(self) -> None:
        """Run what is left and fetch what is still held."""
        waiter = self._waiter
        waiter.poll()
        waiter.raise_errors()
        if self._driver.unusable:
            return  # what was not read is lost, which reading it says
        with self._warnings.deferred():  # one that is made an error must not keep values from being fetched
            self._submitter.submit()
            record_deferred(self._log)
            self._submitter.submit()
            waiter.wait_for_everything()
            for record in self._held:
                if record.run in self._failures.runs:
                    continue
                for index in record.held_outputs():
                    here = record.values is not None and index in record.values
                    if isinstance(record.outputs[index].spec, ArraySpec) and not here:
                        self._fetcher.fetch(record, index)
            if self._log.shared:
                self._fetcher.bring_home()
        waiter.raise_errors()

    def _check_open(self) -> None:
        """Raise SessionError if the session is closed."""
        if self._log.closed:
            raise self._log.closed_error("this session is closed; open a new one")

    def _check_process(self) -> None:
        """Raise SessionError in a process that was forked from the session's."""
        if self._log.left_to_parent:
            self._check_open()

    # ---- what its users call ----------------------------------------------------------------------------------------

    @public
    def run(self, *values: Tensor) -> Run:
        """Submit what is recorded, `values` among it, and return the run; does not block."""
        all_tensors("session.run", values)
        self._check_process()
        if self._log.trace is not None:
            raise self._log.trace.refusal("session.run() is called")
        self._submitter.submit()
        if self.last_run is None:
            raise SessionError("nothing has been recorded in this session yet")
        return self.last_run

    @public
    def cancel(self) -> bool:
        """Cancel all runs that have not ended, see `Run.cancel`; return whether there were any. What is recorded and
        not submitted stays recorded. Ctrl-C does this while the program waits for the session."""
        self._check_process()
        return self._waiter.cancel()

    @public
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

    def progress(self) -> AbstractContextManager[None]:
        """Show a bar on standard error, or in the notebook's cell, for each wait in a block: the segments that are
        done, the bytes that they stored, and the predicted end. Outside of such a block a wait of more than two seconds
        shows one where standard error is a terminal; RAYGRAD_PROGRESS=0 in the environment shows none anywhere."""
        self._check_process()
        return self._waiter.progress.requested()

    @contextmanager
    def deferred(self) -> Generator[None]:
        """Record passes and optimiser steps without submitting them: the next read, `run()`, pass or step after it
        submits all that was recorded as one graph, and so does a read inside."""
        self._check_process()
        before, self._log.deferred = self._log.deferred, True
        try:
            yield
        finally:
            self._log.deferred = before

    def on(self, name: str, handler: Callable[[Any], Any]) -> None:
        """Call `handler(value)` for every `rg.emit(name, value)` of this session's code, on the thread that waits.

        Raises:
            TypeError: the name is no string, or the handler cannot be called.
        """
        named("session.on(name, handler)", name)
        if not callable(handler):
            raise TypeError(f"session.on({name!r}, handler) takes a function of the value, got {shown(handler)}")
        self._listener.handlers.setdefault(name, []).append(handler)

    def compile(self, fn: Callable[P, R]) -> CompiledFunction[P, R]:
        """Return `fn` as a function that is recorded once and then replayed with new arguments: a training step without
        recording and planning; see `CompiledFunction`."""
        return CompiledFunction(self._recorder, self._execution, fn)

    @public
    def put(self, value: Any) -> Tensor:
        """Return a tensor that stands for an array which is sent to each worker once, whatever uses it later.

        Raises:
            TypeError: it is no array of numbers.
            SessionError: the session is closed.
        """
        self._check_open()
        array = value.read() if isinstance(value, Tensor) else array_of("session.put", value)
        return Tensor.made(self._recorder.inputs.constant_array(array.copy(order="K")))

    @public
    def save(self, path: str | os.PathLike[str], state: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Save named state to a file, atomically as `raygrad.save` does, and wait for what is pending in it.

        The file holds tensors with their gradients, what `state_dict()` returns of optimisers, schedules and other
        objects that have it, dicts and lists of these, and plain values; and where the random numbers of the program
        stand, so that a program that loads it draws the same numbers.

        Args:
            path: of the file.
            state: the state by name; and more by keyword. None: what is tracked.

        Raises:
            TypeError: something in it cannot be saved (`SaveError`), or there is nothing to save.
            OSError: the file cannot be written.
            An error of the session's work; nothing is written then.
        """
        self._refuse_in_trace("session.save() is called")
        self._saved_state.save(path_of("session.save(path, ...)", path), state, named)

    @public
    def load(
        self,
        path: str | os.PathLike[str],
        state: Mapping[str, Any] | None = None,
        /,
        *,
        strict: bool = True,
        **named: Any,
    ) -> dict[str, Any]:
        """Restore named state in place from a file of `save`, and where the random numbers of the program stand.

        Args:
            path: of the file.
            state: what is to be restored by name, and more by keyword: tensors take over values and gradients, other
                objects are given their state by `load_state_dict`. None: what is tracked.
            strict: whether all of the names have to be saved, and all that are saved to be named.

        Returns:
            The state by name; what cannot be changed in place, such as a number, as it was saved.

        Raises:
            OSError: the file cannot be read.
            RuntimeError: it is damaged, no file of `save`, or does not fit (`LoadError`); no tensor is changed then.
            An error of the session's work that was not raised before.
        """
        self._refuse_in_trace("session.load() is called")
        strict = flag("session.load(strict=...)", strict)
        path = path_of("session.load(path, ...)", path)
        self._complete_step()  # no failure of what was recorded before, or will be later, takes back what is loaded
        found = self._saved_state.load(path, state, named, strict)
        self._complete_step()
        return found

    @public
    def track(self, **named: Any) -> None:
        """Name state that `save`, `load` and `steps` are about: tensors, optimisers, schedules, other objects with
        `state_dict()` and `load_state_dict()`, and dicts and lists of these. A name that is given again is replaced.

        Raises:
            TypeError: something that cannot be changed in place, such as a number.
        """
        self._saved_state.track(named)

    @public
    def steps(self, n: int, *, every: int = 1) -> Iterator[int]:
        """Iterate over the numbers of `n` steps: with `Session(journal=...)` over those that no earlier run of the
        program has completed, with the tracked state as it was after the last one.

        A step is completed when the next one is asked for: all that it submitted is waited for, its emits have reached
        their handlers, and the tracked state and the random numbers are written to the journal. A program that died is
        run again from its beginning; its loop then goes on there. What ran in the step that it died in runs again, its
        handlers and prints, too. Loops of one program are told apart by their order.

        Args:
            n: how many steps the whole training has.
            every: write after every so many steps, and after the last one.

        Raises (when the first step is asked for):
            ValueError: there is a journal, and nothing is tracked.
            OSError: the journal cannot be read or written.
            RuntimeError: it is damaged, or of other names or shapes than are tracked now (`LoadError`).
        """
        n, every = whole("session.steps(n)", n, 0), whole("session.steps(every=...)", every, 1)
        return self._saved_state.steps(n, every, self._complete_step)

    def _complete_step(self) -> None:
        """Wait for all that was recorded, and raise its errors; what was assigned till now is not undone any more."""
        self._check_process()
        if not self._log.closed:
            self._submitter.submit()
            self._waiter.wait_for_everything()
            self._waiter.raise_errors()
            self._log.variables.clear()

    def _refuse_in_trace(self, what: str) -> None:
        self._check_process()
        if self._log.trace is not None:
            raise self._log.trace.refusal(what)

    @public
    def add_workers(self, n: int = 1, *, timeout: float | None = JOIN_SECONDS, **options: Any) -> tuple[str, ...]:
        """Ask Ray for more workers, and wait until they are there; return their names. What runs goes on meanwhile, and
        what of it has not begun is divided among all workers then.

        Args:
            n: how many.
            timeout: seconds after which those that have not come are given up; None waits as long as it takes.
            options: options of Ray's actors, beside those of the session's `worker_options`: num_cpus, resources, ...

        Raises:
            TypeError, ValueError: an option that no worker can have; GPUs.
            SessionError, ExecutionError: no workers can join this session, or one of them does not start.
            NumericsError: a worker may give other bits than the others.
            WaitTimeout: not all have come in time.
        """
        n = whole("session.add_workers(n)", n, 1, MOST_WORKERS)
        timeout = seconds("session.add_workers(timeout=...)", timeout)
        self._check_open()
        check_addition(*self._memory)
        options_of("ray", {"worker_options": options})
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._waiter.unlocked():
            return self._driver.add_workers(n, options, deadline)

    @public
    def remove_worker(self, worker: int | str, *, timeout: float | None = None) -> None:
        """Empty a worker and end it: what has not begun there runs elsewhere, what runs there ends, and what it has
        and is still needed is brought to the object store.

        Args:
            worker: its index or name. Those of the others stay as they are.
            timeout: seconds after which the worker stays after all; None waits as long as it takes.

        Raises:
            TypeError, ValueError: there is no such worker.
            ExecutionError: it is the last one, or has something that cannot leave it; it stays then.
            WaitTimeout: it was not empty in time.
            WorkerLost: it died before it was empty.
        """
        timeout = seconds("session.remove_worker(timeout=...)", timeout)
        self._check_open()
        index = worker_index("session.remove_worker(...)", self._driver.cluster.workers, worker)
        deadline = None if timeout is None else time.monotonic() + timeout
        self._submitter.release_dropped()  # what nobody holds any more need not be brought anywhere
        with self._waiter.unlocked():
            self._driver.remove_worker(index, deadline)

    @property
    def workers(self) -> int:
        """How many workers it has. `rg.place(worker=...)` counts them from 0, those that have left or died included."""
        return len(self.worker_names)

    @property
    def worker_names(self) -> tuple[str, ...]:
        """The names of its workers: "worker 0", ..., without those that have left, are about to, or died."""
        workers = self._driver.cluster.workers
        return tuple([workers[index].name for index in self._driver.present])

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that its workers serve beside the host."""
        return self._devices

    @property
    def sync(self) -> bool:
        """Whether `apply` and `backward` wait for their runs."""
        return self._submitter.sync

    @sync.setter
    def sync(self, sync: bool) -> None:
        self._submitter.sync = flag("session.sync", sync)

    @property
    def timeout(self) -> float | None:
        """Seconds that a wait may take."""
        return self._waiter.timeout

    @timeout.setter
    def timeout(self, timeout: float | None) -> None:
        self._waiter.timeout = seconds("session.timeout", timeout)

    @property
    def last_run(self) -> Run | None:
        """The run that was submitted last."""
        return self._runs.last

    @property
    def clocks(self) -> dict[str, ClockOffset]:
        """Per worker, how far its clock is from this one."""
        return self._runs.clocks

    @property
    def saved_bytes(self) -> int:
        """Bytes of saved tensors and contexts in the object store now."""
        self._check_process()
        self._waiter.poll()
        return self._driver.saved_bytes

    @property
    def peak_saved_bytes(self) -> int:
        """The most that `saved_bytes` has been."""
        return self._driver.peak_saved_bytes

    def stored_bytes(self) -> int:
        """Return the bytes that the executor's object store holds: on Ray, from its own statistics."""
        self._check_process()
        self._submitter.release_dropped()
        return self._driver.stored_bytes()

    def _device_of(self, device: Device) -> Device:
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


def ambient() -> Session | None:
    """Return the session that this thread records into, or None."""
    recorder = state.recorder
    return recorder.session if isinstance(recorder, SessionRecorder) else None


def executor_of(session: Session) -> Executor:
    """Return what runs the calls of an open session: for faults (`raygrad.chaos`), which reach under what it promises.

    Raises:
        SessionError: it is closed, or its workers are those of a service.
    """
    session._check_open()
    driver = session._driver
    if not isinstance(driver, Driver):
        raise SessionError(f"the workers of a session on {session.address} are a service's, and take no faults")
    return driver.executor


def _driver_settings(given: SessionArguments, opened: SessionWorkers, measured: MeasuredCosts) -> DriverSettings:
    """Return what the driver of a session goes by; `measured` learns what is known of the links to its workers.

    Raises:
        NumericsError: the workers may give different bits.
        TypeError, ValueError: the limits of memory are not for these workers.
    """
    may_lose = opened.reports_unasked  # else no worker is lost alone, and copies would protect nothing
    at_stake = given.recovery_time if may_lose and given.recovery_time is not None else inf
    measured.links_were(**opened.links(), more_come=given.scale is not None, recovery_time=at_stake)
    check_numerics(opened.cluster, given.deterministic)
    limited = limited_to(opened.cluster, given.memory, given.gpu_memory)
    return DriverSettings(
        cluster=replace(limited, saved_stays=given.saved == WORKER),
        measured=measured,
        seed=given.seed,
        recovery_time=at_stake,
        retries=given.retries if may_lose else 0,
        limits=given.limits,
        scale=given.scale,
        admission=partial(admission, memory=given.memory, deterministic=given.deterministic),
    )
