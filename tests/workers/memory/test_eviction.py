"""Which pinned values make way for a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.proto.ir.program import Step
from raygrad.workers.memory.eviction import (
    NEVER,
    Location,
    NextUses,
    choose_victims,
    headroom_victims,
    locations_in,
    until_freed,
)
from raygrad.workers.values.contexts import LARGE, Context

from ...graph_nodes import op_node

EACH = LARGE // 8
"""Items of an array that is just large."""


def pins(*sizes: int, run: int = 1) -> dict[tuple[int, int], Any]:
    return {(run, value): np.zeros(size) for value, size in enumerate(sizes)}


def names(held: Any, run: int, reads: Any, headroom: int, memory: str = "cpu") -> list[tuple[int, int]]:
    return [place.key for place in headroom_victims(locations_in([held]), run, reads, memory, headroom).locations]


@pytest.mark.parametrize(("headroom", "gone"), [(-1, 0), (4 * LARGE, 0), (4 * LARGE - 1, 1), (LARGE, 3), (0, 4)])
def test_the_oldest_go_until_the_rest_fits(headroom: int, gone: int) -> None:
    held = pins(EACH, EACH, EACH, EACH)
    assert names(held, 2, (), headroom) == list(held)[:gone]


def test_what_the_call_reads_and_what_its_own_run_made_does_not_go_nor_count() -> None:
    held = {**pins(EACH, EACH), **pins(EACH, EACH, run=2)}
    assert names(held, 2, {(1, 0)}, LARGE) == []
    assert names(held, 2, {(1, 0)}, 0) == [(1, 1)]


def test_small_values_go_only_if_no_large_ones_are_left() -> None:
    held = pins(10, EACH, 10)
    assert names(held, 2, (), 160) == [(1, 1)]
    assert names(held, 2, (), 100) == [(1, 1), (1, 0)]


def test_what_shares_memory_goes_together_or_stays() -> None:
    base = np.zeros(EACH)
    held = {(1, 0): base[1:], (1, 1): np.zeros(EACH), (1, 2): base[:-1]}
    assert names(held, 2, (), LARGE) == [(1, 0), (1, 2)]
    assert names(held, 2, {(1, 2)}, 0) == [(1, 1)]


def test_each_memory_is_for_itself_and_what_has_no_bytes_stays() -> None:
    held = {**pins(EACH), (1, 5): None, (1, 6): 3.0}
    assert names(held, 2, (), 0, "cuda:0") == []
    assert names(held, 2, (), 0) == [(1, 0)]


def reading(*slots: int) -> Step:
    return Step(0, op_node("o", slots, ()), (), ())


def chosen(steps: Any, position: int, slots: Any, others: Any = (), memory: str = "cpu", **options: Any) -> Any:
    """Return the victims of values in slots and elsewhere."""
    uses = NextUses(steps)
    found = [(place, uses.next(place.key, position)) for place in locations_in([slots[:-1]])]
    return choose_victims(memory, [*found, *[(place, NEVER) for place in locations_in(others)]], position, **options)


def leaving(*args: Any, **options: Any) -> list[Any]:
    """Return the keys of what leaves, and its bytes."""
    places, size = chosen(*args, **options)
    return [*[place.key for place in places], size]


STEPS = [reading(0), reading(1), reading(2), reading(3)]


def test_what_a_step_does_not_read_leaves_its_memory_the_last_read_first() -> None:
    slots = [*(np.zeros(10) for _ in range(5)), None]
    assert leaving(STEPS, 0, slots) == [4, 3, 160]
    assert leaving(STEPS, 2, slots) == [0, 1, 160], "what nobody reads any more is kept by somebody"
    assert leaving(STEPS, 3, slots[4:]) == [0, 80]
    assert leaving(STEPS, 0, slots, memory="cuda:0") == [0]


def test_wherever_it_is_held_what_shares_memory_leaves_together() -> None:
    base = np.zeros(10)
    held = {(1, 0): base[1:], (1, 1): np.zeros(10)}
    slots = [base, None]
    assert leaving([reading(0)], 0, slots, [held]) == [(1, 1), 80]
    assert leaving([reading()], 0, slots, [held]) == [0, (1, 0), 80]


def test_what_cannot_leave_keeps_what_shares_its_memory() -> None:
    base, other = np.zeros(10), np.zeros(10)
    held = {(1, 0): base[1:], (1, 1): base[:3], (1, 2): other}
    assert leaving([], 0, [None], [held], fixed={id(base)}) == [(1, 2), 80]


def test_what_holds_two_memories_joins_those_that_hold_one() -> None:
    with use_stand_in(1):
        placed = [rg.tensor(np.zeros(10)).cuda().read(), rg.tensor(np.zeros(20)).cuda().read()]
        slots = [*placed, context_of(*placed), np.zeros(5), None]
        assert leaving([reading(0)], 0, slots, memory="cuda:0") == [0], "the step reads a part of it"
        assert sorted(leaving([], 0, slots, memory="cuda:0")) == [0, 1, 2, 240]


def test_a_context_makes_way_in_each_memory_in_which_it_holds_something() -> None:
    with use_stand_in(1):
        placed = rg.tensor(np.zeros(EACH)).cuda().read()
        both = context_of(placed, np.zeros(2 * EACH))
        held: dict[tuple[int, int], Any] = {(1, 0): both, (1, 1): np.zeros(EACH), (1, 2): context_of(np.zeros(EACH))}
        assert names(held, 2, (), 0, "cuda:0") == [(1, 0)]
        assert names(held, 2, (), 2 * LARGE) == [(1, 0)]
        assert names(held, 2, (), LARGE, "cuda:0") == names(held, 2, (), 4 * LARGE) == []
        assert names(held, 2, {(1, 0)}, 0, "cuda:0") == []
        assert names(held, 2, {(1, 0)}, LARGE) == [(1, 1)]
        found = {memory: leaving([], 0, [both, None], memory=memory, want=1) for memory in ("cpu", "cuda:0", "cuda:1")}
        assert found == {"cpu": [0, 2 * LARGE], "cuda:0": [0, LARGE], "cuda:1": [0]}


def test_what_holds_an_input_of_the_call_beside_something_else_stays() -> None:
    brought, own, other = np.zeros(10), np.zeros(20), np.zeros(5)
    for pieces in ((brought, own), (own, brought)):
        assert leaving([], 0, [context_of(*pieces), other, None], fixed={id(brought)}) == [1, 40]


def context_of(*arrays: Any) -> Context:
    node: Any = Keeps._backward_cls()
    node.held = [rg.as_tensor(array) for array in arrays]
    return Context(node)


class Keeps(rg.autograd.Function):
    """Its contexts are made by hand."""


def test_locations_tell_what_was_held_where() -> None:
    slots, names = [1, 2], {(1, 7): 3}
    assert list(locations_in([slots, names])) == [(slots, 0, 1), (slots, 1, 2), (names, (1, 7), 3)]
    assert [type(one) for one in locations_in([slots])] == [Location] * 2


def test_of_what_is_used_equally_late_large_values_leave_first() -> None:
    slots = [np.zeros(10), np.zeros(EACH), np.zeros(10), np.zeros(EACH), None]
    assert leaving([], 0, slots, want=1) == [1, LARGE]
    assert leaving([], 0, slots, want=2 * LARGE + 1) == [1, 3, 0, 2 * LARGE + 80]
    assert leaving([reading(), reading(1, 3)], 0, slots, want=1) == [0, 80], "what is used later leaves before"


def test_half_of_some_is_the_first_that_make_up_half_of_their_bytes() -> None:
    assert until_freed(["aaaa", "b", "c", "dd"], len) == ["aaaa"]
    assert until_freed(["a", "b", "c"], len) == ["a", "b"]
    assert until_freed([], len) == []


def test_the_next_step_that_reads_a_slot_is_told() -> None:
    reads = NextUses([reading(0), reading(1, 0), reading(), reading(0)])
    assert [reads.next(0, position) for position in range(5)] == [0, 1, 3, 3, NEVER]
    assert (reads.next(1, 0), reads.next(1, 2), reads.next(7, 0)) == (1, NEVER, NEVER)


def test_as_much_leaves_as_is_wanted_of_what_may() -> None:
    slots = [*(np.zeros(10) for _ in range(5)), None]
    assert leaving(STEPS, 0, slots, want=81) == [4, 3, 160]
    assert leaving(STEPS, 0, slots, want=10**9) == [4, 3, 2, 1, 320]
    assert leaving(STEPS, 0, slots, want=10**9, fixed={id(slots[2])}) == [4, 3, 1, 240]
