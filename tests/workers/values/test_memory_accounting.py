"""Memory that values share counts once, until the last of them is let go."""

from __future__ import annotations

from typing import Any

import numpy as np

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.proto.ir.program import Step
from raygrad.workers.values.contexts import Context
from raygrad.workers.values.memory_accounting import Scales, holds, shares_of

from ...graph_nodes import function_vjp_node, op_node

NODE = op_node("add", (0, 0), (0,))


def step(*outputs: int, frees: tuple[int, ...] = ()) -> Step:
    return Step(0, NODE, outputs, frees)


def test_views_of_one_array_are_held_as_long_as_one_of_them() -> None:
    array = np.zeros(100)
    views: list[Any] = [array[:3], np.broadcast_to(array, (5, 100))]
    scales = Scales([array], views)
    assert scales.held == {"cpu": array.nbytes}
    for value in (views[0], array):
        scales.take(value)
    assert scales.held == {"cpu": array.nbytes}
    scales.take(views[1])
    assert (scales.held["cpu"], scales.peaks["cpu"]) == (0, array.nbytes)


def test_what_a_step_made_and_what_it_was_the_last_to_read_are_held_at_once() -> None:
    slots: list[Any] = [np.zeros(10), None, None, None]
    scales = Scales([], slots)
    slots[1] = np.zeros(30)
    scales.stepped(step(1, frees=(0,)), slots)
    assert (scales.held["cpu"], scales.peaks["cpu"]) == (240, 320)
    slots[2] = np.zeros(5)
    scales.stepped(step(2, frees=(1, 2)), slots)
    assert (scales.held["cpu"], scales.peaks["cpu"]) == (0, 320)


def test_what_nobody_reads_is_there_for_a_moment() -> None:
    slots: list[Any] = [np.zeros(10), None]
    scales = Scales([], slots)
    slots[-1] = np.zeros(20)
    scales.stepped(step(-1), slots)
    assert (scales.held["cpu"], scales.peaks["cpu"]) == (80, 240)


def test_what_an_open_ended_step_adds_counts_and_what_has_no_bytes_does_not() -> None:
    slots: list[Any] = [np.zeros(10), None, "a"]
    scales = Scales([], slots)
    slots += [np.zeros(20), None]
    scales.stepped(step(), slots)
    scales.stepped(step(), slots)
    assert (scales.held["cpu"], scales.peaks["cpu"]) == (240, 240)


def test_each_memory_is_counted_by_itself() -> None:
    with use_stand_in(1):
        there: Any = rg.ones(10, dtype=rg.float64).cuda()._data
        scales = Scales([np.zeros(10)], [there, there[:2]])
        assert scales.held == {"cpu": 80, "cuda:0": 80}
        scales.take(there)
        scales.take(there[:2])
        assert scales.held == {"cpu": 80, "cuda:0": 0}
        assert scales.peaks == {"cpu": 80, "cuda:0": 80}


def test_what_a_call_brings_is_there_until_it_ends() -> None:
    array = np.zeros(10)
    slots: list[Any] = [array, None]
    scales = Scales([], [None, None])
    assert scales.more([array, array[2:], 3.0]) == {"cpu": 80}
    scales.bring([array], slots)
    assert scales.more([array, np.zeros(1)]) == {"cpu": 8}
    assert scales.brought == {id(array)}
    scales.stepped(step(frees=(0,)), slots)
    assert (scales.held["cpu"], scales.peaks["cpu"]) == (80, 80)


def context(**attributes: Any) -> Context:
    node: Any = rg.autograd.Function._backward_cls()
    node.keep_slots([])
    node.__dict__.update(attributes)
    return Context(node)


def test_what_contexts_and_values_share_counts_once() -> None:
    array, other = np.zeros(10), np.zeros(20)
    before, after = context(a=array, more=[other, other[:3]]), context(a=array)
    scales = Scales([array], [before])
    assert scales.held == {"cpu": 240}
    scales.put(after)
    scales.take(before)
    assert (scales.held["cpu"], scales.peaks["cpu"]) == (80, 240)
    scales.take(after)
    scales.take(array)
    assert scales.held == {"cpu": 0}


def test_a_context_that_holds_something_else_when_it_was_read_is_weighed_anew() -> None:
    one: Any = context(a=np.zeros(10))
    scales = Scales([], [one, None])
    one._live.__dict__.update(a=np.zeros(5))
    node = function_vjp_node("@f", (0, -1), ())
    scales.stepped(Step(0, node, (), ()), [one, None])
    assert (scales.held["cpu"], scales.peaks["cpu"]) == (40, 80)


def test_a_context_holds_all_of_what_it_has_a_part_of() -> None:
    array = np.zeros(10)
    holding: Any = context(a=array[:2], b=array[3:])._live
    assert holds(holding) == (80, ())
    small: Any = context(a=3)._live
    assert holds(small) == (1, ())
    bare: Any = context()._live
    assert holds(bare) == (0, ())


def test_what_a_context_holds_is_told_by_where_it_is() -> None:
    with use_stand_in(2):
        there = [rg.zeros(size, dtype=rg.float64, device=f"cuda:{index}").read() for index, size in ((1, 3), (0, 5))]
        holding = context(a=there[0], b=[there[1], np.zeros(2)], c=there[0])
        live: Any = holding._live
        assert holds(live) == (80, (("cuda:0", 40), ("cuda:1", 24)))
        assert sorted((memory, size) for _, memory, size in shares_of(holding)) == [
            ("cpu", 16),
            ("cuda:0", 40),
            ("cuda:1", 24),
        ]
        assert {owner for owner, *_ in shares_of(holding)} == {id(holding)}
        assert [size for *_, size in shares_of(there[0])] == [24]
