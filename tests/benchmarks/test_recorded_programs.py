"""Plans of recorded programs come near their bounds."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
recorded_programs = importlib.import_module("recorded_programs")
sys.path.pop(0)

NEAR = ("assimilation", "ensemble-16-fold", "ensemble-16-stack", "ensemble-8-long", "pipeline", "seismic")


def test_ensembles_a_pipeline_an_assimilation_and_the_examples_are_recorded():
    assert {*NEAR, "digits", "ensemble-16-joint", "ensemble-16-uneven", "ensemble-64-short"} <= {
        *recorded_programs.names()
    }


@pytest.mark.parametrize("name", NEAR)
def test_equal_branches_on_two_workers_take_little_more_than_half_of_the_work(name):
    program = recorded_programs.load(name)
    plan = program.plan(2).plan
    assert plan.predicted_seconds <= 1.05 * program.bound(2)
    assert len(plan.segments) <= 24


@pytest.mark.parametrize("name", recorded_programs.names())
def test_four_workers_are_no_slower_than_two(name):
    program = recorded_programs.load(name)
    assert program.plan(4).plan.predicted_seconds <= 1.02 * program.plan(2).plan.predicted_seconds
