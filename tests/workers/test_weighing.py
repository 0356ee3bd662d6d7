"""Memory that values share counts once, until the last of them is let go."""

from __future__ import annotations

from typing import Any

import numpy as np

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.proto.graph import ROLE_OP, Node
from raygrad.proto.program import Step
from raygrad.workers.weighing import Scales

NODE = Node(ROLE_OP, "add", (), (0, 0), (0,), ())


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
