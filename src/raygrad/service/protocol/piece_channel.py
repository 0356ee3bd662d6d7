"""A channel between two processes of the server: the pieces of a client's messages, and how its connection ended.

What one side writes is read by the other in order: a byte for the kind and four for the length, then the piece. One
thread writes and one reads at a time."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from websockets.exceptions import ConnectionClosed, ConnectionClosedError, ConnectionClosedOK
from websockets.frames import Close

from .connection import LEFT

_HEAD: Final = struct.Struct("!BI")
_MORE, _LAST, _TEXT, _CLOSE = range(4)
"""Kinds: a piece that others of its message follow, the last one, a text in the place of a message, and a close: two
bytes for the code, and the reason."""

_CODE: Final = struct.Struct("!H")

BUFFER_BYTES: Final = 1 << 18
"""Bytes that are read at a time, at most, but for a large piece."""


class PieceChannel:
    """A `PieceSocket` that is a Unix socket."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket: Final = connected
        self._file: Final = connected.makefile("rb", buffering=BUFFER_BYTES)
        self._writing = threading.Lock()
        self._closed = False

    def send(self, message: bytes | Iterable[bytes | memoryview]) -> None:
        """Send a message; waits while the other side takes nothing. Raises ConnectionClosed."""
        if isinstance(message, bytes):
            self._write(_LAST, message)
            return
        held: bytes | memoryview = b""
        begun = False
        for piece in message:
            if begun:
                self._write(_MORE, held)
            held, begun = piece, True
        self._write(_LAST, held)

    def pass_on(self, message: Iterable[bytes | str]) -> None:
        """Send what another `PieceSocket` receives. Raises ConnectionClosed."""
        pieces = iter(message)
        first = next(pieces, b"")
        if isinstance(first, str):
            self._write(_TEXT, b"")
            for _ in pieces:
                pass
        else:
            self.send(_together(first, pieces))

    def _write(self, kind: int, piece: bytes | memoryview) -> None:
        head = _HEAD.pack(kind, len(piece))
        try:
            with self._writing:
                if len(piece) < BUFFER_BYTES:
                    self._socket.sendall(head + piece)
                else:
                    self._socket.sendall(head)
                    self._socket.sendall(piece)
        except OSError:
            raise ConnectionClosedError(None, None) from None

    def recv_streaming(self) -> Iterator[bytes | str]:
        """Give the pieces of the next message as they come. Raises ConnectionClosed."""
        while True:
            kind, piece = self._read()
            if kind == _CLOSE:
                code, reason = _CODE.unpack(piece[:2])[0], piece[2:].decode()
                raise _closed(code, reason)
            yield "" if kind == _TEXT else piece
            if kind != _MORE:
                return

    def _read(self) -> tuple[int, bytes]:
        try:
            head = self._file.read(_HEAD.size)
            if len(head) == _HEAD.size:
                kind, size = _HEAD.unpack(head)
                piece = self._file.read(size)
                if len(piece) == size:
                    return kind, piece
        except (OSError, ValueError):  # ValueError: of a file that is closed
            pass
        raise ConnectionClosedError(None, None)

    def close(self, code: int, reason: str) -> None:
        """Close it, and tell the other side. Closing again does nothing."""
        if not self._closed:
            self._closed = True
            with suppress(ConnectionClosed):
                self._write(_CLOSE, _CODE.pack(code) + reason.encode()[:120])
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def free(self) -> None:
        """Let go of its socket: nothing reads from it any more."""
        self._closed = True
        self._file.close()
        self._socket.close()

    def check(self) -> None:
        """Raises ConnectionClosed if it is."""
        looking = select.poll()
        with suppress(ValueError):  # its socket is no more
            looking.register(self._socket, 0)
            if not self._closed and not looking.poll(0):  # the other side's end shows without being asked for
                return
        raise ConnectionClosedError(None, None)

    def break_off(self) -> None:
        """End it at once, without a word to the other side."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _together(first: bytes, others: Iterator[bytes | str]) -> Iterator[bytes]:
    yield first
    for piece in others:
        assert isinstance(piece, bytes)  # the pieces of one message are of one type
        yield piece


def _closed(code: int, reason: str) -> ConnectionClosed:
    kind = ConnectionClosedOK if code in LEFT else ConnectionClosedError
    return kind(Close(code, reason), None)
