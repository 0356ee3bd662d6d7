"""The functions of `torch.cuda` about GPUs: their number, memory and synchronisation.

Each asks the backend that serves "cuda" (CuPy, or the simulated device); nothing is kept here.
"""

from __future__ import annotations

from typing import Any

from raygrad.autograd.devices.backends.backend import Backend
from raygrad.autograd.devices.backends.device import Device
from raygrad.autograd.devices.serving import as_device, available_backend, backend_for_kind
from raygrad.autograd.dispatch.random_numbers import manual_seed as manual_seed
from raygrad.errors import DeviceError
from raygrad.tracebacks import public

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "synchronize",
]


def is_available() -> bool:
    """Tell whether tensors can live on "cuda"."""
    return available_backend() is not None


def device_count() -> int:
    """Return how many devices of "cuda" there are."""
    backend = available_backend()
    return 0 if backend is None else backend.count()


@public
def current_device() -> int:
    """Return the number of the device that "cuda" names now.

    Raises:
        RuntimeError: there is none.
    """
    return backend_for_kind("cuda").current()


@public
def synchronize(device: Any = None) -> None:
    """Wait until all work given to a device is done."""
    backend, index = _of(device)
    backend.synchronize(index)


@public
def memory_allocated(device: Any = None) -> int:
    """Return how many bytes the arrays on a device hold."""
    backend, index = _of(device)
    return backend.memory(index).allocated


@public
def max_memory_allocated(device: Any = None) -> int:
    """Return the peak of bytes that arrays on a device held since `reset_peak_memory_stats`; with CuPy, the peak of its
    pool, which is no less."""
    backend, index = _of(device)
    return backend.memory(index).peak


@public
def reset_peak_memory_stats(device: Any = None) -> None:
    """Restart the measurement of `max_memory_allocated`."""
    backend, index = _of(device)
    backend.reset_peak(index)


@public
def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return how many bytes of a device are free, and how many there are."""
    backend, index = _of(device)
    memory = backend.memory(index)
    return memory.free, memory.total


@public
def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let the arrays on a device hold at most this part of its memory; an op that needs more raises.

    Raises:
        ValueError: not between 0 and 1.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    backend, index = _of(device)
    backend.limit(index, None)
    if fraction < 1:
        backend.limit(index, int(backend.memory(index).total * fraction))


@public
def empty_cache() -> None:
    """Give memory back that no array holds; without a GPU there is none to give back."""
    backend = available_backend()
    if backend is not None:
        backend.empty_cache()


def _of(device: Any) -> tuple[Backend, int]:
    """Return the backend and the number of a device of "cuda": the current one for None.

    Raises:
        RuntimeError: there is no such device.
        ValueError: it is on the host.
    """
    place = as_device(Device("cuda", device) if type(device) is int else "cuda" if device is None else device)
    if place.type != "cuda":
        raise DeviceError(f"Expected a cuda device, but got: {place}")
    return backend_for_kind("cuda"), place.index or 0
