"""Random graphs for comparisons with figures that were recorded elsewhere.

The standard library only, and of its random numbers only `random()`, whose stream is promised to
stay the same: what is recorded here and there is about equal graphs.
"""

from __future__ import annotations

import random
from typing import NamedTuple


class Drawn(NamedTuple):
    """A graph and workers, as lists."""

    seconds: list[float]
    source: list[int]
    target: list[int]
    transfer: list[float]
    speed: list[float]


class Case(NamedTuple):
    """What to draw."""

    nodes: int
    workers: int
    ccr: float
    equal_workers: bool = False
    plain: bool = False
    """All nodes take one second, and all depend on the first."""
    seed: int = 0


def drawn(case: Case) -> Drawn:
    """Return a random graph, each node but the first few reading up to three earlier ones, and its workers."""
    chance = random.Random(f"{case.nodes} {case.workers} {case.seed}").random
    seconds = [1.0 if case.plain else 0.1 + 1.8 * chance() for _ in range(case.nodes)]
    speed = [1.0 if case.equal_workers else 0.5 + 1.5 * chance() for _ in range(case.workers)]
    source, target, transfer = list[int](), list[int](), list[float]()
    for node in range(1, case.nodes):
        window = min(node, 3 + int(chance() * case.nodes / 2))
        reads = {node - 1 - int(chance() * window) for _ in range(int(chance() * 4))}
        for one in sorted(reads or ({0} if case.plain else reads)):
            source.append(one)
            target.append(node)
            transfer.append(case.ccr * 2 * chance())
    return Drawn(seconds, source, target, transfer, speed)


RATIOS = (0.1, 1.0, 5.0)
AGAINST_SAGA = (
    *(Case(nodes, workers, ccr) for nodes in (10, 50, 200) for workers in (2, 5, 8) for ccr in RATIOS),
    *(Case(nodes, workers, ccr, equal_workers=True) for nodes in (30, 200) for workers in (3, 8) for ccr in RATIOS),
    *(Case(nodes, 4, ccr, True, True, seed) for nodes, seed in ((40, 0), (40, 1), (200, 0)) for ccr in RATIOS),
)
