"""Each kind of node has the tuple that it always had on the wire, and comes back from it field by field."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from raygrad.errors import ProtocolError
from raygrad.proto.codec.nodes import node_fields, nodes_of
from raygrad.proto.ir.nodes import ControlDependency, Digest, FunctionCall, GradSum, HookCall, Node, OpCall, OpVjp

from ..all_kinds import NODES, SPECS

each = pytest.mark.parametrize(("node", "fields"), NODES, ids=[f"{type(node).__name__}" for node, _ in NODES])


def test_there_is_one_of_each_kind() -> None:
    assert {type(node) for node, _ in NODES} == {*get_args(Node)}


@each
def test_a_node_has_the_tuple_that_it_always_had(node: Node, fields: tuple[Any, ...]) -> None:
    (made,) = node_fields([node])
    assert made == fields
    assert [type(field) for field in made] == [type(field) for field in fields]


@each
def test_a_node_comes_back_field_by_field(node: Node, fields: tuple[Any, ...]) -> None:
    (back,) = nodes_of((fields,), len(SPECS))
    assert type(back) is type(node)
    assert back._asdict() == node._asdict()
    assert [type(value) for value in back] == [type(value) for value in node]


def test_many_nodes_come_back_in_order() -> None:
    assert nodes_of(tuple([fields for _, fields in NODES]), len(SPECS)) == tuple([node for node, _ in NODES])


def broken(kind: type, position: int, value: Any, which: int = 0) -> tuple[Any, ...]:
    """The tuple of a node of a kind with another param in one place; position -1 leaves one out."""
    fields = [fields for node, fields in NODES if type(node) is kind][which]
    params: list[Any] = list(fields[5])
    if position < 0:
        del params[0]
    else:
        params[position] = value
    return (*fields[:5], tuple(params), *fields[6:])


KINDS = {kind.__name__: kind for kind in get_args(Node)}


@pytest.mark.parametrize(
    ("kind", "position", "value", "says"),
    [
        ("OpVjp", -1, None, r"params of node 1 \(mul\) is not 4 fields"),
        ("OpVjp", 0, 7, r"params of the op of node 1 \(mul\)"),
        ("OpVjp", 1, (1, 2), "wanted operands of node 1"),
        ("OpVjp", 1, (1, True), "wanted operands of node 1"),
        ("OpVjp", 1, (1,), "has 2 operands and says of 1 whether they are wanted"),
        ("OpVjp", 2, (0, 99), "operand specs of node 1"),
        ("OpVjp", 3, (-1,), "result specs of node 1"),
        ("OpVjp", 3, 0, "result specs of node 1"),
        ("FunctionCall", -1, None, r"params of node 1 \(@f00d\) are neither 7 nor 9 fields"),
        ("FunctionCall", 0, 3, "has 3 arguments and flags of 2"),
        ("FunctionCall", 0, None, "number of arguments of node 1"),
        ("FunctionCall", 1, (1, 1 << 30), "flags of the arguments of node 1"),
        ("FunctionCall", 2, 16, "sum of what forward is told of node 1"),
        ("FunctionCall", 3, (1, 2), "expected signature of node 1"),
        ("FunctionCall", 4, (1,), "names of keyword arguments of node 1"),
        ("FunctionCall", 5, 1, "shared memory of the arguments of node 1"),
        ("FunctionCall", 6, (1, 2), "settings of node 1"),
        ("FunctionCall", 6, (("casting", 1),), "settings of node 1"),
        ("FunctionCall", 6, (("anomaly", 1), ("weather", 1)), "settings of node 1"),
        ("FunctionCall", 6, None, "settings of node 1"),
        ("FunctionVjp", -1, None, "are neither 12 nor 14 fields"),
        ("FunctionVjp", 0, -1, "number of items of node 1"),
        ("FunctionVjp", 1, "1", "number of arguments of node 1"),
        ("FunctionVjp", 2, 1.0, "number of results of node 1"),
        ("FunctionVjp", 3, (-1,), "wanted positions of node 1"),
        ("FunctionVjp", 4, 1, "positions that require grad of node 1"),
        ("FunctionVjp", 5, 2, "mark of what is differentiated of node 1"),
        ("FunctionVjp", 6, 0, "refusal of node 1"),
        ("FunctionVjp", 7, ((), (), ()), "expected gradients of node 1"),
        ("FunctionVjp", 7, ((-1,), ()), "expected gradients of node 1"),
        ("FunctionVjp", 8, 4, "sum of what a vjp is told of node 1"),
        ("FunctionVjp", 9, (("a",),), "attributes of node 1"),
        ("FunctionVjp", 9, ((0, 1),), "attributes of node 1"),
        ("FunctionVjp", 10, 5, "mark of what is reported of node 1"),
        ("FunctionVjp", 11, (((0,),),), "places of leaves of node 1"),
        ("FunctionVjp", 11, (((0, -1),),), "places of leaves of node 1"),
        ("FunctionVjp", 12, 4, "fate of leaves of node 1"),
        ("FunctionVjp", 13, (1,), "settings of node 1"),
        ("HookCall", -1, None, "are neither 4 nor 6 fields"),
        ("HookCall", 0, "side", "kind of hook of node 1"),
        ("HookCall", 1, -1, "number of gradients of node 1"),
        ("HookCall", 2, None, "number of gradients that are shown of node 1"),
        ("CheckNotNan", 0, 3, "message of node 1"),
        ("CheckNotNan", -1, None, "params of node 1"),
        ("CheckDigest", 0, b"Draws", "name of the Function of node 1"),
    ],
)
def test_a_malformed_node_is_refused_by_the_name_of_the_field(kind: str, position: int, value: Any, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        nodes_of((NODES[0][1], broken(KINDS[kind], position, value)), len(SPECS))


@pytest.mark.parametrize("kind", ["GradSum", "CheckDefined", "ControlDependency", "Digest", "Emit", "Spill", "Load"])
def test_a_kind_without_params_is_refused_with_some(kind: str) -> None:
    fields = next(fields for node, fields in NODES if type(node).__name__ == kind)
    with pytest.raises(ProtocolError, match=r"params of node 0 .* is not 0 fields"):
        nodes_of(((*fields[:5], (1,), *fields[6:]),), len(SPECS))


@pytest.mark.parametrize(
    ("role", "fn", "transforms", "says"),
    [
        ("sum", "product", (), r"node 0 \(product\) is none of the kinds after, agree, defined, digest, no nan, sum"),
        ("memory", "forget", (), "is none of the kinds load, spill"),
        ("emit", "send", (), "is none of the kinds emit"),
        ("sum", "sum", ("vjp",), "is differentiated 1 times, its kind at most 0 times"),
        ("hook", "@cafe", ("vjp",), "is differentiated 1 times, its kind at most 0 times"),
        ("op", "mul", ("vjp", "vjp"), "is differentiated 2 times, its kind at most 1 times"),
    ],
)
def test_a_node_of_no_kind_is_refused(role: str, fn: str, transforms: tuple[str, ...], says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        nodes_of(((role, fn, transforms, (), (0,), (), -1, -1),), len(SPECS))


def test_the_wire_does_not_depend_on_how_a_node_was_built() -> None:
    call = OpCall(fn="sin", params=(), near=-1, pin=-1, outputs=(0,), inputs=(3,))
    assert node_fields([call]) == [("op", "sin", (), (3,), (0,), (), -1, -1)]
    pure = next(node for node, _ in NODES if isinstance(node, FunctionCall))._replace(pure=True, recorded=False)
    assert node_fields([pure])[0][5][2] == 4


@pytest.mark.parametrize("kind", ["tensor", "pre", "post", "all", "any"])
def test_hooks_of_each_kind_are_read(kind: str) -> None:
    assert nodes_of((broken(KINDS["HookCall"], 0, kind),), len(SPECS)) == (
        next(node for node, _ in NODES if isinstance(node, HookCall))._replace(kind=kind),
    )


def vjp_of_pow(exponent: Any, wanted: tuple[Any, ...] = (1,)) -> tuple[Any, ...]:
    return ("op", "pow", ("vjp",), (0,), (0,), ((exponent,), wanted, (0,), (0,)), -1, -1)


def test_nodes_that_are_read_once_keep_the_types_of_their_own_params() -> None:
    back = nodes_of((vjp_of_pow(2), vjp_of_pow(2.0), vjp_of_pow(True)), len(SPECS))
    assert [node.params for node in back if isinstance(node, OpVjp)] == [(2,), (2.0,), (True,)]
    assert [type(node.params[0]) for node in back if isinstance(node, OpVjp)] == [int, float, bool]


def test_what_is_shared_with_an_earlier_node_is_what_was_checked() -> None:
    back = nodes_of((vjp_of_pow(2), vjp_of_pow(3, (True,))), len(SPECS))
    assert [type(node.wanted[0]) for node in back if isinstance(node, OpVjp)] == [int, int]
    with pytest.raises(ProtocolError, match="wanted operands of node 0"):
        nodes_of((vjp_of_pow(3, (True,)),), len(SPECS))
    with pytest.raises(ProtocolError, match="params of the op of node 1"):
        nodes_of((vjp_of_pow(2), (*vjp_of_pow(2)[:5], (7, (1,), (0,), (0,)), -1, -1)), len(SPECS))


def test_params_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r"params of node 1 \(@f00d\) are not only texts and numbers"):
        nodes_of((NODES[0][1], broken(KINDS["FunctionCall"], 5, ({},))), len(SPECS))


def test_equal_nodes_of_several_kinds_are_written_apart() -> None:
    kinds = (GradSum, ControlDependency, Digest)
    written = node_fields([kind((0, 1), (0,), -1, -1) for kind in kinds for _ in range(2)])
    assert [one[1] for one in written] == ["sum", "sum", "after", "after", "digest", "digest"]
