"""Packed values: lists of contexts, arrays and objects as one message object that crosses processes, and back.

Hosts pack objects and spilled values with it; `wire` packs the values of calls and records. POISON stands in the place
of an object that was never made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.devices.serving import is_device_array
from raygrad.proto.codec.values import Packed, pack_values, unpack_values
from raygrad.scheduler.model.memory_spaces import HOST

from .contexts import Alike, Context
from .device_staging import pack_object, staged, unpack_object, unstaged
from .placeholders import Placeholder


class Poison:
    """The placeholder of a value that was not made, because an earlier step failed."""

    def __repr__(self) -> str:
        return "POISON"

    def __reduce__(self) -> str:
        return "POISON"


POISON: Final = Poison()


class Withdrawn:
    """The placeholder of an object whose call was withdrawn before it began: what reads it is withdrawn, too."""

    def __repr__(self) -> str:
        return "WITHDRAWN"

    def __reduce__(self) -> str:
        return "WITHDRAWN"


WITHDRAWN: Final = Withdrawn()

LIKE: Final = "like"
"""The tag of an entry whose context equals that of an earlier entry."""


_PICKLED: Final = "OV"
"""Kinds of dtypes of arrays that travel as objects: their elements are objects, or structures."""


def portable(value: Any, asked: bool = False) -> Any:
    """Return a value as arrays, plain data and blobs for the codec; `restored` is its inverse. With `asked` (requested
    by the client) its arrays on devices go along.

    Raises:
        NotShippable: it cannot be pickled, or holds an array of a device and was not asked for.
    """
    if value is None or type(value) in (float, int, bool, str):
        return value
    if type(value) is np.ndarray and value.dtype.kind not in _PICKLED:
        return value
    if isinstance(value, Context):
        return ("context", value.packed(asked))
    if is_device_array(value):
        return ("device", *staged(value))
    return ("object", *pack_object(value, asked))


def restored(value: Any) -> Any:
    """Return the value that `portable` was given."""
    if type(value) is not tuple:
        return value
    kind, *body = cast("tuple[Any, ...]", value)
    if kind == "device":
        return unstaged(*body)
    if kind == "context":
        return Context(packed=body[0])
    return unpack_object(body)


def pack_all(values: list[Any] | Poison, restore: Callable[[Placeholder], Any], asked: bool = False) -> Packed | Poison:
    """Return an object's values as packed values; with `asked` (requested by the client) including arrays on devices.
    Placeholders are restored one after the other: memory may not suffice for all.

    Raises:
        NotShippable: a context that cannot be pickled, or something that holds an array of a device.
    """
    if isinstance(values, Poison):
        return values
    alike = Alike()
    entries: list[Any] = []
    for number, value in enumerate(values):
        if isinstance(value, Placeholder):
            entries.append(portable(restore(value), asked))
            continue
        place = alike.place(value, number) if type(value) is Context else -1
        entries.append(portable(value, asked) if place < 0 else (LIKE, place))
    return pack_values(entries)


def coming(packed: Packed) -> dict[str, int]:
    """Return, per memory, the bytes that a packed object will hold once unpacked."""
    sizes: dict[str, int] = {}
    for entry in unpack_values(packed):
        if type(entry) is tuple and entry[0] == "device":
            _, device, array = cast("tuple[str, str, Any]", entry)
            sizes[device] = sizes.get(device, 0) + array.nbytes
    return {HOST: packed.nbytes - sum(sizes.values()), **sizes}


def unpack_all(packed: Packed | Poison, into: list[Any] | None = None) -> list[Any] | Poison:
    """Return the values of a packed object, appended one by one to the list `into` if given; arrays are read-only."""
    if isinstance(packed, Poison):
        return packed
    values: list[Any] = [] if into is None else into
    rebuilt: dict[int, list[Any]] = {}
    entries = unpack_values(packed)
    for entry in entries:
        if type(entry) is tuple and entry[0] == LIKE:
            place = cast("tuple[str, int]", entry)[1]
            values.append(Context(packed=entries[place][1], rebuilt=rebuilt.setdefault(place, [])))
        else:
            values.append(restored(entry))
    return values
