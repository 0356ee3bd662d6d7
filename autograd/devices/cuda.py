"""GPUs, by CuPy. The only file that imports it, and only when a GPU is asked for.

Rules of this file: what CuPy calls things. CuPy computes on the thread's current device whatever device its operands
are on, so whoever runs kernels makes that of the operands current first (`Backend.on`). Its allocator keeps what was
freed in a pool: memory that arrays hold is what the pool has handed out, and the peak is what it took from the device,
which is no less. Work is queued on the current stream, and
copies to the host wait for it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar, cast

from ..layout import overlaps_itself
from .backend import Backend, Memory, in_own_order
from .device import Device


class Cuda(Backend):
    """CuPy's arrays.

    Raises:
        ImportError: CuPy is not installed.
        RuntimeError: there is no GPU, or no driver for it.
    """

    kind: ClassVar[str] = "cuda"

    def __init__(self) -> None:
        import cupy  # pyright: ignore[reportMissingImports]

        self._cupy = cast("Any", cupy)
        self._count = int(self._cupy.cuda.runtime.getDeviceCount())
        if not self._count:
            raise RuntimeError("CUDA reports no device")
        self.array = self._cupy.ndarray
        self.xp = self._cupy
        self.exhausted = self._cupy.cuda.memory.OutOfMemoryError
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
        with self.on(index):
            return in_own_order(array, lambda dense: self._cupy.array(dense, order="C"))

    def to_host(self, array: Any) -> Any:
        with array.device:
            return in_own_order(array, lambda dense: dense.get(order="C"))

    def copy_to(self, array: Any, index: int) -> Any:
        def copied(dense: Any) -> Any:
            with self.on(index):
                there = self._cupy.empty(dense.shape, dense.dtype)
            # peers copy without the host where they can; the streams of both devices are waited for
            array.device.synchronize()
            there.data.copy_from_device(dense.data, dense.nbytes)
            array.device.synchronize()
            return there

        with array.device:
            return in_own_order(array, copied)

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
        self._cupy.get_default_memory_pool().free_all_blocks()
        self._cupy.get_default_pinned_memory_pool().free_all_blocks()

    def start_of(self, array: Any) -> int:
        return int(array.data.ptr)

    def writable(self, array: Any) -> bool:
        return not overlaps_itself(array.shape, array.strides)
