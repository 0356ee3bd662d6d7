"""A graph as people see it."""

from __future__ import annotations

import json
from typing import NamedTuple

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.nodes import GradSum
from raygrad.proto.ir.specs import ArraySpec, ContextSpec
from raygrad.report.shown import BACKWARD, FORWARD, HOOK, as_plain_data, label_graph
from raygrad.scheduler.explain.explanation import Reason

from ..graph_nodes import function_node, function_vjp_node, hook_node, op_node, plain_node

GRAPH = Graph(
    (ArraySpec((4,), "float64"), ContextSpec()),
    (0,),
    (
        function_node("@f00d", (0,), (1, 0), (1,)),
        function_vjp_node("@f00d", (1, 2, -1), (0,)),
        hook_node("@beef", (3,), (0,)),
        plain_node(GradSum, (4, 4), (0,)),
        op_node("mul", (5, 2), (0,)),
    ),
    (),
)


def test_user_code_has_its_name_and_vjps_a_sign():
    names = {"@f00d": "Solve", "@beef": "scale"}
    seen = label_graph(GRAPH, names.__getitem__, [None, "train.py:3", None, None, None])
    assert [seen.label(node) for node in range(5)] == ["Solve", "∂Solve", "scale", "+", "mul"]
    assert seen.kinds == (FORWARD, BACKWARD, HOOK, BACKWARD, FORWARD)
    assert seen.places[:2] == ("", "train.py:3")


def test_each_edge_is_told_once():
    seen = label_graph(GRAPH, str, [])
    assert seen.edges == ((0, 1), (1, 2), (2, 3), (0, 4), (3, 4))
    assert seen.places == ("",) * 5


class Pair(NamedTuple):
    left: int
    right: tuple[float, ...]


def test_data_is_plain():
    data = as_plain_data(
        {"pair": Pair(1, (0.5,)), "reason": Reason.PINNED, 3: None, "graph": label_graph(GRAPH, str, [])}
    )
    assert json.loads(json.dumps(data)) == data
    assert data["pair"] == {"left": 1, "right": [0.5]}
    assert data["reason"] == "pinned by the user"
    assert data["graph"]["edges"][0] == [0, 1]
