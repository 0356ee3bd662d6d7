"""View geometry: which elements of its argument a view shows that a Function's forward made (OU-12).

A worker reports it, and the client rebuilds the view from it. It counts elements of the argument, not bytes, since
layouts differ where a value travels. What a change of the memory means for the view is decided in `mutation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import prod
from typing import Any, Final, NamedTuple, final

import numpy as np

from ..core.array_layout import strided_view
from ..devices.serving import space_of, start_of

Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


class ViewGeometry(NamedTuple):
    """Which elements of an argument a view shows, as plain data: those of the argument are counted with its axes in
    some order, the last fastest."""

    order: Shape
    """The axes of the argument, from outermost to innermost."""
    parts: int
    """Of how many numbers an element of the argument consists for the view: 2 for a real view of complex ones."""
    offset: int
    """The number of the view's first element."""
    strides: Shape
    """By how much the number grows along each axis of the view; 0 along one of extent 1."""


def geometry_of(view: Array, argument: Array) -> ViewGeometry | None:
    """Return where a view lies in an argument; None if it shows no elements of it by such a rule."""
    step = view.itemsize
    parts, rest = divmod(argument.itemsize, step)
    offset, gap = divmod(start_of(view) - start_of(argument), step)
    strides = [0 if n <= 1 else s for n, s in zip(view.shape, view.strides, strict=True)]
    if not view.size:  # which shows nothing of any dtype
        return ViewGeometry(tuple(range(argument.ndim)), 1, 0, (0,) * view.ndim)
    if rest or gap or parts not in (1, 2) or any(s % step for s in (*strides, *argument.strides)):
        return None
    if view.dtype != (argument.dtype if parts == 1 else argument.real.dtype):
        return None
    own = tuple([s // step for s in argument.strides])
    return geometry_from_strides(argument.shape, own, parts, offset, view.shape, tuple([s // step for s in strides]))


@lru_cache(maxsize=256)
def geometry_from_strides(
    argument: Shape, own: Shape, parts: int, offset: int, shape: Shape, strides: Shape
) -> ViewGeometry | None:
    """Return the place of what has an offset and strides in memory, in elements of the view; None if some of it lies
    outside of the argument."""
    if 0 in shape:
        return ViewGeometry(tuple(range(len(argument))), parts, 0, strides)
    if own == _dense(argument, parts):  # nearly always
        spans = [s * (n - 1) for n, s in zip(shape, strides, strict=True)]
        low, high = (offset + sum(pick(0, span) for span in spans) for pick in (min, max))
        inside = low >= 0 and high < prod(argument) * parts
        return ViewGeometry(tuple(range(len(argument))), parts, offset, strides) if inside else None
    along = tuple([0 if n <= 1 else step for n, step in zip(argument, own, strict=True)])
    if (shape, strides, parts, offset) == (argument, along, 1, 0):  # all of it, of an expanded one, too
        dense = [0 if n <= 1 else step for n, step in zip(argument, _dense(argument, 1), strict=True)]
        return ViewGeometry(tuple(range(len(argument))), 1, 0, tuple(dense))
    memory = element_numbers(argument, own, 0)
    memory = memory if parts == 1 else memory[..., None] + np.arange(parts)
    wanted: Array = element_numbers(shape, strides, offset)
    for order in (tuple(range(len(argument))), tuple(sorted(range(len(argument)), key=lambda axis: -own[axis]))):
        known, first = np.unique(memory.transpose(*order, *range(len(argument), memory.ndim)), return_index=True)
        at = np.searchsorted(known, wanted)
        if (at == known.size).any() or (known[at] != wanted).any():
            return None
        found = first[at]
        steps = _steps(found)
        if steps is not None:
            return ViewGeometry(order, parts, int(found.flat[0]), steps)
    return None


def _dense(shape: Shape, step: int) -> Shape:
    """Return the strides of a C-contiguous array, whose elements take `step`."""
    return tuple([step * prod(shape[axis + 1 :]) for axis in range(len(shape))])


def element_numbers(shape: Shape, strides: Shape, offset: int, xp: Any = np) -> Any:
    """Return offset + the sum of index times stride, for each element; `xp` makes the array."""
    along = [xp.arange(n).reshape((n, *(1,) * (len(shape) - axis - 1))) for axis, n in enumerate(shape)]
    scaled = [a * s for a, s in zip(along, strides, strict=True)]
    return np.broadcast_to(reduce(np.add, scaled, xp.full((), offset)), shape)


def _steps(places: Array) -> Shape | None:
    """Return by how much places grow along each axis, None if not by the same everywhere."""
    steps: list[int] = []
    for axis in range(places.ndim):
        grown = np.diff(places, axis=axis)
        if grown.size and (grown != grown.flat[0]).any():
            return None
        steps.append(int(grown.flat[0]) if grown.size else 0)
    return tuple(steps)


WRITTEN_TWICE: Final = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location: clone() "
    "the view before changing it in place"
)
"""What is wrong with a change of a view that shows elements more than once."""


@final
class GeometricView:
    """A view with a known geometry in its parent: as the op of a recipe, one that a Function made on a worker."""

    __slots__ = ("geometry", "shape")
    name = "a custom Function"

    def __init__(self, geometry: ViewGeometry, shape: Shape) -> None:
        self.geometry = geometry
        self.shape = shape

    def over(self, memory: Array) -> Array | None:
        """Return the view of an array, sharing its memory; None if forward would have to copy that (H1)."""
        order, parts, offset, _ = self.geometry
        strides = self.strides_in(memory.shape, memory.strides, memory.itemsize)
        if strides is None:
            return None
        if 0 in self.shape:
            return memory.reshape(-1)[:0].reshape(self.shape)
        element, part = divmod(offset, parts)
        at = np.unravel_index(element, tuple([memory.shape[axis] for axis in order]))
        first = memory[*[slice(int(at[order.index(axis)]), None) for axis in range(memory.ndim)], ...]
        if parts == 2:
            first = first.imag if part else first.real
        if type(first) is not np.ndarray:
            return space_of(first).lib.stride_tricks.as_strided(first, self.shape, strides)
        return strided_view(first, self.shape, strides)

    def strides_in(self, shape: Shape, strides: Sequence[int], itemsize: int) -> Shape | None:
        """Return the strides in bytes of the view, made of a parent with these: None where it is not one of that, since
        forward has to copy (H1)."""
        order, parts, offset, steps = self.geometry
        if order == tuple(range(len(shape))) and tuple(strides) == _dense(shape, itemsize):
            return tuple([step * (itemsize // parts) for step in steps])
        at = element_numbers(tuple([shape[axis] for axis in order]), tuple([strides[axis] for axis in order]), 0)
        at = at if parts == 1 else at[..., None] + np.arange(parts) * (itemsize // parts)
        return _steps(at.reshape(-1)[element_numbers(self.shape, steps, offset)])

    def start_in(self, shape: Shape, strides: Sequence[int], itemsize: int) -> int:
        """Return at which byte of a parent with these strides the view's first element lies."""
        order, parts, offset, _ = self.geometry
        element, part = divmod(offset, parts)
        at = element_numbers(tuple([shape[axis] for axis in order]), tuple([strides[axis] for axis in order]), 0)
        return int(at.reshape(-1)[element]) + part * (itemsize // parts) if at.size else 0
