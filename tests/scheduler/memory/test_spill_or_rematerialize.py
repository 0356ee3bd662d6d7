"""One walk through a worker's nodes within a limit: what is given up, and how much work that is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.memory.spill_or_rematerialize import DoesNotFit, EvictionSearch
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.function_costs import KnownKind, KnownTime
from raygrad.scheduler.model.graph_rewriter import GraphRewriter
from raygrad.scheduler.model.priced_graph import PricedGraph

from ...graph_nodes import NOTHING_SHOWN, function_node

ITEMS = 1000
ARRAY = 8 * ITEMS
COSTS = Costs(context_bytes=0)


def walk(graph: Any, limit: int, costs: Costs = COSTS) -> tuple[EvictionSearch, GraphRewriter]:
    rewriter = GraphRewriter(PricedGraph(graph, costs), [0] * len(graph.nodes), costs)
    return EvictionSearch(rewriter, 0, range(len(graph.nodes)), (-1,) * len(graph.externals), (), limit), rewriter


def fan(builder: Any, count: int, *, pure: bool = False) -> Any:
    """Values that are made one after the other, and read in the same order."""
    build = builder(size=ITEMS)
    made = [build.add(function_node("@f", (0,), (0, 1), pure=pure, expected=NOTHING_SHOWN))[1] for _ in range(count)]
    for one in made:
        build.keep_on_worker(build.function_vjp("g", -1, one, -1))
    return build.graph()._replace(keep=())


def test_of_values_that_cost_alike_the_one_that_is_read_last_is_given_up(builder: Any) -> None:
    made, rewriter = walk(fan(builder, 6), 5 * ARRAY)
    made.run()
    spilled = [node.inputs[0] for node in rewriter.nodes if node.fn == "spill"]
    assert spilled
    order = [2 + 2 * number for number in range(6)]
    assert spilled == sorted(spilled, key=order.index, reverse=False)
    assert spilled[0] >= order[3], "not those which are read first"


def test_what_costs_less_to_have_back_is_given_up_before_what_is_read_later(builder: Any) -> None:
    build = builder(size=ITEMS)
    nothing = build.spec(ArraySpec((0,), "float64"))
    cheap = build.add(function_node("@f", (0,), (0, 1), (1,), pure=True, expected=NOTHING_SHOWN))[1]
    dear = build.op("sin", 0)
    other = build.op("cos", 0)
    for value in (other, cheap, dear):
        build.op("exp", value, spec=nothing)
    quick: Any = {"@f": {"": KnownKind(KnownTime(1e-9, 1.0, runs=3), {})}}
    slow = replace(COSTS, spill_bandwidth=1e3, functions=quick, function_overhead=1e-9, function_bandwidth=1e15)
    slow = replace(slow, op_seconds=1.0)
    made, rewriter = walk(build.graph(), 3 * ARRAY, slow)
    made.run()
    again = [node for node in rewriter.nodes[6:] if node.role == "function"]
    assert [node.fn for node in rewriter.nodes[6:]] == ["@f"] == [node.fn for node in again]


def test_what_was_held_for_a_second_run_that_came_earlier_is_dropped(builder: Any) -> None:
    build = builder(externals=2, size=ITEMS)
    read = (
        (1,),
        (1, 1),
        (1, 0),
        (2, 3),
        (0, 1),
        (1, 4),
        (4, 3),
        (8,),
        (6, 7),
        (10, 9),
        (9, 8),
        (9,),
        (10, 10),
        (9, 12),
    )
    for inputs in read:
        build.op("sin" if len(inputs) == 1 else "mul", *inputs)
    build.op("sin", 11)
    made, rewriter = walk(build.graph(), 4 * ARRAY)
    order = made.run()
    assert made.peak <= 4 * ARRAY
    assert [index for index in order if index <= len(read)] == [*range(len(read) + 1)]
    spilled = {node.inputs[0] for node in rewriter.nodes if node.fn == "spill"}
    loaded = {node.inputs[0] for node in rewriter.nodes if node.fn == "load"}
    assert len(spilled) == len(loaded), "nothing is written that nobody reads"


def test_a_limit_below_what_one_node_needs_is_too_small(builder: Any) -> None:
    build = builder(size=ITEMS)
    build.op("add", build.op("sin", 0), build.op("cos", 0))
    made, _ = walk(build.graph(), 2 * ARRAY)
    with pytest.raises(DoesNotFit):
        made.run()


def test_the_work_grows_with_the_nodes(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    of_one = EvictionSearch._eviction_costs

    def counted(self: Any, value: int) -> tuple[float, float]:
        nonlocal asked
        asked += 1
        return of_one(self, value)

    monkeypatch.setattr(EvictionSearch, "_eviction_costs", counted)
    found: list[int] = []
    for count in (200, 800):
        asked = 0
        made, rewriter = walk(fan(builder, count), count * ARRAY // 2)
        made.run()
        assert sum(node.fn == "spill" for node in rewriter.nodes) > count // 4
        found.append(asked)
    assert found[1] < 5 * found[0]
