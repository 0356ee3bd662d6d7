"""Strides of tensors whose values are not there yet: whether `reshape` copies them, PyTorch decides by these (H1).

Rules of this file: strides are those that a tensor had when it was made, as eagerly it keeps them; what later versions
of its value look like on a worker is another matter. None stands for what only a kernel knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .batched import Batched
from .places import Placed
from .recording import Pending
from .views import UNKNOWN, memory, parent_of, views_of

if TYPE_CHECKING:
    from .tensor import Tensor

Strides = tuple[int, ...]


def strides_of(tensor: Tensor, *, wait: bool = False) -> Strides | None:
    """Return the strides of a tensor in bytes, None if they are not known.

    Args:
        wait: a value may be waited for, to see how its kernel laid it out.
    """
    recipe, parent = tensor._recipe, parent_of(tensor)
    if recipe is None or parent is None:
        return _own_strides(tensor, wait)
    if recipe[0] is None:
        return strides_of(parent, wait=wait)
    strides = None if recipe[0] is UNKNOWN else strides_of(parent, wait=wait)
    if strides is None:
        return None
    if type(recipe[0]) is Placed:
        return recipe[0].strides_in(parent.shape, strides, parent.dtype.itemsize)
    like = as_strided(np.empty(1, parent.dtype), parent.shape, strides)  # of which no element is looked at
    if recipe[0].name == "reshape":
        return _viewed(like, tensor.shape)
    rest = [memory(one._data) if isinstance(one, type(tensor)) else one for one in recipe[3]]
    return recipe[0].sole(like, *rest, *recipe[4]).strides if recipe[0].sole is not None else None


def _own_strides(tensor: Tensor, wait: bool) -> Strides | None:
    if tensor._strides is not None:
        return tensor._strides or None if tensor.ndim else ()
    data = memory(tensor._data)
    if type(data) is Pending:
        known = data.record.recorder.strides(data)
        return data.record.recorder.read(data).strides if known is None and wait else known  # type: ignore[union-attr]
    return None if type(data) is Batched else data.strides


def note_strides(owner: Tensor) -> None:
    """Note what the strides of an owner of memory are, before its value is replaced by its next version: that is waited
    for where a view hangs on it."""
    if owner._strides is None and owner._recipe is None:
        wait = any(view._recipe is not None and not view._recipe[5] for view in views_of(owner))
        owner._strides = strides_of(owner, wait=wait) or ()


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
        data = memory(tensor._data)
        if type(data) is not Pending or not data.record.recorder.may_wait():
            return False
        strides = strides_of(tensor, wait=True)
    if strides is None:
        return False
    return as_strided(np.empty(1, tensor.dtype), tensor.shape, strides).flags.c_contiguous


def _viewed(like: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Strides | None:
    try:
        return like.reshape(shape, copy=False).strides
    except ValueError:
        return None
