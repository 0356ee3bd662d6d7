"""`raygrad serve`, `status`, `sessions` and `cancel` as commands, against a server that lives."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import RaygradError, RunCancelled, ServiceError
from raygrad.service import admin

from ..service import allowed_programs as allowed
from .serving import Serving
from .test_commands import raygrad_command

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def serving(*words: str, on: str = "local", path: Path = ROOT) -> Generator[Serving]:
    """Start a server in a folder of no modules, with those of a path."""
    command = [sys.executable, "-m", "raygrad", "serve", "--on", on, "--port", "0", "--workers", "1", *words]
    paths = {"PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])}
    with Serving.by(command, cwd=ROOT / "tests", env={**os.environ, **paths}) as server:
        yield server


ALLOW = ("--allow", allowed.__name__)


class Working(threading.Thread):
    """A client in a session of its own, that waits for a Function which sleeps."""

    def __init__(self, url: str, seconds: float, sleeping: Any = allowed.Sleeping, **options: Any) -> None:
        super().__init__(daemon=True)
        self._arguments = url, seconds, options
        self._sleeping = sleeping
        self.found: Any = None
        self.start()

    def run(self) -> None:
        url, seconds, options = self._arguments
        try:
            with rg.Session(url, **options):
                self.found = self._sleeping.apply(rg.ones(2), seconds).numpy().tolist()
        except RaygradError as error:
            self.found = error


def until(found: Any, seconds: float = 20.0) -> Any:
    """Wait until something is found, and return it."""
    end = time.monotonic() + seconds
    while not (value := found()) and time.monotonic() < end:
        time.sleep(0.02)
    assert value
    return value


def busy(url: str, token: str | None = None) -> Any:
    return lambda: [one for one in admin.sessions(url, token) if one["active"]]


def test_status_sessions_and_cancel(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\nother\n")
    with serving("--token-file", str(token), *ALLOW) as server:
        shown = raygrad_command("status", server.url, "--token-file", str(token), "--json")
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["sessions"] == 0
        assert "max_sessions" in raygrad_command("status", server.url, "--token-file", str(token)).stdout
        client = Working(server.url, 30.0, token="secret")
        (mine,) = until(busy(server.url, "secret"))
        listed = raygrad_command("sessions", server.url, "--token-file", str(token))
        assert mine["session"] in listed.stdout
        assert (
            json.loads(raygrad_command("status", server.url, "--token-file", str(token), "--json").stdout)["runs"] == 1
        )
        unknown = raygrad_command("cancel", server.url, "nobody", "--token-file", str(token))
        assert (unknown.returncode, "no session 'nobody'" in unknown.stderr) == (1, True)
        assert "Traceback" not in unknown.stderr
        done = raygrad_command("cancel", server.url, mine["session"], "--token-file", str(token))
        assert (done.returncode, done.stdout.strip()) == (0, "cancelled"), done.stderr
        client.join(20)
        assert isinstance(client.found, RunCancelled)
        refused = raygrad_command("status", server.url)
        assert (refused.returncode, "refuses the token" in refused.stderr) == (1, True)


def drained(server: Serving, client: Working) -> None:
    """Check that a server on SIGTERM takes no session, and lets a run end."""
    until(busy(server.url))
    server.process.send_signal(signal.SIGTERM)
    until(lambda: any("draining" in line for line in server.lines))
    until(lambda: admin.status(server.url)["draining"])
    with pytest.raises(ServiceError, match="takes no sessions") as raised:
        rg.Session(server.url)
    assert raised.value.code == "draining"
    assert raygrad_command("status", server.url).returncode == 0
    client.join(30)
    assert client.found == [2.0, 2.0]
    assert server.ends() == 0


def test_sigterm_drains() -> None:
    with serving("--drain-seconds", "30", *ALLOW) as server:
        drained(server, Working(server.url, 5.0))


def test_sigterm_waits_no_longer_than_it_may() -> None:
    with serving("--drain-seconds", "1", *ALLOW) as server:
        client = Working(server.url, 30.0)
        until(busy(server.url))
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.ends() == 0
        assert 1.0 < time.monotonic() - began < 15.0
        client.join(20)
        assert isinstance(client.found, RaygradError)


SLEEPING = """
import time
import raygrad as rg

class Sleeping(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        time.sleep(seconds)
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad, None
"""


@pytest.mark.ray
def test_sigterm_drains_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_sleeping.py").write_text(SLEEPING)  # Ray's workers do not import from this repository
    monkeypatch.syspath_prepend(tmp_path)
    sleeping = importlib.import_module("module_of_sleeping").Sleeping
    words = "--drain-seconds", "60", "--allow", "module_of_sleeping"
    with serving(*words, on="ray", path=tmp_path) as server:
        drained(server, Working(server.url, 12.0, sleeping))


def test_lines_of_the_log_in_json_have_session_run_and_node() -> None:
    with serving("--log-json", "--max-nodes", "10", *ALLOW) as server:
        with rg.Session(server.url):
            x = rg.ones(2)
            with pytest.raises(allowed.Broken):
                (allowed.Refusing.apply(x + 1, 7) * 2).numpy()
            with pytest.raises(ServiceError, match="max-nodes"):
                _chain(x, 20).numpy()
        until(lambda: [one for one in server.entries() if "ended" in one["message"]])
        server.process.send_signal(signal.SIGTERM)
        assert server.ends() == 0
        entries = server.entries()
    assert len(entries) == len(server.lines)
    (opened,) = [one for one in entries if "opened with" in one["message"]]
    (failed,) = [one for one in entries if "failed" in one["message"]]
    (refused,) = [one for one in entries if "refused" in one["message"]]
    name = opened["session"]
    assert (failed["session"], failed["run"], failed["error"]) == (name, 1, "Broken")
    assert failed["node"] >= 0
    assert (refused["session"], refused["code"]) == (name, "nodes")
    assert refused["run"] == 2


def _chain(x: Any, count: int) -> Any:
    for _ in range(count):
        x = x.tanh()
    return x


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--allow", "no.such.module"], "no.such.module"),
        (["--allow", "__main__"], "__main__"),
        (["--host", "0.0.0.0"], "needs a token"),
        (["--max-rate", "0"], "max_rate"),
        (["--drain-seconds", "-1"], "drain_seconds"),
    ],
)
def test_options_that_cannot_be_are_told_in_a_line(words: list[str], said: str) -> None:
    done = raygrad_command("serve", "--on", "local", "--port", "0", *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
