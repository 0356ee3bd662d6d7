"""Placement of a recorded graph: the worker of every node, forward and backward together.

The planner calls `place` after pricing the graph. A placement is a pure function of (graph, residency, costs, cluster,
seed); ties are broken by index. Constraints come first (`Constraints`): the devices that a node needs, `pin`, `near`,
requested resources. Among the placements that satisfy them, several are tried, and the one whose segments are predicted
to end first is taken:

- all nodes on one worker: the one that holds most of what the graph reads;
- nodes depth first, each where it finishes earliest, idle gaps included;
- HEFT: the same greedy choice by upward rank (Topcuoglu et al., 2002), if that may gain as much time as it takes. It
  advances all branches together, so that moving the next node of any one of them never seems worth a transfer;
  completing one branch before the next shows that the other worker is idle;
- schedules found by a search from there (`refining`), limited to a share of the time that a perfect division of all
  work would save.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from raygrad.errors import PlanError

from ..model.arrays import dag_of_reads, graph_reads
from ..model.costs import Costs
from ..model.dag import Platform
from ..model.plan import Cluster
from ..model.priced_graph import PricedGraph, node_edges
from ..segments.segmenter import Block, segment_graph
from .constraints import Constraints, find_constraints
from .draws import SeededRandom
from .listing import EARLIEST_FINISH
from .problem import PlacementProblem, problem_of_dag
from .refining import ScheduleSearch

SEARCH_SHARE = 0.1
"""The search may take this share of the time that a perfect division would still save in one run."""
VISIT_SECONDS = 4e-6
"""Seconds per node of a pass of the search."""
MAX_PASSES = 32
"""The most passes of the search, whatever the possible gain."""
SEGMENTED_SCHEDULES = 2
"""The number of best schedules of the search that are cut into segments and timed."""


class Placement(NamedTuple):
    """The worker of every node, with the resulting blocks and their predicted time."""

    node_worker: tuple[int, ...]
    blocks: list[Block]
    seconds: float


def place(
    priced: PricedGraph,
    residency: Sequence[int],
    costs: Costs,
    cluster: Cluster,
    seed: int = 0,
    constraints: Constraints | None = None,
) -> Placement:
    """Return a placement of the graph on the cluster, by `constraints`, by default those of the graph.

    `residency` has one worker index per external: where the value is pinned, or -1 if it is at the client, in the
    store or anywhere. `near` and `pin` are satisfied, or raise; a `near` that names an external without residency has
    no effect.

    Raises PlanError if the cluster is empty, or no worker can run a node: it names the node and why.
    """
    count, workers = len(priced.seconds), len(cluster.workers)
    if not workers:
        raise PlanError("the cluster has no workers")
    if constraints is None:
        constraints = find_constraints(priced, residency, cluster)
    if workers == 1 or not count:
        only = (0,) * count
        made = segment_graph(priced, None, only, residency, costs)
        return Placement(only, made.blocks, made.seconds)
    best: Placement | None = None
    work = sum(priced.seconds)
    single = _single_worker(priced, constraints, residency, workers, seed)
    if single >= 0:
        node_worker = (single,) * count
        made = segment_graph(priced, None, node_worker, residency, costs)
        best = Placement(node_worker, made.blocks, made.seconds)
        if work * (workers - 1) / workers <= costs.hop_seconds:
            return best  # even a perfect division would not pay for a transfer
    links = node_edges(priced)
    for node_worker in _candidate_placements(priced, constraints, residency, workers, seed):
        if best is not None and node_worker == best.node_worker:
            continue
        made = segment_graph(priced, links, node_worker, residency, costs)
        if best is None or made.seconds < best.seconds:
            best = Placement(node_worker, made.blocks, made.seconds)
    assert best is not None
    return best


# ---- what is tried -------------------------------------------------------------------------------------------------


def _single_worker(
    priced: PricedGraph, constraints: Constraints, residency: Sequence[int], workers: int, seed: int
) -> int:
    """Return the best single worker for all nodes: the allowed one that saves most transfers; -1 if none is allowed."""
    can = set(range(workers))
    for worker in constraints.forced.values():
        can &= {worker}
    for some in constraints.allowed.values():
        can &= some
    saved = [0.0] * workers
    for value, home in enumerate(residency):
        if home >= 0:
            saved[home] += priced.transfer[value]
    return max(can, key=lambda worker: (saved[worker], -((worker - seed) % workers)), default=-1)


def _candidate_placements(
    priced: PricedGraph, constraints: Constraints, residency: Sequence[int], workers: int, seed: int
) -> list[tuple[int, ...]]:
    """Return candidate placements on several workers, best first by the makespan of the search."""
    if constraints.all_forced():
        return [tuple(constraints.forced[root] for root in constraints.group)]
    problem = problem_of_graph(priced, constraints, residency, workers)
    held = len(problem) - len(priced.seconds)
    search = ScheduleSearch(problem, SeededRandom(seed))
    search.try_pass(False, problem.depth_first_order(), EARLIEST_FINISH)
    deep = search.best
    bound = max(max(problem.upward_rank(0.0)), sum(priced.seconds) / workers)
    visit = VISIT_SECONDS * len(problem)
    if deep.listed.makespan - bound > visit:
        search.start(2)
    gain = priced.known_share * (search.best.listed.makespan - bound)  # of what is unknown there is none to be found
    passes = int(min(MAX_PASSES, SEARCH_SHARE * gain / visit))
    search.start(passes)
    search.refine(passes)
    found = search.pool[:SEGMENTED_SCHEDULES]
    if deep not in found:
        found.append(deep)
    return [tuple(one.listed.worker[held:]) for one in found]


def problem_of_graph(
    priced: PricedGraph, constraints: Constraints, residency: Sequence[int], workers: int
) -> PlacementProblem:
    """Return the placement problem of a graph. Externals held by workers come first, as nodes without duration that are
    fixed there."""
    held = np.flatnonzero(np.array(residency, np.int64) >= 0)
    shift = len(held)
    maker = np.array(priced.maker, np.int64)
    makes = np.where(maker >= 0, maker + shift, -1)  # per value, the node that makes or holds it
    makes[held] = np.arange(shift)
    read, arity = graph_reads(priced.graph)
    reader = np.arange(shift, shift + len(arity)).repeat(arity)
    dag = dag_of_reads(np.array([0.0] * shift + priced.seconds), read, reader, makes, np.array(priced.transfer))
    fixed = [residency[value] for value in held.tolist()] + [-1] * len(priced.seconds)
    for root, worker in constraints.forced.items():
        fixed[shift + root] = worker
    return problem_of_dag(
        dag,
        Platform.of(workers),
        group=[*range(shift), *[shift + root for root in constraints.group]] if shift else constraints.group,
        fixed=fixed,
        allowed={shift + root: tuple(sorted(some)) for root, some in constraints.allowed.items()},
    )
