"""User code that a session records: how it travels, what it captures, and its effects on the `.grad` of leaves.

These are the methods of `SessionRecorder` that know user code as such; what is shipped, and what capturing is, the
workers room says (`shipping`, `code`). A fingerprint holds until the next submission (H17).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.workers.code.effects import gradient_effects
from raygrad.workers.code.op_registry_sync import with_registrations
from raygrad.workers.code.shipping import Shipped, ship

from .resource_requests import Asked, asked_of

if TYPE_CHECKING:
    from ..session.recorder import SessionRecorder


def code_of(self: SessionRecorder, obj: Any) -> Shipped:
    """Return how user code travels: its fingerprint, taken anew when something that it reads has changed, and what
    it captures (H16, H17)."""
    found = self._shipped.get(obj) if _hashable(obj) else None
    if found is None or not found.guard.holds():
        found = ship(obj, in_process=self.by_reference)
        if not self.by_reference:
            found = with_registrations(found)
        if _hashable(obj):
            self._shipped[obj] = found
        if isinstance(obj, type):
            _ask(self, "@" + found.fingerprint, obj)
        self.session.learn(found)
    if self.trace is not None:
        self.trace.code[found.fingerprint] = found
    return found


def _ask(self: SessionRecorder, fn: str, function: type[Any]) -> None:
    """Note what a Function asks of the workers that run it, forward and backward."""
    needs = asked_of(function)
    if needs:
        self.demands[fn] = Asked(function.__name__, needs)


def conduct_of(self: SessionRecorder, obj: Any, shipped: Shipped, objects: Sequence[Any] = ()) -> int:
    """Return what user code, with objects that it is given, might do with the `.grad` of leaves (H16); see
    `gradient_effects`."""
    known = self.session.of_gradients
    found = known.get(shipped.fingerprint)
    if found is None:
        found = known[shipped.fingerprint] = gradient_effects(obj)
    for one in objects:
        found |= gradient_effects(one)
    return found


def captured_by(self: SessionRecorder, shipped: Shipped) -> list[Pending]:
    """Return what user code captures, as it is now."""
    values: list[Pending] = []
    for one in shipped.captured:
        if isinstance(one, Tensor):
            values.append(self.leaf(one))
            continue
        values.append(self.constant_array(np.array(one, copy=True, order="K")))
        if self.trace is not None:
            self.trace.copied(one, values[-1])
    return values


def _hashable(obj: Any) -> bool:
    return type(obj).__hash__ is not None
