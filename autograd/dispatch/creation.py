"""Factories of tensors: from data, filled, and ranges. Random ones are in `random_numbers`.

They return leaves with an array on the requested device. In a session the transfer to that device is recorded, nothing
else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, DtypeError, MissingKernel
from raygrad.tracebacks import leave

from ..core import dtypes
from ..core.batched_data import Batched, batched
from ..core.modes import state
from ..core.recorder import Pending
from ..core.transform_scopes import SCOPES
from ..devices.serving import CPU, backend_for_kind, factory_device, is_device_array, to_host
from ..registry.define_op import sizes_of
from ..tensor.inference import mark_inference
from ..tensor.tensor import Tensor
from .device_dispatch import copied, made_on, move_recorded
from .operand_errors import wrong_argument
from .out_arguments import fill

# ---- from data -------------------------------------------------------------------------------------------------------


_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_FLOAT64 = np.dtype(np.float64)
_new: Any = object.__new__


def new_leaf(array: np.ndarray[Any, Any], requires_grad: bool) -> Tensor:
    """Return a leaf of an array."""
    made = mark_inference(Tensor.made(array))
    if requires_grad:
        made.requires_grad = True
    return made


def made_leaf(device: Any, maker: Callable[[Any], Any], requires_grad: bool) -> Tensor:
    """Return a leaf of what `maker` makes with the namespace of a device; None is where factories make tensors."""
    return new_leaf(made_on(factory_device(device), maker), requires_grad)


def _placed(copy: Any, device: Any) -> Any:
    """Return a copy of an array of a device where `device=` asks for it; where the array is, if it does not."""
    return copy if device is None and state.here.device is None else move_recorded(copy, factory_device(device) or CPU)


def _checked_dtype(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not dtypes.is_known(array.dtype):
        raise DtypeError(
            f"can't convert an array of dtype {array.dtype}; the supported dtypes are: {', '.join(dtypes.known())}"
        )
    return array


def _array_of(data: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return data as an array: numbers and nested lists in PyTorch's default dtypes, arrays in theirs."""
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    array: np.ndarray[Any, Any]
    if isinstance(data, Tensor):
        array = data._read()
    elif type(data) is _ARRAY or is_device_array(data):
        array = data
    elif _on_a_device(data):
        array = backend_for_kind("cuda").xp.from_dlpack(data)
    elif hasattr(data, "__cuda_array_interface__"):
        array = backend_for_kind("cuda").xp.asarray(data)
    elif hasattr(data, "__array__"):
        array = np.asarray(data)
    elif hasattr(data, "__dlpack__"):
        array = np.from_dlpack(data)
    else:
        try:
            array = np.array(_plain(data))
        except ValueError:
            raise ValueError(f"expected sequences of equal length at each level, got {_shortened(data)}") from None
        if array.dtype.kind not in "biufc":
            raise TypeError(f"could not make a tensor of {_shortened(data)}: expected numbers, or sequences of them")
        if wanted is None:
            wanted = _default_for(array, data)
    if wanted is not None:
        return array.astype(wanted, copy=False)
    return _checked_dtype(array)


def _on_a_device(data: Any) -> bool:
    """Tell whether an object of another library says that its memory is CUDA's (DLPack's device types 2 and 13). It is
    taken over by DLPack where it has that, since then its library has our stream wait for what it still writes."""
    return hasattr(data, "__dlpack_device__") and int(data.__dlpack_device__()[0]) in (2, 13)


def _plain(data: Any) -> Any:
    """Return nested sequences with the tensors in them as arrays."""
    if isinstance(data, Tensor):
        return to_host(data._read())
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]  # pyright: ignore[reportUnknownVariableType]
    return data


