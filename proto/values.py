"""Values as one object: a msgpack header and raw buffers beside it.

Rules of this file: no byte of a large array is copied, not into the header and not out of the buffers; small arrays are
copied once, into one pool, because each buffer of an object costs more than their bytes do. What a value means is
not known here: code and exceptions travel as `Blob`s, which this room never opens. Arrays come back read-only and in
the layout they had (H1), in this machine's byte order.

The header is (kinds, pooled bytes, entries). An entry is None, a bool, float, str or bytes as itself; an int: an array
of that kind, whose bytes follow those of the array before; or (tag, ...): all else. A kind is
(dtype, shape, order, expanded, 1 if pooled else 0), listed once however many arrays share it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgpack
import numpy as np
from numpy.typing import NDArray

from raygrad.errors import NotShippable, ProtocolError

from .checks import fields, integer, integers, octets, sequence, shown, text, unpack
from .graph import Spec, spec_of
from .layout import C_LAYOUTS, Array, check_layout, dense, elements, layout_of, strides_of, take_apart
from .program import Item, Pinned

Buffer: TypeAlias = bytes | NDArray[np.uint8]
"""A run of bytes: both kinds pickle, and the array does so out of band (protocol 5), so that it is not copied."""

POOLED_BYTES: Final = 4096
"""Arrays and blobs up to this size are copied together: a buffer of its own costs about 2 µs, and copying 4 KiB 0.2."""

SMALL_POOL_BYTES: Final = 64 * 1024
"""A pool up to this size pickles in band: below it, that is cheaper than a buffer out of band."""

ALIGNMENT: Final = 16
"""Of each array in the pool: that of the largest element (complex128). Kernels need no more for equal bits."""

MAX_DEPTH: Final = 100
"""Of tuples, lists and dicts in each other. Deeper data is a mistake, or a list that holds itself."""

DTYPE_KINDS: Final = "biufcmMSU"
"""Numbers, bools, dates and fixed-length text: dtypes whose elements are plain bytes."""

_DTYPE: Final = re.compile(r"[<>|=]?[biufcmMSU][0-9]{1,9}(\[[0-9a-zA-Z]{1,24}\])?")

_type_of: Callable[[object], type[Any]] = type
"""`type` as pyright can follow it for a value of unknown type."""

TUPLE, LIST, DICT, INT, COMPLEX, SLICE, ELLIPSIS, SCALAR, DTYPE, BLOB, BYTES, TEXT, SPEC, PINNED, ITEM = range(15)


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that this room does not understand: a pickle, with its out-of-band buffers beside it.

    Give the buffers as flat C-contiguous bytes (`PickleBuffer.raw()`). They come back as read-only memoryviews, and so
    does `data` when it is large.
    """

    data: bytes | memoryview
    buffers: tuple[Any, ...] = ()


class Packed(NamedTuple):
    """Values on their way; `pack_values` makes it, `unpack_values` opens it."""

    header: bytes
    buffers: tuple[Buffer, ...]

    @property
    def nbytes(self) -> int:
        """The bytes it holds."""
        return len(self.header) + sum(map(len, self.buffers))


def pack_values(values: Sequence[object]) -> Packed:
    """Return the values as one object. Large arrays are referenced, not copied: do not write to them afterwards.

    Takes None, arrays, NumPy scalars and dtypes, Python's numbers, str, bytes, slice and Ellipsis, `Blob`s, the nouns
    `Spec`, `Pinned` and `Item`, and tuples, lists and dicts of all these.

    Raises:
        NotShippable: anything else, subclasses of these types included; names it.
    """
    tree, buffers = write_values(values)
    return Packed(msgpack.packb(tree, use_bin_type=True), tuple(buffers))


def unpack_values(packed: Packed) -> list[Any]:
    """Return the values of a packed object; arrays are read-only views of its buffers.

    Raises:
        ProtocolError: the header is not what it must be, or does not fit the buffers.
    """
    return read_values(unpack(packed.header, "header of the values"), packed.buffers)


# ---- writing -------------------------------------------------------------------------------------------------------


