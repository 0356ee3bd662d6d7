"""Where one session lives at the server: opened for a client's hello, served over one connection after another, ended.

It is in the server's process where its workers are processes of Ray, and in one of its own where they are threads
(`session_process`)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from websockets.exceptions import ConnectionClosed

from raygrad.client.session.backends import open_executor
from raygrad.errors import RaygradError, ServiceError
from raygrad.workers.executors.base import Executor

from ..protocol.connection import LEFT, MessageConnection
from ..protocol.messages import ClientHello, Refused, Resume, Welcome
from ..protocol.named_code import NamedModules
from ..protocol.plans import cluster_data, links_data
from ..protocol.resumable_connection import ConnectionEnded, ResumableConnection
from ..protocol.values import Passage
from .options import ServerOptions
from .served_session import ServedSession, log


class SessionIdentity(NamedTuple):
    """How a session is known."""

    name: str
    key: str
    """What a client shows that goes on with it."""
    epoch: str
    """Of this start of the server."""
    party: int
    """The number of the token that its client has shown."""


class SessionState(NamedTuple):
    """What a session is doing."""

    began: float
    """When, in seconds since 1970."""
    submitted: int = 0
    """Runs, so far."""
    active: int = 0
    """Runs that are under way."""
    failures: int = 0
    quiet: float = 0.0
    """The seconds for which nothing of it has run and its client has sent nothing; 0 while something does."""


class Watcher(NamedTuple):
    """Whom a session tells of itself, on any thread."""

    opened: Callable[[], None]
    """Its workers have been opened; its client is told after it."""
    refused: Callable[[str], None]
    """Something of its client was refused, for the reason of this code."""
    ending: Callable[[], None]
    """It takes nothing more and closes its workers."""
    ended: Callable[[str], None]
    """It has closed its workers, and its client is told after it; or its process died, and this says how."""


class SessionHost:
    """One session, and the thread that it runs on."""

    def __init__(
        self, identity: SessionIdentity, options: ServerOptions, allowed: NamedModules, watcher: Watcher
    ) -> None:
        self.identity: Final = identity
        self._options = options
        self._allowed = allowed
        self._watcher = watcher
        self._began = time.time()
        self._session: ServedSession | None = None
        self._thread: threading.Thread | None = None

    def serve(self, connection: MessageConnection, first: ClientHello | Resume) -> None:
        """Serve a connection until it ends, from the client's first message on. Errors go to its client."""
        try:
            if isinstance(first, Resume):
                session = self._resume(connection, first)
            else:
                session = self._open(connection, first)
        except Exception as error:  # of any kind, as below
            self._told(connection, error)
            if self._thread is None:
                self._watcher.ended("")
        else:
            self._receive(connection, session)

    def _receive(self, connection: MessageConnection, session: ServedSession) -> None:
        try:
            session.receive(connection)
        except ConnectionClosed as error:
            left = error.rcvd is not None and error.rcvd.code in LEFT
            if left or not session.await_client():
                self.end("its client has closed it" if left else "its client is gone")
        except Exception as error:  # of any kind: what came is the other side's, and no thread of this side ends by it
            self.end(f"its client was refused: {self._told(connection, error)}")

    def _told(self, connection: MessageConnection, error: Exception) -> str:
        """Tell a client what went wrong with what it has sent, and return the code of that."""
        if isinstance(error, ConnectionClosed):
            return ""
        code = refuse(connection, error)
        self._watcher.refused(code)
        return code

    def _resume(self, connection: MessageConnection, resume: Resume) -> ServedSession:
        if self._session is None:
            raise ServiceError("the session has ended here", "unknown session")
        self._session.resume(connection, resume.taken)
        name = self.identity.name
        log.info("session %s goes on over another connection", name, extra={"session": name})
        return self._session

    def _open(self, connection: MessageConnection, hello: ClientHello) -> ServedSession:
        asked = time.monotonic()
        options, identity = self._options, self.identity
        executor = open_executor(
            options.address,
            workers=hello.workers or options.workers,
            strict=options.address == "local",
            blas_threads=hello.blas_threads,
            options={},
            serves_others=hello.allow_pickle or bool(self._allowed),
        )
        try:
            self._watcher.opened()
            session, welcome = self._start(connection, hello, executor, asked)
        except BaseException:
            executor.close()
            raise
        try:
            connection.send(welcome)
        except BaseException:
            self.end("its client is gone")
            raise
        workers = len(executor.cluster.workers)
        log.info("session %s opened with %d workers", identity.name, workers, extra={"session": identity.name})
        return session

    def _start(
        self, connection: MessageConnection, hello: ClientHello, executor: Executor, asked: float
    ) -> tuple[ServedSession, Welcome]:
        """Start the session's thread; return the session, and what its client is told."""
        options, (name, key, epoch, _) = self._options, self.identity
        links = executor.links()
        cluster, measured = cluster_data(executor.cluster), links_data(links)
        lasting = ResumableConnection(connection, grace=options.session_grace)
        session = ServedSession(name, lasting, executor, Passage(hello.allow_pickle, self._allowed), options, links)
        unasked = executor.reports_unasked
        thread = threading.Thread(target=self._run, args=(session, lasting), name=f"raygrad-{name}", daemon=True)
        thread.start()
        self._session, self._thread = session, thread
        welcome = Welcome(
            session=name,
            key=key,
            epoch=epoch,
            grace=options.session_grace,
            cluster=cluster,
            links=measured,
            reports_unasked=unasked,
            max_message=options.max_message,
            asked=asked,
            clock=time.monotonic(),
        )
        return session, welcome

    def _run(self, session: ServedSession, connection: ResumableConnection) -> None:
        """Run a session, and tell its client why it ended if that was not the client's doing."""
        try:
            session.run(self._watcher.ending)
        finally:
            self._watcher.ended("")
            why = session.why or connection.ended or ""
            if session.why:
                with suppress(ConnectionEnded, RaygradError):
                    connection.send(Refused("ended", session.why), waits=False)
            connection.close()
            level, noted = logging.WARNING if session.why else logging.INFO, {"session": session.name}
            shown = " ".join(why.split())[:300]  # one line, whatever its client has sent
            log.log(level, "session %s ended: %s", session.name, shown, extra=noted)

    def state(self) -> SessionState:
        """Return what it is doing."""
        session = self._session
        if session is None:
            return SessionState(self._began)
        return SessionState(self._began, session.submitted, session.active, session.failures, session.quiet)

    def cancel_all(self) -> bool:
        """Cancel all runs, for an administrator. Return whether one had not ended."""
        return self._session is not None and self._session.cancel_all()

    def end(self, why: str) -> None:
        """Have it end, and cancel what runs."""
        if self._session is not None:
            self._watcher.ending()
            self._session.end(why)

    def join(self, seconds: float) -> None:
        """Wait for its end, for up to so long."""
        if self._thread is not None:
            self._thread.join(seconds)


def refuse(connection: MessageConnection, error: Exception) -> str:
    """Tell a client what went wrong with what it has sent; return the code of that."""
    code = error.code if isinstance(error, ServiceError) else "protocol"
    if not isinstance(error, RaygradError | ConnectionEnded):
        log.debug("a message that could not be read", exc_info=True)
    with suppress(ConnectionClosed, RaygradError):
        connection.send(Refused(code, str(error)))
    return code
