"""The words between scheduler and workers: frozen, comparable, with the defaults that callers rely on."""

from __future__ import annotations

import pickle

import pytest

from raygrad.proto.ir.program import INLINE_RESULT_BYTES, Call, Item, Pinned, Program, Record, Step

from ...graph_nodes import op_node

STEP = Step(0, op_node("mul", (0, 1), (0,)), (2,), (0, 1))
PROGRAM = Program(3, (), ((0, 0), (1, 1)), (), (), (STEP,), (), (), ((2, 2),))
RECORD = Record(1, 0, 0, "w0", 7, 0.25, "done", (), (), (), (), (), (), ())


def test_words_are_frozen():
    for word, field in [(STEP, "index"), (PROGRAM, "slots"), (Pinned(1, 2), "run"), (RECORD, "status")]:
        with pytest.raises(AttributeError):
            setattr(word, field, 3)


def test_a_program_is_closed_and_a_call_unpins_nothing_unless_told():
    assert PROGRAM.open_base == -1
    assert Call(1, 0, 0, b"", ()).unpin == ()
    assert RECORD.failure is None


def test_a_pinned_value_and_an_item_are_told_apart_by_type():
    call = Call(1, 0, 0, b"", (Pinned(1, 2), Item(1, 2)))
    assert [type(external) for external in call.externals] == [Pinned, Item]


def test_words_survive_pickling():
    for word in (PROGRAM, RECORD, Call(1, 0, 0, b"key", (1.5, Pinned(1, 2)))):
        back = pickle.loads(pickle.dumps(word, protocol=5))
        assert back == word
        assert type(back) is type(word)


def test_a_result_that_rides_in_a_record_stays_below_what_ray_keeps_out_of_its_shared_memory():
    assert INLINE_RESULT_BYTES < 100 * 1024
