"""Opening a connection to a service: its address, TLS, the token, and the versions of both sides."""

from __future__ import annotations

import logging
import os
import platform
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.sync.client import connect

from raygrad import __version__
from raygrad.errors import ProtocolError, ServiceError

from ..protocol.connection import MessageConnection, WebSocket
from ..protocol.messages import SERVICE_VERSION, ClientHello, Refused, Resume, Resumed, Welcome
from ..protocol.resumable_connection import ResumableConnection
from .remote import RemoteWorkers

OPEN_SECONDS: Final = 10.0
"""Seconds within which a service answers."""

_SOCKETS: Final = logging.getLogger("raygrad.service.client_sockets")
"""What websockets has to say of a connection that broke; errors say what matters."""
_SOCKETS.propagate = False
_SOCKETS.addHandler(logging.NullHandler())

FIRST_MESSAGE: Final = 1 << 20
"""Bytes of the messages before the server has said how large they may be."""


def open_connection(url: str, token: str | None, ca: str | None) -> MessageConnection:
    """Return a connection to a service.

    Raises:
        ServiceError: nothing answers there, it is no service, or it refuses the token or its certificate is refused;
            `ca` is no file of certificates, or there is nothing to check by it.
    """
    token = os.environ.get("RAYGRAD_TOKEN") if token is None else token
    headers = {} if not token else {"Authorization": f"Bearer {token}"}
    context: ssl.SSLContext | None = None
    if url.startswith("wss://"):
        context = _trusting(ca)
    elif ca is not None:
        raise ServiceError(f"ca=... is for wss:// addresses; {url} has no TLS", "tls")
    try:
        socket = connect(
            url,
            ssl=context,
            additional_headers=headers,
            compression=None,
            open_timeout=OPEN_SECONDS,
            max_size=None,  # the decoder of frames has the limit
            close_timeout=2.0,
            proxy=None,
            logger=_SOCKETS,
        ).__enter__()  # without it websockets warns; `MessageConnection.close` is what leaves it
    except InvalidStatus as error:
        if error.response.status_code == 401:
            raise ServiceError(
                f"{url} refuses the token: give the service's by Session(..., token=...) or RAYGRAD_TOKEN", "token"
            ) from None
        raise ServiceError(
            f"{url} answered {error.response.status_code}: it is no service of raygrad", "http"
        ) from None
    except ssl.SSLCertVerificationError as error:
        raise ServiceError(
            f"the certificate of {url} is not trusted ({error.verify_message}): give its authority by Session(ca=...)",
            "certificate",
        ) from None
    except ssl.SSLError as error:
        raise ServiceError(f"{url} does not speak TLS ({error.reason}): use ws:// if it has none", "tls") from None
    except (InvalidHandshake, InvalidURI, ConnectionClosed, EOFError) as error:
        hint = "; if it has TLS, use wss://" if context is None else ""
        raise ServiceError(f"{url} does not answer as a service ({error}){hint}", "handshake") from None
    except ConnectionResetError:
        raise ServiceError(f"{url} closed the connection at once; if it has TLS, use wss://", "handshake") from None
    except OSError as error:  # TimeoutError, too
        raise ServiceError(f"nothing answers at {url} ({error or type(error).__name__})", "unreachable") from None
    return MessageConnection(WebSocket(socket), FIRST_MESSAGE)


def _trusting(ca: str | None) -> ssl.SSLContext:
    """Return what checks certificates, by the authorities of a file or else of the system."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # SSLError, too
        raise ServiceError(f"ca={ca!r} is no file of certificates in PEM ({error})", "certificate") from None


def hello(*, admin: bool, allow_pickle: bool = False, workers: int = 0, blas_threads: int = 1) -> ClientHello:
    """Return the first message of a client."""
    return ClientHello(
        __version__, platform.python_version(), SERVICE_VERSION, admin, allow_pickle, workers, blas_threads
    )


def first_answer(connection: MessageConnection, url: str) -> Any:
    """Return the first answer on a connection.

    Raises:
        ServiceError: the service refuses, or is gone.
    """
    try:
        answer = connection.receive()
    except ConnectionClosed as error:
        raise ServiceError(f"{url} closed the connection: {error}", "closed") from None
    except ProtocolError as error:
        raise ServiceError(f"{url} speaks another version of the protocol: {error}", "version") from None
    if isinstance(answer, Refused):
        raise ServiceError(f"{url} refuses: {answer.message}", answer.code)
    return answer


def open_service(url: str, *, workers: int | None, blas_threads: int, options: Mapping[str, Any]) -> RemoteWorkers:
    """Return the workers of a new session on a service.

    Raises:
        ServiceError: it cannot be reached, or refuses.
    """
    allow_pickle = bool(options.get("allow_pickle", False))
    connection = open_connection(url, options.get("token"), options.get("ca"))
    try:
        asked = time.monotonic()
        connection.send(hello(admin=False, allow_pickle=allow_pickle, workers=workers or 0, blas_threads=blas_threads))
        welcome = first_answer(connection, url)
        came = time.monotonic()
        if not isinstance(welcome, Welcome):
            raise ServiceError(f"{url} answered a hello by a {type(welcome).__name__}", "protocol")
    except BaseException:
        connection.close()
        raise
    connection.max_message = welcome.max_message
    # as NTP has it (RFC 5905): the ways there and back are taken to be alike
    ahead = ((welcome.asked - asked) + (welcome.clock - came)) / 2
    lasting = ResumableConnection(connection, grace=welcome.grace)
    again = Reopening(url, options.get("token"), options.get("ca"), welcome)
    try:
        return RemoteWorkers(lasting, connection, again, welcome, ahead=ahead, url=url, allow_pickle=allow_pickle)
    except ProtocolError as error:
        lasting.close()
        raise ServiceError(f"{url} speaks another version of the protocol: {error}", "version") from None


class Reopening:
    """Opens the connections over which a session goes on."""

    def __init__(self, url: str, token: str | None, ca: str | None, welcome: Welcome) -> None:
        self._url = url
        self._token = token
        self._ca = ca
        self._welcome = welcome

    def __call__(self, taken: int) -> tuple[MessageConnection, int]:
        """Return a connection, and how many messages of the session the service has taken.

        Args:
            taken: how many the client has.

        Raises:
            ServiceError: it cannot be reached, or has the session no more.
        """
        connection = open_connection(self._url, self._token, self._ca)
        try:
            connection.send(Resume(self._welcome.session, self._welcome.key, self._welcome.epoch, taken))
            answer = first_answer(connection, self._url)
            if not isinstance(answer, Resumed):
                raise ServiceError(f"{self._url} resumed a session by a {type(answer).__name__}", "protocol")
        except ConnectionClosed as error:
            raise ServiceError(f"{self._url} closed the connection: {error}", "closed") from None
        except BaseException:
            connection.close()
            raise
        return connection, answer.taken
