"""Regenerated views: the new `grad_fn` of views after an in-place change of their base, and of the changed tensor.

PyTorch makes a view's node only when it is read. A view with a regenerated node therefore notes when it is read: if
the base is detached before, the view is detached, too (`orphaned_views.py`). It has a class of its own for that, and
reading `grad_fn` of other tensors stays a plain attribute access.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.modes import state
from ..nodes.inheriting_views import InheritingView, change_class
from ..nodes.node import NO_EDGE, Edge
from ..storage.version_counter import was_changed, watch
from ..storage.views import UNKNOWN, creation_meta, has_views, node_of, owner_of, parent_of, views_of
from ..tensor.tensor import Tensor
from .stale_views import make_stale
from .view_replay import replay_view

if TYPE_CHECKING:
    from ..nodes.node import Node


class RegeneratedView(Tensor):
    """A view whose node was regenerated, until the node is read."""

    before: Edge | None
    """The place that it had when it was asked last, which fills its `.grad` until then if that is retained; None if it
    had none of its own, and requires grad only as long as its base does."""

    @property
    def grad_fn(self) -> Node | None:
        """The node that made it."""
        mark_read(self)
        return node_of(self)

    @grad_fn.setter
    def grad_fn(self, node: Node | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.__dict__["grad_fn"] = node


# what users are shown of it
RegeneratedView.__module__ = Tensor.__module__
RegeneratedView.__name__ = Tensor.__name__
RegeneratedView.__qualname__ = Tensor.__qualname__


def regenerate_grad_fn(view: Tensor, renewed: Tensor) -> None:
    """Give a view a regenerated node, which counts as unread."""
    before: Edge | None
    if type(view) is RegeneratedView:
        before = view.before
    elif type(view) is Tensor or type(view) is InheritingView:
        node = node_of(view)
        # whom nothing is retained at need not live on
        before = None if node is None else (node, view.output_nr) if view._retains_grad else NO_EDGE
    else:
        rebase_history(view, renewed)
        return
    change_class(view, RegeneratedView)
    view._requires_grad = True
    view.grad_fn, view.output_nr = renewed.grad_fn, renewed.output_nr
    view.__dict__["before"] = before


def mark_read(view: Tensor) -> None:
    """Note that the regenerated node of a view was read."""
    if type(view) is RegeneratedView:
        change_class(view, Tensor)
        before: Edge | None = view.__dict__.pop("before")
        if before is not None and view._retains_grad:
            node = node_of(view)
            assert node is not None
            move_retained(view, *before, node, view.output_nr)


def drop_unread_grad_fn(view: Tensor) -> None:
    """Remove the unread node of a view that has none of its own: it then requires no grad."""
    mark_read(view)
    view.grad_fn, view.output_nr, view._requires_grad = None, 0, False


def rebase_history(tensor: Tensor, result: Tensor) -> None:
    """Put the tensor in the place of the result in the graph."""
    node = result.grad_fn
    assert node is not None
    if tensor._retains_grad:
        move_retained(tensor, tensor.grad_fn, tensor.output_nr, node, result.output_nr)
    tensor._requires_grad = True
    tensor.grad_fn = node
    tensor.output_nr = result.output_nr
    if tensor._base is None and has_views(tensor):
        propagate_requires_grad(tensor)


def move_retained(tensor: Tensor, before: Node | None, number: int, node: Node, output_nr: int) -> None:
    """Let output `output_nr` of a node fill a tensor's `.grad`, and what it was before not any more."""
    if before is None or before._retained is None:
        return
    before._retained.pop(number, None)
    if node._retained is None:
        node._retained = {}
        node._hooked = True
    node._retained[output_nr] = weakref.ref(tensor)


# ---- views without a node of their own -------------------------------------------------------------------------------


def propagate_requires_grad(base: Tensor) -> None:
    """Make the views of a tensor that begins to require grad require it, too."""
    late: list[Tensor] = []
    for view in views_of(owner_of(base)):
        if view._base is base and type(view) is Tensor and node_of(view) is None:
            change_class(view, InheritingView)
            counter = view.counter()
            if view._since is not None and was_changed(counter, view._since):
                late.append(view)
            else:
                watch(counter, view)
    regenerate_inheriting_views(late)


def regenerate_inheriting_views(views: Sequence[Tensor]) -> None:
    """Give views whose memory was changed since they were made the place in the graph that their base gives them; those
    whose history must not be rewritten have none any more (OU-15)."""
    make_stale([view for view in views if _inherits(view) and creation_meta(view) is not None])
    for view in views:
        if type(view) is InheritingView and node_of(view) is None:
            if _inherits(view):
                _track(view)
            else:  # until its base requires grad again
                change_class(view, Tensor)


def _inherits(view: Tensor) -> bool:
    return type(view) is InheritingView and view._base is not None and view._base._requires_grad


def _track(view: Tensor) -> None:
    recipe, parent = view._recipe, parent_of(view)
    if recipe is None or parent is None or recipe[0] is UNKNOWN or not recipe[5]:
        return
    here = state.here
    before, here.grad = here.grad, True
    try:
        renewed = replay_view(view, parent)
    finally:
        here.grad = before
    change_class(view, Tensor)
    if renewed.grad_fn is not None:
        regenerate_grad_fn(view, renewed)
