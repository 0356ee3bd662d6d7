"""The gradients of leaves that come to a worker with a step, and go home from there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.nodes.captured_leaves import LEAF, captured_tensor
from raygrad.proto.ir.nodes import UNDEFINED, LeafGrads
from raygrad.workers.interpreter.leaf_gradients import (
    ADDED,
    ARGUMENT,
    CAPTURED,
    DISCARDED,
    HELD,
    HOME,
    REFUSED,
    BorrowedLeaves,
    refused,
)

from ...graph_nodes import function_vjp_node, hook_node


def leaves(entries: Any, fate: int, sources: tuple[int, ...], outputs: tuple[int, ...] = ()) -> BorrowedLeaves:
    """Those of a hook."""
    node = hook_node("@", (0, *sources), (), leaves=LeafGrads(entries, fate))
    found = BorrowedLeaves.of(node, (5, *outputs))
    assert found is not None
    return found


def test_a_step_without_them_has_none() -> None:
    assert BorrowedLeaves.of(function_vjp_node("@", (), ()), ()) is None


def test_a_leaf_comes_with_its_gradient_and_what_is_added_goes_home() -> None:
    one = leaves((((CAPTURED, 1),),), HOME, (2,), (7,))
    assert (len(one), one.returned) == (1, 1)
    before = np.array([1.0, 2.0])
    slots: list[Any] = [None, None, before, None, None, None, None, None]
    read: list[Any] = [np.zeros(1), np.array([3.0, 4.0])]
    w: Any = one.lend(slots, read, [], None)[0]
    assert read[1] is w
    assert (w.tolist(), w.requires_grad, w.grad.tolist()) == ([3.0, 4.0], True, [1.0, 2.0])
    (w * w).sum().backward()
    one.take_back(slots, [w], "code")
    assert slots[7].tolist() == [7.0, 10.0]
    assert before.tolist() == [1.0, 2.0]
    assert w.grad is None


def test_what_is_added_is_collected_while_the_gradient_is_at_the_client() -> None:
    one = leaves((((CAPTURED, 0),), ((CAPTURED, 1),)), ADDED, (UNDEFINED, UNDEFINED), (6, 7))
    assert one.returned == 2
    read: list[Any] = [np.array([3.0, 4.0]), np.ones(2)]
    slots: list[Any] = [None] * 8
    lent: list[Any] = one.lend(slots, read, [], None)
    for factor in (1.0, 2.0):
        (lent[0] * factor).sum().backward()
    one.take_back(slots, lent, "code")
    assert [array.tolist() for array in slots[6]] == [[1.0, 1.0], [2.0, 2.0]]
    assert slots[7] is None
    assert lent[0].grad is None
    before = np.full(2, 0.5)
    assert slots[6].added_to(before).tolist() == slots[6].added_to(np.full(2, 0.5)).tolist() == [3.5, 3.5]
    assert slots[6].added_to(None).tolist() == [3.0, 3.0]
    assert [before.tolist(), slots[6][0].tolist()] == [[0.5, 0.5], [1.0, 1.0]]


def test_a_collected_gradient_with_a_history_raises() -> None:
    one = leaves((((CAPTURED, 0),),), ADDED, (UNDEFINED,), (7,))
    slots: list[Any] = [None] * 8
    w: Any = one.lend(slots, [np.ones(2)], [], None)[0]
    (w * w).sum().backward(create_graph=True)
    with pytest.raises(RuntimeError, match=r"code: the .grad of a captured leaf .* got a history"):
        one.take_back(slots, [w], "code")


def test_a_leaf_that_is_met_in_several_places_is_one_tensor() -> None:
    one = leaves((((HELD, 4), (ARGUMENT, 1), (CAPTURED, 0)),), HOME, (UNDEFINED,), (7,))
    held = captured_tensor(np.ones(2), LEAF)
    read: list[Any] = [np.ones(2)]
    arguments: list[Any] = [None, rg.ones(2)]
    slots: list[Any] = [None] * 8
    w: Any = one.lend(slots, read, arguments, {4: held})[0]
    assert w is held is read[0] is arguments[1]
    one.take_back(slots, [w], "code")
    assert slots[7] is None


def test_what_a_derivative_adds_goes_nowhere() -> None:
    one = leaves((((CAPTURED, 0),),), DISCARDED, (UNDEFINED,))
    assert one.returned == 0
    read: list[Any] = [np.ones(2)]
    w: Any = one.lend([None] * 8, read, [], None)[0]
    (w * 2.0).sum().backward()
    one.take_back([None] * 8, [w], "code")
    assert w.grad is None


def test_a_change_that_has_no_way_home_raises() -> None:
    one = leaves((((CAPTURED, 0),),), REFUSED, (2,))
    slots: list[Any] = [None, None, np.ones(2)]
    w: Any = one.lend(slots, [np.ones(2)], [], None)[0]
    with pytest.raises(RuntimeError, match=r"captured leaf of shape \[2\]"):
        (w * 2.0).sum().backward()
    with pytest.raises(ValueError, match="read-only"):
        w.grad.numpy()[0] = 3.0
    w.grad = None
    with pytest.raises(RuntimeError, match=r"code changed the \.grad of a leaf of shape \[2\].*client=True"):
        one.take_back(slots, [w], "code")
    assert "code changed" in str(refused("code", w))


def test_a_gradient_with_a_history_does_not_go_home() -> None:
    one = leaves((((CAPTURED, 0),),), HOME, (UNDEFINED,), (7,))
    slots: list[Any] = [None] * 8
    w: Any = one.lend(slots, [np.ones(2)], [], None)[0]
    w.grad = rg.ones(2, dtype=rg.float64, requires_grad=True) * 2.0
    with pytest.raises(RuntimeError, match=r"code: the .grad of a captured leaf .* got a history"):
        one.take_back(slots, [w], "code")
