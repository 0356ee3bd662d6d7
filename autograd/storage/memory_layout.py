"""Memory layout of tensors, as PyTorch has it: start, shape and strides, derived from how a view was made.

The overlap check compares these. NumPy's strides of dimensions of extent one differ from PyTorch's, and in a session
there is no memory: both are why layouts are computed from recipes of views.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.batched_data import Batched
from ..devices.serving import is_device_array, start_of
from .storage import owner_of, parent_of
from .view_geometry import GeometricView

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray


class MemoryLayout(NamedTuple):
    """Where the elements of a tensor lie.

    Attributes:
        start: the first byte, counted from one that is the same for all that may share memory.
        strides: of each dimension, in elements.
    """

    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def end(self) -> int:
        """The first byte after the elements, if they are dense."""
        return self.start + math.prod(self.shape) * self.itemsize

    def is_dense(self) -> bool:
        """Tell whether the elements lie without gaps, each in a place of its own."""
        step = 1
        for stride, extent in sorted((s, n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if stride != step:
                return False
            step *= extent
        return True

    def overlaps(self, other: MemoryLayout) -> bool:
        """Tell whether both are dense, and memory of one is memory of the other."""
        if self.start >= other.end or other.start >= self.end:
            return False
        return 0 not in self.shape and 0 not in other.shape and self.is_dense() and other.is_dense()

    def is_same(self, other: MemoryLayout) -> bool:
        """Tell whether what overlaps does so fully, each element with that of the same index."""
        return self.start == other.start and self.end == other.end and self.strides == other.strides


def layouts_of(tensor: Tensor, other: Tensor) -> tuple[MemoryLayout, MemoryLayout] | None:
    """Return the places of two tensors, None if they are known to share no memory, or not known at all."""
    data = tensor._data, other._data
    if type(data[0]) is type(data[1]) and (type(data[0]) is _ARRAY or is_device_array(data[0])):
        return _in_memory(tensor, data[0]), _in_memory(other, data[1])
    if Batched in (type(data[0]), type(data[1])):
        return _of_batches(tensor, other)
    if owner_of(tensor) is not owner_of(other):
        return None
    mine, its = layout_in_memory(tensor), layout_in_memory(other)
    return None if mine is None or its is None else (mine, its)


def _of_batches(tensor: Tensor, other: Tensor) -> tuple[MemoryLayout, MemoryLayout] | None:
    """Return the places of all examples together, the examples outermost."""
    held = [t._data if type(t._data) is Batched else None for t in (tensor, other)]
    found = layouts_of(*[t if b is None else b.value for t, b in zip((tensor, other), held, strict=True)])
    if found is None:
        return None
    moved = [p if b is None else _moved(p, b.dim) for p, b in zip(found, held, strict=True)]
    return moved[0], moved[1]


def _moved(place: MemoryLayout, dim: int) -> MemoryLayout:
    order = (dim, *(axis for axis in range(len(place.shape)) if axis != dim))
    return _permute(place, (), (order,))


def _in_memory(tensor: Tensor, array: np.ndarray[Any, Any]) -> MemoryLayout:
    """Return where an array lies; what NumPy says of dimensions of extent one is another convention."""
    itemsize = array.itemsize
    strides = tuple([stride // itemsize for stride in array.strides])
    place = MemoryLayout(start_of(array), array.shape, strides, itemsize)
    if 1 in array.shape:
        made = layout_in_memory(tensor)
        if made is not None and made.shape == array.shape and _agree(made.strides, place):
            return place._replace(strides=made.strides)
    return place


def _agree(strides: Sequence[int], place: MemoryLayout) -> bool:
    return all([a == b for a, b, extent in zip(strides, place.strides, place.shape, strict=True) if extent > 1])


def layout_in_memory(tensor: Tensor) -> MemoryLayout | None:
    """Return where a tensor lies in the memory of its owner, by how it was made; None if that is not known."""
    view, parent = tensor._view, parent_of(tensor)
    if view is None or parent is None:
        return _whole(tensor)
    place = layout_in_memory(parent)
    if place is None or view.op is None:
        return place
    if type(view.op) is GeometricView:
        return _placed(view.op, place)
    rule = _RULES.get(view.op.name)
    return None if rule is None else rule(place, view.operands, view.params)


def _placed(op: GeometricView, parent: MemoryLayout) -> MemoryLayout | None:
    """Return the layout of a view that a Function's forward made, from the geometry that the worker reported."""
    steps = [stride * parent.itemsize for stride in parent.strides]
    strides = op.strides_in(parent.shape, steps, parent.itemsize)
    if strides is None:
        return None
    itemsize = parent.itemsize // op.geometry.parts
    start = parent.start + op.start_in(parent.shape, steps, parent.itemsize)
    return MemoryLayout(start, op.shape, tuple([stride // itemsize for stride in strides]), itemsize)


def _whole(owner: Tensor) -> MemoryLayout:
    """Return where an owner of memory lies; what nobody has made yet, row by row."""
    data, shape = owner._data, owner.shape
    itemsize = owner.dtype.itemsize
    if type(data) is _ARRAY and not data.flags.c_contiguous:
        return MemoryLayout(0, shape, tuple([stride // itemsize for stride in data.strides]), itemsize)
    return MemoryLayout(0, shape, _row_by_row(shape), itemsize)


def _row_by_row(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


# ---- what views do to it, by the op that made them -------------------------------------------------------------------


def _reshape(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout | None:
    """Divide runs of memory anew: a dimension of the new shape has to lie in one run of the old one."""
    shape = tuple(params[0])
    if not math.prod(shape):
        return place._replace(shape=shape, strides=_row_by_row(shape))
    strides, axis = [1] * len(shape), len(shape) - 1
    step, run = (place.strides[-1] if place.strides else 1), 1
    for old in reversed(range(len(place.shape))):
        run *= place.shape[old]
        if old and (place.shape[old - 1] == 1 or place.strides[old - 1] == run * step):
            continue
        taken = 1
        while axis >= 0 and (taken < run or shape[axis] == 1):
            strides[axis] = taken * step
            taken *= shape[axis]
            axis -= 1
        if taken != run:
            return None
        step, run = (place.strides[old - 1] if old else 1), 1
    return place._replace(shape=shape, strides=tuple(strides))


def _squeeze(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    kept = [axis for axis in range(len(place.shape)) if axis not in params[0]]
    return select_axes(place, kept)


def select_axes(place: MemoryLayout, axes: Sequence[int]) -> MemoryLayout:
    return place._replace(
        shape=tuple([place.shape[axis] for axis in axes]), strides=tuple([place.strides[axis] for axis in axes])
    )


def _unsqueeze(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    axis = int(params[0])
    shape, strides = place.shape, place.strides
    stride = shape[axis] * strides[axis] if axis < len(shape) else 1
    return place._replace(shape=(*shape[:axis], 1, *shape[axis:]), strides=(*strides[:axis], stride, *strides[axis:]))


def _transpose(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    order = list(range(len(place.shape)))
    first, second = params
    order[first], order[second] = second, first
    return select_axes(place, order)


def _permute(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    return select_axes(place, params[0])


def slice_layout(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    """Take a basic index apart from its end: a new dimension looks at the one after it."""
    shape, strides = list(place.shape), list(place.strides)
    start, axis = place.start, 0
    for entry in rest[0]:
        if entry is None:
            strides.insert(axis, shape[axis] * strides[axis] if axis < len(shape) else 1)
            shape.insert(axis, 1)
            axis += 1
        elif isinstance(entry, int):
            start += entry * strides[axis] * place.itemsize
            del shape[axis], strides[axis]
        else:
            first, stop, step = entry
            start += first * strides[axis] * place.itemsize
            shape[axis] = -(-(stop - first) // step)
            strides[axis] *= step
            axis += 1
    return place._replace(start=start, shape=tuple(shape), strides=tuple(strides))


def _diagonal(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    offset, first, second = int(params[0]), int(params[1]), int(params[2])
    n, m = place.shape[first], place.shape[second]
    down, right = max(-offset, 0), max(offset, 0)
    kept = select_axes(place, [axis for axis in range(len(place.shape)) if axis not in (first, second)])
    a, b = place.strides[first], place.strides[second]
    return kept._replace(
        start=place.start + (down * a + right * b) * place.itemsize,
        shape=(*kept.shape, max(min(n - down, m - right), 0)),
        strides=(*kept.strides, a + b),
    )


def _unfold(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    axis, size, step = int(params[0]), int(params[1]), int(params[2])
    shape, strides = [*place.shape, size], [*place.strides, place.strides[axis]]
    shape[axis] = (shape[axis] - size) // step + 1
    strides[axis] *= step
    return place._replace(shape=tuple(shape), strides=tuple(strides))


def _as_strided(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout | None:
    """Its parameters count the elements of what it is made of one after the other: known where these lie so."""
    shape, strides, offset, order = params
    ordered = select_axes(place, order)
    if ordered.strides != _row_by_row(ordered.shape):
        return None
    return place._replace(start=place.start + offset * place.itemsize, shape=shape, strides=strides)


def _real(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    return place._replace(strides=tuple([2 * stride for stride in place.strides]), itemsize=place.itemsize // 2)


def _imag(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    return _real(place._replace(start=place.start + place.itemsize // 2), rest, params)


def _expand(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout | None:
    return expand_layout(place, params[0])


def expand_layout(place: MemoryLayout, shape: Sequence[int]) -> MemoryLayout | None:
    """Return a place expanded to a shape, None if it does not broadcast to it."""
    lead = len(shape) - len(place.shape)
    if lead < 0:
        return None
    strides = [0] * len(shape)
    for axis in reversed(range(len(shape))):
        extent = place.shape[axis - lead] if axis >= lead else 1
        if extent == shape[axis] and place.shape:
            behind = shape[axis + 1] * strides[axis + 1] if axis + 1 < len(shape) else 1
            strides[axis] = place.strides[axis - lead] if axis >= lead else behind
        elif extent != 1:
            return None
    return place._replace(shape=tuple(shape), strides=tuple(strides))


_RULES: dict[str, Callable[[MemoryLayout, Sequence[Any], tuple[Any, ...]], MemoryLayout | None]] = {
    "reshape": _reshape,
    "view": _reshape,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "transpose": _transpose,
    "permute": _permute,
    "getitem": slice_layout,
    "diagonal": _diagonal,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "real": _real,
    "imag": _imag,
    "expand": _expand,
}
