"""The Ray executor: calls on workers that are Ray actors, their answers, and the objects that they return.

Objects that an actor *returns* are owned by this process and survive the actor; actors put nothing into the store.
Calls are submitted ahead with object references as arguments, and reach actors in any order, so that one late
argument holds up nothing else; workers keep what has to be in order (`channel`, `call_sequencer`). Ray retries and
restarts nothing."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from raygrad.autograd.devices.serving import is_simulated, simulated_memory
from raygrad.errors import ExecutionError, WaitTimeout, WorkerLost
from raygrad.proto.codec.values import Packed
from raygrad.proto.ir.program import Pinned
from raygrad.scheduler.model.plan import Cluster, WorkerSpec

from ...code.shipping import Shipment
from ...process.fault_points import FaultHook, FaultNotes
from ...process.gpu_assignment import logical_gpus, resource_requests
from ...values.packed_values import unpack_all
from ...values.wire import compact, decode_answer, encode_call
from ..base import (
    CallInterrupted,
    CopyReady,
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
    offered_resources,
    value_object,
)
from ..deadlines import WorkerProgress
from .actor_options import check_actor_options
from .actor_processes import (
    HELLO_DEADLINE,
    START_DEADLINE,
    ActorProcess,
    as_execution_error,
    error_line,
    restart_worker,
    start_workers,
    wait_until_gone,
)
from .arrivals import Arrivals
from .channel import Channel, LoadRequest, Withdrawal, WithdrawalPart
from .cluster_resources import cpu_slots, free_slots, read_leaving
from .connection import (
    RAY_SHUT_DOWN,
    connect,
    disconnect,
    may_grow,
    node_id,
    ray_module,
    store_statistics,
)
from .emit_receiver import EmitReceiver
from .fault_notes import RayNotes
from .flush_timer import FlushTimer
from .links import measure_links
from .stopped_processes import STOPPED_SECONDS, StoppedProcesses, kill
from .stored_objects import StoredObjects

SETTLE_DEADLINE: Final = 3.0
"""Seconds for the store's statistics to show that dropped objects are gone; they lag by some tenths."""

RECORD_DEADLINE: Final = 10.0
"""Seconds to read a record that Ray says has arrived."""

MOST_RESTARTS: Final = 5
"""Processes that are started in the place of one worker within `RESTART_SECONDS`: more would die like these."""

RESTART_SECONDS: Final = 60.0

HANDLED_SECONDS: Final = 0.01
"""Seconds between looks whether another thread has handled emits that come before a record."""

POLL_SECONDS: Final = 0.001
"""The least interval of polls without a timeout: one takes a tenth of it."""

PROGRESS_SECONDS: Final = 0.1
"""Seconds in which workers say how far they are, unless they hold the interpreter's lock."""

FLUSH_SECONDS: Final = 0.005
"""The most seconds for which a call is batched."""


# ---- the executor ---------------------------------------------------------------------------------------------------


class _Fetched(NamedTuple):
    """A value that is fetched."""

    run: int
    value: int


class _Copied(NamedTuple):
    """Values that are copied."""

    objects: tuple[ObjectId, ...]


class _Stop:
    """A request to stop runs."""


class _Restart(NamedTuple):
    """A process that is to take the place of one that died."""

    after: ActorProcess
    deadline: float
    """When it is given up, by `time.monotonic`."""


class _PendingReply(NamedTuple):
    """A request that is not answered yet."""

    worker: int
    number: int
    """The number of the message, or -1."""
    what: list[Work] | _Fetched | _Copied | WithdrawalPart | LoadRequest | _Stop | _Restart
    """The request: calls to run, a value to fetch, the objects of copies, works to withdraw, programs to load, runs to
    stop, or a process that is to start."""


