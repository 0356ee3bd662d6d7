"""Values through `pack_values`, a pickle, and `unpack_values` come back equal, read-only, in their layout."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from raygrad.errors import ProtocolError
from raygrad.proto.codec.values import Blob, Packed, pack_values, unpack_values
from raygrad.proto.ir.array_layout import layout_of
from raygrad.proto.ir.program import Item, Pinned
from raygrad.proto.ir.specs import ArraySpec, ContextSpec

LARGE = np.arange(10_000.0).reshape(100, 100)


def carried(packed: Packed) -> Packed:
    """What another process gets: buffers out of band, and read-only as an object store gives them."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(packed, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])


def assert_same(back: Any, value: Any):
    assert type(back) is type(value)
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype.newbyteorder("=")
        assert back.shape == value.shape
        assert back.tobytes() == value.astype(back.dtype).tobytes()
        assert not back.flags.writeable
        assert back.flags.aligned
        if layout_of(value) is not None:
            assert layout_of(back) == layout_of(value)
    elif isinstance(value, tuple | list):
        assert len(back) == len(value)
        for mine, theirs in zip(back, value, strict=True):
            assert_same(mine, theirs)
    elif isinstance(value, dict):
        assert list(back) == list(value)
        for key in value:
            assert_same(back[key], value[key])
    elif isinstance(value, np.generic | float | complex):
        assert np.asarray(back).tobytes() == np.asarray(value).tobytes()
        assert np.asarray(back).dtype == np.asarray(value).dtype
    else:
        assert back == value


CASES: dict[str, Any] = {
    "None": None,
    "bools": (True, False, np.True_),
    "integers": (0, -1, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**200)),
    "floats": (0.0, -0.0, float("inf"), float("nan"), 5e-324),
    "complex": 1 - 2j,
    "text": ("", "é", "\udc80", "a" * 10_000),
    "bytes": (b"", b"a", b"b" * 10_000),
    "containers": ((), [], {}, ((1,), [2, (3,)], {"a": {1: (None,)}, (1, 2): [LARGE]})),
    "slices": (slice(None), slice(1, None, -2), ...),
    "scalars": (np.float32(0.1), np.int8(-3), np.complex64(1j), np.str_("hé"), np.str_(""), np.datetime64(5, "s")),
    "dtypes": (np.dtype("f4"), np.dtype("?"), np.dtype(">i8").newbyteorder("=")),
    "nouns": (ArraySpec((2, 3), "float32", "cpu", ((1, 0), ())), ContextSpec(), Pinned(3, 4), Item(0, 1)),
    "blob": Blob(b"pickle"),
    "large blob": Blob(b"p" * 10_000, (memoryview(b"q" * 10_000), memoryview(b""))),
    "no axes": np.array(1.5),
    "empty": np.zeros((0, 3), np.int16),
    "bool array": np.array([True, False]),
    "complex array": np.array([1j, 2]),
    "half and long": (np.ones(3, np.float16), np.ones(3, np.longdouble)),
    "text array": (np.array(["a", "bcd"]), np.array([b"x"])),
    "dates": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "big-endian": (np.arange(6, dtype=">i4").reshape(2, 3).T, np.arange(3, dtype=">c16"), LARGE.astype(">f8")),
    "transposed": (LARGE.T, LARGE[:3, :].copy().T, np.ones((2, 3, 4)).transpose(2, 0, 1)),
    "expanded": (np.broadcast_to(np.arange(3), (4, 3)), np.broadcast_to(LARGE[:, :, None], (100, 100, 2))),
    "sliced": (LARGE[::2, ::3], np.arange(10)[::-1], LARGE[:, 1]),
}


@pytest.mark.parametrize("value", CASES.values(), ids=CASES)
def test_a_value_comes_back(value: Any):
    assert_same(unpack_values(carried(pack_values([value])))[0], value)
    assert_same(unpack_values(pack_values([value]))[0], value)


def test_all_values_share_one_object():
    values = list(CASES.values())
    assert_same(unpack_values(carried(pack_values(values))), values)


def _arrays() -> st.SearchStrategy[np.ndarray]:
    def made(dtype: str, shape: list[int], swapped: bool, seed: int) -> np.ndarray:
        array = np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)
        return array.T if swapped else array

    dtypes = st.sampled_from(["f4", "f8", "i8", "u1", "?", "c8", ">f4"])
    sizes = st.sampled_from([0, 1, 2, 3, 40])
    return st.builds(made, dtypes, st.lists(sizes, max_size=3), st.booleans(), st.integers(0, 5))


_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
_values = st.recursive(
    _scalars | _arrays(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(_values, max_size=6))
def test_any_values_come_back(values: list[Any]):
    assert_same(unpack_values(carried(pack_values(values))), values)


def test_a_packed_object_pickles_its_large_buffers_out_of_band():
    packed = pack_values([LARGE, np.ones(3), LARGE.T])
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(packed, protocol=5, buffer_callback=buffers.append)
    assert [buffer.raw().nbytes for buffer in buffers] == [LARGE.nbytes, LARGE.nbytes]
    assert len(data) < 1000
    assert packed.nbytes >= 2 * LARGE.nbytes


def test_unpacked_arrays_are_views_of_the_buffers():
    (back,) = unpack_values(pack_values([LARGE]))
    assert np.shares_memory(back, LARGE)
    assert LARGE.flags.writeable


def test_a_copy_shares_no_memory_with_what_was_packed():
    packed = pack_values([LARGE, np.ones(3), "text"])
    copy = packed.copied()
    assert copy.nbytes == packed.nbytes
    back = unpack_values(carried(copy))
    assert_same(back, [LARGE, np.ones(3), "text"])
    assert not np.shares_memory(unpack_values(copy)[0], LARGE)


@pytest.mark.parametrize("header", [b"", b"\xc1", b"\x90", b"\x93\x90\x00\x91\x00"])
def test_a_broken_header_is_refused(header: bytes):
    with pytest.raises(ProtocolError):
        unpack_values(Packed(header, ()))
