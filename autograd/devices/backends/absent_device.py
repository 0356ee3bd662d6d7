"""Placeholder arrays and backend for devices that this process does not serve.

A client without a GPU holds values of its workers' GPUs so, with their contents in host memory. They have a shape, a
dtype and a device, and can be moved to the host or to a served device, which counts as no transfer of a device;
computing with them raises.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Never, final

from raygrad.errors import DeviceError

from .backend import Backend, Memory
from .device import Device


@final
class AbsentArray:
    """An array of a device that is not served here."""

    __slots__ = ("device", "host")

    base = None

    def __init__(self, device: Device, host: Any) -> None:
        self.device = device
        self.host = host
        """An array of NumPy's, in the same axis order."""

    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    itemsize = property(lambda self: self.host.itemsize)
    nbytes = property(lambda self: self.host.nbytes)
    strides = property(lambda self: self.host.strides)
    flags = property(lambda self: self.host.flags)

    def get(self) -> Any:
        """Return a copy on the host."""
        return self.host.copy(order="K")

    def item(self, *index: int) -> Any:
        """Return an element as a Python number."""
        return self.host.item(*index)

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        return self.host.tolist()

    def refused(self) -> DeviceError:
        """Return the error for who wants to compute with it."""
        return DeviceError(
            f"a value (shape {self.shape}) is on {self.device}, which this process does not serve: move it to the "
            "host (tensor.cpu()), or compute with it inside the session"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.refused()

    def __getitem__(self, index: Any) -> Never:
        raise self.refused()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Never:
        raise self.refused()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Never:
        raise self.refused()

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Never:
        raise self.refused()

    def __reduce__(self) -> Any:
        raise TypeError("an array of a device is not to be pickled: that would forget where it is")

    def __repr__(self) -> str:
        return f"<array of shape {self.shape} and dtype {self.dtype} on {self.device}, which is not served here>"


class _Namespace:
    """The namespace that makes arrays there: there is none."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DeviceError(f"nothing can be made ({name}) on a device that this process does not serve")


class AbsentBackend(Backend):
    """What stands for the devices of all arrays that are none of this process's."""

    kind: ClassVar[str] = "cuda"
    array = AbsentArray
    xp: Any = _Namespace()
    exhausted = MemoryError

    def count(self) -> int:
        return 0

    def numerics(self) -> str:
        return "absent"

    def current(self) -> int:
        return -1

    def on(self, index: int) -> AbstractContextManager[None]:
        return nullcontext()

    def index_of(self, array: Any) -> int:
        return array.device.index

    def device_of(self, array: Any) -> Device:
        return array.device

    def from_host(self, array: Any, index: int) -> Any:
        return AbsentArray(Device(self.kind, index), array.copy(order="K"))

    def to_host(self, array: Any) -> Any:
        return array.get()

    def copy_to(self, array: Any, index: int) -> Any:
        return self.from_host(array.host, index)

    def memory(self, index: int) -> Memory:
        raise _absent(index)

    def reset_peak(self, index: int) -> None:
        raise _absent(index)

    def limit(self, index: int, size: int | None) -> None:
        raise _absent(index)

    def synchronize(self, index: int) -> None:
        """Nothing is at work there."""

    def empty_cache(self) -> None:
        """Nothing is kept there."""

    def start_of(self, array: Any) -> int:
        return array.host.__array_interface__["data"][0]

    def writable(self, array: Any) -> bool:
        return False


def _absent(index: int) -> DeviceError:
    return DeviceError(f"device 'cuda:{index}' is not served by this process, which knows nothing of its memory")
