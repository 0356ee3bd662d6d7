"""Messages between a service and its clients: frozen dataclasses, each one frame of `proto.codec.frames`, and back.

A header is (name, version, fields); values lie beside it, as in other messages. Types, counts and ids are checked when
a message is read; nothing is unpickled here: values that need that stay closed until `values` opens them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields as fields_of
from typing import Any, Final, TypeAlias, cast

from raygrad.errors import ProtocolError
from raygrad.proto.codec.checks import fields, flag, integer, octets, shown, text
from raygrad.proto.codec.frames import Frame, encode_frame
from raygrad.proto.codec.value_reader import read_values
from raygrad.proto.codec.value_writer import Buffer, write_values

SERVICE_VERSION: Final = 5
"""Of this set of messages."""

MOST_TEXT: Final = 1 << 20
"""Characters of one text: a traceback, or measured costs."""

MOST_ITEMS: Final = 1 << 20
"""Entries of one list of ids."""


@dataclass(frozen=True, slots=True)
class ClientHello:
    """The client's first message: its versions, and what it asks for."""

    raygrad: str
    python: str
    service: int
    admin: bool
    allow_pickle: bool
    workers: int
    """0: as many as the server gives."""
    blas_threads: int


@dataclass(frozen=True, slots=True)
class Welcome:
    """The server's answer: the session, its workers and the largest message.

    `key` and `epoch` are for `Resume`; a session outlives its connection by `grace` seconds.
    """

    session: str
    key: str
    epoch: str
    """Of this start of the server."""
    grace: float
    cluster: Any
    links: Any
    """What calls of its workers and links between them have shown."""
    reports_unasked: bool
    max_message: int
    asked: float
    """When the hello arrived, by the server's clock; workers were started since."""
    clock: float
    """When this was sent, by the same."""


@dataclass(frozen=True, slots=True)
class Resume:
    """A client's first message where its session goes on over another connection; answered by `Resumed`."""

    session: str
    key: str
    epoch: str
    taken: int
    """How many messages of the session the client has taken."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """How many messages of the session the server has taken; what the client lacks follows."""

    taken: int


@dataclass(frozen=True, slots=True)
class Taken:
    """How many messages of the session this side has taken: the other one need not keep them any more."""

    count: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The server's last message on a connection."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Start:
    """The client's settings for its driver."""

    cluster: Any
    measured: str
    """JSON of measured costs."""
    seed: int
    recovery_time: float
    retries: int
    limits: Any
    """Seconds of a node, a segment, a run; negative for none."""


@dataclass(frozen=True, slots=True)
class MeasuredCostsSent:
    """What the client has measured since."""

    measured: str


@dataclass(frozen=True, slots=True)
class Learn:
    """User code by value."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class LearnNamed:
    """User code by its name; answered by True, or `Failed`."""

    id: int
    module: str
    qualname: str
    source: bytes
    """A digest of the module's file at the client; empty if it has none."""


@dataclass(frozen=True, slots=True)
class Declined:
    """The client has refused to send something, of which it told its user; for the server's log."""

    code: str
    what: str


