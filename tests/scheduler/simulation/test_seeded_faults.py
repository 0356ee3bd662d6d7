"""What a session loses with its workers is made again, whatever dies whenever (H2, H13, H18); see `seeded_faults`."""

from __future__ import annotations

import pytest

from raygrad.proto.ir.nodes import Spill
from raygrad.scheduler.machine import recovery_copies
from raygrad.scheduler.simulation.scenario import ObjectLoss

from .seeded_faults import Trial, try_seeds

SEEDS = 150
"""By hand: `python -m tests.scheduler.simulation.seeded_faults 0 20000`."""


def test_whatever_dies_whenever_everything_ends_and_nothing_that_can_be_made_again_is_lost():
    assert try_seeds(0, SEEDS) == []


def test_some_of_these_trials_lose_something_and_run_nodes_again():
    shown = [Trial(seed).check() for seed in range(60)]
    again = [one for one in shown if any([nodes for _, _, nodes in one.recoveries])]
    assert len(again) >= 3


def test_runs_are_forgotten_once_copies_make_them_unnecessary(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recovery_copies, "MOST_RETAINED", 0)
    trials = [Trial(seed) for seed in range(100)]
    for trial in [one for one in trials if one.recovery_time < float("inf")]:
        trial.check()


def test_without_a_recovery_time_runs_are_forgotten_and_what_they_made_is_lost_with_its_worker(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(recovery_copies, "MOST_RETAINED", 0)
    lost = 0
    for trial in [one for one in map(Trial, range(200)) if one.recovery_time == float("inf")]:
        lost += len(trial.run().lost_values)
    assert lost


def test_objects_may_be_lost_apart_from_workers():
    assert try_seeds(0, SEEDS, objects=True) == []


def test_what_is_lost_in_objects_of_runs_that_go_on_is_made_again():
    """Of runs that have ended, not all can be."""
    recovered = failed = 0
    for trial in [Trial(seed, objects=True) for seed in range(200)]:
        trial.failures = [one for one in trial.failures if isinstance(one, ObjectLoss)]
        shown = trial.check()
        recovered += any([nodes for _, _, nodes in shown.recoveries])
        failed += len(shown.finished) < len(trial.submissions)
    assert recovered >= 5
    assert failed <= recovered / 10


def test_nothing_is_computed_from_two_attempts_at_an_impure_function():
    assert try_seeds(0, SEEDS // 2, impure=True) == []


def test_what_is_lost_where_memory_is_limited_is_made_again():
    trials = [Trial(seed, limits=True) for seed in range(SEEDS)]
    shown = [trial.check() for trial in trials]
    spilled = [
        any([isinstance(node, Spill) for node in one.planned.graph.nodes])
        for trial in trials
        for one in trial.submissions
    ]
    assert sum(spilled) >= SEEDS / 10
    assert sum([any([nodes for _, _, nodes in one.recoveries]) for one in shown]) >= 3


@pytest.mark.slow
def test_four_hundred_more():
    assert try_seeds(SEEDS, SEEDS + 400) == []


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("limits", 6168),  # what was spilled again, since its first handle was used up, and then not read after all
        ("limits", 11311),  # a handle of what was spilled, which no copy can stand for
        ("limits", 12996),  # what nobody needed when it was lost, and a recovery made again for its own segments
        ("impure", 1428),  # a read between a plan of the recovery and what it makes void
        ("impure", 5445),  # what waits for a worker that comes when all else is over
    ],
)
def test_trials_that_failed_once(kind: str, seed: int):
    Trial(seed, **{kind: True}).check()
