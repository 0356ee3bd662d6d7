"""Checks of shapes and numbers that many functions share: each raises what PyTorch raises, before any kernel runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ..registry.define_op import axis_of


def is_at_hand(value: Any) -> bool:
    """Tell whether a tensor's numbers are in the host's memory, and not recorded, on a device or one for each example;
    only then a check reads them."""
    return isinstance(getattr(value, "_data", value), np.ndarray)


def fits(value: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype has a number; a fraction may be cut off. Of a tensor only counts whether it is complex."""
    if hasattr(value, "dtype"):
        return value.dtype.kind != "c" or dtype.kind == "c"
    if isinstance(value, complex):
        return dtype.kind == "c"
    if dtype.kind not in "iu":
        return True
    if not math.isfinite(value):
        return False
    bounds = np.iinfo(dtype)
    return int(bounds.min) <= value <= int(bounds.max)


def check_index(name: str, index: Any) -> None:
    """Check that a tensor names elements: that it is one of integers of 32 or 64 bits.

    Raises:
        RuntimeError: it is not.
    """
    if index.dtype.kind != "i" or index.dtype.itemsize < 4:
        raise AutogradError(f"{name}(): Expected dtype int32/int64 for index, but got {index.dtype}")


def check_some(name: str, tensors: Sequence[Any]) -> None:
    """Check that there are tensors.

    Raises:
        RuntimeError: there are none.
    """
    if not len(tensors):
        raise AutogradError(f"{name} expects a non-empty TensorList")


def check_least_dims(name: str, input: Any, least: int) -> None:
    """Check that a tensor has at least so many dimensions.

    Raises:
        RuntimeError: it has fewer.
    """
    if input.ndim < least:
        raise ShapeError(
            f"{name}: input tensor must have at least {least} dimension{'s' * (least != 1)}, but got one with "
            f"{input.ndim}"
        )


def distinct_axes(name: str, argument: str, dims: Sequence[int], ndim: int) -> list[int]:
    """Return dimensions counted from the front.

    Raises:
        IndexError: one is out of range.
        RuntimeError: one is named twice.
    """
    axes = [axis_of(dim, ndim) for dim in dims]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name}: repeated dim in `{argument}` ({list(dims)}); name each dimension once")
    return axes


def check_positive(name: str, argument: str, sizes: Sequence[int]) -> None:
    """Check that all of some sizes are greater than zero.

    Raises:
        RuntimeError: one is not.
    """
    if sizes and min(sizes) <= 0:
        raise AutogradError(f"{name}: {argument} should be greater than zero, but got {list(sizes)}")


def check_not_negative(name: str, argument: str, sizes: Sequence[float]) -> None:
    """Check that no size is below zero.

    Raises:
        RuntimeError: one is.
    """
    if sizes and min(sizes) < 0:
        given = sizes[0] if len(sizes) == 1 else list(sizes)
        raise AutogradError(f"{name}: {argument} must be greater than or equal to zero, but got {given}")
