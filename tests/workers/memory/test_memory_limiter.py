"""Calls keep to the limits of their worker's memory, also where nobody knew what would be made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from raygrad.errors import NotShippable, OverBudget
from raygrad.proto.codec.values import pack_values
from raygrad.proto.ir.program import Program, Step
from raygrad.proto.ir.specs import ArraySpec, ConstSpec, ContextSpec
from raygrad.workers.memory.eviction import MakingWay
from raygrad.workers.memory.memory_limiter import GUESS, Expected, Within, expected_of
from raygrad.workers.values.memory_accounting import Scales
from raygrad.workers.values.spill_files import Parked, SpillFile

from ...graph_nodes import function_node, function_vjp_node, op_node

ITEMS = 100
ARRAY = 8 * ITEMS
SPECS = (
    ArraySpec((ITEMS,), "float64"),
    ContextSpec(-1, 0),
    ContextSpec(500, 0),
    ArraySpec((ITEMS,), "float32", "cuda:1"),
    ConstSpec(),
    ContextSpec(700, 1, (("cuda:0", 300), ("cuda:1", 100))),
)


def op(inputs: Sequence[int], *outputs: int, frees: Sequence[int] = (), specs: Sequence[int] | None = None) -> Step:
    made = (0,) * len(outputs) if specs is None else tuple(specs)
    return Step(0, op_node("o", tuple(inputs), made), outputs, tuple(frees))


def new(inputs: Sequence[int], *outputs: int, fn: str = "@f") -> Step:
    specs = (1, *[0] * (len(outputs) - 1))
    return Step(0, function_node(fn, tuple(inputs), specs), outputs, ())


def program(*steps: Step, slots: int = 8, open_base: int = -1) -> Program:
    return Program(slots, SPECS, (), (), (), steps, (), (), (), open_base)


class Worker:
    """Slots and pins, and what left them."""

    name = "worker 7"

    def __init__(self, steps: Program, limit: int, held: int, brought: int = 0, pinned: int = 0) -> None:
        values = [np.zeros(ITEMS) if n < held else None for n in range(9)]
        self.slots: list[Any] = [None if n < brought else one for n, one in enumerate(values)]
        self.pins: dict[tuple[int, int], Any] = {(1, n): np.zeros(ITEMS) for n in range(pinned)}
        self.scales = Scales(list(self.pins.values()), self.slots)
        self.seen: dict[str, float] = {}
        self.left: list[Any] = []
        self.stuck: set[int] = set()
        self.file = SpillFile()
        limits = (("cpu", limit), ("cuda:0", 1))
        gives = MakingWay(self, (2, 0), steps, [], self.slots, lambda: 0, lambda _: None)
        self.within = Within(limits, steps, self.slots, self.scales, self.seen, gives)
        self.slots[:brought] = values[:brought]
        self.within.brought(values[:brought], range(brought))

    def parked(self, value: Any) -> Parked:
        if id(value) in self.stuck:
            raise NotShippable("it is stuck")
        return Parked(self.file.write(pack_values([value])), [("cpu", value.nbytes)])

    def moved(self, value: Any, slot: int = -1) -> None:
        self.left.append(slot)
        self.scales.take(value)

    def run(self, position: int, *made: int, size: int = ITEMS) -> None:
        self.within.begin(position, ())
        for slot in made:
            self.slots[slot] = np.zeros(size)
        self.within.weigh(position)


def test_what_a_step_makes_is_told_by_its_specs() -> None:
    steps = (
        op((0,), 1, 2, specs=(0, 3)),
        new((0,), 1, 2),
        op((0,), 1, specs=(2,)),
        op((0,), 1, specs=(4,)),
        new((0,), 1),
        op((0,), 1, specs=(5,)),
    )
    assert expected_of(program(*steps)) == [
        Expected((("cpu", ARRAY), ("cuda:1", ARRAY // 2)), ""),
        Expected((("cpu", ARRAY),), "@f"),
        Expected((("cpu", 500),), ""),
        Expected((), ""),
        Expected((), "@f"),
        Expected((("cpu", 300), ("cuda:0", 300), ("cuda:1", 100)), ""),
    ]
    ending = Step(0, function_node("@g", (0,), (2,)), (-1,), ())
    assert expected_of(program(ending, ending, open_base=3))[1] == Expected((("cpu", 500),), "@g")
    assert expected_of(program(ending, ending, open_base=3))[0].unknown == ""
    vjp = Step(0, function_vjp_node("@g", (0,), (1,)), (-1,), ())
    assert expected_of(program(vjp)) == [Expected((), "")]
    unrecorded = Step(0, function_node("@g", (0,), (1, 0)), (-1, 1), ())
    assert expected_of(program(unrecorded)) == [Expected((("cpu", ARRAY),), "")]


def test_what_fits_is_left_alone() -> None:
    worker = Worker(program(op((0,), 4, frees=(0,)), op((1,), 5)), 5 * ARRAY, 4, pinned=0)
    worker.run(0, 4)
    assert worker.left == []
    assert worker.scales.held["cpu"] == 4 * ARRAY


def test_what_is_read_last_makes_way_before_a_step() -> None:
    worker = Worker(program(op((0,), 4), op((1,), 5), op((2,), 5), op((3,), 6)), 4 * ARRAY, 4)
    worker.run(0, 4)
    assert worker.left == [3, 2]  # one is needed, and an eighth of the limit goes besides
    assert worker.scales.peaks["cpu"] == 4 * ARRAY


def test_what_comes_back_from_disk_has_room_too() -> None:
    worker = Worker(program(op((0, 7), 4), op((1,), 5)), 5 * ARRAY, 4)
    worker.within.begin(0, [("cpu", 2 * ARRAY)])
    assert len(worker.left) == 3


def test_what_was_never_run_is_given_much_room_and_then_as_much_as_it_took() -> None:
    steps = program(new((0,), 4, 5), new((0,), 6, 7), op((1,), 2))
    worker = Worker(steps, (GUESS + 1) * ARRAY, 2)
    worker.run(0, 4, 5)
    assert worker.left == [1]
    assert worker.seen == {"@f": 2.0}
    worker.run(1, 6, 7)
    assert worker.left == [1]
    assert worker.scales.peaks["cpu"] == 5 * ARRAY


def test_what_is_expected_of_a_function_goes_by_all_that_it_reads() -> None:
    worker = Worker(program(new((0, 1), 4, 5), op((2,), 6), op((3,), 6)), 5 * ARRAY, 4)
    worker.seen["@f"] = 1.0
    worker.run(0, 4, 5)
    assert worker.left == [3, 2]
    assert worker.scales.peaks["cpu"] == 4 * ARRAY


def test_what_nobody_foresaw_has_others_make_way_after_it() -> None:
    worker = Worker(program(op((0,), 4, specs=(4,)), op((1,), 5), op((4, 2), 5)), 6 * ARRAY, 4, pinned=1)
    worker.run(0, 4, size=2 * ITEMS)
    assert worker.left == [0, 3]
    assert worker.scales.peaks["cpu"] == 7 * ARRAY
    assert worker.scales.held["cpu"] == 5 * ARRAY


def test_what_a_step_needs_by_itself_is_an_error() -> None:
    worker = Worker(program(op((0,), 4, specs=(4,)), op((1,), 5)), 3 * ARRAY, 2, pinned=1)
    with pytest.raises(OverBudget, match=rf"holds {4 * ARRAY:,} bytes at once, and the session has memory={3 * ARRAY}"):
        worker.run(0, 4, size=3 * ITEMS)


def test_what_a_call_brought_stays_and_what_cannot_leave_is_not_asked_twice() -> None:
    worker = Worker(program(op((0,), 5, specs=(4,)), op((4,), 6, specs=(4,))), 4 * ARRAY, 5, brought=3)
    worker.stuck = {id(worker.slots[3])}
    worker.within.begin(0, [("cpu", ARRAY)])
    assert worker.left == [4]
    worker.stuck.clear()
    worker.within.begin(0, [("cpu", 2 * ARRAY)])
    assert worker.left == [4]


def test_what_is_there_makes_way_for_what_a_call_brings_before_it_comes() -> None:
    worker = Worker(program(op((0,), 4), op((1,), 5)), 4 * ARRAY, 2, pinned=2)
    worker.within.welcome({"cpu": 2 * ARRAY, "cuda:1": 10**9})
    assert worker.left == [-1, -1, 1], "not what the first step reads"
    worker.slots[6:8] = brought = [np.zeros(ITEMS), np.zeros(ITEMS)]
    worker.within.brought(brought, (6, 7))
    assert worker.scales.peaks["cpu"] == 4 * ARRAY
    assert worker.scales.held["cpu"] == 3 * ARRAY
