"""Values, records and errors at the two ends of a service: what may pass, and what has to be unpickled for it.

Without the opt-in to pickle only None, numbers, texts and arrays of plain dtypes pass, records lose their packed
exceptions, and errors are rebuilt from their names and messages, from a fixed list of classes."""

from __future__ import annotations

import builtins
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
from raygrad.proto.codec.messages import decode_message, encode_message
from raygrad.proto.ir.program import Item, Record
from raygrad.workers.code.exceptions import pack_exception
from raygrad.workers.executors.deadlines import Expired
from raygrad.workers.executors.disagreement import Disagreement
from raygrad.workers.executors.run_state import LostWorker
from raygrad.workers.values.packed_values import POISON, portable, restored
from raygrad.workers.values.wire import decode_record, encode_record

from .messages import Failed

PICKLE_HINT: Final = (
    "it needs pickle, which runs code at the side that reads it; where server and client trust each other, start the "
    "server with allow_pickle=True (ServerOptions) and open Session(..., allow_pickle=True)"
)

_PLAIN: Final[Any] = (type(None), bool, int, float, str, np.ndarray)

_POISON: Final = Item(0, 0)
"""What stands for POISON."""


def outgoing(value: Any, allow_pickle: bool, what: str) -> Any:
    """Return a value in the form in which it is sent.

    Raises:
        ServiceError: it would have to be pickled, and that is not agreed on.
        NotShippable: it cannot be pickled.
    """
    if value is POISON:
        return _POISON
    sent: Any = portable(value, True)
    if not allow_pickle and not isinstance(sent, _PLAIN):
        raise ServiceError(f"{what} is {type(value).__name__}: {PICKLE_HINT}", "pickle")
    return sent


def incoming(value: Any, allow_pickle: bool, what: str) -> Any:
    """Return the value that was sent.

    Raises:
        ServiceError: it would have to be unpickled, and that is not agreed on.
    """
    if type(value) is Item:
        return POISON
    if not isinstance(value, _PLAIN):
        if not allow_pickle:
            raise ServiceError(f"{what} is not plain data: {PICKLE_HINT}", "pickle")
        return restored(value)
    return value


LOSSES: Final[dict[type[Any], str]] = {LostWorker: "worker", Expired: "expired", Disagreement: "disagreement"}
"""Why a run failed besides an error of its code: the name for each on the wire."""

# ---- records -------------------------------------------------------------------------------------------------------


def record_bytes(record: Record | None, allow_pickle: bool) -> bytes:
    """Return a record as bytes; b"" for None."""
    if record is None:
        return b""
    if not allow_pickle:
        record = without_pickles(record)
        return b"".join([bytes(piece) for piece in encode_message(record)])
    failure = record.failure
    if failure is not None and isinstance(failure.exception, BaseException):  # of a worker in this process
        record = record._replace(failure=failure._replace(exception=pack_exception(failure.exception)))
    return b"".join([bytes(piece) for piece in encode_record(record)])


def record_of(data: bytes, allow_pickle: bool) -> Record | None:
    """Return the record in bytes.

    Raises:
        ProtocolError: they hold none.
    """
    if not data:
        return None
    if allow_pickle:
        return decode_record([data])
    found = decode_message(data)
    if not isinstance(found, Record):
        raise ProtocolError(f"a record is expected, not a {type(found).__name__}")
    found = without_pickles(found)
    if found.failure is not None:
        rebuilt = error_named(found.failure.type, found.failure.message)
        found = found._replace(failure=found.failure._replace(exception=rebuilt))
    return found


def without_pickles(record: Record) -> Record:
    """Return a record without what would have to be unpickled: its exception, which its names and text stand for;
    emits and warnings of user code, which cannot run."""
    failure = record.failure
    return record._replace(
        results=tuple([one for one in record.results if isinstance(one[1], _PLAIN)]),
        emits=(),
        warned=tuple([one._replace(warning=None) for one in record.warned]),
        failure=None if failure is None else failure._replace(exception=None),
    )


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
