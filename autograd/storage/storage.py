"""Storage: memory that tensors share, and its members: the tensor that owns it, its views and its aliases.

A fresh tensor has none; its first view or alias makes it. Counts of changes are apart (`version_counter`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray

SWEEP_AT = 16
"""Members of a storage at which dead ones are dropped."""


class Storage:
    """Memory shared by tensors. It keeps none of them alive."""

    __slots__ = ("members", "owned_by", "strides")

    def __init__(self) -> None:
        self.members: list[weakref.ref[Tensor]] = []
        """Its views and aliases, in the order in which they came."""
        self.owned_by: weakref.ref[Tensor] | None = None
        """The tensor that it was made by, for aliases of it; views find it as the first of their parents."""
        self.strides: tuple[int, ...] | None = None
        """In a session, those of the owner, which changes in place keep; None where only a kernel knows them."""

    def owner(self) -> Tensor:
        """Return the tensor that shows all of the memory: the one that it was made by, or an alias of that, once that
        is gone or has other memory."""
        owner = None if self.owned_by is None else self.owned_by()
        if owner is None or owner._storage is not self:
            owner = next(one for one in self.living() if one._view is None or one._view.parent is None)
        return owner

    def enter(self, tensor: Tensor) -> None:
        """Make a tensor a member."""
        tensor._storage = self
        members = self.members
        if len(members) >= SWEEP_AT and not len(members) & (len(members) - 1):  # a power of two: linear in all
            self.members = members = [known for known in members if known() is not None]
        members.append(weakref.ref(tensor))

    def replace(self, member: Tensor, heir: Tensor) -> None:
        """Let `heir`, which shows the same of the memory, be a member in the place of another."""
        heir._storage = self
        if member._view is None:
            self.owned_by = weakref.ref(heir)
        self.members = [weakref.ref(heir) if one() is member else one for one in self.members]

    def living(self) -> Iterator[Tensor]:
        """Yield the members that are alive, each after the one it was made from."""
        for entry in list(self.members):
            tensor = entry()
            if tensor is not None and tensor._storage is self:
                yield tensor

    def expire_nodes(self, counter: list[int]) -> None:
        """End the place in the graph of the views that count changes with a counter: it counted one."""
        for tensor in self.living():
            if tensor._counter is counter and tensor._view is not None:
                tensor._view.expire(tensor)


def storage_of(tensor: Tensor) -> Storage:
    """Return a tensor's storage, made now if it is the first time that it is shared."""
    storage = tensor._storage
    if storage is None:
        storage = tensor._storage = Storage()
    if tensor._view is None and storage.owned_by is None:
        storage.owned_by = weakref.ref(tensor)
    return storage


def owner_of(tensor: Tensor) -> Tensor:
    """Return the tensor that owns the memory of `tensor`: itself if it is no view."""
    storage = tensor._storage
    while storage is not None and tensor._view is not None:
        if tensor._view.parent is None:
            return storage.owner()
        tensor = tensor._view.parent
    return tensor


def parent_of(tensor: Tensor) -> Tensor | None:
    """Return what a view was made of, of an alias the owner of its memory; None for that owner."""
    view = tensor._view
    if view is None or tensor._storage is None:
        return None
    if view.parent is not None:
        return view.parent
    owner = tensor._storage.owner()
    return None if owner is tensor else owner


def views_of(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the living views and aliases of the memory of a tensor but its owner, each after the one it was made
    from."""
    if tensor._storage is not None:
        owner = owner_of(tensor)
        for view in tensor._storage.living():
            if view is not owner:
                yield view


def has_views(tensor: Tensor) -> bool:
    """Tell whether a tensor's memory ever had views or aliases."""
    return tensor._storage is not None and bool(tensor._storage.members)


def note_exported(tensor: Tensor) -> None:
    """Note that others can write to the memory of a tensor from now on, for all that show it."""
    for one in (owner_of(tensor), *views_of(tensor)):
        one._shares_memory = True


def is_shared(tensor: Tensor) -> bool:
    """Tell whether another tensor shows memory of this one now."""
    return owner_of(tensor) is not tensor or any(True for _ in views_of(tensor))


def memory_key(tensor: Tensor) -> tuple[object, ...] | None:
    """Return what tensors that show the same elements of one memory have in common while they live, None if a tensor
    shares its memory with none."""
    data: Any = tensor._data
    if type(data) is _ARRAY:
        where = data.__array_interface__["data"][0]
        return (where, data.shape, data.strides, data.dtype.str) if data.size else None
    return None if tensor._storage is None else (id(tensor._storage), id(data))
