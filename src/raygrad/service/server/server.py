"""The server: one port for sessions, administration and probes, and one driver per client's session.

Each connection has a thread that receives, each session one that runs its driver, here or in a process of its own. Who
may come in is checked before the WebSocket opens; versions are exchanged before anything else."""

from __future__ import annotations

import hmac
import json
import logging
import platform
import queue
import secrets
import signal
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server as SocketServer, ServerConnection, serve as serve_sockets

from raygrad import __version__
from raygrad.errors import ProtocolError, ServiceError

from ..protocol.connection import MessageConnection, WebSocket
from ..protocol.messages import SERVICE_VERSION, Administer, Administered, ClientHello, Resume
from ..protocol.named_code import NamedModules
from .fork_server import fork_server
from .options import ServerOptions
from .served_session import NOTED, log
from .session_host import SessionHost, SessionIdentity, SessionState, Watcher, refuse
from .session_process import SessionProcess

HELLO_SECONDS: Final = 10.0
"""Seconds within which a client says who it is."""

CLOSE_SECONDS: Final = 10.0
"""Seconds within which a session ends when the service is stopped."""

DEATHS_KEPT: Final = 64
"""Sessions whose processes died of which it is remembered why."""

QUIET_SECONDS: Final = 2.0
"""Seconds without a word from its client after which a session without runs does not delay the end of a service."""

TAKE_OVER_SECONDS: Final = 5.0
"""Seconds for which a session waits at most for the main thread, which may be about to end."""


Host: TypeAlias = SessionHost | SessionProcess


def has_own_process(options: ServerOptions) -> bool:
    """Tell whether each session has a process of its own: its workers are threads of it."""
    return options.address == "local"


