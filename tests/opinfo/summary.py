"""The summary of outcomes: shares per kind and per entry, as text."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable

from .units import Outcome


def shares(outcomes: Iterable[Outcome]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return per kind and entry how many samples agree, of how many."""
    counted: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for outcome in outcomes:
        agree, total = counted[outcome.kind].get(outcome.entry, (0, 0))
        counted[outcome.kind][outcome.entry] = (agree + outcome.agrees, total + 1)
    return counted


def mean_share(counts: dict[str, tuple[int, int]]) -> float:
    """Return the mean over entries of the share that agrees, in percent."""
    return 100 * sum(agree / total for agree, total in counts.values()) / max(1, len(counts))


def print_summary(outcomes: list[Outcome]) -> None:
    """Write the shares per kind, the entries below 95 %."""
    write = sys.stdout.write
    counted = shares(outcomes)
    for kind, counts in counted.items():
        agree, total = (sum(pair[i] for pair in counts.values()) for i in (0, 1))
        write(f"{kind:16} {mean_share(counts):6.2f} % over {len(counts):3} entries; {agree} of {total} samples\n")
    for kind, counts in counted.items():
        low = sorted((a / t, entry) for entry, (a, t) in counts.items() if a < 0.95 * t)
        write(f"\n{kind}: {len(low)} entries below 95 %: {', '.join(f'{e} {100 * s:.0f}' for s, e in low)}\n")
