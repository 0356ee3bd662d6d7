"""What a call reads and brings comes into slots, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from raygrad.proto.ir.program import Call, Item, Pinned, Program
from raygrad.workers.memory import input_binding as module
from raygrad.workers.memory.accounting import MemoryAccount
from raygrad.workers.memory.input_binding import InputBinding
from raygrad.workers.memory.named_values import NamedValues
from raygrad.workers.process.host import WorkerHost
from raygrad.workers.values import packed_values as objects
from raygrad.workers.values.packed_values import POISON, unpack_all
from raygrad.workers.values.placeholders import GONE, SpilledValue

HOST = WorkerHost("worker 7")
PROGRAM = Program(7, (), ((0, 0), (1, 1), (2, 2)), ((3, -1),), ((8, 4, True), (9, 5, False)), (), (), (), ())
ARRAY = np.arange(4.0)


def binding(objects: list[Any], pins: NamedValues) -> tuple[InputBinding, list[Any]]:
    """Return what a call reads that brings objects, an array and what another run pinned; and its slots."""
    slots: list[Any] = [None] * 8
    call = Call(2, 0, 0, b"key", (Pinned(1, 7), Item(1, 0), ARRAY))
    return InputBinding(call, PROGRAM, objects, slots, pins), slots


def pinned(**last: Any) -> NamedValues:
    named = NamedValues()
    for name, value in ((1, 7), np.ones(1)), ((2, 8), np.ones(2)), ((2, 9), HOST.values.spill(np.ones(3))):
        named[name] = last.get("last", value) if name == (2, 9) else value
    return named


def test_what_is_pinned_is_found_first_and_then_comes_what_is_brought() -> None:
    pins = pinned()
    here = [np.zeros(5), np.zeros(6)]
    bound, slots = binding([here, HOST.pack([np.zeros(7)])], pins)
    assert bound.bind_named()
    assert [slot for slot, one in enumerate(slots) if one is not None] == [0, 4, 5]
    assert [place.key for place in pins.locations()] == [(1, 7), (2, 9)], "one was for this call alone"
    assert (bound.names, bound.absent) == ({0: (1, 7), 4: (2, 8), 5: (2, 9)}, {5})
    assert bound.bind_brought() == [3, 1, 2]
    assert [slots[slot].nbytes for slot in (1, 2, 3)] == [56, 32, 40]
    assert slots[3] is here[0]
    assert bound.owned == [bound.brought[1]]
    assert bound.inline == [ARRAY]
    assert [bound.bound(slot) is slots[slot] for slot in (0, 1, 2, 3, 5)] == [True] * 5
    assert bound.bound(4) is bound.bound(6) is GONE


def test_it_is_known_before_how_much_will_come() -> None:
    held = np.zeros(6)
    bound, slots = binding([[held, np.zeros(5)], HOST.pack([np.zeros(700)])], pinned())
    sizes = bound.sizes(MemoryAccount([held], slots))
    assert list(sizes) == ["cpu"]
    assert 40 + 32 + 5600 <= sizes["cpu"] < 40 + 32 + 5600 + 100


def test_nothing_is_found_where_something_is_poisoned_and_nothing_is_released() -> None:
    """What was lost may be made again, and the call come again."""
    for brought, pins in ([POISON, []], pinned()), ([[1, 2], [3]], pinned(last=POISON)):
        assert not binding(brought, pins)[0].bind_named()
        assert [*pins] == [(1, 7), (2, 8), (2, 9)]


def test_what_came_first_and_made_way_for_what_came_after_it_is_brought_for_who_reads_it(monkeypatch: Any) -> None:
    bound, slots = binding([HOST.pack([np.zeros(5), None]), HOST.pack([np.zeros(7)])], pinned())
    assert bound.bind_named()

    def unpacked(packed: Any, into: list[Any]) -> Any:
        for values in bound.owned[:-1]:  # there is no room for the next before this
            values[0] = HOST.values.spill(values[0])
        return unpack_all(packed, into)

    monkeypatch.setattr(module, "unpack_all", unpacked)
    bound.bind_brought()
    assert type(slots[3]) is SpilledValue
    assert bound.absent == {3, 5}


def test_what_came_first_may_make_way_for_what_comes_in_the_same_object(monkeypatch: Any) -> None:
    bound, slots = binding([HOST.pack([np.zeros(5), np.zeros(6)]), HOST.pack([np.zeros(7)])], pinned())
    assert bound.bind_named()
    restored = objects.restored

    def tight(entry: Any) -> Any:
        for number, value in enumerate(bound.owned[0]):  # there is room for one at a time
            if not isinstance(value, SpilledValue):
                bound.owned[0][number] = HOST.values.spill(value)
        return restored(entry)

    monkeypatch.setattr(objects, "restored", tight)
    bound.bind_brought()
    assert [type(value) for value in bound.brought[0]] == [SpilledValue, SpilledValue]
    assert {number for number, value in enumerate(slots) if type(value) is SpilledValue} == bound.absent == {3, 5}


@given(
    st.lists(st.sampled_from(["array", "number", "pinned", "item"]), max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_the_fast_path_binds_what_the_general_one_binds(kinds: list[str], imports: bool, unpins: bool) -> None:
    values: dict[str, Any] = {"array": ARRAY, "number": 3.0, "pinned": Pinned(1, 7), "item": Item(0, 0)}
    count = len(kinds)
    program = Program(
        count + 1,
        (),
        tuple([(number, slot) for slot, number in enumerate(range(count))]),
        ((count,),) if imports else (),
        ((8, count, False),) if unpins else (),
        (),
        (),
        (),
        (),
    )
    objects = [[np.zeros(5)]] if imports or "item" in kinds else []
    call = Call(2, 0, 0, b"key", tuple([values[kind] for kind in kinds]))
    slots: list[Any] = [None] * (count + 1)
    fast = InputBinding(call, program, objects, slots, pinned())
    if not fast.bind_supplied():
        assert slots == [None] * (count + 1)
        assert imports or unpins or set(kinds) - {"array"}
        return
    expected: list[Any] = [None] * (count + 1)
    general = InputBinding(call, program, objects, expected, pinned())
    assert general.bind_named()
    general.bind_brought()
    assert all([one is other for one, other in zip(slots, expected, strict=True)])
    assert (fast.names, fast.absent) == (general.names, general.absent)
    assert [fast.bound(slot) is general.bound(slot) for slot in range(count)] == [True] * count
