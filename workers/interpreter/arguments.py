"""Arguments of a user Function's forward on a worker: read-only tensors over slots, with the aliasing of the client.

`functions` compiles each forward with it. An argument that forward may change in place is a private copy (DR-03).
Arguments that share memory in the recorded program share it in forward, too, where forward may change one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from raygrad.autograd.core.array_layout import as_dense
from raygrad.autograd.devices.serving import device_guard
from raygrad.autograd.dispatch.device_dispatch import copied
from raygrad.autograd.storage.view_geometry import GeometricView, ViewGeometry
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import GraphError
from raygrad.proto.ir.nodes import UNDEFINED

from ..values.slots import Slots

_new: Any = object.__new__
_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray

Where: TypeAlias = "tuple[Any, ...]"
"""Per argument, () if its value is the whole input. Else the argument is a view of the input: (place, shape, position
of the argument that is the same tensor, or its own)."""


def given(array: Any, requires_grad: bool = False) -> Any:
    """Return the tensor that user code gets for an array: over a dense, read-only view of it (H1, DR-03)."""
    if type(array) is not _ARRAY:
        return _given_on_device(array, requires_grad)
    flags = array.flags
    if not flags.c_contiguous and any(array.strides):  # not one element that is shown everywhere, a gradient of a sum
        array = as_dense(array)
        flags = array.flags
    if flags.writeable:
        array = array.view()
        array.setflags(write=False)
    tensor = _new(Tensor)
    tensor._data = array
    tensor._requires_grad = requires_grad
    return tensor


def _given_on_device(array: Any, requires_grad: bool) -> Any:
    """Return the same for an array of a device. Device libraries have no read-only arrays, so the tensor is frozen."""
    with device_guard(array):
        tensor = Tensor.made(as_dense(array))
    tensor._frozen = True
    tensor._requires_grad = requires_grad
    return tensor


def writable(tensor: Tensor) -> Any:
    """Make an argument writable that forward may change in place: its data becomes a private copy (DR-03).

    An expanded array is not copied: its elements share memory, and a copy would have another layout (H1).
    """
    array = tensor._data
    if array.flags.c_contiguous or array.flags.f_contiguous or all(array.strides):
        tensor._data = copied(array)
        tensor._frozen = False
    return tensor


def compile_arguments(
    sources: Sequence[int], flags: Sequence[int], where: Where, changes: frozenset[int] | None
) -> Callable[[Slots], tuple[Any, ...]]:
    """Return a function that makes the arguments of forward from slots.

    Args:
        sources: per argument, the slot that it is read from.
        flags: per argument, more than 0 if its gradient is wanted, 0 if not, -1 if it is no tensor.
        where: see `Where`; () if no argument is a view of another value.
        changes: the arguments that forward changes in place; None if unknown.
    """
    if where and any(where):
        return _compile_aliased_arguments(sources, flags, where, changes)
    operands = tuple(zip(sources, flags, strict=True))
    again = _repeated(sources, flags)
    changed: Sequence[int] = [i for i, flag in enumerate(flags) if flag >= 0]
    if changes is not None:
        meant = changes | {first for position, first in again if position in changes}
        changed = [i for i in changed if i in meant]

    def arguments(slots: Slots) -> tuple[Any, ...]:
        given_to: list[Any] = []
        for source, flag in operands:
            value = None if source == UNDEFINED else slots[source]
            given_to.append(value if flag < 0 else given(value, flag > 0))
        for position in changed:
            writable(given_to[position])
        return _alias_repeated(given_to, again) if again else tuple(given_to)

    return arguments


def compile_originals(sources: Sequence[int], where: Where) -> Callable[[Slots], list[Any]]:
    """Return a function that reads the values of arguments before forward runs."""

    def originals(slots: Slots) -> list[Any]:
        values: list[Any] = []
        for position, source in enumerate(sources):
            value = None if source == UNDEFINED else slots[source]
            if where and where[position]:
                value = _views(value, [_placed(where[position])])[0]
            values.append(value)
        return values

    return originals


# ---- aliasing --------------------------------------------------------------------------------------------------------


def _repeated(sources: Sequence[int], flags: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return (position, earlier position) of arguments that read the same slot as an earlier one."""
    first: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for position, (source, flag) in enumerate(zip(sources, flags, strict=True)):
        if flag >= 0 and source != UNDEFINED and first.setdefault(source, position) != position:
            found.append((position, first[source]))
    return tuple(found)


