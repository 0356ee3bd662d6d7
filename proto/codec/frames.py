"""Frames: a header and raw buffers as bytes on a stream, and an incremental decoder.

`messages` fills them.

    prefix    magic "RGRD", protocol version (u16), reserved 0 (u16), bytes of the header (u32), number of buffers (u32)
    lengths   one u64 per buffer
    header    one msgpack object
    buffers   each starting at a multiple of 64 from the frame's start, zeros between

Numbers are little-endian; the header's content is not interpreted here. A decoder has three outcomes: a frame,
NEED_DATA, ProtocolError. No byte of a large buffer is copied while encoding. Decoding a stream copies it once, from the
received chunk to its place. Nothing is ever unpickled."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np

from raygrad.errors import ProtocolError

from .checks import pack, unpack
from .value_writer import Buffer

MAGIC: Final = b"RGRD"

PROTOCOL_VERSION: Final = 10
"""Of frames and of the set of messages: both sides must speak the same."""

MAX_HEADER_BYTES: Final = 64 * 1024 * 1024
"""A program of 10^6 nodes takes about 50 MiB, and decoding costs ten times the header's size in memory."""

MAX_BUFFERS: Final = 1 << 16
"""Small arrays share one buffer, so a message has as many as it has large arrays: a model's parameters, thousands."""

MAX_BUFFER_BYTES: Final = 1 << 40
"""1 TiB: above any one array in one machine's memory; below it, sums of lengths stay far from 64 bits."""

MAX_FRAME_BYTES: Final = 1 << 36
"""64 GiB in one message unless the receiver says otherwise; a service sets a far lower one per client."""

JOINED_BYTES: Final = 16 * 1024
"""Buffers up to this size are joined with their neighbours: sending a piece costs more than copying it."""

ALIGNMENT: Final = 64
"""A cache line; arrays in a frame that itself starts aligned need no copy to be used."""

_PREFIX: Final = struct.Struct("<4sHHII")


class NeedData(Enum):
    """The result of a decoder without a whole frame."""

    NEED_DATA = "need data"


NEED_DATA: Final = NeedData.NEED_DATA


class Frame(NamedTuple):
    """A decoded frame: the header's object (tuples for arrays) and the buffers as read-only memory."""

    header: Any
    buffers: tuple[memoryview, ...]


