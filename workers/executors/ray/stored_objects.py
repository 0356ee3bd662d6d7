"""The objects of the Ray executor, by id: references to what actors have returned, and to the client's large arrays.

This process owns all of them, and drops them by dropping the reference. The executor names them in calls, reads them,
and asks here what is lost when Ray says that something is.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from raygrad.errors import ExecutionError
from raygrad.proto.codec.values import pack_values
from raygrad.proto.ir.program import Item

from ..base import ObjectId
from .connection import object_nodes, objects_nowhere

HEADER_BYTES: Final = 2048
"""The most bytes of an object in the store beside its arrays: their specs, and Ray's own header. Far less than the
smallest object that is in the store at all."""

STORED_BYTES: Final = 128 * 1024
"""Objects of more bytes are in an object store. Ray keeps those of up to 100 KiB in the memory of their owner."""

RESCUE_DEADLINE: Final = 10.0
"""Seconds to fetch an object from a node that is about to go."""

PUT_BYTES: Final = 64 * 1024
"""An external read-only array of this size or more is put into the store once, while it lives (H17)."""


class StoredObjects:
    """References to objects, with their sizes. Not safe for use by several threads at once.

    Args:
        ray: Ray's module.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._references: dict[ObjectId, Any] = {}
        self._sizes: dict[ObjectId, int] = {}
        self._constants: dict[int, tuple[weakref.ref[Any], Any]] = {}
        """By id of a live array, the object that holds it."""

    def __len__(self) -> int:
        return len(self._references)

    def __getitem__(self, name: ObjectId) -> Any:
        """Return the reference of an object.

        Raises:
            ExecutionError: there is none of this name.
        """
        reference = self._references.get(name)
        if reference is None:
            raise ExecutionError(f"the object {tuple(name)} was dropped, or never asked for")
        return reference

    def enter(self, name: ObjectId, reference: Any) -> None:
        """Hold an object that was asked for."""
        self._references[name] = reference

    def measured(self, name: ObjectId, size: int) -> None:
        """Note the bytes of an object that was made."""
        self._sizes[name] = size

    def rename(self, name: ObjectId, other: ObjectId) -> None:
        """Hold an object under another name."""
        self._references[other] = self._references.pop(name)
        self._sizes[other] = self._sizes.pop(name, 0)

    def drop(self, name: ObjectId) -> None:
        """Release an object, if it is held."""
        self._references.pop(name, None)
        self._sizes.pop(name, None)

    def forget(self, names: Iterable[ObjectId]) -> None:
        """Hold objects no longer that will not be made."""
        for name in names:
            self._references.pop(name, None)

    def external(self, value: Any, references: list[Any]) -> Any:
        """Return an external input as a call names it: a large read-only array goes by one of `references`, to which it
        is appended."""
        if type(value) is not np.ndarray or value.nbytes < PUT_BYTES or value.flags.writeable:
            return value
        known = self._constants.get(id(value))
        if known is None or known[0]() is not value:
            identity = id(value)
            watch = weakref.ref(value, lambda _: self._constants.pop(identity, None))
            known = self._constants[identity] = (watch, self._ray.put(pack_values([value])))
        references.append(known[1])
        return Item(len(references) - 1, 0)

    # ---- losses -----------------------------------------------------------------------------------------------------

    def gone(self, error: Any) -> tuple[ObjectId, ...]:
        """Return the objects that are gone from the store: the one that Ray's `error` names, and those that are
        nowhere."""
        named = getattr(getattr(error, "cause", None) or error, "object_ref_hex", "")
        stored = {name: one for name, one in self._references.items() if self._sizes.get(name, 0) > STORED_BYTES}
        nowhere = objects_nowhere([*stored.values()]) if stored else set[Any]()
        return tuple(
            [
                name
                for name, one in self._references.items()
                if one.hex() == named or (name in stored and one in nowhere)
            ]
        )

    def rescue(self, node: str) -> None:
        """Put objects that are in the store of one node only into that of this process's node."""
        there = object_nodes(list(self._references.values())) if self._references else {}
        for name, reference in list(self._references.items()):
            if there.get(reference) == frozenset((node,)):
                try:
                    self._references[name] = self._ray.put(self._ray.get(reference, timeout=RESCUE_DEADLINE))
                except self._ray.exceptions.RayError:
                    continue  # whoever reads it says what is wrong with it

    # ---- sizes ------------------------------------------------------------------------------------------------------

    @property
    def most_bytes(self) -> int:
        """The most bytes that all objects take in the store, with their headers."""
        headers = HEADER_BYTES * (len(self._sizes) + len(self._constants))
        return sum(self._sizes.values()) + self.constant_bytes + headers

    @property
    def constant_bytes(self) -> int:
        """Bytes of the client's arrays, which are dropped when those arrays die."""
        return sum(array.nbytes for watch, _ in list(self._constants.values()) if (array := watch()) is not None)

    def clear(self) -> None:
        """Release all objects."""
        self._references.clear()
        self._sizes.clear()
        self._constants.clear()
