"""Rollback of variables (`.grad`, parameters, optimiser state) when a submission has failed (H8).

`failures` calls it with the versions that `recording.variables` kept for each submission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..recording.variables import Write


def roll_back(history: Sequence[tuple[Sequence[Write], bool]], tainted: Callable[[Any], bool]) -> None:
    """Set every variable to its newest version that does not depend on a failure.

    Args:
        history: per submission that is not yet known to be good, oldest first: its writes, and whether it is tainted.
            The writes not yet submitted come last, as untainted.
        tainted: tells whether a version depends on the failure.
    """
    # the values of tensors first: whether another variable's version, a tensor, depends on the failure is told by the
    # value that the tensor has, which a later submission may have replaced
    for of_values in (True, False):
        _set_back(
            [([w for w in writes if (w.attribute == "_data") is of_values], bad) for writes, bad in history], tainted
        )


def _set_back(history: Sequence[tuple[Sequence[Write], bool]], tainted: Callable[[Any], bool]) -> None:
    """Set the variables of these writes back; see `roll_back`."""
    newest: dict[tuple[int, str], tuple[Any, str, Any]] = {}
    touched: set[tuple[int, str]] = set()
    for writes, failed in history:
        for write in writes:
            key = (id(write.owner), write.attribute)
            if key not in newest or not tainted(write.old):
                newest[key] = (write.owner, write.attribute, write.old)
            if failed or tainted(write.new):
                touched.add(key)
            else:
                newest[key] = (write.owner, write.attribute, write.new)
    for key in touched:
        owner, attribute, value = newest[key]
        setattr(owner, attribute, value)
