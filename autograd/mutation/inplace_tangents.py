"""In-place changes under forward mode: tangents change with the values that they belong to (FW-14).

`inplace.py` comes here first while a level of forward mode is open, and is called back for the changes themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..core.batched_data import Batched, innermost_vmap_level, open_vmap_levels_of
from ..core.modes import state
from ..core.recorder import Pending
from ..storage.storage import parent_of, views_of
from ..storage.view import UNKNOWN
from ..tensor.tangent_levels import TangentLevel, active_levels, share_tangents
from ..tensor.tensor import Tensor
from ..vmap import whole_batch_change
from .view_replay import replay_view


def in_place(
    tensor: Tensor,
    compute: Callable[[Any], Any],
    change: Callable[[Any, Callable[[Any], Any]], Any],
    *,
    writes: bool = True,
) -> Any:
    """Do `inplace.in_place` under forward mode: the tensor, its base and views then have the tangents of their values.
    `change` is that function. One that does not write to memory (`writes`) gives the tensor another shape of it.

    A tangent that is there is itself changed in place, so that its own views follow, as those of a value do.
    """
    levels: tuple[TangentLevel, ...] = state.forward
    # nodes keep what they are given: with gradients recorded, that must not be what is about to be overwritten
    result = compute(_in_other_memory(levels, tensor) if writes and state.grad else tensor)
    changes = [(tensor, result)]
    while writes and innermost_vmap_level(changes[-1]) is not None:
        changes.append(whole_batch_change(*changes[-1]))
    news = [[level.of(new) for level in levels] for _, new in changes]
    with active_levels(()):
        change(tensor, lambda _: result)
    for (target, _), tangents in zip(changes, news, strict=True):
        for depth, level in enumerate(levels):
            if tangents[depth] is not None or level.of(target) is not None:
                with active_levels(levels[:depth]):
                    _change_tangent(level, target, tangents[depth], change)
    return tensor


def _in_other_memory(levels: tuple[TangentLevel, ...], tensor: Tensor) -> Tensor:
    """Return a copy of a tensor, with copies of its tangents, in the tensor's place in the graph; a leaf that requires
    grad, which must not be changed, as it is."""
    if tensor._requires_grad and tensor.grad_fn is None:
        return tensor
    data = tensor._data
    if type(data) is Batched:
        data = Batched(_in_other_memory(levels, data.value), data.dim, data.level)
    elif type(data) is not Pending:
        data = data.copy(order="K")
    made = share_tangents(tensor, Tensor.made(data, tensor.grad_fn, tensor.output_nr))
    for depth, level in enumerate(levels):
        tangent = level.of(tensor)
        if tangent is not None:
            with active_levels(levels[:depth]):
                level.carry(made, ops.clone(tangent))
    return made


def _change_tangent(
    level: TangentLevel, tensor: Tensor, new: Tensor | None, change: Callable[[Any, Callable[[Any], Any]], Any]
) -> None:
    """Give a tensor that was changed its tangent at a level, in place: that of its new value, zero for None."""
    value: Tensor = ops.zeros_as(tensor) if new is None else new
    if value.dtype != tensor.dtype:
        value = ops.to_dtype(value, tensor.dtype)
    if level.of(tensor) is None:
        begin(level, tensor)
    old = level.of(tensor)
    assert old is not None
    if _is_of_more(value, old):
        widen(level, tensor, value)
        old = level.of(tensor)
        assert old is not None
    change(old, lambda _: value)


def begin(level: TangentLevel, changed: Tensor) -> None:
    """Give a tensor without a tangent, and the base and the views that share its memory, tangents of zero."""
    root = changed if changed._base is None else changed._base
    _carry(level, root, ops.clone(ops.zeros_as(root).detach()), ())


def _is_of_more(new: Tensor, old: Tensor) -> bool:
    """Tell whether a tangent is another one for each example of a vmap, and the one in its place the same for all."""
    return not open_vmap_levels_of(new) <= open_vmap_levels_of(old)


def widen(level: TangentLevel, changed: Tensor, new: Tensor) -> None:
    """Give a tensor, its base and its views in the place of a tangent that is the same for all examples of a vmap one
    for each, so that `new` can be written to it."""
    root = changed if changed._base is None else changed._base
    old = level.of(root)
    assert old is not None
    over_examples = ops.reshape(ops.zeros_as(new), (-1,))[:1].sum()
    _carry(level, root, ops.clone(old + over_examples), (changed, *views_of(root)))


def _carry(level: TangentLevel, root: Tensor, tangent: Tensor, again: Sequence[Tensor]) -> None:
    """Give a base a tangent, and its views those that it means for them: views without one, and those of `again`."""
    level.carry(root, tangent)
    for tensor in views_of(root):
        view, parent = tensor._view, parent_of(tensor)
        if view is None or view.op in (None, UNKNOWN) or parent is None:
            continue  # an alias without history has no tangent
        if level.of(tensor) is not None and not any([tensor is one for one in again]):
            continue  # a dual has its own
        above = level.of(parent)
        if above is not None and view.base is root:
            level.carry(tensor, replay_view(tensor, above))
