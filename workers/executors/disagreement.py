"""Disagreement: user code that ran again after a loss, and did not return what it had, while that is in use (H2).

The recovery planner says which nodes have to agree (`scheduler.planning.repeated_nodes`), workers send fingerprints of
what they return, and the driver compares them here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from raygrad.errors import ImpureFunctionError


class Disagreement(NamedTuple):
    """Two attempts at one node that returned different bits."""

    run: int
    node: int
    function: str
    """The user's name of its code."""
    lost: str
    """With what the results of the first attempt, or others of its segment, were lost."""

    def error(self, where: str = "") -> ImpureFunctionError:
        """Return the error for it; `where` names the node with its line, if that is known."""
        return ImpureFunctionError(
            f"{where or self.function} was run again, since something that it had made was lost with {self.lost}, and "
            "did not return the same bits as before, while what was computed from those is in use. Draw random numbers "
            "with raygrad (rg.rand, rg.generator()), which do not depend on how often code runs; keep no state between "
            f"calls; or set pure = False on it, so that all that was computed from what it had returned is computed "
            "again with it, unless the program has seen something of that",
            self.function,
        )


def differ(before: tuple[int, ...] | None, now: tuple[int, ...]) -> bool:
    """Tell whether fingerprints of two attempts show that outputs differ; 0 stands for one that has none."""
    if before is None:
        return False
    return len(before) != len(now) or any([a != b and a and b for a, b in zip(before, now, strict=True)])


def merged(before: Mapping[int, tuple[int, ...]], node: int, now: tuple[int, ...]) -> tuple[int, ...]:
    """Return what is known of a node's outputs after another attempt, at which not all were asked for."""
    known = before.get(node, ())
    if len(known) != len(now):
        return now
    return tuple([b or a for a, b in zip(known, now, strict=True)])
