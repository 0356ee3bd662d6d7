"""Which workers have the memory that a node needs by itself: what it reads and makes is there at once, whatever waits
on disk meanwhile.

Rules of this file: it tells where a node cannot run, so that it is placed elsewhere; whether all nodes of a worker fit
there together is for `order` and `relief`, who find a way or refuse.
"""

from __future__ import annotations

from .plan import Cluster
from .priced import Priced
from .room import continued
from .spaces import limited_spaces


def fitting(priced: Priced, cluster: Cluster) -> dict[int, frozenset[int]]:
    """Return, per node that by itself needs more memory than some worker has, the workers that have enough. Nodes for
    which none has are left out: what would do is told when they are ordered."""
    found: dict[int, frozenset[int]] = {}
    for space in limited_spaces(priced.graph.specs, cluster):
        limits = [float("inf") if limit is None else limit for limit in space.limits]
        least = min(limits)
        if least == max(limits):
            continue
        inner = space.within(priced)
        same, size = continued(inner, ()), inner.size
        able: dict[int, frozenset[int]] = {}
        for index, node in enumerate(priced.graph.nodes):
            first = priced.first[index]
            touched = {*node.inputs, *range(first, first + len(node.outputs))} - {-1}
            need = sum([size[value] for value in touched if value not in same])
            if need <= least:
                continue
            if need not in able:
                able[need] = frozenset([worker for worker, limit in enumerate(limits) if limit >= need])
            found[index] = found.get(index, able[need]) & able[need]
    return {index: workers for index, workers in found.items() if workers}