def write_values(values: Sequence[object]) -> tuple[tuple[Any, ...], list[Buffer]]:
    """Return the values as plain data for a header, and the buffers; see `pack_values`."""
    writer = _Writer()
    entries = [writer.entry(value, 0) for value in values]
    pool = b"".join(writer.pool)
    if not pool:
        buffers = writer.large
    else:
        buffers = [pool if len(pool) <= SMALL_POOL_BYTES else np.frombuffer(pool, np.uint8), *writer.large]
    return (writer.kinds, len(pool), entries), buffers


_Put: TypeAlias = Callable[[Array, tuple[int, ...], bytes], None]
_Known: TypeAlias = tuple[int, _Put | None, tuple[int, ...], bytes]
"""Of an array: its kind, how to put its bytes, its axes from outermost to innermost, its padding in the pool. An array
that cannot be put as it is has None for the second."""


class _Writer:
    """Collects the kinds, the pool and the large buffers while entries are made."""

    __slots__ = ("_known", "kinds", "large", "pool")

    def __init__(self) -> None:
        self.kinds: list[tuple[Any, ...]] = []
        self.pool: list[bytes] = []
        self.large: list[Buffer] = []
        self._known: dict[Any, _Known] = {}

    def entry(self, value: Any, depth: int) -> Any:
        kind = _type_of(value)
        encode = _ENTRIES.get(kind)
        if encode is not None:
            return encode(self, value, depth)
        return value if kind in _AS_ITSELF else _other(self, value, depth)

    def array(self, value: Array, _depth: int) -> int:
        key = (value.dtype, value.shape, value.strides)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._kind(value)
        index, put, order, padding = known
        if put is None:
            return self.array(_native(value), _depth)
        put(value, order, padding)
        return index

    def _kind(self, value: Array) -> _Known:
        dtype = value.dtype
        if dtype.kind not in DTYPE_KINDS or dtype.hasobject:
            raise NotShippable(f"an array of dtype {dtype} cannot travel: its elements are not plain bytes")
        layout = layout_of(value)
        if layout is None or not dtype.isnative:
            return 0, None, (), b""
        order, expanded = layout
        shape = value.shape
        nbytes = elements(shape, expanded) * dtype.itemsize
        pooled = nbytes <= POOLED_BYTES
        self.kinds.append((dtype.str, shape, order, expanded, int(pooled)))
        if not pooled:
            put = self._large
        elif expanded:
            put = self._pool_expanded
        else:
            put = self._pool_plain if order == C_LAYOUTS[len(shape)][0] else self._pool_transposed
        return len(self.kinds) - 1, put, order, b"\0" * (-nbytes % ALIGNMENT)

    def _pool_plain(self, value: Array, _order: tuple[int, ...], padding: bytes) -> None:
        self.pool.append(value.tobytes())
        if padding:
            self.pool.append(padding)

    def _pool_transposed(self, value: Array, order: tuple[int, ...], padding: bytes) -> None:
        self._pool_plain(value.transpose(order), order, padding)

    def _pool_expanded(self, value: Array, order: tuple[int, ...], padding: bytes) -> None:
        self._pool_plain(take_apart(value)[0], order, padding)

    def _large(self, value: Array, _order: tuple[int, ...], _padding: bytes) -> None:
        self.large.append(take_apart(value)[0].reshape(-1).view(np.uint8))

    def octets(self, data: Any) -> bytes | int:
        """Return bytes for the header if they are few, else put them beside it and return their number."""
        if len(data) <= POOLED_BYTES:
            return bytes(data)
        self.large.append(np.frombuffer(data, np.uint8))
        return len(data)


def _native(value: Array) -> Array:
    """Return a copy that has a layout that travels, in this machine's byte order."""
    if value.dtype.isnative:
        return dense(value)
    base, order, expanded = take_apart(value)
    native = np.ascontiguousarray(base, base.dtype.newbyteorder("="))
    return np.ndarray(value.shape, native.dtype, native, 0, strides_of(value.shape, order, expanded, native.itemsize))


def _int(_writer: _Writer, value: int, _depth: int) -> Any:
    if -(2**63) <= value < 2**63:
        return INT, value
    return INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _text(_writer: _Writer, value: str, _depth: int) -> Any:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:  # lone surrogates: a file name, say
        return TEXT, value.encode("utf-8", "surrogatepass")
    return value


