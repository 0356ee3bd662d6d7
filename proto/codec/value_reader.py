"""The reader of values: arrays, scalars and containers from a header's plain data and its buffers, checked.

The inverse of `value_writer`; `values` describes the format. Every number is checked before memory is touched by it. No
byte of a large array is copied, unless its buffer starts where an array cannot. All arrays are read-only."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from raygrad.errors import ProtocolError

from ..ir.array_layout import C_LAYOUTS, Array, check_layout, elements, strides_of
from ..ir.program import Item, Pinned
from .checks import fields, integer, integers, octets, sequence, shown, text
from .specs import spec_of
from .value_writer import (
    ALIGNMENT,
    BLOB,
    BYTES,
    COMPLEX,
    DICT,
    DTYPE,
    ELLIPSIS,
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
    Blob,
)

_DTYPE: Final = re.compile(r"[<>|=]?[biufcmMSU][0-9]{1,9}(\[[0-9a-zA-Z]{1,24}\])?")

_type_of: Callable[[object], type[Any]] = type
"""`type` as pyright can follow it for a value of unknown type."""


def read_values(tree: Any, buffers: Sequence[Any]) -> list[Any]:
    """Return the values that `write_values` wrote; the buffers may be any flat bytes.

    Raises:
        ProtocolError: the tree is not what it must be, or does not fit the buffers.
    """
    kinds, pooled, entries = fields(tree, 3, "header of the values")
    reader = _ValueReader(
        [_kind(kind) for kind in sequence(kinds, "kinds of arrays")], integer(pooled, "size of the pool", 0), buffers
    )
    entry = reader.entry
    values = [entry(item, 0) for item in sequence(entries, "entries")]
    reader.finish()
    return values


class _ArrayKind(NamedTuple):
    """A kind of arrays: shape, dtype and strides of each, and the distance to the next."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    nbytes: int
    step: int
    """Bytes in the pool with the padding; -1 for one with a buffer of its own."""


def _kind(raw: Any) -> _ArrayKind:
    name, shape, order, expanded, pooled = fields(raw, 5, "kind of array")
    dtype = dtype_of(name)
    shape = integers(shape, "extents of an array", 0)
    order, expanded = integers(order, "axis order"), integers(expanded, "expanded axes")
    check_layout(shape, order, expanded)
    nbytes = elements(shape, expanded) * dtype.itemsize
    strides = None if (order, expanded) == C_LAYOUTS[len(shape)] else strides_of(shape, order, expanded, dtype.itemsize)
    step = nbytes + -nbytes % ALIGNMENT if integer(pooled, "pooled flag", 0, 2) else -1
    return _ArrayKind(shape, dtype, strides, nbytes, step)


@lru_cache(maxsize=256)
def _parsed_dtype(name: str) -> np.dtype[Any]:
    if not _DTYPE.fullmatch(name):
        raise ProtocolError(f"'{name[:40]}' names no dtype of plain bytes")
    try:
        return np.dtype(name).newbyteorder("=")
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"'{name[:40]}' names no dtype of this machine") from error


def dtype_of(name: Any) -> np.dtype[Any]:
    """Return the dtype of a name in a header, in this machine's byte order.

    Raises:
        ProtocolError: it names none, or one whose elements are not plain bytes.
    """
    return _parsed_dtype(text(name, "dtype"))


class _ValueReader:
    """A cursor over the pool and the buffers, from which values are made."""

    __slots__ = ("_buffers", "_kinds", "_next", "_offset", "_pool", "_pooled")

    def __init__(self, kinds: list[_ArrayKind], pooled: int, buffers: Sequence[Any]) -> None:
        self._kinds = kinds
        self._buffers = buffers
        self._next = 0
        self._offset = 0
        self._pooled = pooled
        self._pool = _aligned(self._buffer(pooled)) if pooled else memoryview(b"")

    def entry(self, entry: Any, depth: int) -> Any:
        kind = _type_of(entry)
        if kind is int:
            return self._array(entry)
        if entry is None or kind in _READ_AS_ITSELF:
            return entry
        if kind is not tuple or not entry:
            raise ProtocolError(f"the entry of a value is {shown(entry)}")
        read = _READERS.get(entry[0]) if type(entry[0]) is int else None
        if read is None:
            raise ProtocolError(f"no value has the tag {shown(entry[0])}")
        return read(self, entry, depth)

    def _array(self, index: int) -> Array:
        if not 0 <= index < len(self._kinds):
            raise ProtocolError(f"an array is of kind {index}, and there are {len(self._kinds)} kinds")
        shape, dtype, strides, nbytes, step = self._kinds[index]
        memory, offset = self._pool, self._offset
        if step < 0:
            memory, offset = _aligned(self._buffer(nbytes)), 0
        elif offset + step > self._pooled:
            raise ProtocolError(f"the pool of {self._pooled} bytes ends inside an array")
        else:
            self._offset = offset + step
        try:
            return np.ndarray(shape, dtype, memory, offset, strides)
        except (ValueError, OverflowError) as error:
            raise ProtocolError(f"no array has the shape {shape}: {error}") from error

    def _buffer(self, nbytes: int) -> memoryview:
        if self._next == len(self._buffers):
            raise ProtocolError(f"a value has no buffer: there are {self._next}")
        buffer = memoryview(self._buffers[self._next])
        self._next += 1
        if buffer.nbytes != nbytes:
            raise ProtocolError(f"a buffer has {buffer.nbytes} bytes where the header says {nbytes}")
        return buffer.toreadonly()

    def octets(self, part: Any) -> bytes | memoryview:
        """Return bytes from the header or, for a number, the next buffer."""
        return part if type(part) is bytes else self._buffer(integer(part, "size of a buffer", 0))

    def items(self, entry: tuple[Any, ...], depth: int) -> list[Any]:
        """Return the values of the entries after the tag."""
        if depth >= MAX_DEPTH:
            raise ProtocolError(f"values are nested deeper than {MAX_DEPTH} levels")
        return [self.entry(part, depth + 1) for part in entry[1:]]

    def finish(self) -> None:
        """Check that nothing is left over."""
        if self._offset != self._pooled or self._next != len(self._buffers):
            raise ProtocolError(
                f"the values take {self._offset} of {self._pooled} pooled bytes and {self._next} of "
                f"{len(self._buffers)} buffers"
            )


