"""Each program of the suite through a service, in a process of its own, with a token and code by value."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..service.servers import server_process
from .harness import Opener, Outcome, assert_same, expected_of
from .programs import PROGRAMS, Program


@pytest.fixture(scope="module")
def opener() -> Iterator[Opener]:
    """What opens one session for all programs, on one service."""
    with server_process(token="secret", allow_pickle=True) as (url, _):
        opener = Opener(once=True, address=url, token="secret", allow_pickle=True)
        yield opener
        opener.close()


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_program_on_service(opener: Opener, program: Program, references: dict[str, Outcome | Exception]) -> None:
    expected = expected_of(program, references)
    if program.eager_only:
        pytest.skip(f"eagerly only: {program.eager_only}")
    assert_same(opener.run(program), expected)