def _bytes(writer: _Writer, value: bytes, _depth: int) -> Any:
    return value if len(value) <= POOLED_BYTES else (BYTES, writer.octets(value))


def _items(writer: _Writer, tag: int, value: Iterable[Any], depth: int) -> list[Any]:
    if depth >= MAX_DEPTH:
        raise NotShippable(f"data nested deeper than {MAX_DEPTH} levels cannot travel (does a list hold itself?)")
    entries: list[Any] = [tag]
    entry = writer.entry
    entries += [entry(item, depth + 1) for item in value]
    return entries


def _blob(writer: _Writer, value: Blob, _depth: int) -> Any:
    return BLOB, writer.octets(value.data), [writer.octets(memoryview(buffer).cast("B")) for buffer in value.buffers]


def _other(writer: _Writer, value: object, depth: int) -> Any:
    kind, described = _type_of(value), shown(value)
    if isinstance(value, np.generic):
        scalar: Array = np.asarray(cast(Any, value))
        if scalar.dtype.kind in DTYPE_KINDS:
            return SCALAR, scalar.dtype.str, scalar.tobytes()
    elif isinstance(value, np.memmap):
        return writer.array(np.asarray(cast(Any, value), order="K"), depth)
    elif isinstance(value, np.dtype) and value.kind in DTYPE_KINDS:
        return DTYPE, value.newbyteorder("=").str
    raise NotShippable(f"a {kind.__module__}.{kind.__qualname__} cannot travel as plain data: {described}")


_AS_ITSELF: Final = frozenset({type(None), bool, float})

_ENTRIES: Final[dict[type[Any], Callable[[_Writer, Any, int], Any]]] = {
    np.ndarray: _Writer.array,
    int: _int,
    str: _text,
    bytes: _bytes,
    complex: lambda _writer, value, _depth: (COMPLEX, value.real, value.imag),
    tuple: lambda writer, value, depth: _items(writer, TUPLE, value, depth),
    list: lambda writer, value, depth: _items(writer, LIST, value, depth),
    dict: lambda writer, value, depth: _items(writer, DICT, [part for item in value.items() for part in item], depth),
    slice: lambda writer, value, depth: _items(writer, SLICE, (value.start, value.stop, value.step), depth),
    type(...): lambda _writer, _value, _depth: (ELLIPSIS,),
    Blob: _blob,
    Spec: lambda _writer, value, _depth: (SPEC, *value),
    Pinned: lambda _writer, value, _depth: (PINNED, *value),
    Item: lambda _writer, value, _depth: (ITEM, *value),
}


# ---- reading -------------------------------------------------------------------------------------------------------


def read_values(tree: Any, buffers: Sequence[Any]) -> list[Any]:
    """Return the values that `write_values` wrote; the buffers may be any flat bytes.

    Raises:
        ProtocolError: the tree is not what it must be, or does not fit the buffers.
    """
    kinds, pooled, entries = fields(tree, 3, "header of the values")
    reader = _Reader(
        [_kind(kind) for kind in sequence(kinds, "kinds of arrays")], integer(pooled, "size of the pool", 0), buffers
    )
    entry = reader.entry
    values = [entry(item, 0) for item in sequence(entries, "entries")]
    reader.finish()
    return values


