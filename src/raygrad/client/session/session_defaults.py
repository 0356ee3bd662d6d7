"""Session defaults: what a session that names no address is given, and who is told that sessions open.

`Session` asks here before it opens its executor. `raygrad run` sets the environment variables, and listens, so that the
session that it keeps for programs without one ends before a program opens its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from raygrad.workers.process.default_session import ADDRESS_VARIABLE, WORKERS_VARIABLE

from ..options import MOST_WORKERS

if TYPE_CHECKING:
    from .elastic import Workers
    from .session import Session

before_open: Final[list[Callable[[], None]]] = []
"""Called when a session is about to open, after its arguments were checked."""

after_open: Final[list[Callable[[Session], None]]] = []
"""Called with each session that has opened."""


def with_defaults(address: str | None, workers: Workers) -> tuple[str, Workers]:
    """Return the address and the workers of a session: what it was given, and else what the environment says.

    The environment's number of workers holds for its address alone: a session that names its address keeps its own.

    Raises:
        ValueError: RAYGRAD_WORKERS is no number of workers.
    """
    if address is not None:
        return address, workers
    address = os.environ.get(ADDRESS_VARIABLE) or "local"
    text = os.environ.get(WORKERS_VARIABLE)
    if workers is not None or not text:
        return address, workers
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_WORKERS):
        raise ValueError(f"{WORKERS_VARIABLE} takes a whole number from 1 to {MOST_WORKERS:,}, got {text!r}")
    return address, int(text)
