"""What a tensor is whose place in the graph is gone: a view that a Function returned, once its memory changed (OU-12).

Rules of this file: how such a tensor answers. It gets its class by exchange, so that no other tensor is asked whether
it is stale when its node is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .inheriting import InheritingView
from .tensor import Tensor
from .views import Stale, node_of

if TYPE_CHECKING:
    from .node import Node


class StaleView(InheritingView):
    """A view that a change made stale: asked for its node, it says why it has none.

    Whether it still is stale its data tell, which a session sets back when what changed them has failed.
    """

    @property
    def grad_fn(self) -> Node | None:
        """The node that made it.

        Raises:
            RuntimeError: it is stale, and gradient flows through it.
        """
        data = self._data
        if type(data) is Stale:
            data.check_differentiated(self)
        return node_of(self)

    @grad_fn.setter
    def grad_fn(self, node: Node | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.__dict__["grad_fn"] = node


# what users are shown of it
StaleView.__module__ = Tensor.__module__
StaleView.__name__ = Tensor.__name__
StaleView.__qualname__ = Tensor.__qualname__
