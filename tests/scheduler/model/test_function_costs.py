"""What is expected of user Functions, by what is known of them."""

from dataclasses import replace
from typing import Any

import pytest

from raygrad.proto.ir.graph import CostHint
from raygrad.proto.ir.specs import ArraySpec, UnknownSpec
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.function_costs import OTHER_VALUES, Figure, Origin, family_of
from raygrad.scheduler.model.measured_costs import Estimate, MeasuredCosts
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.model.running_estimates import Estimate as RunningEstimate
from raygrad.scheduler.placing.place import place

from ...graph_nodes import function_node, function_vjp_node

UNKNOWN_SECONDS = Costs().function_seconds
FORWARD, VJP = "function @f cpu 6>", "function @f vjp cpu context,6,6,6>6"


def measured(**kinds):
    """Costs where nodes of such kinds take so many seconds."""
    known = MeasuredCosts()
    for name, seconds in kinds.items():
        set_kind(known, {"forward": FORWARD, "vjp": VJP}.get(name, name), seconds)
    return known


def set_kind(known, kind, seconds, prior=200e-6, count=3):
    known.kinds[kind] = Estimate(seconds / prior, 0.0, seconds, count)
    known._functions.surplus(kind)
    known.links_were()


def both(builder, hint=None, value="", external=False):
    """Forward and backward of a Function, or backward alone."""
    build = builder(externals=2)
    if external:
        context, output = 0, 1
    else:
        context, output = build.function("f", 0)
    build.function_vjp("f", context, output, 1, output)
    graph = build.graph()
    if hint is not None or value:
        hints = [CostHint(index, hint or 0.0, value) for index in range(len(graph.nodes))]
        graph = graph._replace(hints=tuple(hints))
    return graph


def figures(graph, costs):
    return [(figure.seconds, figure.origin) for figure in PricedGraph(graph, costs).node_figures]


def near(seconds) -> Any:
    return pytest.approx(seconds, rel=1e-2)


def test_what_never_ran_is_unknown_and_not_cheap(builder):
    assert figures(both(builder), Costs()) == [
        (near(UNKNOWN_SECONDS), Origin.UNKNOWN),
        (near(2 * UNKNOWN_SECONDS), Origin.UNKNOWN),
    ]


def test_a_vjp_is_expected_at_twice_its_forward_until_one_was_measured(builder):
    costs = measured(forward=3.0).costs()
    assert figures(both(builder), costs) == [(near(3.0), Origin.MEASURED), (near(6.0), Origin.FORWARD)]
    assert figures(both(builder, external=True), costs) == [(near(6.0), Origin.FORWARD)]
    costs = measured(forward=3.0, vjp=0.5).costs()
    assert figures(both(builder), costs)[1][1] == Origin.MEASURED


def test_a_hint_is_believed_until_something_was_measured(builder):
    graph = both(builder, hint=7.0)
    assert figures(graph, Costs()) == [(7.0, Origin.HINT), (14.0, Origin.HINT)]
    assert figures(graph, measured(forward=3.0).costs()) == [(near(3.0), Origin.MEASURED), (near(6.0), Origin.FORWARD)]


def test_other_shapes_are_scaled_from_the_nearest(builder):
    costs = Costs()
    node = both(builder).nodes[0]
    sizes = {count: ArraySpec((count,), "float64") for count in (4, 10**6, 10**7, 10**8)}
    prior = {count: costs.prior_seconds(node, [spec], []) for count, spec in sizes.items()}
    known = MeasuredCosts()
    for count, seconds in ((4, 0.5), (10**7, 20.0)):
        set_kind(known, costs.kind_of(node, [sizes[count]], []), seconds, prior[count])

    def found(count):
        return known.costs().figure(costs.kind(node, [sizes[count]], []))

    assert found(10**8) == Figure(near(20.0 * prior[10**8] / prior[10**7]), Origin.SCALED)
    assert found(10**6) == Figure(near(20.0 * prior[10**6] / prior[10**7]), Origin.SCALED)
    assert found(4).origin == Origin.MEASURED


