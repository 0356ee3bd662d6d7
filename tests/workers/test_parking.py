"""Which pinned values make way for a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raygrad.proto.graph import Node
from raygrad.proto.program import Step
from raygrad.workers.contexts import LARGE
from raygrad.workers.parking import in_the_way, to_leave

EACH = LARGE // 8
"""Items of an array that is just large."""


def pins(*sizes: int, run: int = 1) -> dict[tuple[int, int], Any]:
    return {(run, value): np.zeros(size) for value, size in enumerate(sizes)}


@pytest.mark.parametrize(("room", "gone"), [(-1, 0), (4 * LARGE, 0), (4 * LARGE - 1, 1), (LARGE, 3), (0, 4)])
def test_the_oldest_go_until_the_rest_fits(room: int, gone: int) -> None:
    held = pins(EACH, EACH, EACH, EACH)
    assert in_the_way(held, 2, (), (("cpu", room),)) == list(held)[:gone]


def test_what_the_call_reads_and_what_its_own_run_made_does_not_go_nor_count() -> None:
    held = {**pins(EACH, EACH), **pins(EACH, EACH, run=2)}
    assert in_the_way(held, 2, {(1, 0)}, (("cpu", LARGE),)) == []
    assert in_the_way(held, 2, {(1, 0)}, (("cpu", 0),)) == [(1, 1)]


def test_small_values_go_only_if_no_large_ones_are_left() -> None:
    held = pins(10, EACH, 10)
    assert in_the_way(held, 2, (), (("cpu", 160),)) == [(1, 1)]
    assert in_the_way(held, 2, (), (("cpu", 100),)) == [(1, 1), (1, 0)]


def test_what_shares_memory_goes_together_or_stays() -> None:
    base = np.zeros(EACH)
    held = {(1, 0): base[1:], (1, 1): np.zeros(EACH), (1, 2): base[:-1]}
    assert in_the_way(held, 2, (), (("cpu", LARGE),)) == [(1, 0), (1, 2)]
    assert in_the_way(held, 2, {(1, 2)}, (("cpu", 0),)) == [(1, 1)]


def test_each_memory_is_for_itself_and_what_has_no_bytes_stays() -> None:
    held = {**pins(EACH), (1, 5): None, (1, 6): 3.0}
    assert in_the_way(held, 2, (), (("cuda:0", 0),)) == []
    assert in_the_way(held, 2, (), (("cuda:0", 0), ("cpu", 0))) == [(1, 0)]
    assert in_the_way(held, 2, (), ()) == []


def reading(*slots: int) -> Step:
    return Step(0, Node("op", "o", (), slots, (), ()), (), ())


def test_what_a_step_does_not_read_leaves_its_device_the_last_read_first() -> None:
    steps = [reading(0), reading(1), reading(2), reading(3)]
    slots = [*(np.zeros(10) for _ in range(5)), None]
    assert to_leave("cpu", steps, 0, slots, {}) == ([4, 3], [], 160)
    assert to_leave("cpu", steps, 2, slots, {}) == ([0, 1], [], 160), "what nobody reads any more is kept by somebody"
    assert to_leave("cpu", steps, 3, slots[4:], {}) == ([0], [], 80)
    assert to_leave("cuda:0", steps, 0, slots, {}) == ([], [], 0)


def test_what_is_pinned_leaves_with_what_shares_its_memory_unless_that_is_read() -> None:
    base = np.zeros(10)
    held = {(1, 0): base[1:], (1, 1): np.zeros(10)}
    assert to_leave("cpu", [reading(0)], 0, [base, None], held) == ([], [(1, 1)], 80)
    assert to_leave("cpu", [reading()], 0, [base, None], held) == ([0], [(1, 0)], 80)
