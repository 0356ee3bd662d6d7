"""Each program of the suite in each mode of this process: eagerly, on the host and on a simulated GPU; in sessions, on
hosts alone and with simulated GPUs; and under torch. Those on Ray are in `test_conformance_on_ray`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from .contract import SECTIONS as SECTIONS
from .harness import SESSIONS_IN_PROCESS, Opener, Outcome, assert_close, assert_same, expected_of, run_here
from .mixed import AWAY_FROM_RAY, FAILING, ON_RAY, READING, SHOWN_ELSEWHERE, check_transfers, run_mixed
from .programs import PROGRAMS, Program
from .standin import HOST_ONLY, run_on_stand_in

MODES = ["eager", "standin", "mixed", pytest.param("torch", marks=pytest.mark.oracle), *SESSIONS_IN_PROCESS]


@pytest.fixture(scope="module")
def mode(request: pytest.FixtureRequest, references: dict[str, Outcome | Exception]) -> Iterator[str | Opener]:
    """The library to run eagerly with, or what opens sessions: one for each program."""
    if request.param in SESSIONS_IN_PROCESS:
        opener = Opener(once=False, **SESSIONS_IN_PROCESS[request.param])
        yield opener
        opener.close()
    else:
        yield pytest.importorskip("torch").__name__ if request.param == "torch" else request.param


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
@pytest.mark.parametrize("mode", MODES, indirect=True)
def test_program(mode: str | Opener, program: Program, references: dict[str, Outcome | Exception]) -> None:
    expected = expected_of(program, references)
    if isinstance(mode, Opener):
        if program.eager_only:
            pytest.skip(f"eagerly only: {program.eager_only}")
        assert_same(mode.run(program), expected)
    elif mode == "standin":
        if program.name in HOST_ONLY:
            pytest.skip(f"on the host only: {HOST_ONLY[program.name]}")
        assert_same(run_on_stand_in(program), expected)
    elif mode == "mixed":
        away = {**HOST_ONLY, **SHOWN_ELSEWHERE}.get(program.name) or program.eager_only
        if away:
            pytest.skip(f"not on workers with GPUs: {away}")
        outcome, asked, listed = run_mixed(program)
        assert_same(outcome, expected)
        check_transfers(program, asked, listed)
    elif mode == "torch":
        if not program.torch:
            pytest.skip("for raygrad alone")
        assert_close(expected, run_here(program, mode), program.rtol)
    else:
        assert_same(run_here(program, "raygrad"), expected)


def test_what_is_said_of_devices_is_said_of_programs() -> None:
    assert {*HOST_ONLY, *SHOWN_ELSEWHERE, *AWAY_FROM_RAY, *FAILING, *READING} <= set(PROGRAMS)
    assert len(ON_RAY) > 100


def test_programs_are_given_their_library() -> None:
    for program in PROGRAMS.values():
        names = vars(sys.modules[program.run.__module__])
        assert not {"torch", "raygrad", "rg"} & set(names), program.run.__module__
