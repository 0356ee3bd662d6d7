"""Values of a device while they are in host memory: on their way from a process to another.

Rules of this file: a device's array travels as (device, array of the host), dense in its own axis order, and is never
pickled. It goes to its device where that is served; elsewhere it stays in host memory, for the node that moves it on.
"""

from __future__ import annotations

from typing import Any, final

from raygrad.autograd.devices.serving import at_hand, named, send
from raygrad.errors import DeviceError


@final
class Staged:
    """An array of a device that is not served here, in host memory. Only `to_device` reads it."""

    __slots__ = ("device", "host")

    def __init__(self, device: str, host: Any) -> None:
        self.device = device
        self.host = host

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.host.nbytes

    def refused(self) -> DeviceError:
        """Return the error for who wants the array itself."""
        return DeviceError(
            f"a value (shape {self.host.shape}) is on {self.device}, which this process does not serve: move it to the "
            "host inside the session (tensor.cpu()) and read that"
        )


def unstaged(device: str, host: Any) -> Any:
    """Return an array that came from another process on its device, if that is served here."""
    place, backend = named(device), at_hand()
    if backend is None or (place.index or 0) not in backend.numbers():
        return Staged(device, host)
    return send(host, place)
