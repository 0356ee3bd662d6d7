"""The writer of values: arrays, scalars and containers as plain data for a header, and the buffers beside it.

`value_reader` is its inverse; `values` describes the format. A large array is referenced, never copied. An object that
is not plain data is refused here, by name, instead of on another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from raygrad.errors import NotShippable

from ..ir.array_layout import C_LAYOUTS, Array, dense, elements, layout_of, strides_of, take_apart
from ..ir.program import Item, Pinned
from ..ir.specs import ArraySpec, ConstSpec, ContextSpec, ObjectSpec, UnknownSpec
from .specs import spec_fields

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

_type_of: Callable[[object], type[Any]] = type
"""`type` as pyright can follow it for a value of unknown type."""

TUPLE, LIST, DICT, INT, COMPLEX, SLICE, ELLIPSIS, SCALAR, DTYPE, BLOB, BYTES, TEXT, SPEC, PINNED, ITEM = range(15)


@dataclass(frozen=True, slots=True)
class Blob:
    """Opaque bytes: a pickle, with its out-of-band buffers beside it.

    Give the buffers as flat C-contiguous bytes (`PickleBuffer.raw()`). They come back as read-only memoryviews, and so
    does `data` when it is large.
    """

    data: bytes | memoryview
    buffers: tuple[Any, ...] = ()


def write_values(values: Sequence[object]) -> tuple[tuple[Any, ...], list[Buffer]]:
    """Return the values as plain data for a header, and the buffers; see `pack_values`."""
    writer = _ValueWriter()
    entries = [writer.entry(value, 0) for value in values]
    writer.forget()
    pool = b"".join(writer.pool)
    if not pool:
        buffers = writer.large
    else:
        buffers = [pool if len(pool) <= SMALL_POOL_BYTES else np.frombuffer(pool, np.uint8), *writer.large]
    return (writer.kinds, len(pool), entries), buffers


_Put: TypeAlias = Callable[[Array, tuple[int, ...], bytes], None]
_Known: TypeAlias = tuple[int, _Put | None, tuple[int, ...], bytes]
"""Of arrays alike: index of the kind, function that writes the bytes (None if they have to be copied first), axes from
outermost to innermost, padding in the pool."""


class _ValueWriter:
    """Collects the kinds, the pool and the large buffers while entries are made."""

    __slots__ = ("_known", "kinds", "large", "pool")

    def __init__(self) -> None:
        self.kinds: list[tuple[Any, ...]] = []
        self.pool: list[bytes] = []
        self.large: list[Buffer] = []
        self._known: dict[Any, _Known] = {}

    def forget(self) -> None:
        """Break the cycle through cached bound methods: large arrays must not wait for the garbage collector."""
        self._known.clear()

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


def _int(_writer: _ValueWriter, value: int, _depth: int) -> Any:
    if -(2**63) <= value < 2**63:
        return INT, value
    return INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _text(writer: _ValueWriter, value: str, _depth: int) -> Any:
    if len(value) > POOLED_BYTES:  # beside the header, whose length is capped
        return TEXT, writer.octets(value.encode("utf-8", "surrogatepass"))
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:  # lone surrogates: a file name, say
        return TEXT, value.encode("utf-8", "surrogatepass")
    return value


def _bytes(writer: _ValueWriter, value: bytes, _depth: int) -> Any:
    return value if len(value) <= POOLED_BYTES else (BYTES, writer.octets(value))


def _items(writer: _ValueWriter, tag: int, value: Iterable[Any], depth: int) -> list[Any]:
    if depth >= MAX_DEPTH:
        raise NotShippable(f"data nested deeper than {MAX_DEPTH} levels cannot travel (does a list hold itself?)")
    entries: list[Any] = [tag]
    entry = writer.entry
    entries += [entry(item, depth + 1) for item in value]
    return entries


def _blob(writer: _ValueWriter, value: Blob, _depth: int) -> Any:
    return BLOB, writer.octets(value.data), [writer.octets(memoryview(buffer).cast("B")) for buffer in value.buffers]


def _other(writer: _ValueWriter, value: object, depth: int) -> Any:
    kind = _type_of(value)
    if isinstance(value, np.generic):
        scalar: Array = np.asarray(cast(Any, value))
        if scalar.dtype.kind in DTYPE_KINDS:
            return SCALAR, scalar.dtype.str, scalar.tobytes()
    elif isinstance(value, np.memmap):
        return writer.array(np.asarray(cast(Any, value), order="K"), depth)
    elif isinstance(value, np.dtype) and value.kind in DTYPE_KINDS:
        return DTYPE, value.newbyteorder("=").str
    raise NotShippable(f"a {kind.__module__}.{kind.__qualname__} cannot travel as plain data")


_AS_ITSELF: Final = frozenset({type(None), bool, float})

_ENTRIES: Final[dict[type[Any], Callable[[_ValueWriter, Any, int], Any]]] = {
    np.ndarray: _ValueWriter.array,
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
    **dict.fromkeys(
        (ArraySpec, ContextSpec, ConstSpec, ObjectSpec, UnknownSpec),
        lambda _writer, value, _depth: (SPEC, *spec_fields(value)),
    ),
    Pinned: lambda _writer, value, _depth: (PINNED, *value),
    Item: lambda _writer, value, _depth: (ITEM, *value),
}
