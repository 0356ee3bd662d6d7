"""Pause of Python's cyclic garbage collector, for passes and compiled calls that make many records."""

from __future__ import annotations

import gc


class collector_paused:
    """A context manager that pauses the cyclic collector: a pass that makes 100,000 records would have it traverse all
    of them again and again, for half of the time. Records are freed by reference counting alone."""

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()
