"""Graphs as bytes: canonical, with a stable hash, and read back from a stranger only if they are well formed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings, strategies as st

from raygrad.errors import ProtocolError
from raygrad.proto.codec.graphs import decode_graph, encode_graph
from raygrad.proto.ir.graph import (
    KEEP_FOR_RUNS,
    KEEP_IN_STORE,
    KEEP_ON_WORKER,
    CostHint,
    Demand,
    Graph,
    structural_hash,
)
from raygrad.proto.ir.nodes import UNDEFINED, GradSum, Node, OpCall, placed
from raygrad.proto.ir.specs import STAYS, ArraySpec, ConstSpec, ContextSpec

from ...graph_nodes import function_node, function_vjp_node, hook_node, op_node, op_vjp_node, plain_node
from ..all_kinds import GRAPH

VECTOR = ArraySpec((3,), "float64", "cpu", ((0,), ()))
CONTEXT = ContextSpec()
NUMBER = ConstSpec()
MUL = op_node("mul", (0, 1), (0,))

SMALL = Graph(
    specs=(VECTOR, CONTEXT, NUMBER),
    externals=(0, 2),
    nodes=(
        MUL,
        function_node("@f00d", (2,), (1, 0, 0)),
        function_vjp_node("@f00d", (3, UNDEFINED, 4), (0,), pin=1, near=3),
        hook_node("@cafe", (6,), (0,)),
    ),
    keep=((3, KEEP_IN_STORE), (6, KEEP_FOR_RUNS), (7, KEEP_ON_WORKER)),
)


@pytest.mark.parametrize("graph", [SMALL, GRAPH])
def test_a_graph_comes_back_equal_and_with_its_types(graph: Graph) -> None:
    back = decode_graph(encode_graph(graph))
    assert back == graph
    assert [type(node) for node in back.nodes] == [type(node) for node in graph.nodes]
    assert [type(spec) for spec in back.specs] == [type(spec) for spec in graph.specs]
    assert encode_graph(back) == encode_graph(graph)


def test_of_a_context_it_is_told_where_it_holds_what() -> None:
    context = ContextSpec(100, STAYS, (("cuda:0", 60), ("cuda:1", 30)))
    graph = SMALL._replace(specs=(VECTOR, context, NUMBER))
    assert decode_graph(encode_graph(graph)) == graph


def test_equal_graphs_have_one_hash_and_any_difference_another() -> None:
    name = structural_hash(encode_graph(SMALL))
    assert len(name) == 16
    assert structural_hash(encode_graph(SMALL._replace())) == name
    others = [
        SMALL._replace(externals=(2, 0)),
        SMALL._replace(keep=()),
        *[
            SMALL._replace(nodes=(node, *SMALL.nodes[1:]))
            for node in (
                MUL._replace(fn="add"),
                MUL._replace(inputs=(1, 0)),
                MUL._replace(params=(1,)),
                MUL._replace(pin=0),
                plain_node(GradSum, (0, 1)),
            )
        ],
        SMALL._replace(specs=(replace(VECTOR, layout=None), CONTEXT, NUMBER)),
    ]
    assert len({structural_hash(encode_graph(graph)) for graph in others} | {name}) == len(others) + 1


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    externals = draw(st.integers(0, 3))
    known = externals
    nodes: list[Node] = []
    for _ in range(draw(st.integers(0, 6))):
        inputs = tuple(draw(st.lists(st.integers(UNDEFINED, known - 1), max_size=3)))
        outputs = tuple(draw(st.lists(st.integers(0, 2), min_size=1, max_size=3)))
        params = draw(st.sampled_from([(), (1, ("a", None)), (2.5, -1, b"x", True)]))
        fn = draw(st.text(max_size=5))
        kinds: list[Node] = [
            op_node(fn, params=params),
            op_vjp_node(fn, params=params),
            function_node(fn),
            function_vjp_node(fn, depth=2),
            hook_node(fn),
            plain_node(GradSum),
        ]
        node: Any = draw(st.sampled_from(kinds))
        nodes.append(placed(node, inputs, outputs, -1, draw(st.integers(UNDEFINED, known - 1))))
        known += len(outputs)
    keep = [(value, KEEP_ON_WORKER) for value in draw(st.lists(st.integers(0, max(known - 1, 0)), max_size=3))] * bool(
        known
    )
    return Graph((VECTOR, CONTEXT, NUMBER), (0,) * externals, tuple(nodes), tuple(keep))


@settings(deadline=None)
@given(graphs())
def test_any_graph_comes_back_equal(graph: Graph) -> None:
    back = decode_graph(encode_graph(graph))
    assert back == graph
    assert [type(node) for node in back.nodes] == [type(node) for node in graph.nodes]


PARTS = ("version", "specs", "externals", "nodes", "keep", "open_ended")
FIELDS = ("role", "fn", "transforms", "inputs", "outputs", "params", "pin", "near")
BODY: dict[str, Any] = dict(zip(PARTS, msgpack.unpackb(encode_graph(SMALL), use_list=False), strict=True))


def body(**changes: Any) -> bytes:
    """The bytes of the graph with other parts."""
    return msgpack.packb([*{**BODY, **changes}.values()])


def with_node(**changes: Any) -> bytes:
    """The bytes of the graph with other fields of node 2."""
    fields = dict(zip(FIELDS, BODY["nodes"][2], strict=True))
    nodes = [*BODY["nodes"][:2], [*{**fields, **changes}.values()], BODY["nodes"][3]]
    return body(nodes=nodes)


@pytest.mark.parametrize(
    ("encoded", "says"),
    [
        (with_node(inputs=(6,)), r"node 2 \(@f00d\) reads value 6, which does not exist before it"),
        (with_node(near=7), "reads value 7"),
        (with_node(inputs=(-2,)), "inputs of node 2"),
        (with_node(inputs=(1.0,)), "inputs of node 2"),
        (with_node(inputs=(True,)), "inputs of node 2"),
        (with_node(inputs=b"\x01"), "inputs of node 2"),
        (with_node(inputs=None), "inputs of node 2"),
        (with_node(outputs=(3,)), "output specs of node 2"),
        (with_node(outputs=(-1,)), "output specs of node 2"),
        (with_node(role="magic"), "role of node 2"),
        (with_node(role=("op",)), "role of node 2"),
        (with_node(role={}), "role of node 2"),
        (with_node(fn=b"mul"), "name of node 2"),
        (with_node(transforms=("jump",)), "transform of node 2"),
        (with_node(transforms=(1,)), "transform of node 2"),
        (with_node(transforms="vjp"), "transforms of node 2"),
        (with_node(params=3), "params of node 2"),
        (with_node(params=()), r"params of node 2 \(@f00d\) are neither 12 nor 14 fields"),
        (with_node(pin=-2), "pin of node 2"),
        (with_node(pin=None), "pin of node 2"),
        (body(nodes=(("op",),)), "node 0 is not 8 fields"),
        (body(nodes=("abcdefgh",)), "node 0 is not 8 fields"),
        (body(nodes=7), "nodes is not a sequence"),
        (body(externals=(3,)), "specs of the externals"),
        (body(keep=((8, KEEP_ON_WORKER),)), "value 8 is to be kept and does not exist"),
        (body(keep=((3, 3),)), "KEEP_"),
        (body(keep=((3,),)), "kept value"),
        (body(open_ended=1), "open-ended flag"),
        (body(open_ended=True), "ends with a user Function"),
        (body(specs=(("array",),)), "spec is not 5 fields"),
        (body(specs=7), "specs is not a sequence"),
    ],
)
def test_a_malformed_graph_is_refused_and_the_error_says_where(encoded: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        decode_graph(encoded)


@pytest.mark.parametrize(
    ("encoded", "says"),
    [
        (body(version=2), "version"),
        (msgpack.packb(()), "version"),
        (msgpack.packb([*BODY.values()][:5]), "not 6 fields"),
        (msgpack.packb("graph"), "not a sequence"),
    ],
)
def test_another_version_or_form_is_refused(encoded: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        decode_graph(encoded)


def test_more_nodes_than_the_cap_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raygrad.proto.codec.nodes.MAX_NODES", 3)
    with pytest.raises(ProtocolError, match="4 nodes; at most 3"):
        decode_graph(encode_graph(SMALL))


def test_more_values_than_the_cap_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raygrad.proto.codec.graphs.MAX_VALUES", 7)
    with pytest.raises(ProtocolError, match="8 values; at most 7"):
        decode_graph(encode_graph(SMALL))


def demanding(*demands: Any) -> Graph:
    node: OpCall = op_node("sin", (0,))
    return Graph((ArraySpec((3,), "float64"),), (0,), (node, node), (), False, demands)


def test_demands_come_back_and_a_graph_without_them_has_the_bytes_that_it_had() -> None:
    graph = demanding(Demand(0, "F", (("memory", 1e9), ("num_cpus", 2.0))), Demand(1, "", (("device cuda:0", 1.0),)))
    assert decode_graph(encode_graph(graph)) == graph
    plain = demanding()
    assert len(msgpack.unpackb(encode_graph(plain))) == 6
    assert decode_graph(encode_graph(plain)) == plain
    assert structural_hash(encode_graph(graph)) != structural_hash(encode_graph(plain))


@pytest.mark.parametrize(
    ("demands", "message"),
    [
        ([], "has no field for them"),
        ([(2, "F", (("a", 1.0),))], "node of a demand"),
        ([(1, "F", ()), (0, "F", ())], "node of a demand"),
        ([(0, 1, ())], "name of what node 0 runs"),
        ([(0, "F", (("a", -1.0),))], "amount that node 0 asks for"),
        ([(0, "F", (("a", 1),))], "amount that node 0 asks for"),
        ([(0, "F", ((b"a", 1.0),))], "resource of node 0"),
        ([(0, "F", (("a",),))], "demand of node 0"),
    ],
)
def test_demands_that_are_none_are_refused(demands: Any, message: str) -> None:
    encoded = [*msgpack.unpackb(encode_graph(demanding()), use_list=False), demands]
    with pytest.raises(ProtocolError, match=message):
        decode_graph(msgpack.packb(encoded))


def hinted(*hints: Any, demands: tuple[Demand, ...] = ()) -> Graph:
    """A Function and an op that reads the same array, with cost hints."""
    nodes = (function_node("@f", (0,), (0,)), op_node("sin", (0,), (0,)), function_node("@g", (0,), (0,)))
    return Graph((ArraySpec((3,), "float64"),), (0,), nodes, (), False, demands, hints)


def test_cost_hints_come_back_with_and_without_demands() -> None:
    hints = (CostHint(0, 0.5, ""), CostHint(2, 0.0, "3, 'mean'"))
    demand = Demand(0, "f", (("num_cpus", 2.0),))
    for demands in ((), (demand,)):
        graph = hinted(*hints, demands=demands)
        assert decode_graph(encode_graph(graph)) == graph
        assert len(msgpack.unpackb(encode_graph(graph))) == 8
    assert len(msgpack.unpackb(encode_graph(hinted()))) == 6
    assert structural_hash(encode_graph(hinted(*hints))) != structural_hash(encode_graph(hinted()))


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ((), "no field"),
        (((9, 1.0, ""),), "node of a cost hint"),
        (((2, 1.0, ""), (0, 1.0, "")), "node of a cost hint"),
        (((1, 1.0, ""),), "node 1 has a cost hint and is no user Function's"),
        (((0, -1.0, ""),), "seconds hinted"),
        (((0, float("nan"), ""),), "seconds hinted"),
        (((0, 1, ""),), "seconds hinted"),
        (((0, 1.0, 3),), "argument values of node 0"),
        (((0, 1.0),), "cost hint"),
    ],
)
def test_cost_hints_that_are_none_are_refused(hints: Any, message: str) -> None:
    encoded = [*msgpack.unpackb(encode_graph(hinted()), use_list=False), (), hints]
    with pytest.raises(ProtocolError, match=message):
        decode_graph(msgpack.packb(encoded))
