"""Views: how a tensor shows memory of a `Storage`, and what stands for its place in the graph.

A view holds what replays it: the op, its parent and its parameters. After a change, `mutation` replays it: for its
value in a session, where memory is not shared, and for its node when that is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from raygrad.errors import AutogradError

from ..core.modes import state
from .storage import Storage, storage_of, views_of
from .version_counter import tell_of_changes
from .view_geometry import GeometricView

if TYPE_CHECKING:
    from ..nodes.node import Node
    from ..registry.registry import Op
    from ..tensor.tensor import Tensor
    from .view_geometry import ViewGeometry

FUNCTION, SEVERAL, NO_GRAD = "function", "several", "no_grad"
"""Creation metas, of views whose history must not be rewritten: a Function, an op or Function of several outputs, or
code under no_grad made them."""

STALE = "its base or another view of its base has been modified inplace"


class _Unknown:
    name = "a custom Function"


UNKNOWN: Any = _Unknown()
"""In the place of a view's op: a Function made the view of its argument on a worker, where it lies by no rule."""


_new: Any = object.__new__


class View:
    """How a tensor shows memory that is not its own alone: a differentiable view, or an alias without history.

    The node of a differentiable view is the tensor's `grad_fn` until its memory is changed, which ends that (`expire`);
    it is made again when it is read. So a node that nobody reads is never made, as in PyTorch.
    """

    __slots__ = ("base", "before", "creation", "op", "operands", "owns_grad", "params", "parent", "sure", "version")

    def __init__(
        self,
        parent: Tensor | None = None,
        op: Op | GeometricView | None = None,
        operands: Sequence[Any] = (),
        params: tuple[Any, ...] = (),
        sure: bool = True,
        base: Tensor | None = None,
        creation: str | None = None,
    ) -> None:
        self.parent = parent
        """What it is made from; None of what shows all of the memory."""
        self.op = op
        """The view op; None of what shows all that its parent does; a `GeometricView` of what a Function made."""
        self.operands = operands
        """Those of the op beside the parent."""
        self.params = params
        self.sure = sure
        """Whether it shares the memory for certain: of a pending value nobody here can tell if `reshape` copies it."""
        self.base = base
        """The tensor from which its history leads, through all views in between; None of an alias."""
        self.creation = creation
        """Its creation meta; None where its history may be rewritten."""
        self.version = 0
        """That of its memory when its node was made, or, without one, when it was itself."""
        self.before: tuple[Node | None, int] | None = None
        """Its place in the graph before its memory was changed, until the next is read, without the node where nobody
        needs that any more; None if it had none."""
        self.owns_grad = False
        """Of a view without a node: whether it was made to require grad, and not only its base."""

    def show(self, like: View, parent: Tensor | None) -> None:
        """Show the memory that another view does, made of `parent`."""
        self.parent, self.op, self.operands, self.params, self.sure = (
            parent,
            like.op,
            like.operands,
            like.params,
            like.sure,
        )

    def expire(self, tensor: Tensor) -> None:
        """End the place of the tensor in the graph: its memory was changed."""
        node = tensor._grad_fn
        if node is None or self.base is None:
            return
        kind = creation_meta(tensor)
        if kind is None and self.base._storage is not tensor._storage:  # one of them has other memory by now
            return
        tensor._grad_fn = None
        self.before = (node if kind is not None or tensor._retains_grad else None, tensor.output_nr)


# ---- how they are made -----------------------------------------------------------------------------------------------


def record_view(
    view: Tensor, op: Op, operands: Sequence[Any], params: tuple[Any, ...], sure: bool, recorded: bool
) -> None:
    """Record that a view op made `view` of its first operand, with which it counts changes (CX-14).

    Args:
        sure: whether it shares the memory for certain.
        recorded: whether gradients are.
    """
    parent: Tensor = operands[0]
    counter: list[Any] | None = parent._counter
    if counter is None:
        view.share_counter(parent)
        counter = view.counter()
    else:
        view._counter = counter
    above = parent._view
    made: View = _new(View)  # nearly every slice makes one: an `__init__` would take longer than all of this
    made.parent = parent
    made.op = op
    made.operands = operands[1:]
    made.params = params
    made.sure = sure
    made.base = base = parent if above is None or above.base is None else above.base
    made.creation = None if recorded else NO_GRAD
    made.version = counter[0]
    made.before = None
    made.owns_grad = False
    view._view = made
    storage = parent._storage
    if storage is None:
        storage = parent._storage = Storage()
    storage.enter(view)
    if base._requires_grad:
        view._requires_grad = True
    if view._requires_grad and counter[-1] is not storage:
        tell_of_changes(counter, storage)


