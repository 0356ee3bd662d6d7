"""A graph that one worker runs, while others are under way: the choice of the worker that is free first.

A loop that accumulates gradients submits a graph for each sample, of which each alone is best on one worker, where they
would wait for each other. What a graph reads of runs that have not ended it has to wait for on any worker, so only work
that does not depend on that counts.
"""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet
from typing import Final, NamedTuple

from ..model.costs import Costs
from ..model.plan import Cluster, Plan
from ..model.priced_graph import PricedGraph
from ..placing.constraints import find_constraints

MIN_WAIT: Final = 0.01
"""Seconds for which a graph waits for a worker rather than run on another one."""
MAX_NODES: Final = 2_000
"""Graphs with more nodes are not priced again for this."""


class WorkerChange(NamedTuple):
    """What it means to run a graph on another worker than the one of its plan."""

    gain: float
    """The seconds of work that can begin there at once; 0.0 if it cannot run there."""
    transfer: float
    """The seconds that pass until what it reads of other workers is there."""


def only_worker(plan: Plan) -> int:
    """Return the worker of all nodes of a plan, -1 if there are several, or the plan has too many nodes."""
    if not 0 < len(plan.node_worker) <= MAX_NODES:
        return -1
    worker = plan.node_worker[0]
    return worker if all([one.worker == worker for one in plan.segments]) else -1


def consider_move(
    priced: PricedGraph,
    residency: Sequence[int],
    cluster: Cluster,
    costs: Costs,
    worker: int,
    pending: AbstractSet[int],
) -> WorkerChange:
    """Return what it means to run a graph on a worker; `pending` are the externals that are yet to be made."""
    found = find_constraints(priced, residency, cluster)
    if any([one != worker for one in found.forced.values()]) or any(
        [worker not in some for some in found.allowed.values()]
    ):
        return WorkerChange(0.0, 0.0)
    waits = set(pending)
    gain = 0.0
    for node, seconds, first in zip(priced.graph.nodes, priced.seconds, priced.first, strict=True):
        if waits.isdisjoint(node.inputs):
            gain += seconds
        else:
            waits.update(range(first, first + len(node.outputs)))
    away = [priced.size[value] for value, home in enumerate(residency) if home not in (-1, worker)]
    return WorkerChange(gain, costs.transfer_seconds(sum(away)) if away else 0.0)
