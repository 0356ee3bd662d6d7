"""Views that a change of their memory gave a new place in the graph, for which nobody has asked yet.

Rules of this file: how such a view knows that it is asked. PyTorch makes its node only then, from its base as it is by
then: if that was detached meanwhile, the view is cut off (`orphans`). It gets its class by exchange, so that no other
tensor is watched when its node is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .inheriting import InheritingView
from .inplace import rebase
from .tensor import Tensor
from .views import node_of

if TYPE_CHECKING:
    from .node import Node


class RenewedView(Tensor):
    """A view whose node was made again, until that is asked for."""

    had_node: bool
    """Whether it had a node before; if not, it requires grad only as long as its base does."""

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
    had_node = view.had_node if type(view) is RenewedView else node_of(view) is not None
    rebase(view, renewed)
    if type(view) in (Tensor, InheritingView, RenewedView):
        _become(view, RenewedView)
        view.__dict__["had_node"] = had_node


def mark_asked(view: Tensor) -> None:
    """Note that somebody has asked for the place of a view."""
    if type(view) is RenewedView:
        _become(view, Tensor)
        del view.had_node


def take_back(view: Tensor) -> None:
    """Take from a view the place for which nobody has asked: it has none of its own, and requires no grad."""
    mark_asked(view)
    view.grad_fn, view.output_nr, view._requires_grad = None, 0, False


def _become(view: Tensor, kind: type[Tensor]) -> None:
    view.__class__ = kind
