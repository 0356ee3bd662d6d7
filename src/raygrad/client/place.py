"""Pins: asking for a worker while recording. A device is asked for with `rg.device`, which eager code has too."""

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
