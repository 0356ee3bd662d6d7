"""Levels of forward mode, and the tangents that a tensor carries at each.

`forward_mode/` propagates tangents through ops; `forward_ad` and `func` are public. The open levels are in
`state.forward`, outermost first. A tangent may carry tangents of levels outside its own, never of those inside, so
whatever belongs to a level is computed while only the levels outside it are active.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..core.batched_data import Batched
from ..core.modes import state

if TYPE_CHECKING:
    from .tensor import Tensor

SWEEP_AT = 64
"""Entries of a level's list of carriers at which dead ones are dropped from it."""


class Tangents(dict["TangentLevel", "Tensor"]):
    """The tangents of one tensor by level. Never changed but by a level that ends: nodes may share it."""

    __slots__ = ("__weakref__",)


class TangentLevel:
    """One level of forward mode. When it ends, every tangent of it is gone (FW-04)."""

    __slots__ = ("_carriers",)

    def __init__(self) -> None:
        self._carriers: list[weakref.ref[Tangents]] = []

    def of(self, tensor: Tensor) -> Tensor | None:
        """Return the tangent that a tensor carries at this level."""
        held = tensor._tangents
        return held.get(self) if held else None

    def carry(self, tensor: Tensor, tangent: Tensor | None) -> None:
        """Make a tensor carry a tangent at this level, or none."""
        made = Tangents(tensor._tangents or ())
        if tangent is None:
            made.pop(self, None)
        else:
            made[self] = tangent
        tensor._tangents = made or None
        if made:
            known = weakref.ref(made)
            for level in made:
                level._note(known)

    def _note(self, carrier: weakref.ref[Tangents]) -> None:
        carriers = self._carriers
        if len(carriers) >= SWEEP_AT and not len(carriers) & (len(carriers) - 1):  # a power of two: linear in all
            carriers[:] = [known for known in carriers if known() is not None]
        carriers.append(carrier)

    def end(self) -> None:
        """Drop all tangents of this level."""
        for known in self._carriers:
            tangents = known()
            if tangents is not None:
                tangents.pop(self, None)
        self._carriers = []


def set_levels(levels: tuple[TangentLevel, ...]) -> None:
    """Make these the open levels of this thread."""
    state.forward = levels
    state.changed()


@contextmanager
def active_levels(levels: tuple[TangentLevel, ...]) -> Generator[None]:
    """Have these levels active, and no others, while inside."""
    before = state.forward
    set_levels(levels)
    try:
        yield
    finally:
        set_levels(before)


@contextmanager
def open_tangent_level() -> Generator[TangentLevel]:
    """Open a level inside those that are open, and end it on leaving."""
    level = TangentLevel()
    before = state.forward
    set_levels((*before, level))
    try:
        yield level
    finally:
        set_levels(before)
        level.end()


def carries_tangent(tensor: Tensor) -> bool:
    """Tell whether a tensor carries a tangent of an open level."""
    held = tensor._tangents
    return bool(held) and any(level in held for level in state.forward)


def share_tangents(source: Tensor, target: Tensor) -> Tensor:
    """Give `target` the tangents of `source` and return it; inside vmap, those of all examples, too."""
    held = source._tangents
    if held:
        target._tangents = held
    data, other = source._data, target._data
    if type(data) is Batched and type(other) is Batched and data.value is not other.value:
        share_tangents(data.value, other.value)
    return target
