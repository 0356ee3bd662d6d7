"""Placement of a recorded graph: the worker of every node, forward and backward together.

The planner calls `place` after pricing the graph. A placement is a pure function of (graph, residency, costs, cluster,
seed); ties are broken by index. Constraints come first (`Constraints`): the devices that a node needs, `pin`, `near`,
requested resources. Among the placements that satisfy them, several are tried, and the one whose segments are predicted
to end first is taken; a later one of these only if it gains MIN_GAIN, and none if the best is within NEARLY_BOUND:

- all nodes on one worker: the one that holds most of what the graph reads;
- shares of the graph's branches (`shares`);
- nodes depth first, each where it finishes earliest, idle gaps included;
- HEFT: the same greedy choice by upward rank (Topcuoglu et al., 2002), if that may gain as much time as it takes. It
  advances all branches together, so that moving the next node of any one of them never seems worth a transfer;
  completing one branch before the next shows that the other worker is idle;
- schedules found by a search from there (`refining`), limited to a share of the time that a perfect division of all
  work would save.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from raygrad.errors import PlanError

from ..memory.execution_order import blocks_of_sequences
from ..model.arrays import dag_of_reads, graph_reads
from ..model.costs import Costs
from ..model.dag import Platform
from ..model.plan import Cluster
from ..model.priced_graph import NodeEdges, PricedGraph, node_edges
from ..segments.block_cuts import Block, split_blocks
from ..segments.segmenter import segment_graph
from .constraints import Constraints, find_constraints
from .draws import SeededRandom
from .listing import EARLIEST_FINISH
from .problem import PlacementProblem, problem_of_dag
from .refining import FoundSchedule, ScheduleSearch
from .shares import place_branches

SEARCH_SHARE = 0.1
"""The search may take this share of the time that a perfect division would still save in one run."""
VISIT_SECONDS = 4e-6
"""Seconds per node of a pass of the search."""
MAX_PASSES = 32
"""The most passes of the search, whatever the possible gain."""
MIN_GAIN = 0.05
"""The share of its time by which another placement must be better than shares of branches: predictions are wrong by
more, and equal shares do not depend on them."""
MIN_GAIN_OF_SHARES = 0.005
"""The same of other shares than the simplest ones."""
CLIENT_SHARE = 0.1
"""The part of a call's time that each segment more than shares of branches have counts besides: the client sends them
all, and workers that share its machine feel it."""
NEARLY_BOUND = 1.02
"""A placement that takes this factor longer than a lower bound, and a few calls, is good enough."""
HOPELESS = 2.0
"""If the simplest shares take this factor longer than a lower bound, others are not tried."""
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
        made = segment_graph(priced, None, only, [-1] * len(residency), costs)  # what there is was made before
        return Placement(only, made.blocks, made.seconds)
    alone: Placement | None = None
    work = sum(priced.seconds)
    single = _single_worker(priced, constraints, residency, workers, seed)
    if single >= 0:
        node_worker = (single,) * count
        made = segment_graph(priced, None, node_worker, residency, costs)
        alone = Placement(node_worker, made.blocks, made.seconds)
        if work * (workers - 1) / workers <= costs.hop_seconds:
            return alone  # even a perfect division would not pay for a transfer
    choice = _Choice(priced, node_edges(priced), residency, costs)
    choice.best = alone
    if constraints.all_forced():
        return choice.timed(_Candidate(tuple([constraints.forced[root] for root in constraints.group])))
    problem = problem_of_graph(priced, constraints, residency, workers)
    bound = max(max(problem.upward_rank(0.0)), work / workers)
    enough = NEARLY_BOUND * bound + costs.call_seconds
    if choice.best is not None and choice.best.seconds <= enough:
        return choice.best
    enough += costs.hop_seconds + costs.call_seconds
    for candidate in _candidate_placements(problem, priced, bound, seed):
        if choice.consider(candidate, bound).seconds <= enough:
            break
    assert choice.best is not None
    if constraints.loose is not None and choice.best.seconds > enough:
        moved = _moved_vjps(priced, constraints, constraints.loose, choice.best, workers)
        if moved is not None:
            choice.preferred = True
            choice.consider(moved, bound)
    return choice.best


class _Choice:
    """The best placement so far, in a comparison of candidates by the time of their segments."""

    def __init__(self, priced: PricedGraph, links: NodeEdges, residency: Sequence[int], costs: Costs) -> None:
        self.priced = priced
        self.links = links
        self.residency = residency
        self.costs = costs
        self.best: Placement | None = None
        self.preferred = False
        """The best one is only left for a gain of MIN_GAIN."""
        self.hopeless = False
        """Shares of branches are far from good."""

    def timed(self, candidate: _Candidate) -> Placement:
        """Return a candidate in segments."""
        node_worker, sequences = candidate.node_worker, candidate.sequences
        if sequences:
            if self.priced.graph.open_ended:  # its last node ends the last block
                last = len(node_worker) - 1
                sequences = [[node for node in some if node != last] for some in sequences]
            blocks = blocks_of_sequences(self.links, sequences, node_worker)
            made = split_blocks(self.priced, self.links, blocks, node_worker, self.residency, self.costs)
        else:
            made = segment_graph(self.priced, self.links, node_worker, self.residency, self.costs)
        return Placement(node_worker, made.blocks, made.seconds)

    def consider(self, candidate: _Candidate, bound: float) -> Placement:
        """Return the best placement, now that there is another candidate."""
        best = self.best
        if best is not None and (candidate.node_worker == best.node_worker or (candidate.shares and self.hopeless)):
            return best
        made = self.timed(candidate)
        self.hopeless = candidate.shares and made.seconds > HOPELESS * bound
        least = made.seconds
        if best is not None and self.preferred:
            least += CLIENT_SHARE * self.costs.call_seconds * (len(made.blocks) - len(best.blocks))
            least /= 1.0 - (MIN_GAIN_OF_SHARES if candidate.shares else MIN_GAIN)
        if best is not None and least >= best.seconds:
            return best
        self.best, self.preferred = made, candidate.shares
        return made


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


class _Candidate(NamedTuple):
    """A placement that is to be cut into segments and timed."""

    node_worker: tuple[int, ...]
    shares: bool = False
    """It has shares of branches."""
    sequences: Sequence[Sequence[int]] = ()
    """Per worker, its nodes in the order of the schedule that was found; empty if there is none."""


def _candidate_placements(
    problem: PlacementProblem, priced: PricedGraph, bound: float, seed: int
) -> Iterator[_Candidate]:
    """Return candidate placements of the nodes of a graph, the last ones of the problem, on several workers: shares of
    branches, then schedules of the search, best first by their makespans. Each is made when it is asked for."""
    held = len(problem) - len(priced.seconds)
    for node_worker in place_branches(problem, seed, {held + node for node in priced.unknown_nodes}):
        yield _Candidate(tuple(node_worker[held:]), shares=True)
    search = ScheduleSearch(problem, SeededRandom(seed))
    search.try_pass(False, problem.depth_first_order(), EARLIEST_FINISH)
    deep = search.best
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
    for one in found:
        yield _Candidate(tuple(one.listed.worker[held:]), sequences=_sequences(problem, one, held))


def _moved_vjps(
    priced: PricedGraph, constraints: Constraints, loose: Constraints, best: Placement, workers: int
) -> _Candidate | None:
    """Return a placement in which some vjps are moved from the worker of their context to the one with least work, as
    long as that makes their workers more equal; None if it does for none."""
    work: dict[int, float] = {}  # per group that is tied to another only by a context
    load = [0.0] * workers
    for index, seconds in enumerate(priced.seconds):
        load[best.node_worker[index]] += seconds
        root = loose.group[index]
        if constraints.group[root] != root and root not in loose.forced and root not in loose.allowed:
            work[root] = work.get(root, 0.0) + seconds
    home = {root: best.node_worker[root] for root in work}
    moved = False
    while work:
        most, least = max(range(len(load)), key=load.__getitem__), min(range(len(load)), key=load.__getitem__)
        gains = {root: min(one, load[most] - load[least] - one) for root, one in work.items() if home[root] == most}
        root = max(gains, key=gains.__getitem__, default=-1)
        if root < 0 or gains[root] <= MIN_GAIN * load[most]:
            break
        one = work.pop(root)
        home[root], moved = least, True
        load[most] -= one
        load[least] += one
    if not moved:
        return None
    return _Candidate(tuple([home.get(loose.group[index], one) for index, one in enumerate(best.node_worker)]))


def _sequences(problem: PlacementProblem, found: FoundSchedule, held: int) -> list[list[int]]:
    """Return the nodes of each worker by their start in a schedule, without the first `held` ones of the problem."""
    _, worker, finish = found.listed
    if found.backwards:
        start = [-end for end in finish]
    else:
        start = [end - took * problem.pace[one] for end, took, one in zip(finish, problem.seconds, worker, strict=True)]
    sequences: list[list[int]] = [[] for _ in problem.pace]
    for node in sorted(range(held, len(start)), key=start.__getitem__):
        sequences[worker[node]].append(node - held)
    return sequences


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
