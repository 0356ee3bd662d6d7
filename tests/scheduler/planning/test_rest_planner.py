from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, OnWorker
from raygrad.scheduler.model.progress import RunProgress
from raygrad.scheduler.planning.planner import Planned, make_plan
from raygrad.scheduler.planning.rest_planner import is_worth_replanning, plan_rest

COSTS = Costs(op_seconds=1.0, function_seconds=1.0)


def planned(graph: Any, workers: int = 2, residency: Any = None) -> Planned:
    residency = (-1,) * len(graph.externals) if residency is None else residency
    return make_plan(graph, residency, COSTS, Cluster.of(workers), 0, b"")


def branches(builder: Any, count: int) -> Any:
    """Branches that are segments of their own, since both workers wait for each."""
    build = builder()
    for _ in range(count):
        made = build.op("branch", 0)
        for worker in range(2):
            build.op("reads", made, pin=worker)
        build.keep_on_worker(made)
    return build.graph()


def stuck(one: Planned, worker: int) -> RunProgress:
    """The progress when a worker has run dry, and the other is at its first segment."""
    here = [index for index, segment in enumerate(one.plan.segments) if segment.worker == worker]
    first = next(index for index, segment in enumerate(one.plan.segments) if segment.worker != worker)
    done = [index for index in here if all(source in here for source, _ in one.plan.segments[index].imports)]
    rest = [index for index in range(len(one.plan.segments)) if index not in done and index != first]
    return RunProgress(
        tuple([(index, one.plan.segments[index].predicted_seconds, 1.0) for index in done]),
        ((first, 1.0),),
        tuple(rest),
    )


def test_the_rest_is_divided_anew_and_what_has_begun_stays(builder: Any):
    one = planned(branches(builder, 8))
    progress = stuck(one, 1)
    assert is_worth_replanning(one, progress, (-1,), COSTS, Cluster.of(2), 0.5)
    found = plan_rest(one, progress, (-1,), COSTS, Cluster.of(2))
    assert found is not None
    plan, first = found.plan, len(one.plan.segments)
    begun = {*[index for index, *_ in progress.done], *[index for index, _ in progress.running]}
    for index, segment in enumerate(one.plan.segments):
        assert plan.segments[index].nodes == (segment.nodes if index in begun else ())
    nodes = [node for segment in plan.segments for node in segment.nodes]
    assert sorted(nodes) == list(range(len(found.graph.nodes)))
    assert {segment.worker for segment in plan.segments[first:]} == {0, 1}
    assert plan.hash != one.plan.hash
    assert all(plan.node_worker[node] == segment.worker for segment in plan.segments for node in segment.nodes)
    for value, place in plan.kept.items():
        assert place.segment in begun or place.segment >= first
        assert not isinstance(place, OnWorker) or value in plan.segments[place.segment].pins
    again = plan_rest(one, progress, (-1,), COSTS, Cluster.of(2))
    assert again is not None
    assert again.plan == plan


def test_the_plan_is_kept_where_nothing_is_to_be_gained(builder: Any):
    one = planned(branches(builder, 8))
    progress = RunProgress((), (), tuple(range(len(one.plan.segments))))
    assert not is_worth_replanning(one, progress, (-1,), COSTS, Cluster.of(2), 1.0)


def test_nodes_that_must_run_on_a_worker_stay_there(builder: Any):
    build = builder()
    for number in range(6):
        made = build.op("here", 0, pin=0)
        build.op("there", made, pin=1)
        build.keep_on_worker(made)
        assert number >= 0
    one = planned(build.graph())
    found = plan_rest(one, stuck(one, 1), (-1,), COSTS, Cluster.of(2))
    if found is not None:
        assert found.plan.node_worker == one.plan.node_worker


def test_values_that_later_runs_read_where_they_were_to_be_stay(builder: Any):
    one = planned(branches(builder, 8))
    fixed = frozenset(value for value, place in one.plan.kept.items() if isinstance(place, OnWorker))
    progress = stuck(one, 1)._replace(fixed=fixed)
    found = plan_rest(one, progress, (-1,), COSTS, Cluster.of(2))
    if found is not None:
        for value in fixed:
            assert found.plan.kept[value].worker == one.plan.kept[value].worker  # type: ignore[union-attr]


def test_workers_that_are_lost_get_nothing(builder: Any):
    one = planned(branches(builder, 9), workers=3)
    progress = RunProgress((), (), tuple(range(len(one.plan.segments))), lost=frozenset({2}))
    found = plan_rest(one, progress, (-1,), COSTS, Cluster.of(3))
    assert found is not None
    assert {segment.worker for segment in found.plan.segments[len(one.plan.segments) :]} == {0, 1}


def test_an_open_end_that_has_begun_leaves_the_plan_as_it_is(builder: Any):
    build = builder()
    for _ in range(4):
        build.op("branch", 0)
    build.function("new", 0, outputs=0)
    one = planned(build.graph(open_ended=True))
    last = len(one.plan.segments) - 1
    progress = RunProgress((), ((last, 0.0),), tuple(range(last)))
    assert plan_rest(one, progress, (-1,), COSTS, Cluster.of(2)) is None
    assert not is_worth_replanning(one, progress, (-1,), COSTS, Cluster.of(2), -1e9)


def test_what_segments_of_a_kind_took_is_expected_of_the_others(builder: Any):
    build = builder()
    cheap = [build.op("cheap", 0) for _ in range(4)]
    dear = [build.op("dear", 0) for _ in range(4)]
    for value in (*cheap, *dear):
        for worker in range(2):
            build.op("reads", value, pin=worker)
    one = planned(build.graph())
    slow = [index for index, segment in enumerate(one.plan.segments) if set(segment.nodes) <= {4, 5, 6, 7}]
    progress = RunProgress(((slow[0], 50.0, 0.0),), (), tuple(set(range(len(one.plan.segments))) - {slow[0]}))
    found = plan_rest(one, progress, (-1,), COSTS, Cluster.of(2))
    if found is not None:
        new = [segment for segment in found.plan.segments[len(one.plan.segments) :] if {*segment.nodes} & {5, 6, 7}]
        assert all(segment.predicted_seconds > 10.0 for segment in new)


@pytest.mark.slow
@given(data=st.data())
def test_any_rest_of_any_graph_has_each_node_once_and_reads_what_is_there(graphs: Any, data: Any):
    graph = data.draw(graphs(pins=3, least=4))
    one = planned(graph, 3)
    count = len(one.plan.segments)
    begun: set[int] = set()
    for index, segment in enumerate(one.plan.segments):  # what has begun reads what has begun
        sources = {source for source, _ in segment.imports} | {*segment.after}
        if sources <= begun and data.draw(st.booleans()):
            begun.add(index)
    done = tuple((index, data.draw(st.sampled_from([0.1, 1.0, 9.0])), 0.5) for index in sorted(begun))
    rest = tuple(sorted(set(range(count)) - begun))
    found = plan_rest(one, RunProgress(done, (), rest), (-1,) * len(graph.externals), COSTS, Cluster.of(3))
    if found is None:
        return
    plan, nodes = found.plan, found.graph.nodes
    assert sorted(node for segment in plan.segments for node in segment.nodes) == list(range(len(nodes)))
    for index, segment in enumerate(plan.segments[count:], count):
        program = found.programs[index]
        assert [step.index for step in program.steps] == list(segment.nodes)
        for source, export in segment.imports:
            assert source < index
            assert source in begun or source >= count
            assert index in plan.segments[source].exports[export].readers
        pinned = {value for one in begun for value in plan.segments[one].pins}
        assert all(value < len(graph.externals) or value in pinned for value in segment.externals)
