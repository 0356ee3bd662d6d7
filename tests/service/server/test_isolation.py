"""On "local" each session has a process of its own: what its code does reaches neither the server nor others."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

import raygrad as rg
from raygrad.errors import ServiceError
from raygrad.service import Server, ServerOptions, admin
from raygrad.service.client.opening import first_answer, hello, open_connection
from raygrad.service.protocol.messages import Resume, Resumed
from raygrad.service.server import session_process
from raygrad.service.server.served_session import log

from ..servers import server_process

RUNS_ON = 0.2
"""Seconds that a session has to end, in tests of one that does not."""


def of_this(what: Callable[[], Any]) -> type[rg.autograd.Function]:
    """Return a Function that adds a number which is known where it runs."""

    class Added(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x + what()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    return Added


def number(what: Callable[[], Any]) -> float:
    return float(of_this(what).apply(rg.zeros(1, dtype=rg.float64)).item())


def process_of_session() -> float:
    import os

    return os.getpid()


def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def has_ended(pid: int) -> bool:
    """Tell whether a process is no more, or only its exit status is, which nobody has asked for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(ServerOptions(port=0, token="secret", workers=2, allow_pickle=True)) as one:
        yield one


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """The records that are logged from now on."""
    found: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler, before = Kept(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield found
    log.removeHandler(handler)
    log.setLevel(before)


def opened(server: Server) -> rg.Session:
    return rg.Session(server.url, token="secret", allow_pickle=True)


def test_each_session_has_a_process_which_ends_with_it(server: Server) -> None:
    pids: set[int] = set()
    for _ in range(2):
        with opened(server):
            pids.add(int(number(process_of_session)))
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert eventually(lambda: all(map(has_ended, pids)))
    assert admin.status(server.url, "secret")["sessions"] == 0


def test_what_a_session_changes_in_its_process_no_other_finds(server: Server) -> None:
    def counted() -> float:
        import math

        state: Any = math
        state.seen = getattr(state, "seen", 0) + 1
        return state.seen

    for _ in range(2):
        with opened(server):
            assert [number(counted), number(counted)] == [1.0, 2.0]


def test_sessions_draw_other_numbers(server: Server) -> None:
    def drawn() -> float:
        import numpy as np

        return float(np.random.random())  # of the process, not of the program

    found: list[float] = []
    for _ in range(2):
        with opened(server), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # such numbers are another at each run
            found.append(number(drawn))
    assert found[0] != found[1]


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL"])
def test_a_crash_is_the_session_s_own(server: Server, lines: list[logging.LogRecord], name: str) -> None:
    def crash() -> float:
        import os
        import signal
        import time

        os.kill(os.getpid(), signal.Signals[name])
        time.sleep(10)
        return 0.0

    with opened(server):
        first = int(number(process_of_session))
        with opened(server), pytest.raises(ServiceError, match=f"killed by {name}.*open another one") as raised:
            number(crash)
        assert raised.value.code == "process"
        assert int(number(process_of_session)) == first
        (line,) = [one.getMessage() for one in lines if one.levelno == logging.WARNING]
        assert line.endswith(f"its process ended: killed by {name}")
        assert eventually(lambda: admin.status(server.url, "secret")["sessions"] == 1)


def test_a_crash_is_told_also_where_other_programs_hold_the_sockets(server: Server) -> None:
    def crash() -> float:
        import os
        import signal
        import time

        if os.fork() == 0:  # a child with all that its parent has open
            time.sleep(5)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(10)
        return 0.0

    with opened(server), pytest.raises(ServiceError, match="killed by SIGKILL"):
        number(crash)
    assert eventually(lambda: admin.status(server.url, "secret")["sessions"] == 0, 3.0)


def test_who_asks_for_a_session_that_has_died_is_told_why(server: Server) -> None:
    with opened(server):
        pid = int(number(process_of_session))
        host = next(iter(server._hosts.values()))
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not server._hosts)
        for key, code in ((host.identity.key, "process"), ("another", "unknown session")):
            connection = open_connection(server.url, "secret", None)
            connection.send(Resume(host.identity.name, key, host.identity.epoch, 0))
            with pytest.raises(ServiceError) as raised:
                first_answer(connection, server.url)
            assert raised.value.code == code
            connection.close()


