"""Overlap check: whether an operand of an in-place change shares part of the memory that is written (EN-30).

It is PyTorch's test on start, shape and strides, which `storage/stride_geometry.py` computes. Dense tensors overlap if
their memory does, and fully if start, end and strides are equal; tensors with gaps are never reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from raygrad.errors import AutogradError

from ..devices.serving import is_device_array, same_memory
from ..ops.indexing.indexing import is_whole, take_apart
from ..storage.stride_geometry import MemoryLayout, expand_layout, layouts_of, select_axes, slice_layout

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray

_MESSAGE = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def check_partial(tensor: Any, operands: Sequence[Any]) -> None:
    """Check that no operand of an elementwise change of `tensor` shares a part of its memory only.

    Raises:
        AutogradError: one does.
    """
    for operand in operands:
        if operand is not tensor and may_share(tensor, operand):
            places = layouts_of(tensor, operand)
            if places is not None and places[0].overlaps(places[1]) and not places[0].is_same(places[1]):
                raise AutogradError(_MESSAGE)


def check_apart(tensor: Any, *operands: Any) -> None:
    """Check that no operand of a change of `tensor` whose elements go to other places shares any of its memory.

    Raises:
        AutogradError: one does.
    """
    for operand in operands:
        if may_share(tensor, operand):
            places = layouts_of(tensor, operand)
            if places is not None and places[0].overlaps(places[1]):
                raise AutogradError(_MESSAGE)


def check_item(tensor: Any, index: Any, value: Any) -> None:
    """Check that neither `value` nor `index` shares memory with what `tensor[index] = value` writes to.

    Raises:
        AutogradError: one does: of a value put in a region as it is, a part only.
    """
    if value is tensor and 0 in tensor.shape:
        _check_itself(tensor, index)
    shared = getattr(value, "_data", None) is not None and may_share(tensor, value)
    if not shared and tensor.dtype.kind == "f":
        return
    entries = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
    indices = [entry for entry in entries if getattr(entry, "_data", None) is not None]
    if shared or any(may_share(tensor, entry) for entry in indices):
        basic, advanced = take_apart(index, tensor.shape)
        if not advanced:
            _check_put(tensor, basic, value)
        elif (
            len(advanced) == 1
            and math.prod(getattr(value, "shape", ())) == 1
            and next(iter(advanced.values())).dtype.kind == "b"
            and all(entry.ndim for entry in indices)
        ):  # what a mask names is filled with a number
            check_partial(tensor, indices)
        else:
            _check_scattered(tensor, basic, (value, *indices))


def _check_itself(tensor: Tensor, index: Any) -> None:
    """Check that a tensor without elements, which overlaps with nothing, is not itself put at indices of itself."""
    basic, advanced = take_apart(index, tensor.shape)
    entries = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
    stops: list[Any] = [getattr(entry, "stop", None) for entry in entries]
    if any(stop is not None and stop < 0 for stop in stops):
        return  # counted from the end, it makes PyTorch take a view, also of all there is
    if advanced and is_whole(basic, tensor.shape):
        raise AutogradError(_MESSAGE)


def _check_put(tensor: Tensor, basic: Any, value: Any) -> None:
    places = layouts_of(tensor, value)
    if places is None or not value.ndim:  # a number is filled in
        return
    region, given = _region(tensor, places[0], basic), places[1]
    if given.shape != region.shape:
        ones = next((axis for axis, extent in enumerate(given.shape) if extent != 1), len(given.shape))
        fitted = expand_layout(select_axes(given, range(ones, len(given.shape))), region.shape)
        if fitted is None:  # it does not fit, which is said elsewhere
            return
        given = fitted
    if region.overlaps(given) and not region.is_same(given):
        raise AutogradError(_MESSAGE)


def _check_scattered(tensor: Tensor, basic: Any, operands: Sequence[Any]) -> None:
    for operand in operands:
        if may_share(tensor, operand):
            places = layouts_of(tensor, operand)
            if places is not None and _region(tensor, places[0], basic).overlaps(places[1]):
                raise AutogradError(_MESSAGE)


def _region(tensor: Tensor, place: MemoryLayout, basic: Sequence[Any]) -> MemoryLayout:
    """Return the place of `tensor[basic]`, of all examples where the tensor is batched: the index is of each one."""
    examples = place.shape[: len(place.shape) - tensor.ndim]
    return slice_layout(place, ((*[(0, count, 1) for count in examples], *basic),), ())


def may_share(tensor: Tensor, operand: Any) -> bool:
    """Tell whether an operand might share memory with a tensor: a cheap test that most pairs fail."""
    mine, its = tensor._data, getattr(operand, "_data", None)
    if type(mine) is _ARRAY and type(its) is _ARRAY:
        return np.may_share_memory(mine, its)
    if is_device_array(mine) or is_device_array(its):
        return type(mine) is type(its) and same_memory(mine, its)
    return its is not None