def test_what_reads_values_of_unknown_size_is_expected_as_the_longest_known():
    costs, known = Costs(), MeasuredCosts()
    node = function_node("@f", (0,), (0, 1))
    small, large, unknown = ArraySpec((4,), "float64"), ArraySpec((10**7,), "float64"), UnknownSpec()
    for spec, seconds in ((small, 0.5), (large, 20.0)):
        set_kind(known, costs.kind_of(node, [spec], []), seconds, costs.prior_seconds(node, [spec], []))
    assert known.costs().figure(costs.kind(node, [unknown], [])) == Figure(near(20.0), Origin.SCALED)
    vjp = function_vjp_node("@f", (0, 1), (0,), items=1)
    assert known.costs().figure(costs.kind(vjp, [unknown], [unknown])) == Figure(near(40.0), Origin.FORWARD)
    set_kind(known, costs.kind_of(node, [unknown], []), 3.0, costs.prior_seconds(node, [unknown], []))
    assert known.costs().figure(costs.kind(node, [unknown], [])) == Figure(near(3.0), Origin.MEASURED, 3)
    thousand = ArraySpec((1000,), "float64")
    assert known.costs().figure(costs.kind(node, [thousand], [])).seconds == pytest.approx(0.5, rel=0.1)


def test_a_kind_that_ran_once_is_a_first_run(builder):
    known = measured()
    set_kind(known, FORWARD, 7.0, count=1)
    assert figures(both(builder), known.costs())[0] == (near(7.0), Origin.FIRST_RUN)
    assert str(Figure(1.0, Origin.FIRST_RUN, 1)) == "first run"
    assert str(Figure(1.0, Origin.MEASURED, 3)) == "measured 3 times"


def test_a_first_run_in_another_process_does_not_replace_what_later_runs_took():
    estimate = RunningEstimate()
    estimate.take(70.0, 7.0, first=True)
    estimate.take(50.0, 5.0, first=True)
    estimate.take(60.0, 6.0, first=True)
    assert (estimate.seconds, estimate.count, estimate.first) == (5.0, 1, True)
    estimate.take(1.0, 0.1)
    assert (estimate.seconds, estimate.count, estimate.first) == (0.1, 2, False)
    estimate.take(70.0, 7.0, first=True)
    assert (estimate.seconds, estimate.count) == (0.1, 2)


def test_values_that_count_have_times_of_their_own(builder):
    known = measured(forward=1.0)
    for value, seconds in (("1", 0.1), ("2", 5.0)):
        for _ in range(2):
            known.values.take(FORWARD, value, seconds / 200e-6, seconds, first=False)
    known.links_were()
    costs = known.costs()
    assert figures(both(builder, value="1"), costs) == [(near(0.1), Origin.MEASURED), (near(0.2), Origin.FORWARD)]
    assert figures(both(builder, value="2"), costs) == [(near(5.0), Origin.MEASURED), (near(10.0), Origin.FORWARD)]
    other = both(builder, value=OTHER_VALUES)
    assert figures(other, costs) == [(near(5.0), Origin.SCALED), (near(10.0), Origin.FORWARD)]
    hinted = both(builder, hint=0.7, value=OTHER_VALUES)
    assert figures(hinted, costs) == [(0.7, Origin.HINT), (1.4, Origin.HINT)]


def test_values_whose_times_are_alike_or_short_do_not_count():
    known = MeasuredCosts()

    def ran(kind, **seconds):
        for value, one in seconds.items():
            known.values.take(f"function @{kind} cpu 6>", value, one / 200e-6, one, first=False)
        return known.values.functions.get("@" + kind)

    assert ran("alike", a=1.0, b=3.9) is None
    assert ran("short", a=100e-6, b=900e-6) is None
    assert ran("apart", a=1.0, b=4.5) == {"a", "b"}
    assert ran("apart", c=2.0) == {"a", "b", "c"}


def test_a_first_run_counts_for_its_own_value_and_not_for_others(builder):
    """What took long there, imports or the value, is seen when it comes again."""
    known = measured(forward=0.1)
    known.values.take(FORWARD, "1", 7.0 / 200e-6, 7.0, first=True)
    known.values.take(FORWARD, "2", 0.1 / 200e-6, 0.1, first=False)
    known.links_were()
    assert known.values.functions == {"@f": {"1", "2"}}
    assert figures(both(builder, value="1"), known.costs())[0] == (near(7.0), Origin.FIRST_RUN)
    other = figures(both(builder, value=OTHER_VALUES), known.costs())
    assert other == [(near(0.1), Origin.SCALED), (near(0.2), Origin.FORWARD)]
    known.values.take(FORWARD, "1", 0.1 / 200e-6, 0.1, first=False)
    assert not known.values.functions


