"""What a client's environment says of sessions is not what holds on its workers."""

from __future__ import annotations

import os

import pytest

from raygrad.workers.process.default_session import remove_from_environment


def test_a_worker_forgets_where_its_client_runs_and_who_it_is(monkeypatch: pytest.MonkeyPatch):
    names = "ADDRESS", "WORKERS", "TOKEN", "CA", "ALLOW_PICKLE", "FULL_TRACEBACK"
    for name in [f"RAYGRAD_{name}" for name in names]:
        monkeypatch.setenv(name, "1")
    remove_from_environment()
    assert {name for name in os.environ if name.startswith("RAYGRAD_")} == {"RAYGRAD_FULL_TRACEBACK"}
