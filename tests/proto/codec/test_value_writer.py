"""What the writer copies, what it references, and what it refuses."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from raygrad.errors import NotShippable
from raygrad.proto.codec.value_writer import ALIGNMENT, MAX_DEPTH, POOLED_BYTES, SMALL_POOL_BYTES, Blob, write_values
from raygrad.proto.codec.values import pack_values, unpack_values


def test_arrays_up_to_the_limit_share_one_pool():
    limit = np.zeros(POOLED_BYTES, np.uint8)
    tree, buffers = write_values([limit, limit[:3].copy(), np.zeros(POOLED_BYTES + 1, np.uint8)])
    assert tree[1] == POOLED_BYTES + ALIGNMENT
    assert [len(buffer) for buffer in buffers] == [POOLED_BYTES + ALIGNMENT, POOLED_BYTES + 1]


def test_a_large_array_is_referenced_in_whatever_layout():
    array = np.ones((100, 100))
    for view in (array, array.T, np.broadcast_to(array[:, None], (100, 3, 100))):
        _, (buffer,) = write_values([view])
        assert np.shares_memory(buffer, array)


def test_a_sliced_array_is_copied_and_made_dense():
    array = np.ones((200, 200))
    _, (buffer,) = write_values([array[::2, ::2]])
    assert len(buffer) == 100 * 100 * 8
    assert not np.shares_memory(buffer, array)


def test_an_expanded_array_takes_the_bytes_of_its_elements_only():
    tree, buffers = write_values([np.broadcast_to(np.ones(2), (10**6, 2))])
    assert tree[1] == 16
    assert [len(buffer) for buffer in buffers] == [16]


def test_equal_kinds_are_listed_once():
    tree, _ = write_values([np.ones(3), np.zeros(3), [np.ones(3)], np.ones(3, "f4")])
    assert len(tree[0]) == 2


def test_a_small_pool_stays_bytes_and_a_large_one_goes_out_of_band():
    few, many = 10, SMALL_POOL_BYTES // POOLED_BYTES + 1
    page = np.zeros(POOLED_BYTES, np.uint8)
    assert isinstance(write_values([page] * few)[1][0], bytes)
    assert isinstance(write_values([page] * many)[1][0], np.ndarray)


def test_a_blob_is_not_opened_and_its_large_parts_are_not_copied():
    data = b"\x80\x05not a pickle" * 1000
    _, (whole, part) = write_values([Blob(data, (memoryview(data), b"small"))])
    for buffer in (whole, part):
        assert np.shares_memory(np.frombuffer(buffer, np.uint8), np.frombuffer(data, np.uint8))


def test_a_memory_map_travels_as_an_array(tmp_path: Path):
    path = tmp_path / "data"
    np.arange(4.0).tofile(path)
    mapped = np.memmap(path, mode="r")
    (back,) = unpack_values(pack_values([mapped]))
    assert back.tobytes() == np.arange(4.0).tobytes()


class Pair(NamedTuple):
    a: int
    b: int


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("an error must not depend on this")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Unprintable(), "Unprintable cannot travel"),
        (Pair(1, 2), "Pair cannot travel"),
        (OrderedDict(a=1), "OrderedDict cannot travel"),
        ({1, 2}, "set cannot travel"),
        (test_equal_kinds_are_listed_once, "function cannot travel"),
        (np.array([object()]), "dtype object cannot travel"),
        (np.zeros(2, "i4,f8"), "its elements are not plain bytes"),
        (np.void(b"abc"), "void cannot travel"),
        (np.dtype("O"), "cannot travel"),
        (np.ma.masked_array([1, 2], [False, True]), "MaskedArray cannot travel"),
    ],
)
def test_what_is_no_plain_data_is_refused_by_name(value: Any, says: str):
    for nested in (value, [1, {"a": (value,)}]):
        with pytest.raises(NotShippable, match=says):
            write_values([nested])


def test_data_may_be_nested_so_deep_and_no_deeper():
    nested: Any = 1
    for _ in range(MAX_DEPTH):
        nested = [nested]
    assert unpack_values(pack_values([nested])) == [nested]
    with pytest.raises(NotShippable, match="hold itself"):
        pack_values([[nested]])
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(NotShippable, match="hold itself"):
        pack_values(endless)
