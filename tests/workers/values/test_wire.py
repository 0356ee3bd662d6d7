from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from raygrad.errors import NotShippable
from raygrad.proto.ir.program import Call, Item, Pinned, Program, Step
from raygrad.proto.ir.specs import ArraySpec
from raygrad.workers.executors.base import failed_record
from raygrad.workers.values.wire import (
    JOINED_BYTES,
    Order,
    compact,
    decode_answer,
    decode_call,
    decode_order,
    decode_program,
    decode_record,
    encode_answer,
    encode_call,
    encode_order,
    encode_program,
    encode_record,
    pieces,
)

from ...graph_nodes import op_node


@dataclass
class Settings:
    depth: int


def call(*externals: Any) -> Call:
    return Call(3, 1, 0, b"key", externals, (Pinned(1, 2),))


def test_a_call_comes_back_with_references_numbers_arrays_and_objects():
    array = np.arange(4.0)
    back = decode_call(encode_call(call(Pinned(1, 2), Item(0, 1), 1.5, None, array, Settings(3), ("a", 1))))
    assert back.externals[:4] == (Pinned(1, 2), Item(0, 1), 1.5, None)
    assert type(back.externals[0]) is Pinned
    assert back.externals[4].tolist() == array.tolist()
    assert back.externals[5:] == (Settings(3), ("a", 1))
    assert back.unpin == (Pinned(1, 2),)


def test_arrays_of_a_decoded_call_are_read_only():
    assert not decode_call(encode_call(call(np.ones(3)))).externals[0].flags.writeable


def test_what_cannot_be_pickled_is_refused():
    with pytest.raises(NotShippable):
        encode_call(call(one for one in ()))


def test_a_record_comes_back_with_objects_among_its_results():
    record = failed_record(call(), "worker 0", 7, ValueError("x"))
    record = record._replace(results=((5, np.ones(2)), (6, None), (7, Settings(1))), sizes=((5, 16), (6, -1)))
    back = decode_record(encode_record(record))
    assert back.results[1:] == ((6, None), (7, Settings(1)))
    assert back.results[0][1].tolist() == [1.0, 1.0]
    assert back._replace(results=()) == record._replace(results=())


def test_a_program_comes_back():
    node = op_node("add", (0, 1), (0,))
    program = Program(
        3, (ArraySpec((2,), "float64"),), ((0, 0), (1, 1)), (), (), (Step(0, node, (2,), (0, 1)),), ((2,),), (), ()
    )
    assert decode_program(encode_program(program)) == program


def test_a_message_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="expected a Record, got a Call"):
        decode_record(encode_call(call()))


def test_small_frames_travel_as_one_string_of_bytes_large_ones_as_they_are():
    small, large = encode_call(call(np.ones(3))), encode_call(call(np.ones(JOINED_BYTES)))
    assert isinstance(compact(small), bytes)
    assert decode_call(pieces(compact(small))).externals[0].tolist() == [1.0] * 3
    assert compact(large) is large
    assert isinstance(decode_call(pieces(compact(large))), Call)


def test_an_order_comes_back_with_what_follows_it():
    large: Any = [b"piece", b"piece"]
    many = (b"1" * JOINED_BYTES, b"2", b"3" * (JOINED_BYTES - 1), b"")
    for after, frames, arguments in (
        ((), (b"frame",), 1),
        ((3, 1 << 40), (b"one", b"", b"three"), 1),
        ((), (b"one", large, b"three"), 2),
        ((1,), many, 3),
    ):
        encoded = encode_order(Order(5, after, 2, frames, 7, 0.25))
        assert len(encoded) == arguments
        assert decode_order([*encoded, "object"]) == (Order(5, after, 2, frames, 7, 0.25), ["object"])


def test_the_records_of_an_order_come_back_together():
    small = failed_record(call(), "worker 0", 7, ValueError("x"))
    large = small._replace(segment=2, results=((5, np.ones(JOINED_BYTES)),))
    for records in ((small,), (small, small._replace(run=4)), (small, large)):
        answer = encode_answer([compact(encode_record(record)) for record in records])
        assert isinstance(answer, bytes) is (records[-1] is not large)
        decoded: list[Any] = decode_answer(answer)
        assert [(one.run, one.segment) for one in decoded] == [(one.run, one.segment) for one in records]
