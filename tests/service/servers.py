"""Servers of tests in processes of their own, which can be killed, and a look into those of this process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest

from raygrad.service import Server
from raygrad.service.server import server as server_module

SCRIPT = """
import json, sys
from raygrad.service import Server, ServerOptions
with Server(ServerOptions(**json.loads(sys.argv[1]))) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def server_process(**options: Any) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """Start a server with these options; give its URL and its process."""
    given = json.dumps({"port": 0, "workers": 2, **options})
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sessions live in the process of their server, for tests that look into them."""
    monkeypatch.setattr(server_module, "has_own_process", lambda options: False)


def only_session(server: Server) -> Any:
    """Return the one session that a server of this process has in it."""
    served: Any = server
    (host,) = served._hosts.values()
    return host._session
