"""Views: which tensors share memory, how each was made, and which of them may be changed in place.

A view holds its *recipe* (view op, parent, owner of the memory, parameters). After a change, `mutation` replays it: for
the view's value in a session, where memory is not shared, and for its gradient in a graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raygrad.errors import AutogradError

from ..core.modes import state
from ..devices.serving import is_device_array
from .version_counter import add_view, watch
from .view_geometry import GeometricView

if TYPE_CHECKING:
    from ..nodes.node import Node
    from ..registry.registry import Op
    from ..tensor.tensor import Tensor
    from .view_geometry import ViewGeometry

FUNCTION, SEVERAL, NO_GRAD = "function", "several", "no_grad"
"""What made a view whose history must not be rewritten: a Function, one of several outputs, or code under no_grad."""

RETURNED = (FUNCTION, SEVERAL)
"""Of these, the ones that a change of their memory makes stale."""


Recipe = tuple["Op | GeometricView | None", Any, Any, Sequence[Any], tuple[Any, ...], bool]
"""How a tensor that shares another's memory was made; a plain tuple, since each slice makes one:

- the view op; None for an alias without history; `GeometricView` for what a Function made,
- what it was made from, and whose memory that is, through all views in between,
- the other operands and the parameters of the op,
- whether the memory is shared for certain: of a pending value nobody here can tell if `reshape` copies it.
"""


def record_view(view: Tensor, op: Op, operands: Sequence[Any], params: tuple[Any, ...], sure: bool) -> None:
    """Record that a view op made `view` of its first operand."""
    parent: Any = operands[0]
    above = parent._recipe
    _enter(view, (op, parent, parent if above is None else above[2], operands[1:], params, sure))


def record_alias(alias: Tensor, tensor: Tensor) -> None:
    """Record that `alias` is `tensor` without its history: of a view, the same view of an alias of its parent.

    An alias may outlive the tensor and must not retain its graph. All aliases of a tensor therefore have one *shadow*
    as their parent, which refers to the tensor weakly and replaces it afterwards.
    """
    recipe = tensor._recipe
    if recipe is None:
        shadow = _shadow(tensor)
        _enter(alias, (None, shadow, shadow, (), (), True))
    elif recipe[0] is None:
        _enter(alias, recipe)
    else:
        parent = recipe[1].detach()
        _enter(alias, (recipe[0], parent, parent._recipe[2], *recipe[3:]))


def _shadow(owner: Tensor) -> Tensor:
    shadow = None if owner._shadow is None else owner._shadow()
    if shadow is None:
        shadow = owner.alias()
        owner._shadow = known = weakref.ref(shadow)
        shadow._recipe = (None, weakref.ref(owner), None, (), (), True)
        _list(owner, known)
    return shadow


def _is_shadow(recipe: Recipe | None) -> bool:
    return recipe is not None and type(recipe[1]) is weakref.ref


def settle(alias: Tensor) -> None:
    """Let an alias without history own its memory once the tensor that it was made from and all others are gone."""
    recipe = alias._recipe
    if recipe is not None and recipe[0] is None and _is_shadow(recipe[1]._recipe):
        shadow = recipe[1]
        if shadow._recipe[1]() is None and all(view is alias for view in views_of(shadow)):
            leave_memory(alias)


def _enter(view: Tensor, recipe: Recipe) -> None:
    view._recipe = recipe
    _list(recipe[2], weakref.ref(view))


def _list(owner: Tensor, entry: weakref.ref[Tensor]) -> None:
    if owner._views is None:
        owner._views = []
    add_view(owner._views, entry)


def leave_memory(tensor: Tensor) -> None:
    """Remove a tensor from its memory's views. Its own views keep the old memory, through a substitute parent."""
    recipe = tensor._recipe
    shadow = None if tensor._shadow is None else tensor._shadow()
    made = [view for view in views_of(owner_of(tensor)) if view is not tensor and _names(view._recipe, tensor)]
    substitute = (tensor.alias() if shadow is None else shadow) if made else None
    tensor._recipe = tensor._shadow = None
    if recipe is not None:
        recipe[2]._views = _with_instead(recipe[2]._views, tensor, substitute)
    if substitute is not None:
        for view in made:
            if view is not substitute and view._recipe is not None:
                op, parent, above = view._recipe[:3]
                parent = substitute if parent is tensor else parent
                view._recipe = (op, parent, substitute if above is tensor else above, *view._recipe[3:])
        substitute._recipe = recipe
        if recipe is None:
            substitute._views = [*(substitute._views or ()), *_with_instead(tensor._views, substitute, None)]
    tensor._views = None


def _names(recipe: Recipe | None, tensor: Tensor) -> bool:
    if recipe is None:
        return False
    return recipe[1]() is tensor if _is_shadow(recipe) else recipe[1] is tensor or recipe[2] is tensor


def _with_instead(
    entries: list[weakref.ref[Tensor]] | None, tensor: Tensor, other: Tensor | None
) -> list[weakref.ref[Tensor]]:
    """Return a list of views with `tensor` replaced by `other` (removed if None), without dead entries."""
    living = [(entry, entry()) for entry in entries or ()]
    listed = [(weakref.ref(other), other) if view is tensor and other is not None else (e, view) for e, view in living]
    return [entry for entry, view in listed if view is not None and view is not tensor]


def record_output_view(view: Tensor, output: Tensor) -> None:
    """Note that `view`, which a Function returned, is what its forward made as `output`, or, if `output` has no recipe,
    that argument itself."""
    recipe = output._recipe
    if recipe is None:
        recipe = (None, output, output, (), (), True)
    _enter(view, recipe)


class _Unknown:
    name = "a custom Function"


