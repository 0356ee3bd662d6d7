"""Lookup of the backend of a device or an array, resolution of `device=`, and transfers between devices.

The first request for "cuda" decides what serves it: simulated devices if they were enabled, else CuPy, and never the
host in silence. Arrays of NumPy are distinguished from all others by their type alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from raygrad.errors import AutogradError, DeviceError

from ..core.modes import state
from ..core.recorder import Pending
from .backends.backend import Backend
from .backends.cpu import CPU as CPU
from .backends.device import Device
from .backends.device_memory import describe_shapes, with_memory_retry
from .backends.serving_backends import ABSENT, HOST, ServingBackends, serve as serve

if TYPE_CHECKING:
    from .simulated.simulated_device import StandIn

STAND_IN = "RAYGRAD_STAND_IN"
"""The environment variable that enables simulated devices: their number, as "2"."""

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_type: Any = type
"""Which the type checker does not see through: data may be anything."""


def disable_cuda(reason: str) -> None:
    """Refuse "cuda" from now on with this reason, even if the process can see GPUs: they belong to other workers.

    "" allows the search for a backend again.
    """
    serve(None)
    ServingBackends.refusal = reason


def is_simulated() -> bool:
    """Tell whether simulated devices serve "cuda" here, without looking for a GPU."""
    if ServingBackends.cuda is None:
        return bool(os.environ.get(STAND_IN))
    return ServingBackends.cuda.simulated


def simulated_memory() -> int | None:
    """Return how many bytes the arrays of each simulated device may hold here, None for no limit."""
    cuda = ServingBackends.cuda
    return cast("StandIn", cuda).limit_of(0) if cuda is not None and cuda.simulated else None


def backend_for_kind(kind: str, asked: Device | None = None) -> Backend:
    """Return the backend of a kind of device; `asked` is the device that an error names.

    Raises:
        RuntimeError: "cuda" is requested without CuPy or a GPU, and simulated devices are not enabled.
    """
    if kind == "cpu":
        return HOST
    if ServingBackends.cuda is None:
        if ServingBackends.refusal:
            raise DeviceError(f"device '{asked or Device(kind)}' is not available: {ServingBackends.refusal}")
        serve(_found(asked or Device(kind)))
    assert ServingBackends.cuda is not None
    return ServingBackends.cuda


def backend_if_installed() -> Backend | None:
    """Return the backend of "cuda", None if there is none.

    Unlike `available_backend`, it looks for no GPU where CuPy is not installed.
    """
    if ServingBackends.cuda is None and (
        ServingBackends.refusal or (not os.environ.get(STAND_IN) and find_spec("cupy") is None)
    ):
        return None
    return available_backend()


def current_device_of_kind(kind: str) -> Device | None:
    """Return the current device of a kind that is served here already, None if it is not."""
    return None if ServingBackends.cuda is None else Device(kind, ServingBackends.cuda.current())


def available_backend() -> Backend | None:
    """Return the backend of "cuda", None if there is none."""
    try:
        return backend_for_kind("cuda")
    except DeviceError:
        return None


def _found(device: Device) -> Backend:
    asked = os.environ.get(STAND_IN)
    if asked:
        if not asked.isdecimal() or not int(asked):
            raise DeviceError(f"{STAND_IN} is the number of simulated devices, as 2; got {asked!r}")
        from .simulated.simulated_device import StandIn

        return StandIn(int(asked))
    from .backends.cuda import Cuda

    try:
        return Cuda()
    except ImportError as error:
        raise DeviceError(
            f"device '{device}' needs CuPy, which is not installed: pip install raygrad[cuda12] or raygrad[cuda13], "
            "by the version of CUDA that nvidia-smi shows; without a GPU, "
            "raygrad.autograd.devices.use_stand_in() simulates one"
        ) from error
    except DeviceError:
        raise
    except RuntimeError as error:
        raise DeviceError(
            f"device '{device}' is not available: CuPy found no usable GPU ({error}); check that nvidia-smi shows one "
            "and that raygrad[cuda12] or raygrad[cuda13] fits its driver"
        ) from error


# ---- of arrays -------------------------------------------------------------------------------------------------------


def backend_of(array: Any) -> Backend | None:
    """Return the backend of an array; None for any other value."""
    return ServingBackends.by_array.get(_type(array))


def device_of(array: Any) -> Device:
    """Return the device that holds an array or will hold a pending value; the host for any other value."""
    backend = ServingBackends.by_array.get(_type(array))
    if backend is None:
        return array.device if _type(array) is Pending else CPU
    return backend.device_of(array)


def space_of(operand: Any) -> Any:
    """Return the array namespace of an operand's device: of an array, a tensor, or a number (the host's).

    On a device it makes them on the current one, which that of the operands is while a kernel or a rule runs.
    """
    kind = _type(operand)
    if kind is _ARRAY:
        return np
    backend = ServingBackends.by_array.get(kind)
    if backend is None:
        backend = ServingBackends.by_array.get(_type(getattr(operand, "_data", None)), HOST)
    return backend.xp


def is_device_array(data: Any) -> bool:
    """Tell whether data is an array of a device backend: of a library other than NumPy."""
    kind = _type(data)
    return kind is not _ARRAY and kind in ServingBackends.by_array


def is_on_device(data: Any) -> bool:
    """Tell whether data is, or will be, on another device than the host: an array of it, or a pending value."""
    kind = _type(data)
    return data.device is not CPU if kind is Pending else kind is not _ARRAY and kind in ServingBackends.by_array


def writable(array: Any) -> bool:
    """Tell whether an array may be written to."""
    if _type(array) is _ARRAY:
        return array.flags.writeable
    backend = backend_of(array)
    return array.flags.writeable if backend is None else backend.writable(array)


def start_of(array: Any) -> int:
    """Return the address of an array's first element, in the memory of its device."""
    if _type(array) is _ARRAY:
        return array.__array_interface__["data"][0]
    return known_backend_of(array).start_of(array)


