"""In-place changes under forward mode: tangents change with the values that they belong to (FW-14).

`inplace.py` comes here first while a level of forward mode is open, and is called back for the changes themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..core.batched_data import innermost_vmap_level
from ..core.modes import state
from ..storage.storage import parent_of, views_of
from ..storage.view import UNKNOWN
from ..tensor.tangent_levels import TangentLevel, active_levels
from ..tensor.tensor import Tensor
from .view_replay import replay_view


def in_place(tensor: Tensor, compute: Callable[[Any], Any], change: Callable[[Any, Callable[[Any], Any]], Any]) -> Any:
    """Do `inplace.in_place` under forward mode: the tensor, its base and views then have the tangents of their values.
    `change` is that function.

    A tangent that is there is itself changed in place, so that its own views follow, as those of a value do.
    """
    levels: tuple[TangentLevel, ...] = state.forward
    held = tensor._tangents
    if held and state.grad:  # nodes keep what they are given: that must not be what is about to be overwritten
        for depth, level in enumerate(levels):
            tangent = level.of(tensor)
            if tangent is not None:
                with active_levels(levels[:depth]):
                    level.carry(tensor, ops.clone(tangent))
    try:
        result = compute(tensor)
    finally:
        tensor._tangents = held
    news = [level.of(result) for level in levels]
    with active_levels(()):
        change(tensor, lambda _: result)
    for depth, level in enumerate(levels):
        new, old = news[depth], level.of(tensor)
        if new is None and old is None:
            continue
        with active_levels(levels[:depth]):
            if new is None:
                new = ops.zeros_as(tensor)
            elif new.dtype != tensor.dtype:
                new = ops.to_dtype(new, tensor.dtype)
            if old is None:
                begin(level, tensor)
                old = level.of(tensor)
                assert old is not None
            if _is_of_more(new, old):
                widen(level, tensor, new)
                old = level.of(tensor)
                assert old is not None
            change(old, lambda _, new=new: new)
    return tensor


def begin(level: TangentLevel, changed: Tensor) -> None:
    """Give a tensor without a tangent, and the base and the views that share its memory, tangents of zero."""
    root = changed if changed._base is None else changed._base
    _carry(level, root, ops.clone(ops.zeros_as(root).detach()), ())


def _is_of_more(new: Tensor, old: Tensor) -> bool:
    """Tell whether a tangent is another one for each example of a vmap, and the one in its place the same for all."""
    return innermost_vmap_level((new,)) is not None and innermost_vmap_level((new,)) is not innermost_vmap_level((old,))


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
