"""The value store: the transitions of a value, held to the table at the head of the store."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.backends import device_memory
from raygrad.errors import ExecutionError
from raygrad.proto.ir.nodes import Spill
from raygrad.proto.ir.program import Call, Pinned, Program, Step
from raygrad.proto.ir.specs import ArraySpec
from raygrad.workers.memory.accounting import shares_of
from raygrad.workers.memory.store import ValueStore
from raygrad.workers.values.contexts import Context
from raygrad.workers.values.packed_values import POISON, pack_all
from raygrad.workers.values.placeholders import Placeholder, SpilledValue, ValueState, state_of

from ...graph_nodes import op_node, plain_node
from ..values.test_packed_values import Keeps, context_of

ITEMS = 100
ARRAY = 8 * ITEMS
SPILLED, IN_MEMORY, RECIPE = ValueState.SPILLED, ValueState.IN_MEMORY, ValueState.RECIPE


def op(source: int, target: int, *frees: int) -> Step:
    return Step(0, op_node("neg", (source,), (0,)), (target,), frees)


def negate(slots: list[Any], step: Step) -> None:
    slots[step.outputs[0]] = -slots[step.node.inputs[0]]


class Calls:
    """A store, and calls on it of programs that negate."""

    def __init__(self) -> None:
        self.store = ValueStore("worker 7", nullcontext)
        self.ran: list[int] = []
        self.position = 0

    def put(self, *names: int, items: int = ITEMS) -> None:
        for name in names:
            self.store.put((1, name), np.full(items, float(name)))

    def states(self, *names: int) -> list[ValueState]:
        return [self.store.state((1, name)) for name in names]

    def open(self, program: Program, *externals: Any, limit: int | None = None, headroom: int = -1) -> Any:
        """Open a call, and bind its inputs."""
        limits: dict[str, Any] = (
            {} if limit is None else {"headroom": (("cpu", headroom),), "limits": (("cpu", limit),)}
        )
        call = Call(2, 0, 0, b"", externals, **limits)
        steps = [(self.running(number, step), step.frees) for number, step in enumerate(program.steps)]
        values = self.store.open_call(call, program, steps, [], lambda: self.position)
        assert self.store.bind_inputs(call)
        return values

    def running(self, number: int, step: Step) -> Any:
        def run(slots: list[Any]) -> None:
            self.ran.append(number)
            negate(slots, step)

        return run

    def step(self, values: Any, position: int) -> None:
        """Run a step of the open call as a host does."""
        self.position = position
        step = values.program.steps[position]
        if values.limiter is not None:
            values.limiter.before_step(position)
        if values.absent:
            self.store.restore_inputs(step)
        values.compiled[position][0](values.slots)
        if values.limiter is not None:
            values.limiter.after_step(position)
        for slot in step.frees:
            values.slots[slot] = None


def program(*steps: Step, inputs: int = 1, slots: int = 8) -> Program:
    spec = ArraySpec((ITEMS,), "float64")
    return Program(slots, (spec,), tuple((n, n) for n in range(inputs)), (), (), steps, (), (), ())


@pytest.fixture
def calls() -> Calls:
    return Calls()


def test_a_value_is_put_read_and_released(calls: Calls) -> None:
    calls.put(0)
    assert (calls.states(0), len(calls.store)) == ([IN_MEMORY], 1)
    assert calls.store.get((1, 0)) is calls.store.get((1, 0))
    calls.store.poison([(1, 0)])
    assert calls.store.get((1, 0)) is POISON
    calls.store.release([(1, 0), (1, 1)])
    for read in (calls.store.get, calls.store.state):
        with pytest.raises(KeyError):
            read((1, 0))


def test_headroom_and_limits_spill_the_oldest_values(calls: Calls) -> None:
    calls.put(0, 1, 2, 3)
    values = calls.open(program(op(0, 4)), Pinned(1, 0), limit=3 * ARRAY, headroom=2 * ARRAY)
    assert calls.states(0, 1, 2, 3) == [IN_MEMORY, SPILLED, IN_MEMORY, IN_MEMORY]
    calls.step(values, 0)
    assert calls.states(0, 1, 2, 3) == [IN_MEMORY, SPILLED, SPILLED, SPILLED], "and an eighth of the limit besides"
    assert values.account.peaks == {"cpu": 3 * ARRAY}
    assert calls.store.file.used == 3 * ARRAY


def test_what_a_step_reads_is_never_evicted_for_it(calls: Calls) -> None:
    calls.put(0, 1)
    values = calls.open(program(op(0, 4), op(1, 5), inputs=2), Pinned(1, 0), Pinned(1, 1), limit=2 * ARRAY)
    calls.step(values, 0)
    assert calls.states(0, 1) == [IN_MEMORY, SPILLED]
    calls.step(values, 1)
    assert calls.states(0, 1) == [SPILLED, IN_MEMORY], "each is in memory while it is read"
    assert (values.slots[5] == -1.0).all()
    assert values.account.peaks == {"cpu": 2 * ARRAY}


def test_reserve_evicts_until_the_bytes_fit_and_no_more(calls: Calls) -> None:
    calls.put(0, 1, 2, 3)
    values = calls.open(program(op(0, 4)), Pinned(1, 0), limit=8 * ARRAY)
    calls.store.reserve(4 * ARRAY, "cpu")
    assert calls.states(0, 1, 2, 3) == [IN_MEMORY] * 4
    calls.store.reserve(5 * ARRAY, "cpu")
    assert values.account.held["cpu"] == 2 * ARRAY
    calls.store.reserve(10**9, "cuda:0")
    assert calls.states(0, 1, 2, 3) == [IN_MEMORY, SPILLED, SPILLED, IN_MEMORY], "a memory without a limit"
    calls.store.reserve(10**9, "cpu")
    assert calls.states(0) == [IN_MEMORY], "the step at hand reads it"
    assert calls.store.evictable("cpu", 0, ()) == 0
    calls.store.close_call()
    calls.store.reserve(10**9, "cpu")
    assert calls.states(0) == [IN_MEMORY], "nothing is reserved outside of a call"


def test_a_failed_write_leaves_the_value_in_memory_and_the_next_takes_it(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.put(0, 1)
    values = calls.open(program(op(0, 4)), Pinned(1, 0), limit=2 * ARRAY)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", "/nowhere")
        with pytest.raises(ExecutionError, match="could not be spilled to '/nowhere'"):
            calls.store.reserve(ARRAY, "cpu")
    assert (calls.states(0, 1), calls.store.file.used) == ([IN_MEMORY] * 2, 0)
    assert values.account.held == {"cpu": 2 * ARRAY}
    calls.store.close_call()
    calls.open(program(op(0, 4)), Pinned(1, 0), limit=2 * ARRAY)
    calls.store.reserve(ARRAY, "cpu")
    assert calls.states(0, 1) == [IN_MEMORY, SPILLED]


def test_a_value_released_while_its_call_has_it_spilled_lives_as_long_as_the_call(calls: Calls) -> None:
    calls.put(0, 1)
    values = calls.open(program(op(0, 4), op(1, 5, 1), inputs=2), Pinned(1, 0), Pinned(1, 1), limit=2 * ARRAY)
    calls.step(values, 0)
    assert calls.states(1) == [SPILLED]
    calls.store.release([(1, 1)])
    calls.step(values, 1)
    assert (values.slots[5] == -1.0).all()
    assert len(calls.store) == 1, "it does not come back under its name"
    del values
    calls.store.close_call()
    calls.store.release([(1, 0)])
    gc.collect()
    assert calls.store.file.used == 0


def test_a_value_that_another_thread_releases_during_its_write_stays_released(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.put(0, 1)
    values = calls.open(program(op(0, 4)), Pinned(1, 0), limit=2 * ARRAY)
    write = calls.store.file.write

    def slow(packed: Any) -> Any:
        thread = threading.Thread(target=calls.store.release, args=([(1, 1)],))
        thread.start()
        thread.join()
        return write(packed)

    monkeypatch.setattr(calls.store.file, "write", slow)
    calls.store.reserve(ARRAY, "cpu")
    assert len(calls.store) == 1
    assert values.account.held == {"cpu": ARRAY}
    gc.collect()
    assert calls.store.file.used == 0


def test_the_plan_spills_a_value_once_under_all_that_holds_it(calls: Calls) -> None:
    calls.put(0)
    values = calls.open(program(op(0, 4)), Pinned(1, 0), limit=9 * ARRAY)
    region = calls.store.spill_slot(values.slots, 0)
    assert calls.store.spill_slot(values.slots, 0) is region
    assert (calls.states(0), calls.store.file.used) == ([SPILLED], ARRAY)
    assert values.account.held == {"cpu": 0}
    assert type(values.slots[0]) is SpilledValue
    assert calls.store.load(region).tolist() == [0.0] * ITEMS


def test_a_dropped_value_is_made_again_as_often_as_it_was_dropped(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.put(3)
    values = calls.open(program(op(0, 1), op(0, 2), op(1, 3), op(0, 4), op(1, 5), op(0, 6)), Pinned(1, 3))
    calls.step(values, 0)
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    for position in (1, 3):
        calls.position = position
        with pytest.warns(UserWarning, match="cpu ran out of memory here") if position == 1 else nullcontext():
            while state_of(values.slots[1]) is IN_MEMORY:  # what is used later goes first
                assert calls.store.free_device("cpu", "here")
        assert [state_of(values.slots[slot]) for slot in (0, 1)] == [IN_MEMORY, RECIPE], "a step reads the other"
        for one in (position, position + 1):
            calls.step(values, one)
        assert state_of(values.slots[1]) is IN_MEMORY
    assert calls.ran == [0, 1, 0, 2, 3, 0, 4]
    assert (values.slots[5] == 3.0).all()


def test_a_full_device_that_nothing_can_leave_is_the_disks_error(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    calls.put(0)
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(ExecutionError, match="could not be spilled"):
        calls.store.free_device("cpu", "here")
    assert calls.states(0) == [IN_MEMORY]
    assert not ValueStore("worker 8", nullcontext).free_device("cpu", "here")


def test_between_calls_named_values_leave_a_full_device_half_of_them_at_a_time(calls: Calls) -> None:
    calls.put(0, 1, 2, 3)
    with pytest.warns(UserWarning, match="wait on the disk of worker 7"):
        assert calls.store.free_device("cpu", "here")
    assert calls.states(0, 1, 2, 3) == [SPILLED, SPILLED, IN_MEMORY, IN_MEMORY]
    assert calls.store.restore_all(POISON) is POISON
    assert [one.tolist() for one in calls.store.restore_all([calls.store._named[1, 1], np.ones(1)])] == [
        [1.0] * ITEMS,
        [1.0],
    ]
    assert calls.states(1) == [SPILLED], "what is read from outside stays where it is"


def test_what_backward_left_is_spilled_where_memory_is_limited_and_it_is_large(calls: Calls) -> None:
    calls.open(program(op(0, 4)), np.zeros(1), limit=10**9)
    context = context_of((20_000,), own=2.0)
    assert calls.store.spill_left(context) is context
    assert calls.store.file.used == 160_000
    small = context_of((20,), own=2.0)
    calls.store.spill_left(small)
    assert calls.store.file.used == 160_000


def test_what_a_step_spills_that_is_on_disk_stays_there(calls: Calls) -> None:
    calls.put(0)
    calls.store.put((1, 0), calls.store.spill(calls.store.get((1, 0))))
    spill = Step(0, plain_node(Spill, (0,), (0,)), (4,), ())
    values = calls.open(program(spill, op(0, 5)), Pinned(1, 0))
    before = values.slots[0]
    calls.store.restore_inputs(spill)
    assert values.slots[0] is before
    assert calls.store.spill_slot(values.slots, 0) is before.region
    calls.step(values, 1)
    assert calls.states(0) == [IN_MEMORY], "a step that reads it brings it back"


def test_what_is_restored_is_counted_in_its_slot_and_under_its_name(calls: Calls) -> None:
    calls.put(0, 1)
    values = calls.open(program(op(0, 4, 0), op(1, 5, 1), inputs=2), Pinned(1, 0), Pinned(1, 1), limit=2 * ARRAY)
    calls.step(values, 0)
    calls.step(values, 1)
    assert calls.states(0, 1) == [SPILLED, IN_MEMORY]
    assert values.account.held == {"cpu": 2 * ARRAY}, "what the step made, and what a name still holds"


def test_a_value_that_a_step_reads_is_not_dropped_though_it_could_be_made_again(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.put(3)
    values = calls.open(program(op(0, 1), op(0, 2), op(0, 3), op(1, 4)), Pinned(1, 3))
    for position in range(2):
        calls.step(values, position)
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    calls.position = 2
    dropped = weakref.ref(values.slots[2])
    with pytest.warns(UserWarning, match="ran out of memory"):
        assert calls.store.free_device("cpu", "here")
    assert dropped() is None, "nothing holds on to what was dropped"
    assert [state_of(values.slots[slot]) for slot in (1, 2)] == [IN_MEMORY, RECIPE]
    calls.step(values, 2)
    calls.position = 3
    assert calls.store.free_device("cpu", "here")
    assert state_of(values.slots[3]) is RECIPE
    with pytest.raises(ExecutionError, match="could not be spilled"):
        calls.store.free_device("cpu", "here")
    assert state_of(values.slots[1]) is IN_MEMORY


def test_what_is_restored_from_outside_of_a_call_may_have_others_evicted() -> None:
    class Probe(Placeholder):
        state = SPILLED

        def restore(self, store: Any) -> Any:
            return device_memory._here.gives

    store = ValueStore("worker 7", nullcontext)
    store.put((1, 0), Probe())
    assert store.get((1, 0)) == store.free_device
    assert device_memory._here.gives is None


def test_what_a_call_brought_leaves_the_list_in_which_it_came_too(calls: Calls) -> None:
    packed = pack_all([np.full(ITEMS, 7.0)], calls.store.restore)
    brings = Program(8, (), (), ((0,),), (), (op(1, 2), op(0, 4)), (), (), ())
    values = calls.store.open_call(Call(2, 0, 0, b"", ()), brings, [], [packed], lambda: 0)
    assert calls.store.bind_inputs(Call(2, 0, 0, b"", ()))
    with pytest.warns(UserWarning, match="ran out of memory"):
        assert calls.store.free_device("cpu", "here")
    assert values.owned[0][0] is values.slots[0]
    assert state_of(values.slots[0]) is SPILLED
    calls.store.restore_inputs(brings.steps[1])
    assert values.slots[0].tolist() == [7.0] * ITEMS


def test_a_context_with_tensors_that_backward_has_to_meet_stays_in_memory(calls: Calls) -> None:
    calls.open(program(op(0, 4)), np.zeros(1), limit=10**9)
    context = context_of((20_000,), own=2.0)
    context.live(Keeps)._given = {0: rg.ones(1)}
    calls.store.spill_left(context)
    assert calls.store.file.used == 0


def test_a_context_that_is_loaded_holds_on_its_device_what_it_held_there() -> None:
    store = ValueStore("worker 7", nullcontext)
    with use_stand_in(1):
        node: Any = Keeps._backward_cls()
        node.held = rg.as_tensor(rg.tensor(np.arange(10.0)).cuda().read())
        spilled = store.spill(Context(node))
        assert [share for share in spilled.sizes if share[1]] == [("cuda:0", 80)]
        loaded = store.load(spilled.region)
        assert [(memory, size) for _, memory, size in shares_of(loaded) if size] == [("cuda:0", 80)]
