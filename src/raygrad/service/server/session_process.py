"""A session in a process of its own, as the server's process has it: it passes messages on, and asks and is told.

What code of one client does, a crash of native code included, reaches neither the server nor other sessions; what a
session leaves running after its end is killed."""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import chain
from typing import Any, Final, cast

from websockets.exceptions import ConnectionClosed

from raygrad.errors import ServiceError

from ..protocol.connection import LEFT, MessageConnection, PieceSocket
from ..protocol.messages import ClientHello, Refused, Resume
from ..protocol.piece_channel import PieceChannel
from ..protocol.resumable_connection import READER_SECONDS
from .fork_server import fork_server
from .options import ServerOptions
from .served_session import log
from .session_host import SessionIdentity, SessionState, Watcher, refuse

HOST_SECONDS: Final = 120.0
"""Seconds within which a process has imported the modules that are allowed."""

ASK_SECONDS: Final = 10.0
"""Seconds within which a process answers."""

STATE_SECONDS: Final = 0.5
"""Seconds within which it says what it is doing; else what it said last holds."""

STOP_SECONDS: Final = 10.0
"""Seconds within which a session that ends has let go of its workers; then it is killed."""

MOST_LINE: Final = 1 << 20
"""Bytes of a line that a process says."""

DEATH_SECONDS: Final = 1.0
"""Seconds within which the end of a process is known after that of its sockets."""


