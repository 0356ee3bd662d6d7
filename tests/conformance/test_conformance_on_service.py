"""Each program of the suite through a service, in a process of its own, with a token and code by value: over a plain
WebSocket of the loopback, and a share of them over TLS."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import ServiceError

from ..service.servers import server_process
from .harness import Opener, Outcome, assert_same, expected_of
from .programs import PROGRAMS, Program

SHARE = 6
"""One in so many programs runs over TLS, too."""


@pytest.fixture(scope="module")
def opener() -> Iterator[Opener]:
    """What opens one session for all programs, on one service."""
    with server_process(token="secret", allow_pickle=True) as (url, _):
        opener = Opener(once=True, address=url, token="secret", allow_pickle=True)
        yield opener
        opener.close()


@pytest.fixture(scope="module")
def over_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Opener, str]]:
    """The same on a service with a certificate that it has signed itself; and its address."""
    folder: Path = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1".split()
    subprocess.run(["openssl", *made, "-keyout", key, "-out", cert], check=True, capture_output=True)
    options: dict[str, Any] = {"token": "secret", "allow_pickle": True}
    with server_process(**options, tls_cert=cert, tls_key=key) as (url, _):
        opener = Opener(once=True, address=url, ca=cert, **options)
        yield opener, url
        opener.close()


def same(opener: Opener, program: Program, references: dict[str, Outcome | Exception]) -> None:
    expected = expected_of(program, references)
    if program.eager_only:
        pytest.skip(f"eagerly only: {program.eager_only}")
    assert_same(opener.run(program), expected)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_program_on_service(opener: Opener, program: Program, references: dict[str, Outcome | Exception]) -> None:
    same(opener, program, references)


@pytest.mark.parametrize("name", list(PROGRAMS)[::SHARE])
def test_program_on_service_over_tls(
    over_tls: tuple[Opener, str], name: str, references: dict[str, Outcome | Exception]
) -> None:
    same(over_tls[0], PROGRAMS[name], references)


def test_without_its_certificate_that_service_is_not_trusted(over_tls: tuple[Opener, str]) -> None:
    _, url = over_tls
    assert url.startswith("wss://")
    with pytest.raises(ServiceError, match="not trusted"):
        rg.Session(url, token="secret", allow_pickle=True)
