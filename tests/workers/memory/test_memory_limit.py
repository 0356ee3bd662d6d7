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
from raygrad.scheduler.model.unseen_function_bytes import FACTOR, UnseenFunctions
from raygrad.workers.memory.accounting import MemoryAccount
from raygrad.workers.memory.call_values import CallValues
from raygrad.workers.memory.evictor import Evictor
from raygrad.workers.memory.memory_limit import ExpectedBytes, MemoryLimiter, expected_bytes
from raygrad.workers.memory.named_values import NamedValues
from raygrad.workers.values.placeholders import SpilledValue
from raygrad.workers.values.spill_file import SpillFile

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
    """Slots and named values, and what left them."""

    def __init__(self, steps: Program, limit: int, held: int, brought: int = 0, pinned: int = 0) -> None:
        values = [np.zeros(ITEMS) if n < held else None for n in range(9)]
        self.slots: list[Any] = [None if n < brought else one for n, one in enumerate(values)]
        self.named = NamedValues()
        for n in range(pinned):
            self.named[1, n] = np.zeros(ITEMS)
        self.account = MemoryAccount(self.named.held(), self.slots)
        self.unseen = UnseenFunctions()
        self.stuck: set[int] = set()
        self.file = SpillFile()
        self.call = CallValues((2, 0), steps, [], self.slots)
        self.call.account, self.call.limits = self.account, {"cpu": limit, "cuda:0": 1}
        self.evictor = Evictor("worker 7", self.named, self.spill)
        limits = tuple(self.call.limits.items())
        self.limiter = MemoryLimiter(limits, steps, self.slots, self.account, self.unseen, self)
        self.slots[:brought] = values[:brought]
        self.limiter.after_inputs(values[:brought], range(brought))

    def reserve(self, nbytes: int, device: str, position: int, *, fixed: Any, among: Any) -> None:
        self.evictor.reserve(self.call, nbytes, device, position, fixed, among)

    def evictable(self, device: str, position: int, keep: Any, among: Any) -> int:
        return self.evictor.evictable(self.call, device, position, keep, among)

    def spill(self, value: Any) -> SpilledValue:
        if id(value) in self.stuck:
            raise NotShippable("it is stuck")
        return SpilledValue(self.file.write(pack_values([value])), [("cpu", value.nbytes)])

    @property
    def spilled(self) -> set[Any]:
        """The slots, and the names, of what was spilled."""
        places = [(slot, value) for slot, value in enumerate(self.slots)]
        places += [(place.key, place.value) for place in self.named.locations()]
        return {key for key, value in places if isinstance(value, SpilledValue)}

    def run(self, position: int, *made: int, size: int = ITEMS) -> None:
        self.limiter.before_step(position)
        for slot in made:
            self.slots[slot] = np.zeros(size)
        self.limiter.after_step(position)


