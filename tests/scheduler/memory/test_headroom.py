"""Headroom: the bytes that values of earlier runs may occupy beside a plan."""

from __future__ import annotations

from typing import Any

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan

ITEMS = 1000
ARRAY = 8 * ITEMS


def beside(graph: Any, residency: tuple[int, ...], limits: Any, workers: int = 1) -> Any:
    cluster = Cluster.of(workers).limited(limits)
    return make_plan(graph, residency, Costs(), cluster, 0, b"").plan


def test_what_a_plan_does_not_need_is_left_for_others(builder: Any) -> None:
    build = builder(size=ITEMS)
    build.keep_on_worker(build.op("sin", 0))
    plan = beside(build.graph(), (-1,), 10 * ARRAY)
    assert plan.peaks == (("cpu", (2 * ARRAY,)),)
    assert plan.headroom == (("cpu", (8 * ARRAY,)),)


def test_what_was_there_and_is_read_is_part_of_what_the_plan_needs(builder: Any) -> None:
    build = builder(size=ITEMS)
    build.keep_on_worker(build.op("sin", 0))
    assert beside(build.graph(), (0,), 10 * ARRAY).headroom == (("cpu", (8 * ARRAY,)),)


def test_a_segment_that_reads_less_than_its_run_leaves_that_room_too(builder: Any) -> None:
    build = builder(externals=2, size=ITEMS)
    first = build.op("sin", 0, pin=0)
    there = build.op("cos", first, pin=1)
    build.keep_on_worker(build.op("add", there, 1, pin=0))
    plan = beside(build.graph(), (0, 0), [10 * ARRAY, None], 2)
    peak = plan.peaks[0][1][0]
    own = [segment.worker == 0 for segment in plan.segments]
    assert own == [True, False, True]
    assert plan.headroom == (("cpu", (11 * ARRAY - peak, -1, 11 * ARRAY - peak)),)


def test_without_limits_nothing_is_said(builder: Any) -> None:
    build = builder(size=ITEMS)
    build.keep_on_worker(build.op("sin", 0))
    assert beside(build.graph(), (-1,), None).headroom == ()


def test_what_is_spilled_first_is_not_counted_as_there(builder: Any) -> None:
    build = builder(externals=6, size=ITEMS)
    for external in range(6):
        build.keep_on_worker(build.op("sin", external))
    plan = beside(build.graph(), (0,) * 6, 4 * ARRAY)
    assert plan.peaks[0][1][0] <= 4 * ARRAY
    assert 0 <= plan.headroom[0][1][0] <= 4 * ARRAY


def test_what_was_there_and_is_not_read_by_a_segment_is_not_left_for_others(builder: Any) -> None:
    """Each worker holds an external from the start; the segment of the second alone reads what it has."""
    build = builder(externals=3, size=ITEMS)
    build.keep_on_worker(build.op("sin", 0, pin=0), build.op("cos", 2, pin=1))
    plan = beside(build.graph(), (-1, 0, 1), 10 * ARRAY, 2)
    assert plan.peaks == (("cpu", (3 * ARRAY, 2 * ARRAY)),)
    rooms = {segment.worker: room for segment, room in zip(plan.segments, plan.headroom[0][1], strict=True)}
    assert rooms == {0: 8 * ARRAY, 1: 8 * ARRAY}, "what the plan does not read is for the worker to count"


def test_what_a_segment_reads_from_another_worker_was_not_there_before(builder: Any) -> None:
    """Both externals are read by the only segment; one of them is on its worker from the start."""
    build = builder(externals=2, size=ITEMS)
    build.keep_on_worker(build.op("add", 0, 1, pin=0))
    plan = beside(build.graph(), (0, 1), 10 * ARRAY, 2)
    assert [segment.worker for segment in plan.segments] == [0]
    assert plan.segments[0].externals == (0, 1)
    assert plan.headroom == (("cpu", (10 * ARRAY - plan.peaks[0][1][0],)),)
