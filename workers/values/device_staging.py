"""Device staging: arrays of a device in host memory, under the device's name, while they cross processes.

An array travels as (device, array of the host), dense in its own axis order, and is never pickled; inside of other
objects it travels beside their pickle. It returns to its device where that is served. Elsewhere it stays in host
memory, for the node that moves it on."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from raygrad.autograd.devices.backends.absent_device import AbsentArray
from raygrad.autograd.devices.serving import (
    backend_if_installed,
    device_named,
    device_of,
    is_device_array,
    move_array,
    to_host,
)
from raygrad.proto.codec.values import Blob

from ..code.pickling import pickle_around_arrays, pickle_value
from ..code.unpickling import load

StagedArray: TypeAlias = tuple[str, Any]
"""(device, array of the host)."""


Left: TypeAlias = tuple[str, int]
"""(device, bytes) of an array that has left its device."""


class _Noted(threading.local):
    left: list[Left] | None = None


_noted = _Noted()


@contextmanager
def noting() -> Generator[list[Left]]:
    """Collect (device, bytes) of arrays that leave their device on this thread, within the block."""
    before, _noted.left = _noted.left, []
    try:
        yield _noted.left
    finally:
        _noted.left = before


def staged(array: Any) -> StagedArray:
    """Return an array of a device as (device, array of the host); `unstaged` is the inverse."""
    place = str(device_of(array))
    if _noted.left is not None and type(array) is not AbsentArray:
        _noted.left.append((place, array.nbytes))
    return place, to_host(array)


def unstaged(device: str, host: Any) -> Any:
    """Move a staged array to its device, if that is served here; return an array already on a device unchanged."""
    if is_device_array(host):
        return host
    place, backend = device_named(device), backend_if_installed()
    if backend is None or (place.index or 0) not in backend.numbers():
        return AbsentArray(place, host)
    return move_array(host, place)


def pack_object(value: Any, asked: bool) -> tuple[Any, ...]:
    """Return a Python object as a blob and staged arrays; `unpack_object` is the inverse. Arrays of devices go along
    only with `asked` (requested by the client): else these transfers would not be accounted for.

    Raises:
        NotShippable: it cannot be pickled, or holds an array of a device that is not to go with it.
    """
    if not asked:
        return (Blob(pickle_value(value)),)
    data, arrays = pickle_around_arrays(value)
    return (Blob(data), *[staged(array) for array in arrays])


def unpack_object(packed: Sequence[Any]) -> Any:
    """Return the object that `pack_object` was given."""
    blob, *arrays = packed
    return load(bytes(blob.data), (), [unstaged(*one) for one in arrays])
