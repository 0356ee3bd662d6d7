import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from raygrad.errors import PlanError
from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.memory import execution_order as order
from raygrad.scheduler.memory.execution_order import blocks_of_sequences, chain_segments, min_memory_order, order_nodes
from raygrad.scheduler.memory.memory_ledger import MemoryUse
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges
from raygrad.scheduler.placing.place import place
from raygrad.scheduler.planning.planner import Planned, Planner, make_plan
from raygrad.scheduler.segments.lowering import lower
from raygrad.scheduler.segments.segmenter import split_blocks
from raygrad.scheduler.segments.transfers import plan_transfers
from raygrad.scheduler.simulation.simulate import simulate

from ..machine.invariants import check_invariants

STAGES, BATCHES = 4, 16
FORWARD, BACKWARD = 1e-2, 2e-2
CONTEXT, ACTIVATION = 4096, 32


class StageCosts(Costs):
    """All stages take the same time; backward twice that of forward."""

    def node_seconds(self, node, inputs, outputs):
        return BACKWARD if node.depth else FORWARD


COSTS = StageCosts(context_bytes=CONTEXT)
FREE = StageCosts(context_bytes=CONTEXT, call_seconds=0.0, hop_seconds=0.0, bandwidth=1e18)


def pipeline(builder, stages=STAGES, batches=BATCHES, pin=lambda stage: stage, together=True):
    """Microbatches through stages that are pinned to workers, forward and backward; recorded all forwards first, or
    one microbatch after the other."""
    build = builder(externals=batches)
    tapes, losses = [], []

    def forward(batch):
        value, tape = batch, []
        for stage in range(stages):
            context, out = build.function("f", value, pin=pin(stage))
            tape.append((context, value))
            value = out
        tapes.append(tape)
        losses.append(value)

    def backward(batch):
        gradient = losses[batch]
        for context, argument in reversed(tapes[batch]):
            gradient = build.function_vjp("f", context, gradient, argument)

    for batch in range(batches):
        forward(batch)
        if not together:
            backward(batch)
    if together:
        for batch in range(batches):
            backward(batch)
    return build.graph()


def room_for(microbatches):
    """Memory for so many microbatches between forward and backward, and for the gradients of one."""
    return microbatches * (CONTEXT + ACTIVATION) + 4 * ACTIVATION


def cluster_of(*memory):
    return Cluster(tuple(WorkerSpec(f"worker {index}", memory=one) for index, one in enumerate(memory)))


def planned(graph, cluster, costs=COSTS):
    return make_plan(graph, (-1,) * len(graph.externals), costs, cluster, 0, b"")


def letters(graph, plan, worker):
    return "".join(
        "B" if graph.nodes[index].depth else "F"
        for segment in plan.segments
        if segment.worker == worker
        for index in segment.nodes
    )


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("in_order", [True, False])
def test_microbatches_under_a_limit_run_one_forward_one_backward(builder, together, in_order):
    """Stage s of S keeps at most S - s microbatches, as in 1F1B, and the time is that of 1F1B: (S - 1) / (M + S - 1)
    of it is the bubble."""
    graph = pipeline(builder, together=together)
    cluster = cluster_of(*(room_for(STAGES - stage) for stage in range(STAGES)))
    made = planned(graph, cluster, FREE)
    for stage in range(STAGES):
        warm = STAGES - stage
        assert letters(graph, made.plan, stage) == "F" * warm + "BF" * (BATCHES - warm) + "B" * warm
    shown = simulate(made, cluster, FREE, in_order=in_order, watch=check_invariants)
    for stage, peak in enumerate(shown.peak_saved):
        assert peak <= (STAGES - stage) * (CONTEXT + ACTIVATION)
    assert shown.makespan == pytest.approx((BATCHES + STAGES - 1) * (FORWARD + BACKWARD))


def written_down(graph, cluster, costs):
    """The plan of 1F1B itself: each stage's nodes in the order of the literature."""
    residency = (-1,) * BATCHES
    priced = PricedGraph(graph, costs)
    sequences = []
    for stage in range(STAGES):
        warm = STAGES - stage
        forward = [STAGES * batch + stage for batch in range(BATCHES)]
        backward = [STAGES * (BATCHES + batch) + STAGES - 1 - stage for batch in range(BATCHES)]
        steady = [index for pair in zip(backward, forward[warm:], strict=False) for index in pair]
        sequences.append([*forward[:warm], *steady, *backward[BATCHES - warm :]])
    node_worker = [index % STAGES for index in range(STAGES * BATCHES)]
    node_worker += [STAGES - 1 - index % STAGES for index in range(STAGES * BATCHES)]
    links = node_edges(priced)
    blocks = split_blocks(
        priced, links, blocks_of_sequences(links, sequences, node_worker), node_worker, residency, costs
    ).blocks
    plan = replace(planned(graph, cluster, costs).plan, segments=plan_transfers(priced, blocks, residency).segments)
    return Planned(plan, lower(graph, plan), graph)