class _Kind(NamedTuple):
    """What is common to arrays of a kind: how to make one, and how far it is to the next."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    nbytes: int
    step: int
    """Bytes in the pool with the padding; -1 for one with a buffer of its own."""


def _kind(raw: Any) -> _Kind:
    name, shape, order, expanded, pooled = fields(raw, 5, "kind of array")
    dtype = dtype_of(name)
    shape = integers(shape, "extents of an array", 0)
    order, expanded = integers(order, "axis order"), integers(expanded, "expanded axes")
    check_layout(shape, order, expanded)
    nbytes = elements(shape, expanded) * dtype.itemsize
    strides = None if (order, expanded) == C_LAYOUTS[len(shape)] else strides_of(shape, order, expanded, dtype.itemsize)
    step = nbytes + -nbytes % ALIGNMENT if integer(pooled, "pooled flag", 0, 2) else -1
    return _Kind(shape, dtype, strides, nbytes, step)


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


class _Reader:
    """Walks the pool and the buffers while values are made."""

    __slots__ = ("_buffers", "_kinds", "_next", "_offset", "_pool", "_pooled")

    def __init__(self, kinds: list[_Kind], pooled: int, buffers: Sequence[Any]) -> None:
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


def _read_int(_reader: _Reader, entry: tuple[Any, ...], _depth: int) -> int:
    value = fields(entry, 2, "integer")[1]
    return int.from_bytes(value, "little", signed=True) if type(value) is bytes else integer(value, "integer")


def _read_complex(_reader: _Reader, entry: tuple[Any, ...], _depth: int) -> complex:
    _, real, imaginary = fields(entry, 3, "complex number")
    if type(real) is not float or type(imaginary) is not float:
        raise ProtocolError(f"a complex number has the parts {shown(real)} and {shown(imaginary)}")
    return complex(real, imaginary)


def _read_dict(reader: _Reader, entry: tuple[Any, ...], depth: int) -> dict[Any, Any]:
    parts = reader.items(entry, depth)
    try:
        result = dict(zip(parts[::2], parts[1::2], strict=True))
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"a dict has a key that cannot be one, or a key without a value: {error}") from error
    return result


def _read_slice(reader: _Reader, entry: tuple[Any, ...], depth: int) -> slice:
    return slice(*reader.items(fields(entry, 4, "slice"), depth))


def _read_scalar(_reader: _Reader, entry: tuple[Any, ...], _depth: int) -> Any:
    _, name, data = fields(entry, 3, "NumPy scalar")
    dtype, data = dtype_of(name), octets(data, "NumPy scalar")
    if len(data) != dtype.itemsize:
        raise ProtocolError(f"a NumPy scalar of dtype {dtype} has {len(data)} bytes")
    return np.ndarray((), dtype, data)[()]


def _read_blob(reader: _Reader, entry: tuple[Any, ...], _depth: int) -> Blob:
    _, data, buffers = fields(entry, 3, "blob")
    octets = reader.octets(data)
    return Blob(octets, tuple([memoryview(reader.octets(part)) for part in sequence(buffers, "buffers of a blob")]))


def _read_bytes(reader: _Reader, entry: tuple[Any, ...], _depth: int) -> bytes:
    return bytes(reader.octets(fields(entry, 2, "bytes")[1]))


def _read_text(_reader: _Reader, entry: tuple[Any, ...], _depth: int) -> str:
    data = octets(fields(entry, 2, "text")[1], "text")
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"text is not UTF-8: {error}") from error


def _read_pinned(_reader: _Reader, entry: tuple[Any, ...], _depth: int) -> Pinned:
    _, run, value = fields(entry, 3, "pinned value")
    return Pinned(integer(run, "run of a pinned value"), integer(value, "value id", 0))


def _read_item(_reader: _Reader, entry: tuple[Any, ...], _depth: int) -> Item:
    _, argument, index = fields(entry, 3, "item")
    return Item(integer(argument, "argument of an item", 0), integer(index, "index of an item", 0))


_READ_AS_ITSELF: Final = frozenset({bool, float, str, bytes})

_READERS: Final[dict[int, Callable[[_Reader, tuple[Any, ...], int], Any]]] = {
    TUPLE: lambda reader, entry, depth: tuple(reader.items(entry, depth)),
    LIST: lambda reader, entry, depth: reader.items(entry, depth),
    DICT: _read_dict,
    INT: _read_int,
    COMPLEX: _read_complex,
    SLICE: _read_slice,
    ELLIPSIS: lambda _reader, _entry, _depth: ...,
    SCALAR: _read_scalar,
    DTYPE: lambda _reader, entry, _depth: dtype_of(fields(entry, 2, "dtype")[1]),
    BLOB: _read_blob,
    BYTES: _read_bytes,
    TEXT: _read_text,
    SPEC: lambda _reader, entry, _depth: spec_of(entry[1:]),
    PINNED: _read_pinned,
    ITEM: _read_item,
}
