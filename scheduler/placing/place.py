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
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from raygrad.errors import PlanError
from raygrad.proto.ir.graph import DEVICE, Graph
from raygrad.proto.ir.nodes import Node, moves
from raygrad.proto.ir.specs import ArraySpec, Spec

from ..memory.memory_feasibility import feasible_workers
from ..model.costs import Costs
from ..model.dag import Platform, dag_of
from ..model.plan import Cluster
from ..model.plan_errors import plan_error
from ..model.priced_graph import PricedGraph, node_edges
from ..segments.segmenter import Block, segment_graph
from .draws import SeededRandom
from .listing import EARLIEST_FINISH
from .problem import PlacementProblem, depth_first_order, upward_rank
from .problem import problem_of_dag as as_problem
from .refining import ScheduleSearch

SEARCH_SHARE = 0.1
"""The search may take this share of the time that a perfect division would still save in one run."""
VISIT_SECONDS = 4e-6
"""Seconds per node of a pass of the search."""
MAX_PASSES = 32
"""The most passes of the search, whatever the possible gain."""
SEGMENTED_SCHEDULES = 2
"""The number of best schedules of the search that are cut into segments and timed."""


WORKERS_NAMED = 8
"""The most workers whose offers an error lists."""


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


def reuse_placement(
    priced: PricedGraph, residency: Sequence[int], costs: Costs, node_worker: tuple[int, ...]
) -> Placement:
    """Return a placement that was chosen before, cut into blocks for another residency."""
    made = segment_graph(priced, node_edges(priced), node_worker, residency, costs)
    return Placement(node_worker, made.blocks, made.seconds)


# ---- what must hold ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constraints:
    """The workers allowed for each group of nodes. Nodes tied by `near` are one group, named by its first node."""

    group: list[int]
    """Per node, the first node of its group."""
    forced: dict[int, int]
    """Per group with only one choice, its worker."""
    allowed: dict[int, frozenset[int]]
    """Per group that not every worker can run, those that can; never empty."""

    def confined(self, workers: frozenset[int]) -> Constraints:
        """Return the constraints with only these workers allowed for each group that can run on one of them."""
        allowed = dict(self.allowed)
        for root in {*self.group} - self.forced.keys():
            allowed[root] = (allowed.get(root, workers) & workers) or allowed[root]
        return Constraints(group=self.group, forced=self.forced, allowed=allowed)

    def all_forced(self) -> bool:
        """Return whether every group has only one choice."""
        return bool(self.forced) and all(root in self.forced for root in self.group)


def find_constraints(priced: PricedGraph, residency: Sequence[int], cluster: Cluster) -> Constraints:
    """Return the placement constraints of a graph.

    Raises PlanError, naming the node, if a demand cannot be met or two of them contradict each other.
    """
    group: list[int] = []
    forced: dict[int, _ForcedWorker] = {}
    allowed: dict[int, frozenset[int]] = {}
    reasons: dict[int, str] = {}
    """Why not every worker can run a group."""
    workers = cluster.workers
    devices = devices_of(priced.graph.specs)
    everywhere = all(worker.serves(device) for device in {*devices} - {""} for worker in workers)
    able: dict[frozenset[str], frozenset[int]] = {}
    for index, node in enumerate(priced.graph.nodes):
        root, home = index, -1
        if node.near >= 0:
            maker = priced.maker[node.near]
            if maker >= index:
                raise plan_error((index, node), f" is to run near value {node.near}, which is made later")
            if maker >= 0:
                root = group[maker]
            else:
                home = residency[node.near]
        group.append(root)
        if not everywhere:
            read = {devices[priced.spec[value]] for value in node.inputs if value >= 0}
            need = devices_needed(node, read, {devices[spec] for spec in node.outputs})
            can = able.get(need)
            if can is None:
                can = able[need] = frozenset(w for w, worker in enumerate(workers) if all(map(worker.serves, need)))
            if len(can) < len(workers):
                missing = " and ".join(sorted(need))
                _restrict_workers(allowed, root, can, index, node, _unserved_text(missing, cluster))
                reasons[root] = f"it needs {missing}"
        if home >= 0:
            _force_worker(forced, root, _ForcedWorker(home, index, HOME), priced.graph)
        if node.pin >= 0:
            if node.pin >= len(workers):
                there = "there are workers 0 to" if len(workers) > 1 else "there is worker"
                raise plan_error((index, node), f" is pinned to worker {node.pin}, and {there} {len(workers) - 1}")
            _force_worker(forced, root, _ForcedWorker(node.pin, index, PINNED), priced.graph)
    for index, name, needs in priced.graph.demands:
        can = frozenset(w for w, worker in enumerate(cluster.workers) if worker.offers(needs))
        if len(can) < len(workers):
            _restrict_workers(
                allowed, group[index], can, index, priced.graph.nodes[index], _lacking_text(name, needs, cluster)
            )
            reasons[group[index]] = f"{name or 'it'} asks for {_requests_text(needs)}"
    for root, (worker, index, why) in forced.items():
        if root in allowed and worker not in allowed[root]:
            lacking = cluster.workers[worker]
            others = ", ".join([cluster.workers[one].name for one in sorted(allowed[root])[:WORKERS_NAMED]])
            raise plan_error(
                (index, priced.graph.nodes[index]),
                f" must run on {lacking.name}, {why}, which lacks what it asks for: {reasons[root]}, and there is "
                f"{lacking.described()}; {others} could run it",
            )
    for index, can in feasible_workers(priced, cluster).items():
        both = allowed.get(group[index], can) & can
        if both and group[index] not in forced:
            allowed[group[index]] = both
    return Constraints(group=group, forced={root: one.worker for root, one in forced.items()}, allowed=allowed)