class RayExecutor(Executor):
    """An executor whose workers are Ray actors.

    Args:
        address: "ray" (the running Ray, or a new local one) or "ray:HOST:PORT".
        workers: how many; None means one per CPU of the cluster, and no fewer than `gpus`.
        most: as many more as there is room for now, up to this number in all.
        gpus: how many of the workers, the first ones, ask Ray for a GPU and serve it: each for one of its own, or for
            as many or such a part as `worker_options` say by `num_gpus`. None: all ask for what these say, if anything,
            and serve what they get if CuPy is there.
        blas_threads: BLAS threads of each worker process.
        object_store_memory: bytes of the object store of a Ray that is started here.
        runtime_env, worker_options, placement_group: passed to Ray for each worker. `worker_options` are those of
            `ray.remote` for actors: num_cpus, memory, resources, label_selector, ...; the i-th worker takes bundle i.

    Raises:
        BackendUnavailable: Ray is not installed.
        ExecutionError: no Ray at the address, or the workers do not come up.
        DeviceError: there are not so many GPUs, or they cannot be served.
        ValueError: more options than Ray allows, or this process is connected to another Ray.
    """

    remote = True

    def __init__(
        self,
        address: str = "ray",
        workers: int | None = None,
        *,
        most: int | None = None,
        gpus: int | None = None,
        blas_threads: int = 1,
        object_store_memory: int | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        worker_options: Mapping[str, Any] | None = None,
        placement_group: Any = None,
    ) -> None:
        chosen = {name: value for name, value in (worker_options or {}).items() if value is not None}
        options = {"num_cpus": 1, **chosen}
        check_actor_options(options, runtime_env, placement_group)
        here = len(os.sched_getaffinity(0))
        per_machine = max(workers or here, gpus or 0)
        needed = -(-per_machine * options["num_cpus"] // 1)
        self._connection = connect(
            address,
            max(here, int(needed)),
            object_store_memory,
            logical_gpus(resource_requests(per_machine, gpus, options)),
        )
        made: list[Any] = []
        ray = self._ray = ray_module()
        try:
            by_cpu = max(1, cpu_slots(max(options["num_cpus"], 1)))
            if runtime_env is not None:
                options["runtime_env"] = dict(runtime_env)
            if most is not None and workers is not None:
                workers = max(workers, int(min(free_slots(options), most)))
            requests = resource_requests(workers or max(by_cpu, gpus or 0), gpus, options)
            self._requests = requests
            self._options, self._grouped = options, placement_group is not None
            self._arrivals = Arrivals(blas_threads)
            self._restart = partial(
                restart_worker, blas_threads=blas_threads, placement_group=placement_group, options=requests
            )
            self._workers = start_workers(
                requests,
                blas_threads,
                placement_group,
                made,
                simulated=is_simulated(),
                memory=simulated_memory(),
                required=gpus is not None,
            )
        except BaseException:
            for actor in made:
                ray.kill(actor)
            disconnect(self._connection)
            raise
        specs = [
            WorkerSpec(
                worker.name,
                devices=("cpu", *(f"cuda:{number}" for number in worker.gpus)),
                host=worker.node_id,
                resources=offered_resources(own),
                numerics=worker.numerics,
            )
            for worker, own in zip(self._workers, requests, strict=True)
        ]
        super().__init__(Cluster(tuple(specs)), node_id())
        self._lock = threading.RLock()
        self._pending: dict[Any, _PendingReply] = {}
        """By the reference of its answer, each request that is not answered."""
        self._channels = [self._channel_to(index) for index in range(len(self._workers))]
        self._emits = EmitReceiver([channel.take_emits for channel in self._channels])
        self._flush_timer = FlushTimer(self._flush_overdue, FLUSH_SECONDS)
        self._objects = StoredObjects(ray)
        self._reports: list[Report] = []
        self._last_poll = 0.0
        """The time of the last poll, by `time.monotonic`."""
        self._restarts: dict[int, list[float]] = {}
        """By worker, when processes were started in its place, within the last `RESTART_SECONDS`."""
        self._asked: dict[int, tuple[Any, float]] = {}
        """By worker, a request for its progress that is not answered, and its time."""
        self._stopped = StoppedProcesses(self.host, self._silence)
        self._closed = False

    def links(self) -> dict[str, Any]:
        return measure_links(
            self._ray, [worker.actor for worker in self._workers], [worker.host for worker in self.cluster.workers]
        )

    # ---- calls ------------------------------------------------------------------------------------------------------

    def start(self, work: Work) -> None:
        with self._lock:
            channel = self._channel(work.worker)
            call = work.call
            references = [self._objects[name] for name in work.arguments]
            values = [self._objects.external(value, references) for value in call.externals]
            frame = compact(encode_call(call._replace(externals=tuple(values))))
            if call.program not in channel.programs:
                self._load(channel, work)
            for index, reference in enumerate(channel.run(work, frame, references)):
                self._objects.enter(ObjectId(call.run, call.segment, index), reference)
            if channel.batch is not None:
                self._flush_timer.schedule()

    def fetch(self, worker: int, run: int, value: int, after: SegmentId | None, *, requested: bool = False) -> None:
        with self._lock:
            about, reference = self._channel(worker).fetch(run, value, after, requested)
            self._pending[about] = _PendingReply(worker, -1, _Fetched(run, value))
            self._objects.enter(value_object(run, value), reference)

    def withdraw(self, names: Sequence[tuple[int, SegmentId]]) -> None:
        with self._lock:
            by_worker: dict[int, list[SegmentId]] = {}
            for worker, name in names:
                by_worker.setdefault(worker, []).append(name)
            withdrawal = Withdrawal()
            for worker, some in by_worker.items():
                if not self._can_send(worker):
                    continue
                reference, part = self._channels[worker].withdraw(some, withdrawal)
                withdrawal.unanswered += 1
                self._pending[reference] = _PendingReply(worker, -1, part)
            if not withdrawal.unanswered:
                self._reports.append(WorksWithdrawn(()))

    def _withdrawn(self, index: int, part: WithdrawalPart, numbers: Sequence[int]) -> None:
        """Enter which messages a worker had not begun; report the withdrawal once all workers have answered."""
        for work in self._channels[index].take_withdrawn(part, numbers):
            call, exports = work.call, range(len(work.program.exports))
            self._objects.forget([ObjectId(call.run, call.segment, number) for number in exports])
            part.withdrawal.works.append(work)
        part.withdrawal.unanswered -= 1
        if not part.withdrawal.unanswered:
            self._reports.append(WorksWithdrawn(tuple(part.withdrawal.works)))

    def stop(self, worker: int, runs: Sequence[int]) -> None:
        with self._lock:
            if self._can_send(worker):
                self._pending[self._channels[worker].stop(runs)] = _PendingReply(worker, -1, _Stop())

    def progress(self) -> list[WorkerProgress]:
        with self._lock:
            running = {one.worker for one in self._pending.values() if isinstance(one.what, list)}
            for index in running:
                starting = not self._workers[index].process_id(0.0)
                if index not in self._asked and not starting and self._can_send(index):
                    self._asked[index] = (self._channels[index].progress(), time.monotonic())
            asked = dict(self._asked)
        if not asked:
            return []
        self._ray.wait([reference for reference, _ in asked.values()], num_returns=len(asked), timeout=PROGRESS_SECONDS)
        found: list[WorkerProgress] = []
        for index, (reference, since) in asked.items():
            if not self._ray.wait([reference], timeout=0)[0]:
                found.append(WorkerProgress(index, None, time.monotonic() - since))
                continue
            self._asked.pop(index, None)
            try:
                found.append(WorkerProgress(index, self._ray.get(reference)))
            except self._ray.exceptions.RayError:
                continue  # its calls say so, too
        return found

    def set_fault_hook(self, worker: int, hook: FaultHook | None) -> None:
        with self._lock:
            if not self._can_send(worker):
                raise WorkerLost(self.unusable or f"{self._workers[worker].name} is lost", self._workers[worker].name)
            answer = self._channels[worker].set_fault_hook(hook)
        try:
            self._ray.get(answer, timeout=START_DEADLINE)
        except self._ray.exceptions.RayError as error:
            name = self._workers[worker].name
            raise WorkerLost(f"{name} does not answer ({error_line(error)})", name) from error

    def fault_notes(self) -> FaultNotes:
        return RayNotes()

    def replace(self, worker: int) -> bool:
        """The new actor gets messages at once, which Ray delivers when its process is there. It runs on the node of the
        one before it, whose resources, libraries and CPU it has."""
        with self._lock:
            if self._closed or self.unusable or self._workers[worker].lost:
                return True
            before = self._workers[worker]
            self._ray.kill(before.actor)
            self._enter_loss(worker, f"process {before.pid} was ended, since it did not stop what was cancelled")
            self._workers[worker] = self._restart(before, worker)
            self._begin_channel(worker)
            self._reports.append(WorkerRestarted(worker))
        return True

    def restart(self, worker: int) -> bool:
        """The new actor runs on the node of the one before it, if that is there, else on any that has the resources. It
        gets messages once it has answered."""
        with self._lock:
            if self._closed or self.unusable:
                return False
            now, before = time.monotonic(), self._workers[worker]
            recent = self._restarts.setdefault(worker, [])
            recent[:] = [at for at in recent if now - at < RESTART_SECONDS]
            if len(recent) >= MOST_RESTARTS:
                return False
            recent.append(now)
            try:
                after = self._restart(before, worker)
            except self._ray.exceptions.RayError:
                return False
            self._pending[after.hello] = _PendingReply(worker, -1, _Restart(after, now + START_DEADLINE))
            return True

    def _begin_channel(self, worker: int) -> None:
        """Begin to talk to a process that has taken the place of another one."""
        self._channels[worker] = self._channel_to(worker)
        self._emits.restart(worker, self._channels[worker].take_emits)

    def _restarted(self, index: int, restart: _Restart, answer: Any) -> None:
        """Report whether another process has taken the place of a worker."""
        before, after = self._workers[index], restart.after
        if answer is not None:
            after.pid, ((after.node_id, _), _) = answer
            if after.node_id != before.node_id:  # whose CPU may give other bits (H12)
                _, numerics = self._ray.get(after.served, timeout=HELLO_DEADLINE)
                answer = answer if numerics == before.numerics else None
        if answer is None:
            self._ray.kill(after.actor)
        else:
            self._workers[index] = after
            self._begin_channel(index)
        self._reports.append(WorkerRestarted(index, answer is not None))

    def _give_up_restarts(self) -> None:
        """Give up processes that do not come up."""
        now = time.monotonic()
        for reference, pending in list(self._pending.items()):
            if isinstance(pending.what, _Restart) and now > pending.what.deadline:
                del self._pending[reference]
                self._restarted(pending.worker, pending.what, None)

    def rename(self, name: ObjectId, other: ObjectId) -> None:
        with self._lock:
            self._objects.rename(name, other)

    # ---- workers that come and go ------------------------------------------------------------------------------------

    def add(self, count: int, options: Mapping[str, Any]) -> None:
        own = {**self._options, **{name: value for name, value in options.items() if value is not None}}
        check_actor_options({name: value for name, value in own.items() if name != "runtime_env"}, None, None)
        if own.get("num_gpus"):
            raise ValueError(
                f"workers that join a session serve no GPUs, and these ask for num_gpus={own['num_gpus']}: open the "
                "session with all workers that are to serve one, Session(gpus=...)"
            )
        with self._lock:
            if self._grouped:
                raise ExecutionError(
                    "the workers of this session are in a placement group, each in a bundle of its own, and there is "
                    "none for another: leave placement_group out, or make one with more bundles for a new session"
                )
            if self._closed or self.unusable:
                raise ExecutionError(self.unusable or "this executor is closed")
            for _ in range(count):
                self._arrivals.ask(own)

    def room(self) -> float:
        return math.inf if may_grow() else free_slots(self._options)

    @property
    def joining(self) -> int:
        return len(self._arrivals.waiting)

    def stop_joining(self) -> None:
        with self._lock:
            if self._connection.alive:
                self._arrivals.close()

    def _look_for_arrivals(self) -> None:
        """Take in workers that have come."""
        number = len(self._workers)
        found = self._arrivals.look(number)
        if found is None:
            return
        if isinstance(found, str):
            self._reports.append(JoinFailed(found))
            return
        worker = found.process
        self._requests.append(dict(found.options))
        self._workers.append(worker)
        self._channels.append(self._channel_to(number))
        self._emits.add(self._channels[number].take_emits)
        spec = WorkerSpec(
            worker.name,
            host=worker.node_id,
            resources=offered_resources(found.options),
            numerics=worker.numerics,
        )
        self.cluster = replace(self.cluster, workers=(*self.cluster.workers, spec))
        self._reports.append(WorkerJoined(number))

    def leaving(self) -> dict[int, float]:
        if self._closed or not self._connection.alive:
            return {}
        try:
            nodes = read_leaving()
        except Exception:  # of Ray's client, which is another one for each way in which Ray can be gone
            if self._connection.alive and not self._closed:
                raise
            return {}
        return {
            index: nodes[worker.node_id]
            for index, worker in enumerate(list(self._workers))
            if not worker.lost and worker.node_id in nodes
        }

    def end(self, worker: int) -> None:
        """With the last worker of this session on another node, which may go at any time now, objects that only that
        node's store has are put into the store of this one."""
        with self._lock:
            process = self._workers[worker]
            if self._closed or self.unusable or process.lost:
                return
            mates = [one for one in self._workers if one.node_id == process.node_id and not one.lost]
            if process.node_id != self.host and (len(mates) == 1 or process.node_id in read_leaving()):
                self._objects.rescue(process.node_id)
            self._ray.kill(process.actor)
            self._enter_loss(worker, f"process {process.pid} was ended: the session let go of the worker")

    def copy(self, worker: int, values: Sequence[tuple[int, int]]) -> None:
        with self._lock:
            about, references = self._channel(worker).copy(values)
            names = tuple([copy_object(*one) for one in values])
            self._pending[about] = _PendingReply(worker, -1, _Copied(names))
            for name, reference in zip(names, references, strict=True):
                self._objects.enter(name, reference)

    def forget_programs(self, keys: Sequence[bytes]) -> None:
        with self._lock:
            for index, channel in enumerate(self._channels):
                if self._can_send(index):
                    channel.forget_programs(keys)

    def unpin(self, worker: int, values: Sequence[Pinned]) -> None:
        with self._lock:
            if self._can_send(worker):
                self._channels[worker].unpin(values)

    def _channel_to(self, index: int) -> Channel:
        """Make the channel to a worker."""

        def on_sent(reference: Any, number: int, what: list[Work] | LoadRequest) -> None:
            self._pending[reference] = _PendingReply(index, number, what)

        return Channel(self._workers[index].actor, on_sent)

    def _load(self, channel: Channel, work: Work) -> None:
        """Send the program of a call and those that the worker will need next: a message for each would cost both sides
        more than reading them."""
        programs = {work.call.program: work.program, **dict(work.upcoming())}
        code: dict[str, Shipment] = {}
        for program in programs.values():
            code |= self.code_of(program)
        channel.load(programs, code)
        self._emits.begin(work.worker)

    def _channel(self, index: int) -> Channel:
        if self._closed:
            raise ExecutionError("this executor is closed")
        worker = self._workers[index]
        if not self._can_send(index):
            raise WorkerLost(self.unusable or f"{worker.name} is lost", worker.name)
        return self._channels[index]

    def _can_send(self, index: int) -> bool:
        """Tell whether messages can be sent to a worker. Without Ray they must not: Ray's client would start another
        Ray to send them to."""
        self._check_connection()
        return not self._closed and not self._workers[index].lost

    def _check_connection(self) -> None:
        """Report all workers as gone if Ray was shut down under this executor."""
        if self._closed or self._connection.alive:
            return
        for index, worker in enumerate(self._workers):
            if not worker.lost:
                self._enter_loss(index, RAY_SHUT_DOWN)

    @property
    def unusable(self) -> str:
        return "" if self._closed or self._connection.alive else RAY_SHUT_DOWN

    def _flush_overdue(self) -> None:
        """Send overdue batches: their workers may be idle, and no thread polls."""
        with self._lock:
            now = time.monotonic()
            self._check_connection()  # which drops the batches
            for channel in self._channels:
                if channel.batch is None:
                    continue
                if now - channel.batch.since >= FLUSH_SECONDS:
                    channel.flush()
                else:
                    self._flush_timer.schedule()

    # ---- answers ----------------------------------------------------------------------------------------------------

    def poll(self, timeout: float) -> list[Report]:
        with self._lock:
            self._check_connection()
            if timeout > 0 and not self._reports:
                for channel in self._channels:
                    channel.flush()
            waiting = [] if self._closed else list(self._pending)
            if waiting or self._emits.holds:
                waiting += self._emits.asked
            arriving = [] if self._closed else self._arrivals.references
            waiting += arriving
            pause = 0.0 if self._reports else timeout
            now = time.monotonic()
            looks = pause > 0 or now - self._last_poll >= POLL_SECONDS
            handled = not waiting and pause > 0 and self._emits.holds  # by another thread, before the record comes
        if handled:
            time.sleep(min(pause, HANDLED_SECONDS))
        if waiting and looks:
            try:
                self._receive(waiting, pause)
            except self._ray.exceptions.RaySystemError:
                if self._connection.alive:
                    raise
            finally:
                self._last_poll = time.monotonic()
        with self._lock:
            self._check_connection()
            if self._restarts:
                self._give_up_restarts()
            if pause > 0 and not self._reports and self._pending and self._connection.alive:
                self._end_stopped()
            if arriving and looks and self._connection.alive and not self._closed:
                self._look_for_arrivals()
            for channel in self._channels:
                if channel.batch is not None and channel.has_capacity:
                    channel.flush()
            reports, self._reports = self._reports, []
            return reports

    def _end_stopped(self) -> None:
        """End workers whose processes were stopped, and do not go on."""
        for index in self._stopped.look(self._workers, lambda: {one.worker for one in self._pending.values()}):
            worker = self._workers[index]
            kill(worker.pid)  # Ray would ask the process to end itself
            self._ray.kill(worker.actor)
            why = f"was stopped by a signal, did not go on for {STOPPED_SECONDS:.0f} s, and was ended"
            self._enter_loss(index, f"process {worker.pid} {why}")

    def _silence(self, index: int) -> float:
        """Return for how many seconds a worker has not said how far it is; ask it if nobody has."""
        asked = self._asked.get(index)
        if asked is None or self._ray.wait([asked[0]], timeout=0)[0]:
            if self._can_send(index):
                self._asked[index] = (self._channels[index].progress(), time.monotonic())
            return 0.0
        return time.monotonic() - asked[1]

    def _receive(self, waiting: list[Any], pause: float) -> None:
        """Turn the answers that are here into reports, waiting for the first."""
        wait = self._ray.wait
        # Ray cuts its timeout off to whole milliseconds: of less than one the caller would ask again and again
        timeout = (math.ceil(pause * 1000) + 0.5) / 1000 if pause else 0.0
        ready, _ = wait(waiting, num_returns=1 if pause else len(waiting), timeout=timeout)
        if pause and ready and len(waiting) - len(self._emits.asked) > 1:  # each wait costs a tenth of a millisecond
            ready, _ = wait(waiting, num_returns=len(waiting), timeout=0)
        for reference in ready:
            self._answered(reference)

    def _answered(self, reference: Any) -> None:
        """Turn one answer into reports."""
        ray = self._ray
        began = time.thread_time()
        with self._lock:
            if reference in self._emits.asked:
                self._take_chunks(reference)
                return
            pending = self._pending.pop(reference, None)
            if pending is None or self._closed or self.unusable:
                return
            index, number, what = pending
            channel = self._channels[index]
            withdrawn = channel.withdrawn.get(number, ())
            if number >= 0:
                channel.complete(number, what if isinstance(what, list) else ())
            try:
                answer = ray.get(reference, timeout=RECORD_DEADLINE)
            except ray.exceptions.RayError as error:
                self._went_wrong(pending, error, withdrawn)
                return
            if isinstance(what, WithdrawalPart):
                self._withdrawn(index, what, answer)
            elif isinstance(what, list):
                records = [] if answer is None else decode_answer(answer)
                spent = (time.thread_time() - began) / max(len(records), 1)
                for work, record in zip(what, records, strict=False):
                    if record is None:  # it was withdrawn
                        continue
                    for position, (size, _) in enumerate(record.exports):
                        self._objects.measured(ObjectId(record.run, record.segment, position), size)
                    if record.status == "done":
                        channel.record_duration(work, record.seconds)
                    report = SegmentReturned(record, spent)
                    if not self._emits.holds_back(index, report):
                        self._reports.append(report)
            elif isinstance(what, _Restart):
                self._restarted(index, what, answer)
            elif isinstance(what, _Stop):
                if answer is not None:
                    self._reports.append(CallInterrupted(*answer))
            elif isinstance(what, _Copied):
                for name, (ok, size, _) in zip(what.objects, answer, strict=True):
                    self._objects.measured(name, size)
                    self._reports.append(CopyReady(name.run, name.number, ok, size))
            elif isinstance(what, _Fetched):
                ok, size, left = answer
                self._objects.measured(value_object(*what), size)
                self._reports.append(ValueReady(*what, ok, size, left=left))

    def _take_chunks(self, reference: Any) -> None:
        """Report emits that running calls have sent ahead, and records that came before them."""
        index = self._emits.answered(reference)
        if self._closed or self.unusable:
            return
        try:
            chunks = self._ray.get(reference, timeout=RECORD_DEADLINE)
        except self._ray.exceptions.RayActorError as error:
            if getattr(error, "actor_id", None) == self._workers[index].actor_id:
                self._lose(index, error)
            return
        except self._ray.exceptions.RayError as error:
            self._lose(index, error)  # what was emitted is lost, and may be needed
            return
        self._reports += self._emits.take(index, chunks)
        self.emits_paused = True

    def take_emits(self, *, waited_for: bool) -> None:
        with self._lock:
            self.emits_paused = False
            for index in self._emits.resumable():
                if self._can_send(index):
                    self._emits.ask(index)

    def _went_wrong(self, pending: _PendingReply, error: Exception, withdrawn: Sequence[Work]) -> None:
        """Enter an answer that Ray could not give: the worker died, or what the call reads was lost. Nobody waits for
        calls of the message that were `withdrawn`."""
        index, number, what = pending
        worker = self._workers[index]
        exceptions = self._ray.exceptions
        if isinstance(what, _Restart):
            if not self.restart(index):  # its node may have gone meanwhile: then another one has room
                self._restarted(index, what, None)
            return
        gone = isinstance(error, exceptions.ObjectLostError)
        if gone:
            self._reports.append(ObjectsGone(self._objects.gone(error)))
        died = gone or isinstance(error, exceptions.RayActorError)
        if getattr(error, "actor_id", None) == worker.actor_id:
            self._lose(index, error)
            if isinstance(what, WithdrawalPart):
                self._withdrawn(index, what, ())
        elif isinstance(what, list):
            awaited = [work for work in what if not any([work is one for one in withdrawn])]
            if awaited and not worker.lost:
                self._channels[index].abandon_message(number, awaited)
            for work in awaited:
                record = failed_record(work.call, worker.name, worker.pid, as_execution_error(error))
                if died:  # what it reads is lost, or was to come from a worker that died: this is no failure of its own
                    record = record._replace(status="skipped", failure=None)
                self._reports.append(SegmentReturned(record))
        elif isinstance(what, WithdrawalPart):
            self._withdrawn(index, what, ())
        elif isinstance(what, _Copied):
            self._reports += [CopyReady(one.run, one.number, False, 0) for one in what.objects]
        elif isinstance(what, _Fetched):
            self._reports.append(ValueReady(*what, False, 0, str(as_execution_error(error))))
        # a load that failed: the calls that wait for it fail with the same error

    def _lose(self, index: int, error: Exception) -> None:
        worker = self._workers[index]
        if worker.lost:
            return
        self._ray.kill(worker.actor)  # if it was only out of reach: what it might still do no longer counts
        self._enter_loss(index, f"process {worker.pid}: {error_line(error)}")

    def _enter_loss(self, index: int, reason: str) -> None:
        """Report that a worker is gone, and that nothing will be answered by it."""
        self._workers[index].lost = True
        gone = [pending.what for pending in self._pending.values() if pending.worker == index]
        self._pending = {reference: pending for reference, pending in self._pending.items() if pending.worker != index}
        self._channels[index].close()
        self._emits.lose(index)
        self._reports.append(WorkerGone(index, reason))
        for what in gone:
            if isinstance(what, WithdrawalPart):
                self._withdrawn(index, what, ())
            elif isinstance(what, _Copied):
                self._objects.forget(what.objects)

    # ---- objects ----------------------------------------------------------------------------------------------------

    def read(self, name: ObjectId, timeout: float | None) -> Any:
        ray = self._ray
        with self._lock:
            reference = self._objects[name]
            if self.unusable:
                raise WorkerLost(self.unusable)
        try:
            packed = ray.get(reference, timeout=timeout)
        except ray.exceptions.GetTimeoutError as error:
            raise WaitTimeout(f"the object {tuple(name)} was not here in {timeout} s") from error
        except ray.exceptions.ObjectLostError as error:
            with self._lock:
                gone = self._objects.gone(error)
                self._reports.append(ObjectsGone(gone if name in gone else (*gone, name)))
            raise ObjectGone(f"the object {tuple(name)} is gone from the store") from error
        except ray.exceptions.RayActorError as error:
            raise WorkerLost(f"the worker that was to return a value died ({error_line(error)})") from error
        except ray.exceptions.RayError as error:
            if self.unusable:
                raise WorkerLost(self.unusable) from error
            raise as_execution_error(error) from error
        # a copy: a view would hold its place in the store as long as the client holds it
        return unpack_all(packed.copied() if isinstance(packed, Packed) else packed)

    def drop(self, name: ObjectId) -> None:
        with self._lock:
            self._objects.drop(name)

    @property
    def busy(self) -> bool:
        with self._lock:
            if self._reports or self._emits.holds or any(channel.batch is not None for channel in self._channels):
                return True
            return any(not isinstance(pending.what, LoadRequest | _Stop) for pending in self._pending.values())

    def stored_bytes(self) -> int:
        """Return the bytes in Ray's object stores, by their own statistics. Waits until they show no more than what
        this executor holds, or a deadline has passed: on a Ray that others use they show more."""
        if self.unusable:
            raise WorkerLost(self.unusable)
        deadline = time.monotonic() + SETTLE_DEADLINE
        while True:
            used = store_statistics()["bytes_used"]
            with self._lock:
                most = self._objects.most_bytes
            if used <= most or time.monotonic() > deadline:
                return used
            time.sleep(0.02)

    @property
    def constant_bytes(self) -> int:
        """Bytes of the client's arrays in the store, which are dropped when those arrays die."""
        with self._lock:
            return self._objects.constant_bytes

    def pids(self) -> tuple[int, ...]:
        return tuple(worker.process_id() for worker in self._workers)

    def node_ids(self) -> tuple[str, ...]:
        """Return Ray's id of each worker's node."""
        return tuple(worker.node_id for worker in self._workers)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            starting = [one.what.after for one in self._pending.values() if isinstance(one.what, _Restart)]
            if self._connection.alive:
                self._arrivals.close()
            self._pending.clear()
            self._emits.close()
            for channel in self._channels:
                channel.close()
            self._objects.clear()
        self._flush_timer.close()
        if self._connection.alive:
            for worker in starting:
                self._ray.kill(worker.actor)
            self._end_processes()
        disconnect(self._connection)

    def _end_processes(self) -> None:
        here = node_id()
        pids = [worker.process_id(0.0) for worker in self._workers if worker.node_id == here]
        for worker in self._workers:
            self._ray.kill(worker.actor)
        wait_until_gone([pid for pid in pids if pid])
