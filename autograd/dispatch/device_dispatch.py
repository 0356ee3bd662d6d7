"""Dispatch of ops on devices other than the host: which operands may meet, and the kernel that serves them.

`dispatch.py` calls it if an operand is not a NumPy array. Operands must be on one device; only zero-dimensional tensors
of the host may meet those of a device, by a transfer that is a node of the graph. Nothing else moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, DeviceError, MissingKernel

from ..core import dtypes
from ..core.catalogue import ops
from ..core.modes import state
from ..core.recorder import Recorder
from ..devices import Backend, Device
from ..devices.backends.device import KINDS
from ..devices.backends.device_memory import describe_shapes, with_memory_retry
from ..devices.serving import (
    CPU,
    backend_of,
    device_guard,
    device_of,
    factory_device,
    is_device_array,
    is_on_device,
    known_backend_of,
    make,
    move_array,
    needs_device_guard,
)
from ..registry.registry import Op
from ..registry.vjp_rules import quiet
from ..tensor.tensor import Tensor

_ARRAY: Any = np.ndarray


def on_one_device(op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    """Return the operands of an op on one device.

    Raises:
        RuntimeError: tensors of two devices are among them.
    """
    if op.name == "to_device":
        return operands
    devices: list[Device] = []
    scalars = False
    for operand in operands:
        if not isinstance(operand, Tensor):
            continue
        device = operand.device
        if device is CPU and not operand._data.ndim:
            scalars = True
        elif device not in devices:
            devices.append(device)
    if len(devices) > 1:
        named = " and ".join(str(device) for device in sorted(devices, key=lambda one: one.type == "cpu")[:2])
        raise AutogradError(
            f"Expected all tensors to be on the same device, but found at least two devices, {named}! ({op.name}; "
            f"move one of them: tensor.to('{devices[0]}'))"
        )
    if not scalars or not devices:
        return operands
    return [
        ops.to_device(operand, devices[0]) if isinstance(operand, Tensor) and operand.device is CPU else operand
        for operand in operands
    ]


def run(op: Op, datas: Sequence[Any], params: tuple[Any, ...], dtype: Any) -> Any:
    """Run the kernel of an op for the device of its operands.

    Raises:
        MissingKernel: there is none for this device.
        OutOfDeviceMemory: the device has no memory left, also after what was kept there is given back.
    """
    held = next(data for data in datas if is_device_array(data))
    backend = known_backend_of(held)
    kernel = kernel_for(op, backend, dtype)
    with device_guard(held) if needs_device_guard(held) else nullcontext():
        out = with_memory_retry(
            backend,
            backend.index_of(held),
            lambda: f"in {op.name} of {describe_shapes(datas)}",
            lambda: _quietly(kernel, *datas, *params),
        )
    for one in (out,) if op.outputs == 1 else out:
        if backend_of(one) is None:
            raise DeviceError(f"the kernel of '{op.name}' for {backend.kind} returned {type(one).__name__}, no array")
    return out


@quiet
def _quietly(kernel: Any, *args: Any) -> Any:
    return kernel(*args)


def kernel_for(op: Op, backend: Backend, dtype: Any) -> Any:
    """Return the kernel of an op for a kind of device.

    Raises:
        MissingKernel: there is none; names op, device and what to do.
    """
    device = backend.kind
    if not op.has_kernel(device, dtype):
        raise missing(op, device)
    return op.builtin_kernel(device, dtype) if op.builtin else op.kernel(device, dtype)


def missing(op: Op, device: str) -> MissingKernel:
    """Return the error for an op that has no kernel for a kind of device."""
    return MissingKernel(
        f"'{op.name}' has no kernel for device {device}: move its operands to the host first (tensor.cpu()), and its "
        f"result back, or register one (raygrad.autograd.register_kernel('{op.name}', device='{device}', ...))"
    )


def kind_of(datas: Sequence[Any]) -> str:
    """Return the kind of device of operands: "cpu" if all are on the host."""
    for data in datas:
        if is_on_device(data):
            return device_of(data).type
    return "cpu"


def compute_dtype(datas: Sequence[Any]) -> Any:
    """Return the dtype of the first operand that has one: that in which operands have met."""
    for data in datas:
        if hasattr(data, "dtype"):
            return data.dtype
    return dtypes.get_default_dtype()


def tensor_devices(args: Sequence[Any]) -> list[Device | None] | None:
    """Return, per argument, the device of a tensor; None if all are on the host."""
    for arg in args:
        if isinstance(arg, Tensor) and type(arg._data) is not _ARRAY:
            break
    else:
        return None  # nearly always
    places = [arg.device if isinstance(arg, Tensor) else None for arg in args]
    return places if any(place is not None and place is not CPU for place in places) else None


def guard_of(args: Sequence[Any]) -> Any:
    """Return a block in which the device of the first tensor that is not on the host is the current one."""
    return device_guard(next(arg._data for arg in args if isinstance(arg, Tensor) and is_device_array(arg._data)))


def kinds_of(function: Any) -> tuple[str, ...]:
    """Return the kinds of device on which a Function runs, as its `devices` say; () if they say nothing: then any.

    Raises:
        TypeError: they are no sequence of names.
        ValueError: one is no kind of device, or there is none.
    """
    declared: Any = getattr(function, "devices", None)
    if declared is None:
        return ()
    where = f"{function.__name__}.devices"
    if isinstance(declared, str) or not isinstance(declared, Sequence):
        raise TypeError(f"{where} must be a sequence of kinds of device, like ('cpu', 'cuda'); got {declared!r}")
    kinds: tuple[Any, ...] = tuple(declared)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if not kinds or any(kind not in KINDS for kind in kinds):
        raise ValueError(f"{where} must name kinds of device among {', '.join(KINDS)}; got {declared!r}")
    return kinds


def check_kinds(function: Any, devices: Iterable[Device]) -> None:
    """Check that a Function is given no tensor of a kind of device that it does not run on. A Function of GPUs alone
    may be given tensors of the host: it moves them itself.

    Raises:
        DeviceError: it is given such.
    """
    kinds = kinds_of(function)
    for device in devices:
        if kinds and device.type != "cpu" and device.type not in kinds:
            raise DeviceError(
                f"{function.__name__} runs on {', '.join(kinds)}, as its `devices` say, and was given a tensor on "
                f"{device}: move it first (tensor.cpu()), or name '{device.type}' among the devices"
            )


def zeros_on(device: Device, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Return zeros on a device, of no graph; in a session those of a device are recorded."""
    return filled_on(device, shape, 0, dtype, state.here.recorder if device is not CPU else None)


def filled_on(device: Device, shape: tuple[int, ...], value: Any, dtype: Any, recorder: Recorder | None) -> Tensor:
    """Return a tensor of one number on a device, of no graph: made there, recorded if there is a recorder."""
    if recorder is None:
        return Tensor.made(make(factory_device(device), lambda xp: xp.full(shape, value, dtype)))
    return Tensor.made(ops.full_on(recorder, shape, value, dtype, device))


def move_recorded(array: Any, place: Device | None) -> Any:
    """Return a new tensor's data: an array on a device, or in a session what a transfer that is recorded will give."""
    if place is None or state.here.recorder is None:
        return move_array(array, place)
    return ops.to_device(Tensor.made(array), place)._data


def made_on(place: Device | None, maker: Callable[[Any], Any]) -> Any:
    """Return a new tensor's data: what `maker` makes with the namespace of a device. In a session it is made on the
    host, and moved."""
    if place is None or state.here.recorder is None:
        return make(place, maker)
    return move_recorded(maker(np), place)


def copied(array: Any) -> Any:
    """Return a copy of an array on its device, in its own axis order."""
    if needs_device_guard(array):
        with device_guard(array):
            return array.copy(order="K")
    return array.copy(order="K")