def _shortened(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 80 else text[:77] + "..."


def _default_for(array: np.ndarray[Any, Any], data: Any) -> Any:
    """Return the dtype of a tensor made from Python numbers: that of arrays and tensors among them, if there are."""
    first = data
    while isinstance(first, list | tuple) and first:
        first = first[0]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(first, Tensor | np.ndarray | np.generic):
        return array.dtype
    if array.dtype.kind == "f":
        return dtypes.get_default_dtype()
    return dtypes.of_number(1j) if array.dtype.kind == "c" else array.dtype if array.dtype.kind == "b" else dtypes.int64


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor holding a copy of data: numbers, nested sequences, an array, another tensor.

    Raises:
        RuntimeError: `requires_grad` for integers or bools.
        TypeError: something that is no number, or an array of an unknown dtype.
        ValueError: rows of unequal length.
    """
    try:
        given = _array_of(data, dtype)
        if is_device_array(given):
            return new_leaf(_placed(copied(given), device), requires_grad)
        array = np.array(given, copy=True, order="K", subok=False)
        place = factory_device(device)
        return new_leaf(array if place is None else move_recorded(array, place), requires_grad)
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return data as a tensor, sharing memory where no conversion is needed; a tensor comes back as it is."""
    if isinstance(data, Tensor):
        if device is not None:
            data = data.to(device)
        return data if dtype is None or data.dtype == dtypes.as_dtype(dtype) else data.to(dtype)
    array = _array_of(data, dtype)
    place = factory_device(device)
    if is_device_array(array):
        array = array if device is None else move_recorded(array, place or CPU)
    else:
        array = move_recorded(np.asarray(array), place)
    made = mark_inference(Tensor.made(array))
    if type(array) is not Pending:
        made._shares_memory = isinstance(data, np.ndarray) or hasattr(data, "__dlpack__") or is_device_array(data)
    return made


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """Return data as a tensor, which shares memory with it where it can.

    Args:
        obj: a tensor, an array, what speaks DLPack, numbers, or sequences of these.
        copy: True for memory of its own; False to raise where it would need some.
        requires_grad: a leaf, even of a tensor with a history.

    Raises:
        ValueError: `copy` is False, and it cannot share.
    """
    given = as_tensor(obj)
    made = as_tensor(given, dtype, device)
    shares = made is given and (given is obj or given._shares_memory)
    if copy is False and not shares:
        raise ValueError(f"asarray: cannot share the memory of a {type(obj).__name__} here; let copy be None or True")
    if requires_grad:
        made = made.detach()
    if copy and shares:
        made = made.clone()
    return made.requires_grad_() if requires_grad else made


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor that shares the array's memory."""
    try:
        if type(ndarray) is not _ARRAY:
            if not isinstance(ndarray, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
            ndarray = np.asarray(ndarray)
        if ndarray.dtype is not _FLOAT64:
            _checked_dtype(ndarray)
        made: Any = _new(Tensor)  # as `Tensor.made` does, in a third of the time
        made._data, made._requires_grad, made._shares_memory = ndarray, False, True
        if SCOPES:
            made._made_in = state.here.scope
        return mark_inference(made) if state.here.inference else made
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares the memory of what speaks DLPack, on the host or on a GPU.

    Args:
        ext_tensor: an array or tensor of any library.
        device: where the tensor is to be; None leaves it where it is.
        copy: True for memory of its own; False to raise where it would need some.

    Raises:
        TypeError: it does not speak DLPack.
        BufferError: it cannot be shared: it requires grad.
        ValueError: `copy` is False, and it cannot share.
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError(
            f"from_dlpack expects an array or tensor with the method '__dlpack__', got {type(ext_tensor).__name__}; "
            "as_tensor takes numbers, lists and other arrays"
        )
    if isinstance(ext_tensor, Tensor):
        ext_tensor.__dlpack__()  # which refuses what cannot be shared
        ext_tensor = ext_tensor.detach()
    return asarray(ext_tensor, device=device, copy=copy)


# ---- filled ----------------------------------------------------------------------------------------------------------


def float_dtype(dtype: Any) -> Any:
    """Return the dtype of a factory whose default is the floating one."""
    return dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


def zeros(*size: Any, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of zeros."""
    try:
        if out is not None:
            return fill(zeros, size, out, dtype, device, requires_grad)
        return made_leaf(device, lambda xp: xp.zeros(sizes_of(size), float_dtype(dtype)), requires_grad)
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def ones(*size: Any, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of ones."""
    try:
        if out is not None:
            return fill(ones, size, out, dtype, device, requires_grad)
        return made_leaf(device, lambda xp: xp.ones(sizes_of(size), float_dtype(dtype)), requires_grad)
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def empty(*size: Any, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor whose elements are yet to be written."""
    try:
        if out is not None:
            return fill(empty, size, out, dtype, device, requires_grad)
        return made_leaf(device, lambda xp: xp.empty(sizes_of(size), float_dtype(dtype)), requires_grad)
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor filled with one number, of the dtype that the number has."""
    if out is not None:
        return fill(full, (size, fill_value), out, dtype, device, requires_grad)
    check_number("full", "fill_value", 2, fill_value)
    wanted = dtypes.of_number(fill_value) if dtype is None else dtypes.as_dtype(dtype)
    return made_leaf(device, lambda xp: xp.full(sizes_of((size,)), fill_value, wanted), requires_grad)


def _like(input: Tensor, value: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """Return a tensor like `input` filled with a number (None: with nothing); under vmap, one for each example, so that
    each can be written to by itself."""
    data = input._data
    if type(data) is Batched and data.level.entered:
        made = batched(_like(data.value, value, dtype, device, False), data.dim, data.level)
        return made.requires_grad_() if requires_grad else made
    wanted = input.dtype if dtype is None else dtypes.as_dtype(dtype)
    place = input.device if device is None else device
    if value is None:
        return made_leaf(place, lambda xp: xp.empty(data.shape, wanted), requires_grad)
    return made_leaf(place, lambda xp: xp.full(data.shape, value, wanted), requires_grad)


def new_full(input: Tensor, size: Any, fill_value: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """Return a tensor of another shape, of `input`'s dtype and device, filled with one number; under vmap, one for each
    example."""
    data = input._data
    if type(data) is Batched and data.level.entered:
        whole = (data.level.size, *sizes_of((size,)))
        made = batched(new_full(data.value, whole, fill_value, dtype, device, False), 0, data.level)
        return made.requires_grad_() if requires_grad else made
    wanted, place = input.dtype if dtype is None else dtype, input.device if device is None else device
    return full(size, fill_value, dtype=wanted, device=place, requires_grad=requires_grad)


def zeros_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return zeros of a tensor's shape and dtype."""
    return _like(input, 0, dtype, device, requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return ones of a tensor's shape and dtype."""
    return _like(input, 1, dtype, device, requires_grad)


def empty_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of a tensor's shape and dtype whose elements are yet to be written."""
    return _like(input, None, dtype, device, requires_grad)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of a tensor's shape and dtype filled with one number."""
    check_number("full_like", "fill_value", 2, fill_value)
    return _like(input, fill_value, dtype, device, requires_grad)


# ---- counted ---------------------------------------------------------------------------------------------------------


def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the numbers from `start` (0 by default) up to but without `end`, `step` apart.

    Raises:
        RuntimeError: a step of zero, or one that leads away from `end`; bounds that are not finite.
        ValueError: a step that is zero in the integers that are asked for.
    """
    if out is not None:
        return fill(arange, (start, end, step), out, dtype, device, requires_grad)
    if start is None or end is None:
        if start is None and end is None:
            raise TypeError("arange() missing 1 required argument: 'end'")
        start, end = 0, end if start is None else start
    start, end, step = numbers_of("arange", start, end, step)
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if wanted is not None and wanted.kind in "bc":
        raise MissingKernel(f'"arange" not implemented for {wanted}: make real numbers and convert them')
    if wanted is not None and wanted.kind in "iu":
        given = step
        start, end, step = int(start), int(end), int(step)
        if given and not step:
            raise ValueError("step must be nonzero")
    check_steps(start, end, step)
    if dtype is None:
        whole = all(isinstance(x, int) for x in (start, end, step))
        dtype = dtypes.int64 if whole else dtypes.get_default_dtype()
    count = math.ceil((end - start) / step)
    return made_leaf(device, lambda xp: (xp.arange(count) * step + start).astype(dtypes.as_dtype(dtype)), requires_grad)


def numbers_of(function: str, start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    """Return the bounds and the step of a range as Python's numbers.

    Raises:
        TypeError: one is no number.
    """
    for position, (argument, value) in enumerate((("start", start), ("end", end), ("step", step)), 1):
        check_number(function, argument, position, value)
    start, end, step = (x.item() if hasattr(x, "item") else x for x in (start, end, step))
    return start, end, step


def check_steps(start: Any, end: Any, step: Any) -> None:
    """Check that steps lead from one bound to the other.

    Raises:
        RuntimeError: a step of zero, or one that leads away from `end`; bounds that are not finite.
    """
    if step == 0:
        raise AutogradError("step must be nonzero")
    if not math.isfinite(start) or not math.isfinite(end):
        raise AutogradError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise AutogradError("upper bound and lower bound inconsistent with step sign")


def check_number(function: str, argument: str, position: int, value: Any) -> None:
    """Check that an argument is a number, or an array or tensor of numbers.

    Raises:
        TypeError: it is not.
    """
    if value is None or isinstance(value, str | bytes):
        raise wrong_argument(function, argument, position, "a number", type(value).__name__)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a zero-dimensional tensor of one number, in the default dtype unless another is given."""
    return full((), s, dtype=float_dtype(dtype), device=device, requires_grad=requires_grad)


def eye(
    n: int,
    m: int | None = None,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the matrix with ones on its diagonal.

    Raises:
        RuntimeError: `n` or `m` is negative.
    """
    if out is not None:
        return fill(eye, (n, m), out, dtype, device, requires_grad)
    for name, extent in (("n", n), ("m", m)):
        if extent is not None and extent < 0:
            raise AutogradError(f"eye: {name} must be greater or equal to 0, got {extent}")
    return made_leaf(device, lambda xp: xp.eye(n, m, dtype=float_dtype(dtype)), requires_grad)