@pytest.mark.parametrize("costs", [FREE, COSTS, replace(COSTS, hop_seconds=5e-3)])
def test_the_bubble_is_within_five_percent_of_that_of_1f1b(builder, costs):
    """Against 1F1B written down by hand, in the same simulation, also where calls and hops cost something."""
    graph = pipeline(builder)
    cluster = cluster_of(*(room_for(STAGES - stage) for stage in range(STAGES)))
    made = simulate(planned(graph, cluster, costs), cluster, costs)
    known = simulate(written_down(graph, cluster, costs), cluster, costs)
    work = BATCHES * (FORWARD + BACKWARD)
    assert made.makespan - work <= 1.05 * (known.makespan - work)
    assert all(mine <= theirs for mine, theirs in zip(made.peak_saved, known.peak_saved, strict=True))


@pytest.mark.parametrize("microbatches", [1, 2, 3])
def test_less_memory_takes_longer_and_is_kept_to(builder, microbatches):
    graph = pipeline(builder)
    cluster = cluster_of(*[room_for(microbatches)] * STAGES)
    made = simulate(planned(graph, cluster, FREE), cluster, FREE)
    assert max(made.peak_saved) <= microbatches * (CONTEXT + ACTIVATION)
    more = cluster_of(*[room_for(microbatches + 1)] * STAGES)
    assert simulate(planned(graph, more, FREE), more, FREE).makespan < made.makespan


def test_jitter_and_slow_workers_do_not_make_a_worker_pass_its_limit(builder):
    graph = pipeline(builder)
    cluster = cluster_of(*(room_for(STAGES - stage) for stage in range(STAGES)))
    made = planned(graph, cluster)
    for seed in range(5):
        shown = simulate(
            made,
            cluster,
            COSTS,
            in_order=False,
            jitter=1.0,
            speeds=(4.0, 1.0, 0.5, 1.0),
            seed=seed,
            watch=check_invariants,
        )
        for stage, peak in enumerate(shown.peak_saved):
            assert peak <= (STAGES - stage) * (CONTEXT + ACTIVATION)


def test_stages_that_share_workers_come_to_an_end_within_little_memory(builder):
    """Worker 0 has stages 0 and 2, worker 1 has 1 and 3: who fills its memory with first stages is stuck."""
    graph = pipeline(builder, pin=lambda stage: stage % 2)
    cluster = cluster_of(room_for(2), room_for(2))
    made = planned(graph, cluster)
    shown = simulate(made, cluster, COSTS, watch=check_invariants)
    assert shown.finished
    assert max(shown.peak_saved) <= room_for(2)


def test_too_little_memory_is_refused_with_what_would_do(builder):
    graph = pipeline(builder)
    with pytest.raises(PlanError, match=r"worker 1 has memory=4000 and needs memory=\d+") as raised:
        planned(graph, cluster_of(None, 4000, None, None))
    needed = int(re.findall(r"needs memory=(\d+)", str(raised.value))[0])
    assert planned(graph, cluster_of(None, needed, None, None)).plan.segments
    with pytest.raises(PlanError, match=f"needs memory={needed}"):
        planned(graph, cluster_of(None, needed - 1, None, None))


def test_a_refusal_tells_of_each_memory_that_is_too_small_and_what_it_is_about(builder):
    build = builder(externals=2, size=1000)
    there = build.spec(ArraySpec((1000,), "float64", "cuda:0"))
    build.externals[1] = there
    build.op("add", 0, 0)
    build.op("add", 1, 1, spec=there)
    spec = WorkerSpec("worker 0", ("cpu", "cuda:0"), memory=9000, gpu_memory=8000)
    with pytest.raises(PlanError) as raised:
        planned(build.graph(), Cluster((spec,)))
    assert re.findall(r"needs (\w+=\d+)", str(raised.value)) == ["gpu_memory=16000", "memory=16000"]
    assert "these figures are for what was submitted together, and what comes later may need more" in str(raised.value)


def test_what_is_there_from_the_start_takes_room(builder):
    build = builder(externals=2)
    build.op("add", 0, 1, pin=0)
    graph = build.graph()
    assert make_plan(graph, (0, -1), COSTS, cluster_of(96), 0, b"").plan.segments
    with pytest.raises(PlanError, match="needs memory=96"):
        make_plan(graph, (0, -1), COSTS, cluster_of(95), 0, b"")


def test_a_worker_with_a_limit_is_held_to_its_order(builder):
    graph = pipeline(builder, stages=2, batches=4)
    held = planned(graph, cluster_of(room_for(2), None)).plan.segments
    mine = [index for index, segment in enumerate(held) if segment.worker == 0]
    assert all(before in held[index].after for before, index in pairwise(mine))
    free = planned(graph, Cluster.of(2)).plan.segments
    assert chain_segments(free, Cluster.of(2)) == free


