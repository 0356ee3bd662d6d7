"""The figures of placement say what they are said to."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch):
    """`benchmarks/planner.py`, imported as `run.py` does, and forgotten afterwards with what it imports beside it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module("planner")
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == FOLDER:
            del sys.modules[name]


def case(planner, family="fft", ccr=1.0, width=10.0, **ratios):
    ratios = {"HEFT": 1.0, "CPOP": 1.0, "PEFT": 1.0, "raygrad": 1.0, **ratios}
    return planner.Case(family, ccr, 100, 4, width, 1.0, ratios, dict.fromkeys(ratios, 1e-5))


def test_one_graph_is_measured_for_each_algorithm(planner):
    found = planner.measured("cholesky", 40, 3, 1.0, 0)
    assert found.nodes == 35
    assert list(found.ratios) == list(found.seconds) == ["HEFT", "CPOP", "PEFT", "raygrad"]
    assert min(found.ratios.values()) >= found.least >= 1
    again = planner.measured("cholesky", 40, 3, 1.0, 0)
    assert again == dataclasses.replace(found, seconds=again.seconds)


def test_a_graph_is_placed_on_mixed_workers_too(planner):
    platform = planner.mixed(8)
    assert platform.speed.tolist() == [8, 1, 1, 1] * 2
    assert platform.slowness == pytest.approx((3 + 1 / 8) / 4)
    found = planner.measured("cholesky", 40, 4, 1.0, 0, planner.MIXED)
    assert min(found.ratios.values()) >= 1
    assert found.named == "cholesky at 1, 35 nodes on 4 mixed workers"


def test_room_above_equal_workers_is_not_claimed_of_mixed_ones(planner):
    cases = [case(planner), dataclasses.replace(case(planner, HEFT=2.0), kind=planner.MIXED)]
    shown = {(row[0], row[1].split(" at ")[0]) for row in planner.summary(cases).rows}
    assert ("all equal", "... and no schedule gains more") in shown
    assert ("all mixed", "... and no schedule gains more") not in shown
    assert ("all mixed", "mean gain over HEFT") in shown


def test_gain_and_distance_to_the_best(planner):
    found = case(planner, HEFT=1.5, CPOP=1.2, PEFT=1.6, raygrad=1.26)
    assert found.gain == pytest.approx(0.16)
    assert found.to_best == pytest.approx(1.05)


def test_aims_are_taken_over_the_cases_that_they_are_about(planner):
    cases = [
        case(planner, ccr=0.1, width=8.0, raygrad=1.21),
        case(planner, ccr=0.1, width=9.0, raygrad=1.0, HEFT=1.44),
        case(planner, ccr=0.1, width=7.9, raygrad=3.0, HEFT=3.0, CPOP=2.0, PEFT=3.0),
        case(planner, ccr=1.0, HEFT=2.0, raygrad=1.5),
        case(planner, ccr=1.0, family="chain", HEFT=2.0, raygrad=2.0, CPOP=2.0),
        case(planner, ccr=5.0, HEFT=2.0, raygrad=2.0, CPOP=2.0, PEFT=2.0),
    ]
    lines = {line[0]: line[1:] for line in planner.aims(cases)}
    assert lines["x bound at 0.1, work/path >= 2 x workers (2)"][:2] == ("1.100", "1.200")
    assert lines["worst x best of the three: chain at 1, 100 nodes on 4 equal workers"][0] == "2.000"
    assert lines["mean gain over HEFT at 1, not chains (1)"][:3] == ("25.0 %", "0.0 %", "50.0 %")
    assert lines["... and no schedule gains more at 1 than"][0] == "50.0 %"
    assert lines["mean gain over HEFT at 5, not chains (1)"][0] == "0.0 %"
    assert lines["planning per node, worst"][:2] == ("10 µs", "10 µs")


def test_a_grid_is_shown_and_kept_as_data(planner):
    measure = importlib.import_module("measure")
    cases = [case(planner), case(planner, HEFT=4.0)]
    grid = planner.by_family([cases])
    assert grid.rows[0][:6] == ("fft", "1", "100", "10.0", "1.000", "2.000")
    shown = measure.table([grid, planner.summary(cases)]).splitlines()
    assert shown[1].startswith(
        "placement on 4 equal workers, 2 graphs each: makespan over max(critical path, work / workers)"
    )
    assert shown[2].split()[:4] == ["family", "comm/comp", "nodes", "work/path"]
    assert shown[3].split()[:5] == ["fft", "1", "100", "10.0", "1.000"]
    (kept,) = measure.as_data([grid], {})["grids"]
    assert kept["records"][1]["ratios"]["HEFT"] == 4.0
