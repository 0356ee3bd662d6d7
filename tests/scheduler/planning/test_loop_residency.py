from hypothesis import given, strategies as st

from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.graph import structural_hash
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.measured_costs import MeasuredCosts
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.placing.constraints import find_constraints
from raygrad.scheduler.planning.loop_residency import count_misplaced, next_residency, place_for_loop, tie_loop_carried
from raygrad.scheduler.planning.planner import Planner, make_plan

from ..conftest import random_graphs

CLUSTER = Cluster.of(2)


def training(builder, count=2, pinned=True):
    """A step: parameter i and its moment go through a Function on worker i and back. Returns the graph and its loop."""
    build = builder(externals=2 * count)
    loop = []
    for index in range(count):
        parameter, moment = 2 * index, 2 * index + 1
        context, value = build.function("f", parameter, pin=index % 2 if pinned else -1)
        gradient = build.function_vjp("f", context, value, parameter)
        later = build.op("add", moment, gradient)
        after = build.op("sub", parameter, later)
        build.keep_on_worker(later, after)
        loop += [(parameter, after), (moment, later)]
    return build.graph(), loop


def swapped(count=2):
    """Parameters and moments are where they are not read."""
    return tuple(1 - index // 2 % 2 for index in range(2 * count))


def test_what_is_read_elsewhere_is_carried(builder):
    graph, loop = training(builder)
    plan = make_plan(graph, swapped(), Costs(), CLUSTER, 0, b"", (0,) * 4 + (1,) * 4).plan
    assert count_misplaced(graph, plan, swapped(), loop) == 4
    assert count_misplaced(graph, plan, (0, 0, 1, 1), loop) == 0
    assert count_misplaced(graph, plan, (-1,) * 4, loop) == 0
    assert count_misplaced(graph, plan, swapped(), loop[:1]) == 1


def test_a_round_leaves_what_it_makes_where_it_was_made(builder):
    graph, loop = training(builder)
    assert next_residency(graph, (0, 0, 0, 1, 1, 1, 0, 1), (-1,) * 4, loop) == (1, 0, 1, 0)
    assert next_residency(graph, (0,) * 8, (1, 1, 1, 1), loop[:1]) == (0, 1, 1, 1)


def test_makers_go_with_the_first_readers_of_the_next_round(builder):
    graph, loop = training(builder)
    assert place_for_loop(graph, swapped(), loop, Costs(), CLUSTER, 0) == (0, 0, 0, 0, 1, 1, 1, 1)


def test_what_is_pinned_elsewhere_stays_there(builder):
    build = builder(externals=1)
    read = build.op("sin", 0, pin=0)
    made = build.op("cos", read, pin=1)
    build.keep_on_worker(made)
    graph = build.graph()
    assert place_for_loop(graph, (-1,), [(0, made)], Costs(), CLUSTER, 0) == (0, 1)


@given(st.data())
def test_ties_keep_what_was_asked_for(data):
    graph = data.draw(random_graphs(pins=3, least=1, externals=3))
    values = sum(len(node.outputs) for node in graph.nodes)
    some = st.integers(3, 2 + values) if values else st.nothing()
    loop = [(external, data.draw(some)) for external in range(3 if values else 0)]
    priced, cluster = PricedGraph(graph, Costs()), Cluster.of(3)
    residency = (-1,) * 3
    before = find_constraints(priced, residency, cluster)
    after = tie_loop_carried(before, priced, loop)
    for index, root in enumerate(before.group):
        assert after.group[index] == after.group[root]
        if root in before.forced:
            assert after.forced[after.group[index]] == before.forced[root]
    node_worker = place_for_loop(graph, residency, loop, Costs(), cluster, 0)
    for index, node in enumerate(graph.nodes):
        assert node.pin in (-1, node_worker[index])


def scattered(builder):
    """Parameters with two moments each, all of them anywhere. Returns the graph, its loop and the residency."""
    build = builder(externals=12, size=4096)
    loop = []
    for parameter in (0, 3, 6, 9):
        context, value = build.function("f", parameter)
        gradient = build.function_vjp("f", context, value, parameter)
        moments = [build.op("add", parameter + 1 + index, gradient) for index in range(2)]
        after = build.op("step", parameter, *moments)
        build.keep_on_worker(*moments, after)
        loop += [(parameter, after), *[(parameter + 1 + index, moment) for index, moment in enumerate(moments)]]
    return build.graph(), loop, (0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1)


def rounds(planner, graph, loop, residency, told):
    """Run twelve rounds; return how much each carries, the planner's misses after it, and the last plan."""
    seen, misses, plan = [], [], None
    for _ in range(12):
        plan = planner.plan(graph, residency, structural_hash(encode_graph(graph))).plan
        planner.reconsider(lambda: loop if told else ())
        seen.append(count_misplaced(graph, plan, residency, loop))
        misses.append(planner.misses)
        residency = next_residency(graph, plan.node_worker, residency, loop)
    return seen, misses, plan


def test_rounds_settle_where_nothing_is_carried(builder):
    """What a round makes is read in the next one where it was made, at last."""
    graph, loop, residency = scattered(builder)
    costs = Costs(function_seconds=0.005)
    seen, misses, plan = rounds(Planner(CLUSTER, measured=MeasuredCosts(costs)), graph, loop, residency, told=True)
    assert seen[-1] == 0
    assert misses[-1] == misses[-6]
    assert plan is not None
    assert set(plan.node_worker) == {0, 1}


def test_without_a_loop_nothing_is_changed(builder):
    graph, _ = training(builder, 8)
    planner = Planner(CLUSTER, measured=MeasuredCosts(Costs(function_seconds=0.05)))
    plans = []
    for _ in range(6):
        plans.append(planner.plan(graph, swapped(8), structural_hash(encode_graph(graph))).plan)
        planner.reconsider()
    assert planner.changes == 0
    assert len({plan.node_worker for plan in plans}) == 1
