"""Checks of decoded msgpack: functions that return a part with its type verified, or raise `ProtocolError`.

All decoders use them; only this file packs msgpack, and unpacks it from outside. Messages name what was read.
Sequences arrive as tuples and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import msgpack

from raygrad.errors import ProtocolError

T = TypeVar("T")

NO_MORE_THAN_INT64: Final = 2**63
"""Ids, counts and extents are signed 64-bit numbers on every side."""


def pack(tree: Any) -> bytes:
    """Return plain data as msgpack. Texts may hold lone surrogates, as names of files do that are not UTF-8."""
    try:
        return msgpack.packb(tree, use_bin_type=True)
    except UnicodeEncodeError:  # the option costs each text a copy
        return msgpack.packb(tree, use_bin_type=True, unicode_errors="surrogatepass")


def unpack(data: Any, what: str) -> Any:
    """Return the msgpack object in `data`, with tuples for arrays.

    Nesting is limited by msgpack itself (1,024 levels), every count by the length of `data`.

    Raises:
        ProtocolError: it is no single msgpack object, or holds an extension type.
    """
    try:
        return msgpack.unpackb(
            data, use_list=False, strict_map_key=False, ext_hook=_refuse_extension, unicode_errors="surrogatepass"
        )
    except ProtocolError:
        raise
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise ProtocolError(f"the {what} is not msgpack: {error or type(error).__name__}") from error


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise ProtocolError(f"the msgpack extension type {code} has no meaning here")


def fields(value: Any, count: int, what: str) -> tuple[Any, ...]:
    """Return a tuple of exactly `count` elements."""
    if type(value) is not tuple or len(value) != count:  # pyright: ignore[reportUnknownArgumentType]
        raise ProtocolError(f"the {what} is not {count} fields but {shown(value)}")
    return value  # pyright: ignore[reportUnknownVariableType]


def _exactly(kind: type[T], described: str) -> Callable[[Any, str], T]:
    """Return a check of (value, what) for exactly one type; `described` names the type in the message."""

    def check(value: Any, what: str) -> T:
        if type(value) is not kind:
            raise ProtocolError(f"the {what} is not {described} but {shown(value)}")
        return value

    return check


text = _exactly(str, "text")
flag = _exactly(bool, "true or false")
octets = _exactly(bytes, "bytes")
sequence: Callable[[Any, str], tuple[Any, ...]] = _exactly(tuple, "a sequence")


def integer(value: Any, what: str, low: int = -NO_MORE_THAN_INT64, high: int = NO_MORE_THAN_INT64) -> int:
    """Return an int in low <= value < high."""
    if type(value) is not int or not low <= value < high:
        raise ProtocolError(f"the {what} is not an integer from {low} to below {high} but {shown(value)}")
    return value


def integers(value: Any, what: str, low: int = -NO_MORE_THAN_INT64, high: int = NO_MORE_THAN_INT64) -> tuple[int, ...]:
    """Return a tuple of ints, each in low <= i < high."""
    items = sequence(value, what)
    if all_ints(items, low, high):
        return items
    raise ProtocolError(f"the {what} are not integers from {low} to below {high} but {shown(items)}")


def all_ints(items: Sequence[Any], low: int, high: int) -> bool:
    """Tell whether all are ints in low <= i < high; fast for many."""
    return not items or (set(map(type, items)) == {int} and min(items) >= low and max(items) < high)


def texts(value: Any, what: str) -> tuple[str, ...]:
    """Return a tuple of strs."""
    return tuple([text(item, what) for item in sequence(value, what)])


def one_of(value: Any, what: str, allowed: Iterable[str]) -> str:
    """Return a str that is one of `allowed`."""
    if type(value) is not str or value not in allowed:
        raise ProtocolError(f"the {what} is not one of {', '.join(sorted(allowed))} but {shown(value)}")
    return value


def seconds(value: Any, what: str) -> float:
    """Return a finite float of 0 or more."""
    if type(value) is not float or not 0.0 <= value < float("inf"):
        raise ProtocolError(f"the {what} are {shown(value)}, no time of 0 or more")
    return value


def shown(value: Any) -> str:
    """Return a short description of foreign data for a message."""
    described = repr(value) if not isinstance(value, tuple | list | dict | str | bytes) else repr(value)[:60]  # pyright: ignore[reportUnknownArgumentType]
    return f"{type(value).__name__} {described}"  # pyright: ignore[reportUnknownArgumentType]


# ---- readers: checks with their names, put together ----------------------------------------------------------------

Read: TypeAlias = Callable[[Any], Any]
"""Returns a part, checked."""


def of(check: Callable[..., Any], what: str, *limits: Any) -> Read:
    """Return the reader that is a check of this file, with the name of the part and the limits of the check.

    It is a copy of the check that has these as defaults, so that a part costs one call.
    """
    given: Any = check
    defaults = (what, *limits, *(given.__defaults__ or ())[len(limits) :])
    return FunctionType(given.__code__, given.__globals__, given.__name__, defaults, given.__closure__)


def opaque(value: Any) -> Any:
    """Return a part that is checked elsewhere, or not at all."""
    return value


def row(what: str, *reads: Read, make: Read = tuple) -> Read:
    """Return the reader of a tuple whose elements have these readers; it gives what `make` makes of them."""
    count = len(reads)

    def read(value: Any) -> Any:
        return make([one(part) for one, part in zip(reads, fields(value, count, what))])  # noqa: B905 - of one length

    return read


def many(what: str, one: Read) -> Read:
    """Return the reader of a sequence whose elements have one reader."""

    def read(value: Any) -> tuple[Any, ...]:
        return value if value == () else tuple([one(part) for part in sequence(value, what)])

    return read
