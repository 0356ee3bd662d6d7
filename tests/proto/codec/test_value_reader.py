"""The reader has two outcomes: values, or a ProtocolError that says what is wrong."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from raygrad.errors import ProtocolError
from raygrad.proto.codec.checks import unpack
from raygrad.proto.codec.value_reader import dtype_of, read_values
from raygrad.proto.codec.value_writer import (
    BLOB,
    BYTES,
    COMPLEX,
    DICT,
    DTYPE,
    INT,
    ITEM,
    LIST,
    MAX_DEPTH,
    PINNED,
    SCALAR,
    SLICE,
    SPEC,
    TEXT,
    TUPLE,
    write_values,
)

VECTOR = ("<f8", (2,), (0,), (), 1)
BESIDE = ("<f8", (2,), (0,), (), 0)


def nest(depth: int) -> Any:
    nested: Any = 1.0
    for _ in range(depth):
        nested = (LIST, nested)
    return nested


@pytest.mark.parametrize(
    ("tree", "buffers", "says"),
    [
        (None, [], "header of the values is not 3 fields"),
        (((), 0), [], "header of the values is not 3 fields"),
        (([], 0, ()), [], "kinds of arrays is not a sequence"),
        (((), -1, ()), [], "size of the pool"),
        (((), 0, []), [], "entries is not a sequence"),
        (((), 16, ()), [], "has no buffer"),
        (((), 16, ()), [bytes(15)], "15 bytes where the header says 16"),
        (((), 16, ()), [bytes(16)], "0 of 16 pooled bytes"),
        (((), 0, ()), [b""], "0 of 1 buffers"),
        (((), 0, (0,)), [], "kind 0, and there are 0 kinds"),
        (((VECTOR,), 16, (-1,)), [bytes(16)], "kind -1"),
        (((VECTOR,), 16, (0, 0)), [bytes(16)], "ends inside an array"),
        (((VECTOR,), 15, (0,)), [bytes(15)], "ends inside an array"),
        (((BESIDE,), 0, (0,)), [], "has no buffer"),
        (((BESIDE,), 0, (0,)), [bytes(8)], "8 bytes where the header says 16"),
        (((("<f8", (2,), (0,), ()),), 0, ()), [], "kind of array is not 5 fields"),
        (((("<f8", (-1,), (0,), (), 1),), 0, ()), [], "extents of an array"),
        (((("<f8", (2.0,), (0,), (), 1),), 0, ()), [], "extents of an array"),
        (((("<f8", (2,), (1,), (), 1),), 0, ()), [], "axis order"),
        (((("<f8", (2,), (0,), (1,), 1),), 0, ()), [], "expanded axes"),
        (((("<f8", (1,) * 65, tuple(range(65)), (), 1),), 0, ()), [], "at most 64"),
        (((("<f8", (2,), (0,), (), 2),), 0, ()), [], "pooled flag"),
        (((("O", (2,), (0,), (), 1),), 0, ()), [], "no dtype of plain bytes"),
        (((("f8,f8", (2,), (0,), (), 1),), 0, ()), [], "no dtype of plain bytes"),
        ((((8, (2,), (0,), (), 1),), 0, ()), [], "dtype is not text"),
        (((("<f8", (2**62, 2**62), (0, 1), (0, 1), 1),), 16, (0,)), [bytes(16)], "no array has the shape"),
        (((("<f8", (2**62, 0), (0, 1), (), 1),), 0, (0,)), [], "no array has the shape"),
        (((), 0, ([],)), [], "entry of a value"),
        (((), 0, ((),)), [], "entry of a value"),
        (((), 0, ({},)), [], "entry of a value"),
        (((), 0, ((99,),)), [], "no value has the tag"),
        (((), 0, (("x",),)), [], "no value has the tag"),
        (((), 0, (((),),)), [], "no value has the tag"),
        (((), 0, ((True, 1.0),)), [], "no value has the tag"),
        (((), 0, ((INT,),)), [], "integer is not 2 fields"),
        (((), 0, ((INT, 1.0),)), [], "integer"),
        (((), 0, ((COMPLEX, 1.0, 2),)), [], "complex number"),
        (((), 0, ((DICT, "a"),)), [], "key without a value"),
        (((), 0, ((DICT, (LIST,), 1.0),)), [], "key that cannot be one"),
        (((), 0, ((SLICE, None, None),)), [], "slice is not 4 fields"),
        (((), 0, ((SCALAR, "<f8", bytes(7)),)), [], "has 7 bytes"),
        (((), 0, ((SCALAR, "V8", bytes(8)),)), [], "no dtype of plain bytes"),
        (((), 0, ((DTYPE, "O"),)), [], "no dtype of plain bytes"),
        (((), 0, ((BLOB, b"a"),)), [], "blob is not 3 fields"),
        (((), 0, ((BLOB, "a", ()),)), [], "size of a buffer"),
        (((), 0, ((BLOB, 5, ()),)), [], "has no buffer"),
        (((), 0, ((BYTES, 5),)), [b"1234"], "4 bytes where the header says 5"),
        (((), 0, ((TEXT, b"\xff"),)), [], "not UTF-8"),
        (((), 0, ((SPEC, "array"),)), [], "spec is not 5 fields"),
        (((), 0, ((PINNED, 1),)), [], "pinned value is not 3 fields"),
        (((), 0, ((PINNED, 1, "2"),)), [], "value id"),
        (((), 0, ((ITEM, -1, 0),)), [], "argument of an item"),
        (((), 0, (nest(MAX_DEPTH + 1),)), [], "nested deeper"),
        (((), 0, ((TUPLE, (TUPLE, (99,))),)), [], "no value has the tag"),
    ],
)
def test_a_malformed_header_is_refused(tree: Any, buffers: list[bytes], says: str):
    with pytest.raises(ProtocolError, match=says):
        read_values(tree, buffers)


def test_a_buffer_that_starts_where_an_array_cannot_is_copied():
    memory = bytearray(4096)
    memory[3:19] = np.array([1.0, 2.0]).tobytes()
    for kind, pooled in ((VECTOR, 16), (BESIDE, 0)):
        (array,) = read_values(((kind,), pooled, (0,)), [memoryview(memory)[3:19]])
        assert array.flags.aligned
        assert not array.flags.writeable
        assert array.tolist() == [1.0, 2.0]


def test_dtypes_come_in_the_byte_order_of_this_machine():
    assert dtype_of(">f8").isnative
    assert dtype_of("<f8").isnative


_parts = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 20)
    | st.floats()
    | st.sampled_from(["<f8", "<f4", "|b1", "<U1", "<M8[D]"])
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=5).map(tuple),
    max_leaves=12,
)


@settings(deadline=None)
@given(_parts, st.lists(st.binary(max_size=32), max_size=2))
def test_any_tree_has_two_outcomes(tree: Any, buffers: list[bytes]):
    for candidate in (tree, ((VECTOR, BESIDE), 16, tree), ((tree,), 16, (0,)), ((), 0, (tree,))):
        try:
            read_values(candidate, buffers)
        except ProtocolError:
            pass


@settings(deadline=None)
@given(st.data())
def test_a_damaged_header_has_two_outcomes(data: st.DataObject):
    values = [np.ones(3), {"a": (1, 2.5, np.float32(1), slice(3))}, np.ones((3, 2)).T, "text", -(2**70)]
    tree, buffers = write_values(values)
    header = bytearray(msgpack.packb(tree))
    for _ in range(data.draw(st.integers(1, 3))):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_values(unpack(bytes(header), "header"), buffers)
    except ProtocolError:
        pass
