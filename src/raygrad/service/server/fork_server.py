"""A process that forks one for each session: it has imported raygrad, and has no threads that a fork would break.

It ends with the server's process, as the end of their socket tells it, and on Linux sessions' processes end with it.
Both are in a session of their own, in the sense of the system, and take no heed of SIGINT and SIGTERM: the server says
when a session ends."""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np

from raygrad.errors import ServiceError

FORK_SECONDS: Final = 60.0
"""Seconds within which a process is there; the first one has to wait for imports."""

SECRETS: Final = ("RAYGRAD_TOKEN",)
"""Variables of the environment that sessions do not get."""

_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from raygrad.service.server.session_process_main import main; main(int(sys.argv[2]))"
)

_DIES_WITH_PARENT: Final = 1
"""PR_SET_PDEATHSIG."""


class LineReader:
    """Lines from a Unix socket, and the descriptors that came with them, which other programs do not inherit."""

    def __init__(self, received: socket.socket) -> None:
        self._socket = received
        self._rest = b""
        self.descriptors: deque[int] = deque()
        """Those that nobody has taken, in order."""

    def receive(self) -> list[bytes] | None:
        """Return the lines that have arrived, waiting for some; None at the end."""
        data, came, _, _ = socket.recv_fds(self._socket, 1 << 16, 16)
        if not data:
            return None
        for descriptor in came:
            os.set_inheritable(descriptor, False)
            self.descriptors.append(descriptor)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


class ForkedProcess:
    """A process that has been forked."""

    def __init__(self, pid: int, kill: Callable[[], None]) -> None:
        self.pid: Final = pid
        self.kill: Final = kill
        """Kills it, if it is still there."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._status = 0
        self._then: Callable[[], None] | None = None

    def note_end(self, status: int) -> None:
        """Note that it has ended, with a status as `os.waitpid` gives it."""
        with self._lock:
            self._status = status
            self._ended.set()
            then = self._then
        if then is not None:
            then()

    def at_end(self, then: Callable[[], None]) -> None:
        """Have something called when it has ended."""
        with self._lock:
            self._then = then
            ended = self._ended.is_set()
        if ended:
            then()

    def end_within(self, seconds: float) -> str | None:
        """Wait for its end; return how it ended, or None if it has not."""
        if not self._ended.wait(seconds):
            return None
        code = os.waitstatus_to_exitcode(self._status)
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


class ForkServer:
    """The process that forks, as seen by the one that asks it to."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name not in SECRETS}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment,
            )
        self._asking = threading.Lock()
        self._number = 0
        self._started: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        """Numbers of requests, with the processes that were started for them: 0 for none."""
        self._forked: dict[int, ForkedProcess] = {}
        self._lock = threading.Lock()
        """Guards what is forked."""
        threading.Thread(target=self._read, name="raygrad-fork-server", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether its process is."""
        return self._process.poll() is None

    def fork(self, control: socket.socket) -> ForkedProcess:
        """Return a new process, which `session_process_main` runs with this socket.

        Raises:
            ServiceError: the system gave none.
        """
        with self._asking:
            self._number += 1
            pid = self._pid_of(self._number, control)
        with self._lock:
            found = self._forked.get(pid)
        if found is None:
            raise ServiceError("the service could not start a process for this session: its log says why", "process")
        return found

    def _pid_of(self, number: int, control: socket.socket) -> int:
        until = time.monotonic() + FORK_SECONDS
        try:
            socket.send_fds(self._socket, [json.dumps({"fork": number}).encode() + b"\n"], [control.fileno()])
            while True:
                answered, pid = self._started.get(timeout=max(until - time.monotonic(), 0.0))
                if answered == number:
                    return pid
        except (OSError, queue.Empty):
            return 0

    def _kill(self, pid: int) -> None:
        with suppress(OSError):
            self._socket.sendall(json.dumps({"kill": pid}).encode() + b"\n")

    def _read(self) -> None:
        with self._socket.makefile("r") as lines:
            for line in lines:
                told: dict[str, int] = json.loads(line)
                pid = told["pid"]
                with self._lock:
                    if "status" in told:
                        self._forked.pop(pid).note_end(told["status"])
                    elif pid:
                        self._forked[pid] = ForkedProcess(pid, lambda pid=pid: self._kill(pid))
                if "status" not in told:
                    self._started.put((told["fork"], pid))
        with self._lock:
            left = list(self._forked.values())
        for one in left:
            one.note_end(signal.SIGKILL)
        self._started.put((self._number, 0))


_current: ForkServer | None = None
_current_lock: Final = threading.Lock()


def fork_server() -> ForkServer:
    """Return the fork server of this process, which goes on for as long as the process; start it if there is none."""
    global _current
    with _current_lock:
        if _current is None or not _current.alive:
            _current = ForkServer()
        return _current


# ---- in the process that forks ---------------------------------------------------------------------------------------


def serve_forks(descriptor: int, run: Callable[[socket.socket], None]) -> None:
    """Fork a process for each request, which runs `run` with the socket that came with it: the body of the fork
    server's process."""
    asked = socket.socket(fileno=descriptor)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)  # not SIG_IGN, which programs that a session starts would inherit

    def reap(_number: int, _frame: object) -> None:
        _reap(asked)

    signal.signal(signal.SIGCHLD, reap)
    requests = LineReader(asked)
    while (lines := requests.receive()) is not None:
        for line in lines:
            request: dict[str, Any] = json.loads(line)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # an end is told after a start
            if "kill" in request:
                with suppress(ProcessLookupError):
                    os.kill(request["kill"], signal.SIGKILL)
            else:
                _fork(asked, request["fork"], requests.descriptors.popleft(), run)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os._exit(0)


def _ignore(_number: int, _frame: object) -> None:
    pass


def _reap(asked: socket.socket) -> None:
    with suppress(ChildProcessError, OSError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            asked.sendall(json.dumps({"pid": ended[0], "status": ended[1]}).encode() + b"\n")


def _fork(asked: socket.socket, number: int, descriptor: int, run: Callable[[socket.socket], None]) -> None:
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        traceback.print_exc()
        pid = -1
    if pid == 0:
        _run_child(asked, descriptor, parent, run)
    os.close(descriptor)
    asked.sendall(json.dumps({"fork": number, "pid": max(pid, 0)}).encode() + b"\n")


def _run_child(asked: socket.socket, descriptor: int, parent: int, run: Callable[[socket.socket], None]) -> None:
    code = 1
    try:
        asked.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            np.random.seed()  # else sessions would draw the same numbers
            run(socket.socket(fileno=descriptor))
            code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code)