def _enter(tensor: Tensor, storage: Storage, view: View) -> None:
    """Make a tensor a member of a storage, and have it require grad while its base does."""
    tensor._view = view
    storage.enter(tensor)
    if view.base is not None:
        view.version = tensor.counter()[0]
        tell_of_changes(tensor.counter(), storage)
        if view.base._requires_grad:
            tensor._requires_grad = True


def record_alias(alias: Tensor, tensor: Tensor) -> None:
    """Record that `alias` is `tensor` without its history: of a view, the same view of an alias of its parent. So it
    retains no graph."""
    made = alias._view or View()  # with other memory it keeps its own history
    view = tensor._view
    if view is not None and view.parent is not None:
        made.show(view, view.parent.detach())
    alias._view = made
    storage_of(tensor).enter(alias)


def record_output_view(view: Tensor, output: Tensor, base: Tensor | None, creation: str | None) -> None:
    """Record that `view`, which a Function returned, shows what `output` does; its history leads from `base`."""
    made = View(base=base, creation=creation)
    if output._view is not None:
        made.show(output._view, output._view.parent)
    _enter(view, storage_of(output), made)


def record_function_view(
    view: Tensor, source: Tensor, geometry: ViewGeometry | None, creation: str, *, sure: bool = False
) -> None:
    """Record that a Function's forward made `view` of `source`, which is `view` itself where only forward knew it.

    Args:
        geometry: which elements it shows, None if that is not known.
        sure: whether it shares the memory for certain.
    """
    base = source if source._base is None else source._base
    op: Any = UNKNOWN if geometry is None else GeometricView(geometry, view.shape)
    parent = None if source is view else source
    _enter(view, storage_of(source), View(parent, op, (), (), sure, base, creation))


def function_creation(several: bool) -> str:
    """Return the creation meta of a view that a Function, of one or `several` outputs, returns now."""
    return NO_GRAD if not state.here.grad else SEVERAL if several else FUNCTION


def mark_multiple_views(views: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what an op with several views as its outputs made, none of which may be changed in place where gradients
    are recorded (OU-13)."""
    if state.here.grad:
        for view in views:
            if getattr(view, "_base", None) is not None:
                view._view.creation = SEVERAL
    return views


def leave_storage(tensor: Tensor) -> None:
    """Take a tensor from its memory. What was made of it shows the old memory on, through an alias in its place."""
    storage, view = tensor._storage, tensor._view
    if storage is None:
        return
    children = [one for one in storage.living() if one._view is not None and one._view.parent is tensor]
    if children:
        heir = tensor.alias()
        heir._view = View()
        if view is not None:
            heir._view.show(view, view.parent)
        storage.replace(tensor, heir)
        for child in children:
            cast("View", child._view).parent = heir
    tensor._storage = None
    if view is not None:
        view.show(View(), None)


# ---- their place in the graph ----------------------------------------------------------------------------------------


def has_node(tensor: Tensor) -> bool:
    """Tell whether a node made a tensor, also if that has ended by a change of its memory."""
    return tensor._grad_fn is not None or (tensor._view is not None and tensor._view.before is not None)


def owns_grad(tensor: Tensor) -> bool:
    """Tell whether a tensor requires grad by itself, as a leaf whose flag was set or as what a node made; a view does
    as well while its base does."""
    view = tensor._view
    if view is None or view.base is None:
        return tensor._requires_grad
    return view.owns_grad or has_node(tensor)


def update_views(base: Tensor) -> None:
    """Let the views of a tensor require grad while it does, after its flag or its place in the graph has changed."""
    for view in views_of(base):
        if view._base is base:
            view._requires_grad = base._requires_grad or owns_grad(view)


def creation_meta(view: Tensor) -> str | None:
    """Return the creation meta of a view, or of the nearest parent that has one: why its history must stay."""
    found: View | None = view._view
    while found is not None:
        if found.creation is not None:
            return found.creation
        found = None if found.parent is None else found.parent._view
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


def forbidden_change(view: Tensor, kind: str | None, what: str = STALE) -> str:
    """Return why the history of a view must not be rewritten."""
    node = view._grad_fn
    if node is None and view._view is not None and view._view.before is not None:
        node = view._view.before[0]
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


class LostData:
    """In a session, in place of the data of a view that a Function returned, once its memory was changed and nobody
    here can tell what that means for it: its description, and why it cannot be used."""

    __slots__ = ("array", "message")

    def __init__(self, view: Tensor) -> None:
        held = view._data
        self.array: Any = held.array if type(held) is LostData else held
        """The value that it had before."""
        self.message = forbidden_change(view, creation_meta(view))

    def refuse(self) -> NoReturn:
        """Raise the error of every use.

        Raises:
            AutogradError: always.
        """
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
