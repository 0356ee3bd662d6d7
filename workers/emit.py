"""Values that remote code sends back: `emit` anywhere in user code, collected by whoever runs the node (H20).

Rules of this file: a thread-local sink and the public function. Without a sink `emit` does nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

Sink = Callable[[str, Any], None]


class _Local(threading.local):
    sink: Sink | None = None


_local = _Local()


def emit(name: str, value: Any) -> None:
    """Send `value` under `name` to the session's handlers (`session.on(name, …)`); without a session, do nothing."""
    if _local.sink is not None:
        _local.sink(name, value)


@contextmanager
def emitting_to(sink: Sink | None) -> Generator[None, None, None]:
    """Collect what this thread emits meanwhile; None discards it."""
    before = _local.sink
    _local.sink = sink
    try:
        yield
    finally:
        _local.sink = before
