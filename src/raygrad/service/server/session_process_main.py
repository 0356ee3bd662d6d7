"""What runs in a session's own process: one `SessionHost`, and a socket on which the server's process asks and is told.

That process unpickles nothing of what comes from here, since code of clients runs here: all lines are JSON."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
from collections import deque
from typing import Any, Final

from websockets.exceptions import ConnectionClosed

from raygrad.errors import ServiceError

from ..protocol.connection import MessageConnection
from ..protocol.messages import ClientHello, Resume
from ..protocol.named_code import NamedModules
from ..protocol.piece_channel import PieceChannel
from .fork_server import LineReader, serve_forks
from .options import ServerOptions
from .served_session import NOTED, log
from .session_host import SessionHost, SessionIdentity, Watcher

LAST_SECONDS: Final = 2.0
"""Seconds for which the process stays to bring its last messages out."""


def main(descriptor: int) -> None:
    """Be the fork server: run a session in each process."""
    serve_forks(descriptor, lambda control: _Session(control).run())


class _Session:
    """The session of this process, and the server's side of it."""

    def __init__(self, control: socket.socket) -> None:
        self._control: Final = control
        self._telling = threading.Lock()
        self._over = threading.Event()
        self._host: SessionHost | None = None
        self._max_message = 0
        self._serving: list[threading.Thread] = []

    def run(self) -> None:
        """Do what is asked for, until the session is over."""
        threading.Thread(target=self._read, name="raygrad-control", daemon=True).start()
        self._over.wait()
        if self._host is not None:
            self._host.join(LAST_SECONDS)
        for thread in self._serving:
            thread.join(LAST_SECONDS)

    def tell(self, **what: Any) -> None:
        """Tell the server."""
        line = json.dumps(what).encode() + b"\n"
        with self._telling:
            self._control.sendall(line)

    def _read(self) -> None:
        asked = LineReader(self._control)
        while (lines := asked.receive()) is not None:
            for line in lines:
                self._answer(json.loads(line), asked.descriptors)
        os._exit(1)  # the server's process is no more

    def _answer(self, asked: dict[str, Any], descriptors: deque[int]) -> None:
        number = asked["number"]
        try:
            value = self._done(asked["what"], asked["given"], descriptors)
        except Exception as error:  # of any kind: the server waits for an answer, and asks again
            code = error.code if isinstance(error, ServiceError) else "process"
            self.tell(number=number, error=str(error), code=code)
        else:
            self.tell(number=number, value=value)

    def _done(self, what: str, given: dict[str, Any], descriptors: deque[int]) -> Any:
        if what == "host":
            self._open(**given)
            return None
        host = self._host
        assert host is not None
        match what:
            case "serve":
                channel = PieceChannel(socket.socket(fileno=descriptors.popleft()))
                thread = threading.Thread(target=self._serve, args=(host, channel), name="raygrad-serve", daemon=True)
                self._serving = [one for one in self._serving if one.is_alive()]
                self._serving.append(thread)
                thread.start()
                return None
            case "state":
                return host.state()
            case "cancel_all":
                return host.cancel_all()
            case _:
                return host.end(given["why"])

    def _open(self, identity: list[Any], options: dict[str, Any], level: int, path: list[str]) -> None:
        sys.path[:] = path  # the server's, now
        log.addHandler(_LogForwarder(self))
        log.propagate = False
        log.setLevel(level)
        options["allow"] = tuple(options["allow"])
        here = ServerOptions(**options)
        allowed = NamedModules(here.allow)
        allowed.load()
        self._max_message = here.max_message
        watcher = Watcher(
            opened=lambda: None,
            refused=self._refused,
            ending=lambda: self.tell(ending=True),
            ended=self._ended,
        )
        self._host = SessionHost(SessionIdentity(*identity), here, allowed, watcher)

    def _refused(self, code: str) -> None:
        self.tell(refused=code)

    def _ended(self, _why: str) -> None:
        self.tell(ended=True)
        self._over.set()

    def _serve(self, host: SessionHost, channel: PieceChannel) -> None:
        connection = MessageConnection(channel, self._max_message)
        try:
            first: ClientHello | Resume = connection.receive()
            host.serve(connection, first)
        except ConnectionClosed:
            pass
        finally:
            connection.close()
            channel.free()


class _LogForwarder(logging.Handler):
    """Has the server's process write what is logged here."""

    def __init__(self, session: _Session) -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        found = vars(record)
        noted = {name: found[name] for name in NOTED if found.get(name) is not None}
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        self._session.tell(level=record.levelno, message=message, noted=noted)
