"""Random numbers of user code on Ray: the same as eagerly, on one to three workers (DR-15)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .random_programs import SEEDS, bits, checkpointed, compiled, phases, training

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


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
