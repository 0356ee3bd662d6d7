"""What `dir(session)` shows: what its users may call and read."""

from __future__ import annotations

from typing import Any

import raygrad as rg

PUBLIC = {
    "add_workers",
    "address",
    "cancel",
    "clocks",
    "close",
    "compile",
    "costs",
    "deferred",
    "devices",
    "explain",
    "last_run",
    "load",
    "on",
    "peak_saved_bytes",
    "progress",
    "put",
    "remove_worker",
    "run",
    "save",
    "saved",
    "saved_bytes",
    "start",
    "steps",
    "stored_bytes",
    "sync",
    "timeout",
    "track",
    "worker_names",
    "workers",
}


def test_a_session_shows_what_is_public_and_nothing_else(session: Any) -> None:
    assert {name for name in dir(session) if not name.startswith("_")} == PUBLIC


def test_every_public_name_of_a_session_is_described() -> None:
    described = rg.Session.__doc__ or ""
    for name in sorted(PUBLIC):
        member = vars(rg.Session).get(name)
        assert member.__doc__ if member is not None else f"{name}:" in described, name


def test_sync_and_timeout_may_be_changed_while_the_session_is_open() -> None:
    with rg.Session(workers=1) as session:
        assert (session.sync, session.timeout) == (False, None)
        session.sync, session.timeout = True, 5.0
        assert (session.sync, session.timeout) == (True, 5.0)
        session.run(rg.ones(2) * 2.0)
        assert session.last_run is not None
        assert session.last_run.finished
