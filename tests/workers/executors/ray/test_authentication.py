"""Whether a Ray asks for a token, and what is told where this process has not the right one."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import socket
import threading
from collections.abc import Generator
from typing import Any

import pytest

from raygrad.errors import ExecutionError
from raygrad.workers.executors.ray import authentication
from raygrad.workers.executors.ray.authentication import Access, authenticate, is_loopback, probe

SETUP = "ray._private.authentication.authentication_token_setup"
OPENING = b"\0\0\x18\4\0\0\0\0\0\0\4\0@\0\0\0\5\0@\0\0\0\6\0\0@\0\xfe\3\0\0\0\1\0\0\4\x08\0\0\0\0\0\0?\0\1"
"""The first bytes of a Ray's answer: settings."""
REFUSED = OPENING + b"\x88@\x0ccontent-type\x10application/grpc\0\x0bgrpc-status\x0216\0\x0cgrpc-message\4none"
ADMITTED = OPENING + b"\x88\0\0\0\5id\0\x0bgrpc-status\x010"


@contextlib.contextmanager
def answering(answer: Any) -> Generator[str]:
    """Give the address of what answers a call, as soon as it has come, with `answer(its bytes)`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        request = b""
                        while not request.endswith(b"\0\1\0\0\0\1" + b"\0" * 5):
                            request += connection.recv(4096)
                        answered = answer(request)
                        for start in range(0, len(answered), 20):
                            connection.sendall(answered[start : start + 20])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def token_only(request: bytes) -> bytes:
    return ADMITTED if b"Bearer good" in request else REFUSED


def test_the_answer_is_told_from_the_status_of_a_call() -> None:
    with answering(token_only) as address:
        assert probe(address, "") is Access.REFUSED
        assert probe(address, "Bearer bad") is Access.REFUSED
        assert probe(address, "Bearer good") is Access.ADMITTED
        assert probe(address, "Bearer good" + "d" * 300) is Access.ADMITTED
    with answering(lambda _: b"HTTP/1.1 404 Not Found\r\n\r\n") as address:
        assert probe(address, "") is Access.UNKNOWN
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert probe(f"127.0.0.1:{port}", "") is Access.UNKNOWN


def test_a_process_speaks_to_itself_on_loopback_only() -> None:
    assert is_loopback("127.0.0.1:6379")
    assert is_loopback("localhost:6379")
    assert not is_loopback("192.0.2.1:6379")


class Tokens:
    """As Ray's own, of a process that has a token or none."""

    def __init__(self, token: str, mode: str) -> None:
        self.token, self.mode = token, mode
        self.AuthenticationTokenLoader = self.AuthenticationMode = self
        self.TOKEN = "token"

    def instance(self) -> Tokens:
        return self

    def get_authentication_mode(self) -> str:
        return self.mode

    def has_token(self, *, ignore_auth_mode: bool) -> bool:
        return bool(self.token)

    def get_token_for_http_header(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def maybe_enable_token_auth_if_token_available(self, *, warn_if_disabled: bool) -> None:
        self.mode = "token"


@pytest.mark.parametrize(
    ("token", "mode", "here", "told"),
    [
        ("good", "token", True, ""),
        ("good", "unset", True, ""),
        ("good", "token", False, ""),
        ("good", "unset", False, "asks for a token, and this process shows none.*set RAY_AUTH_MODE=token"),
        ("good", "disabled", True, "shows none .RAY_AUTH_MODE=disabled"),
        ("", "token", True, "has none.*RAY_AUTH_TOKEN"),
        ("", "unset", True, "shows none .RAY_AUTH_MODE=unset"),
        ("bad", "token", True, "refuses that of this process.*~/.ray/auth_token"),
        ("bad", "unset", True, "refuses that of this process"),
    ],
)
def test_where_a_token_is_asked_for_the_right_one_is_shown_or_asked_for(
    monkeypatch: pytest.MonkeyPatch, token: str, mode: str, here: bool, told: str
) -> None:
    tokens = Tokens(token, mode)
    monkeypatch.setattr(authentication.importlib, "import_module", lambda _: tokens)
    monkeypatch.setattr(authentication, "is_loopback", lambda _: here)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if mode != "unset":
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with answering(token_only) as address:
        if told:
            with pytest.raises(ExecutionError, match=told):
                authenticate(address, found=False)
        else:
            authenticate(address, found=False)
            assert tokens.mode == "token"


def test_where_none_is_asked_for_a_process_that_shows_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(lambda _: ADMITTED) as address:
        monkeypatch.setattr(authentication.importlib, "import_module", lambda _: Tokens("good", "unset"))
        authenticate(address, found=True)
        monkeypatch.setattr(authentication.importlib, "import_module", lambda _: Tokens("good", "token"))
        with pytest.raises(ExecutionError, match=r"asks for no token.*RAY_AUTH_MODE=disabled"):
            authenticate(address, found=True)


@pytest.mark.ray
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs raygrad[ray]")
def test_a_ray_answers_and_has_what_is_asked_of_it(ray_started: None) -> None:
    import ray

    assert probe(ray.get_runtime_context().gcs_address, "") is Access.ADMITTED
    setup = importlib.import_module(SETUP)
    assert {name for name in dir(Tokens) if not name.startswith("_")} - {"instance"} <= {
        *dir(setup),
        *dir(setup.AuthenticationTokenLoader),
    }
    authenticate(ray.get_runtime_context().gcs_address, found=True)
