"""View methods in place: `transpose_`, `squeeze_`, `t_` and their kind give a tensor another shape of its memory.

No element changes. The tensor takes the place of the view that the out-of-place function makes of it; where others show
its memory, another tensor stands in for what it was, and the tensor becomes a view of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from ..core.modes import running_user_code, state
from ..core.transform_scopes import SCOPES
from ..storage.storage import Storage
from ..storage.version_counter import bump
from ..storage.view import View, check_rebase
from . import inplace_tangents
from .captured import check_not_captured
from .inplace import check_leaf, recorder_of
from .rebase_history import rebase_history

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


def view_in_place(tensor: Tensor, show: Callable[[Any], Any]) -> Tensor:
    """Make a tensor the view that `show` makes of it, and return it.

    Raises:
        RuntimeError: it is a leaf that requires grad (or a view of one) and gradients are recorded; its history must
            not be rewritten; or it is a leaf that requires grad, of which there are views.
    """
    if SCOPES:
        check_not_captured(tensor)
    if state.here.forward:
        return inplace_tangents.in_place(tensor, show, _view_of_tangent, writes=False)
    check_leaf(tensor)
    view, storage = tensor._view, tensor._storage
    if tensor._requires_grad and state.here.grad:
        check_rebase(tensor)
    if storage is not None and (view is not None or any(one is not tensor for one in storage.living())):
        _become(tensor, storage, show)
    else:
        shown = show(tensor)
        recorder = recorder_of(tensor, shown)
        tensor._order = tensor._accumulator = tensor._snapshot = None
        if shown._requires_grad and state.here.grad:
            rebase_history(tensor, shown)
        if recorder is None:
            tensor._data = shown._data
        else:
            recorder.write(tensor, "_data", shown._data)
    bump(tensor.counter())
    return tensor


def _view_of_tangent(tensor: Tensor, show: Callable[[Any], Any]) -> Tensor:
    """Do `view_in_place` for a tensor whose tangents are seen to, and for these."""
    with running_user_code():
        return view_in_place(tensor, show)


def _become(tensor: Tensor, storage: Storage, show: Callable[[Any], Any]) -> None:
    """Let a stand-in be what a tensor is, and the tensor the view that `show` makes of it."""
    if tensor._requires_grad and tensor._grad_fn is None and tensor._view is None:
        raise AutogradError("a leaf that requires grad and has views gets no other shape in place: clone it first")
    _ = tensor.grad_fn  # of a view whose memory was changed it is made now
    before = tensor.alias()
    before._requires_grad, before._grad_fn, before.output_nr = tensor._requires_grad, tensor._grad_fn, tensor.output_nr
    view = tensor._view
    if view is not None:
        before._view = View(view.parent, view.op, view.operands, view.params, view.sure, view.base, view.creation)
        before._view.version, before._view.owns_grad = view.version, view.owns_grad
    storage.replace(tensor, before)
    for one in storage.living():
        other = one._view
        if other is not None and one is not before:
            if other.parent is tensor:
                other.parent = before
            if other.base is tensor:
                other.base = before
    shown = show(before)
    recorder = recorder_of(tensor, shown)
    tensor._order = tensor._snapshot = None
    if recorder is None:
        tensor._data = shown._data
    else:
        recorder.write(tensor, "_data", shown._data)
    tensor._view, tensor._grad_fn, tensor.output_nr = shown._view, shown._grad_fn, shown.output_nr
    tensor._requires_grad = shown._requires_grad
    storage.replace(shown, tensor)