HOME: Final = "where what it belongs to is"
PINNED: Final = "as `rg.place` asks"


class _ForcedWorker(NamedTuple):
    """The only worker of a group, with the node and the reason that require it."""

    worker: int
    node: int
    """The node that requires it."""
    why: str


def _requests_text(needs: Sequence[tuple[str, float]]) -> str:
    return ", ".join(need if need.startswith(DEVICE) else f"{need} {amount:g}" for need, amount in needs)


def devices_of(specs: Sequence[Spec]) -> list[str]:
    """Return the device of each spec, "" for one that is not of an array."""
    return [spec.device if isinstance(spec, ArraySpec) else "" for spec in specs]


def devices_needed(node: Node, read: set[str], made: set[str]) -> frozenset[str]:
    """Return the devices that the worker of a node has to serve, from those of its inputs and outputs: the host only if
    there is no other, since every worker has it. A node that moves a value needs the target device, or the source
    device if the target is the host; between devices the value goes through host memory."""
    if moves(node) and made - {"", "cpu"}:
        read = set()
    need = frozenset(read | made) - {""}
    return need - {"cpu"} or need


def _unserved_text(missing: str, cluster: Cluster) -> str:
    """Return the part of an error for devices that no worker serves together, with the workers' offers."""
    return (
        f"no worker serves {missing} ({_offers_text(cluster)}): let workers serve it with Session(gpus=...), or "
        "move its operands to a device that they have (tensor.to)"
    )


def _offers_text(cluster: Cluster) -> str:
    there = [worker.described() for worker in cluster.workers[:WORKERS_NAMED]]
    more = len(cluster.workers) - len(there)
    return f"{'; '.join(there)}{f'; and {more} more' if more else ''}"


def _lacking_text(name: str, needs: Sequence[tuple[str, float]], cluster: Cluster) -> str:
    """Return the part of an error for requests that no worker satisfies, with the workers' offers."""
    requests, offers, remedy = _requests_text(needs), _offers_text(cluster), _remedy_text(name, needs)
    return f"{name or 'it'} asks for {requests}, and no worker offers it ({offers}): {remedy}"


def _remedy_text(name: str, needs: Sequence[tuple[str, float]]) -> str:
    """Return the advice of an error for requests that no worker satisfies."""
    if any(need.startswith(DEVICE) for need, _ in needs):
        return f"let workers serve it with Session(gpus=...), or name a device that they have in {name}.devices"
    return f"ask for less in {name}.resources, or let workers offer more with Session(worker_options=...)"


def _force_worker(forced: dict[int, _ForcedWorker], root: int, wanted: _ForcedWorker, graph: Graph) -> None:
    before = forced.setdefault(root, wanted)
    if before.worker == wanted.worker:
        return
    beside: list[str | tuple[int, Node]] = []
    if before.node != wanted.node:
        beside = ["beside ", (before.node, graph.nodes[before.node]), ", which is there "]
    raise plan_error(
        (wanted.node, graph.nodes[wanted.node]),
        f" must run on worker {wanted.worker} and on worker {before.worker}: on the one {wanted.why}, on the other ",
        *beside,
        f"{before.why}. The backward of a Function and its hooks run on the worker of its forward: leave `rg.place` "
        "out around them, or name the same worker",
    )


def _restrict_workers(
    allowed: dict[int, frozenset[int]], root: int, can: frozenset[int], index: int, node: Node, why: str
) -> None:
    both = allowed[root] & can if root in allowed else can
    if not both:
        raise plan_error((index, node), f" cannot run: {why}" + (", and what it is near to" if can else ""))
    allowed[root] = both


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
    search.try_pass(False, depth_first_order(problem), EARLIEST_FINISH)
    deep = search.best
    bound = max(max(upward_rank(problem, 0.0)), sum(priced.seconds) / workers)
    visit = VISIT_SECONDS * len(problem)
    if deep.listed.makespan - bound > visit:
        search.start(2)
    passes = int(min(MAX_PASSES, SEARCH_SHARE * (search.best.listed.makespan - bound) / visit))
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
    inputs = [node.inputs for node in priced.graph.nodes]
    read = np.array(list(chain.from_iterable(inputs)), np.int64)
    reader = np.repeat(np.arange(shift, shift + len(inputs)), [len(some) for some in inputs])
    there = read >= 0
    there[there] = makes[read[there]] >= 0
    read, reader = read[there], reader[there]
    source, cost = makes[read], np.array(priced.transfer)[read]
    order = np.lexsort((cost, source, reader))  # of the values between two nodes, the one that takes longest
    source, reader, cost = source[order], reader[order], cost[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (source[1:] != source[:-1]) | (reader[1:] != reader[:-1])
    dag = dag_of([0.0] * shift + priced.seconds, source[last], reader[last], cost[last])
    fixed = [residency[value] for value in held.tolist()] + [-1] * len(inputs)
    for root, worker in constraints.forced.items():
        fixed[shift + root] = worker
    return as_problem(
        dag,
        Platform.of(workers),
        group=[*range(shift), *[shift + root for root in constraints.group]] if shift else constraints.group,
        fixed=fixed,
        allowed={shift + root: tuple(sorted(some)) for root, some in constraints.allowed.items()},
    )
