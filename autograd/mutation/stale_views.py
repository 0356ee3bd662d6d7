"""Stale views: views returned by a Function whose memory was changed since, so that they have no `grad_fn` (OU-12).

Reading the `grad_fn` of one raises. A stale view gets a class of its own, so that reading `grad_fn` of other tensors
stays a plain attribute access.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..nodes.inheriting_views import InheritingView
from ..storage.views import StaleData, creation_meta, forbidden_change, node_of, owner_of, parent_of, views_of
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from ..nodes.node import Node


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
        if type(data) is StaleData:
            data.check_differentiated(self)
        return node_of(self)

    @grad_fn.setter
    def grad_fn(self, node: Node | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.__dict__["grad_fn"] = node


# what users are shown of it
StaleView.__module__ = Tensor.__module__
StaleView.__name__ = Tensor.__name__
StaleView.__qualname__ = Tensor.__qualname__


def make_stale(returned: Sequence[Tensor]) -> None:
    """Mark views that a Function or an op with several returned, and those made of them: their memory was changed in
    place (OU-12)."""
    sources = set(map(id, returned))
    owners = {id(owner): owner for owner in map(owner_of, returned)}
    for view in (*returned, *(view for owner in owners.values() for view in views_of(owner))):
        if type(view._data) is not StaleData and _is_made_of(view, sources):
            view._data = mark_stale(view)


def _is_made_of(view: Tensor | None, sources: set[int]) -> bool:
    while view is not None and id(view) not in sources:
        view = parent_of(view)
    return view is not None


def mark_stale(view: Tensor, data: Any = None, *, lost: bool = False) -> StaleData:
    """Return what a view that a Function returned, or that was made of one, holds after its memory was changed: `data`,
    else what it has. Asked for its node, it raises from now on."""
    held = view._data.array if type(view._data) is StaleData else view._data
    what = "its base or another view of its base has been modified inplace"
    made = StaleData(held if data is None else data, forbidden_change(view, creation_meta(view), what), lost)
    view.__class__ = StaleView
    return made