UNKNOWN: Any = _Unknown()
"""In the place of a recipe's op: a Function made the view of its argument on a worker, where it lies by no rule."""


def record_function_view(view: Tensor, source: Tensor, place: ViewGeometry | None, *, sure: bool = False) -> None:
    """Note that `view` is one that a Function's forward made of `source`, by which place in it, and whether
    it shares its memory for certain."""
    above = source._recipe
    op: Any = UNKNOWN if place is None else GeometricView(place, view.shape)
    _enter(view, (op, source, source if above is None else above[2], (), (), sure))


class StaleData:
    """The data of a view that a Function returned, after its memory was changed in place: reading it is allowed,
    differentiating through it is not (OU-12)."""

    __slots__ = ("array", "lost", "message")

    def __init__(self, array: Any, message: str, lost: bool = False) -> None:
        self.array = array
        self.message = message
        self.lost = lost
        """In a session: what it has become is not known either."""

    def for_use(self, recorded: bool, view: Tensor | None = None) -> Any:
        """Return the array.

        Args:
            recorded: whether gradients are recorded.
            view: the tensor whose data it is; None for a use that is not differentiated whatever it requires.

        Raises:
            AutogradError: the use is recorded for differentiation, or the value is lost.
        """
        if recorded and view is not None:
            self.check_differentiated(view)
        if self.lost:
            raise AutogradError(self.message)
        return self.array

    def check_differentiated(self, view: Tensor) -> None:
        """Check that no gradient flows through the tensor whose data it is.

        Raises:
            AutogradError: some does, or would if its history were that of its base.
        """
        flows = view._requires_grad and (view._base is None or node_of(view) is not None)  # else it is a leaf by itself
        if flows or (view._base is not None and view._base._requires_grad):
            raise AutogradError(self.message)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each dimension."""
        return self.array.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.array.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.array.size


def current_data(data: Any) -> Any:
    """Return a tensor's data, unwrapped if it is stale but not lost: what may be written to, or shared."""
    return data.array if type(data) is StaleData and not data.lost else data


def is_lost(tensor: Tensor) -> bool:
    """Tell whether the value of a stale view is unknown in this process."""
    return type(tensor._data) is StaleData and tensor._data.lost


def node_of(view: Tensor) -> Node | None:
    """Return the node that made a tensor, even if it is stale."""
    return view.__dict__.get("grad_fn")


def check_not_stale(view: Tensor) -> None:
    """Check that the place of a tensor in the graph may be used.

    Raises:
        AutogradError: it is a view that a Function returned, and its memory was changed (OU-12).
    """
    if type(view._data) is StaleData:
        view._data.for_use(True, view)


def creation_meta(view: Tensor) -> str | None:
    """Return the creation meta of a view, or of the nearest parent that has one: why its history must stay."""
    found: Tensor | None = view
    while found is not None:
        if found._made_by is not None:
            return found._made_by
        found = parent_of(found)
    return None


def check_rebase(view: Tensor) -> None:
    """Check that the history of a view may be rewritten.

    Raises:
        AutogradError: it, or a view that it was made from, was made by a Function, among several outputs, or under
            no_grad (OU-11, OU-13, OU-15).
    """
    kind = creation_meta(view)
    if kind is not None:
        raise AutogradError(forbidden_change(view, kind, "is being modified inplace"))


def mark_multiple_views(views: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what an op with several views as its outputs made, none of which may be changed in place where gradients
    are recorded (OU-13)."""
    if state.here.grad:
        for view in views:
            if getattr(view, "_base", None) is not None:
                view._made_by = SEVERAL
                if type(view._data) is np.ndarray or is_device_array(
                    view._data
                ):  # of a value of a session, the change itself tells its views
                    watch(view.counter(), view)
    return views


def forbidden_change(view: Tensor, kind: str | None, what: str) -> str:
    """Return why the history of a view must not be rewritten."""
    node = node_of(view)
    name = "a view" if node is None else f"Output {view.output_nr} of {node._title()} is a view and"
    if kind == NO_GRAD:
        return (
            f"{name} {what}. This view was created in no_grad mode and would be changed with gradients recorded: make "
            "it with gradients recorded, or change it under no_grad too"
        )
    if kind == SEVERAL:
        return (
            f"{name} {what}. This view is the output of a function that returns multiple views: such views cannot be "
            "changed in place. Clone it first, or use the out-of-place operation"
        )
    return (
        f"{name} {what}. This view was created inside a custom Function (or because an input was returned as-is), and "
        "rewriting its history would bypass the backward of that Function. Clone the output before changing it"
    )


def parent_of(tensor: Tensor) -> Tensor | None:
    """Return the parent of a view; None for a tensor that is no view, and for the shadow of a dead tensor."""
    recipe = tensor._recipe
    if recipe is None:
        return None
    return recipe[1]() if _is_shadow(recipe) else recipe[1]


def owner_of(tensor: Tensor) -> Tensor:
    """Return the tensor that owns the memory of `tensor`: itself if it is no view."""
    recipe = tensor._recipe
    if recipe is not None and not _is_shadow(recipe):
        tensor = recipe[2]
        recipe = tensor._recipe
    if recipe is None:
        return tensor
    owner = recipe[1]()
    return tensor if owner is None else owner


def has_views(tensor: Tensor) -> bool:
    """Tell whether a tensor's memory ever had views."""
    return (tensor if tensor._recipe is None else owner_of(tensor))._views is not None


def views_of(owner: Tensor) -> Iterator[Tensor]:
    """Yield the living views of an owner, each after the one it was made from."""
    for entry in list(owner._views or ()):
        view = entry()
        if view is not None:
            yield view
            yield from views_of(view)  # of a shadow; other views have none of their own
