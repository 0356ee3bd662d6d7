"""`rg.emit`: values that user code sends to the session's handlers, collected by a thread-local sink (H20).

On a worker the sink is that of the running node. At the client the ambient recorder records an emit node. Without
either, `emit` does nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Recorder
from raygrad.tracebacks import public

Sink = Callable[[str, Any], None]

LONGEST_NAME: Final = 4096
"""Characters of a name. Names are in the header of a record, whose length is capped; values lie beside it."""


class _Local(threading.local):
    sink: Sink | None = None


_local = _Local()


@public
def emit(name: str, value: Any) -> None:
    """Send `value` under `name` to the session's handlers (`session.on(name, …)`); without a session, do nothing.

    It may be any object that can be pickled, with tensors in it; those that are still pending are not waited for.

    Raises:
        TypeError: the name is no string.
        ValueError: the name is too long for one.
        NotShippable: it cannot be pickled.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"rg.emit(name, value) takes a name, a string, got {name!r}")
    if len(name) > LONGEST_NAME:
        raise ValueError(
            f"rg.emit(name, value) takes a name of up to {LONGEST_NAME:,} characters, got one of {len(name):,}: send a "
            "text as the value"
        )
    if state.here.replaying:
        return
    if _local.sink is not None:
        _local.sink(name, value)
        return
    recorder = _recorder()
    if recorder is not None and not recorder.closed:
        recorder.emit(name, value)


def _recorder() -> Recorder | None:
    """Return the ambient recorder; in a pass over a session's graph on another thread, the pass's."""
    here = state.here
    if here.recorder is not None or here.task is None:
        return here.recorder
    return here.task.recorder


def _discard(name: str, value: Any) -> None:
    pass


class emitting_to:
    """A context manager that collects what this thread emits meanwhile; None discards it."""

    __slots__ = ("_before", "_sink")

    def __init__(self, sink: Sink | None) -> None:
        self._sink = _discard if sink is None else sink

    def __enter__(self) -> None:
        self._before, _local.sink = _local.sink, self._sink

    def __exit__(self, *_: object) -> None:
        _local.sink = self._before
