"""Servers of tests in processes of their own, which can be killed."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator
from typing import Any

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
