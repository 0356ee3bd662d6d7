"""Detachment of views from a base that no longer requires grad: its flag was cleared, or it was detached in place.

Such views keep their node until the next change of the memory, if anybody has read it. `follow_change` is called with
each change of a memory that is watched, and ends the place of its views in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.recorder import Data, Recorder
from ..nodes.node import NO_EDGE, Node, next_sequence
from ..storage.version_counter import watch
from ..storage.views import RETURNED, creation_meta, owner_of, views_of
from .renewed_views import RegeneratedView, drop_unread_grad_fn, move_retained, regenerate_inheriting_views
from .stale_views import make_stale

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


class DetachedViewNode(Node):
    """The node of a view that was detached from its base: it takes a gradient and passes none on."""

    def __init__(self, view: Tensor) -> None:
        self._edges = (NO_EDGE,)
        self._metas = ((view.shape, view.dtype),)
        self._sequence = next_sequence()

    def name(self) -> str:
        """Return PyTorch's name for the node of a view that is made again."""
        return "AsStridedBackward0"

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        return (None,)


def detach_views_of_base(base: Tensor) -> None:
    """Detach the views of a tensor that is about to require no grad: at the next change of its memory.

    Views whose `grad_fn` was regenerated and not read since are detached at once.
    """
    for view in views_of(owner_of(base)):
        if view._base is base and view._requires_grad:
            if type(view) is not RegeneratedView:
                watch(base.counter(), view)
            elif view.before is not None:
                _cut(view)
            else:
                drop_unread_grad_fn(view)


def detach_views(orphans: Sequence[Tensor]) -> None:
    """Detach views whose memory was changed, and views of them: their base has no history to give them."""
    owners = {id(owner): owner for owner in map(owner_of, orphans)}
    for owner in owners.values():
        for view in views_of(owner):
            base = view._base
            if base is None or base._requires_grad or not view._requires_grad or creation_meta(view) is not None:
                continue
            _cut(view)


def _cut(view: Tensor) -> None:
    node = DetachedViewNode(view)
    if view._retains_grad:
        move_retained(view, view.grad_fn, view.output_nr, node, 0)
    view.grad_fn, view.output_nr = node, 0


def follow_change(views: Sequence[Tensor]) -> None:
    """End the place in the graph of views whose memory was changed: those that a Function returned get stale, others
    are cut off or follow their base."""
    make_stale([view for view in views if view._made_by in RETURNED])
    detach_views([view for view in views if view._made_by not in RETURNED])
    regenerate_inheriting_views(views)
