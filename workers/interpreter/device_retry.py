"""Steps of user code that run again when a kernel of their own finds a device full, once values were evicted from it.

raygrad's own kernels are retried where they run (`autograd.devices.backends.device_memory`); user code is retried as a
whole step, if it may run again at all.
"""

from __future__ import annotations

from collections.abc import Callable

from raygrad.autograd.devices.backends.device_memory import describe_shapes, with_memory_retry
from raygrad.autograd.devices.serving import backend_if_installed, is_device_array
from raygrad.errors import OutOfDeviceMemory
from raygrad.proto.ir.nodes import UNDEFINED
from raygrad.proto.ir.program import Step

from ..memory.rematerialize import can_rerun
from ..values.slots import Execute, Slots
from .functions import Host


def found_device_full(error: MemoryError) -> bool:
    """Tell whether a kernel of user code found a device full: not the host's memory, nor a device after evictions."""
    backend = None if isinstance(error, OutOfDeviceMemory) else backend_if_installed()
    return backend is not None and isinstance(error, backend.exhausted)


def rerun_on_full_device(execute: Execute, step: Step, host: Host) -> Callable[[Slots, MemoryError], None]:
    """Return what runs a step of user code again, after an eviction, given the error by which it `found_device_full`.

    It raises OutOfDeviceMemory where the step may not run again.
    """

    def rerun_after(slots: Slots, last: MemoryError) -> None:
        backend = backend_if_installed()
        assert backend is not None
        given = [slots[slot] for slot in step.node.inputs if slot != UNDEFINED and is_device_array(slots[slot])]
        index = backend.index_of(given[0]) if given else backend.current()
        what = f"in user code that was given {describe_shapes(given)}"
        if not can_rerun(step):
            raise OutOfDeviceMemory(
                f"{backend.kind}:{index} is out of memory {what}: {last}; only for raygrad's own operations other "
                "values make way: use these, have the plan leave room (Session(gpu_memory=...)), or set pure = True on "
                "a Function whose forward may run again once others have made way"
            ) from last

        def rerun() -> None:
            if host.report.emits is not None:
                host.report.emits.rerun(step.index)
            execute(slots)

        with_memory_retry(backend, index, lambda: what, rerun)

    return rerun_after