def _alias_repeated(args: Sequence[Any], again: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
    """Return the arguments with repeated ones as one tensor, or as aliases if one was detached: forward sees its
    in-place changes through either, as it does eagerly."""
    out = list(args)
    for position, first in again:
        earlier = out[first]
        flag = out[position]._requires_grad
        out[position] = earlier
        if flag != earlier._requires_grad:
            out[position] = earlier.alias()
            out[position]._requires_grad = flag
    return tuple(out)


def _compile_aliased_arguments(
    sources: Sequence[int], flags: Sequence[int], where: Where, changes: frozenset[int] | None
) -> Callable[[Slots], tuple[Any, ...]]:
    """Return the same where arguments are views of one value: forward sees its in-place changes through all of them."""
    groups: dict[int, list[int]] = {}
    for position, source in enumerate(sources):
        if where[position]:
            groups.setdefault(source, []).append(position)
    shared = {position for positions in groups.values() for position in positions}
    alone = [position for position in range(len(sources)) if position not in shared]
    others = compile_arguments(
        [sources[i] for i in alone],
        [flags[i] for i in alone],
        (),
        None if changes is None else frozenset([n for n, i in enumerate(alone) if i in changes]),
    )
    views = {source: [_placed(where[i]) for i in positions] for source, positions in groups.items()}
    again = [(i, where[i][2]) for i in sorted(shared) if where[i][2] != i]

    def arguments(slots: Slots) -> tuple[Any, ...]:
        out: list[Any] = [None] * len(sources)
        for position, value in zip(alone, others(slots), strict=True):
            out[position] = value
        for source, positions in groups.items():
            array = slots[source]
            if _is_copied_for_writing(array):
                array = copied(array)
            first: Tensor | None = None
            for position, view in zip(positions, _views(array, views[source]), strict=True):
                tensor = out[position] = Tensor.made(view)
                tensor._requires_grad = flags[position] > 0
                if first is None:
                    first = tensor
                tensor.share_counter(first)
        return _alias_repeated(out, again)

    return arguments


def _is_copied_for_writing(array: Any) -> bool:
    """Tell whether the elements of an array share no memory, so that a writable copy is made: an expanded array is not
    copied (H1)."""
    shared = [extent for stride, extent in zip(array.strides, array.shape, strict=True) if not stride and extent > 1]
    return not shared or not array.size


def _placed(where: Any) -> GeometricView:
    place, shape, _ = where
    order, parts, offset, strides = place
    return GeometricView(ViewGeometry(tuple(order), parts, offset, tuple(strides)), tuple(shape))


def _views(array: Any, places: Sequence[GeometricView]) -> list[Any]:
    """Return views of an array, or of a copy whose layout admits such views (H1)."""
    made = _views_over(array, places)
    natural = tuple(range(array.ndim))
    for order in (natural, *[one.geometry.order for one in places if one.geometry.order != natural]):
        if made is not None:
            return made
        laid = array.transpose(order).copy(order="C")
        made = _views_over(laid.transpose([order.index(axis) for axis in natural]), places)
    if made is None:
        raise GraphError(f"an array of shape {array.shape} cannot be laid out for the views of it that a Function gets")
    return made


def _views_over(array: Any, places: Sequence[GeometricView]) -> list[Any] | None:
    with device_guard(array):
        views = [one.over(array) for one in places]
    return None if any(view is None for view in views) else views