def test_what_a_step_makes_is_told_by_its_specs() -> None:
    steps = (
        op((0,), 1, 2, specs=(0, 3)),
        new((0,), 1, 2),
        op((0,), 1, specs=(2,)),
        op((0,), 1, specs=(4,)),
        new((0,), 1),
        op((0,), 1, specs=(5,)),
    )
    assert expected_bytes(program(*steps)) == [
        ExpectedBytes((("cpu", ARRAY), ("cuda:1", ARRAY // 2)), ""),
        ExpectedBytes((("cpu", ARRAY),), "@f"),
        ExpectedBytes((("cpu", 500),), ""),
        ExpectedBytes((), ""),
        ExpectedBytes((), "@f"),
        ExpectedBytes((("cpu", 300), ("cuda:0", 300), ("cuda:1", 100)), ""),
    ]
    ending = Step(0, function_node("@g", (0,), (2,)), (-1,), ())
    assert expected_bytes(program(ending, ending, open_base=3))[1] == ExpectedBytes((("cpu", 500),), "@g")
    assert expected_bytes(program(ending, ending, open_base=3))[0].unseen == ""
    vjp = Step(0, function_vjp_node("@g", (0,), (1,)), (-1,), ())
    assert expected_bytes(program(vjp)) == [ExpectedBytes((), "")]
    unrecorded = Step(0, function_node("@g", (0,), (1, 0)), (-1, 1), ())
    assert expected_bytes(program(unrecorded)) == [ExpectedBytes((("cpu", ARRAY),), "")]


def test_what_fits_is_left_alone() -> None:
    worker = Worker(program(op((0,), 4, frees=(0,)), op((1,), 5)), 5 * ARRAY, 4, pinned=0)
    worker.run(0, 4)
    assert worker.spilled == set()
    assert worker.account.held["cpu"] == 4 * ARRAY


def test_what_is_read_last_makes_way_before_a_step() -> None:
    worker = Worker(program(op((0,), 4), op((1,), 5), op((2,), 5), op((3,), 6)), 4 * ARRAY, 4)
    worker.run(0, 4)
    assert worker.spilled == {3, 2}  # one is needed, and an eighth of the limit goes besides
    assert worker.account.peaks["cpu"] == 4 * ARRAY


def test_what_comes_back_from_disk_has_room_too() -> None:
    worker = Worker(program(op((0, 7), 4), op((1,), 5)), 5 * ARRAY, 4)
    worker.slots[7] = worker.spill(np.zeros(2 * ITEMS))
    worker.limiter.before_step(0)
    assert worker.spilled == {1, 2, 3, 7}


def test_what_was_never_run_is_given_much_room_and_then_as_much_as_it_took() -> None:
    steps = program(new((0,), 4, 5), new((0,), 6, 7), op((1,), 2))
    worker = Worker(steps, (FACTOR + 1) * ARRAY, 2)
    worker.run(0, 4, 5)
    assert worker.spilled == {1}
    assert worker.unseen.estimate("@f", 100) == 200
    worker.run(1, 6, 7)
    assert worker.spilled == {1}
    assert worker.account.peaks["cpu"] == 5 * ARRAY


def test_what_is_expected_of_a_function_goes_by_all_that_it_reads() -> None:
    worker = Worker(program(new((0, 1), 4, 5), op((2,), 6), op((3,), 6)), 5 * ARRAY, 4)
    worker.unseen.observe("@f", 100, 100)
    worker.run(0, 4, 5)
    assert worker.spilled == {3, 2}
    assert worker.account.peaks["cpu"] == 4 * ARRAY


def test_what_nobody_foresaw_has_others_make_way_after_it() -> None:
    worker = Worker(program(op((0,), 4, specs=(4,)), op((1,), 5), op((4, 2), 5)), 6 * ARRAY, 4, pinned=1)
    worker.run(0, 4, size=2 * ITEMS)
    assert worker.spilled == {0, 3}
    assert worker.account.peaks["cpu"] == 7 * ARRAY
    assert worker.account.held["cpu"] == 5 * ARRAY


def test_what_a_step_needs_by_itself_is_an_error() -> None:
    worker = Worker(program(op((0,), 4, specs=(4,)), op((1,), 5)), 3 * ARRAY, 2, pinned=1)
    with pytest.raises(OverBudget, match=rf"holds {4 * ARRAY:,} bytes at once, and the session has memory={3 * ARRAY}"):
        worker.run(0, 4, size=3 * ITEMS)


def test_what_a_step_needs_by_itself_may_be_all_of_the_limit() -> None:
    worker = Worker(program(op((0,), 4, specs=(4,)), op((1,), 5)), 3 * ARRAY, 2, pinned=1)
    worker.run(0, 4, size=2 * ITEMS)
    assert worker.account.held["cpu"] <= 3 * ARRAY


def test_what_a_call_brought_stays_and_what_cannot_leave_is_not_asked_twice() -> None:
    worker = Worker(program(op((0, 7), 5, specs=(4,)), op((4,), 6, specs=(4,))), 4 * ARRAY, 5, brought=3)
    worker.stuck = {id(worker.slots[3])}
    worker.slots[7] = worker.spill(np.zeros(ITEMS))
    worker.limiter.before_step(0)
    assert worker.spilled == {4, 7}
    worker.stuck.clear()
    worker.slots[7] = worker.spill(np.zeros(2 * ITEMS))
    worker.limiter.before_step(0)
    assert worker.spilled == {4, 7}


def test_what_is_there_makes_way_for_what_a_call_brings_before_it_comes() -> None:
    worker = Worker(program(op((0,), 4), op((1,), 5)), 4 * ARRAY, 2, pinned=2)
    worker.limiter.before_inputs({"cpu": 2 * ARRAY, "cuda:1": 10**9})
    assert worker.spilled == {(1, 0), (1, 1), 1}, "not what the first step reads"
    worker.slots[6:8] = brought = [np.zeros(ITEMS), np.zeros(ITEMS)]
    worker.limiter.after_inputs(brought, (6, 7))
    assert worker.account.peaks["cpu"] == 4 * ARRAY
    assert worker.account.held["cpu"] == 3 * ARRAY


def test_what_is_on_disk_counts_in_the_estimate_of_an_unseen_function() -> None:
    worker = Worker(program(new((7,), 4, 5), op((1,), 2)), (FACTOR + 2) * ARRAY, 2)
    worker.slots[7] = worker.spill(np.zeros(ITEMS))
    worker.limiter.before_step(0)
    assert worker.spilled == {0, 1, 7}, "memory is reserved for it, and for as many times as much"


def test_what_a_step_was_the_last_to_read_is_not_evicted_after_it() -> None:
    worker = Worker(program(op((0,), 4, frees=(0,), specs=(4,)), op((1,), 5)), 4 * ARRAY, 4)
    worker.run(0, 4, size=2 * ITEMS)
    assert worker.spilled == {2, 3}
