"""The graph IR: canonical bytes, a stable hash, and reading back what a stranger sent."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raygrad.errors import ProtocolError
from raygrad.proto.graph import (
    KEEP_FOR_RUNS,
    KEEP_IN_STORE,
    KEEP_ON_WORKER,
    ROLE_FUNCTION,
    ROLE_HOOK,
    ROLE_OP,
    STAYS,
    UNDEFINED,
    VJP,
    Demand,
    Graph,
    Node,
    Spec,
    bytes_of,
    context_spec,
    first_outputs,
    on_devices,
    stored,
    structural_hash,
)

VECTOR = Spec("array", (3,), "float64", "cpu", ((0,), ()))
CONTEXT = Spec("context")
NUMBER = Spec("const")

SMALL = Graph(
    specs=(VECTOR, CONTEXT, NUMBER),
    externals=(0, 2),
    nodes=(
        Node(ROLE_OP, "mul", (), (0, 1), (0,), ()),
        Node(ROLE_FUNCTION, "@f00d", (), (2,), (1, 0, 0), (1, (1,), 1, None)),
        Node(ROLE_FUNCTION, "@f00d", (VJP,), (3, UNDEFINED, 4), (0,), (2, 1, 2, (0,), (), 0), pin=1, near=3),
        Node(ROLE_HOOK, "@cafe", (), (6,), (0,), ("tensor", 1, 0)),
    ),
    keep=((3, KEEP_IN_STORE), (6, KEEP_FOR_RUNS), (7, KEEP_ON_WORKER)),
)


def test_a_graph_comes_back_equal_and_with_its_types():
    back = Graph.decode(SMALL.encode())
    assert back == SMALL
    assert {type(node) for node in back.nodes} == {Node}
    assert {type(spec) for spec in back.specs} == {Spec}
    assert back.encode() == SMALL.encode()


def test_of_a_context_it_is_told_where_it_holds_what():
    on = (("cuda:0", 60), ("cuda:1", 30))
    context = context_spec(100, STAYS, on)
    assert on_devices(context) == on
    assert not stored(context)
    assert on_devices(context_spec(100, 0)) == ()
    assert stored(context_spec(100, 0, on))
    graph = SMALL._replace(specs=(VECTOR, context, NUMBER))
    assert Graph.decode(graph.encode()) == graph


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        (VECTOR, 24),
        (Spec("array", (), "float32"), 4),
        (Spec("array", (5,), "quarter"), 40),
        (CONTEXT, -1),
        (Spec("context", (-1, 0)), -1),
        (Spec("context", (700, 2)), 700),
        (NUMBER, -1),
        (Spec("const", (9000,)), 9000),
        (Spec("object"), -1),
    ],
)
def test_the_bytes_of_a_value_are_known_from_its_spec(spec: Spec, size: int):
    assert bytes_of(spec) == size


def test_values_are_numbered_externals_first():
    assert SMALL.values == 8
    assert first_outputs(SMALL) == [2, 3, 6, 7]


def test_equal_graphs_have_one_hash_and_any_difference_another():
    name = structural_hash(SMALL.encode())
    assert len(name) == 16
    assert structural_hash(SMALL._replace().encode()) == name
    node = SMALL.nodes[0]
    others = [
        SMALL._replace(externals=(2, 0)),
        SMALL._replace(keep=()),
        SMALL._replace(nodes=(node._replace(fn="add"), *SMALL.nodes[1:])),
        SMALL._replace(nodes=(node._replace(inputs=(1, 0)), *SMALL.nodes[1:])),
        SMALL._replace(nodes=(node._replace(params=(1,)), *SMALL.nodes[1:])),
        SMALL._replace(nodes=(node._replace(pin=0), *SMALL.nodes[1:])),
        SMALL._replace(specs=(VECTOR._replace(layout=None), CONTEXT, NUMBER)),
    ]
    assert len({structural_hash(graph.encode()) for graph in others} | {name}) == len(others) + 1


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    externals = draw(st.integers(0, 3))
    known = externals
    nodes: list[Node] = []
    for _ in range(draw(st.integers(0, 6))):
        inputs = tuple(draw(st.lists(st.integers(UNDEFINED, known - 1), max_size=3)))
        outputs = tuple(draw(st.lists(st.integers(0, 2), min_size=1, max_size=3)))
        role = draw(st.sampled_from([ROLE_OP, ROLE_FUNCTION, ROLE_HOOK, "sum"]))
        transforms = draw(st.sampled_from([(), (VJP,), (VJP, VJP)]))
        params = draw(st.sampled_from([(), (1, ("a", None)), (2.5, -1, b"x", True)]))
        near = draw(st.integers(UNDEFINED, known - 1))
        nodes.append(Node(role, draw(st.text(max_size=5)), transforms, inputs, outputs, params, -1, near))
        known += len(outputs)
    keep = [(value, KEEP_ON_WORKER) for value in draw(st.lists(st.integers(0, max(known - 1, 0)), max_size=3))] * bool(
        known
    )
    return Graph((VECTOR, CONTEXT, NUMBER), (0,) * externals, tuple(nodes), tuple(keep))


@settings(deadline=None)
@given(graphs())
def test_any_graph_comes_back_equal(graph: Graph):
    assert Graph.decode(graph.encode()) == graph


def _with_node(**changes: Any) -> Graph:
    return SMALL._replace(nodes=(*SMALL.nodes[:2], SMALL.nodes[2]._replace(**changes), SMALL.nodes[3]))


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (_with_node(inputs=(6,)), r"node 2 \(@f00d\) reads value 6, which does not exist before it"),
        (_with_node(near=7), "reads value 7"),
        (_with_node(inputs=(-2,)), "inputs of node 2"),
        (_with_node(inputs=(1.0,)), "inputs of node 2"),
        (_with_node(inputs=(True,)), "inputs of node 2"),
        (_with_node(inputs=b"\x01"), "inputs of node 2"),
        (_with_node(inputs=None), "inputs of node 2"),
        (_with_node(outputs=(3,)), "output specs of node 2"),
        (_with_node(outputs=(-1,)), "output specs of node 2"),
        (_with_node(role="magic"), "role of node 2"),
        (_with_node(role=("op",)), "role of node 2"),
        (_with_node(role={}), "role of node 2"),
        (_with_node(fn=b"mul"), "name of node 2"),
        (_with_node(transforms=("jump",)), "transform of node 2"),
        (_with_node(transforms=(1,)), "transforms of node 2"),
        (_with_node(transforms="vjp"), "transforms of node 2"),
        (_with_node(params=3), "params of node 2"),
        (_with_node(pin=-2), "pin of node 2"),
        (_with_node(pin=None), "pin of node 2"),
        (SMALL._replace(nodes=(("op",),)), "node 0 is not 8 fields"),
        (SMALL._replace(nodes=("abcdefgh",)), "node 0 is not 8 fields"),
        (SMALL._replace(nodes=7), "nodes is not a sequence"),
        (SMALL._replace(externals=(3,)), "specs of the externals"),
        (SMALL._replace(keep=((8, KEEP_ON_WORKER),)), "value 8 is to be kept and does not exist"),
        (SMALL._replace(keep=((3, 3),)), "KEEP_"),
        (SMALL._replace(keep=((3,),)), "kept value"),
        (SMALL._replace(open_ended=1), "open-ended flag"),
        (SMALL._replace(open_ended=True), "ends with a user Function"),
        (SMALL._replace(specs=(VECTOR._replace(kind="ghost"), CONTEXT, NUMBER)), "kind of a spec"),
        (SMALL._replace(specs=(VECTOR._replace(shape=("3",)), CONTEXT, NUMBER)), "shape of a spec"),
        (SMALL._replace(specs=(VECTOR._replace(dtype=None), CONTEXT, NUMBER)), "dtype of a spec"),
        (SMALL._replace(specs=(VECTOR._replace(device=0), CONTEXT, NUMBER)), "device of a spec"),
        (SMALL._replace(specs=(VECTOR._replace(layout=((1,), ())), CONTEXT, NUMBER)), "axis order"),
        (SMALL._replace(specs=(VECTOR._replace(layout=((0,),)), CONTEXT, NUMBER)), "layout of a spec"),
        (SMALL._replace(specs=(("array",),)), "spec is not 5 fields"),
        (SMALL._replace(specs=(VECTOR, Spec("context", (8, 0, 4, 4)), NUMBER)), "holds bytes on 2 devices, which"),
    ],
)
def test_a_malformed_graph_is_refused_and_the_error_says_where(graph: Graph, says: str):
    with pytest.raises(ProtocolError, match=says):
        Graph.decode(graph.encode())


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ((2, *SMALL), "version"),
        ((), "version"),
        ((1, *SMALL[:4]), "not 6 fields"),
        ("graph", "not a sequence"),
    ],
)
def test_another_version_or_form_is_refused(body: Any, says: str):
    with pytest.raises(ProtocolError, match=says):
        Graph.decode(msgpack.packb(body))


def test_more_nodes_than_the_cap_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("raygrad.proto.graph.MAX_NODES", 3)
    with pytest.raises(ProtocolError, match="4 nodes; at most 3"):
        Graph.decode(SMALL.encode())


def test_more_values_than_the_cap_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("raygrad.proto.graph.MAX_VALUES", 7)
    with pytest.raises(ProtocolError, match="8 values; at most 7"):
        Graph.decode(SMALL.encode())


def demanding(*demands: Any) -> Graph:
    node = Node("op", "sin", (), (0,), (0,), ())
    return Graph((Spec("array", (3,), "float64"),), (0,), (node, node), (), False, demands)


def test_demands_come_back_and_a_graph_without_them_has_the_bytes_that_it_had():
    graph = demanding(Demand(0, "F", (("memory", 1e9), ("num_cpus", 2.0))), Demand(1, "", (("device cuda:0", 1.0),)))
    assert Graph.decode(graph.encode()) == graph
    plain = demanding()
    assert len(msgpack.unpackb(plain.encode())) == 6
    assert Graph.decode(plain.encode()) == plain
    assert structural_hash(graph.encode()) != structural_hash(plain.encode())


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
def test_demands_that_are_none_are_refused(demands: Any, message: str):
    body = [*msgpack.unpackb(demanding().encode(), use_list=False), demands]
    with pytest.raises(ProtocolError, match=message):
        Graph.decode(msgpack.packb(body))