def test_questions_that_a_session_cannot_answer_in_time_do_it_no_harm(server: Server) -> None:
    def holds_the_interpreter() -> float:
        import re

        re.match(r"(a+)+$", "a" * 24 + "b")  # seconds, in which no other thread runs
        return 1.0

    answers: list[Any] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            answers.append(admin.status(server.url, "secret")["sessions"])

    with opened(server):
        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        assert number(holds_the_interpreter) == 1.0
        over.set()
        for thread in asking:
            thread.join()
        (one,) = admin.sessions(server.url, "secret")
        assert one["runs"] >= 1, "it answers again"
        assert set(answers) == {1}


NEVER_ENDS = """
import pathlib, sys
import raygrad as rg

class NeverEnds(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, marker):
        import os, pathlib, re
        pathlib.Path(marker).write_text(str(os.getpid()))
        re.match(r"(a+)+$", "a" * 40 + "b")  # takes days, and lets no other thread run
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None

with rg.Session(sys.argv[1], token="secret", allow_pickle=True):
    NeverEnds.apply(rg.ones(1), sys.argv[2]).item()
"""


def test_what_runs_on_when_its_client_was_killed_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_process, "STOP_SECONDS", RUNS_ON)
    marker = tmp_path / "pid"
    options = ServerOptions(port=0, token="secret", workers=1, allow_pickle=True, grace=0.2)
    with Server(options) as server:
        client = subprocess.Popen([sys.executable, "-c", NEVER_ENDS, server.url, str(marker)])
        try:
            assert eventually(lambda: marker.exists() and marker.read_text() != "", 60.0)
            pid = int(marker.read_text())
            assert not has_ended(pid)
        finally:
            client.kill()
            client.wait()
        assert eventually(lambda: has_ended(pid))
        assert eventually(lambda: admin.status(server.url, "secret")["sessions"] == 0)


def test_no_session_gets_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> float:
        import os

        return float("RAYGRAD_TOKEN" in os.environ) + 2 * float(
            b"very secret" in Path("/proc/self/environ").read_bytes()
        )

    monkeypatch.setenv("RAYGRAD_TOKEN", "very secret")
    with server_process(token="very secret", allow_pickle=True) as (url, _):
        with rg.Session(url, allow_pickle=True):
            assert number(seen) == 0.0


def test_no_process_of_a_session_outlives_a_server_that_is_killed() -> None:
    with server_process(allow_pickle=True) as (url, process):
        session = rg.Session(url, allow_pickle=True).start()
        pid = int(number(process_of_session))
        process.kill()
        try:
            assert eventually(lambda: has_ended(pid))
        finally:
            session.close(discard=True)


def test_what_a_session_s_process_logs_is_written_by_the_server(server: Server, lines: list[logging.LogRecord]) -> None:
    with opened(server):
        number(process_of_session)
    assert eventually(lambda: any([one.getMessage().endswith("its client has closed it") for one in lines]))
    (line,) = [one for one in lines if "opened with" in one.getMessage()]
    assert line.getMessage().split()[1] == vars(line)["session"]


def test_a_module_that_cannot_be_imported_again_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server imports what it allows at its start; each process does so for itself."""
    (tmp_path / "once_only.py").write_text(
        f"import pathlib\nfile = pathlib.Path({json.dumps(str(tmp_path))}) / 'seen'\n"
        "if file.exists():\n    raise RuntimeError('a second time')\nfile.write_text('')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with Server(ServerOptions(port=0, workers=1, allow=("once_only",))) as server:
        with pytest.raises(ServiceError, match=r"once_only.*a second time"):
            rg.Session(server.url).start()
        assert admin.status(server.url)["sessions"] == 0


def test_the_end_of_a_connection_that_was_replaced_ends_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_process, "STOP_SECONDS", RUNS_ON)
    with Server(ServerOptions(port=0, workers=1, grace=0.2)) as server:
        first = open_connection(server.url, None, None)
        first.send(hello(admin=False))
        welcome = first_answer(first, server.url)
        second = open_connection(server.url, None, None)
        second.send(Resume(welcome.session, welcome.key, welcome.epoch, 0))
        assert isinstance(first_answer(second, server.url), Resumed)
        with pytest.raises(ConnectionClosed):
            first.receive()
        time.sleep(3 * (welcome.grace + RUNS_ON))
        assert len(admin.sessions(server.url)) == 1
        second.break_off()
        assert eventually(lambda: not admin.sessions(server.url))
        for one in (first, second):
            one.close()