@dataclass(frozen=True, slots=True)
class Submit:
    """A graph to run, or with `preview` to plan only; answered by `PlanMade`."""

    id: int
    preview: bool
    run: int
    graph: bytes
    key: bytes
    dropped: Any
    paths: Any
    values: tuple[Any, ...]
    """External inputs: a value, or `Pinned` for a kept value of an earlier run."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request about (run, value): "read" or "stays"; or about runs: "cancel", "cancel_all"; or "stored"."""

    id: int
    what: str
    numbers: tuple[int, ...]
    seconds: float
    """That are left to it; infinity for no limit."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Kept values that the client holds no more: run, value, run, value, ..."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanMade:
    """The plan of a submission; `graph` is empty if it is the submitted one."""

    id: int
    plan: Any
    graph: bytes
    residency: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to `Ask`; `saved` and `peak` are the bytes in the object store."""

    id: int
    saved: int
    peak: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The error that answers a request: the name of its class, its message, and what else it holds."""

    id: int
    kind: str
    message: str
    details: Any


@dataclass(frozen=True, slots=True)
class Recorded:
    """A segment's record; times are of the server's clock."""

    record: bytes
    sent: float
    came: float
    awaited: bool
    spent: float
    finished: bool
    saved: int
    peak: int


@dataclass(frozen=True, slots=True)
class EmitsSent:
    """Emits of a segment that goes on."""

    run: int
    segment: int
    attempt: int
    worker: str
    nbytes: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """A kept value was brought from its worker."""

    run: int
    value: int
    worker: int
    left: Any


@dataclass(frozen=True, slots=True)
class Finished:
    """A run is done."""

    run: int


@dataclass(frozen=True, slots=True)
class StillRunning:
    """What was cancelled runs on."""

    run: int
    segment: int


@dataclass(frozen=True, slots=True)
class Replanned:
    """The rest of a run was planned again."""

    run: int
    plan: Any
    at: float
    revision: Any


@dataclass(frozen=True, slots=True)
class RunFailed:
    """A run failed."""

    run: int
    record: bytes
    reason: str
    lost: Any
    """Of `values.LOSSES` the name and the fields; () for none."""


@dataclass(frozen=True, slots=True)
class Administer:
    """A request of an administrator: "status", "sessions" or "cancel" with the name of a session."""

    what: str
    session: str


@dataclass(frozen=True, slots=True)
class Administered:
    """Its answer, as JSON."""

    data: str


Message: TypeAlias = Any


def _short(value: Any, what: str) -> str:
    found = text(value, what)
    if len(found) > MOST_TEXT:
        raise ProtocolError(f"the {what} has {len(found)} characters; at most {MOST_TEXT} are allowed")
    return found


def _number(value: Any, what: str) -> float:
    if type(value) is not float or value != value:
        raise ProtocolError(f"the {what} is no number: {shown(value)}")
    return value


def _ids(value: Any, what: str) -> tuple[int, ...]:
    if type(value) is not tuple or len(cast("tuple[Any, ...]", value)) > MOST_ITEMS:
        raise ProtocolError(f"the {what} are not up to {MOST_ITEMS} numbers but {shown(value)}")
    return tuple([integer(one, what) for one in cast("tuple[Any, ...]", value)])


_READS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "str": _short,
    "int": integer,
    "bool": flag,
    "float": _number,
    "bytes": octets,
    "tuple[int, ...]": _ids,
}

_KINDS: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (
        ClientHello, Welcome, Resume, Resumed, Taken, Refused, Start, MeasuredCostsSent, Learn, LearnNamed,
        Declined, Submit, Ask, Drop, PlanMade, Answer, Failed, Recorded, EmitsSent, Fetched, Finished, StillRunning,
        Replanned, RunFailed, Administer, Administered,
    )
}  # fmt: skip


def encode(message: Message) -> list[Buffer]:
    """Return a message as the pieces of one frame; large arrays are not copied.

    Raises:
        NotShippable: it holds a value that is no plain data.
        ProtocolError: it is over a cap.
    """
    name = type(message).__name__
    body = [getattr(message, one.name) for one in fields_of(message)]
    buffers: list[Buffer] = []
    if name in _WITH_VALUES:
        body[-1], buffers = write_values(list(body[-1]))
    return encode_frame((name, SERVICE_VERSION, tuple(body)), buffers)


_WITH_VALUES: Final = frozenset(name for name, kind in _KINDS.items() if fields_of(kind)[-1].name == "values")


def decode(frame: Frame) -> Message:
    """Return the message in a frame. Values are still as `values.closed` or `values.opened` takes them.

    Raises:
        ProtocolError: it is none, or not a well-formed one.
    """
    name, version, body = fields(frame.header, 3, "header of a message")
    kind = _KINDS.get(name) if type(name) is str else None
    if kind is None:
        raise ProtocolError(f"no message of a service is called {shown(name)}")
    if version != SERVICE_VERSION:
        raise ProtocolError(f"a message '{name}' is of version {shown(version)}; this side reads {SERVICE_VERSION}")
    known = fields_of(kind)
    parts = fields(body, len(known), f"message '{name}'")
    made: list[Any] = []
    for one, part in zip(known, parts, strict=True):
        if one.name == "values":
            made.append(tuple(read_values(part, frame.buffers)))
        else:
            read = _READS.get(str(one.type))
            made.append(part if read is None else read(part, f"{one.name} of a message '{name}'"))
    if frame.buffers and name not in _WITH_VALUES:
        raise ProtocolError(f"a message '{name}' has buffers and needs none")
    return kind(*made)
