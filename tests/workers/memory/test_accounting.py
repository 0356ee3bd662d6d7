"""Memory that values share counts once, until the last of them is let go."""

from __future__ import annotations

from typing import Any

import numpy as np

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.proto.ir.program import Step
from raygrad.workers.memory.accounting import MemoryAccount, held_by_context, shares_of
from raygrad.workers.values.contexts import Context

from ...graph_nodes import function_vjp_node, op_node

NODE = op_node("add", (0, 0), (0,))


def step_ran(account: MemoryAccount, ran: Step, slots: list[Any]) -> None:
    account.step_made(ran, slots)
    account.step_freed(ran, slots)


def step(*outputs: int, frees: tuple[int, ...] = ()) -> Step:
    return Step(0, NODE, outputs, frees)


def test_views_of_one_array_are_held_as_long_as_one_of_them() -> None:
    array = np.zeros(100)
    views: list[Any] = [array[:3], np.broadcast_to(array, (5, 100))]
    account = MemoryAccount([array], views)
    assert account.held == {"cpu": array.nbytes}
    for value in (views[0], array):
        account.remove(value)
    assert account.held == {"cpu": array.nbytes}
    account.remove(views[1])
    assert (account.held["cpu"], account.peaks["cpu"]) == (0, array.nbytes)


def test_what_a_step_made_and_what_it_was_the_last_to_read_are_held_at_once() -> None:
    slots: list[Any] = [np.zeros(10), None, None, None]
    account = MemoryAccount([], slots)
    slots[1] = np.zeros(30)
    step_ran(account, step(1, frees=(0,)), slots)
    assert (account.held["cpu"], account.peaks["cpu"]) == (240, 320)
    slots[2] = np.zeros(5)
    step_ran(account, step(2, frees=(1, 2)), slots)
    assert (account.held["cpu"], account.peaks["cpu"]) == (0, 320)


def test_what_nobody_reads_is_there_for_a_moment() -> None:
    slots: list[Any] = [np.zeros(10), None]
    account = MemoryAccount([], slots)
    slots[-1] = np.zeros(20)
    step_ran(account, step(-1), slots)
    assert (account.held["cpu"], account.peaks["cpu"]) == (80, 240)


def test_what_an_open_ended_step_adds_counts_and_what_has_no_bytes_does_not() -> None:
    slots: list[Any] = [np.zeros(10), None, "a"]
    account = MemoryAccount([], slots)
    slots += [np.zeros(20), None]
    step_ran(account, step(), slots)
    step_ran(account, step(), slots)
    assert (account.held["cpu"], account.peaks["cpu"]) == (240, 240)


def test_each_memory_is_counted_by_itself() -> None:
    with use_stand_in(1):
        there: Any = rg.ones(10, dtype=rg.float64).cuda()._data
        account = MemoryAccount([np.zeros(10)], [there, there[:2]])
        assert account.held == {"cpu": 80, "cuda:0": 80}
        account.remove(there)
        account.remove(there[:2])
        assert account.held == {"cpu": 80, "cuda:0": 0}
        assert account.peaks == {"cpu": 80, "cuda:0": 80}


def test_what_a_call_brings_is_there_until_it_ends() -> None:
    array = np.zeros(10)
    slots: list[Any] = [array, None]
    account = MemoryAccount([], [None, None])
    assert account.additional([array, array[2:], 3.0]) == {"cpu": 80}
    account.add_inputs([array], slots)
    assert account.additional([array, np.zeros(1)]) == {"cpu": 8}
    assert account.inputs == {id(array)}
    step_ran(account, step(frees=(0,)), slots)
    assert (account.held["cpu"], account.peaks["cpu"]) == (80, 80)


def context(**attributes: Any) -> Context:
    node: Any = rg.autograd.Function._backward_cls()
    node.keep_slots([])
    node.__dict__.update(attributes)
    return Context(node)


def test_what_contexts_and_values_share_counts_once() -> None:
    array, other = np.zeros(10), np.zeros(20)
    before, after = context(a=array, more=[other, other[:3]]), context(a=array)
    account = MemoryAccount([array], [before])
    assert account.held == {"cpu": 240}
    account.add(after)
    account.remove(before)
    assert (account.held["cpu"], account.peaks["cpu"]) == (80, 240)
    account.remove(after)
    account.remove(array)
    assert account.held == {"cpu": 0}


def test_a_context_that_holds_something_else_when_it_was_read_is_weighed_anew() -> None:
    one: Any = context(a=np.zeros(10))
    account = MemoryAccount([], [one, None])
    one._live.__dict__.update(a=np.zeros(5))
    node = function_vjp_node("@f", (0, -1), ())
    step_ran(account, Step(0, node, (), ()), [one, None])
    assert (account.held["cpu"], account.peaks["cpu"]) == (40, 80)


def test_a_context_holds_all_of_what_it_has_a_part_of() -> None:
    array = np.zeros(10)
    holding: Any = context(a=array[:2], b=array[3:])._live
    assert held_by_context(holding) == (80, ())
    small: Any = context(a=3)._live
    assert held_by_context(small) == (1, ())
    bare: Any = context()._live
    assert held_by_context(bare) == (0, ())


def test_what_a_context_holds_is_told_by_where_it_is() -> None:
    with use_stand_in(2):
        there = [rg.zeros(size, dtype=rg.float64, device=f"cuda:{index}").read() for index, size in ((1, 3), (0, 5))]
        holding = context(a=there[0], b=[there[1], np.zeros(2)], c=there[0])
        live: Any = holding._live
        assert held_by_context(live) == (80, (("cuda:0", 40), ("cuda:1", 24)))
        assert sorted((memory, size) for _, memory, size in shares_of(holding)) == [
            ("cpu", 16),
            ("cuda:0", 40),
            ("cuda:1", 24),
        ]
        assert {owner for owner, *_ in shares_of(holding)} == {id(holding)}
        assert [size for *_, size in shares_of(there[0])] == [24]