class Server:
    """A service that listens from `__init__` on, until `close`.

    Raises:
        OSError: the port is taken, or a file of TLS cannot be read.
        ValueError: options that go not together.
    """

    def __init__(self, options: ServerOptions, *, opened: Callable[[], None] = lambda: None) -> None:
        """`opened` is called, on any thread, when workers have been opened, before their client is told."""
        self.options = options
        self._opened = opened
        self._hosts: dict[str, Host] = {}
        """By name, the sessions that are open."""
        self._died: OrderedDict[str, tuple[SessionIdentity, str]] = OrderedDict()
        """By name, the sessions whose processes died last, and why: a client may ask for its session after that."""
        self._addresses: dict[str, str] = {}
        """By name of a session, where its client's latest connection is from."""
        self._parties: dict[str, int] = {}
        """By name, the parties of these and of those that are being opened."""
        self._connections: set[ServerConnection] = set()
        self._lock = threading.Lock()
        self._allowed = NamedModules(options.allow)
        self._allowed.load()
        if has_own_process(options):
            fork_server()  # its imports take a while
        self._draining = False
        self._counts = {"sessions_total": 0, "refusals_total": 0}
        self._began = time.monotonic()
        self._epoch: Final = secrets.token_hex(8)
        self._context = _tls(options)
        self._sockets: SocketServer = serve_sockets(
            self._connected,
            options.host,
            options.port,
            ssl=self._context,
            process_request=self._request,
            compression=None,
            max_size=options.max_message + 1024,
            ping_interval=options.idle_timeout / 2,
            ping_timeout=options.idle_timeout / 2,
            close_timeout=2.0,
            server_header=None,
            logger=_quiet(),
        )
        self._thread = threading.Thread(target=self._sockets.serve_forever, name="raygrad-server", daemon=True)
        self._thread.start()
        log.info("listening on %s", self.url)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._sockets.socket.getsockname()[1])

    @property
    def url(self) -> str:
        """The address for `rg.Session` on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.options.host, self.options.host)
        shown = f"[{host}]" if ":" in host else host
        return f"{'ws' if self._context is None else 'wss'}://{shown}:{self.port}"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def drain(self, seconds: float) -> None:
        """Take no more sessions, and wait up to so many seconds until no run is under way and no client has asked for
        anything for a while: what a run has made is still read, and a program that goes on may end."""
        self._draining = True
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(one.quiet < QUIET_SECONDS for one in self._states()):
            time.sleep(0.05)

    def close(self) -> None:
        """Stop listening and end all sessions. Closing again does nothing."""
        self._draining = True
        with self._lock:
            hosts = list(self._hosts.values())
        ending = [threading.Thread(target=one.end, args=("the service is stopped",), daemon=True) for one in hosts]
        for thread in ending:
            thread.start()
        self._sockets.shutdown()
        self._thread.join()
        with self._lock:
            open_ones = list(self._connections)
        for connection in open_ones:
            threading.Thread(target=connection.close, args=(1001, "the service is stopped"), daemon=True).start()
        for host in hosts:
            host.join(CLOSE_SECONDS)

    def _states(self) -> list[SessionState]:
        with self._lock:
            hosts = list(self._hosts.values())
        return [one.state() for one in hosts]

    # ---- who comes in ------------------------------------------------------------------------------------------------

    def _request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer probes, and refuse who has no token, before a WebSocket opens."""
        path = request.path.partition("?")[0]
        if path == "/healthz":
            return connection.respond(HTTPStatus.OK, "ok\n")
        if path == "/readyz":
            ready = not self._draining and len(self._parties) < self.options.max_sessions
            return connection.respond(
                HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, "ready\n" if ready else "not ready\n"
            )
        if self._party(request) is None:
            self._refused(_address(connection), "token")
            return connection.respond(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong\n")
        if path == "/metrics":
            return connection.respond(HTTPStatus.OK, self._metrics())
        if path != "/":
            self._refused(_address(connection), "path")
            return connection.respond(HTTPStatus.NOT_FOUND, "there are /, /healthz, /readyz and /metrics\n")
        return None

    def _party(self, request: Request | None) -> int | None:
        """Return the number of the token that a client has shown, 0 where none is asked for; None of a stranger."""
        if request is None:
            return None
        if self.options.token is None:
            return None if "Origin" in request.headers else 0  # no page of a browser, which anybody may have written
        given = request.headers.get("Authorization", "").encode()
        same = [hmac.compare_digest(given, f"Bearer {token}".encode()) for token in self.options.tokens]
        return same.index(True) if True in same else None

    def _refused(self, address: str, code: str) -> None:
        with self._lock:
            self._counts["refusals_total"] += 1
        log.warning("refused %s: %s", address, code, extra={"code": code})

    def _metrics(self) -> str:
        states = self._states()
        figures = [
            ("raygrad_service_sessions", "gauge", len(states)),
            ("raygrad_service_runs", "gauge", sum(one.active for one in states)),
            ("raygrad_service_sessions_total", "counter", self._counts["sessions_total"]),
            ("raygrad_service_refusals_total", "counter", self._counts["refusals_total"]),
        ]
        return "".join(f"# TYPE {name} {kind}\n{name} {value}\n" for name, kind, value in figures)

    def _connected(self, socket: ServerConnection) -> None:
        """Serve one connection: the body of its thread."""
        with self._lock:
            self._connections.add(socket)
        connection = MessageConnection(WebSocket(socket), self.options.max_message)
        party, address = self._party(socket.request) or 0, _address(socket)
        try:
            first = self._first_message(connection)
            if isinstance(first, ClientHello) and first.admin:
                self._administer(connection, party)
                return
            resumes = isinstance(first, Resume)
            host = self._resumed(first, party) if resumes else self._new_session(first, party)
            with self._lock:
                if host.identity.name in self._parties:  # it may have ended already
                    self._addresses[host.identity.name] = address
            host.serve(connection, first)
        except ConnectionClosed:
            pass
        except Exception as error:  # of any kind: what came is the other side's, and no thread of this side ends by it
            self._refused(address, refuse(connection, error))
        finally:
            with self._lock:
                self._connections.discard(socket)
            socket.close()

    def _first_message(self, connection: MessageConnection) -> ClientHello | Resume:
        timer = threading.Timer(HELLO_SECONDS, connection.close, (1002, "no hello"))
        timer.daemon = True
        timer.start()
        try:
            hello = connection.receive()
        finally:
            timer.cancel()
        if isinstance(hello, Resume):
            return hello
        if not isinstance(hello, ClientHello):
            raise ProtocolError("the first message is neither ClientHello nor Resume")
        python = platform.python_version_tuple()[:2]
        if hello.raygrad != __version__ or tuple(hello.python.split(".")[:2]) != python:
            raise ServiceError(
                f"the client has raygrad {hello.raygrad} on Python {hello.python}; this service has raygrad "
                f"{__version__} on Python {platform.python_version()}: install the same on both sides",
                "version",
            )
        if hello.allow_pickle and not self.options.allow_pickle:
            raise ServiceError(
                "this service takes no pickles: open the session without allow_pickle=True, or start the service with "
                "ServerOptions(allow_pickle=True) if all who have its token may run any code there",
                "pickle",
            )
        return hello

    # ---- sessions ----------------------------------------------------------------------------------------------------

    def _resumed(self, resume: Resume, party: int) -> Host:
        """Return the session that goes on."""
        if resume.epoch != self._epoch:
            raise ServiceError("this service was started anew since; what the session had is gone", "restarted")
        with self._lock:
            host = self._hosts.get(resume.session)
            dead, why = self._died.get(resume.session, (None, ""))
        identity = dead if host is None else host.identity
        if (
            identity is None
            or identity.party != party
            or not hmac.compare_digest(identity.key.encode(), resume.key.encode())
        ):
            raise ServiceError("the session has ended here", "unknown session")
        if host is None:
            raise ServiceError(why, "process")
        return host

    def _new_session(self, hello: ClientHello, party: int) -> Host:
        most = self.options.workers
        if most is not None and hello.workers > most:
            raise ServiceError(f"{hello.workers} workers are asked for; a session has up to {most} here", "quota")
        identity = SessionIdentity(secrets.token_hex(8), secrets.token_hex(16), self._epoch, party)
        self._admit(identity)

        def refused(code: str) -> None:
            self._refused(self._addresses.get(identity.name, "who is gone"), code)

        def ended(why: str) -> None:
            self._forget(identity, why)

        watcher = Watcher(opened=self._opened, refused=refused, ending=lambda: None, ended=ended)
        try:
            if has_own_process(self.options):
                host = SessionProcess(identity, self.options, watcher)
            else:
                host = SessionHost(identity, self.options, self._allowed, watcher)
        except BaseException:
            self._forget(identity)
            raise
        with self._lock:
            if identity.name in self._parties:  # it may have ended already
                self._hosts[identity.name] = host
                self._counts["sessions_total"] += 1
        return host

    def _admit(self, identity: SessionIdentity) -> None:
        """Note a session that is to open.

        Raises:
            ServiceError: there are too many, or the service is being stopped.
        """
        with self._lock:
            if self._draining:
                raise ServiceError("this service is being stopped and takes no sessions", "draining")
            if len(self._parties) >= self.options.max_sessions:
                raise ServiceError(f"this service has {self.options.max_sessions} sessions, its most", "quota")
            own = sum([party == identity.party for party in self._parties.values()])
            most_own = self.options.max_sessions_per_token
            if most_own is not None and own >= most_own:
                raise ServiceError(
                    f"{own} sessions of this token are open, its most: close one, or start the service with a larger "
                    "max_sessions_per_token (--max-sessions-per-token)",
                    "sessions",
                )
            self._parties[identity.name] = identity.party

    def _forget(self, identity: SessionIdentity, why: str = "") -> None:
        with self._lock:
            if why:
                self._died[identity.name] = identity, why
                if len(self._died) > DEATHS_KEPT:
                    self._died.popitem(last=False)
            self._parties.pop(identity.name, None)
            self._hosts.pop(identity.name, None)
            self._addresses.pop(identity.name, None)

    def _administer(self, connection: MessageConnection, party: int) -> None:
        """Answer one request of an administrator, who sees the sessions of his own token."""
        request = connection.receive()
        if not isinstance(request, Administer):
            raise ProtocolError("an administrator sends Administer")
        with self._lock:
            hosts = {name: one for name, one in self._hosts.items() if one.identity.party == party}
        answer: Any
        if request.what == "status":
            states = [one.state() for one in hosts.values()]
            answer = {
                "version": __version__,
                "python": platform.python_version(),
                "protocol": SERVICE_VERSION,
                "address": self.options.address,
                "sessions": len(states),
                "max_sessions": self.options.max_sessions,
                "runs": sum(one.active for one in states),
                "uptime": time.monotonic() - self._began,
                "draining": self._draining,
                **self._counts,
            }
        elif request.what == "sessions":
            states = {name: one.state() for name, one in hosts.items()}
            answer = [
                {
                    "session": name,
                    "began": one.began,
                    "runs": one.submitted,
                    "active": one.active,
                    "failed": one.failures,
                }
                for name, one in states.items()
            ]
        elif request.what == "cancel":
            if request.session not in hosts:
                raise ServiceError(f"there is no session {request.session!r} here", "unknown session")
            answer = hosts[request.session].cancel_all()
        else:
            raise ProtocolError(f"an administrator cannot ask for {request.what[:40]!r}")
        connection.send(Administered(json.dumps(answer)))


def serve(options: ServerOptions) -> None:
    """Serve until SIGTERM or Ctrl-C; then take no new sessions, let runs end for up to `drain_seconds`, and stop. To be
    called in the main thread."""
    _log_to_stderr(json_lines=options.log_json)
    calls = _MainThreadCalls()
    before = signal.getsignal(signal.SIGTERM)
    calls.take_over()
    try:
        with Server(options, opened=calls.after_open) as server:
            with suppress(KeyboardInterrupt):
                calls.serve()
            log.info("draining")
            server.drain(options.drain_seconds)
    finally:
        signal.signal(signal.SIGTERM, before)


class _MainThreadCalls:
    """What the main thread of a service waits for: SIGTERM, and libraries that take SIGTERM for themselves. Ray does so
    when it is first used, whatever Python has there, and ends the process some seconds after it."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[threading.Event | None] = queue.SimpleQueue()
        """None stands for SIGTERM."""

    def take_over(self) -> None:
        """Have SIGTERM come here, in the main thread."""
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._asked.put(None))

    def after_open(self) -> None:
        """Have SIGTERM come here again: called by threads that have opened workers."""
        done = threading.Event()
        self._asked.put(done)
        done.wait(TAKE_OVER_SECONDS)

    def serve(self) -> None:
        """Do what others ask for, until SIGTERM comes."""
        while (asked := self._asked.get()) is not None:
            self.take_over()
            asked.set()


def _address(connection: ServerConnection) -> str:
    try:
        return str(connection.remote_address[0])
    except OSError:
        return "who is gone"


def _tls(options: ServerOptions) -> ssl.SSLContext | None:
    if options.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(options.tls_cert, options.tls_key)
    return context


def _quiet() -> logging.Logger:
    """Return the logger of the sockets: handshakes that fail are one line of ours, not a traceback."""
    logger = logging.getLogger("raygrad.service.sockets")
    logger.addFilter(_OneLine())
    return logger


class _OneLine(logging.Filter):
    """Drops tracebacks, which name headers."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        return record.levelno >= logging.WARNING


class _JsonLines(logging.Formatter):
    """Writes each record as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {"time": record.created, "level": record.levelname, "logger": record.name}
        found = vars(record)
        entry.update({name: found[name] for name in NOTED if found.get(name) is not None})
        return json.dumps({**entry, "message": record.getMessage()})


def _log_to_stderr(*, json_lines: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines() if json_lines else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