def same_memory(array: Any, other: Any) -> bool:
    """Tell whether two arrays are views of the same memory, by their bases."""
    first = array if array.base is None else array.base
    return first is (other if other.base is None else other.base)


# ---- where something is to be made -----------------------------------------------------------------------------------


def as_device(device: Any) -> Device:
    """Return a device that is there, with its number; "cuda" is the current one. In a session it is one of
    its workers'.

    Raises:
        RuntimeError: it is no name of a device, or there is no such device here.
    """
    wanted = device if type(device) is Device else Device(device)
    if wanted.type == "cpu":
        return CPU
    recorder = state.here.recorder
    if recorder is not None:
        return recorder.place(wanted)
    backend = backend_for_kind(wanted.type, wanted)
    if wanted.index is None:
        return Device(wanted.type, backend.current())
    if wanted.index not in backend.numbers():
        raise DeviceError(
            f"device '{wanted}' is not here: invalid device ordinal; there {'is' if backend.count() == 1 else 'are'} "
            f"{', '.join(f'{wanted.type}:{number}' for number in backend.numbers())}"
        )
    return wanted


def ordinal_of(device: Device) -> int:
    """Return the number that other libraries in this process have for a device; of one that is not here, its own."""
    backend, index = backend_if_installed(), device.index or 0
    return index if backend is None or index not in backend.numbers() else backend.ordinal(index)


@lru_cache(maxsize=256)
def device_named(name: str) -> Device:
    """Return the device of a name, as params of ops have it, without checking that it exists."""
    return CPU if name == "cpu" else Device(name)


def factory_device(device: Any) -> Device | None:
    """Return the device of a new tensor by a factory's `device` argument and the ambient device; None is the host.

    Raises:
        RuntimeError: there is no such device here.
    """
    if device is None:
        device = state.here.device
        if device is None:
            return None
    place = as_device(device)
    return None if place.type == "cpu" else place


def make(place: Device | None, maker: Callable[[Any], Any]) -> Any:
    """Return what `maker` makes with the namespace of a device."""
    if place is None:
        return maker(np)
    backend = backend_for_kind(place.type)
    index = place.index or 0
    with backend.on(index):
        return with_memory_retry(backend, index, lambda: "when a tensor was made", lambda: maker(backend.xp))


def move_array(array: Any, place: Device | None) -> Any:
    """Return an array on a device: itself if it is there, else a copy. All eager transfers go through here."""
    if place is None and _type(array) is _ARRAY:
        return array
    here, there = device_of(array), place or CPU
    if here == there:
        return array
    if there.type == "cpu":
        return known_backend_of(array).to_host(array)
    backend, index = backend_for_kind(there.type), there.index or 0
    source = known_backend_of(array)
    if source is ABSENT:
        array, source = array.host, HOST
    if source is not HOST and source is not backend:
        raise AutogradError(f"a tensor on {here} is of a library that serves {there.type} no more; make it anew")
    copied = backend.from_host if source is HOST else backend.copy_to
    what = lambda: f"when {describe_shapes([array])} came from {here}"  # noqa: E731
    return with_memory_retry(backend, index, what, lambda: copied(array, index))


def to_host(array: Any) -> Any:
    """Return an array on the host: itself if it is there, else a copy."""
    return array if _type(array) is _ARRAY else move_array(array, None)


def known_backend_of(array: Any) -> Backend:
    """Return the backend of an array."""
    backend = backend_of(array)
    if backend is None:
        raise DeviceError(f"no backend knows arrays of type {_type(array).__name__}")
    return backend


def device_guard(array: Any) -> Any:
    """Return a context manager that makes the device of an array the current one."""
    backend = known_backend_of(array)
    return backend.on(backend.index_of(array))


def needs_device_guard(data: Any) -> bool:
    """Tell whether data is an array of a device that is not the current one: work on it needs a `device_guard`."""
    kind = _type(data)
    if kind is _ARRAY:
        return False
    backend = ServingBackends.by_array.get(kind)
    return backend is not None and backend.index_of(data) != backend.current()


def as_kernel_result(value: Any) -> Any:
    """Return the result of a kernel or a rule as an array: NumPy scalars are converted, arrays kept."""
    return value if _type(value) in ServingBackends.by_array else np.asarray(value)
