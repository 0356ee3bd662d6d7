"""Version counters: counts of in-place changes of memory, and errors for saved values that were changed (CX-13).

A tensor shares its counter with views and aliases. Nodes save the counter with a value and compare the version when
they run. A counter is a list of the version, the clock at the last change, and the storages, if there are any, in which
there are views with history. Rare events (detached or exchanged data) are kept in the version itself, at no cost where
counters are made and compared.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.recorder import Data
    from ..nodes.node import Edge, Node
    from ..tensor.tensor import Tensor
    from .storage import Storage

CLOCK = [0]
"""The number of in-place changes in this process: while it is equal, nothing was changed."""


def new_counter() -> list[int]:
    """Return the counter of memory that was never changed."""
    return [0, 0]


def bump(counter: list[int]) -> None:
    """Count an in-place change, which ends the place in the graph of the views that watch for it."""
    CLOCK[0] += 1
    counter[0] += 1
    counter[1] = CLOCK[0]
    if len(counter) > 2:
        storages: list[Storage] = counter[2:]  # type: ignore[assignment]
        for storage in storages:
            storage.expire_nodes(counter)


def tell_of_changes(counter: list[Any], storage: Storage) -> None:
    """Let changes that a counter counts end the place in the graph of the views in a storage."""
    if len(counter) == 2 or storage not in counter:
        counter.append(storage)


class AnnotatedVersion(int):
    """A version with notes on events that are no changes: a tensor was detached in place, had its data exchanged, or
    was made to require grad.

    It compares unequal to every other object, so that a node that saved a value at the same version looks closer. As a
    number it is the same version, and the next change discards the notes.
    """

    places: tuple[tuple[weakref.ref[Node], int], ...] = ()
    """Whose outputs they were that were detached: the node, which must not be kept alive, and the number."""
    exchanges: tuple[_Exchange, ...] = ()
    """What tensors held that now hold something else."""
    leaves: tuple[tuple[weakref.ref[Tensor], weakref.ref[Data]], ...] = ()
    """Those that were made to require grad, each with what stood for it in graphs until then."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = int.__hash__


def _noted(counter: list[int]) -> AnnotatedVersion:
    """Return a new version of a counter, with what was noted at the one that it has."""
    before = counter[0]
    version = AnnotatedVersion(before)
    if isinstance(before, AnnotatedVersion):
        version.places, version.exchanges, version.leaves = before.places, before.exchanges, before.leaves
    counter[0] = version
    return version


def note_detached(counter: list[int], node: Node, number: int) -> None:
    """Note that output `number` of a node is detached in place, for whoever has saved it (CX-32)."""
    version = _noted(counter)
    version.places = (*version.places, (weakref.ref(node), number))


def note_requires_grad(counter: list[int], leaf: Tensor) -> None:
    """Note that a leaf has been made to require grad, for whoever has saved it."""
    version = _noted(counter)
    held = leaf._data if leaf._snapshot is None else leaf._snapshot[2]
    living = [(one, data) for one, data in version.leaves if one() is not None and data() is not None]
    version.leaves = (*living, (weakref.ref(leaf), weakref.ref(held)))


def leaf_requiring_grad(counter: list[int], data: Data) -> Tensor | None:
    """Return the leaf that requires grad by now, where `data` stood for it when it was saved; None if there is none."""
    version = counter[0]
    if isinstance(version, AnnotatedVersion):
        for one, held in version.leaves:
            leaf = one() if held() is data else None
            if leaf is not None and leaf._requires_grad and leaf.grad_fn is None:
                return leaf
    return None


def note_exchanged(
    counter: list[int], old: Data, new: Tensor, *, written: bool = False, edge: Edge | None = None
) -> None:
    """Note that a tensor that held `old` has the memory of `new` from now on, for whoever has saved it (CX-14).

    Args:
        written: its memory was changed by a name that counts changes for itself, so that it holds other values: those
            who keep the memory and not the tensor, as nodes do of their outputs, see that, too.
        edge: where the gradient of the tensor goes, where `old` alone does not tell it from what else holds that.
    """
    version = _noted(counter)
    known = [one for one in version.exchanges if one.held() is not None]
    seen = False
    for one in known:
        here = one.held() is old and one.is_known_by(edge)
        seen = seen or here
        if (one.tensor._data is old) if one.tensor is not None else here:
            one.tensor = new
        if written and ((one.memory._data is old) if one.memory is not None else here):
            one.memory = new
    if not seen:
        producer = None if edge is None or edge[0] is None else weakref.ref(edge[0])
        whose = None if edge is None else (producer, edge[1])
        known.append(_Exchange(weakref.ref(old), whose, new, new if written else None))
    version.exchanges = tuple(known)


class _Exchange:
    """What was held when something was saved; which tensor now has what the tensor, or its memory, has become."""

    __slots__ = ("held", "memory", "tensor", "whose")

    def __init__(
        self,
        held: weakref.ref[Data],
        whose: tuple[weakref.ref[Node] | None, int] | None,
        tensor: Tensor | None,
        memory: Tensor | None,
    ) -> None:
        self.held = held
        self.whose = whose
        """Where its gradient went; None if that does not matter."""
        self.tensor = tensor
        self.memory = memory

    def is_known_by(self, edge: Edge | None) -> bool:
        """Tell whether it is the tensor whose gradient goes to an edge."""
        if self.whose is None or edge is None:
            return self.whose is edge
        producer, number = self.whose
        return number == edge[1] and (None if producer is None else producer()) is edge[0]


def exchanged(counter: list[int], data: Data, edge: Edge, *, output: bool = False) -> Data:
    """Return what a tensor that held `data` when it was saved, and whose gradient goes to `edge`, holds now; of an
    output, what that memory holds."""
    version = counter[0]
    if isinstance(version, AnnotatedVersion):
        for one in version.exchanges:
            if one.held() is data and (one.whose is None or one.is_known_by(edge)):
                new = one.memory if output else one.tensor
                if new is None or new._data is data:
                    return data
                now = _Exchange(weakref.ref(new._data), one.whose, one.tensor, one.memory)
                version.exchanges = (*version.exchanges, now)
                return new._data
    return data


def was_changed(counter: list[int], version: int) -> bool:
    """Tell whether there was a change since a version was noted."""
    return int(counter[0]) != int(version)


def was_detached(counter: list[int], node: Node | None, number: int) -> bool:
    """Tell whether what was output `number` of a node was detached in place since the last change."""
    version = counter[0]
    return isinstance(version, AnnotatedVersion) and any(held() is node and at == number for held, at in version.places)


def stale_message(what: str, current: int, expected: int) -> str:
    """Return the message for a saved value that was changed in place."""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{what} is at version {current}; expected version {expected} instead. Hint: enable anomaly detection to find "
        "the operation that failed to compute its gradient."
    )
