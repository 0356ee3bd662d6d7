"""Backend of GPUs: CuPy arrays. The only file that imports CuPy, when a GPU is first requested.

CuPy computes on the thread's current device, so callers make the operands' device current (`Backend.on`). Its allocator
keeps freed memory in a pool: allocated memory is what the pool has handed out, and the peak is what the pool holds,
which is no less. Copies go through `staging`, which keeps their order with work on the current stream.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any, ClassVar, cast

from raygrad.errors import DeviceError

from ...core.array_layout import overlaps_itself
from .backend import Backend, Memory, in_own_order, to_host_in_own_order
from .device import Device
from .staging import Staging

PER_THREAD = "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"
"""The environment variable by which CuPy gives each thread a default stream of its own."""


class Cuda(Backend):
    """CuPy's arrays.

    Attributes:
        staging: the copies.

    Raises:
        ImportError: CuPy is not installed.
        RuntimeError: there is no GPU, or no driver for it.
        DeviceError: each thread is to have a default stream of its own.
    """

    kind: ClassVar[str] = "cuda"

    def __init__(self) -> None:
        import cupy  # pyright: ignore[reportMissingImports]

        if int(os.environ.get(PER_THREAD) or 0):
            raise DeviceError(
                f"{PER_THREAD} is set: each thread would have a stream of its own, and arrays go from thread to thread "
                "(workers in this process, backward), where nobody would wait for what is still being written; unset it"
            )
        self._cupy = cast("Any", cupy)
        self._count = int(self._cupy.cuda.runtime.getDeviceCount())
        if not self._count:
            raise RuntimeError("CUDA reports no device")
        self.array = self._cupy.ndarray
        self.xp = self._cupy
        self.exhausted = self._cupy.cuda.memory.OutOfMemoryError
        self.staging = Staging(self._cupy)
        self._devices: list[Device] = [Device("cuda", index) for index in range(self._count)]

    def count(self) -> int:
        return self._count

    def numerics(self) -> str:
        runtime = self._cupy.cuda.runtime
        models = {runtime.getDeviceProperties(index)["name"].decode() for index in range(self._count)}
        versions = f"CuPy {self._cupy.__version__} with CUDA {runtime.runtimeGetVersion()}"
        return f"{versions} on {' and '.join(sorted(models))}"

    def current(self) -> int:
        return int(self._cupy.cuda.runtime.getDevice())

    def on(self, index: int) -> AbstractContextManager[Any]:
        return self._cupy.cuda.Device(index)

    def index_of(self, array: Any) -> int:
        return int(array.device.id)

    def device_of(self, array: Any) -> Device:
        return self._devices[self.index_of(array)]

    def from_host(self, array: Any, index: int) -> Any:
        return in_own_order(array, lambda dense: self.staging.to_device(dense, index))

    def to_host(self, array: Any) -> Any:
        with array.device:
            return to_host_in_own_order(array, self.staging.to_host)

    def copy_to(self, array: Any, index: int) -> Any:
        with array.device:
            return in_own_order(array, lambda dense: self.staging.between(dense, index))

    def memory(self, index: int) -> Memory:
        with self.on(index) as device:
            pool = self._cupy.get_default_memory_pool()
            used, held, limit = pool.used_bytes(), pool.total_bytes(), pool.get_limit()
            free, total = device.mem_info
        available = free + pool.free_bytes()
        if limit:
            available, total = min(available, limit - used), min(total, limit)
        return Memory(used, held, available, total)

    def reset_peak(self, index: int) -> None:
        with self.on(index):
            self._cupy.get_default_memory_pool().free_all_blocks()

    def limit(self, index: int, size: int | None) -> None:
        with self.on(index):
            self._cupy.get_default_memory_pool().set_limit(size=size or 0)

    def synchronize(self, index: int) -> None:
        self._cupy.cuda.Device(index).synchronize()

    def empty_cache(self) -> None:
        self.staging.clear()
        self._cupy.get_default_memory_pool().free_all_blocks()
        self._cupy.get_default_pinned_memory_pool().free_all_blocks()

    def start_of(self, array: Any) -> int:
        return int(array.data.ptr)

    def writable(self, array: Any) -> bool:
        return not overlaps_itself(array.shape, array.strides)
