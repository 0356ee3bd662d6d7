"""Each frame whole, byte by byte, with trailing data and truncated; each cap; each way to be no frame."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from raygrad.errors import ProtocolError
from raygrad.proto.codec import frames
from raygrad.proto.codec.frames import (
    ALIGNMENT,
    JOINED_BYTES,
    MAX_BUFFER_BYTES,
    MAX_BUFFERS,
    MAX_HEADER_BYTES,
    NEED_DATA,
    PROTOCOL_VERSION,
    Frame,
    FrameDecoder,
    NeedData,
    decode_frame,
    encode_frame,
)

LARGE = np.arange(JOINED_BYTES + 1, dtype=np.uint16).view(np.uint8)

FRAMES: dict[str, tuple[Any, list[Any]]] = {
    "header only": (("hello", 1), []),
    "one small buffer": (None, [b"abc"]),
    "an empty buffer": ((), [b""]),
    "empty buffers around one": (1, [b"", b"x", b""]),
    "a large buffer": ({"a": (1,)}, [LARGE]),
    "large and small": ("mixed", [b"a" * 100, LARGE, b"b", LARGE, b"c" * 64, b""]),
}


def whole(header: Any, buffers: list[Any]) -> bytes:
    pieces: list[Any] = [*encode_frame(header, buffers)]
    return b"".join(pieces)


def drain(decoder: FrameDecoder) -> list[Frame]:
    got: list[Frame] = []
    while not isinstance(frame := decoder.next_frame(), NeedData):
        got.append(frame)
    return got


def assert_is(frame: Frame, header: Any, buffers: list[Any]):
    assert frame.header == header
    assert [bytes(buffer) for buffer in frame.buffers] == [bytes(buffer) for buffer in buffers]
    assert all(buffer.readonly for buffer in frame.buffers)


cases = pytest.mark.parametrize(("header", "buffers"), FRAMES.values(), ids=FRAMES)


@cases
def test_a_frame_decodes_from_its_pieces_and_from_its_bytes(header: Any, buffers: list[Any]):
    assert_is(decode_frame(encode_frame(header, buffers)), header, buffers)
    assert_is(decode_frame(whole(header, buffers)), header, buffers)


@cases
def test_a_frame_fed_whole_byte_by_byte_and_with_the_next_one_behind_it(header: Any, buffers: list[Any]):
    data = whole(header, buffers)
    decoder = FrameDecoder()
    decoder.feed(data)
    decoder.feed(data + data[:5])
    got = drain(decoder)
    assert len(got) == 2
    decoder.feed(data[5:])
    got += drain(decoder)
    step = max(1, len(data) // 3000)  # byte by byte, but for frames where that shows nothing more
    for start in range(0, len(data), step):
        assert decoder.next_frame() is NEED_DATA
        decoder.feed(data[start : start + step])
    got += drain(decoder)
    assert len(got) == 4
    for frame in got:
        assert_is(frame, header, buffers)


@cases
def test_a_truncated_frame_is_an_error_in_one_piece_and_needs_data_in_a_stream(header: Any, buffers: list[Any]):
    data = whole(header, buffers)
    for end in {0, 1, 15, 16, 17, len(data) // 2, len(data) - 1}:
        if end < len(data):
            with pytest.raises(ProtocolError, match="early"):
                decode_frame(data[:end])
            decoder = FrameDecoder()
            decoder.feed(data[:end])
            assert decoder.next_frame() is NEED_DATA


def test_what_follows_a_single_frame_is_an_error():
    with pytest.raises(ProtocolError, match="3 bytes follow"):
        decode_frame(whole(1, []) + b"abc")
    with pytest.raises(ProtocolError, match="3 bytes follow"):
        decode_frame([*encode_frame(1, [LARGE]), b"abc"])


def test_large_buffers_are_neither_copied_out_nor_in():
    pieces: list[Any] = [*encode_frame("h", [b"small", LARGE, b"small"])]
    assert len(pieces) == 3
    assert pieces[1] is LARGE
    assert np.shares_memory(np.frombuffer(decode_frame(pieces).buffers[1], np.uint8), LARGE)
    data = np.frombuffer(b"".join(pieces), np.uint8)
    for buffer in decode_frame(data).buffers:
        assert np.shares_memory(np.frombuffer(buffer, np.uint8), data)


def test_buffers_start_at_multiples_of_a_cache_line():
    data = whole("header", [b"a", b"b" * 65, LARGE, b"c"])
    start = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    for buffer in decode_frame(data).buffers:
        at = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
        assert (at - start) % ALIGNMENT == 0


def test_the_memory_fed_may_be_reused():
    decoder = FrameDecoder()
    chunk = bytearray(whole("h", [b"payload"]))
    decoder.feed(chunk)
    chunk[:] = bytes(len(chunk))
    assert_is(drain(decoder)[0], "h", [b"payload"])


def prefix(**changes: Any) -> bytes:
    told = {"magic": b"RGRD", "version": PROTOCOL_VERSION, "reserved": 0, "header": 1, "count": 0, **changes}
    return struct.pack("<4sHHII", *told.values())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\n", "no frame"),
        (prefix(version=99), f"version 99 of the protocol; this side speaks {PROTOCOL_VERSION}"),
        (prefix(reserved=1), "version"),
        (prefix(header=0), "header has 0 bytes"),
        (prefix(header=MAX_HEADER_BYTES + 1), "header has"),
        (prefix(count=MAX_BUFFERS + 1), "buffers; at most"),
        (prefix(count=1) + struct.pack("<Q", MAX_BUFFER_BYTES + 1), "at most"),
        (prefix(count=2) + struct.pack("<QQ", MAX_BUFFER_BYTES, MAX_BUFFER_BYTES), "a frame has up to"),
        (prefix() + b"\xc1", "header of the frame is not msgpack"),
        (prefix(header=3) + b"\x01\x01\x01", "not msgpack"),
        (prefix(header=3) + msgpack.packb(msgpack.ExtType(1, b"")), "extension"),
    ],
)
def test_what_is_no_frame_is_an_error_now_and_ever_after(data: bytes, says: str):
    with pytest.raises(ProtocolError, match=says):
        decode_frame(data)
    decoder = FrameDecoder()
    decoder.feed(whole("before", []) + data)
    assert_is(decoder.next_frame(), "before", [])  # pyright: ignore[reportArgumentType]
    for _ in range(2):
        with pytest.raises(ProtocolError, match=says):
            decoder.next_frame()
        decoder.feed(whole("after", []))


def test_a_receiver_may_allow_less():
    decoder = FrameDecoder(max_frame_bytes=1000)
    decoder.feed(whole("fits", [bytes(800)]))
    assert len(drain(decoder)) == 1
    decoder.feed(whole("does not", [bytes(1000)])[:30])
    with pytest.raises(ProtocolError, match="at most 1000"):
        decoder.next_frame()


def test_a_sender_is_held_to_the_same_caps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(frames, "MAX_HEADER_BYTES", 10)
    with pytest.raises(ProtocolError, match="header"):
        encode_frame("x" * 20)
    monkeypatch.setattr(frames, "MAX_BUFFERS", 1)
    with pytest.raises(ProtocolError, match="2 buffers"):
        encode_frame("x", [b"", b""])
    monkeypatch.setattr(frames, "MAX_BUFFER_BYTES", 3)
    with pytest.raises(ProtocolError, match="buffer has 4 bytes"):
        encode_frame("x", [b"1234"])


@settings(deadline=None)
@given(st.data(), st.lists(st.binary(max_size=200), max_size=5))
def test_any_cut_of_a_frame_gives_the_same_frame(data: st.DataObject, buffers: list[bytes]):
    wire = whole(("any", 1), buffers)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=6)))
    pieces = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    assert_is(decode_frame(pieces), ("any", 1), buffers)
    decoder = FrameDecoder()
    for piece in pieces:
        decoder.feed(piece)
    assert_is(drain(decoder)[0], ("any", 1), buffers)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_frame_has_the_three_outcomes(data: st.DataObject):
    wire = bytearray(whole(("any", 1, {"a": "b"}), [b"payload", b"", b"more" * 20]))
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(0, 80))] = data.draw(st.integers(0, 255))
    decoder = FrameDecoder(max_frame_bytes=1 << 20)
    try:
        decoder.feed(wire)
        drain(decoder)
    except ProtocolError:
        pass
    try:
        decode_frame(bytes(wire))
    except ProtocolError:
        pass


@pytest.mark.parametrize("header", ["", "x", "xy" * 20, ["a", 1, 2.5]])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_buffers_are_aligned_wherever_they_stand_in_a_frame(header: object, count: int) -> None:
    sent: list[Any] = [np.full(5_000 + 7 * number, number, np.uint8) for number in range(count)]
    decoder = FrameDecoder()
    for piece in encode_frame(header, sent):
        decoder.feed(piece)
    frame = decoder.next_frame()
    assert isinstance(frame, Frame)
    for buffer, one in zip(frame.buffers, sent, strict=True):
        array = np.frombuffer(buffer, np.uint8)
        np.testing.assert_array_equal(array, one)
        assert array.__array_interface__["data"][0] % ALIGNMENT == 0
