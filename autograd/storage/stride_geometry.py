"""Stride geometry: where the elements of a tensor lie in memory, and what that means for views and overlaps (H1).

A layout is start, shape and strides as PyTorch has them, derived from that of the memory's owner by one rule per view
op: NumPy's strides of dimensions of extent one are others, and in a session there is no memory to look at. Layouts are
those that a tensor had when it was made, as eagerly it keeps them, whatever later versions have on a worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.batched_data import Batched
from ..core.recorder import Pending
from ..devices.serving import is_device_array, start_of
from .storage import owner_of, parent_of, storage_of, views_of
from .view_geometry import GeometricView, ViewGeometry, geometry_from_strides

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
    """Return where a tensor lies in the memory of its owner, by how it was made; None if that is not known. What nobody
    has made yet is taken to lie row by row."""
    owner = owner_of(tensor)
    data, itemsize = owner._data, owner.dtype.itemsize
    if type(data) is _ARRAY and not data.flags.c_contiguous:
        strides = tuple([stride // itemsize for stride in data.strides])
        return _layout_within(tensor, MemoryLayout(0, owner.shape, strides, itemsize))
    return _layout_within(tensor, _dense_layout(owner))


def _layout_within(tensor: Tensor, whole: MemoryLayout) -> MemoryLayout | None:
    """Return where a tensor lies in the memory of its owner, which lies as `whole`."""
    view, parent = tensor._view, parent_of(tensor)
    if view is None or parent is None:
        return whole
    place = _layout_within(parent, whole)
    if place is None or view.op is None:
        return place
    if type(view.op) is GeometricView:
        return _placed(view.op, place)
    rule = _RULES.get(view.op.name)
    return None if rule is None else rule(place, view.operands, view.params)


def _placed(op: GeometricView, parent: MemoryLayout) -> MemoryLayout | None:
    """Return the layout of a view with a known geometry in its parent; None where forward has to copy."""
    steps = [stride * parent.itemsize for stride in parent.strides]
    strides = op.strides_in(parent.shape, steps, parent.itemsize)
    if strides is None:
        return None
    itemsize = parent.itemsize // op.geometry.parts
    start = parent.start + op.start_in(parent.shape, steps, parent.itemsize)
    return MemoryLayout(start, op.shape, tuple([stride // itemsize for stride in strides]), itemsize)


def _dense_layout(tensor: Tensor) -> MemoryLayout:
    return MemoryLayout(0, tensor.shape, _row_by_row(tensor.shape), tensor.dtype.itemsize)


# ---- what follows from it --------------------------------------------------------------------------------------------


def strides_of(tensor: Tensor, *, wait: bool = False) -> tuple[int, ...] | None:
    """Return the strides of a tensor in bytes, None if only the kernel knows them.

    Args:
        wait: a value may be waited for, to see how its kernel laid it out.
    """
    layout = _known_layout(tensor, wait)
    return None if layout is None else tuple([stride * layout.itemsize for stride in layout.strides])


def _known_layout(tensor: Tensor, wait: bool) -> MemoryLayout | None:
    whole = _layout_of_owner(owner_of(tensor), wait)
    return None if whole is None else _layout_within(tensor, whole)


def _layout_of_owner(owner: Tensor, wait: bool) -> MemoryLayout | None:
    """Return the layout of an owner of memory, None if only its kernel knows it."""
    data, itemsize = owner._data, owner.dtype.itemsize
    strides = None if owner._storage is None else owner._storage.strides
    if strides is None and type(data) is Pending:
        strides = data.record.recorder.strides(data)
        if strides is None and wait:
            strides = data.record.recorder.read(data).strides  # type: ignore[union-attr]
    elif strides is None and type(data) is not Batched:
        strides = data.strides
    return None if strides is None else MemoryLayout(0, owner.shape, tuple([s // itemsize for s in strides]), itemsize)


def note_strides(owner: Tensor) -> None:
    """Note what the strides of an owner of memory are, before its value is replaced by its next version: that is waited
    for where a view hangs on it."""
    storage = storage_of(owner)
    if storage.strides is None and parent_of(owner) is None:
        wait = any(one._view is not None and not one._view.sure for one in views_of(owner))
        storage.strides = strides_of(owner, wait=wait)


def reshapes_to_view(tensor: Tensor, shape: tuple[int, ...], *, wait: bool = False) -> bool | None:
    """Tell whether `reshape` gives a view of a tensor, not a copy; None if its strides are not known."""
    layout = _known_layout(tensor, wait)
    return None if layout is None else _reshape(layout, (), (shape,)) is not None


def is_contiguous(tensor: Tensor) -> bool:
    """Tell whether a tensor is dense in C order: a value is waited for, if only its kernel knows. Where that may not
    be, while a compiled function is recorded, it counts as if it was not."""
    layout = _known_layout(tensor, False)
    if layout is None and type(tensor._data) is Pending and tensor._data.record.recorder.may_wait():
        layout = _known_layout(tensor, True)
    return layout is not None and (0 in layout.shape or _agree(_row_by_row(layout.shape), layout))


def geometry_in_owner(tensor: Tensor) -> ViewGeometry | None:
    """Return which elements a tensor, which shares its memory for certain, shows of the owner of it; None if that is
    not known. How the owner lies matters only where there is no such view if it lies row by row: then it is waited
    for."""
    owner = owner_of(tensor)
    whole = _layout_of_owner(owner, False)
    if whole is not None:
        return _geometry_within(tensor, owner, whole)
    found = _geometry_within(tensor, owner, _dense_layout(owner))
    whole = _layout_of_owner(owner, True) if found is None else None
    return found if whole is None else _geometry_within(tensor, owner, whole)


def _geometry_within(tensor: Tensor, owner: Tensor, whole: MemoryLayout) -> ViewGeometry | None:
    layout = _layout_within(tensor, whole)
    if layout is None:
        return None
    if 0 in layout.shape:
        return ViewGeometry(tuple(range(owner.ndim)), 1, 0, (0,) * tensor.ndim)
    parts = whole.itemsize // layout.itemsize
    if tensor.dtype != (owner.dtype if parts == 1 else owner.dtype.type(0).real.dtype):
        return None
    own = tuple([stride * parts for stride in whole.strides])
    steps = tuple([0 if n <= 1 else s for n, s in zip(layout.shape, layout.strides, strict=True)])
    return geometry_from_strides(whole.shape, own, parts, layout.start // layout.itemsize, layout.shape, steps)


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
    """Its parameters count the elements of what it is made of one after the other, in an order of axes."""
    shape, strides, offset, order = params
    ordered = select_axes(place, order)
    if ordered.strides != _row_by_row(ordered.shape):
        return _placed(GeometricView(ViewGeometry(order, 1, offset, strides), shape), place)
    return place._replace(start=place.start + offset * place.itemsize, shape=shape, strides=strides)


def _view_dtype(place: MemoryLayout, rest: Sequence[Any], params: tuple[Any, ...]) -> MemoryLayout:
    size = np.dtype(params[0]).itemsize
    if size == place.itemsize:
        return place
    shape = (*place.shape[:-1], place.shape[-1] * place.itemsize // size)
    strides = (*[stride * place.itemsize // size for stride in place.strides[:-1]], 1)
    return place._replace(shape=shape, strides=strides, itemsize=size)


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
    "view_dtype": _view_dtype,
    "real": _real,
    "imag": _imag,
    "expand": _expand,
}
