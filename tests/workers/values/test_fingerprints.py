from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from raygrad.workers.values.fingerprints import WHOLE_BYTES, digest, fingerprint

LARGE = WHOLE_BYTES // 8 + 12_345

ARRAYS: dict[str, Callable[[], Any]] = {
    "empty": lambda: np.zeros((0, 3)),
    "scalar": lambda: np.array(1.5),
    "small": lambda: np.arange(12.0).reshape(3, 4),
    "transposed": lambda: np.arange(12.0).reshape(3, 4).T,
    "strided": lambda: np.arange(12.0)[::2],
    "broadcast": lambda: np.broadcast_to(np.arange(3.0), (4, 3)),
    "booleans": lambda: np.array([True, False]),
    "large": lambda: np.arange(LARGE, dtype=np.float64),
    "large-transposed": lambda: np.arange(2.0 * LARGE).reshape(2, -1).T,
    "large-strided": lambda: np.arange(2.0 * LARGE)[::2],
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_equal_arrays_have_equal_fingerprints_of_64_bits(make: Callable[[], Any]) -> None:
    assert fingerprint(make()) == fingerprint(make().copy(order="K"))
    assert -(2**63) <= fingerprint(make()) < 2**63
    assert digest([make()]) == digest([make()])
    assert len(digest([make()])) == 8


def test_other_bits_shapes_and_dtypes_have_other_fingerprints() -> None:
    found = [fingerprint(make()) for make in ARRAYS.values()]
    found += [fingerprint(np.zeros(3)), fingerprint(-np.zeros(3)), fingerprint(np.zeros(3, np.int64))]
    found += [fingerprint(np.zeros((3, 1))), fingerprint(None)]
    assert len({*found}) == len(found)


@pytest.mark.parametrize("place", [0, LARGE - 1], ids=["first", "last"])
def test_the_ends_of_large_arrays_count(place: int) -> None:
    array = np.arange(LARGE, dtype=np.float64)
    before = fingerprint(array)
    array[place] += 1.0
    assert fingerprint(array) != before


def test_a_digest_reads_every_byte_and_tells_what_is_undefined() -> None:
    array = np.arange(LARGE, dtype=np.float64)
    before = digest([array])
    for place in (0, 1234, LARGE // 2, LARGE - 1):
        array[place] += 1.0
        assert digest([array]) != before
        array[place] -= 1.0
    assert digest([None, array]) != digest([array, None])


def test_what_is_no_array_in_memory_has_no_fingerprint() -> None:
    assert fingerprint("text") == 0
    assert fingerprint(np.array([object()])) == 0
