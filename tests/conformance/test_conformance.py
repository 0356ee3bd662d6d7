"""Each program of the suite in each mode: eagerly, on the host and on a simulated GPU; in sessions, on hosts alone and
with simulated GPUs; and under torch."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator

import pytest

from .contract import SECTIONS as SECTIONS
from .harness import SESSIONS, Outcome, Watched, assert_close, assert_same, run_here, run_in
from .mixed import AWAY_FROM_RAY, FAILING, ON_RAY, READING, SHOWN_ELSEWHERE, MixedOnRay, check_transfers, run_mixed
from .programs import PROGRAMS, Program
from .standin import HOST_ONLY, run_on_stand_in

RAY_MARKS = [pytest.mark.ray, pytest.mark.slow]
MARKS = {"torch": [pytest.mark.oracle], "ray1": RAY_MARKS, "ray3": RAY_MARKS}
OBJECT_STORE = 256 * 1024**2
MODES = [pytest.param(mode, marks=MARKS.get(mode, [])) for mode in ("eager", "standin", "mixed", "torch", *SESSIONS)]


@pytest.fixture(scope="module")
def references() -> dict[str, Outcome | Exception]:
    """What each program gives eagerly, or wrongly raises: computed before any session is open."""
    return {name: _eagerly(program) for name, program in PROGRAMS.items()}


def _eagerly(program: Program) -> Outcome | Exception:
    try:
        return run_here(program, "raygrad")
    except Exception as error:  # shown by every test of that program
        return error


@pytest.fixture(scope="module")
def ray_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Ray of our own, started from a folder outside the repository: it puts that folder on every worker's path."""
    ray = pytest.importorskip("ray")
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("driver"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            num_cpus=6,  # for two sessions at once: that of the last mode is still open when the one with a GPU is
            num_gpus=1,  # which nobody looks at but Ray, and who asks it for one
            object_store_memory=OBJECT_STORE,
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    yield
    ray.shutdown()
    os.chdir(before)


class Opener:
    """Opens the session of a mode when it is asked for: one for each program in process, one for all on Ray.

    After a failure the next program gets a new one, so that a failing program does not take others with it.
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.watched: Watched | None = None

    def run(self, program: Program) -> Outcome:
        if self.watched is None:
            self.watched = Watched(**SESSIONS[self.mode])
        try:
            outcome = run_in(program, self.watched)
        except BaseException:
            self.close(discard=True)
            raise
        if not self.mode.startswith("ray"):
            self.close()
        return outcome

    def close(self, discard: bool = False) -> None:
        watched, self.watched = self.watched, None
        if watched is not None:
            watched.close(discard)


@pytest.fixture(scope="module")
def mode(request: pytest.FixtureRequest, references: dict[str, Outcome | Exception]) -> Iterator[str | Opener]:
    """The library to run eagerly with, or what opens sessions."""
    if request.param in SESSIONS:
        if request.param.startswith("ray"):
            request.getfixturevalue("ray_here")
        opener = Opener(request.param)
        yield opener
        opener.close()
    else:
        yield pytest.importorskip("torch").__name__ if request.param == "torch" else request.param


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
@pytest.mark.parametrize("mode", MODES, indirect=True)
def test_program(mode: str | Opener, program: Program, references: dict[str, Outcome | Exception]) -> None:
    expected = references[program.name]
    if isinstance(expected, Exception):
        raise AssertionError(f"eagerly: {type(expected).__name__}: {expected}") from expected
    if program.errors is not None:
        assert expected.error is not None, f"eagerly no {program.errors.__name__} was raised"
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


@pytest.fixture(scope="module")
def mixed_on_ray(ray_here: None, references: dict[str, Outcome | Exception]) -> Iterator[MixedOnRay]:
    opened = MixedOnRay()
    yield opened
    opened.end()


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("name", ON_RAY)
def test_program_with_a_gpu_on_ray(
    mixed_on_ray: MixedOnRay, name: str, references: dict[str, Outcome | Exception]
) -> None:
    expected = references[name]
    if isinstance(expected, Exception):
        raise AssertionError(f"eagerly: {type(expected).__name__}: {expected}") from expected
    outcome, asked, listed, brought = mixed_on_ray.run(PROGRAMS[name])
    assert_same(outcome, expected)
    check_transfers(PROGRAMS[name], asked, listed, brought)


def test_what_is_said_of_devices_is_said_of_programs() -> None:
    assert {*HOST_ONLY, *SHOWN_ELSEWHERE, *AWAY_FROM_RAY, *FAILING, *READING} <= set(PROGRAMS)
    assert len(ON_RAY) > 100


def test_programs_are_given_their_library() -> None:
    for program in PROGRAMS.values():
        names = vars(sys.modules[program.run.__module__])
        assert not {"torch", "raygrad", "rg"} & set(names), program.run.__module__
