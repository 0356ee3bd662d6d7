"""The form of an array that crosses processes otherwise than the codec has it: strides, byte order, alignment (H1).

The last bits of what user code computes depend on how its arrays lie. Tensors have one of two layouts, which travel.
An array that is an argument, or that code captures, may lie in any way. It travels as a base, an array that the codec
takes as it is, and a form, by which `formed` lays it out again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, final

import numpy as np

from raygrad.proto.ir.array_layout import layout_of

Array = np.ndarray[Any, Any]

NUMERIC: Final = "biufc"
"""Kinds of dtypes of arrays that are inputs of a graph."""


ARRAYS: Final = (np.ndarray, np.memmap)
"""Types of arrays that are nothing but their elements."""


class ArrayForm(NamedTuple):
    """How an array lies."""

    dtype: str
    """With its byte order."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: bool
    whole: bool
    """Whether the base is the memory that the array spans, as one axis: else it has the array's shape."""


def form_of(array: Array) -> ArrayForm | None:
    """Return the form of an array of numbers, None if it travels as it is, and is copied so."""
    strides = array.strides
    if array.dtype.isnative and array.flags.aligned:
        layout = layout_of(array) if array.size else ((), ())
        if layout is not None and not layout[1]:  # NumPy copies an expansion as one that is none
            return None
    span = _span(array.shape, strides, array.itemsize)
    counted = array.flags.aligned and not any([stride % array.itemsize for stride in strides])
    whole = bool(array.size and counted and span[1] - span[0] <= array.nbytes)
    return ArrayForm(array.dtype.str, array.shape, strides, array.flags.aligned, whole)


def base_of(array: Array) -> Array:
    """Return what travels in the place of an array: itself if it has no form of its own, else a read-only copy."""
    form = form_of(array)
    if form is None:
        return array
    native = array.dtype.newbyteorder("=")
    if form.whole:
        forward = array[tuple([slice(None, None, -1 if stride < 0 else 1) for stride in form.strides])]
        base = np.lib.stride_tricks.as_strided(forward, (_elements(form, array.itemsize),), (array.itemsize,))
        base = np.array(base, native)
    else:
        base = np.array(array, native, order="C")
    base.flags.writeable = False
    return base


def formed(base: Array, form: ArrayForm | None) -> Array:
    """Return the array of a form, laid out in memory of its own; of none the base itself."""
    if form is None:
        return base
    dtype = np.dtype(form.dtype)
    start, end = _span(form.shape, form.strides, dtype.itemsize)
    if form.whole:
        return np.ndarray(form.shape, dtype, base.astype(dtype), -start, form.strides)
    memory = np.empty(end - start + 1, np.uint8)[0 if form.aligned else 1 :]
    array: Array = np.ndarray(form.shape, dtype, memory, -start, form.strides)
    array[...] = base
    return array


def copy_as_it_lies(array: Array) -> Array:
    """Return a copy of an array that lies as it does."""
    form = form_of(array)
    return array.copy(order="K") if form is None else formed(base_of(array), form)


@final
class FormedArray:
    """An array on its way to a Function that is given it, as its base and form."""

    __slots__ = ("base", "form")

    def __init__(self, base: Array, form: ArrayForm) -> None:
        self.base = base
        self.form = form

    def __reduce__(self) -> Any:
        return FormedArray, (self.base, self.form)

    def opened(self) -> Array:
        """Return the array, read-only as arguments are."""
        array = formed(self.base, self.form)
        array.flags.writeable = False
        return array


def _span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Return where the memory of an array begins and ends, in bytes from its first element."""
    if 0 in shape:
        return 0, 0
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum([one for one in reach if one < 0]), sum([one for one in reach if one > 0]) + itemsize


def _elements(form: ArrayForm, itemsize: int) -> int:
    start, end = _span(form.shape, form.strides, itemsize)
    return (end - start) // itemsize
