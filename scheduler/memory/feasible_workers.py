"""Feasible workers: those whose memory is large enough for what a single node reads and makes.

Placement excludes the other workers. Whether all nodes of a worker fit together is decided later, by `execution_order`;
if they do not, `workers_with_more_memory` names the workers for the next try.
"""

from __future__ import annotations

from ..model.memory_spaces import limited_spaces
from ..model.plan import Cluster, WorkerSpec
from ..model.priced_graph import PricedGraph
from .memory_ledger import first_contexts


def feasible_workers(priced: PricedGraph, cluster: Cluster) -> dict[int, frozenset[int]]:
    """Return, per node that alone needs more memory than some worker has, the workers that have enough. Nodes for which
    no worker has enough are left out: `execution_order` raises an error with the sufficient limit."""
    found: dict[int, frozenset[int]] = {}
    for space in limited_spaces(priced.graph.specs, cluster):
        limits = [float("inf") if limit is None else limit for limit in space.limits]
        least = min(limits)
        if least == max(limits):
            continue
        inner = space.within(priced)
        same, size = first_contexts(inner, ()), inner.size
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


def workers_with_more_memory(cluster: Cluster, small: frozenset[int]) -> frozenset[int]:
    """Return the workers to try after those in `small` had too little memory: all others, if one of them has more
    memory than each in `small`; else none."""
    others = frozenset(range(len(cluster.workers))) - small
    most = [max(_limit(cluster.workers[worker], host) for worker in small) for host in (True, False)]
    better = any(_limit(cluster.workers[one], bool(host)) > most[1 - host] for one in others for host in (0, 1))
    return others if better else frozenset()


def _limit(worker: WorkerSpec, host: bool) -> float:
    limit = worker.memory if host else worker.gpu_memory
    return float("inf") if limit is None else limit
