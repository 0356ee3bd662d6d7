"""Batched tensor data and levels of vmap: the data of a tensor that stands for one example of many.

It is the third kind of a tensor's data, besides an array and a `Pending`. `vmap/` opens the levels and has the batching
rules of ops; nothing here knows an op.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from raygrad.errors import NoSingleValue

from .modes import state

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


class BatchedDraw(NoSingleValue):
    """Code that runs once for all examples draws random numbers, of which each example has a stream of its own."""

    def __init__(self) -> None:
        super().__init__(
            "vmap: random numbers were drawn in code of a Function that runs once for all examples; draw them outside "
            "of vmap, or set generate_vmap_rule=True"
        )


class VmapLevel:
    """A level of vmap.

    Attributes:
        size: the number of examples.
        randomness: the behaviour of random factories: "error", "same" or "different".
        depth: its position among the open levels when it was last opened; the innermost has the greatest.
        entered: how many times it is open. Values of a closed level stand for all examples again (FT-10).
    """

    __slots__ = ("depth", "entered", "randomness", "size")

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size = size
        self.randomness = randomness
        self.depth = 0
        self.entered = 0


class Batched:
    """The data of a tensor inside vmap. Shape, dtype and number of dimensions are those of one example.

    Attributes:
        value: the tensor of all examples, with its own history; its data may be batched at an outer level.
        dim: the batch dimension of `value`.
        level: the level of vmap that the examples belong to.
    """

    __slots__ = ("__weakref__", "dim", "level", "value")

    def __init__(self, value: Tensor, dim: int, level: VmapLevel) -> None:
        self.value = value
        self.dim = dim
        self.level = level

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example; once the level is closed, of all."""
        shape: tuple[int, ...] = self.value._data.shape
        return shape[: self.dim] + shape[self.dim + 1 :] if self.level.entered else shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self.value._data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions of one example."""
        return self.value._data.ndim - bool(self.level.entered)

    @property
    def size(self) -> int:
        """The number of elements of one example."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"Batched(shape={self.shape}, dtype={self.dtype}, of {self.level.size} examples)"


@contextmanager
def open_vmap_level(level: VmapLevel) -> Generator[VmapLevel]:
    """Open a level as the innermost one in a block; the same level may be opened again later."""
    here = state.here
    outside, depth = here.batches, level.depth
    level.depth = len(outside)
    level.entered += 1
    here.batches = (*outside, level)
    here.changed()
    try:
        yield level
    finally:
        level.entered -= 1
        level.depth = depth
        here.batches = outside
        here.changed()


@contextmanager
def outside_vmap_level(level: VmapLevel) -> Generator[None]:
    """Hide `level` and the levels inside it in a block: for rules that compute on the whole batch."""
    here = state.here
    before = here.batches
    here.batches = before[: level.depth]
    here.changed()
    try:
        yield
    finally:
        here.batches = before
        here.changed()


def without_closed_levels(tensor: Tensor) -> Tensor:
    """Return `tensor`, or the tensor of all examples if its level is closed (FT-10)."""
    data = tensor._data
    while type(data) is Batched and not data.level.entered:
        tensor = data.value
        data = tensor._data
    return tensor


def innermost_vmap_level(tensors: Iterable[Any]) -> VmapLevel | None:
    """Return the innermost open level at which any of the values is batched; values may be other than tensors."""
    found: VmapLevel | None = None
    for tensor in tensors:
        data = getattr(tensor, "_data", None)
        if type(data) is Batched and data.level.entered and (found is None or data.level.depth > found.depth):
            found = data.level
    return found


def open_vmap_levels_of(tensor: Tensor) -> set[VmapLevel]:
    """Return the open levels at which a tensor is batched."""
    levels: set[VmapLevel] = set()
    data = tensor._data
    while type(data) is Batched:
        if data.level.entered:
            levels.add(data.level)
        data = data.value._data
    return levels


def unwrap_batched(tensor: Any, level: VmapLevel) -> tuple[Any, int | None]:
    """Return the tensor of all examples and its batch dimension; the value and None if not batched at `level`."""
    data = getattr(tensor, "_data", None)
    if type(data) is Batched and data.level is level:
        return data.value, data.dim
    return tensor, None


def innermost_data(data: Any) -> Any:
    """Return the array or pending value beneath all levels."""
    while type(data) is Batched:
        data = data.value._data
    return data


def single_value_error(how: str) -> NoSingleValue:
    """Return the error for a request of the number or array of a batched tensor (VM-17).

    Args:
        how: "item", "branch", or the name of what was called.
    """
    if how == "branch":
        return NoSingleValue(
            "vmap: this looks like data-dependent control flow: a condition on the value of a tensor, which has one "
            "value for each example. Compute both branches and choose with raygrad.where"
        )
    if how == "item":
        return NoSingleValue(
            "vmap: it looks like you're calling .item() on a Tensor (or float(), int(), tolist()), which has one value "
            "for each example. Keep to operations on tensors, or return the tensor and read it outside vmap"
        )
    return NoSingleValue(
        f"vmap: {how} was asked for the array of a Tensor, which stands for one example of many inside vmap. Keep to "
        "operations on tensors; a Function that works on arrays gets a `vmap` staticmethod, or generate_vmap_rule=True"
    )


def batched(value: Tensor, dim: int | None, level: VmapLevel) -> Tensor:
    """Return the tensor that stands for one example of `value`, whose batch dimension is `dim`.

    With `dim` None, `value` is equal for all examples and returned as it is.
    """
    if dim is None:
        return value
    made = value.made(Batched(value, dim, level))
    made._counter = value.counter()  # a change of all examples is one of this
    return made
