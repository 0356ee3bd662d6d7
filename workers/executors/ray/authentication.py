"""Authentication at a running Ray: whether it asks for a token, and which one this process would show.

Ray itself would try for 20 s, and then say only that it could not connect. So it is asked here before that: one call
of its protocol (gRPC over HTTP/2), without a token, and again with that of this process."""

from __future__ import annotations

import importlib
import ipaddress
import os
import socket
from enum import Enum
from typing import Any, Final

from raygrad.errors import ExecutionError

PROBE_DEADLINE: Final = 3.0
"""Seconds for the answer, which takes some milliseconds; without one, Ray finds out for itself."""

LONGEST_ANSWER: Final = 64 * 1024
"""Bytes in which an answer is looked for."""

_CALL: Final = "/ray.rpc.NodeInfoGcsService/GetClusterId"
_REFUSED: Final = b"grpc-status\x0216"
_ADMITTED: Final = b"grpc-status\x010"
"""The gRPC statuses UNAUTHENTICATED and OK, as HTTP/2 headers that are not compressed."""
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4


class Access(Enum):
    """The answer of a Ray."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def authenticate(address: str, *, found: bool) -> None:
    """Have this process show its token to the Ray at an address, if that asks for one. If no `RAY_AUTH_MODE` is set,
    it is shown on this machine only: to a Ray that was `found` here, or has a loopback address.

    Raises:
        ExecutionError: the Ray would not admit this process; says what to set.
    """
    setup = importlib.import_module("ray._private.authentication.authentication_token_setup")
    tokens = setup.AuthenticationTokenLoader.instance()
    without = probe(address, "")
    shows = setup.get_authentication_mode() == setup.AuthenticationMode.TOKEN
    if without is Access.ADMITTED and shows:
        raise ExecutionError(
            f"the Ray at {address} asks for no token, and this process is set to use one (RAY_AUTH_MODE=token, which "
            "Ray also sets where it starts on this machine): set RAY_AUTH_MODE=disabled before Ray is imported"
        )
    if without is not Access.REFUSED:
        return
    has_token = tokens.has_token(ignore_auth_mode=True)
    unset = "RAY_AUTH_MODE" not in os.environ
    if not shows and unset and has_token and (found or is_loopback(address)):
        setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
        shows = True
    if not shows or not has_token:
        wrong = "has none" if shows else f"shows none (RAY_AUTH_MODE={os.environ.get('RAY_AUTH_MODE', 'unset')})"
        raise ExecutionError(f"the Ray at {address} asks for a token, and this process {wrong}: {_REMEDY}")
    if probe(address, tokens.get_token_for_http_header()["authorization"]) is Access.REFUSED:
        raise ExecutionError(
            f"the Ray at {address} asks for a token, and refuses that of this process as not its own: {_REMEDY}"
        )


_REMEDY: Final = (
    "set RAY_AUTH_MODE=token, and put the token with which that Ray was started into ~/.ray/auth_token, or set "
    "RAY_AUTH_TOKEN to it, or RAY_AUTH_TOKEN_PATH to a file that has it, before the program starts "
    "(https://docs.ray.io/en/latest/ray-security/token-auth.html)"
)


def is_loopback(address: str) -> bool:
    """Tell whether an address HOST:PORT is that of this machine for itself alone."""
    try:
        return ipaddress.ip_address(socket.gethostbyname(_host_and_port(address)[0])).is_loopback
    except (OSError, ValueError):
        return False


def probe(address: str, authorization: str) -> Access:
    """Ask the Ray at an address for its id, with a value for the header `authorization` unless it is empty."""
    got = b""
    try:
        with socket.create_connection(_host_and_port(address), PROBE_DEADLINE) as connection:
            connection.settimeout(PROBE_DEADLINE)
            connection.sendall(_request(authorization))
            while len(got) < LONGEST_ANSWER and (part := connection.recv(4096)):
                got += part
                if _REFUSED in got:
                    return Access.REFUSED
                if _ADMITTED in got:
                    return Access.ADMITTED
    except OSError:
        pass
    return Access.UNKNOWN


def _request(authorization: str) -> bytes:
    """Return a gRPC call with an empty message, on a new HTTP/2 connection."""
    headers = {":method": "POST", ":scheme": "http", ":path": _CALL, ":authority": "ray", "te": "trailers"}
    headers["content-type"] = "application/grpc"
    if authorization:
        headers["authorization"] = authorization
    block = b"".join([b"\0" + _literal(name) + _literal(value) for name, value in headers.items()])
    return b"".join(
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            _frame(_SETTINGS, 0, 0, b""),
            _frame(_HEADERS, _END_HEADERS, 1, block),
            _frame(_DATA, _END_STREAM, 1, b"\0" * 5),
        )
    )


def _literal(text: str) -> bytes:
    """Return a text as HPACK writes one that is not compressed."""
    data = text.encode()
    size = len(data)
    if size < 127:
        return bytes([size]) + data
    rest = size - 127
    length = bytearray([127])
    while rest >= 128:
        length.append(rest % 128 + 128)
        rest //= 128
    return bytes(length) + bytes([rest]) + data


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _host_and_port(address: str) -> tuple[Any, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
