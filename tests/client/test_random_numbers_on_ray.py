"""Random numbers of user code on Ray: the same as eagerly, on one to three workers (DR-15)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import raygrad as rg
from raygrad import chaos

from .random_programs import SEEDS, bits, checkpointed, compiled, phases, training

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_program_draws_the_same_for_every_seed(ray_started: Any, workers: int) -> None:
    programs = (training, checkpointed, phases)
    expected = [[bits(program, seed) for program in programs] + [bits(compiled, seed)] for seed in SEEDS]
    with rg.Session("ray", workers=workers) as session:
        for seed, drawn in zip(SEEDS, expected, strict=True):
            assert [bits(program, seed) for program in programs] == drawn[:-1]
            assert bits(compiled, seed, session.compile) == drawn[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "phase"), [(1, "node"), (2, "stored"), (3, "reply")])
def test_what_a_killed_worker_had_to_do_again_draws_the_same(ray_started: Any, workers: int, phase: Any) -> None:
    programs = [partial(training, create_graph=True), checkpointed, phases]
    for number, seed in enumerate(SEEDS):
        order = [*programs[number:], *programs[:number]]  # each is the one during which a worker dies
        expected = [bits(program, seed) for program in order]
        with rg.Session("ray", workers=workers) as session:
            (rg.ones(2) * 2.0).tolist()  # the workers are up
            with chaos.inject(session, chaos.Kill(0, chaos.Point(phase, 3))) as injected:
                assert [bits(program, seed) for program in order] == expected
                assert len(injected.happened) == 1


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_user_code_draws_what_it_draws_eagerly(ray_started: Any, workers: int) -> None:
    for seed in SEEDS:
        expected = [bits(training, seed), bits(training, seed, create_graph=True)]
        with rg.Session("ray", workers=workers):
            assert [bits(training, seed), bits(training, seed, create_graph=True)] == expected


def test_regions_replays_and_forwards_that_run_again_draw_the_same(ray_started: Any) -> None:
    expected = [bits(program, 1) for program in (checkpointed, phases, compiled, training)]
    with rg.Session("ray", workers=2) as session:
        made = [bits(checkpointed, 1), bits(phases, 1), bits(compiled, 1, session.compile)]
    with rg.Session("ray", workers=2, saved="recompute"):
        made.append(bits(training, 1))
    assert made == expected
