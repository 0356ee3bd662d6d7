"""Where arrays live: the devices, and the libraries that keep arrays on them.

- *Device*: a value that names a place: a kind ("cpu", "cuda") and, for some, a number.
- *Backend*: what serves a kind: its arrays, how they are made and moved, its memory.
- *Stand-in*: a backend for "cuda" without a GPU: NumPy behind CuPy's restrictions, which counts what is moved.
- *Staging*: copies through pinned memory, on streams of their own; one code for CuPy and for the stand-in.
- *Late*: of streams, as those of a GPU are: what they are told is done when it must be. The stand-in's are if asked to.
- *Beside*: the namespace in which an array of an operand's device is made; kernels name no library.
"""

from .backends.backend import Backend as Backend
from .backends.backend import Memory as Memory
from .backends.device import Device as Device
from .backends.device import device as device
from .serving import backend_of as backend_of
from .serving import device_of as device_of
from .serving import space_of as space_of
from .simulated.simulated_device import StandIn as StandIn
from .simulated.simulated_device import use_stand_in as use_stand_in

__all__ = ["Backend", "Device", "Memory", "StandIn", "backend_of", "device", "device_of", "space_of", "use_stand_in"]
