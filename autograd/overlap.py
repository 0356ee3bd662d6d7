"""Overlap: whether an operand of a change in place shares part of the memory that is written to (EN-30).

Rules of this file: PyTorch's own test, on what it looks at: where a tensor starts, its shape and its strides. Two that
are dense overlap if their memory does, and do so fully if they start and end together with equal strides; of what has
gaps nothing is said. The strides of dimensions of extent one count too, which NumPy gives others: so they are computed
from how a view was made, and in a session, where there is no memory, the rest as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from raygrad.errors import AutogradError

from .batched import Batched
from .devices.serving import is_elsewhere, same_memory, start_of
from .places import Placed
from .views import memory, owner_of, parent_of

if TYPE_CHECKING:
    from .tensor import Tensor

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray

_MESSAGE = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


class Place(NamedTuple):
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

    def overlaps(self, other: Place) -> bool:
        """Tell whether both are dense, and memory of one is memory of the other."""
        if self.start >= other.end or other.start >= self.end:
            return False
        return 0 not in self.shape and 0 not in other.shape and self.is_dense() and other.is_dense()

    def is_same(self, other: Place) -> bool:
        """Tell whether what overlaps does so fully, each element with that of the same index."""
        return self.start == other.start and self.end == other.end and self.strides == other.strides


def check_partial(tensor: Any, operands: Sequence[Any]) -> None:
    """Check that no operand of an elementwise change of `tensor` shares a part of its memory only.

    Raises:
        AutogradError: one does.
    """
    for operand in operands:
        if operand is not tensor and may_share(tensor, operand):
            places = _places(tensor, operand)
            if places is not None and places[0].overlaps(places[1]) and not places[0].is_same(places[1]):
                raise AutogradError(_MESSAGE)


def check_apart(tensor: Any, *operands: Any) -> None:
    """Check that no operand of a change of `tensor` whose elements go to other places shares any of its memory.

    Raises:
        AutogradError: one does.
    """
    for operand in operands:
        if may_share(tensor, operand):
            places = _places(tensor, operand)
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
        from .ops.indexing import take_apart

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
    from .ops.indexing import is_whole, take_apart

    basic, advanced = take_apart(index, tensor.shape)
    entries = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
    stops: list[Any] = [getattr(entry, "stop", None) for entry in entries]
    if any(stop is not None and stop < 0 for stop in stops):
        return  # counted from the end, it makes PyTorch take a view, also of all there is
    if advanced and is_whole(basic, tensor.shape):
        raise AutogradError(_MESSAGE)


def _check_put(tensor: Tensor, basic: Any, value: Any) -> None:
    places = _places(tensor, value)
    if places is None or not value.ndim:  # a number is filled in
        return
    region, given = _getitem(places[0], (basic,), ()), places[1]
    if given.shape != region.shape:
        ones = next((axis for axis, extent in enumerate(given.shape) if extent != 1), len(given.shape))
        expanded = _expanded(_taken(given, range(ones, len(given.shape))), region.shape)
        if expanded is None:  # it does not fit, which is said elsewhere
            return
        given = expanded
    if region.overlaps(given) and not region.is_same(given):
        raise AutogradError(_MESSAGE)


def _check_scattered(tensor: Tensor, basic: Any, operands: Sequence[Any]) -> None:
    for operand in operands:
        if may_share(tensor, operand):
            places = _places(tensor, operand)
            if places is not None and _getitem(places[0], (basic,), ()).overlaps(places[1]):
                raise AutogradError(_MESSAGE)


def may_share(tensor: Tensor, operand: Any) -> bool:
    """Tell whether an operand might share memory with a tensor; most do not, and are told apart at once."""
    mine, its = tensor._data, getattr(operand, "_data", None)
    if type(mine) is _ARRAY and type(its) is _ARRAY:
        return np.may_share_memory(mine, its)
    if is_elsewhere(mine) or is_elsewhere(its):
        return type(mine) is type(its) and same_memory(mine, its)
    return its is not None


# ---- where things are ------------------------------------------------------------------------------------------------


def _places(tensor: Tensor, other: Tensor) -> tuple[Place, Place] | None:
    """Return the places of two tensors, None if they are known to share no memory, or not known at all."""
    data = memory(tensor._data), memory(other._data)
    if type(data[0]) is type(data[1]) and (type(data[0]) is _ARRAY or is_elsewhere(data[0])):
        return _in_memory(tensor, data[0]), _in_memory(other, data[1])
    if Batched in (type(data[0]), type(data[1])):
        return _of_batches(tensor, other)
    if owner_of(tensor) is not owner_of(other):
        return None
    mine, its = place_in_memory(tensor), place_in_memory(other)
    return None if mine is None or its is None else (mine, its)


def _of_batches(tensor: Tensor, other: Tensor) -> tuple[Place, Place] | None:
    """Return the places of all examples together, the examples outermost."""
    held = [t._data if type(t._data) is Batched else None for t in (tensor, other)]
    found = _places(*[t if b is None else b.value for t, b in zip((tensor, other), held, strict=True)])
    if found is None:
        return None
    moved = [p if b is None else _moved(p, b.dim) for p, b in zip(found, held, strict=True)]
    return moved[0], moved[1]


def _moved(place: Place, dim: int) -> Place:
    order = (dim, *(axis for axis in range(len(place.shape)) if axis != dim))
    return _permute(place, (), (order,))


def _in_memory(tensor: Tensor, array: np.ndarray[Any, Any]) -> Place:
    """Return where an array lies; what NumPy says of dimensions of extent one is another convention."""
    itemsize = array.itemsize
    strides = tuple([stride // itemsize for stride in array.strides])
    place = Place(start_of(array), array.shape, strides, itemsize)
    if 1 in array.shape:
        made = place_in_memory(tensor)
        if made is not None and made.shape == array.shape and _agree(made.strides, place):
            return place._replace(strides=made.strides)
    return place


def _agree(strides: Sequence[int], place: Place) -> bool:
    return all([a == b for a, b, extent in zip(strides, place.strides, place.shape, strict=True) if extent > 1])


def place_in_memory(tensor: Tensor) -> Place | None:
    """Return where a tensor lies in the memory of its owner, by how it was made; None if that is not known."""
    parent = parent_of(tensor)
    if parent is None:
        return _whole(tensor)
    assert tensor._recipe is not None
    op, _, _, rest, params, _ = tensor._recipe
    place = place_in_memory(parent)
    if place is None or op is None:
        return place
    if type(op) is Placed:
        return _placed(op, place)
    rule = _RULES.get(op.name)
    return None if rule is None else rule(place, rest, params)


def _placed(op: Placed, parent: Place) -> Place | None:
    """Return where a view lies that a Function's forward made, by what the worker told of it."""
    steps = [stride * parent.itemsize for stride in parent.strides]
    strides = op.strides_in(parent.shape, steps, parent.itemsize)
    if strides is None:
        return None
    itemsize = parent.itemsize // op.place.parts
    start = parent.start + op.start_in(parent.shape, steps, parent.itemsize)
    return Place(start, op.shape, tuple([stride // itemsize for stride in strides]), itemsize)


def _whole(owner: Tensor) -> Place:
    """Return where an owner of memory lies; what nobody has made yet, row by row."""
    data, shape = memory(owner._data), owner.shape
    itemsize = owner.dtype.itemsize
    if type(data) is _ARRAY and not data.flags.c_contiguous:
        return Place(0, shape, tuple([stride // itemsize for stride in data.strides]), itemsize)
    return Place(0, shape, _row_by_row(shape), itemsize)


def _row_by_row(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


# ---- what views do to it, by the op that made them -------------------------------------------------------------------


def _reshape(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place | None:
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


def _squeeze(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place:
    kept = [axis for axis in range(len(place.shape)) if axis not in params[0]]
    return _taken(place, kept)


def _taken(place: Place, axes: Sequence[int]) -> Place:
    return place._replace(
        shape=tuple([place.shape[axis] for axis in axes]), strides=tuple([place.strides[axis] for axis in axes])
    )


def _unsqueeze(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place:
    axis = int(params[0])
    shape, strides = place.shape, place.strides
    stride = shape[axis] * strides[axis] if axis < len(shape) else 1
    return place._replace(shape=(*shape[:axis], 1, *shape[axis:]), strides=(*strides[:axis], stride, *strides[axis:]))


def _transpose(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place:
    order = list(range(len(place.shape)))
    first, second = params
    order[first], order[second] = second, first
    return _taken(place, order)


def _permute(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place:
    return _taken(place, params[0])


def _getitem(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place:
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


def _diagonal(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place:
    offset, first, second = int(params[0]), int(params[1]), int(params[2])
    n, m = place.shape[first], place.shape[second]
    down, right = max(-offset, 0), max(offset, 0)
    kept = _taken(place, [axis for axis in range(len(place.shape)) if axis not in (first, second)])
    a, b = place.strides[first], place.strides[second]
    return kept._replace(
        start=place.start + (down * a + right * b) * place.itemsize,
        shape=(*kept.shape, max(min(n - down, m - right), 0)),
        strides=(*kept.strides, a + b),
    )


def _unfold(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place:
    axis, size, step = int(params[0]), int(params[1]), int(params[2])
    shape, strides = [*place.shape, size], [*place.strides, place.strides[axis]]
    shape[axis] = (shape[axis] - size) // step + 1
    strides[axis] *= step
    return place._replace(shape=tuple(shape), strides=tuple(strides))


def _as_strided(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place | None:
    """Its parameters count the elements of what it is made of one after the other: known where these lie so."""
    shape, strides, offset, order = params
    ordered = _taken(place, order)
    if ordered.strides != _row_by_row(ordered.shape):
        return None
    return place._replace(start=place.start + offset * place.itemsize, shape=shape, strides=strides)


def _real(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place:
    return place._replace(strides=tuple([2 * stride for stride in place.strides]), itemsize=place.itemsize // 2)


def _imag(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place:
    return _real(place._replace(start=place.start + place.itemsize // 2), rest, params)


def _expand(place: Place, rest: Sequence[Any], params: tuple[Any, ...]) -> Place | None:
    return _expanded(place, params[0])


def _expanded(place: Place, shape: Sequence[int]) -> Place | None:
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


_RULES: dict[str, Callable[[Place, Sequence[Any], tuple[Any, ...]], Place | None]] = {
    "reshape": _reshape,
    "view": _reshape,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "transpose": _transpose,
    "permute": _permute,
    "getitem": _getitem,
    "diagonal": _diagonal,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "real": _real,
    "imag": _imag,
    "expand": _expand,
}
