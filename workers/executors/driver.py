"""The driver: carries out the state machine's commands on an executor, and turns the executor's reports into events.

Sessions submit, read and drop values through it. It schedules nothing: events enter the machine by `_dispatch` only,
and its commands are carried out in order. Reports to the listener come after that, in order and outside the lock, so
that a handler may use the session. Small results arrive in records; larger ones are fetched when read (H14).

Several client threads may use one driver. State is behind one lock, which is never held while waiting; one thread at a
time waits at the executor, the others wait for that thread."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, cast

from raygrad.errors import ExecutionError, PlanError, RaygradError, WaitTimeout, WorkerLost
from raygrad.proto.ir.program import Pinned, Record
from raygrad.scheduler.machine.commands import (
    CopyValues,
    DropCopy,
    DropExport,
    DropValue,
    EndWorker,
    ExportValue,
    FailReason,
    FailRun,
    FinishRun,
    ForgetRun,
    KeepWorker,
    LoseValue,
    PlanRecovery,
    PlanRest,
    ReplaceWorker,
    RestartWorker,
    ReviewPlan,
    RunSegment,
    StopSegments,
    Unpin,
    UseCopy,
    UseObject,
    VoidSegment,
    WithdrawSegments,
)
from raygrad.scheduler.machine.events import (
    Event,
    PlanReviewed,
    PlanSubmitted,
    RestPlanned,
    RunAbandoned,
    RunStopped,
    SegmentFinished,
    SegmentsWithdrawn,
    Status,
    StopAnswered,
    TimePassed,
    ValueCopied,
    ValueDropped,
    ValueExported,
    ValueRequested,
    WorkerDied as WorkerLostEvent,
    WorkerReplaced,
)
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.machine.state import NEVER
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.scheduler.model.plan import Cluster, InStore, OnWorker, Plan
from raygrad.scheduler.model.progress import PlanRevision
from raygrad.scheduler.planning.planner import Planned, Planner
from raygrad.tracebacks import users_level

from ..process.forked_locks import renew_after_fork
from ..values.packed_values import POISON
from .base import (
    CallInterrupted,
    CopyReady,
    EmitsArrived,
    Executor,
    JoinFailed,
    ObjectGone,
    ObjectId,
    ObjectsGone,
    Report,
    SegmentId,
    SegmentReturned,
    ValueReady,
    Work,
    WorkerGone,
    WorkerJoined,
    WorkerRestarted,
    WorksWithdrawn,
    copy_object,
    failed_record,
    value_object,
)
from .calls import External, GraphSubmission, LocatedExternal, SuppliedExternal, residency_of, supplied_bytes, work_of
from .deadlines import NO_LIMITS, DeadlineWatch, Expired, Limits, expired_call
from .disagreement import Disagreement
from .elastic_workers import ElasticWorkers, Scale
from .lost_work import LostWork
from .read_ahead import ReadAhead
from .run_state import Listener, Lost, LostWorker, RunState
from .session_driver import SessionDriver

RUNS_WEIGHED: Final = 256
"""The most runs of which it is looked up what is left to do, when another one is submitted."""

LOST_SLICE: Final = 0.01
"""Seconds in which the report of a lost object is waited for."""

LOOK_SECONDS: Final = 0.5
"""Seconds between looks whether workers are needed, idle, or on machines that are about to go."""

ADVANCE_SLICE: Final = 0.05
"""Seconds for which the thread that looks after workers waits for reports at a time, while one is emptied."""

STOP_SLICE: Final = 0.005
"""Seconds between looks whether what was cancelled has ended."""

WAIT_SLICE: Final = 0.25
"""Seconds between checks whether a wait is over: another thread may have ended it, or its deadline passed."""


class Driver(SessionDriver):
    """The loop between state machine, executor and listener; see the head of this file. `close` closes the executor."""

    def __init__(
        self,
        executor: Executor,
        planner: Planner,
        machine: Machine,
        listener: Listener,
        clock: Callable[[], float] = time.monotonic,
        limits: Limits = NO_LIMITS,
        scale: Scale | None = None,
    ) -> None:
        self.executor = executor
        self.reports_unasked = executor.reports_unasked
        self.planner = planner
        self._machine = machine
        self._listener = listener
        self._clock = clock
        self._runs: dict[int, RunState] = {}
        self._read_ahead = ReadAhead()
        self._lost_work = LostWork(executor, planner, self._runs, self._replanned)
        self._worker_index = {spec.name: index for index, spec in enumerate(executor.cluster.workers)}
        self._lost: dict[int, str] = {}
        """Per lost worker, the reason."""
        self._unpins: dict[int, list[Pinned]] = {}
        """Per worker, values that the next call to it unpins, or a message of its own if nothing runs there."""
        self._running: dict[int, int] = {}
        """Per worker, the number of calls that are not answered."""
        self._ready: set[ObjectId] = set()
        """Objects made of pinned values."""
        self._dropped: list[Event] = []
        """Values that the client has released, for the machine to be told with what happens next."""
        self._reports: deque[TimedRecord | int | partial[None]] = deque()
        """What the listener is yet to be told: records, runs that have finished, and calls of it."""
        self._delivering = 0
        """The number of threads inside of a listener callback."""
        self._lock = threading.RLock()
        self._waiter = threading.RLock()
        """Held by the thread that waits at the executor."""
        self._news = threading.Condition(threading.Lock())
        """Notified when that thread has received reports, or stops waiting."""
        self._closed = False
        self._limits = limits
        self._expired: dict[int, Expired] = {}
        """By run, what has passed its deadline, until the listener knows."""
        self._watch = DeadlineWatch(self.check_deadlines, limits.interval) if limits.interval else None
        self.workers = ElasticWorkers(executor, planner, machine, self._dispatch, self._warn, clock, scale)
        """Which of them come and go."""
        watched = scale is not None or self.workers.may_leave
        self._worker_watch = DeadlineWatch(self.look_at_workers, LOOK_SECONDS) if watched else None
        self._torn: type[BaseException] | None = None
        """What was raised in the middle of a change of this state: a RecursionError near the limit, or what a signal
        handler raised. Nothing can be relied on then, and waits might never end."""

    # ---- requests of the session ------------------------------------------------------------------------------------

    def submit(self, submission: GraphSubmission, dropped: Iterable[tuple[int, int]] = ()) -> Planned:
        """Plan a graph and dispatch its first segments. Does not block, nor call the listener. The kept values
        `dropped` are released before that; see `drop`.

        Raises:
            PlanError: no worker can run one of its nodes.
            ExecutionError: the driver is closed, or the graph reads a value that is not held.
        """
        with self._lock:
            if self._closed:
                raise ExecutionError("this session's workers are gone: it was closed")
            self._check_whole()
            self._release(dropped)
            externals = tuple([self._locate(external) for external in submission.externals])
            planned, _ = self._plan(submission, externals)
            try:
                expected = self._read_ahead.of_graph(submission.key) if self.executor.remote else None
                self._runs[submission.run] = RunState(planned, externals, expected, submission.paths)
                self._runs[submission.run].began = self._clock()
                self._runs[submission.run].deaths = len(self._lost_work.died)
                sources = self._runs[submission.run].sources()
                remembered = self._machine.retries > 0
                self._runs[submission.run].remembered = remembered
                self._dispatch(
                    PlanSubmitted(
                        at=self._clock(),
                        run=submission.run,
                        plan=planned.plan,
                        sources=sources,
                        supplied_bytes=supplied_bytes(externals) if remembered else 0,
                    )
                )
                self._flush_unpins()
            except BaseException as error:
                self._torn = error.__class__
                raise
            if self.planner.due is not None:  # while the workers run
                self.planner.reconsider(lambda: self._loop_carried(planned, externals))
            return planned

    def _plan(
        self, submission: GraphSubmission, externals: Sequence[SuppliedExternal | LocatedExternal]
    ) -> tuple[Planned, tuple[int, ...]]:
        """Plan a graph beside what is under way; return with the plan the workers of its external inputs. What only a
        worker can run that died waits for the process that is to take its place."""
        graph, key = submission.graph, submission.key
        residency = tuple([residency_of(external) for external in externals])
        try:
            planned = self.planner.plan(graph, residency, key)
        except PlanError:
            awaited = frozenset(self._machine.state.replacing)
            if not awaited:
                raise
            return self.planner.plan_awaiting(graph, residency, key, awaited), residency
        if self.executor.remote:
            pending = partial(self._pending, externals)
            planned = self.planner.plan_beside(planned, graph, residency, key, self._busy, pending)
        return planned, residency

    def _check_whole(self) -> None:
        """Raise ExecutionError if a change of the state was broken off."""
        if self._torn is not None:
            raise ExecutionError(
                f"{self._torn.__name__} was raised while this session kept account of its work (near the limit of "
                "recursion, or by a signal handler), so that it cannot go on: open a new one"
            )

    def _busy(self) -> list[float]:
        """Return, per worker, the predicted seconds of segments of the latest runs that have not ended; infinite for
        those that are lost or about to leave."""
        busy = [float("inf") if self._is_going(worker) else 0.0 for worker in range(len(self._worker_index))]
        for run in islice(reversed(self._runs.values()), RUNS_WEIGHED):
            if not run.finished:
                for index, segment in enumerate(run.planned.plan.segments):
                    if index not in run.done:
                        busy[segment.worker] += segment.predicted_seconds
        return busy

    def _is_going(self, worker: int) -> bool:
        return worker in self._lost or worker in self.workers.leaving

    def _pending(self, externals: Sequence[SuppliedExternal | LocatedExternal]) -> frozenset[int]:
        """Return the external inputs that segments under way are yet to make."""
        return frozenset(
            [
                index
                for index, one in enumerate(externals)
                if isinstance(one, LocatedExternal)
                and one.run in self._runs
                and one.place.segment not in self._runs[one.run].done
            ]
        )

    def preview(self, submission: GraphSubmission) -> tuple[Planned, tuple[int, ...]]:
        """Return the plan that a graph would get if it were submitted now, and the workers of its external inputs.

        Raises:
            PlanError: no worker can run one of its nodes.
        """
        with self._lock:
            externals = tuple([self._locate(external) for external in submission.externals])
            return self._plan(submission, externals)

    def poll(self, timeout: float = 0.0, *, submits: bool = False) -> None:
        """Handle the executor's reports, waiting up to `timeout` seconds for the first; call the listener. With
        `submits`, the caller submits next: pending unpins go along with those calls.

        Raises:
            KeyboardInterrupt: it came while this thread waited, or ran a segment.
            Whatever a handler of the listener raises; the reports after it come with the next poll.
        """
        if self._waiter.acquire(blocking=False):
            try:
                if not self._closed:
                    self._check_whole()
                    due = min(self._machine.state.review_at, self._machine.state.stop_at)
                    arrived = self.executor.poll(timeout if due == NEVER else self._until(due, timeout))
                    with self._lock:
                        try:
                            self._take(arrived, awaited=timeout > 0)
                            if due != NEVER and self._clock() >= due:
                                self._dispatch(TimePassed(at=self._clock()))
                            if not submits:
                                self._flush_unpins()
                        except BaseException as error:
                            self._torn = error.__class__
                            raise
            finally:
                self._waiter.release()
                with self._news:
                    self._news.notify_all()
        elif timeout > 0:
            with self._news:
                self._news.wait(timeout)
        self._deliver()
        if self.executor.emits_paused:
            handling = self._listener.handling
            if not handling or handling == threading.get_ident():
                self.executor.take_emits(waited_for=bool(handling))

    def _until(self, due: float, timeout: float) -> float:
        """Return how long to wait for reports if something is due meanwhile."""
        return min(timeout, max(due - self._clock(), 0.0))

    def wait(self, done: Callable[[], bool], deadline: float | None = None) -> None:
        """Poll until `done()`; `deadline` is a time of the driver's clock.

        Raises:
            WaitTimeout: the deadline has passed.
            ExecutionError: nothing is running that could end the wait, or only the code that waits.
            KeyboardInterrupt: Ctrl-C. All runs are cancelled then.
        """
        try:
            self._deliver()
            if not done() and self.executor.has_reports:
                self.poll()  # what has arrived already was not awaited
            while not done():
                remaining = WAIT_SLICE if deadline is None else deadline - self._clock()
                if remaining <= 0:
                    raise WaitTimeout("the wait passed its deadline; the work goes on and can be waited for again")
                self.executor.check_wait()
                idle = self._idle()
                self.poll(min(remaining, WAIT_SLICE))
                if idle and self._idle() and not done():
                    raise ExecutionError(
                        "nothing is running that could end this wait: a bug in raygrad, please report it"
                    )
        except KeyboardInterrupt:
            self.cancel_all()
            raise

    def read(self, run: int, value: int, deadline: float | None = None) -> Any:
        """Return a kept value, waiting for it and fetching it: an array, None if undefined, or another object; POISON
        if its run failed or it was dropped.

        Raises:
            WaitTimeout: the deadline has passed.
            WorkerLost: it was pinned on a worker that died after its run.
            ExecutionError: it cannot leave its worker: a context that cannot be pickled, say.
        """
        found: list[tuple[ObjectId | None, Any]] = []

        def here() -> bool:
            with self._lock:
                one = self._find(run, value)
            if one is not None:
                found.append(one)
            return one is not None

        with self._lock:
            if run in self._runs:
                self._runs[run].expected.add(value)
                self._runs[run].read.add(value)
        while True:
            self.wait(here, deadline)
            name, what = found.pop()
            if name is None:
                return what
            try:
                values = self.executor.read(name, None if deadline is None else max(deadline - self._clock(), 0.0))
                break
            except ObjectGone:  # what was in it is made again
                self.poll(LOST_SLICE)
            except KeyboardInterrupt:
                self.cancel_all()
                raise
        return POISON if values is POISON else values[what]

    def peek(self, run: int, value: int) -> Any:
        """Return a kept value that is here already, without waiting for anything; else None."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            known = self._runs.get(run)
            if known is None or value not in known.places:
                return None
            place = known.places[value]
            known.read.add(value)
            if value in known.results or place.segment not in known.done:
                return known.results.get(value)
            if isinstance(place, InStore):
                return self.executor.peek_object(ObjectId(run, place.segment, place.export), place.position)
            return self.executor.peek(place.worker, run, value)
        finally:
            self._lock.release()

    def stays_on_worker(self, run: int, value: int, deadline: float | None = None) -> bool:
        """Wait until a kept value exists; tell whether it stays on its worker until it is read. False for values that
        are inlined in records, None among them, and for values that do not exist: `read` returns these, or why.

        Raises:
            WaitTimeout: the deadline has passed.
        """
        found: list[bool] = []

        def here() -> bool:
            with self._lock:
                known = self._runs.get(run)
                if known is None or value not in known.places:
                    found.append(False)
                else:
                    place = known.places[value]
                    if place.segment in known.done or value in known.lost:
                        stays = isinstance(place, OnWorker) and value not in known.lost
                        found.append(stays and value not in known.results)
            return bool(found)

        self.wait(here, deadline)
        return found[0]

    def drop(self, values: Iterable[tuple[int, int]]) -> None:
        """Release the client's references to kept values (run, value). Those of failed runs are dropped already."""
        with self._lock:
            try:
                self._release(values)
                self._dispatch()
            except BaseException as error:
                self._torn = error.__class__
                raise

    def _release(self, values: Iterable[tuple[int, int]]) -> None:
        for number, value in values:
            run = self._runs.get(number)
            if run is None or run.places.pop(value, None) is None:
                continue
            run.results.pop(value, None)
            if value in run.requested and value not in run.read:
                run.expected.discard(value)
            self._dropped.append(ValueDropped(at=self._clock(), run=number, value=value))
            self._forget_if_empty(number)

    def abandon(self, run: int) -> None:
        """Cancel a run: segments that are not started never will be, and its values are dropped."""
        with self._lock:
            if run in self._runs:
                self._dispatch(RunAbandoned(at=self._clock(), run=run))

    def cancel(self, runs: Collection[int]) -> bool:
        """Cancel runs, and wait until nothing of them runs, which takes no longer than the machine's grace period:
        their values are dropped, and those of runs that read from them. Return whether one of them had not ended. Any
        thread may call this, while others wait."""
        with self._lock:
            if self._closed or self._torn is not None:
                return False
            ended = {run for run in runs if run not in self._runs or self._runs[run].finished}
            try:
                self._dispatch(*[RunStopped(at=self._clock(), run=run) for run in sorted({*runs} - ended)])
            except BaseException as error:
                self._torn = error.__class__
                raise
        self._wait_until_stopped()
        return len(ended) < len({*runs})

    def cancel_all(self) -> bool:
        """As `cancel`, for all runs."""
        with self._lock:
            runs = [number for number, run in self._runs.items() if not run.finished]
        return self.cancel(runs)

    def check_deadlines(self) -> None:
        """Stop runs of which something has taken longer than it may. Any thread may call this."""
        reports = self.executor.progress() if (self._limits.node or self._limits.segment) else []
        with self._lock:
            if self._closed or self._torn is not None:
                return
            for worker, call, silent in reports:
                name = self.executor.cluster.workers[worker].name
                if call is not None:
                    self._expire(call.run, expired_call(self._limits, name, call))
                elif silent:
                    self._expire_silent(worker, name, silent)
            limit, now = self._limits.run, self._clock()
            if limit is not None:
                for number, run in list(self._runs.items()):
                    if now - run.began > limit:
                        self._expire(number, Expired("run", now - run.began, limit))
            if now >= self._machine.state.stop_at:
                self._dispatch(TimePassed(at=now))

    def add_workers(self, count: int, options: Mapping[str, Any], deadline: float | None) -> tuple[str, ...]:
        """Ask for workers, and wait until they are there; return their names. What has not come by the deadline is
        given up.

        Raises:
            ExecutionError: no workers can join, or some do not.
            WaitTimeout: the deadline has passed.
            TypeError, ValueError: options that no worker can have.
        """
        with self._lock:
            self._check_whole()
            arrivals = self.workers.ask(count, options)
        try:
            self.wait(lambda: arrivals.over, deadline)
        except WaitTimeout:
            raise WaitTimeout(
                f"{len(arrivals.names)} of {count} workers have joined in time, and the others were given up: Ray has "
                "no room for them, or is still starting machines. Ask for fewer, for less each (num_cpus=0.5), or wait "
                "longer (timeout=300)"
            ) from None
        finally:
            if not arrivals.over:
                with self._lock:
                    self.workers.give_up()
        if arrivals.failed:
            raise arrivals.failed[0]
        return tuple(arrivals.names)

    def remove_worker(self, worker: int, deadline: float | None) -> None:
        """Empty a worker, and end it. It stays if the deadline passes before.

        Raises:
            ExecutionError: something cannot leave it.
            WaitTimeout: the deadline has passed.
            WorkerLost: it died meanwhile.
        """
        with self._lock:
            self._check_whole()
            self.workers.drain(worker)
        try:
            self.wait(lambda: worker not in self.workers.leaving, deadline)
        finally:
            with self._lock:
                self.workers.stop_draining(worker)
        self.workers.check_removed(worker)

    def look_at_workers(self) -> None:
        """Begin to empty workers that are not needed or on machines that are about to go, and ask for more where work
        waits. Goes on with what was begun also while nobody waits. Any thread may call this."""
        leaving = self.executor.leaving()
        with self._lock:
            if self._closed or self._torn is not None:
                return
            self.workers.look(leaving)
            active = bool(self.workers.leaving or self.executor.joining)
        until = self._clock() + LOOK_SECONDS
        while active and self._waiter.acquire(blocking=False):
            try:
                arrived = self.executor.poll(ADVANCE_SLICE if self.workers.leaving else 0.0)
                with self._lock:
                    if not self._closed:
                        self._take(arrived, awaited=False)
                        self._flush_unpins()
            except BaseException as error:
                self._torn = error.__class__
                raise
            finally:
                self._waiter.release()
                with self._news:
                    self._news.notify_all()
            active = bool(self.workers.leaving) and not self._closed and self._clock() < until

    def _warn(self, text: str) -> None:
        """Warn the user at the next sync point, on the thread that waits there."""
        self._reports.append(partial(warnings.warn, text, RuntimeWarning, stacklevel=users_level()))

    def _expire_silent(self, worker: int, name: str, silent: float) -> None:
        """Stop the earliest run of a worker that has not answered for longer than its calls may take: what it runs
        holds the interpreter's lock, in one node."""
        limits = [limit for limit in self._limits[:2] if limit is not None]
        if silent <= max(limits):
            return
        scope = "node" if self._limits.node is not None else "segment"
        for number, run in self._runs.items():
            for index in run.sent:
                if not run.finished and run.planned.plan.segments[index].worker == worker:
                    self._expire(number, Expired(scope, silent, max(limits), name, index))
                    return

    def _expire(self, number: int, expired: Expired | None) -> None:
        run = self._runs.get(number)
        if expired is not None and run is not None and not run.finished:
            self._expired[number] = expired
            self._dispatch(RunStopped(at=self._clock(), run=number, expired=True, segment=expired.segment))

    def _wait_until_stopped(self) -> None:
        """Wait until workers run nothing more of what they were told to stop, unless this thread does."""
        while self._machine.state.stopping and not self._closed and not self.executor.runs_here:
            self.poll(STOP_SLICE if self.executor.remote else 0.0)
            if not self.executor.remote:
                time.sleep(STOP_SLICE)  # what else is ready is not for this thread
            with self._lock:  # another thread may be running what does not stop, in `poll`
                if self._clock() >= self._machine.state.stop_at:
                    self._dispatch(TimePassed(at=self._clock()))
        if self.executor.has_reports:
            self.poll(0.0)  # workers that were replaced
        self._deliver()

    def close(self) -> None:
        """Stop the workers; unfinished runs are lost. Closing again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._runs.clear()
            self._reports.clear()
        for watch in (self._watch, self._worker_watch):
            if watch is not None:
                watch.close()
        self.executor.close()
        with self._news:
            self._news.notify_all()

    def leave_to_parent(self, why: str) -> None:
        """End it in a process that was forked from its own, and leave the executor as it is. Sessions say `why`."""
        self._closed = True
        self._runs.clear()
        self._reports.clear()
        self._news = threading.Condition(threading.Lock())
        for lock in (self._lock, self._waiter):
            renew_after_fork(lock)

    @property
    def cluster(self) -> Cluster:
        return self.executor.cluster

    @property
    def planning_cluster(self) -> Cluster:
        return self.planner.cluster

    @property
    def costs(self) -> Costs:
        return self.planner.costs

    @property
    def present(self) -> tuple[int, ...]:
        return tuple(self.workers.present)

    @property
    def unusable(self) -> str:
        return self.executor.unusable

    def stored_bytes(self) -> int:
        return self.executor.stored_bytes()

    @property
    def saved_bytes(self) -> int:
        """Bytes of saved tensors and contexts in the object store now, by the records' account."""
        return self._machine.state.saved_bytes

    @property
    def peak_saved_bytes(self) -> int:
        """The most that `saved_bytes` has been."""
        return self._machine.state.peak_saved_bytes

    # ---- reports of the executor ------------------------------------------------------------------------------------

    def _take(self, arrived: list[Report], *, awaited: bool) -> None:
        """Turn reports of the executor into events, in order."""
        for report in arrived:
            match report:
                case SegmentReturned(record, seconds):
                    self._returned(record, seconds, awaited=awaited)
                case ValueReady(run, value, ok, size, reason, left):
                    if ok:
                        self._ready.add(value_object(run, value))
                        if left:
                            self._brought(run, value, left)
                    elif run in self._runs:
                        self._runs[run].unreadable[value] = reason
                    self._dispatch(ValueExported(at=self._clock(), run=run, value=value, ok=ok, size=size))
                case WorksWithdrawn(works):
                    self._withdrawn(works)
                case EmitsArrived(chunk):
                    if chunk.run in self._runs and not self._runs[chunk.run].finished:
                        self._reports.append(partial(self._listener.emitted, chunk))
                    else:
                        chunk.take()  # of a run that failed or was cancelled: nobody hears it, nor waits for it
                case CopyReady(run, value, ok, size):
                    self._dispatch(ValueCopied(at=self._clock(), run=run, value=value, ok=ok, size=size))
                case CallInterrupted(run, segment):
                    self._dispatch(StopAnswered(at=self._clock(), run=run, segment=segment))
                case ObjectsGone(objects):
                    self._ready.difference_update(objects)
                    self._dispatch(self._lost_work.objects_gone(objects, self._clock()))
                case WorkerJoined(worker):
                    self._worker_index[self.executor.cluster.workers[worker].name] = worker
                    self.workers.joined(worker)
                case JoinFailed(reason):
                    self.workers.join_failed(reason)
                case WorkerRestarted(worker, ok):
                    if ok:
                        self._lost.pop(worker, None)
                        if worker not in self.workers.leaving:
                            self.planner.use_cluster(self.planner.cluster.restored(worker))
                    self._dispatch(WorkerReplaced(at=self._clock(), worker=worker, ok=ok))
                case WorkerGone(worker, reason):
                    self._lost[worker] = reason
                    self._lost_work.worker_lost(worker, died=not self.workers.was_ended(worker))
                    self._running.pop(worker, None)
                    self._unpins.pop(worker, None)
                    if len(self._lost) < len(self.executor.cluster.workers):
                        self.planner.use_cluster(self.planner.cluster.without(worker))
                    self._dispatch(WorkerLostEvent(at=self._clock(), worker=worker, reason=reason))
                    self.workers.gone(worker)

    def _returned(self, record: Record, seconds: float = 0.0, *, awaited: bool = False) -> None:
        at = self._clock()
        worker = self._worker_index[record.worker]
        self._running[worker] = self._running.get(worker, 1) - 1
        run = self._runs.get(record.run)
        opened: tuple[int, ...] = ()
        if run is not None and record.fingerprints.nodes and not self._lost_work.agrees(run, record):
            record = record._replace(status="failed", exports=(), results=(), sizes=(), emits=())
        elif run is not None and record.status == "done" and self._lost_work.died:
            run.disagreement = self._disagreement(run)
            if run.disagreement is not None:  # computed from what counts no more
                record = record._replace(status="skipped", exports=(), results=(), sizes=(), emits=())
        if run is not None:
            if record.status == "done":
                run.done.add(record.segment)
            base = run.planned.programs[record.segment].open_base
            if base >= 0:
                opened = tuple([value for value, _ in record.sizes if value >= base])
                run.places.update((value, OnWorker(worker, record.segment)) for value in opened)
            run.results.update((value, result) for value, result in record.results if value in run.places)
            if record.status == "failed" and run.failure is None:
                run.failure = record
            sent, spent = run.sent.pop(record.segment, (at, 0.0))
            if run.finished and record.emits:  # its nodes have emitted that before
                record = record._replace(emits=())
            if record.status != "skipped":
                self._reports.append(TimedRecord(record, sent, at, awaited, spent + seconds))
        self._dispatch(
            SegmentFinished(
                at=at,
                run=record.run,
                segment=record.segment,
                attempt=record.attempt,
                status=cast("Status", record.status),
                export_bytes=tuple([size for size, _ in record.exports]),
                opened=opened,
                node_seconds=record.timing.steps,
                seconds=record.seconds,
            )
        )
        if run is not None and run.expected and record.status == "done":
            self._fetch(run, record.run, run.to_fetch_ahead(record.segment))

    def _fetch(self, run: RunState, number: int, values: Sequence[int]) -> None:
        """Fetch kept values that segments have pinned."""
        for value in values:
            run.requested.add(value)
            self._dispatch(ValueRequested(at=self._clock(), run=number, value=value))

    def _brought(self, number: int, value: int, left: Sequence[tuple[str, int]]) -> None:
        run = self._runs.get(number)
        place = None if run is None else run.places.get(value)
        if run is not None and place is not None and value in run.requested:
            worker = run.planned.plan.segments[place.segment].worker
            self._reports.append(partial(self._listener.fetched, number, value, worker, left))

    def _dispatch(self, *events: Event) -> None:
        """Pass events to the state machine, after what was dropped before, and carry out its commands."""
        not_started: list[Record] = []
        answers: list[Event] = []
        dropped, self._dropped = self._dropped, []
        for command in self._machine.handle(*dropped, *events):
            match command:
                case RunSegment():
                    failed = self._start(command)
                    if failed is not None:
                        not_started.append(failed)
                case CopyValues(worker=worker, values=copied):
                    with contextlib.suppress(WorkerLost):  # which is reported next
                        self.executor.copy(worker, copied)
                case ExportValue(worker=worker, run=run, value=value):
                    known = self._runs.get(run)
                    requested = known is not None and value in known.requested
                    with contextlib.suppress(WorkerLost):  # which is reported next
                        self.executor.fetch(worker, run, value, self._producer_of(run, value), requested=requested)
                case DropExport(run=run, segment=segment, export=export):
                    self.executor.drop(ObjectId(run, segment, export))
                case DropValue(run=run, value=value):
                    self._ready.discard(value_object(run, value))
                    self.executor.drop(value_object(run, value))
                case DropCopy(run=run, value=value):
                    self.executor.drop(copy_object(run, value))
                case Unpin(worker=worker, values=values):
                    self._unpins.setdefault(worker, []).extend(values)
                case ReviewPlan():
                    answers.append(self._review(command))
                case WithdrawSegments():
                    self._withdraw(command)
                case PlanRest():
                    answers.append(self._plan_rest(command))
                case StopSegments():
                    self._stop(command)
                case ReplaceWorker(worker=worker):
                    if not self.executor.replace(worker):
                        self._reports.append(partial(self._listener.still_running, command.run, command.segment))
                        answers.append(WorkerReplaced(at=self._clock(), worker=worker))
                case PlanRecovery():
                    answers.append(self._lost_work.plan(command, self._clock()))
                case UseObject(run=run, value=value):
                    self._lost_work.use_object(run, value)
                case UseCopy(run=run, value=value):
                    self._lost_work.use_copy(run, value)
                    self._ready.add(value_object(run, value))
                case ForgetRun(run=run):
                    known = self._runs.pop(run, None)
                    if known is not None:
                        self._forget_programs(known)
                        self._lost_work.forgotten(known)
                case RestartWorker(worker=worker):
                    if self.workers.was_ended(worker) or not self.executor.restart(worker):
                        answers.append(WorkerReplaced(at=self._clock(), worker=worker, ok=False))
                case EndWorker(worker=worker):
                    self.workers.end(worker)
                case KeepWorker(worker=worker, run=run, value=value):
                    reason = self._runs[run].unreadable.get(value, "") if run in self._runs else ""
                    answers += self.workers.kept(worker, reason)
                case LoseValue(run=run, value=value, worker=worker):
                    self._runs[run].lost[value] = worker
                case VoidSegment(run=run, segment=segment):
                    self._lost_work.void(run, segment)
                case FinishRun(run=run):
                    self._runs[run].finished = True
                    self._runs[run].let_go_of_inputs()
                    self._forget_programs(self._runs[run])
                    self._forget_if_empty(run)
                    self._reports.append(run)
                case FailRun():
                    self._failed(command)
        for record in not_started:
            self._returned(record)
        if answers:
            self._dispatch(*answers)

    def _failed(self, why: FailRun) -> None:
        run = self._runs.pop(why.run)
        self._forget_programs(run)
        reason = why.reason.value
        lost: Lost | None = self._expired.pop(why.run, None) or self._disagreement(run)
        if lost is not None:
            pass
        elif why.reason is FailReason.WORKER_LOST:
            name = self.executor.cluster.workers[why.worker].name
            reason += f": {name} ({self._lost.get(why.worker, 'gone')})"
            segments = run.planned.plan.segments
            sent = tuple([one for one in run.sent if segments[one].worker == why.worker])
            lost = LostWorker(name, sent, len(self.executor.cluster.workers) - len(self._lost), run.killer)
        elif why.reason is FailReason.DEPENDENCY:
            reason += f" on run {why.cause}"
        record = run.failure if why.reason is FailReason.RAISED and lost is None else None
        self._reports.append(partial(self._listener.failed, why.run, record, reason, lost))

    def _disagreement(self, run: RunState) -> Disagreement | None:
        """Return what in a run, or in one that it reads from, was not the same when it ran again."""
        sources = [self._runs.get(one[0]) for one in run.sources() if one is not None]
        return next((one.disagreement for one in (run, *sources) if one is not None and one.disagreement), None)

    def _deliver(self) -> None:
        """Call the listener, in order; its handlers may re-enter."""
        reports, listener = self._reports, self._listener
        while reports:
            with self._lock:
                if not reports:
                    return
                report = reports.popleft()
                finished = (
                    isinstance(report, TimedRecord)
                    and bool(reports)
                    and reports[0] == report.record.run
                    and not report.record.emits  # whose handlers come before the end, and may wait for it
                )
                if finished:
                    reports.popleft()
                self._delivering += 1
            try:
                if isinstance(report, TimedRecord):
                    listener.record(report, finished)
                elif isinstance(report, int):
                    listener.finished(report)
                else:
                    report()
            finally:
                with self._lock:
                    self._delivering -= 1

    def _stop(self, command: StopSegments) -> None:
        """Have workers stop segments, all of a run at once."""
        by_worker: dict[int, set[int]] = {}
        for (run, _), worker in zip(command.segments, command.workers, strict=True):
            by_worker.setdefault(worker, set()).add(run)
        for worker, runs in by_worker.items():
            self.executor.stop(worker, sorted(runs))

    def _idle(self) -> bool:
        """Tell whether nothing is in flight, neither on workers nor in another thread."""
        with self._lock:
            return not (self.executor.busy or self.workers.awaited or self._reports or self._delivering)

    def _flush_unpins(self) -> None:
        """Send pending unpins to workers without a running call."""
        if self._dropped:  # what was to come next did not
            self._dispatch()
        for worker in [worker for worker in self._unpins if not self._running.get(worker)]:
            self.executor.unpin(worker, self._unpins.pop(worker))

    def _forget_if_empty(self, number: int) -> None:
        run = self._runs[number]
        if run.finished and not run.places and not run.remembered:
            del self._runs[number]

    # ---- plans that are revised --------------------------------------------------------------------------------------

    def _review(self, command: ReviewPlan) -> PlanReviewed:
        worth = self._runs[command.run].is_worth_replanning(self.planner, command.progress, command.gain)
        return PlanReviewed(at=self._clock(), run=command.run, worth=worth)

    def _withdraw(self, command: WithdrawSegments) -> None:
        """Have workers withdraw segments that they have not begun."""
        named = zip(command.workers, command.segments, strict=True)
        self.executor.withdraw([(worker, SegmentId(*name)) for worker, name in named])

    def _withdrawn(self, works: Sequence[Work]) -> None:
        """Take in which works were withdrawn. What they were to unpin goes with the next call to their worker."""
        for work in works:
            worker, call = work.worker, work.call
            if worker not in self._lost:
                self._running[worker] = self._running.get(worker, 1) - 1
                if call.unpin:
                    self._unpins.setdefault(worker, []).extend(call.unpin)
            run = self._runs.get(call.run)
            if run is not None:
                run.sent.pop(call.segment, None)
        names = tuple([(work.call.run, work.call.segment) for work in works])
        self._dispatch(SegmentsWithdrawn(at=self._clock(), segments=names))

    def _plan_rest(self, command: PlanRest) -> RestPlanned:
        """Plan again what of a run has not begun; tell the listener if the plan has changed."""
        number, at = command.run, self._clock()
        run = self._runs[number]
        new = run.plan_rest(self.planner, command.progress)
        if not new:
            return RestPlanned(at=at, run=number, plan=None)
        for other in self._runs.values():
            other.relocate(number, run)
        plan = run.planned.plan
        self._replanned(number, plan, PlanRevision(at, command.progress.rest, new))
        return RestPlanned(at=at, run=number, plan=plan, sources=run.sources())

    def _replanned(self, number: int, plan: Plan, revision: PlanRevision) -> None:
        """Tell the listener that the rest of a run was planned again."""
        self._reports.append(partial(self._listener.replanned, number, plan, revision))

    def _forget_programs(self, run: RunState) -> None:
        """Have workers forget the programs of a revised plan, which no other run has."""
        if run.keys:
            self.executor.forget_programs(run.keys)

    # ---- where values are -------------------------------------------------------------------------------------------

    def _locate(self, external: External) -> SuppliedExternal | LocatedExternal:
        """Return an external input with its place. A value of a failed run has none; the machine fails its readers.

        Raises:
            ExecutionError: it is not held.
        """
        if isinstance(external, SuppliedExternal):
            return external
        run = self._runs.get(external.run)
        place = None if run is None else run.places.get(external.value)
        if run is None or place is None:
            if external.run not in self._machine.state.failed_runs:
                raise ExecutionError(
                    f"a graph reads value {external.value} of run {external.run}, which was never kept, or let go of"
                )
            return LocatedExternal(external.run, external.value, InStore(-1, -1, -1), -1)
        if isinstance(place, OnWorker):
            worker = place.worker
        else:
            worker = run.planned.plan.segments[place.segment].worker
        return LocatedExternal(external.run, external.value, place, -1 if self._is_going(worker) else worker)

    def _loop_carried(
        self, planned: Planned, externals: Sequence[SuppliedExternal | LocatedExternal]
    ) -> list[tuple[int, int]]:
        """Return (external, value) of loop-carried values: those that an earlier run of the same graph made."""
        return [
            (index, one.value)
            for index, one in enumerate(externals)
            if isinstance(one, LocatedExternal)
            and one.run in self._runs
            and self._runs[one.run].planned.graph is planned.graph
        ]

    def _producer_of(self, number: int, value: int) -> SegmentId | None:
        """Return the segment that pins a value, or None if its run has ended."""
        run = self._runs.get(number)
        maker = -1 if run is None else run.producer_of(value)
        if run is None or maker in run.done or (run.finished and not run.remembered):
            return None
        return SegmentId(number, maker)

    def _find(self, number: int, value: int) -> tuple[ObjectId | None, Any] | None:
        """Return (None, value), or (object, position in it), or None if it is not here yet; then request it."""
        run = self._runs.get(number)
        if run is None or value not in run.places:
            return None, POISON
        if value in run.results:
            return None, run.results[value]
        place = run.places[value]
        if value in run.lost and (disagreement := self._disagreement(run)) is not None:
            raise disagreement.error()
        if value in run.lost:
            worker = run.lost[value]
            name_of_it, why = self.executor.cluster.workers[worker].name, self._lost.get(worker, "it was replaced")
            raise WorkerLost(f"the value was on {name_of_it}, which is lost ({why})", name_of_it)
        if place.segment not in run.done:
            return None
        if isinstance(place, InStore):
            return ObjectId(number, place.segment, place.export), place.position
        name = value_object(number, value)
        if name in self._ready:
            return name, 0
        if value in run.unreadable:
            raise ExecutionError(f"value {value} of run {number} cannot be brought here: {run.unreadable[value]}")
        if value not in run.requested:
            self._fetch(run, number, [value])
        return None

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _start(self, command: RunSegment) -> Record | None:
        """Start a segment; return its failed record if that is not possible."""
        began = time.thread_time()
        run = self._runs[command.run]
        unpinned = tuple(self._unpins.pop(command.worker, ()))
        work = work_of(command, run.planned, run.externals, unpinned, run.pins, run.paths)
        self._running[command.worker] = self._running.get(command.worker, 0) + 1
        sent = self._clock()
        run.sent[command.segment] = (sent, 0.0)
        try:
            self.executor.start(work)
        except RaygradError as error:
            if unpinned:
                self._unpins.setdefault(command.worker, []).extend(unpinned)
            record = failed_record(work.call, run.planned.plan.workers[command.worker], 0, error)
            if isinstance(error, WorkerLost):  # which is reported next
                record = record._replace(status="skipped", failure=None)
            return record
        run.sent[command.segment] = (sent, time.thread_time() - began)
        return None
