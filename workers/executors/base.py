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
from raygrad.proto.ir.program import Call, Failure, Pinned, Program, Record
from raygrad.scheduler.model.plan import Cluster

from ..code.shipping import Shipment, pack_exception

CODE_CACHE_SIZE: Final = 4096
"""Pieces of user code an executor remembers. Each submission names those it needs anew, so older ones may go."""


class ObjectId(NamedTuple):
    """Names an object: what segment `segment` of run `run` returned as number `index`; or, with segment -1, the
    pinned value number `index` of that run, made an object by `Executor.fetch`."""

    run: int
    segment: int
    number: int


def value_object(run: int, value: int) -> ObjectId:
    """Return the id of the object that holds only a pinned value."""
    return ObjectId(run, -1, value)


class SegmentId(NamedTuple):
    """Names a segment of a run."""

    run: int
    segment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One attempt at a segment, as an executor is given it."""

    worker: int
    call: Call
    program: Program
    """What `call.program` names; shipped to the worker if it is not there yet."""
    arguments: tuple[ObjectId, ...]
    """The objects that the call reads, in order: each was asked for before this work was."""
    after: tuple[SegmentId, ...]
    """Segments of the same worker that must have ended before it starts."""
    predicted_seconds: float = 0.0
    upcoming: Callable[[], Iterable[tuple[bytes, Program]]] = tuple
    """Tells, if it is asked, programs that calls to the same worker will soon name."""


@dataclass(frozen=True, slots=True)
class SegmentReturned:
    """Work ended. Its objects exist, if only as poison."""

    record: Record
    seconds: float = 0.0
    """That this process worked to take it in."""


@dataclass(frozen=True, slots=True)
class ValueReady:
    """A `fetch` ended: the object exists and has `size` bytes or, with `ok` False, cannot be made, and `reason` says
    why. `left` has the device and the bytes of each array that left its device for it."""

    run: int
    value: int
    ok: bool
    size: int
    reason: str = ""
    left: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """A worker died. Nothing more is reported of what it had to do."""

    worker: int
    reason: str


Report: TypeAlias = SegmentReturned | ValueReady | WorkerGone


class Executor(ABC):
    """Runs calls on workers. All methods may be called from any thread; only `poll` and `read` wait."""

    def __init__(self, cluster: Cluster, host: str = "") -> None:
        self.cluster: Final = cluster
        self.host: Final = host
        """This process's host: workers whose spec names it share its clock."""
        self._code: OrderedDict[str, Shipment] = OrderedDict()

    def learn(self, fingerprint: str, shipment: Shipment) -> None:
        """Keep user code; it goes to a worker once, with the first program that needs it."""
        self._code[fingerprint] = shipment
        self._code.move_to_end(fingerprint)
        if len(self._code) > CODE_CACHE_SIZE:
            self._code.popitem(last=False)

    def code_of(self, program: Program) -> dict[str, Shipment]:
        """Return the user code that a program names, as far as it is known, by fingerprint."""
        names = dict.fromkeys(step.node.fn[1:] for step in program.steps if step.node.fn.startswith("@"))
        known = ((name, self._code.get(name)) for name in names)
        return {name: shipment for name, shipment in known if shipment is not None}

    def links(self) -> dict[str, Any]:
        """Return what was found out about links to and between workers when they were started, as fields of `Costs`;
        empty where that is not worth finding out."""
        return {}

    def name_of(self, fn: str) -> str:
        """Return what to call user code that a graph names "@" and its fingerprint; that itself if it is forgotten."""
        known = self._code.get(fn[1:])
        return fn if known is None else known.name

    @abstractmethod
    def start(self, work: Work) -> None:
        """Have a worker run a call as soon as what it reads and waits for is there. Does not block.

        Answered by one `SegmentReturned`, unless the worker dies.

        Raises:
            NotShippable: a value of the call cannot leave this process.
            ExecutionError: an argument is unknown, or was dropped.
        """

    @abstractmethod
    def fetch(self, worker: int, run: int, value: int, after: SegmentId | None, *, requested: bool = False) -> None:
        """Make an object of a pinned value, under `value_object(run, value)`, once segment `after`, if any, has ended;
        calls may name it at once. Does not block. Answered by one `ValueReady`, unless the worker dies.

        If the client `requested` for it, it comes with what it holds on devices; for others, that stays where it is."""

    @abstractmethod
    def unpin(self, worker: int, values: Sequence[Pinned]) -> None:
        """Have a worker forget pinned values. Does not block; no answer."""

    @abstractmethod
    def poll(self, timeout: float) -> list[Report]:
        """Return what has happened since the last call, waiting up to `timeout` seconds for something to happen.

        Raises:
            KeyboardInterrupt: it came while this thread waited, or ran a segment; nothing is lost by it.
        """

    def check_wait(self) -> None:  # noqa: B027 - nearly no executor runs anything on the threads that wait for it
        """Called by who is about to wait for something.

        Raises:
            ExecutionError: it is code that this executor runs, and what it waits for cannot come before it has ended.
        """

    @abstractmethod
    def read(self, name: ObjectId, timeout: float | None) -> Any:
        """Return the values of an object, or POISON, waiting for it.

        Raises:
            WaitTimeout: `timeout` seconds have passed.
            WorkerLost: the worker that was to make it died.
            ExecutionError: there is no such object.
        """

    @abstractmethod
    def drop(self, name: ObjectId) -> None:
        """Let go of an object; dropping one that is not there is no error. Does not block."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether anything was asked for that is not answered yet."""

    @abstractmethod
    def stored_bytes(self) -> int:
        """Return the bytes that the object store holds, by its own account."""

    @abstractmethod
    def pids(self) -> tuple[int, ...]:
        """Return the process id of each worker."""

    @abstractmethod
    def close(self) -> None:
        """Stop the workers and let go of all objects; what runs is not waited for. Closing again does nothing."""


def offered_resources(worker_options: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Return what workers started with these options of Ray's offer to nodes that ask: see `WorkerSpec.resources`."""
    own = {name: worker_options[name] for name in ("num_cpus", "num_gpus", "memory") if worker_options.get(name)}
    own |= worker_options.get("resources") or {}
    return tuple(sorted([(str(name), float(amount)) for name, amount in own.items()]))


def failed_record(call: Call, worker: str, pid: int, error: BaseException, seconds: float = 0.0) -> Record:
    """Return the record of a call that could not run, or was ended from outside, because of `error`.

    An interrupt is not raised a second time where the record is read: there it is an ExecutionError.
    """
    kind = type(error).__name__
    shown = error if isinstance(error, Exception) else ExecutionError(f"the segment was ended by {kind}")
    failure = Failure(-1, "segment", (), f"{kind}: {error}", pack_exception(shown), kind, str(shown))
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
        learned=(),
        undefined=(),
        emits=(),
        hooks=(),
        failure=failure,
    )
