"""The abstract executor: workers that run calls, the objects that calls return, and the reports about both.

The driver gives it work; backends implement it, each in a file of its name. An executor schedules nothing: which worker
runs a call, and how long an object lives, the driver says. Objects are named by ids. The executor holds the handles, in
the session's process, which thereby owns them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from raygrad.errors import ExecutionError
from raygrad.proto.ir.nodes import code_in
from raygrad.proto.ir.program import INTERRUPTED, Call, Failure, Pinned, Program, Record
from raygrad.scheduler.model.plan import Cluster

from ..code.shipping import Shipment, message_of, pack_exception
from ..process.fault_points import FaultHook, FaultNotes
from ..values.emit_chunks import HeldChunk
from .deadlines import WorkerProgress

CODE_CACHE_SIZE: Final = 4096
"""Pieces of user code that an executor caches: those that were learned last. A session tells it again of what it needs,
at the latest after half as many others."""


FIXED_WORKERS: Final = (
    "workers in this process can neither be added nor removed: open the session with as many as it is to have, "
    'Session(workers=...), or on Ray, Session("ray")'
)


class ObjectId(NamedTuple):
    """The name of an object: the export `number` of a segment of a run; with segment -1, the pinned value `number` of
    that run, which `Executor.fetch` made an object; with segment -2, a copy of it by `Executor.copy`."""

    run: int
    segment: int
    number: int


PINNED: Final = -1
COPIED: Final = -2
"""In the place of a segment: see `ObjectId`."""


def value_object(run: int, value: int) -> ObjectId:
    """Return the id of the object that holds only a pinned value."""
    return ObjectId(run, PINNED, value)


def copy_object(run: int, value: int) -> ObjectId:
    """Return the id of a copy of a pinned value."""
    return ObjectId(run, COPIED, value)


class SegmentId(NamedTuple):
    """The name of a segment of a run."""

    run: int
    segment: int


class Work(NamedTuple):
    """One attempt at a segment: the executor's unit of work."""

    worker: int
    call: Call
    program: Program
    """The program that `call.program` names; shipped to the worker if it is not there yet."""
    arguments: tuple[ObjectId, ...]
    """The objects that the call reads, in order. Each was requested before this work."""
    after: tuple[SegmentId, ...]
    """Segments of the same worker that must have ended before it starts."""
    predicted_seconds: float = 0.0
    priority: float = 0.0
    """Of the works that are ready on a worker, those of the earliest run (`call.run`) go first, of these the one with
    the highest priority, of equals the one that was started first."""
    upcoming: Callable[[], Iterable[tuple[bytes, Program]]] = tuple
    """Returns programs that calls to the same worker will name soon, by key."""


@dataclass(frozen=True, slots=True)
class SegmentReturned:
    """Report: work ended. Its objects exist, if only as poison."""

    record: Record
    seconds: float = 0.0
    """CPU seconds of this process for receiving it."""


@dataclass(frozen=True, slots=True)
class ValueReady:
    """Report: a `fetch` ended. The object exists and has `size` bytes or, with `ok` False, cannot be made for `reason`.
    `left` has the device and the bytes of each array that left its device for it."""

    run: int
    value: int
    ok: bool
    size: int
    reason: str = ""
    left: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WorksWithdrawn:
    """Report: a `withdraw` ended. These works had not begun and never will; the objects that they were to return do not
    exist. The others come back as ever."""

    works: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class CopyReady:
    """Report: a `copy` ended. The object exists and has `size` bytes or, with `ok` False, was not made."""

    run: int
    value: int
    ok: bool
    size: int


@dataclass(frozen=True, slots=True)
class CallInterrupted:
    """Report: a worker was told to stop runs while it ran this segment of one of them. It comes back as ever."""

    run: int
    segment: int


@dataclass(frozen=True, slots=True)
class WorkerRestarted:
    """Report: another process has taken the place of a worker that is gone, or (`ok` False) none can."""

    worker: int
    ok: bool = True


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """Report: a worker died. Its other work is not reported any more."""

    worker: int
    reason: str


@dataclass(frozen=True, slots=True)
class ObjectsGone:
    """Report: objects are gone from the store. Calls that were to read them are reported as skipped after this. There
    may be none that is still needed."""

    objects: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    """Report: a worker that was asked for is there; it has the highest index in `Executor.cluster`."""

    worker: int


@dataclass(frozen=True, slots=True)
class JoinFailed:
    """Report: a worker that was asked for does not come."""

    reason: str


@dataclass(frozen=True, slots=True)
class EmitsArrived:
    """Report: a call that goes on has emitted much. All chunks of a call are reported before its `SegmentReturned`."""

    chunk: HeldChunk


Report: TypeAlias = (
    SegmentReturned
    | ValueReady
    | CopyReady
    | WorksWithdrawn
    | CallInterrupted
    | WorkerGone
    | WorkerRestarted
    | ObjectsGone
    | WorkerJoined
    | JoinFailed
    | EmitsArrived
)


class ObjectGone(Exception):
    """An object is gone from the store."""


