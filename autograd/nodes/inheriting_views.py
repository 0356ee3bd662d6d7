"""Views without a node of their own that require grad while their base does (MD-01).

They were made with recording off, or before their base required grad. `mutation/renewed_views.py` decides what a change
of their memory means. Such a view gets a class of its own, so that reading `requires_grad` of other tensors stays a
plain attribute access.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.recorder import Data, Recorder
from ..storage.version_counter import watch
from ..tensor.tensor import Tensor
from .accumulator import AccumulateGrad
from .node import Edge


class DiscardGrad(AccumulateGrad):
    """The accumulator of a view without a node of its own: it discards the gradient."""

    _reached = False

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        return ()


class InheritingView(Tensor):
    """A view that requires grad while its base does, whether it does by itself or not."""

    @property
    def _requires_grad(self) -> bool:
        return owns_grad(self) or (self._base is not None and self._base._requires_grad)

    @_requires_grad.setter
    def _requires_grad(self, value: bool) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.__dict__["_requires_grad"] = value

    def edge(self) -> Edge:
        """Return where its gradient goes: nowhere, unless it requires grad by itself."""
        return super().edge() if owns_grad(self) else (DiscardGrad(self), 0)


# what users are shown of it
InheritingView.__module__ = Tensor.__module__
InheritingView.__name__ = Tensor.__name__
InheritingView.__qualname__ = Tensor.__qualname__


def owns_grad(tensor: Tensor) -> bool:
    """Tell whether a tensor requires grad by itself: as a leaf whose flag was set, or as what a node made."""
    return bool(tensor.__dict__.get("_requires_grad", False))


def inherit_requires_grad(view: Tensor) -> None:
    """Have a new view without a node require grad while its base does."""
    counter = view.counter()
    view._since = counter[0]
    if view._base is not None and view._base._requires_grad:
        change_class(view, InheritingView)
        watch(counter, view)


def change_class(view: Tensor, kind: type[Tensor]) -> None:
    """Give a view another class."""
    view.__class__ = kind
