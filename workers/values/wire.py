"""Programs, calls and records on the wire: encoded by `proto.codec`, with other Python objects as blobs.

Executors send these bytes. Whoever opens a blob trusts its maker: a worker its session, a session its workers."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from raygrad.proto.codec.messages import decode_message, encode_message
from raygrad.proto.codec.values import Buffer
from raygrad.proto.ir.program import Call, Item, Pinned, Program, Record

from ..code.pickling import HoldsDeviceArray
from .packed_values import portable, restored

Frame: TypeAlias = list[Buffer]
"""The pieces of one encoded message."""

JOINED_BYTES: Final = 96 * 1024
"""Frames up to this size travel as one string of bytes: a list of pieces costs more to pickle than a copy. Ray sends
arguments of up to 100 KB with the call itself, larger ones by its store, which costs twice as much."""

_AS_IT_IS = (Item, Pinned)


def compact(frame: Frame) -> Frame | bytes:
    """Return a frame as one string of bytes if it is small; `pieces` is the inverse."""
    if sum(map(len, frame)) <= JOINED_BYTES:
        return b"".join([bytes(piece) for piece in frame])
    return frame


def pieces(frame: Frame | bytes) -> Frame:
    """Return the frame that `compact` was given, in one or more pieces."""
    return [frame] if isinstance(frame, bytes) else frame


class Order(NamedTuple):
    """The calls of one message, with its number and order."""

    number: int
    """The number of the message to this worker, which later ones name in `after`."""
    after: tuple[int, ...]
    """Messages that must end before it starts."""
    exports: int
    """The number of objects that it returns."""
    frames: tuple[Frame | bytes, ...]
    """The calls, in order. A call that reads or returns objects is sent alone."""
    run: int = 0
    """The earliest run of its calls: of orders that can start, those of the earliest run go first."""
    priority: float = 0.0
    """The highest priority of its calls: of orders of one run, the one with the highest goes first."""


_ORDER_HEAD: Final = struct.Struct("<QHHHqd")
_LENGTH: Final = struct.Struct("<I")
_APART: Final = 0xFFFFFFFF
"""In the place of a length: the frame is a separate argument."""


def encode_order(order: Order) -> list[Frame | bytes]:
    """Return an order as arguments of a remote call: as few as can be, because each costs 50 µs or more, and none of
    more than `JOINED_BYTES` unless a frame is."""
    number, after, exports, frames, run, priority = order
    head: list[bytes] = [_ORDER_HEAD.pack(number, exports, len(after), len(frames), run, priority)]
    head.append(struct.pack(f"<{len(after)}Q", *after))
    apart: list[Frame | bytes] = []
    room = JOINED_BYTES
    for frame in frames:
        if isinstance(frame, bytes) and len(frame) <= room:
            head += (_LENGTH.pack(len(frame)), frame)
            room -= len(frame)
        else:
            head.append(_LENGTH.pack(_APART))
            apart.append(frame)
    return [b"".join(head), *apart]


def decode_order(arguments: Sequence[Any]) -> tuple[Order, Sequence[Any]]:
    """Return the order that `encode_order` was given, and the arguments that follow it."""
    head: bytes = arguments[0]
    number, exports, many, calls, run, priority = _ORDER_HEAD.unpack_from(head)
    after = struct.unpack_from(f"<{many}Q", head, _ORDER_HEAD.size)
    start, apart = _ORDER_HEAD.size + 8 * many, 1
    frames: list[Frame | bytes] = []
    for _ in range(calls):
        (length,) = _LENGTH.unpack_from(head, start)
        start += _LENGTH.size
        if length == _APART:
            frames.append(arguments[apart])
            apart += 1
        else:
            frames.append(head[start : start + length])
            start += length
    return Order(number, after, exports, tuple(frames), run, priority), arguments[apart:]


Answer: TypeAlias = "bytes | tuple[Frame | bytes, ...]"
"""The records of an order's calls, in order."""


def encode_answer(frames: Sequence[Frame | bytes]) -> Answer:
    """Return the records of an order's calls, each encoded, as one value; as bytes if they are small."""
    pieces: list[bytes] = []
    for frame in frames:
        if not isinstance(frame, bytes):
            return tuple(frames)
        pieces += (_LENGTH.pack(len(frame)), frame)
    return b"".join(pieces)


def decode_answer(answer: Answer) -> list[Record | None]:
    """Return the records in an answer, in order; None for an empty frame, of a call that was withdrawn."""
    frames = _split(answer) if isinstance(answer, bytes) else answer
    return [decode_record([bytes(piece) for piece in pieces(frame)]) if frame else None for frame in frames]


def _split(data: bytes) -> list[bytes]:
    """Return the length-prefixed pieces of `data`."""
    found: list[bytes] = []
    start = 0
    while start < len(data):
        (length,) = _LENGTH.unpack_from(data, start)
        start += _LENGTH.size + length
        found.append(data[start - length : start])
    return found


def encode_call(call: Call) -> Frame:
    """Return a call as bytes.

    Raises:
        NotShippable: one of its values cannot be pickled; names it.
    """
    externals = tuple([value if type(value) in _AS_IT_IS else portable(value) for value in call.externals])
    return encode_message(call._replace(externals=externals))


def decode_call(frame: Frame) -> Call:
    """Return the call in a frame; its arrays are read-only."""
    call = _decoded(frame, Call)
    return call._replace(
        externals=tuple([value if type(value) in _AS_IT_IS else restored(value) for value in call.externals])
    )


def encode_record(record: Record) -> Frame:
    """Return a record as bytes. Results that hold arrays of devices stay where they are, until they are requested.

    Raises:
        NotShippable: one of its results cannot be pickled; names it.
    """
    results: list[tuple[int, Any]] = []
    for value, one in record.results:
        with contextlib.suppress(HoldsDeviceArray):
            results.append((value, portable(one)))
    return encode_message(record._replace(results=tuple(results)))


def decode_record(frame: Frame) -> Record:
    """Return the record in a frame; its arrays are read-only."""
    record = _decoded(frame, Record)
    return record._replace(results=tuple([(value, restored(one)) for value, one in record.results]))


def encode_program(program: Program) -> Frame:
    """Return a program as bytes."""
    return encode_message(program)


def decode_program(frame: Frame) -> Program:
    """Return the program in a frame."""
    return _decoded(frame, Program)


def _decoded(frame: Frame, kind: type[Any]) -> Any:
    message = decode_message(frame)
    if not isinstance(message, kind):
        raise TypeError(f"expected a {kind.__name__}, got a {type(message).__name__}")
    return message
