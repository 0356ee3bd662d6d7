"""What an administrator asks a running service: its status, its sessions, and to cancel what one of them runs."""

from __future__ import annotations

import json
from typing import Any

from raygrad.errors import ServiceError

from ..protocol.messages import Administer, Administered
from .opening import first_answer, hello, open_connection


def status(url: str, token: str | None = None, *, ca: str | None = None) -> dict[str, Any]:
    """Return versions, counts of sessions, runs and refusals, and seconds since the start.

    Raises:
        ServiceError: it cannot be reached, or refuses.
    """
    return _ask(url, token, ca, "status")


def sessions(url: str, token: str | None = None, *, ca: str | None = None) -> list[dict[str, Any]]:
    """Return per session its name ("session"), when it began, its runs, and how many of them are active or failed.

    Raises:
        ServiceError: it cannot be reached, or refuses.
    """
    return _ask(url, token, ca, "sessions")


def cancel(url: str, token: str | None, session: str, *, ca: str | None = None) -> bool:
    """Cancel all runs of a session; return whether one had not ended.

    Raises:
        ServiceError: there is no such session, or the service cannot be reached, or refuses.
    """
    return _ask(url, token, ca, "cancel", session)


def _ask(url: str, token: str | None, ca: str | None, what: str, session: str = "") -> Any:
    connection = open_connection(url, token, ca)
    try:
        connection.send(hello(admin=True))
        connection.send(Administer(what, session))
        answer = first_answer(connection, url)
    finally:
        connection.close()
    if not isinstance(answer, Administered):
        raise ServiceError(f"{url} answered '{what}' by a {type(answer).__name__}", "protocol")
    return json.loads(answer.data)
