"""Packed values: a list of values as one object, a msgpack header and raw buffers beside it.

Calls, records and objects in the store have this form. No byte of a large array is copied, neither into the header nor
out of the buffers. Small arrays are copied once, into one pool, because each buffer of an object costs more than their
bytes do. Code and exceptions travel as `Blob`s, which this room never opens. Arrays come back read-only, in their
layout (H1) and in this machine's byte order.

The header is (kinds, pooled bytes, entries). An entry is one of: None, a bool, float, str or bytes as itself; an int,
the index of a kind, for an array of that kind, whose bytes follow those of the array before; (tag, ...) for all else. A
kind is (dtype, shape, order, expanded, 1 if pooled else 0), listed once however many arrays share it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .checks import pack, unpack
from .value_reader import read_values
from .value_writer import Blob as Blob, Buffer as Buffer, write_values


class Packed(NamedTuple):
    """Values as one object; `pack_values` makes it, `unpack_values` opens it."""

    header: bytes
    buffers: tuple[Buffer, ...]

    @property
    def nbytes(self) -> int:
        """The bytes it holds."""
        return len(self.header) + sum(map(len, self.buffers))

    def copied(self) -> Packed:
        """Return one with copies of the arrays, which are views of the memory of values or of an object store."""
        return Packed(self.header, tuple([np.array(b) if isinstance(b, np.ndarray) else b for b in self.buffers]))


def pack_values(values: Sequence[object]) -> Packed:
    """Return the values as one object. Large arrays are referenced, not copied: do not write to them afterwards.

    Takes None, arrays, NumPy scalars and dtypes, Python's numbers, str, bytes, slice and Ellipsis, `Blob`s, the nouns
    specs, `Pinned` and `Item`, and tuples, lists and dicts of all these.

    Raises:
        NotShippable: anything else, subclasses of these types included; names it.
    """
    tree, buffers = write_values(values)
    return Packed(pack(tree), tuple(buffers))


def unpack_values(packed: Packed) -> list[Any]:
    """Return the values of a packed object; arrays are read-only views of its buffers.

    Raises:
        ProtocolError: the header is not what it must be, or does not fit the buffers.
    """
    return read_values(unpack(packed.header, "header of the values"), packed.buffers)
