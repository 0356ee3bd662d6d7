"""Which nodes run again after a loss, and in which segments (H2, H10, H18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.progress import RunProgress, RunRemains
from raygrad.scheduler.planning.planner import Planned, make_plan
from raygrad.scheduler.planning.recovery_planner import RunToRecover, find_nodes_to_run, plan_recovery, recover

COSTS = Costs(op_seconds=0.1)


def remains(planned: Planned, **changed: Any) -> RunRemains:
    """A run that has ended on worker 0, which died with all that it had."""
    segments = tuple(range(len(planned.plan.segments)))
    progress = RunProgress(done=tuple([(one, 0.1, 1.0) for one in segments]), running=(), rest=(), lost=frozenset({0}))
    made = RunRemains(
        run=0,
        progress=progress,
        exports=frozenset(),
        pins={},
        alive=frozenset(),
        wanted=frozenset(),
        owned=frozenset(),
        gone=frozenset(segments),
        dead=frozenset({0}),
        damaged=False,
    )
    return made._replace(**changed)


@pytest.fixture
def chain(builder: Any) -> Planned:
    """Four ops, one after the other, of which the client keeps the second and the last; all on worker 0."""
    build = builder()
    value = 0
    for place in range(4):
        value = build.op("o", value)
        if place % 2:
            build.keep_on_worker(value)
    return make_plan(build.graph(), (-1,), COSTS, Cluster.of(1), 0, b"")


def test_only_what_is_wanted_runs_again_with_what_it_takes(chain: Planned):
    found = find_nodes_to_run({0: RunToRecover(chain, remains(chain, wanted=frozenset({2})), (None,))})
    assert found.runs[0].nodes == [0, 1]
    assert found.runs[0].again == (0, 1)
    assert not found.hopeless


def test_what_is_left_is_not_made_again(chain: Planned):
    left = remains(chain, wanted=frozenset({4}), alive=frozenset({2}), pins={2: (0, -1)})
    assert find_nodes_to_run({0: RunToRecover(chain, left, (None,))}).runs[0].nodes == [2, 3]


def test_nothing_runs_where_nothing_is_wanted(chain: Planned):
    assert not find_nodes_to_run({0: RunToRecover(chain, remains(chain), (None,))}).runs


def test_a_later_run_has_what_it_reads_made_again_in_the_run_that_made_it(chain: Planned):
    later = remains(chain, wanted=frozenset({2}))._replace(run=1)
    runs = {0: RunToRecover(chain, remains(chain), (None,)), 1: RunToRecover(chain, later, ((0, 4),))}
    found = find_nodes_to_run(runs)
    assert {run: nodes.nodes for run, nodes in found.runs.items()} == {0: [0, 1, 2, 3], 1: [0, 1]}
    assert 4 in found.runs[0].owned


def test_a_run_that_reads_from_one_that_is_forgotten_is_hopeless(chain: Planned):
    later = remains(chain, wanted=frozenset({2}))._replace(run=1)
    assert find_nodes_to_run({1: RunToRecover(chain, later, ((0, 4),))}).hopeless == {1}


def test_where_memory_is_limited_new_segments_are_small(chain: Planned):
    """What a call brings stays in memory until it ends; all else a worker evicts by itself."""
    lost = remains(chain, wanted=frozenset({4}), owned=frozenset({2, 4}))
    lost = lost._replace(
        progress=lost.progress._replace(done=tuple([(one, 1e-6, 1.0) for one, *_ in lost.progress.done]))
    )
    array = 32
    for limit, segments in ((4 * 5 * array, 1), (4 * 3 * array, 2), (array, 4)):
        spaces = (("cpu", (limit, limit)),)
        limited = chain._replace(
            plan=replace(chain.plan, limits=spaces, headroom=(("cpu", (0,) * len(chain.plan.segments)),))
        )
        run = RunToRecover(limited, lost, (None,))
        planned = plan_recovery(run, find_nodes_to_run({0: run}).runs[0], (-1,), Costs(op_seconds=1e-6), Cluster.of(2))
        new = planned.plan.segments[len(chain.plan.segments) :]
        assert [node for one in new for node in one.nodes] == [0, 1, 2, 3]
        assert len(new) == segments
        assert planned.plan.limits == spaces
        assert [len(rooms) for _, rooms in planned.plan.headroom] == [len(planned.plan.segments)]


def test_new_segments_are_on_workers_that_live(chain: Planned):
    lost = remains(chain, wanted=frozenset({4}), owned=frozenset({2, 4}))
    run = RunToRecover(chain, lost, (None,))
    found = find_nodes_to_run({0: run})
    planned = plan_recovery(run, found.runs[0], (-1,), COSTS, Cluster.of(2))
    new = planned.plan.segments[len(chain.plan.segments) :]
    assert {one.worker for one in new} == {1}
    assert [node for one in new for node in one.nodes] == [0, 1, 2, 3]
    assert {*planned.plan.kept} == {2, 4}


def test_what_a_running_segment_drops_is_waited_for(builder: Any):
    build = builder()
    first = build.op("o", 0, pin=0)
    second = build.op("o", first, pin=1)
    third = build.op("o", second, pin=1)
    build.keep_on_worker(third)
    planned = make_plan(build.graph(), (-1,), COSTS, Cluster.of(2), 0, b"")
    segments = planned.plan.segments
    running = next(
        (index for index, one in enumerate(segments) if any([last for _, last in one.unpins])), len(segments) - 1
    )
    drops = segments[running]._replace(unpins=((second, True),))
    planned = planned._replace(
        plan=replace(planned.plan, segments=(*segments[:running], drops, *segments[running + 1 :]))
    )
    lost = remains(planned, wanted=frozenset({third}))
    lost = lost._replace(progress=lost.progress._replace(running=((running, 0.1),)))
    adopted: list[int] = []
    outcome = recover(
        {0: RunToRecover(planned, lost, (None,))}, lambda _: (-1,), COSTS, Cluster.of(2), lambda *one: adopted.append(0)
    )
    assert outcome.waits_for == ((0, running),)
    assert not adopted


def test_what_a_dead_worker_has_stored_ties_nothing_to_it(builder: Any):
    """A vjp runs where its context was made; one whose context is in the store runs anywhere (H10)."""
    build = builder(2)
    build.externals[0] = 0  # a context
    gradient = build.function_vjp("f", 0, 1, -1)
    build.keep_on_worker(gradient)
    planned = make_plan(build.graph(), (0, -1), COSTS, Cluster.of(2), 0, b"")
    rest = tuple(range(len(planned.plan.segments)))
    progress = RunProgress(done=(), running=(), rest=rest, lost=frozenset({0}))
    left = remains(planned, progress=progress, gone=frozenset(), owned=frozenset({gradient}), damaged=True)
    adopted: list[Planned] = []
    outcome = recover(
        {1: RunToRecover(planned, left._replace(run=1), (None, None))},
        lambda _: (0, -1),
        COSTS,
        Cluster.of(2).without(0),
        lambda run, found, nodes: adopted.append(found),
    )
    assert not outcome.hopeless
    assert adopted[0].plan.node_worker == (1,)