class Executor(ABC):
    """Runs calls on workers. All methods may be called from any thread; only `poll` and `read` wait."""

    reports_unasked = True
    """Whether it may report something while nothing is requested: that a worker has died."""

    remote = False
    """Whether workers are other processes: values take time to come from there, and code shares no state."""

    def __init__(self, cluster: Cluster, host: str = "") -> None:
        self.cluster = cluster
        """Its workers, those that are gone included: indices stay."""
        self.host: Final = host
        """This process's host: workers whose spec names it share its clock."""
        self._code: OrderedDict[str, Shipment] = OrderedDict()

    def learn(self, fingerprint: str, shipment: Shipment) -> None:
        """Cache user code, which goes to a worker once, with the first program that needs it."""
        self._code[fingerprint] = shipment
        self._code.move_to_end(fingerprint)
        if len(self._code) > CODE_CACHE_SIZE:
            self._code.popitem(last=False)

    def code_of(self, program: Program) -> dict[str, Shipment]:
        """Return the cached user code that a program names, by fingerprint."""
        names = dict.fromkeys(step.node.fn[1:] for step in program.steps if step.node.fn.startswith("@"))
        for step in program.steps:
            settings = getattr(step.node, "settings", ())
            if settings:
                names.update(dict.fromkeys([name[1:] for name in code_in(settings)]))
        known = ((name, self._code.get(name)) for name in names)
        return {name: shipment for name, shipment in known if shipment is not None}

    def links(self) -> dict[str, Any]:
        """Return measured latencies and bandwidths of links to and between workers, as fields of `Costs`; empty if the
        executor measures none."""
        return {}

    def name_of(self, fn: str) -> str:
        """Return the display name of the user code `fn` ("@" and fingerprint); `fn` itself if it is no longer
        cached."""
        known = self._code.get(fn[1:])
        return fn if known is None else known.name

    @abstractmethod
    def start(self, work: Work) -> None:
        """Have a worker run a call as soon as its arguments and the segments before it are done. Does not block.

        Answered by one `SegmentReturned`, unless the worker dies.

        Raises:
            NotShippable: a value of the call cannot leave this process.
            ExecutionError: an argument is unknown, or was dropped.
        """

    @abstractmethod
    def fetch(self, worker: int, run: int, value: int, after: SegmentId | None, *, requested: bool = False) -> None:
        """Make an object of a pinned value, under `value_object(run, value)`, once segment `after`, if any, has ended;
        calls may name it at once. Does not block. Answered by one `ValueReady`, unless the worker dies.

        With `requested`, the client reads it: its arrays on devices come with it. Else they stay where they are."""

    def copy(self, worker: int, values: Sequence[tuple[int, int]]) -> None:
        """Make objects of values, each (run, value), that are pinned already, under `copy_object(run, value)`: all at
        one moment, as `CopyValues` says. Does not block. Answered by one `CopyReady` for each, unless the worker dies.

        Raises:
            WorkerLost: the worker died, which is reported.
        """
        raise NotImplementedError("workers of this executor are never lost alone: nothing is copied")

    @abstractmethod
    def withdraw(self, names: Sequence[tuple[int, SegmentId]]) -> None:
        """Withdraw those of some works, each with its worker, that have not begun. Does not block. Answered by one
        `WorksWithdrawn`. Whatever was started and reads what one of them makes is among them: each either begins or is
        withdrawn, never both, and none that begins misses what was withdrawn."""

    def stop(self, worker: int, runs: Sequence[int]) -> None:
        """Have a worker skip all calls of these runs that it has not begun, and interrupt the one that it runs, if it
        is of them. Does not block. All are answered as ever; the one that was running by `CallInterrupted`, too."""
        raise NotImplementedError

    def progress(self) -> list[WorkerProgress]:
        """Return how far each worker is that runs a call. Any thread may call this."""
        return []

    def replace(self, worker: int) -> bool:
        """End a worker, whatever it does, and start another in its place: `WorkerGone` and `WorkerRestarted` are
        reported. Does not wait for it. Return False if its process cannot be ended alone: nothing is done then."""
        return False

    def restart(self, worker: int) -> bool:
        """Start another process in the place of a worker that died. Does not wait for it: answered by one
        `WorkerRestarted`. Return False if none can be: nothing is reported then."""
        return False

    def rename(self, name: ObjectId, other: ObjectId) -> None:
        """Give an object another name."""
        raise NotImplementedError("workers of this executor are never lost alone: nothing is copied")

    def add(self, count: int, options: Mapping[str, Any]) -> None:
        """Ask for more workers, with these options beside those of the others. Does not block. Each is reported by
        `WorkerJoined` or `JoinFailed`; it may take long to come.

        Raises:
            ExecutionError: no workers can join here.
            TypeError, ValueError: options that no worker can have.
        """
        raise ExecutionError(FIXED_WORKERS)

    def room(self) -> float:
        """Return how many more workers could come now or later; infinity where machines are started for them. May take
        some milliseconds."""
        return 0.0

    @property
    def joining(self) -> int:
        """The number of workers that were asked for and have neither come nor failed."""
        return 0

    def stop_joining(self) -> None:  # noqa: B027 - where none can be asked for, none have to be given up
        """Give up the workers that were asked for and have not come."""

    def end(self, worker: int) -> None:
        """End a worker on which nothing runs: `WorkerGone` is reported. What it has returned stays readable, also if
        its machine is about to go."""
        raise ExecutionError(FIXED_WORKERS)

    def leaving(self) -> dict[int, float]:
        """Return the workers on machines that have announced their end, with the seconds that are left to each,
        infinity if that is not known. May take some milliseconds."""
        return {}

    def set_fault_hook(self, worker: int, hook: FaultHook | None) -> None:
        """Have a worker call a hook at its points, from now on; None for no more. Waits for it. A process that takes
        the place of another has no hook.

        Raises:
            WorkerLost: the worker has died.
        """
        raise NotImplementedError

    def fault_notes(self) -> FaultNotes:
        """Return where hooks note what happens on workers."""
        raise NotImplementedError

    @property
    def runs_here(self) -> bool:
        """Whether the current thread runs a call of this executor."""
        return False

    @abstractmethod
    def forget_programs(self, keys: Sequence[bytes]) -> None:
        """Forget programs that no call will name any more, on all workers. Does not block; no answer."""

    @abstractmethod
    def unpin(self, worker: int, values: Sequence[Pinned]) -> None:
        """Have a worker release pinned values. Does not block; no answer."""

    @abstractmethod
    def poll(self, timeout: float) -> list[Report]:
        """Return the reports since the last call, waiting up to `timeout` seconds for the first.

        Raises:
            KeyboardInterrupt: it came while this thread waited, or ran a segment; nothing is lost by it.
        """

    def take_emits(self, *, waited_for: bool) -> None:  # noqa: B027 - one that sends no chunks has none to take
        """Let workers send chunks of emits again: those that were reported have been handled. With `waited_for`, they
        have not, since a handler waits for what workers do, who must not wait for it."""

    emits_paused = False
    """Whether chunks were reported since the last `take_emits`."""

    @property
    def unusable(self) -> str:
        """Why none of its workers can be reached any more, "" while they can."""
        return ""

    def check_wait(self) -> None:  # noqa: B027 - nearly no executor runs anything on the threads that wait for it
        """Check that the current thread may wait for a result of this executor.

        Raises:
            ExecutionError: the thread runs user code for this executor, and the result cannot come before that code
            ends.
        """

    @abstractmethod
    def read(self, name: ObjectId, timeout: float | None) -> Any:
        """Return the values of an object, or POISON, waiting for it.

        Raises:
            WaitTimeout: `timeout` seconds have passed.
            WorkerLost: the worker that was to make it died.
            ObjectGone: it is gone from the store, which is reported.
            ExecutionError: there is no such object.
        """

    def peek(self, worker: int, run: int, value: int) -> Any:
        """Return a pinned value that is an array in the memory of this process, without waiting; else None."""
        return None

    def peek_object(self, name: ObjectId, position: int) -> Any:
        """Return likewise a value of an object."""
        return None

    @abstractmethod
    def drop(self, name: ObjectId) -> None:
        """Release an object; an unknown one is no error. Does not block."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether any request is not answered yet."""

    @property
    def has_reports(self) -> bool:
        """Whether `poll` without a timeout may return something."""
        return True

    @abstractmethod
    def stored_bytes(self) -> int:
        """Return the bytes that the object store holds, by its own account."""

    @abstractmethod
    def pids(self) -> tuple[int, ...]:
        """Return the process id of each worker."""

    @abstractmethod
    def close(self) -> None:
        """Stop the workers and release all objects, without waiting for running calls. Closing again does nothing."""


