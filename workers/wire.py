"""Calls and records as bytes, whatever Python objects they hold: what crosses from process to process.

Rules of this file: the codec is `proto`'s; here only objects that are no plain data are turned into blobs, and back.
Who opens a blob trusts who made it: a worker its session, a session its workers.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple, TypeAlias

from raygrad.proto.messages import decode_message, encode_message
from raygrad.proto.program import Call, Item, Pinned, Program, Record
from raygrad.proto.values import Buffer

from .host import portable, restored

Frame: TypeAlias = list[Buffer]
"""The pieces of one encoded message."""

JOINED_BYTES: Final = 64 * 1024
"""Frames up to this size travel as one string of bytes: a list of pieces costs more to pickle than a copy."""

_AS_IT_IS = (Item, Pinned)


def compact(frame: Frame) -> Frame | bytes:
    """Return a frame as one string of bytes if it is small; `pieces` is the inverse."""
    if sum(map(len, frame)) <= JOINED_BYTES:
        return b"".join([bytes(piece) for piece in frame])
    return frame


def pieces(frame: Frame | bytes) -> Frame:
    """Return the frame that `compact` was given, perhaps cut otherwise."""
    return [frame] if isinstance(frame, bytes) else frame


class Order(NamedTuple):
    """A call with what a worker has to know besides: how many objects follow it as arguments, how many it returns, and
    whether it returns a token, before them."""

    frame: Frame | bytes
    objects: int
    exports: int
    with_token: bool


_ORDER_HEAD: Final = struct.Struct("<HH?")


def encode_order(order: Order) -> Order | bytes:
    """Return an order as one argument: as bytes if it is small, because each argument of a remote call costs 50 µs or
    more, and one that has to be pickled more than bytes."""
    frame = order.frame
    return (
        _ORDER_HEAD.pack(order.objects, order.exports, order.with_token) + frame if isinstance(frame, bytes) else order
    )


def decode_order(order: Order | bytes) -> Order:
    """Return the order that `encode_order` was given."""
    if isinstance(order, bytes):
        return Order(order[_ORDER_HEAD.size :], *_ORDER_HEAD.unpack_from(order))
    return order


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
    """Return a record as bytes.

    Raises:
        NotShippable: one of its results cannot be pickled; names it.
    """
    return encode_message(record._replace(results=tuple([(value, portable(one)) for value, one in record.results])))


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
