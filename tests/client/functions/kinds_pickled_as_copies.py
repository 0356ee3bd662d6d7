"""Kinds of objects that user code may capture, and that are pickled as copies of their arrays, or as other objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import raygrad as rg

from .captured_kinds import Kind


class Copying:
    """An object that is pickled as a copy of its array."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    def __reduce__(self) -> Any:
        return Copying, (self.values.copy(),)


class Listing(Copying):
    """An object that is pickled as a list of its numbers."""

    def __reduce__(self) -> Any:
        return Listing, (self.values.tolist(),)


class Cloning:
    """An object that is pickled as a copy of its tensor."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __reduce__(self) -> Any:
        return Cloning, (self.values.clone(),)


def pickled_as_a_copy() -> Kind:
    held = Copying([1.0, 2.0])
    return Kind(lambda: float(held.values[0]), lambda new: held.values.__setitem__(0, new))


def pickled_as_numbers() -> Kind:
    held = Listing([1.0, 2.0])
    return Kind(lambda: float(held.values[0]), lambda new: held.values.__setitem__(0, new))


def pickled_as_a_copy_of_a_tensor() -> Kind:
    held = Cloning(rg.tensor([1.0, 2.0], dtype=rg.float64))
    return Kind(lambda: float(held.values[0]), lambda new: held.values.__setitem__(0, new))


def copied_by_a_library() -> Kind:
    held = np.polynomial.Polynomial([1.0, 2.0])
    return Kind(lambda: float(held(2.0)), lambda new: held.coef.__setitem__(0, new))


PICKLED_AS_COPIES: tuple[Callable[[], Kind], ...] = (
    pickled_as_a_copy,
    pickled_as_numbers,
    copied_by_a_library,
)
