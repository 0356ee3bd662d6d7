"""What passes between the two ends of a service: values, records, emits and errors, out of one side and into the other.

With the opt-in to pickle on both sides all goes as between a session and its workers. Without it neither side unpickles
what the other has sent: where one of its own pickles would go out, it opens that itself, and sends the value in the
closed data model (`closed_values`); the other side makes what its workers or its user are to have of it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from raygrad import errors
from raygrad.errors import (
    ExecutionError,
    PlanError,
    ProtocolError,
    RaygradError,
    RemoteError,
    ServiceError,
    WaitTimeout,
    WorkerLost,
)
from raygrad.proto.codec.checks import integer, shown
from raygrad.proto.codec.messages import decode_message, encode_message
from raygrad.proto.codec.signatures import FIXED, OBJECT
from raygrad.proto.codec.values import Blob
from raygrad.proto.ir.program import CapturedWarning, Failure, FunctionObservation, Item, Record
from raygrad.workers.code.exceptions import pack_exception, unpack_exception
from raygrad.workers.code.nested_tensors import Embedding, GroupedArgument
from raygrad.workers.executors.deadlines import Expired
from raygrad.workers.executors.disagreement import Disagreement
from raygrad.workers.executors.run_state import LostWorker
from raygrad.workers.values.contexts import Context
from raygrad.workers.values.packed_values import POISON, portable, restored
from raygrad.workers.values.wire import decode_record, encode_record

from .closed_contexts import closed_context, opened_context
from .closed_tensors import closed_around_tensors, closed_pickle, opened_around_tensors, pickle_of_closed
from .closed_values import closed, closed_bytes, opened, opened_bytes
from .messages import Failed
from .named_code import NamedModules

PICKLE_HINT: Final = (
    "it needs pickle, which runs code at the side that reads it; where server and client trust each other, start the "
    "server with allow_pickle=True (ServerOptions) and open Session(..., allow_pickle=True)"
)

_PLAIN: Final[Any] = (type(None), bool, int, float, str, np.ndarray)

_POISON: Final = Item(0, 0)
"""What stands for POISON."""

LOSSES: Final[dict[type[Any], str]] = {LostWorker: "worker", Expired: "expired", Disagreement: "disagreement"}
"""Why a run failed besides an error of its code: the name for each on the wire."""


class Passage:
    """What one side lets pass, and in which form.

    Args:
        allow_pickle: whether both sides have agreed on pickles.
        modules: what this side finds under the names that come.
    """

    def __init__(self, allow_pickle: bool, modules: NamedModules) -> None:
        self.allow_pickle: Final = allow_pickle
        self.modules: Final = modules

    # ---- values --------------------------------------------------------------------------------------------------

    def outgoing(self, value: Any, what: str) -> Any:
        """Return a value in the form in which it is sent.

        Raises:
            ServiceError: it does not pass without pickles.
            NotShippable: it cannot be pickled.
        """
        if value is POISON:
            return _POISON
        if self.allow_pickle:
            return portable(value, True)
        if type(value) in _PLAIN and (type(value) is not np.ndarray or value.dtype.kind not in "OV"):
            return value
        if isinstance(value, Context):
            return ["context", closed_context(value.packed(True), what)]
        if type(value) is Embedding:
            return ["embedding", *closed_around_tensors(value, what)]
        if type(value) is GroupedArgument:
            return ["grouped", value.number]
        if isinstance(value, bytes):  # as itself it would not be told from what else is bytes on a worker
            return ["value", value]
        sent: Any = portable(value, True) if not isinstance(value, _PLAIN) else None
        if type(sent) is tuple and sent[0] == "device":
            return ["device", sent[1], sent[2]]
        return ["value", closed(value, what)]

    def incoming(self, value: Any, what: str) -> Any:
        """Return the value that was sent.

        Raises:
            ProtocolError: it is none.
            ServiceError: it names what may not be named.
        """
        if type(value) is Item:
            return POISON
        if type(value) in _PLAIN:
            return value
        if self.allow_pickle:
            return restored(value)
        parts: list[Any] = cast("list[Any]", value) if type(value) is list else []
        match parts:
            case ["value", tree]:
                return opened(tree, self.modules)
            case ["context", tree]:
                return Context(packed=opened_context(tree, self.modules))
            case ["embedding", data, places, several]:
                return opened_around_tensors(data, places, several, self.modules)
            case ["grouped", number]:
                return GroupedArgument(integer(number, "number of an argument", 1, 1 << 16))
            case ["device", str(place), array] if type(array) is np.ndarray:
                return restored(("device", place, array))
            case _:
                raise ProtocolError(f"{what} is of no form that passes without pickles: {shown(value)}")

    # ---- records -------------------------------------------------------------------------------------------------

    def record_bytes(self, record: Record | None) -> bytes:
        """Return a record as bytes; b"" for None.

        Raises:
            ServiceError: something that user code made does not pass without pickles; says what.
        """
        if record is None:
            return b""
        if self.allow_pickle:
            failure = record.failure
            if failure is not None and isinstance(failure.exception, BaseException):  # of a worker in this process
                record = record._replace(failure=failure._replace(exception=pack_exception(failure.exception)))
            return _joined(encode_record(record))
        sent = record._replace(
            results=tuple([(number, self.outgoing(one, "a result")) for number, one in record.results]),
            emits=self.emits_out(record.emits),
            observations=tuple(map(self._observation_out, record.observations)),
            warned=tuple(map(_warning_out, record.warned)),
            failure=None if record.failure is None else _failure_out(record.failure),
        )
        return _joined(encode_message(sent))

    def record_of(self, data: bytes) -> Record | None:
        """Return the record in bytes; None of b"".

        Raises:
            ProtocolError: they hold none.
        """
        if not data:
            return None
        if self.allow_pickle:
            return decode_record([data])
        found = decode_message(data)
        if not isinstance(found, Record):
            raise ProtocolError(f"a record is expected, not a {type(found).__name__}")
        return found._replace(
            results=tuple([(number, self.incoming(one, "a result")) for number, one in found.results]),
            emits=self.emits_in(found.emits),
            observations=tuple(map(self._observation_in, found.observations)),
            warned=tuple(map(self._warning_in, found.warned)),
            failure=None if found.failure is None else self._failure_in(found.failure),
        )

    def emits_out(self, emits: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return emits as they are sent.

        Raises:
            ServiceError: a value does not pass without pickles.
        """
        if self.allow_pickle:
            return tuple([tuple(one) for one in emits])
        return tuple([(*head, name, closed_pickle(value, f"rg.emit({name!r}, ...)")) for *head, name, value in emits])

    def emits_in(self, emits: Sequence[Any]) -> tuple[Any, ...]:
        """Return emits that were sent, as a session has them."""
        if self.allow_pickle:
            return tuple([tuple(one) for one in emits])
        return tuple([(*head, name, self._pickled(value)) for *head, name, value in emits])

    def _pickled(self, data: Any) -> bytes:
        """Return a pickle of this side's own of a closed value."""
        return pickle_of_closed(data, self.modules)

    def _observation_out(self, seen: FunctionObservation) -> FunctionObservation:
        return _fixed_changed(seen, lambda blob: closed_pickle(bytes(blob.data), "what a nested Function returned"))

    def _observation_in(self, seen: FunctionObservation) -> FunctionObservation:
        return _fixed_changed(seen, lambda data: Blob(self._pickled(data)))

    def _warning_in(self, warned: CapturedWarning) -> CapturedWarning:
        found = opened_bytes(warned.warning, self.modules)
        if not isinstance(found, Warning):
            found = UserWarning(f"{warned.category}: {warned.message}")
        return warned._replace(warning=found)

    def _failure_in(self, failure: Failure) -> Failure:
        found = opened_bytes(failure.exception, self.modules)
        if not isinstance(found, BaseException):
            raise ProtocolError(f"the error of a node is no error but {shown(found)}")
        return failure._replace(exception=found)


