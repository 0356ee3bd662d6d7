"""Session defaults: what a session that names no address is given, and who is told that sessions open.

`Session` asks here before it opens its executor. `raygrad run` sets the environment variables, and listens, so that the
session that it keeps for programs without one ends before a program opens its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from raygrad.workers.process.default_session import (
    ADDRESS_VARIABLE,
    CA_VARIABLE,
    PICKLE_VARIABLE,
    WORKERS_VARIABLE,
)

from ..options import MOST_WORKERS, is_service

if TYPE_CHECKING:
    from .elastic import Workers
    from .session import Session

before_open: Final[list[Callable[[], None]]] = []
"""Called when a session is about to open, after its arguments were checked."""

after_open: Final[list[Callable[[Session], None]]] = []
"""Called with each session that has opened."""


def with_defaults(
    address: str | None, workers: Workers, options: dict[str, Any]
) -> tuple[str, Workers, dict[str, Any]]:
    """Return address, workers and other options of a session: what it was given, and else what the environment says.

    What the environment says beside the address holds for its address alone: a session that names its own keeps its
    own number of workers, and exchanges no pickles because others do.

    Raises:
        ValueError: RAYGRAD_WORKERS is no number of workers, or RAYGRAD_ALLOW_PICKLE neither 0 nor 1.
    """
    if address is not None:
        return address, workers, options
    address = os.environ.get(ADDRESS_VARIABLE) or "local"
    return address, _workers() if workers is None else workers, {**_service_options(address), **options}


def _workers() -> int | None:
    text = os.environ.get(WORKERS_VARIABLE)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_WORKERS):
        raise ValueError(f"{WORKERS_VARIABLE} takes a whole number from 1 to {MOST_WORKERS:,}, got {text!r}")
    return int(text)


def default_ca(address: str) -> str | None:
    """Return the authority of certificates that the environment names for an address; None for none."""
    return os.environ.get(CA_VARIABLE) or None if address.startswith("wss://") else None


def _service_options(address: str) -> dict[str, Any]:
    """Return the options that the environment gives to sessions on a service."""
    found: dict[str, Any] = {}
    if (ca := default_ca(address)) is not None:
        found["ca"] = ca
    if is_service(address) and (text := os.environ.get(PICKLE_VARIABLE)):
        if text not in ("0", "1"):
            raise ValueError(f"{PICKLE_VARIABLE} takes 0 or 1, got {text!r}")
        found["allow_pickle"] = text == "1"
    return found