def test_values_that_come_to_take_alike_are_kept_together_again():
    values = MeasuredCosts().values
    values.take(FORWARD, "1", 1000.0, 0.2, first=False)
    values.take(FORWARD, "2", 10.0, 0.002, first=False)
    assert "@f" in values.functions
    values.take(FORWARD, "1", 12.0, 0.0024, first=False)
    assert not values.functions


def test_of_many_values_the_last_ones_are_remembered():
    values = MeasuredCosts().values
    for number in range(1000):
        values.take(FORWARD, str(number), 1.0, 1.0, first=False)
    assert len(values.of(FORWARD)) <= 100
    assert "999" in values.of(FORWARD)


def test_the_family_of_a_kind_is_its_code_whatever_the_arguments():
    assert family_of("function @f vjp vjp cpu 6,6>6") == "@f vjp vjp"
    assert family_of("function @f  const>") == "@f"
    assert family_of("op sin cpu 6>6") == ""


# ---- plans ---------------------------------------------------------------------------------------------------------


def workers(graph, costs, count=2):
    priced = PricedGraph(graph, costs)
    return place(priced, (-1,) * len(graph.externals), costs, Cluster.of(count)).node_worker


def test_unknown_branches_are_divided_equally(builder):
    build = builder(externals=8)
    outputs = [build.function("f", external)[1] for external in range(8)]
    build.keep_on_worker(*outputs)
    for count in (2, 4):
        found = workers(build.graph(), Costs(), count)
        assert [found.count(worker) for worker in range(count)] == [8 // count] * count


def test_unknown_branches_are_divided_however_much_they_read(builder):
    build = builder(externals=1)
    large = build.spec(ArraySpec((10**9,), "float64"))
    source = build.op("sin", 0, spec=large)
    build.keep_on_worker(*[build.function("f", source)[1] for _ in range(4)])
    assert set(workers(build.graph(), Costs())) == {0, 1}


def test_beside_known_nodes_both_the_known_and_the_unknown_are_divided(builder):
    build = builder(externals=8)
    for external in range(8):
        build.keep_on_worker(build.function("known" if external < 4 else "new", external)[1])
    for seconds in (1e-3, 1.0, 100.0):
        known = measured()
        set_kind(known, "function @known cpu 6>", seconds)
        found = workers(build.graph(), known.costs())
        assert sorted(found[4:]) == [0, 0, 1, 1]
        assert sorted(found[:4]) == [0, 0, 1, 1] or seconds < 0.1


def test_a_single_unknown_node_leaves_the_known_ones_divided(builder):
    """It counts as much as the heaviest of them: if it turns out to take nothing, little is lost."""
    build = builder(externals=5)
    for external in range(5):
        build.keep_on_worker(build.function("known" if external else "new", external)[1])
    known = measured()
    set_kind(known, "function @known cpu 6>", 50.0)
    found = workers(build.graph(), known.costs())
    assert sorted(found[1:].count(worker) for worker in (0, 1)) == [2, 2]


def test_on_unknown_times_no_search_is_spent(builder, monkeypatch):
    build = builder(externals=60)
    build.keep_on_worker(*[build.function("f", external)[1] for external in range(60)])
    passes = []
    search = "raygrad.scheduler.placing.place.ScheduleSearch.refine"
    monkeypatch.setattr(search, lambda self, count: passes.append(count))
    workers(build.graph(), Costs(), 7)
    assert passes == [0]


def test_hints_of_one_function_that_differ_are_classes_of_their_own(builder):
    build = builder(externals=4)
    build.keep_on_worker(*[build.function("f", external)[1] for external in range(4)])
    graph = build.graph()
    hinted = graph._replace(hints=tuple(CostHint(index, 3.0 if index == 2 else 1.0, "") for index in range(4)))
    assert PricedGraph(hinted, Costs()).seconds == [1.0, 1.0, 3.0, 1.0]
    found = workers(hinted, Costs())
    assert [found[index] == found[2] for index in range(4)] == [False, False, True, False]
    assert replace(Costs(), epoch=1).node_seconds(graph.nodes[0], [], []) == UNKNOWN_SECONDS
