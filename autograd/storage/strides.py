"""Strides of tensors whose values are pending, and whether `reshape` of them is a view or a copy (H1).

Dispatch and view replay ask for them. Strides are those that a tensor had when it was made, as eagerly it keeps them,
whatever layout later versions have on a worker. None means that only the kernel knows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..core.batched_data import Batched
from ..core.recorder import Pending
from .storage import owner_of, parent_of, storage_of, views_of
from .view import UNKNOWN
from .view_geometry import GeometricView, ViewGeometry, geometry_of

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

Strides = tuple[int, ...]
Array = np.ndarray[Any, Any]


def strides_of(tensor: Tensor, *, wait: bool = False) -> Strides | None:
    """Return the strides of a tensor in bytes, None if they are not known.

    Args:
        wait: a value may be waited for, to see how its kernel laid it out.
    """
    if parent_of(tensor) is None:
        return _own_strides(tensor, wait)
    owner = owner_of(tensor)
    own = _own_strides(owner, wait)
    shown = None if own is None else _shown_in(tensor, _outline(owner, own))
    return None if shown is None else shown.strides


def geometry_in_owner(tensor: Tensor) -> ViewGeometry | None:
    """Return which elements a tensor, which shares its memory for certain, shows of the owner of it; None if that is
    not known. How the owner lies matters only where there is no such view if it lies row by row: then it is waited
    for."""
    owner = owner_of(tensor)
    strides = _own_strides(owner, False)
    if strides is None:
        step = owner.dtype.itemsize
        strides = tuple([step * math.prod(owner.shape[axis + 1 :]) for axis in range(owner.ndim)])
        place = _place(tensor, _outline(owner, strides))
        if place is not None:
            return place
        strides = _own_strides(owner, True)
    return None if strides is None else _place(tensor, _outline(owner, strides))


def _place(tensor: Tensor, whole: Array) -> ViewGeometry | None:
    shown = _shown_in(tensor, whole)
    return None if shown is None else geometry_of(shown, whole)


def _outline(owner: Tensor, strides: Strides) -> Array:
    """Return an array that lies as an owner of memory does; it has no memory of its own that could be looked at."""
    return as_strided(np.empty(1, owner.dtype), owner.shape, strides)


def _shown_in(tensor: Tensor, whole: Array) -> Array | None:
    """Return what of the outline of its owner a tensor shows."""
    view, parent = tensor._view, parent_of(tensor)
    if view is None or parent is None:
        return whole
    op: Any = view.op
    if op is UNKNOWN:
        return None
    like = _shown_in(parent, whole)
    if op is None or like is None:
        return like
    if type(op) is GeometricView:
        return op.over(like)
    if op.name in ("reshape", "view"):
        return _viewed(like, tensor.shape)
    if op.name == "as_strided":
        shape, strides, offset, order = view.params
        return GeometricView(ViewGeometry(order, 1, offset, strides), shape).over(like)
    rest = [one._data if isinstance(one, type(tensor)) else one for one in view.operands]
    return op.sole(like, *rest, *view.params) if op.sole is not None else None


def _own_strides(tensor: Tensor, wait: bool) -> Strides | None:
    if tensor._storage is not None and tensor._storage.strides is not None:
        return tensor._storage.strides or None if tensor.ndim else ()
    data = tensor._data
    if type(data) is Pending:
        known = data.record.recorder.strides(data)
        return data.record.recorder.read(data).strides if known is None and wait else known  # type: ignore[union-attr]
    return None if type(data) is Batched else data.strides


def note_strides(owner: Tensor) -> None:
    """Note what the strides of an owner of memory are, before its value is replaced by its next version: that is waited
    for where a view hangs on it."""
    storage = storage_of(owner)
    if storage.strides is None and parent_of(owner) is None:
        wait = any(one._view is not None and not one._view.sure for one in views_of(owner))
        storage.strides = strides_of(owner, wait=wait) or ()


def reshapes_to_view(tensor: Tensor, shape: tuple[int, ...], *, wait: bool = False) -> bool | None:
    """Tell whether `reshape` gives a view of a tensor, not a copy; None if its strides are not known."""
    strides = strides_of(tensor, wait=wait)
    if strides is None:
        return None
    return _viewed(as_strided(np.empty(1, tensor.dtype), tensor.shape, strides), shape) is not None


def is_contiguous(tensor: Tensor) -> bool:
    """Tell whether a tensor is dense in C order: a value is waited for, if only its kernel knows. Where that may not
    be, while a compiled function is recorded, it counts as if it was not."""
    strides = strides_of(tensor)
    if strides is None:
        data = tensor._data
        if type(data) is not Pending or not data.record.recorder.may_wait():
            return False
        strides = strides_of(tensor, wait=True)
    if strides is None:
        return False
    return as_strided(np.empty(1, tensor.dtype), tensor.shape, strides).flags.c_contiguous


def _viewed(like: Array, shape: tuple[int, ...]) -> Array | None:
    try:
        return like.reshape(shape, copy=False)
    except ValueError:
        return None
