"""Views that a change of their memory gave a new place in the graph, for which nobody has asked yet.

Rules of this file: how such a view knows that it is asked. PyTorch makes its node only then, from its base as it is by
then: if that was detached meanwhile, the view is cut off (`orphans`). It gets its class by exchange, so that no other
tensor is watched when its node is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .inheriting import InheritingView, become
from .inplace import move_retained, rebase
from .node import NO_EDGE, Edge
from .tensor import Tensor
from .views import node_of

if TYPE_CHECKING:
    from .node import Node


class RenewedView(Tensor):
    """A view whose node was made again, until that is asked for."""

    before: Edge | None
    """The place that it had when it was asked last, which fills its `.grad` until then if that is retained; None if it
    had none of its own, and requires grad only as long as its base does."""

    @property
    def grad_fn(self) -> Node | None:
        """The node that made it."""
        mark_asked(self)
        return node_of(self)

    @grad_fn.setter
    def grad_fn(self, node: Node | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.__dict__["grad_fn"] = node


# what users are shown of it
RenewedView.__module__ = Tensor.__module__
RenewedView.__name__ = Tensor.__name__
RenewedView.__qualname__ = Tensor.__qualname__


def renew(view: Tensor, renewed: Tensor) -> None:
    """Give a view a new place in the graph, for which nobody has asked."""
    before: Edge | None
    if type(view) is RenewedView:
        before = view.before
    elif type(view) is Tensor or type(view) is InheritingView:
        node = node_of(view)
        # whom nothing is retained at need not live on
        before = None if node is None else (node, view.output_nr) if view._retains_grad else NO_EDGE
    else:
        rebase(view, renewed)
        return
    become(view, RenewedView)
    view._requires_grad = True
    view.grad_fn, view.output_nr = renewed.grad_fn, renewed.output_nr
    view.__dict__["before"] = before


def mark_asked(view: Tensor) -> None:
    """Note that somebody has asked for the place of a view."""
    if type(view) is RenewedView:
        become(view, Tensor)
        before: Edge | None = view.__dict__.pop("before")
        if before is not None and view._retains_grad:
            node = node_of(view)
            assert node is not None
            move_retained(view, *before, node, view.output_nr)


def take_back(view: Tensor) -> None:
    """Take from a view the place for which nobody has asked: it has none of its own, and requires no grad."""
    mark_asked(view)
    view.grad_fn, view.output_nr, view._requires_grad = None, 0, False
