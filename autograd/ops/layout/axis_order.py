"""Dtype conversion, constant tensors, and the axis order in memory of a leaf's gradient: ops of the engine itself.

Users reach `to_dtype` through `Tensor.to`; the engine and derivatives call the others.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from raygrad.errors import DtypeError

from ...core.array_layout import axis_order_of
from ...core.batched_data import innermost_data
from ...core.memory_format import MemoryFormat
from ...core.recorder import Data, Pending, Recorder
from ...devices import Device
from ...devices.serving import CPU, device_named, factory_device, make
from ...dispatch.dispatch import call, call_few
from ...registry.define_op import contiguous, define, infer_same, quiet, space_of
from ...tensor.tensor import Tensor


def _in_order(array: Any, order: tuple[int, ...]) -> Any:
    """Return `array` dense with its axes in memory in the given order; the array itself when it is so already."""
    if order == tuple(range(array.ndim)):
        return array if array.flags.c_contiguous else contiguous(array).reshape(array.shape)
    moved = array.transpose(order)
    moved = moved if moved.flags.c_contiguous else contiguous(moved)
    return moved.transpose(tuple(np.argsort(order)))


def _full(shape: tuple[int, ...], value: Any, dtype: str, device: str = "cpu") -> Any:
    if device == "cpu" and type(value) in (int, float) and dtype in ("float32", "float64"):
        array = np.empty(shape, dtype)  # as np.full does, in a quarter of the time
        array.fill(value)
        return array
    return make(None if device == "cpu" else device_named(device), lambda xp: xp.full(shape, value, np.dtype(dtype)))


def _to_dtype_kernel(a: Any, dtype: str) -> Any:
    target = np.dtype(dtype)
    return (a.real if a.dtype.kind == "c" and target.kind != "c" else a).astype(target)


_TO_DTYPE = define(
    "to_dtype",
    ("a",),
    quiet(_to_dtype_kernel),
    lambda params, a: (a.shape, np.dtype(params[0])),
    lambda ctx, g: g,
    saves="none",
)
_ZEROS_AS = define(
    "zeros_as",
    ("a",),
    lambda a: space_of(a).zeros(a.shape, a.dtype),
    infer_same,
    lambda ctx, g: zeros_as(g),
    saves="none",
)
_IN_ORDER = define("in_order", ("a",), _in_order, infer_same, lambda ctx, g: g, saves="none")
_IN_ORDER_OF = define(
    "in_order_of",
    ("a", "like"),
    lambda a, like: _in_order(a, axis_order_of(like)),
    lambda params, a, like: (a.shape, a.dtype),
    lambda ctx, g: (g, None),
    saves="none",
)


_FULL = define("full", (), _full, lambda params: (params[0], np.dtype(params[2])))
_FULL.result_device = lambda params: params[3] if len(params) > 3 else "cpu"


def zeros_apart(gradient: Any) -> Any:
    """Return a zero gradient without history: there is nothing to differentiate again."""
    return zeros_as(gradient.detach() if hasattr(gradient, "grad_fn") else gradient)


def zeros_as(input: Any) -> Any:
    """Return zeros of `input`'s shape and dtype; their gradient is zero."""
    return call_few(_ZEROS_AS, input)


@functools.lru_cache(maxsize=256)
def _name_of(dtype: Any) -> str:
    """Return the name of a dtype, which NumPy puts together each time."""
    return np.dtype(dtype).name


def to_dtype(input: Any, dtype: Any) -> Any:
    """Return `input` converted to `dtype` (the gradient is converted back)."""
    return call(_TO_DTYPE, (input,), (_name_of(dtype),))


def in_order_data(data: Data, order: tuple[int, ...] | None, like: Data, recorder: Recorder) -> Pending:
    """Record the conversion of a value to an axis order (EN-32).

    Args:
        like: whose order that is; only its kernel knows which, if `order` is None.
    """
    if order is None:
        return recorder.op(_IN_ORDER_OF, (data, like), ())[0]
    return recorder.op(_IN_ORDER, (data,), (order,))[0]


def in_memory_format(input: Any, memory_format: Any) -> Any:
    """Return `input` with its axes in the order of a memory format: itself if they lie so.

    Raises:
        TypeError: no memory format.
        RuntimeError: one for another number of dimensions.
    """
    if not isinstance(memory_format, MemoryFormat):
        raise DtypeError(
            "memory_format must be raygrad.contiguous_format, preserve_format, channels_last or channels_last_3d, not "
            f"{memory_format!r}"
        )
    order = memory_format.axis_order(input.ndim)
    if order is None or lies_in_order(input, order):
        return input
    return call(_IN_ORDER, (input,), (order,))


def lies_in_order(input: Any, order: tuple[int, ...]) -> bool:
    """Tell whether the data is at hand, and dense with its axes in the given order."""
    data = getattr(input, "_data", input)
    return type(data) is np.ndarray and data.transpose(order).flags.c_contiguous


def copy_in_order(array: Any, order: tuple[int, ...]) -> Any:
    """Return a copy of `array` with the given axis order."""
    laid = _in_order(array, order)
    return laid.copy(order="K") if laid is array or laid.base is not None else laid


def ones_as(tensor: Tensor) -> Tensor:
    """Return ones of a tensor's shape and dtype; recorded if it is pending."""
    data = innermost_data(tensor._data)
    return ones_of(tensor.shape, data.dtype, data.record.recorder if type(data) is Pending else None, tensor.device)


def ones_of(shape: tuple[int, ...], dtype: Any, recorder: Recorder | None, device: Device) -> Tensor:
    """Return ones on a device: the implicit gradient of a root; recorded if there is a recorder."""
    if recorder is not None:
        return Tensor.made(full_on(recorder, shape, 1, dtype, device))
    return Tensor.made(make(factory_device(device), lambda xp: xp.ones(shape, dtype)))


def full_on(recorder: Recorder, shape: tuple[int, ...], value: Any, dtype: Any, device: Device) -> Pending:
    """Record a constant tensor, made on a device."""
    params: tuple[Any, ...] = (tuple(shape), value, _name_of(dtype))
    if device is not CPU:
        params = (*params, str(device))
    made = recorder.repeat_op(_FULL, (), params)
    return recorder.op(_FULL, (), params)[0] if made is None else made