def _joined(pieces: Sequence[Any]) -> bytes:
    return b"".join([bytes(piece) for piece in pieces])


def _warning_out(warned: CapturedWarning) -> CapturedWarning:
    return warned._replace(warning=closed_bytes(unpack_exception(warned.warning), "a warning"))


def _failure_out(failure: Failure) -> Failure:
    error = failure.exception
    found = error if isinstance(error, BaseException) else unpack_exception(error)
    return failure._replace(exception=closed_bytes(found, "an error"))


def _fixed_changed(seen: FunctionObservation, change: Callable[[Any], Any]) -> FunctionObservation:
    outputs = [
        (kind, change(body)) if kind == FIXED and body is not None else (kind, body) for kind, body in seen.outputs
    ]
    if any([kind == OBJECT and body is not None for kind, body in outputs]):
        raise ProtocolError("an output that is no tensor is told of with a value")
    return seen._replace(outputs=tuple(outputs))


# ---- errors --------------------------------------------------------------------------------------------------------

_OURS: Final[dict[str, type[BaseException]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, RaygradError) and kind not in (PlanError, WorkerLost, RemoteError)
}

_PYTHONS: Final[dict[str, type[BaseException]]] = {
    kind.__name__: kind
    for kind in (
        ArithmeticError, AssertionError, AttributeError, FloatingPointError, IndexError, KeyError, LookupError,
        MemoryError, NotImplementedError, OverflowError, RecursionError, RuntimeError, TypeError, ValueError,
        ZeroDivisionError,
    )
}  # fmt: skip


def error_named(kind: str, message: str) -> BaseException:
    """Return an error of a class of raygrad or of Python by its name and message; RemoteError for any other."""
    name = kind.rpartition(".")[2]
    known = _OURS.get(name) or (_PYTHONS.get(name) if kind in (name, f"{builtins.__name__}.{name}") else None)
    if known is None:
        return RemoteError(f"{kind}: {message}", kind)
    try:
        return known(message)
    except TypeError:  # one whose arguments are not a message
        return RemoteError(f"{kind}: {message}", kind)


def failed_answer(number: int, error: BaseException) -> Failed:
    """Return the answer to a request that raised."""
    details: Any = ()
    if isinstance(error, PlanError):
        details = (error.nodes, error.workers, error.needs)
    elif isinstance(error, WorkerLost):
        details = (error.worker,)
    elif isinstance(error, ServiceError):
        details = (error.code,)
    message = str(error.args[0]) if details and error.args else str(error)
    return Failed(number, type(error).__name__, message, details)


def error_of(failed: Failed) -> BaseException:
    """Return the error that a request raised at the server."""
    details: Any = failed.details
    if not isinstance(details, tuple):
        raise ProtocolError("the details of an error are no sequence")
    details = cast("tuple[Any, ...]", details)
    if failed.kind == "PlanError" and len(details) == 3:
        return PlanError(failed.message, *details)
    if failed.kind == "WorkerLost" and len(details) == 1:
        return WorkerLost(failed.message, str(details[0]))
    if failed.kind == "ServiceError" and len(details) == 1:
        return ServiceError(failed.message, str(details[0]))
    if failed.kind == "WaitTimeout":
        return WaitTimeout(failed.message)
    found = error_named(failed.kind, failed.message)
    return found if isinstance(found, RaygradError | ValueError | TypeError) else ExecutionError(str(found))
