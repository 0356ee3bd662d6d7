"""Pins: asking for a worker or a device while recording."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from raygrad.errors import SessionError

from .demands import Pin
from .session import ambient


@contextmanager
def place(*, worker: int) -> Generator[None, None, None]:
    """Run what is recorded meanwhile on worker number `worker` of the ambient session.

    Raises:
        SessionError: no session is ambient.
        PlanError: (when submitted) the session has no such worker.
    """
    session = ambient()
    if session is None:
        raise SessionError("rg.place needs a session: use it inside `with rg.Session(...)`")
    recorder = session._recorder
    before = recorder.pin
    recorder.pin = Pin(worker, before.device) if isinstance(before, Pin) else worker
    try:
        yield
    finally:
        recorder.pin = before


@contextmanager
def device(name: str) -> Generator[None, None, None]:
    """Run what is recorded meanwhile on workers that offer a device: a kind ("cpu", "cuda") or one of it ("cuda:0").

    Raises:
        SessionError: no session is ambient.
        ValueError: it is no name of a device.
        PlanError: (when submitted) no worker offers it: names the node, and what there is.
    """
    kind, colon, index = name.partition(":")
    if not kind.isidentifier() or (colon and not index.isdecimal()):
        raise ValueError(f"a device is named like 'cpu', 'cuda' or 'cuda:0', not '{name}'")
    session = ambient()
    if session is None:
        raise SessionError("rg.device needs a session: use it inside `with rg.Session(...)`")
    recorder = session._recorder
    before = recorder.pin
    recorder.pin = Pin(before.worker if isinstance(before, Pin) else before, name)
    try:
        yield
    finally:
        recorder.pin = before
