"""Fingerprints of arrays: by them it is told whether code that ran again returned the same bits (H2).

Workers whose process may be lost take one of each output of user code and send them in records (`proto.ir.program`);
the driver compares those of two attempts. The forward of a Function whose context was not kept is compared by digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from raygrad.proto.ir.program import OutputFingerprints

WHOLE_BYTES: Final = 1 << 18
"""Of a larger array as many bytes are read, so that a fingerprint takes some 50 us at most: a small part of what it
took to make the array."""

BLOCK_BYTES: Final = 4096
"""The bytes that are read at one place of a larger array. The places are equally far from each other."""

_BLOCKS: Final = WHOLE_BYTES // BLOCK_BYTES

_MASK: Final = (1 << 64) - 1

_NATIVE: Final = "biufc"
"""Kinds of dtypes whose arrays can be read as they are."""

_UNDEFINED: Final = 1
"""The fingerprint of an undefined output."""


def digest(arrays: Iterable[np.ndarray[Any, Any] | None]) -> bytes:
    """Return 64 bits that stand for all bits, shapes and dtypes of arrays."""
    state = xxh3_64()
    for array in arrays:
        if array is None:
            state.update(b"-")
            continue
        state.update(_facts(array))
        state.update(_bytes_of(np.ascontiguousarray(array)).data)
    return state.digest()


def fingerprint(value: Any) -> int:
    """Return 64 bits, as an int with a sign, that stand for an array: of a large one, for a part of its bytes. 0 for
    what is no array in this process's memory. Its layout in memory does not count."""
    if value is None:
        return _UNDEFINED
    if not isinstance(value, np.ndarray):
        return 0
    array = cast("np.ndarray[Any, Any]", value)
    dtype = array.dtype
    if dtype.hasobject:
        return 0
    facts = hash((ord(dtype.kind), dtype.itemsize, array.shape)) & _MASK  # of ints: equal in all processes
    if array.nbytes <= WHOLE_BYTES:
        here: Any = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        return xxh3_64_intdigest(here if dtype.kind in _NATIVE else _bytes_of(here).data, facts) - (1 << 63)
    state = xxh3_64(seed=facts)
    for part in _parts(array):
        state.update(part)
    return state.intdigest() - (1 << 63)


def _parts(array: np.ndarray[Any, Any]) -> Iterator[memoryview]:
    """Yield some elements of a large array: the same ones for each layout in memory."""
    size, wide = array.size, max(1, BLOCK_BYTES // array.itemsize)
    starts = [*range(0, size - wide, size // _BLOCKS), size - wide]
    if array.flags.c_contiguous:
        view, item = _bytes_of(array).data, array.itemsize
        for start in starts:
            yield view[start * item : (start + wide) * item]
    else:
        places = (np.array(starts)[:, None] + np.arange(wide)).reshape(-1)
        yield _bytes_of(array[np.unravel_index(places, array.shape)]).data


def _facts(array: np.ndarray[Any, Any]) -> bytes:
    return f"{array.dtype.str} {array.dtype.num} {array.shape}".encode()


def _bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a contiguous array as bytes, without a copy."""
    return array.reshape(-1).view(np.uint8)


class FingerprintList:
    """Fingerprints of what steps of a call returned, as `OutputFingerprints` has them."""

    __slots__ = ("counts", "found", "nodes")

    def __init__(self) -> None:
        self.nodes: list[int] = []
        self.counts: list[int] = []
        self.found: list[int] = []

    def add(self, node: int, found: list[int]) -> None:
        """Add those of what a step returned."""
        self.nodes.append(node)
        self.counts.append(len(found))
        self.found += found

    def taken(self) -> OutputFingerprints:
        """Return those so far."""
        return OutputFingerprints(tuple(self.nodes), tuple(self.counts), tuple(self.found))
