"""A connection between service and client: whole messages over one WebSocket, sent in bounded pieces.

Both sides use it; what a message means is `remote`'s and `served_session`'s affair, and that a session outlives its
connection is `resumable_connection`'s. Where a session has a process of its own, its messages reach that over a
`piece_channel` instead of the WebSocket, which is the server's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, cast

from websockets.protocol import State
from websockets.sync.connection import Connection

from raygrad.errors import ProtocolError, ServiceError
from raygrad.proto.codec.frames import FrameDecoder, NeedData
from raygrad.proto.codec.value_writer import Buffer

from .messages import decode, encode

PIECE_BYTES: Final = 1024 * 1024
"""The most bytes of one piece of a message."""

LEFT: Final = (1000, 1001)
"""Codes by which a side says that it closes the session; a connection that ends without one was broken."""


class EncodedMessage(NamedTuple):
    """A message as it goes out. Large arrays are not copied."""

    pieces: Sequence[Buffer]
    nbytes: int

    @classmethod
    def of(cls, message: Any, most: int) -> EncodedMessage:
        """Encode a message.

        Raises:
            NotShippable: it holds a value that is no plain data.
            ServiceError: it has more than `most` bytes.
        """
        pieces = encode(message)
        total = sum(map(len, pieces))
        if total > most:
            raise ServiceError(
                f"a message of {total:,} bytes is larger than the {most:,} that the service takes at once: start it "
                "with a larger max_message (ServerOptions), or send smaller arrays",
                "message too large",
            )
        return cls(pieces, total)


class PieceSocket(Protocol):
    """What carries messages, each in one piece or several."""

    def send(self, message: bytes | Iterable[bytes | memoryview]) -> None:
        """Send a message; waits while the other side takes nothing. Raises ConnectionClosed."""
        ...

    def recv_streaming(self) -> Iterator[bytes | str]:
        """Give the pieces of the next message as they come; a text is none of ours. Raises ConnectionClosed."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Close it, and tell the other side."""
        ...

    def check(self) -> None:
        """Raises ConnectionClosed if it is."""
        ...

    def break_off(self) -> None:
        """End it at once, without a word to the other side."""
        ...


class WebSocket:
    """A `PieceSocket` that is a WebSocket."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    def send(self, message: bytes | Iterable[bytes | memoryview]) -> None:
        self._connection.send(message)

    def recv_streaming(self) -> Iterator[bytes | str]:
        return self._connection.recv_streaming()

    def close(self, code: int, reason: str) -> None:
        self._connection.close(code, reason[:120])

    def check(self) -> None:
        if self._connection.protocol.state is not State.OPEN:
            raise self._connection.protocol.close_exc

    def break_off(self) -> None:
        with suppress(OSError):
            self._connection.socket.shutdown(socket.SHUT_RDWR)


class MessageConnection:
    """Sends and receives messages. Any thread may send; one receives."""

    def __init__(self, connection: PieceSocket, max_message: int) -> None:
        self.socket: Final = connection
        self._sending = threading.Lock()
        self.max_message = max_message
        """The most bytes of a message."""

    def send(self, message: Any) -> None:
        """Send a message; waits while the other side takes nothing.

        Raises:
            NotShippable: it holds a value that is no plain data.
            ServiceError: it is larger than the other side takes.
            ConnectionClosed: the connection is.
        """
        self.send_encoded(EncodedMessage.of(message, self.max_message))

    def send_encoded(self, message: EncodedMessage) -> None:
        """Send an encoded message; waits while the other side takes nothing.

        Raises:
            ConnectionClosed: the connection is.
        """
        with self._sending:
            if message.nbytes <= PIECE_BYTES:
                self.socket.send(b"".join([bytes(piece) for piece in message.pieces]))
            else:
                self.socket.send(_cut(message.pieces))

    def receive(self) -> Any:
        """Return the next message, waiting for it.

        Raises:
            ProtocolError: what came is no message.
            ConnectionClosed: the connection is.
        """
        decoder = FrameDecoder(max_frame_bytes=self.max_message)
        for piece in self.socket.recv_streaming():
            if isinstance(piece, str):
                raise ProtocolError("a text came where a frame was expected")
            decoder.feed(piece)
        frame = decoder.next_frame()
        if isinstance(frame, NeedData):
            raise ProtocolError("a message ended before its frame did")
        if not isinstance(decoder.next_frame(), NeedData):
            raise ProtocolError("a message holds more than one frame")
        return decode(frame)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it."""
        self.socket.close(code, reason)

    def check(self) -> None:
        """Raises ConnectionClosed if it is."""
        self.socket.check()

    def break_off(self) -> None:
        """End it at once, without a word to the other side: who sends or receives here gets a ConnectionClosed."""
        self.socket.break_off()


def _cut(pieces: Sequence[Buffer]) -> Iterator[bytes | memoryview]:
    small: list[bytes] = []
    held = 0
    for piece in pieces:
        view = memoryview(cast("Any", piece)).cast("B")
        if held + view.nbytes <= PIECE_BYTES:
            small.append(bytes(view))
            held += view.nbytes
            continue
        if small:
            yield b"".join(small)
            small, held = [], 0
        for start in range(0, view.nbytes, PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]
    if small:
        yield b"".join(small)
