"""Pause of Python's cyclic garbage collector, for passes and compiled calls that make many records."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """Pause the cyclic collector: a pass that makes 100,000 records would have it traverse all of them again and again,
    for half of the time. Records are freed by reference counting alone."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
