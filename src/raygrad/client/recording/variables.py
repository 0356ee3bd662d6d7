"""Variables: what a program rebinds while it records (`.grad`, parameters, optimiser state), and the log of their
versions.

The log keeps, per submission, one old and the last new version of each variable. The old one is the version before the
submission, or a later one that needs no computing (`.grad = None`); pending versions in between were never seen.
When a submission fails, `submission.rollback` sets them back (H8).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.storage.view import LostData


class Write(NamedTuple):
    """What one submission did to one variable, the attribute of an owner."""

    owner: Any
    attribute: str
    old: Any
    new: Any


class VariableLog:
    """The writes since the last submission."""

    def __init__(self) -> None:
        self._writes: dict[tuple[int, str], Write] = {}

    def write(self, owner: Any, attribute: str, new: Any) -> None:
        """Rebind `owner.attribute`, remembering its version before."""
        key = (id(owner), attribute)
        before = self._writes.get(key)
        if before is None or _needs_no_computing(before.new):
            old = getattr(owner, attribute)
        else:
            old = before.old
        self._writes[key] = Write(owner, attribute, old, new)
        setattr(owner, attribute, new)

    def pending(self) -> list[Write]:
        """Return the writes since the last submission."""
        return list(self._writes.values())

    def take(self) -> list[Write]:
        """Return and remove the writes, for the submission that is made."""
        writes = list(self._writes.values())
        self._writes.clear()
        return writes

    def keep(self, write: Write) -> None:
        """Put back a write that a failure did not reach."""
        self._writes[id(write.owner), write.attribute] = write

    def clear(self) -> None:
        """Forget the writes."""
        self._writes.clear()


def _needs_no_computing(value: Any) -> bool:
    """Tell whether a version exists even if the submission fails."""
    return not any(type(one) in (Pending, LostData) for one in (value, getattr(value, "_data", None)))
