"""A graph to which nodes are added."""

from __future__ import annotations

from typing import Any

from raygrad.proto.ir.graph import Demand
from raygrad.proto.ir.nodes import Load, Node
from raygrad.proto.ir.specs import LIVE, ContextSpec
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.graph_rewriter import GraphRewriter
from raygrad.scheduler.model.priced_graph import PricedGraph

from ...graph_nodes import NOTHING_SHOWN, function_node, plain_node

COSTS = Costs()


def longer_of(graph: Any) -> GraphRewriter:
    return GraphRewriter(PricedGraph(graph, COSTS), [0] * len(graph.nodes), COSTS)


def function(known: Any = NOTHING_SHOWN, *, pure: bool = False) -> Node:
    return function_node("@f", (0,), (0, 1), pure=pure, expected=known)


def test_nodes_are_added_behind_those_that_were_asked_for(builder: Any) -> None:
    build = builder()
    value = build.op("sin", 0)
    rewriter = longer_of(build.graph())
    number, handle = rewriter.spill(0, value)
    assert (number, handle) == (1, value + 1)
    made = rewriter.rewritten([[0, 1]])
    assert made.priced.graph.nodes[0] == build.nodes[0]
    assert made.priced.graph.nodes[1].inputs == (value,)
    assert made.priced.size[handle] == 0


def test_what_was_added_since_a_mark_can_be_dropped(builder: Any) -> None:
    build = builder()
    value = build.op("sin", 0)
    rewriter = longer_of(build.graph())
    mark = rewriter.mark()
    rewriter.spill(0, value)
    rewriter.roll_back(mark)
    assert rewriter.rewritten([[0]]).priced.graph.nodes == tuple(build.nodes)
    assert rewriter.spill(0, value) == (1, value + 1)


def test_an_open_ended_graph_ends_as_it_did(builder: Any) -> None:
    build = builder()
    value = build.op("sin", 0)
    (context,) = build.add(function_node("@new", (value,), (0,), (1,)))
    build.keep_on_worker(value, context)
    demands = (Demand(0, "@one", (("cpus", 1.0),)), Demand(1, "@new", (("cpus", 2.0),)))
    rewriter = longer_of(build.graph(open_ended=True)._replace(demands=demands))
    _, handle = rewriter.spill(0, value)
    rewriter.add(0, plain_node(Load, (handle,), (1,)))
    made = rewriter.rewritten([[0, 2, 3, 1]])
    graph = made.priced.graph
    assert [node.fn for node in graph.nodes] == ["sin", "spill", "load", "@new"]
    assert [node.inputs for node in graph.nodes] == [(0,), (value,), (context,), (value,)]
    assert graph.keep == ((value, 0), (graph.values - 1, 0))
    assert graph.demands == (demands[0], Demand(3, "@new", (("cpus", 2.0),)))
    assert made.sequences == [[0, 1, 2, 3]]


def test_what_may_run_again_and_what_may_be_spilled(builder: Any) -> None:
    build = builder()
    living = build.spec(ContextSpec(8, LIVE))
    nodes = [function(), function(pure=True), function(None, pure=True)]
    values = [build.add(node)[0] for node in nodes]
    values.append(build.add(function_node("@f", (0,), (living, 1), (1,), expected=NOTHING_SHOWN))[0])
    build.hook("h", build.op("sin", 0))
    rewriter = longer_of(build.graph())
    assert [rewriter.can_repeat(index) for index in range(6)] == [False, True, False, False, True, False]
    assert [rewriter.can_spill(value) for value in values] == [True, True, True, False]
