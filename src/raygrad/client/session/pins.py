"""Pins: `rg.place`, which requests a worker for what is recorded in a block.

The record log carries the pin into records. The device of a node follows from what it reads and cannot be requested.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from raygrad.errors import PlanError
from raygrad.tracebacks import public

from ..options import whole
from .session import ambient


@public
@contextmanager
def place(*, worker: int) -> Generator[None, None, None]:
    """Run what is recorded meanwhile on worker number `worker` of the ambient session, from 0 up. Without a session
    there is nothing to choose: what runs eagerly runs here.

    Raises:
        TypeError: `worker` is no integer.
        ValueError: it is negative.
        PlanError: the session has no such worker.
    """
    number = whole("rg.place(worker=...), the number of a worker,", worker, 0)
    session = ambient()
    if session is None:
        yield
        return
    known = session._driver.cluster.workers  # lost ones too: another process may be on its way to take its place
    if number >= len(known):
        have = "one worker, number 0" if len(known) == 1 else f"workers 0 to {len(known) - 1}"
        raise PlanError(f"rg.place(worker={worker}): this session has {have}; ask for more with Session(workers=...)")
    log = session._log
    before = log.pin
    log.pin = number
    try:
        yield
    finally:
        log.pin = before