class SessionProcess:
    """One session, as `SessionHost` is, elsewhere.

    Raises:
        ServiceError: there is no process for it, or the modules that are allowed cannot be imported there.
    """

    def __init__(self, identity: SessionIdentity, options: ServerOptions, watcher: Watcher) -> None:
        self.identity: Final = identity
        self._watcher = watcher
        self._grace = options.session_grace
        self._state = SessionState(time.time())
        self._asking = threading.Lock()
        self._number = 0
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        """Guards what follows."""
        self._channels: set[PieceChannel] = set()
        """Those of its client's connections."""
        self._connections = 0
        """How many connections of its client there have been."""
        self._ending = False
        """It takes nothing more: it is no surprise if its process ends."""
        self._over = False
        """It has let go of its workers, or is no more."""
        self._control, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = fork_server().fork(theirs)
        except BaseException:
            self._control.close()
            raise
        threading.Thread(target=self._read, name=f"raygrad-{identity.name}", daemon=True).start()
        self._process.at_end(self._end_sockets)
        there = replace(options, host="127.0.0.1", token=None, tls_cert=None, tls_key=None)  # no secrets
        level = log.getEffectiveLevel()
        given = {"identity": identity, "options": asdict(there), "level": level, "path": sys.path}
        try:
            self._ask("host", given, seconds=HOST_SECONDS)
        except BaseException:
            self._ending = True
            self._process.kill()
            raise

    # ---- messages ----------------------------------------------------------------------------------------------------

    def serve(self, connection: MessageConnection, first: ClientHello | Resume) -> None:
        """Serve a connection until it ends, from the client's first message on. Errors go to its client."""
        here, there = socket.socketpair()
        channel = PieceChannel(here)
        with self._lock:
            ending = self._ending
            self._connections += 1
            serial = self._connections
            self._channels.add(channel)
        try:
            try:
                with there:
                    if ending:
                        raise ServiceError("the session has ended here", "unknown session")
                    self._ask("serve", descriptor=there.fileno())
            except ServiceError as error:
                self._watcher.refused(refuse(connection, error))
                self._watch_for_client(serial, self._grace)
                return
            with suppress(ConnectionClosed):  # which is found by who reads
                MessageConnection(channel, connection.max_message).send(first)
            ended_here = threading.Event()
            back = threading.Thread(target=self._pass_back, args=(channel, connection, ended_here), daemon=True)
            back.start()
            left = _pass_on(connection.socket, channel) and not ended_here.is_set()
            self._watch_for_client(serial, 0.0 if left else self._grace)
            back.join()
        finally:
            with self._lock:
                self._channels.discard(channel)
            channel.free()

    def _end_sockets(self) -> None:
        """Have those who read from the process find its end, even where programs that it has started hold its sockets
        open."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        with self._lock:
            channels = list(self._channels)
        for channel in channels:
            channel.break_off()

    def _watch_for_client(self, serial: int, seconds: float) -> None:
        """Have the session end if no connection comes in time after that of a number. It sees to that itself, unless
        what it runs lets none of its threads go on."""

        def look() -> None:
            with self._lock:
                gone = serial == self._connections
            if gone:
                self._stop_in_time()

        timer = threading.Timer(seconds, look)
        timer.daemon = True
        timer.start()

    def _pass_back(self, channel: PieceChannel, connection: MessageConnection, ended_here: threading.Event) -> None:
        """Pass on what comes from the process: the body of a thread. It notes an end that does not come from the
        client."""
        error = _pass_messages(channel, connection.socket)
        ended_here.set()
        if error.rcvd is not None:
            connection.close(error.rcvd.code, error.rcvd.reason)
        elif (how := self._death()) is not None:
            with suppress(ConnectionClosed):
                connection.send(Refused("process", _said_of(how)))
            connection.close(1011, "the session's process ended")
        else:
            connection.break_off()

    def _death(self) -> str | None:
        """Return how the process has ended, if it was not meant to."""
        with self._lock:
            if self._ending:
                return None
        return self._process.end_within(DEATH_SECONDS)

    # ---- asking and being told ---------------------------------------------------------------------------------------

    def state(self) -> SessionState:
        """Return what it is doing, or was when it last said so."""
        try:
            began, *counts, quiet = self._ask("state", seconds=STATE_SECONDS)
            submitted, active, failures = map(int, counts)
            self._state = SessionState(float(began), submitted, active, failures, float(quiet))
        except (ServiceError, TypeError, ValueError):
            self._state = self._state._replace(quiet=0.0)
        return self._state

    def cancel_all(self) -> bool:
        """Cancel all runs, for an administrator. Return whether one had not ended.

        Raises:
            ServiceError: the process does not answer.
        """
        return bool(self._ask("cancel_all"))

    def end(self, why: str) -> None:
        """Have it end, and cancel what runs."""
        self._stop_in_time()
        with suppress(ServiceError):
            self._ask("end", {"why": why})

    def join(self, seconds: float) -> None:
        """Wait for its end, for up to so long; kill it then."""
        if self._process.end_within(seconds) is None:
            noted = {"session": self.identity.name, "code": "process"}
            log.warning("session %s: its process runs on and is killed", self.identity.name, extra=noted)
            self._process.kill()
            self._process.end_within(DEATH_SECONDS)

    def _ask(
        self,
        what: str,
        given: dict[str, Any] | None = None,
        *,
        seconds: float = ASK_SECONDS,
        descriptor: int | None = None,
    ) -> Any:
        until = time.monotonic() + seconds
        if not self._asking.acquire(timeout=seconds):
            raise self._unanswered(seconds)
        try:
            self._number += 1
            line = json.dumps({"number": self._number, "what": what, "given": given or {}}).encode() + b"\n"
            answer: dict[str, Any] | None = None
            with suppress(OSError, queue.Empty):
                socket.send_fds(self._control, [line], [] if descriptor is None else [descriptor])
                while answer is None or answer["number"] != self._number:  # one before may come late
                    answer = self._answers.get(timeout=max(until - time.monotonic(), 0.0))
                    if answer is None:
                        self._answers.put(None)
                        break
            if answer is None or answer["number"] != self._number:
                raise self._unanswered(seconds)
        finally:
            self._asking.release()
        if "error" in answer:
            raise ServiceError(str(answer["error"]), str(answer.get("code", "process")))
        return answer.get("value")

    def _unanswered(self, seconds: float) -> ServiceError:
        how = self._process.end_within(0.0)
        if how is not None:
            return ServiceError(_said_of(how), "process")
        return ServiceError(f"the process of the session did not answer within {seconds:g} s", "busy")

    def _read(self) -> None:
        """Take what the process says until it ends, and see that it does: the body of a thread."""
        # what code of a client has written there may be anything
        with suppress(Exception), self._control.makefile("rb") as lines:
            while line := lines.readline(MOST_LINE):
                self._told(json.loads(line))
        self._answers.put(None)
        how = self._death()
        if how is not None:
            noted = {"session": self.identity.name, "code": "process"}
            log.warning("session %s: its process ended: %s", self.identity.name, how, extra=noted)
        self._be_over("" if how is None else _said_of(how))
        self.join(DEATH_SECONDS)
        self._control.close()

    def _told(self, told: dict[str, Any]) -> None:
        if "number" in told:
            self._answers.put(told)
        elif "message" in told:
            log.log(int(told["level"]), "%s", told["message"], extra=told["noted"])
        elif "refused" in told:
            self._watcher.refused(str(told["refused"]))
        elif "ended" in told:
            self._stop_in_time()
            self._be_over("")
        elif "ending" in told:
            self._stop_in_time()

    def _be_over(self, why: str) -> None:
        with self._lock:
            over, self._over = self._over, True
        if not over:
            self._watcher.ended(why)

    def _stop_in_time(self) -> None:
        """Kill the process if it has not ended in time."""
        with self._lock:
            ending, self._ending = self._ending, True
        if not ending:
            threading.Thread(target=self.join, args=(STOP_SECONDS,), daemon=True).start()


def _said_of(how: str) -> str:
    """Return what a client is told whose session's process has ended."""
    return (
        f"the process of this session ended ({how}): out of memory, or a crash in native code that it ran. Other "
        "sessions go on; open another one"
    )


def _pass_on(client: PieceSocket, channel: PieceChannel) -> bool:
    """Pass on what a client sends, and how it ends; return whether the client has closed the session."""
    while True:
        try:
            message = client.recv_streaming()
            channel.pass_on(message)
        except ConnectionClosed:
            break
    try:
        client.check()
    except ConnectionClosed as error:
        if error.rcvd is not None:
            channel.close(error.rcvd.code, error.rcvd.reason)
            return error.rcvd.code in LEFT
        channel.break_off()
    return False


def _pass_messages(channel: PieceChannel, client: PieceSocket) -> ConnectionClosed:
    """Pass on what a process sends until it ends; what its client does not take is dropped. Return how it ended."""
    deadline: threading.Timer | None = None
    while True:
        pieces = cast("Iterator[bytes]", channel.recv_streaming())
        try:
            first = next(pieces)
            second = next(pieces, None)
        except ConnectionClosed as error:
            return error
        try:
            client.send(first if second is None else chain((first, second), pieces))
        except ConnectionClosed:  # of the client, or, within a message, of the channel: the next read tells
            if deadline is None:  # who passes on may be waiting for the process to take something
                deadline = threading.Timer(READER_SECONDS, channel.break_off)
                deadline.daemon = True
                deadline.start()
        try:
            for _ in pieces:
                pass
        except ConnectionClosed as error:
            return error
