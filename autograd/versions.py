"""Versions: how changes of a tensor's memory are counted (CX-13, CX-14).

Rules of this file: the counter that a tensor shares with its views and aliases, and the clock of all changes. A counter
is a list, since who keeps a saved value keeps it too: the version, when it last moved, and, if there are any, the views
that a change makes stale or cuts off. What is rare costs nothing where counters are made and compared.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .node import Node
    from .tensor import Tensor

CLOCK = [0]
"""How many changes there have been in this process: where it stands still, nothing was changed."""

SWEEP_AT = 16
"""Entries of a list of views at which dead ones are dropped from it."""


def new_counter() -> list[int]:
    """Return the counter of memory that was never changed."""
    return [0, 0]


def bump(counter: list[int]) -> None:
    """Count a change, and tell the views whose place in the graph it ends."""
    CLOCK[0] += 1
    counter[0] += 1
    counter[1] = CLOCK[0]
    if len(counter) > 2:
        from .orphans import cut_off
        from .views import RETURNED, make_stale

        watching: list[weakref.ref[Tensor]] = counter.pop()  # type: ignore[assignment]
        views = [view for view in (entry() for entry in watching) if view is not None]
        make_stale([view for view in views if view._made_by in RETURNED])
        cut_off([view for view in views if view._made_by not in RETURNED])


def watch(counter: list[Any], view: Tensor) -> None:
    """Let the next change make a view stale (OU-12), or cut it off if its base requires no grad any more."""
    if len(counter) == 2:
        counter.append([])
    watching: list[weakref.ref[Tensor]] = counter[2]
    add_view(watching, weakref.ref(view))


def add_view(entries: list[weakref.ref[Tensor]], entry: weakref.ref[Tensor]) -> None:
    """Add to a list of views, and drop the dead ones from it now and then."""
    if len(entries) >= SWEEP_AT and not len(entries) & (len(entries) - 1):  # a power of two: linear in all
        entries[:] = [known for known in entries if known() is not None]
    entries.append(entry)


class Detached(int):
    """A version at which a tensor was detached in place. It is unlike any that was noted before, so that whoever saved
    something at the same version looks at it again; as a number it is the same one, and the next change ends it."""

    places: tuple[tuple[weakref.ref[Node], int], ...]
    """Whose outputs they were that were detached: the node, which must not be kept alive, and the number."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = int.__hash__


def note_detached(counter: list[int], node: Node, number: int) -> None:
    """Note that output `number` of a node is detached in place, for whoever has saved it (CX-32)."""
    version = Detached(counter[0])
    version.places = (*(counter[0].places if isinstance(counter[0], Detached) else ()), (weakref.ref(node), number))
    counter[0] = version


def was_changed(counter: list[int], version: int) -> bool:
    """Tell whether there was a change since a version was noted."""
    return int(counter[0]) != int(version)


def was_detached(counter: list[int], node: Node | None, number: int) -> bool:
    """Tell whether what was output `number` of a node was detached in place since the last change."""
    version = counter[0]
    return isinstance(version, Detached) and any(held() is node and at == number for held, at in version.places)
