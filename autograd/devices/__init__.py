"""Devices: where arrays live, the libraries that keep them there, and transfers between them.

- *Device*: a kind ("cpu", "cuda") and, for some, a number.
- *Backend*: what serves a kind of device: its arrays, their allocation and transfer, its memory.
- *Simulated device*: a backend for "cuda" without a GPU: NumPy behind CuPy's restrictions, with counted transfers and,
  on request, late streams.
- *Staging*: copies through pinned memory on streams of their own, the same code for CuPy and simulated devices.
- *`space_of`*: the array namespace of an operand's device; kernels name no library.
"""

from typing import TYPE_CHECKING, Any

from .backends.backend import Backend, Memory
from .backends.device import Device, device
from .serving import backend_of, device_of, space_of

if TYPE_CHECKING:
    from .simulated.simulated_device import StandIn, use_stand_in

__all__ = ["Backend", "Device", "Memory", "StandIn", "backend_of", "device", "device_of", "space_of", "use_stand_in"]


def __getattr__(name: str) -> Any:
    """Return a name of the simulated devices, which are loaded where somebody asks for one."""
    if name not in ("StandIn", "use_stand_in"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from .simulated import simulated_device

    return getattr(simulated_device, name)
