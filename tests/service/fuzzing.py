"""Mutated frames and sequences of messages for a live server: by hand `python -m tests.service.fuzzing 200000`."""

from __future__ import annotations

import dataclasses
import random
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import raygrad as rg
from raygrad.proto.codec.frames import FrameDecoder, NeedData
from raygrad.service import admin
from raygrad.service.protocol.connection import EncodedMessage, MessageConnection
from raygrad.service.protocol.messages import Taken, decode, encode

from . import allowed_programs as allowed
from .servers import server_process

AT_ONCE: Final = 40
"""The most frames of one connection."""

ODD: Final[tuple[Any, ...]] = (
    *(-1, 0, 1, 2**31, 2**63 - 1, -(2**63), 1e308, float("inf"), -0.0, True, None, "", "read", "cancel_all", "\ud800x"),
    *((), (1, 2), (0,) * 50, b"", b"\x80\x04.", b"RGRD", "x" * 5000, [1], {"a": 1}, ((),)),
)


def recorded_frames(url: str, token: str) -> list[bytes]:
    """Return the frames that the client of a small session sends."""
    sent: list[bytes] = []
    real = MessageConnection.send_encoded

    def noting(self: MessageConnection, message: EncodedMessage) -> None:
        sent.append(b"".join([bytes(piece) for piece in message.pieces]))
        real(self, message)

    MessageConnection.send_encoded = noting
    try:
        with rg.Session(url, token=token) as session:
            x = rg.tensor(np.arange(6.0), requires_grad=True)
            loss = (x.exp() * x).sum()
            loss.backward()
            loss.item()
            session.stored_bytes()
            session.cancel()
            del loss, x
            (rg.ones(3) + 1).numpy()
            for program in (allowed.scaled, allowed.nested, allowed.own_emits, allowed.named_arguments):
                program()  # user code by name, and values of the data model
    finally:
        MessageConnection.send_encoded = real
    return sent


def mutated(frame: bytes, draw: random.Random) -> bytes:
    """Return a frame with some bytes changed, cut out, repeated or put in."""
    data = bytearray(frame)
    for _ in range(draw.choice((1, 1, 2, 8))):
        place = draw.randrange(len(data)) if data else 0
        match draw.randrange(5):
            case 0 if data:
                data[place] = draw.randrange(256)
            case 1 if data:
                data[place] ^= 1 << draw.randrange(8)
            case 2:
                del data[place : place + draw.randrange(1, 16)]
            case 3:
                data[place:place] = draw.randbytes(draw.randrange(1, 16))
            case _:
                data[place:place] = data[place : place + draw.randrange(1, 64)]
    return bytes(data)


def altered(frame: bytes, draw: random.Random) -> bytes:
    """Return the frame of a message with one field replaced by an odd value, well-formed as far as that goes."""
    decoder = FrameDecoder(max_frame_bytes=1 << 24)
    decoder.feed(frame)
    found = decoder.next_frame()
    assert not isinstance(found, NeedData)
    message = decode(found)
    name = draw.choice([one.name for one in dataclasses.fields(message)])
    try:
        return b"".join([bytes(piece) for piece in encode(dataclasses.replace(message, **{name: draw.choice(ODD)}))])
    except Exception:  # it cannot even be written
        return mutated(frame, draw)


def sequence(frames: Sequence[bytes], draw: random.Random) -> list[bytes]:
    """Return frames for one connection: usually a hello, then anything in any order."""
    hello, start, *others = frames
    first = [hello] if draw.random() < 0.9 else []
    if draw.random() < 0.7:
        first.append(start)
    taken = b"".join([bytes(piece) for piece in encode(Taken(draw.choice((0, 1, 5, 2**40, -3))))])
    chosen = [draw.choice((*frames, taken)) for _ in range(draw.randrange(1, AT_ONCE))]
    if draw.random() < 0.3:
        chosen = others
    changed = [
        one if (kind := draw.random()) < 0.4 else altered(one, draw) if kind < 0.7 else mutated(one, draw)
        for one in chosen
    ]
    return [*first, *changed]


def attack(url: str, token: str, frames: Sequence[bytes], count: int, draw: random.Random) -> int:
    """Send so many frames, over as many connections as the server ends them; return how many connections that were."""
    connections = sent = 0
    while sent < count:
        connections += 1
        given = sequence(frames, draw)
        with connect(
            url, additional_headers={"Authorization": f"Bearer {token}"}, compression=None, close_timeout=0.5
        ) as raw:
            stop = threading.Thread(target=_swallow, args=(raw,), daemon=True)
            stop.start()
            try:
                for frame in given:
                    sent += 1
                    raw.send(frame)
            except ConnectionClosed:
                pass
            if draw.random() < 0.3:
                raw.socket.close()  # without a word
    return connections


def _swallow(raw: Any) -> None:
    try:
        while True:
            raw.recv()
    except (ConnectionClosed, OSError):
        pass


def resident(pid: int) -> int:
    """Return the bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def run(count: int, seed: int) -> dict[str, float]:
    """Attack a server while another session works on it; return figures."""
    options: dict[str, Any] = {
        "token": "secret",
        "max_sessions": 64,
        "grace": 0.2,
        "max_message": 1 << 22,
        "workers": 1,
        "allow": (allowed.__name__,),
    }
    with server_process(**options) as (url, process):
        frames = recorded_frames(url, "secret")
        draw = random.Random(seed)
        attack(url, "secret", frames, min(count, 500), draw)  # what grows once has grown
        before = resident(process.pid)
        began = time.monotonic()
        with rg.Session(url, token="secret"):
            connections = 0
            for _ in range(10):
                connections += attack(url, "secret", frames, count // 10, draw)
                value = (rg.tensor(np.arange(4.0)) * 3).sum().item()
                assert value == 18.0
        until = time.monotonic() + 20
        while (left := admin.sessions(url, "secret")) and time.monotonic() < until:
            time.sleep(0.1)
        assert left == [], f"sessions that nobody has are still there: {left}"
        assert process.poll() is None
        return {
            "frames": count,
            "connections": connections,
            "seconds": time.monotonic() - began,
            "grown": resident(process.pid) - before,
        }


if __name__ == "__main__":
    print(run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
