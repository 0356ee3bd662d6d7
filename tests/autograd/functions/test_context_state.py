"""Contexts taken apart and put together, and what is asked of one that others hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.functions.context_runs import (
    copy_with_attributes,
    has_changed,
    is_plain,
    keep_in,
    left_behind,
    plain_saved,
    replay_plain,
    saved_places,
    unchecked_places,
)
from raygrad.autograd.functions.context_state import (
    WANTED,
    bind_arguments,
    bind_lent_leaves,
    bound_tensors,
    copy_for,
    devices_of,
    held_values,
    is_bare,
    noted_reference,
    objects_beside_tensors,
    of_state,
    release_large,
    saved_slots,
    state_of,
    state_without_data,
    user_attributes,
)
from raygrad.autograd.functions.function import FunctionNode, run_forward
from raygrad.autograd.saved.saved_slots import INPUT, OUTPUT, VALUE, UnreadableSlots
from raygrad.errors import AutogradError


class Keeps(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        out = x * y
        ctx.save_for_backward(x, out, x + 1.0)
        ctx.argument, ctx.number, ctx.held = y, 3, np.ones(2)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


class Plain(Keeps):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y


def context(cls: type[rg.autograd.Function] = Keeps) -> FunctionNode:
    return run_forward(cls, (rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0])), True, (WANTED, (None, 0)))[0]


def test_a_state_holds_what_the_context_does() -> None:
    state = state_of(context())
    assert [(slot.kind, slot.position) for slot in state.saved if slot] == [(INPUT, 0), (OUTPUT, 0), (VALUE, -1)]
    assert (state.refused, state.references) == ("", {"argument": (INPUT, 1)})
    assert (state.attributes.keys(), state.wanted) == ({"number", "held"}, (True, False))
    assert (len(state.inputs), len(state.outputs), state.input_places, state.places) == (2, 1, None, None)


@pytest.mark.parametrize("freed", [None, UnreadableSlots("not to be read"), False])
def test_what_is_put_together_of_a_state_has_it(freed: Any) -> None:
    node = context() if freed is False else context().freed(freed)
    node.metadata["key"], node.materialize_grads = 1, False
    state = state_of(node)
    assert state_of(of_state(Keeps, state)) == state
    assert of_state(Plain, state).name() == "PlainBackward"
    assert of_state(Keeps, state).readable == (freed is False)


def test_states_without_data_are_those_of_contexts_that_only_refer() -> None:
    assert state_without_data(context()) is None
    one, other = (of_state(Plain, state_of(context(Plain))) for _ in range(2))
    assert state_without_data(one) == state_without_data(other) is not None
    other.needs_input_grad = (True, False)
    assert state_without_data(one) != state_without_data(other)
    assert is_bare(one)
    assert not is_bare(context())


def test_what_a_context_holds_beside_its_arguments_and_outputs() -> None:
    node = context()
    value, number, array = held_values(node)
    assert (value.tolist(), number, array) == ([2.0, 3.0], 3, node.held)  # type: ignore[attr-defined]
    assert user_attributes(node).keys() == {"argument", "number", "held"}
    assert [noted_reference(node, name) for name in ("argument", "number")] == [(INPUT, 1), None]
    assert len(objects_beside_tensors(node) or ()) == 3
    node.metadata["key"] = 1
    assert objects_beside_tensors(node) is None
    assert devices_of(node) == []


def test_tensors_that_backward_meets_as_they_are() -> None:
    node, (x, y) = context(), rg.ones(2, 1)
    assert not any(bound_tensors(node))
    bind_arguments(node, {0: x})
    bind_arguments(node, {1: y})
    bind_lent_leaves(node, {4: y})
    assert bound_tensors(node) == ({0: x, 1: y}, {4: y})
    assert saved_places(node)[0] == {0, 1}


def test_large_arguments_and_outputs_are_released() -> None:
    for cls in (Keeps, Plain):
        node = context(cls)
        assert not release_large(node, 9)
        assert release_large(node, 8)
        kept = [slot for slot in saved_slots(node) if slot is not None]
        assert all((slot.value is None) == (slot.kind is not VALUE) for slot in kept)
        assert "argument" not in vars(node)
    assert not release_large(context().freed(), 1)


def test_slots_that_must_not_be_read_raise() -> None:
    assert len(saved_slots(context())) == 3
    assert saved_slots(context().freed()) == ()
    with pytest.raises(AutogradError, match="not to be read"):
        saved_slots(context().freed(UnreadableSlots("not to be read")))


def test_what_a_run_saved() -> None:
    assert plain_saved(context()) is None, "an argument is kept as an attribute"
    assert plain_saved(context(Plain)) == [2]
    assert saved_places(context()) == ({0, 1}, {0}, True)
    assert saved_places(context().freed()) == ({1}, set(), False)
    assert unchecked_places(context()) == set()


def test_a_plain_context_is_replayed_on_other_items() -> None:
    assert not is_plain(context())
    node = of_state(Plain, state_of(context(Plain)))
    assert is_plain(node)
    items = [rg.zeros(2), rg.ones(2), rg.ones(2) * 5.0, rg.zeros(2)]
    watched: list[Any] = []
    copy = replay_plain(node, watched, items, 1, 3)
    assert [tensor is item for tensor, item in zip(copy.saved_tensors, items[1:3], strict=True)] == [True, True]
    assert copy._saved is watched
    again: list[Any] = []
    keep_in(copy, again)
    assert (copy._saved is again, again) == (True, watched)


def test_copies_hold_the_same_and_what_backward_changed_is_left_behind() -> None:
    node = context()
    assert copy_for(Plain, node).name() == "PlainBackward"
    changed: Any = copy_with_attributes(node, {"argument": 1})
    assert (changed.argument, changed._references) == (1, None)
    ran: Any = copy_for(Keeps, node)
    before = dict(vars(ran))
    assert not has_changed(before, ran)
    ran.number, ran.more = 4, 5
    del ran.argument
    assert has_changed(before, ran)
    left: Any = left_behind(node, before, ran)
    assert (left.number, left.more, hasattr(left, "argument"), left._references) == (4, 5, False, None)
    assert saved_slots(left) is saved_slots(node)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("materialize_grads", False),
        ("_materialize_non_diff_grads", False),
        ("_barren", (0,)),
        ("_input_places", ((0,),)),
        ("_places", ((0,),)),
        ("needs_input_grad", (True, False)),
        ("_edges", ()),
        ("_inputs", ()),
        ("_metas", ()),
    ],
)
def test_states_without_data_differ_by_each_field(name: str, value: Any) -> None:
    one, other = (of_state(Plain, state_of(context(Plain))) for _ in range(2))
    setattr(other, name, value)
    assert state_without_data(one) != state_without_data(other)


def test_an_attribute_that_backward_deletes_is_a_change() -> None:
    node: Any = context()
    before = dict(vars(node))
    del node.number
    assert has_changed(before, node)