def test_much_memory_is_not_wasted_even_without_a_limit(builder):
    """Each stage keeps about as little as in 1F1B, at no cost in time; all forwards first would keep all sixteen."""
    costs = replace(FREE, context_bytes=2**22)
    graph = pipeline(builder)
    assert sum(PricedGraph(graph, costs).size) > order.WORTH_BYTES
    made = simulate(planned(graph, Cluster.of(STAGES), costs), Cluster.of(STAGES), costs)
    assert made.makespan <= order.EQUALLY_FAST * (BATCHES + STAGES - 1) * (FORWARD + BACKWARD)
    assert max(made.peak_saved) <= 6 * 2**22


def test_little_memory_is_not_worth_another_order(builder):
    graph = pipeline(builder)
    priced = PricedGraph(graph, COSTS)
    placed = place(priced, (-1,) * BATCHES, COSTS, Cluster.of(STAGES))
    blocks = order_nodes(priced, placed.blocks, placed.node_worker, (-1,) * BATCHES, COSTS, Cluster.of(STAGES)).blocks
    assert blocks == placed.blocks


def test_a_thrifty_order_ends_what_it_has_begun(builder):
    graph = pipeline(builder, stages=2, batches=3)
    priced = PricedGraph(graph, COSTS)
    made = min_memory_order(priced, node_edges(priced))
    assert "".join("B" if graph.nodes[index].depth else "F" for index in made) == "FFBB" * 3


@pytest.mark.slow
@given(data=st.data())
def test_any_graph_within_any_limits_is_ordered_or_refused_with_limits_that_do(graphs, data):
    graph = data.draw(graphs(pins=3, least=3))
    limits = data.draw(st.lists(st.none() | st.integers(0, 9000), min_size=3, max_size=3))
    residency = tuple(data.draw(st.integers(-1, 2)) for _ in graph.externals)
    costs = Costs(function_seconds=1e-2)
    try:
        made = make_plan(graph, residency, costs, cluster_of(*limits), 0, b"")
    except PlanError as error:
        needs = {int(worker): int(size) for worker, size in re.findall(r"worker (\d).*?needs memory=(\d+)", str(error))}
        assert needs
        limits = [needs.get(worker, limit) for worker, limit in enumerate(limits)]
        made = make_plan(graph, residency, costs, cluster_of(*limits), 0, b"")
    plan = made.plan
    rewriter = PricedGraph(made.graph, costs)
    use = MemoryUse(rewriter, plan.node_worker, residency, 3)
    for worker, limit in enumerate(limits):
        mine = [segment.nodes for segment in plan.segments if segment.worker == worker]
        if limit is not None and mine:
            assert use.peak(worker, [index for nodes in mine for index in nodes]) <= limit
            order = [index for nodes in mine for index in nodes]
            fitted = use.split(order, mine, limit - use.resident[worker])
            assert fitted.pieces == [list(nodes) for nodes in mine]
            predicted = plan.peaks[0][1][worker]  # of an open-ended graph with what is estimated
            assert use.resident[worker] + fitted.peak <= predicted <= limit
            assert graph.open_ended or use.resident[worker] + fitted.peak == predicted
    ran = [index for segment in plan.segments for index in segment.nodes]
    assert sorted(ran) == list(range(len(made.graph.nodes)))
    before = node_edges(rewriter).before
    assert all(ran.index(source) < ran.index(index) for index in ran for source in before[index])
    if graph.open_ended:
        assert ran[-1] == len(made.graph.nodes) - 1
        assert made.graph.nodes[-1].fn == graph.nodes[-1].fn
    assert simulate(made, cluster_of(*limits), costs, in_order=False, watch=check_invariants).finished


def test_blocks_that_follow_sequences_are_as_coarse_as_they_can_be(builder):
    build = builder()
    a = build.op("sin", 0)
    b = build.op("sin", a)
    build.op("sin", 0)
    build.op("sin", b)
    links = node_edges(PricedGraph(build.graph(), COSTS))
    assert blocks_of_sequences(links, [[0, 2], [1, 3]], [0, 1, 0, 1]) == [(0, [0, 2]), (1, [1, 3])]


def test_a_limit_holds_for_large_graphs_too(builder, monkeypatch):
    monkeypatch.setattr("raygrad.scheduler.planning.planner.CLUSTERED_FROM", 1)
    cluster = cluster_of(*[100] * STAGES)
    with pytest.raises(PlanError, match="needs memory="):
        planned(pipeline(builder), cluster)
    graph = pipeline(builder)
    with pytest.raises(PlanError, match="needs memory="):
        Planner(cluster, COSTS).plan(graph, (-1,) * BATCHES, b"key")


def test_what_was_before_on_a_worker_that_runs_nothing_is_in_nobody_s_way(builder):
    build = builder(size=4)
    build.op("o", build.op("o", 0, pin=1), pin=2)
    cluster = cluster_of(0, None, 0)
    with pytest.raises(PlanError, match="worker 2 has memory=0 and needs memory=64") as raised:
        make_plan(build.graph(), (0,), Costs(), cluster, 0, b"")
    assert "worker 0" not in str(raised.value)
    assert make_plan(build.graph(), (0,), Costs(), cluster_of(0, None, 64), 0, b"").plan.peaks[0][1][0] >= 0