def encode_frame(header: object, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the frame in pieces to be sent in order; large buffers are pieces of their own, not copied.

    Raises:
        ProtocolError: the header or the buffers are over a cap.
    """
    packed = pack(header)
    lengths = [len(buffer) for buffer in buffers]
    _check_sizes(len(packed), lengths, MAX_FRAME_BYTES)
    prefix = _PREFIX.pack(MAGIC, PROTOCOL_VERSION, 0, len(packed), len(lengths))
    if not lengths:
        return [prefix + packed]
    pieces: list[Buffer] = []
    run: list[Any] = [prefix, struct.pack(f"<{len(lengths)}Q", *lengths), packed]
    position = _PREFIX.size + 8 * len(lengths) + len(packed)
    for buffer, length in zip(buffers, lengths, strict=True):
        gap = -position % ALIGNMENT
        run.append(bytes(gap))
        if length <= JOINED_BYTES:
            run.append(buffer)
        else:
            pieces += (b"".join(run), buffer)
            run = []
        position += gap + length
    if run:
        pieces.append(b"".join(run))
    return pieces


def decode_frame(pieces: Any) -> Frame:
    """Return the one frame in `pieces`: its bytes whole, or cut anywhere into a list. Copies no buffer that is whole.

    Raises:
        ProtocolError: it is no frame, ends early, or something follows it.
    """
    source = _PieceReader(pieces if isinstance(pieces, list | tuple) else [pieces])  # pyright: ignore[reportUnknownArgumentType]
    header_bytes, count = _parse_prefix(source.take(_PREFIX.size))
    lengths = struct.unpack(f"<{count}Q", source.take(8 * count))
    _check_sizes(header_bytes, lengths, MAX_FRAME_BYTES)
    header = unpack(source.take(header_bytes), "header of the frame")
    buffers: list[memoryview] = []
    for length in lengths:
        source.take(-source.position % ALIGNMENT)
        buffers.append(source.take(length))
    if source.left:
        raise ProtocolError(f"{source.left} bytes follow the frame")
    return Frame(header, tuple(buffers))


class _PieceReader:
    """A frame's bytes as a sequence of pieces, read from the front."""

    __slots__ = ("_index", "_offset", "_pieces", "left", "position")

    def __init__(self, pieces: Iterable[Any]) -> None:
        self._pieces = [memoryview(piece).toreadonly().cast("B") for piece in pieces]
        self._index = 0
        self._offset = 0
        self.position = 0
        self.left = sum([piece.nbytes for piece in self._pieces])

    def take(self, count: int) -> memoryview:
        """Return the next bytes: a view where they lie in one piece, else a copy."""
        if count > self.left:
            raise ProtocolError(f"the frame ends after {self.position + self.left} bytes, {count - self.left} early")
        self.left -= count
        self.position += count
        parts: list[memoryview] = []
        while count:
            part = self._pieces[self._index][self._offset : self._offset + count]
            if part:
                parts.append(part)
                count -= part.nbytes
                self._offset += part.nbytes
            else:
                self._index += 1
                self._offset = 0
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


class FrameDecoder:
    """Incremental decoder: `feed` takes bytes in any portions, `next_frame` returns frames until it needs data.

    After a ProtocolError the stream has no next frame: every later call raises it again.
    """

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Refuse frames whose header, lengths and buffers together are larger than `max_frame_bytes`."""
        self._frames: deque[Frame] = deque()
        self._error: ProtocolError | None = None
        self._parts = self._read_frames(max_frame_bytes)
        self._missing = next(self._parts)
        """The memory for the rest of the part that is being read."""

    def feed(self, data: Any) -> None:
        """Take the next bytes of the stream; they are copied, so the caller may reuse the memory."""
        view = memoryview(data).cast("B")
        while view and self._error is None:
            taken = min(view.nbytes, self._missing.nbytes)
            self._missing[:taken] = view[:taken]
            self._missing, view = self._missing[taken:], view[taken:]
            try:
                while not self._missing:
                    self._missing = next(self._parts)
            except ProtocolError as error:
                self._error = error

    def next_frame(self) -> Frame | NeedData:
        """Return the next frame, or NEED_DATA.

        Raises:
            ProtocolError: the bytes after the last frame are none.
        """
        if self._frames:
            return self._frames.popleft()
        if self._error is not None:
            raise self._error
        return NEED_DATA

    def _read_frames(self, max_frame_bytes: int) -> Iterator[memoryview]:
        """Yield memory for each part of each frame, to be filled before the next one. Pages for which no byte has
        arrived are reserved, not used."""
        while True:
            prefix = _memory(_PREFIX.size)
            yield prefix
            header_bytes, count = _parse_prefix(prefix)
            packed = _memory(8 * count)
            yield packed
            lengths = struct.unpack(f"<{count}Q", packed)
            _check_sizes(header_bytes, lengths, max_frame_bytes)
            head = _memory(header_bytes)
            yield head
            header = unpack(head, "header of the frame")
            start = position = _PREFIX.size + 8 * count + header_bytes
            spans: list[tuple[int, int]] = []
            for length in lengths:
                position += -position % ALIGNMENT
                spans.append((position - start, position - start + length))
                position += length
            body = _memory(position - start, start)
            yield body
            buffers = body.toreadonly()
            self._frames.append(Frame(header, tuple([buffers[begin:end] for begin, end in spans])))
            del body, buffers  # else a large frame would live until the next one


def _memory(nbytes: int, place: int = 0) -> memoryview:
    """Return memory for a part that begins at a place of its frame, aligned as the frame is: what its sender has
    aligned can be used there, without a copy."""
    try:
        memory = np.empty(nbytes + ALIGNMENT, np.uint8)
        begin = (place - memory.__array_interface__["data"][0]) % ALIGNMENT
        return memoryview(memory[begin : begin + nbytes].data)
    except MemoryError as error:
        raise ProtocolError(f"there is no memory for {nbytes} bytes of a frame") from error


def _parse_prefix(data: bytes | bytearray | memoryview) -> tuple[int, int]:
    """Return (bytes of the header, number of buffers)."""
    magic, version, reserved, header_bytes, count = _PREFIX.unpack(data)
    if magic != MAGIC:
        raise ProtocolError(f"these bytes are no frame: they start with {magic!r}, not with {MAGIC!r}")
    if version != PROTOCOL_VERSION or reserved:
        raise ProtocolError(f"the peer speaks version {version} of the protocol; this side speaks {PROTOCOL_VERSION}")
    _check_counts(header_bytes, count)
    return header_bytes, count


def _check_counts(header_bytes: int, count: int) -> None:
    if not 0 < header_bytes <= MAX_HEADER_BYTES:
        raise ProtocolError(f"a header has {header_bytes} bytes; 1 to {MAX_HEADER_BYTES} are allowed")
    if count > MAX_BUFFERS:
        raise ProtocolError(f"a frame has {count} buffers; at most {MAX_BUFFERS} are allowed")


def _check_sizes(header_bytes: int, lengths: Sequence[int], max_frame_bytes: int) -> None:
    _check_counts(header_bytes, len(lengths))
    if lengths and max(lengths) > MAX_BUFFER_BYTES:
        raise ProtocolError(f"a buffer has {max(lengths)} bytes; at most {MAX_BUFFER_BYTES} are allowed")
    total = _PREFIX.size + header_bytes + (8 + ALIGNMENT) * len(lengths) + sum(lengths)
    if total > max_frame_bytes:
        raise ProtocolError(f"a frame has up to {total} bytes; at most {max_frame_bytes} are allowed")
