"""What is spilled and made again where memory is too small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from raygrad.errors import PlanError
from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.nodes import FunctionCall, Load, Node, Spill, placed, reruns
from raygrad.proto.ir.specs import LIVE, ArraySpec, ContextSpec
from raygrad.scheduler.memory import spill_limits
from raygrad.scheduler.memory.memory_ledger import MemoryUse
from raygrad.scheduler.memory.spill_limits import plan_spills
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.graph_rewriter import RewrittenGraph
from raygrad.scheduler.model.memory_spaces import MemorySpace
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.planning.planner import Planned, make_plan

from ...graph_nodes import NOTHING_SHOWN, function_node, function_vjp_node

ITEMS = 1000
ARRAY = 8 * ITEMS
COSTS = Costs(context_bytes=ARRAY)


def chain(builder: Any, length: int, fn: str = "f", *, pure: bool = False) -> Any:
    """A chain of Functions and back: each saves an array of its own beside its argument."""
    build = builder(size=ITEMS)
    value, tape = 0, []
    for _ in range(length):
        context, out = build.add(function_node("@" + fn, (value,), (0, 1), pure=pure, expected=NOTHING_SHOWN))
        tape.append((context, value))
        value = out
    gradient = value
    for context, argument in reversed(tape):
        gradient = build.function_vjp(fn, context, gradient, argument)
    build.keep_on_worker(gradient)
    return build.graph()


def planned(graph: Graph, limit: int | None, costs: Costs = COSTS, workers: int = 1) -> Planned:
    cluster = Cluster.of(workers).limited(limit)
    return make_plan(graph, (-1,) * len(graph.externals), costs, cluster, 0, b"")


def counts(made: Planned) -> dict[str, int]:
    names = [node.fn for node in made.graph.nodes]
    again = sum(isinstance(node, FunctionCall) and node.silent for node in made.graph.nodes)
    return {"spill": names.count("spill"), "load": names.count("load"), "again": again}


def peak(made: Planned, costs: Costs = COSTS) -> int:
    order = [index for segment in made.plan.segments for index in segment.nodes]
    return MemoryUse(PricedGraph(made.graph, costs), made.plan.node_worker, (-1,) * len(made.graph.externals), 1).peak(
        0, order
    )


def terms(graph: Graph, orders: Sequence[Sequence[int]]) -> dict[int, Any]:
    """Return what each value of a graph is, as a term over its externals; spilling and loading change nothing."""
    first, following = [], len(graph.externals)
    for node in graph.nodes:
        first.append(following)
        following += len(node.outputs)
    known: dict[int, Any] = {value: ("external", value) for value in range(len(graph.externals))}
    known[-1] = None
    waiting = [list(order) for order in orders]
    while any(waiting):
        before = sum(map(len, waiting))
        for order in waiting:
            while order and all(value in known for value in graph.nodes[order[0]].inputs):
                index = order.pop(0)
                node = graph.nodes[index]
                read = tuple([known[value] for value in node.inputs])
                for number in range(len(node.outputs)):
                    what = hash((node.role, node.fn, node.depth, repr(_plain(node)), read, number))
                    known[first[index] + number] = read[0] if node.role == "memory" else what
        assert sum(map(len, waiting)) < before, "a node reads what is not made before it"
    return known


def _plain(node: Node) -> Node:
    return placed(node._replace(silent=False) if isinstance(node, FunctionCall) else node, (), ())


def test_nothing_is_added_where_all_fits(builder: Any) -> None:
    graph = chain(builder, 8)
    assert planned(graph, 100 * ARRAY).graph.nodes == graph.nodes


@pytest.mark.parametrize("length", [8, 64])
def test_a_chain_runs_within_five_arrays_however_long_it_is(builder: Any, length: int) -> None:
    graph = chain(builder, length)
    assert peak(planned(graph, None)) > 2 * length * ARRAY
    made = planned(graph, 5 * ARRAY)
    assert peak(made) <= 5 * ARRAY
    assert counts(made)["again"] == 0  # nobody said that they are pure
    assert counts(made)["spill"] <= counts(made)["load"]


def test_pure_functions_run_again_where_that_takes_less_time_than_the_disk(builder: Any) -> None:
    limit = 12 * ARRAY
    graph = chain(builder, 16, pure=True)
    slow_disk = replace(COSTS, spill_bandwidth=1e5, function_seconds=1e-4)
    fast_disk = replace(COSTS, spill_bandwidth=1e12, spill_seconds=0.0, function_seconds=1.0)
    made, other = planned(graph, limit, slow_disk), planned(graph, limit, fast_disk)
    assert counts(made)["again"] > 0 == counts(made)["spill"]
    assert counts(other)["spill"] > 0 == counts(other)["again"]
    for one, costs in ((made, slow_disk), (other, fast_disk)):
        assert peak(one, costs) <= limit


def test_what_is_loaded_twice_is_written_once(builder: Any) -> None:
    build = builder(size=ITEMS)
    saved = build.op("sin", 0)
    for _ in range(3):
        many = [build.add(function_node("@f", (0,), (0, 1), expected=NOTHING_SHOWN))[1] for _ in range(4)]
        value = saved
        for one in many:
            value = build.add(function_node("@g", (value, one), (0, 1), (1, 1), expected=NOTHING_SHOWN))[1]
        build.keep_on_worker(value)
    made = planned(build.graph(), None)
    tight = planned(build.graph(), peak(made) - ARRAY)
    assert counts(tight)["spill"] <= counts(tight)["load"]


def test_what_cannot_fit_is_refused_with_the_smallest_limit_that_would_do(builder: Any) -> None:
    graph = chain(builder, 8)
    with pytest.raises(PlanError, match=r"has memory=8000 and needs memory=(\d+)") as caught:
        planned(graph, ARRAY)
    smallest = int(str(caught.value).split("needs memory=")[1].split(",")[0])
    assert peak(planned(graph, smallest)) <= smallest
    with pytest.raises(PlanError, match=f"needs memory={smallest}"):
        planned(graph, smallest - 1)


def test_a_context_that_cannot_be_taken_apart_is_not_spilled(builder: Any) -> None:
    graph = chain(builder, 8)
    staying = graph._replace(specs=(ContextSpec(ARRAY, LIVE), *graph.specs[1:]))
    made = planned(staying, 24 * ARRAY)
    spilled = [node.inputs[0] for node in made.graph.nodes if node.fn == "spill"]
    contexts = {value for value, spec in enumerate(PricedGraph(made.graph, COSTS).spec) if spec == 0}
    assert contexts.isdisjoint(spilled)


@settings(deadline=None)
@given(data=st.data())
def test_whatever_is_added_every_node_reads_what_it_would_and_limits_hold(graphs: Any, data: Any) -> None:
    graph = data.draw(graphs(least=2))
    graph = graph._replace(
        specs=tuple([replace(one, shape=(ITEMS,)) if isinstance(one, ArraySpec) else one for one in graph.specs]),
        nodes=tuple([_said_pure(node) if data.draw(st.booleans()) else node for node in graph.nodes]),
    )
    count = len(graph.nodes)
    workers = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    residency = [data.draw(st.integers(-1, 1)) for _ in graph.externals]
    limits: list[int | None] = [data.draw(st.none() | st.integers(1, 12).map(ARRAY.__mul__)) for _ in range(2)]
    costs = replace(COSTS, spill_bandwidth=data.draw(st.sampled_from([1e3, 1e9, 1e15])))
    priced = PricedGraph(graph, costs)
    sequences = [[index for index in range(count) if workers[index] == worker] for worker in range(2)]
    given = RewrittenGraph(priced, tuple(workers), sequences)
    made = plan_spills(given, MemorySpace("cpu", limits), residency, costs)
    if not isinstance(made, RewrittenGraph):
        enough = [limit if needed is None else needed for limit, needed in zip(limits, made, strict=True)]
        assert enough != limits
        made = plan_spills(given, MemorySpace("cpu", enough), residency, costs)
        assert isinstance(made, RewrittenGraph)
        limits = enough
    room = MemoryUse(made.priced, made.node_worker, residency, 2)
    for worker, sequence in enumerate(made.sequences):
        limit = limits[worker]
        assert limit is None or not sequence or room.peak(worker, sequence) <= limit
    before, after = terms(graph, sequences), terms(made.priced.graph, made.sequences)
    rewriter = made.priced.graph
    if graph.open_ended:  # its last node stays the last: how many outputs it has, nobody knows
        assert rewriter.nodes[-1].fn == graph.nodes[-1].fn
        before[rewriter.values - 1] = before.pop(graph.values - 1)
        before = {value: before[value] for value in sorted(before)}
    assert {value: after[value] for value in before} == before
    assert sorted(index for one in made.sequences for index in one) == list(range(len(rewriter.nodes)))
    for node in rewriter.nodes[count - graph.open_ended : len(rewriter.nodes) - graph.open_ended]:
        assert isinstance(node, Spill | Load) or reruns(node)


def _said_pure(node: Node) -> Node:
    return node._replace(pure=True, expected=NOTHING_SHOWN) if isinstance(node, FunctionCall) else node


def test_an_open_ended_graph_is_rewritten_and_ends_as_it_did(builder: Any) -> None:
    build = builder(size=ITEMS)
    made = [build.op("sin", 0) for _ in range(8)]
    total = made[0]
    for one in made[1:]:
        total = build.op("add", total, one)
    build.keep_on_worker(*made)
    (context,) = build.add(function_node("@new", (total,), (0,), (1,)))
    build.keep_in_store(context)
    graph = build.graph(open_ended=True)
    made_of = planned(graph, 5 * ARRAY)
    rewriter = made_of.graph
    assert len(rewriter.nodes) > len(graph.nodes)
    assert rewriter.nodes[-1].fn == "@new"
    assert made_of.plan.segments[-1].nodes[-1] == len(rewriter.nodes) - 1
    assert made_of.programs[-1].open_base == rewriter.values
    assert {value for value, _ in rewriter.keep} == {*made, rewriter.values - 1}
    assert set(made_of.plan.kept) == {value for value, _ in rewriter.keep}
    assert peak(made_of) <= 5 * ARRAY


def test_an_open_ended_graph_is_not_refused_for_what_is_only_estimated(builder: Any) -> None:
    build = builder(size=ITEMS)
    build.add(function_node("@new", (0,), (0,), (1,)))
    graph = build.graph(open_ended=True)
    assert planned(graph, 10 * ARRAY).plan.peaks == (("cpu", (10 * ARRAY,)),), "argument, context, and the estimate"
    assert planned(graph, 9 * ARRAY).plan.peaks == (("cpu", (4 * ARRAY,)),), "or a quarter of it"
    assert planned(graph, 2 * ARRAY).plan.peaks == (("cpu", (2 * ARRAY,)),)


@pytest.mark.parametrize("limit", [4, 6, 20])
def test_what_earlier_runs_left_waits_on_disk_until_it_is_read(builder: Any, limit: int) -> None:
    build = builder(externals=12, size=ITEMS)
    value = build.op("add", 0, 1)
    for external in range(2, 12):
        value = build.op("add", value, external)
    build.keep_on_worker(value)
    graph = build.graph()
    made = make_plan(graph, (0,) * 12, COSTS, Cluster.of(1).limited(limit * ARRAY), 0, b"")
    assert made.plan.peaks[0][1][0] <= limit * ARRAY
    spilled = [node.inputs[0] for node in made.graph.nodes if node.fn == "spill"]
    assert (len(spilled) == 0) is (limit == 20)
    assert spilled == sorted(spilled, reverse=True), "what is read last goes first"
    assert counts(made)["load"] == len(spilled)


def test_what_earlier_runs_left_and_cannot_be_taken_apart_stays(builder: Any) -> None:
    build = builder(externals=4, size=ITEMS)
    living = build.spec(ContextSpec(ARRAY, LIVE))
    build.externals = [living] * 4
    for external in range(4):
        build.keep_on_worker(build.function_vjp("f", external, -1, -1))
    with pytest.raises(PlanError, match="needs memory="):
        make_plan(build.graph(), (0,) * 4, COSTS, Cluster.of(1).limited(4 * ARRAY), 0, b"")


def test_what_is_kept_and_does_not_fit_is_kept_on_disk(builder: Any) -> None:
    build = builder(size=ITEMS)
    value, kept = 0, []
    for _ in range(10):
        value = build.op("sin", value)
        kept.append(value)
    build.keep_on_worker(*kept)
    made = planned(build.graph(), 4 * ARRAY)
    assert counts(made)["load"] == 0
    assert 6 <= counts(made)["spill"] <= 9
    assert peak(made) <= 4 * ARRAY
    assert set(made.plan.kept) == set(kept)


def test_a_large_graph_is_refused_after_fewer_walks_by_a_limit_that_does(
    builder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = chain(builder, 100)
    monkeypatch.setattr(spill_limits, "MAX_SEARCHED_NODES", 0)
    with pytest.raises(PlanError, match=r"needs memory=(\d+)") as caught:
        planned(graph, ARRAY)
    enough = int(str(caught.value).split("needs memory=")[1].split(",")[0])
    assert 4 * ARRAY <= enough < 100 * ARRAY
    assert peak(planned(graph, enough)) <= enough


def passes(builder: Any, length: int, count: int) -> Any:
    """A chain of Functions, and back several times: what was saved is kept for the next pass, and left by each."""
    build = builder(size=ITEMS)
    held = build.spec(ContextSpec(ARRAY, 0))
    value, tape = 0, []
    for _ in range(length):
        context, out = build.add(function_node("@f", (value,), (held, 1), (1,), expected=NOTHING_SHOWN))
        tape.append((context, value))
        value = out
    for number in range(count):
        gradient, left = value, []
        for context, argument in reversed(tape):
            outputs = (1,) if number == count - 1 else (held, 1)
            made = build.add(function_vjp_node("@f", (context, gradient, argument, -1), outputs, near=context))
            gradient = made[-1]
            left.append((made[0], argument))
        build.keep_on_worker(gradient)
        tape = left[::-1]
    return build.graph()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_passes_keep_for_the_next_takes_no_more_memory(builder: Any, count: int) -> None:
    """A gradient, a context with what it holds, an argument and another gradient, however many passes there are."""
    graph = passes(builder, 6, count)
    costs = Costs(context_bytes=0)
    made = planned(graph, 4 * ARRAY, costs)
    assert peak(made, costs) <= 4 * ARRAY
    order = [[index for segment in made.plan.segments for index in segment.nodes]]
    before, after = terms(graph, [range(len(graph.nodes))]), terms(made.graph, order)
    assert {value: after[value] for value in before} == before


def test_a_worker_whose_order_fits_keeps_it_while_another_is_relieved(builder: Any) -> None:
    build = builder(externals=3, size=ITEMS)
    held = build.spec(ContextSpec(ARRAY, 0))
    build.externals[0] = held
    left, _ = build.add(function_vjp_node("@f", (0, 1, -1, -1), (held, 1), near=0))
    build.keep_on_worker(left)
    first, second, third = (build.op(fn, 2) for fn in ("sin", "cos", "exp"))
    build.op("add", third, second)
    build.op("mul", first, first)
    priced = PricedGraph(build.graph(), Costs(context_bytes=0))
    given = RewrittenGraph(priced, (0, 1, 1, 1, 1, 1), [[0], [1, 2, 3, 4, 5]])
    made = plan_spills(given, MemorySpace("cpu", [3 * ARRAY, 3 * ARRAY]), (0, -1, -1), COSTS)
    assert isinstance(made, RewrittenGraph)
    assert made.sequences[0] == [0]
    assert len(made.sequences[1]) > 5