def offered_resources(worker_options: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Return the resources that workers with these Ray options offer to nodes: see `WorkerSpec.resources`."""
    own = {name: worker_options[name] for name in ("num_cpus", "num_gpus", "memory") if worker_options.get(name)}
    own |= worker_options.get("resources") or {}
    return tuple(sorted([(str(name), float(amount)) for name, amount in own.items()]))


def failed_record(
    call: Call, worker: str, pid: int, error: BaseException, seconds: float = 0.0, *, interrupted: bool = False
) -> Record:
    """Return the record of a call that could not run, or was ended from outside, because of `error`.

    With `interrupted`, the thread that ran the call raises the error itself: it is not raised a second time where the
    record is read.
    """
    kind = type(error).__name__
    shown = ExecutionError(f"the segment was ended by {kind}") if interrupted else error
    index, trace = INTERRUPTED if interrupted else -1, f"{kind}: {message_of(error)}"
    failure = Failure(index, "segment", (), trace, pack_exception(shown), kind, message_of(shown))
    return Record(
        run=call.run,
        segment=call.segment,
        attempt=call.attempt,
        worker=worker,
        pid=pid,
        seconds=seconds,
        status="failed",
        exports=(),
        results=(),
        sizes=(),
        observations=(),
        undefined=(),
        emits=(),
        hooks=(),
        failure=failure,
    )


def skipped_record(call: Call, worker: str) -> Record:
    """Return the record of a call that did not run."""
    return failed_record(call, worker, 0, ExecutionError("it was skipped"))._replace(status="skipped", failure=None)
