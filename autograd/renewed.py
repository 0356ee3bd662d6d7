"""Views that a change of their memory gave a new place in the graph, for which nobody has asked yet.

Rules of this file: how such a view knows that it is asked. PyTorch makes its node only then, from its base as it is by
then: if that was detached meanwhile, the view is cut off (`orphans`). It gets its class by exchange, so that no other
tensor is watched when its node is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tensor import Tensor
from .views import node_of

if TYPE_CHECKING:
    from .node import Node


class RenewedView(Tensor):
    """A view whose node was made again, until that is asked for."""

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


def mark_renewed(view: Tensor) -> None:
    """Note that a view has a new place in the graph, for which nobody has asked."""
    if type(view) is Tensor:
        _become(view, RenewedView)


def _become(view: Tensor, kind: type[Tensor]) -> None:
    view.__class__ = kind


def mark_asked(view: Tensor) -> None:
    """Note that somebody has asked for the place of a view."""
    if type(view) is RenewedView:
        _become(view, Tensor)
