"""Rebasing of history: the place in the graph of a tensor that was changed in place, and of its views.

The changed tensor, or its base, takes the place of the new value. A view loses its node with each change of its memory
(`View.expire`); `read_grad_fn` makes the next one when it is read, from the history that its base has by then.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from ..core.recorder import Data, Recorder
from ..dispatch.backward_node import attach_node
from ..nodes.node import NO_EDGE, Node, next_sequence
from ..nodes.op_node import OpNode
from ..storage.version_counter import tell_of_changes, was_changed
from ..storage.view import View, creation_meta, forbidden_change, update_views
from ..tensor.tensor import Tensor
from .copy_slices import EmptyView

if TYPE_CHECKING:
    from ..registry.registry import Op


class DetachedViewNode(Node):
    """The node of a view whose base has no history any more: it takes a gradient and passes none on."""

    def __init__(self, view: Tensor) -> None:
        self._edges = (NO_EDGE,)
        self._metas = ((view.shape, view.dtype),)
        self._sequence = next_sequence()

    def name(self) -> str:
        """Return PyTorch's name for the node of a view that is made again."""
        return "AsStridedBackward0"

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        return (None,)


def read_grad_fn(tensor: Tensor, view: View) -> Node | None:
    """Return the node of a view that holds none, made now if its memory was changed since it was made.

    Raises:
        AutogradError: its history must not be rewritten (OU-12, OU-15).
    """
    base, counter = view.base, tensor.counter()
    if base is None or not (base._requires_grad or view.before) or not was_changed(counter, view.version):
        return None
    kind = creation_meta(tensor)
    if kind is not None:
        raise AutogradError(forbidden_change(tensor, kind))
    if not base._requires_grad:
        replayed = Tensor.made(tensor._data, DetachedViewNode(tensor))
    elif view.sure and tensor._storage is base._storage:
        replayed = _replayed(tensor, view)
    else:
        return None
    node = replayed._grad_fn
    if node is not None:
        if view.before and view.before[0] and tensor._retains_grad:
            move_retained(tensor, *view.before, node, replayed.output_nr)
        tensor._grad_fn, tensor.output_nr, tensor._requires_grad = node, replayed.output_nr, True
        view.before, view.version = None, counter[0]
        if tensor._storage is not None:
            tell_of_changes(counter, tensor._storage)
    return node


def _replayed(tensor: Tensor, view: View) -> Tensor:
    """Return a tensor of a view's data with a history that leads from its base, by nodes that it shares with no other
    view. No op runs."""
    parent: Any = view.parent
    above = parent._view
    if above is not None and above.base is not None:
        parent = _replayed(parent, above)
    made = Tensor.made(tensor._data)
    op: Op = view.op  # type: ignore[assignment]
    datas = [one._data if isinstance(one, Tensor) else one for one in (parent, *view.operands)]
    attach_node(op, (parent, *view.operands), view.params, datas, (made,))
    if type(made._grad_fn) is OpNode and 0 in made.shape:
        made._grad_fn.__class__ = EmptyView
    return made


def rebase_history(tensor: Tensor, result: Tensor) -> None:
    """Put a tensor that is no view in the place of the result in the graph."""
    node = result.grad_fn
    assert node is not None
    if tensor._retains_grad:
        move_retained(tensor, tensor._grad_fn, tensor.output_nr, node, result.output_nr)
    tensor._grad_fn, tensor.output_nr, tensor._requires_grad = node, result.output_nr, True
    update_views(tensor)


def move_retained(tensor: Tensor, before: Node | None, number: int, node: Node, output_nr: int) -> None:
    """Let output `output_nr` of a node fill a tensor's `.grad`, and what it was before not any more."""
    if before is None or before._retained is None:
        return
    before._retained.pop(number, None)
    if node._retained is None:
        node._retained = {}
        node._hooked = True
    node._retained[output_nr] = weakref.ref(tensor)
