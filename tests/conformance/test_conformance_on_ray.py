"""Each program of the suite on Ray, with one worker, with three, and with a simulated GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..ray_head import ray_of_its_own
from .harness import SESSIONS_ON_RAY, Opener, Outcome, assert_same, expected_of
from .mixed import ON_RAY, MixedOnRay, check_transfers
from .programs import PROGRAMS, Program

pytestmark = [pytest.mark.ray, pytest.mark.slow]

OBJECT_STORE = 256 * 1024**2


@pytest.fixture(scope="module")
def ray_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Ray of our own, for two sessions at once: that of the last mode is still open when the one with a GPU is. At
    this GPU nobody looks but Ray, and who asks it for one."""
    pytest.importorskip("ray")
    with ray_of_its_own(tmp_path_factory.mktemp("driver"), num_cpus=6, num_gpus=1, object_store_memory=OBJECT_STORE):
        yield


@pytest.fixture(scope="module")
def mode(
    request: pytest.FixtureRequest, references: dict[str, Outcome | Exception], ray_here: None
) -> Iterator[Opener]:
    """What opens sessions: one for all programs, until one fails."""
    opener = Opener(once=True, **SESSIONS_ON_RAY[request.param])
    yield opener
    opener.close()


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
@pytest.mark.parametrize("mode", SESSIONS_ON_RAY, indirect=True)
def test_program(mode: Opener, program: Program, references: dict[str, Outcome | Exception]) -> None:
    expected = expected_of(program, references)
    if program.eager_only:
        pytest.skip(f"eagerly only: {program.eager_only}")
    assert_same(mode.run(program), expected)


@pytest.fixture(scope="module")
def mixed_on_ray(ray_here: None, references: dict[str, Outcome | Exception]) -> Iterator[MixedOnRay]:
    opened = MixedOnRay()
    yield opened
    opened.end()


@pytest.mark.parametrize("name", ON_RAY)
def test_program_with_a_gpu_on_ray(
    mixed_on_ray: MixedOnRay, name: str, references: dict[str, Outcome | Exception]
) -> None:
    expected = expected_of(PROGRAMS[name], references)
    outcome, asked, listed, brought = mixed_on_ray.run(PROGRAMS[name])
    assert_same(outcome, expected)
    check_transfers(PROGRAMS[name], asked, listed, brought)