def _aligned(buffer: memoryview) -> memoryview:
    """Return the buffer, or a copy if it starts where an array cannot: NumPy would take other code paths there."""
    if np.frombuffer(buffer, np.uint8).__array_interface__["data"][0] % ALIGNMENT == 0:
        return buffer
    return memoryview(bytes(buffer))


def _read_int(_reader: _ValueReader, entry: tuple[Any, ...], _depth: int) -> int:
    value = fields(entry, 2, "integer")[1]
    return int.from_bytes(value, "little", signed=True) if type(value) is bytes else integer(value, "integer")


def _read_complex(_reader: _ValueReader, entry: tuple[Any, ...], _depth: int) -> complex:
    _, real, imaginary = fields(entry, 3, "complex number")
    if type(real) is not float or type(imaginary) is not float:
        raise ProtocolError(f"a complex number has the parts {shown(real)} and {shown(imaginary)}")
    return complex(real, imaginary)


def _read_dict(reader: _ValueReader, entry: tuple[Any, ...], depth: int) -> dict[Any, Any]:
    parts = reader.items(entry, depth)
    try:
        result = dict(zip(parts[::2], parts[1::2], strict=True))
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"a dict has a key that cannot be one, or a key without a value: {error}") from error
    return result


def _read_scalar(_reader: _ValueReader, entry: tuple[Any, ...], _depth: int) -> Any:
    _, name, data = fields(entry, 3, "NumPy scalar")
    dtype, data = dtype_of(name), octets(data, "NumPy scalar")
    if len(data) != dtype.itemsize:
        raise ProtocolError(f"a NumPy scalar of dtype {dtype} has {len(data)} bytes")
    return np.ndarray((), dtype, data)[()]


def _read_blob(reader: _ValueReader, entry: tuple[Any, ...], _depth: int) -> Blob:
    _, data, buffers = fields(entry, 3, "blob")
    octets = reader.octets(data)
    return Blob(octets, tuple([memoryview(reader.octets(part)) for part in sequence(buffers, "buffers of a blob")]))


def _read_text(reader: _ValueReader, entry: tuple[Any, ...], _depth: int) -> str:
    data = reader.octets(fields(entry, 2, "text")[1])
    try:
        return str(data, "utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"text is not UTF-8: {error}") from error


def _read_pinned(_reader: _ValueReader, entry: tuple[Any, ...], _depth: int) -> Pinned:
    _, run, value = fields(entry, 3, "pinned value")
    return Pinned(integer(run, "run of a pinned value"), integer(value, "value id", 0))


def _read_item(_reader: _ValueReader, entry: tuple[Any, ...], _depth: int) -> Item:
    _, argument, index = fields(entry, 3, "item")
    return Item(integer(argument, "argument of an item", 0), integer(index, "index of an item", 0))


_READ_AS_ITSELF: Final = frozenset({bool, float, str, bytes})

_READERS: Final[dict[int, Callable[[_ValueReader, tuple[Any, ...], int], Any]]] = {
    TUPLE: lambda reader, entry, depth: tuple(reader.items(entry, depth)),
    LIST: lambda reader, entry, depth: reader.items(entry, depth),
    DICT: _read_dict,
    INT: _read_int,
    COMPLEX: _read_complex,
    SLICE: lambda reader, entry, depth: slice(*reader.items(fields(entry, 4, "slice"), depth)),
    ELLIPSIS: lambda _reader, _entry, _depth: ...,
    SCALAR: _read_scalar,
    DTYPE: lambda _reader, entry, _depth: dtype_of(fields(entry, 2, "dtype")[1]),
    BLOB: _read_blob,
    BYTES: lambda reader, entry, _depth: bytes(reader.octets(fields(entry, 2, "bytes")[1])),
    TEXT: _read_text,
    SPEC: lambda _reader, entry, _depth: spec_of(entry[1:]),
    PINNED: _read_pinned,
    ITEM: _read_item,
}
