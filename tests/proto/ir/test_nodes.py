"""What all kinds of node have in common, and what code asks of any of them."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import pytest

from raygrad.proto.ir.nodes import (
    UNDEFINED,
    UNPLACED,
    Digest,
    GradSum,
    Node,
    OpCall,
    Spill,
    moves,
    placed,
    reruns,
    transforms_of,
)

from ...graph_nodes import function_node, function_vjp_node, hook_node, op_node, op_vjp_node, plain_node
from ..all_kinds import NODES

KINDS = get_args(Node)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_begins_with_the_same_fields_and_says_what_it_is(kind: Any) -> None:
    assert kind._fields[:4] == ("inputs", "outputs", "pin", "near")
    assert all(hasattr(kind, name) for name in ("fn", "role", "depth"))
    assert kind.__doc__


def test_no_two_kinds_have_one_name_on_the_wire() -> None:
    named = [(node.role, node.fn, node.depth > 0) for node in {type(node): node for node, _ in NODES}.values()]
    assert len({*named}) == len(named) == len(KINDS)


def test_nodes_of_two_kinds_are_never_equal() -> None:
    common = ((0,), (0,), -1, UNDEFINED)
    assert GradSum(*common) != Digest(*common)
    assert not GradSum(*common) == Digest(*common)
    assert len({GradSum(*common), Digest(*common), Spill(*common), GradSum(*common)}) == 3
    assert GradSum(*common) == GradSum(*common)


@pytest.mark.parametrize("node", [node for node, _ in NODES])
def test_a_node_is_frozen_and_survives_pickling(node: Node) -> None:
    with pytest.raises(AttributeError):
        setattr(node, "inputs", ())  # noqa: B010 - a type checker would refuse the statement
    back = pickle.loads(pickle.dumps(node))
    assert type(back) is type(node)
    assert back == node


@pytest.mark.parametrize("node", [node for node, _ in NODES])
def test_a_placed_node_does_the_same_on_other_values(node: Node) -> None:
    made = placed(node, (7, 8), (1,), 2, 3)
    assert type(made) is type(node)
    assert made == node._replace(inputs=(7, 8), outputs=(1,), pin=2, near=3)
    assert placed(made, node.inputs, node.outputs)[2:4] == (-1, UNDEFINED)


def test_what_is_of_no_graph_has_no_values() -> None:
    node = OpCall(*UNPLACED, fn="sin", params=())
    assert (node.inputs, node.outputs, node.pin, node.near) == ((), (), -1, UNDEFINED)


@pytest.mark.parametrize(
    ("node", "may"),
    [
        (op_node("sin"), True),
        (op_vjp_node("sin"), True),
        (plain_node(GradSum), True),
        (function_node("@f", pure=True), True),
        (function_node("@f"), False),
        (function_vjp_node("@f"), False),
        (hook_node("@f"), False),
        (plain_node(Digest), False),
        (plain_node(Spill), False),
    ],
)
def test_what_nobody_notices_running_twice(node: Node, may: bool) -> None:
    assert reruns(node) is may


def test_what_moves_between_devices() -> None:
    assert [moves(op_node("to_device")), moves(op_vjp_node("to_device")), moves(op_node("sin"))] == [True, True, False]


def test_texts_tell_how_often_a_node_is_differentiated() -> None:
    nodes = [op_node("sin"), op_vjp_node("sin"), function_vjp_node("@f", depth=2)]
    assert [transforms_of(node) for node in nodes] == [(), ("vjp",), ("vjp", "vjp")]
