"""Views that require grad since their base does, and have no place in the graph: they were made with recording off, or
before their base was made to require grad (MD-01).

Rules of this file: how such a view answers, and what a change of its memory makes of it. It gets its class by exchange,
so that no other tensor is asked for its base when it is asked whether it requires grad.
"""

from __future__ import annotations

from collections.abc import Sequence

from .accumulator import AccumulateGrad
from .modes import state
from .node import Edge
from .recording import Data, Recorder
from .tensor import Tensor
from .versions import was_changed, watch
from .views import UNKNOWN, again, made_by, make_stale, node_of, owner_of, parent_of, views_of


class Unreached(AccumulateGrad):
    """Where the gradient of such a view goes: nowhere."""

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
        return super().edge() if owns_grad(self) else (Unreached(self), 0)


# what users are shown of it
InheritingView.__module__ = Tensor.__module__
InheritingView.__name__ = Tensor.__name__
InheritingView.__qualname__ = Tensor.__qualname__


def owns_grad(tensor: Tensor) -> bool:
    """Tell whether a tensor requires grad by itself: as a leaf whose flag was set, or as what a node made."""
    return bool(tensor.__dict__.get("_requires_grad", False))


def inherit(view: Tensor) -> None:
    """Let a new view that no node made require grad while its base does."""
    counter = view.counter()
    view._since = counter[0]
    if view._base is not None and view._base._requires_grad:
        become(view, InheritingView)
        watch(counter, view)


def pass_on(base: Tensor) -> None:
    """Let the views of a tensor that requires grad from now on require it, too."""
    late: list[Tensor] = []
    for view in views_of(owner_of(base)):
        if view._base is base and type(view) is Tensor and node_of(view) is None:
            become(view, InheritingView)
            counter = view.counter()
            if view._since is not None and was_changed(counter, view._since):
                late.append(view)
            else:
                watch(counter, view)
    memory_changed(late)


def memory_changed(views: Sequence[Tensor]) -> None:
    """Give views whose memory was changed since they were made the place in the graph that their base gives them; those
    whose history must not be rewritten have none any more (OU-15)."""
    make_stale([view for view in views if _inherits(view) and made_by(view) is not None])
    for view in views:
        if type(view) is InheritingView and node_of(view) is None:
            if _inherits(view):
                _track(view)
            else:  # until its base requires grad again
                become(view, Tensor)


def become(view: Tensor, kind: type[Tensor]) -> None:
    """Give a view another class."""
    view.__class__ = kind


def _inherits(view: Tensor) -> bool:
    return type(view) is InheritingView and view._base is not None and view._base._requires_grad


def _track(view: Tensor) -> None:
    from .renewed import renew

    recipe, parent = view._recipe, parent_of(view)
    if recipe is None or parent is None or recipe[0] is UNKNOWN or not recipe[5]:
        return
    here = state.here
    before, here.grad = here.grad, True
    try:
        renewed = again(view, parent)
    finally:
        here.grad = before
    become(view, Tensor)
    if renewed.grad_fn is not None:
        renew(view, renewed)
