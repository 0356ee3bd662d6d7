"""Choose the worker of every node, forward and backward in one graph.

Rules of this file: a placement is a pure function of (graph, residency, costs, cluster, seed); ties are broken by
index. What must hold comes first (`Constraints`): the kinds of device that a node needs, `pin`, `near`. Among what is
left, three placements are tried and the one whose segments are predicted to end first is taken:

- everything on one worker: the one that holds most of what the graph reads;
- HEFT: nodes by upward rank, each where it finishes earliest, idle gaps included (Topcuoglu et al., 2002);
- the same greedy choice in depth-first order. HEFT advances all branches together, so that moving the next node of
  any one of them never seems worth a hop; finishing one branch before the next shows that the other worker is idle.

Fan-ins of many branches are placed like any other node; refinement by boundary moves belongs after the choice.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raygrad.errors import PlanError
from raygrad.proto.graph import KIND_ARRAY, Node

from .costs import Costs
from .plan import Cluster
from .priced import Links, Priced, link
from .segment import Block, cut

GAPS_KEPT = 16
"""Idle gaps remembered per worker for insertion: the latest ones; older ones are hardly ever reachable."""


class Placement(NamedTuple):
    """The worker of every node, with the blocks and the predicted time that made it the choice."""

    node_worker: tuple[int, ...]
    blocks: list[Block]
    seconds: float


def place(priced: Priced, residency: Sequence[int], costs: Costs, cluster: Cluster, seed: int = 0) -> Placement:
    """Place the graph on the cluster.

    `residency` has one worker index per external: where the value is pinned, or -1 if it is at the client, in the
    store or anywhere. `near` and `pin` are obeyed or refused; a `near` that names an external without residency is
    free.

    Raises PlanError if the cluster is empty, or no worker can run a node: it names the node and why.
    """
    count, workers = len(priced.seconds), len(cluster.workers)
    if not workers:
        raise PlanError("the cluster has no workers")
    constraints = constrain(priced, residency, cluster)
    if workers == 1 or not count:
        only = (0,) * count
        made = cut(priced, None, only, residency, costs)
        return Placement(only, made.blocks, made.seconds)
    links: Links | None = None
    best: Placement | None = None
    single = _single_worker(priced, constraints, residency, workers, seed)
    if single >= 0:
        node_worker = (single,) * count
        made = cut(priced, None, node_worker, residency, costs)
        best = Placement(node_worker, made.blocks, made.seconds)
        if sum(priced.seconds) * (workers - 1) / workers <= costs.hop_seconds:
            return best  # even a perfect division would not earn the hop
    links = link(priced)
    for order in [range(count)] if constraints.all_forced() else [by_rank(priced, workers), depth_first(links)]:
        node_worker = tuple(_earliest_finish(order, priced, constraints, residency, workers, seed))
        if best is not None and node_worker == best.node_worker:
            continue
        made = cut(priced, links, node_worker, residency, costs)
        if best is None or made.seconds < best.seconds:
            best = Placement(node_worker, made.blocks, made.seconds)
    assert best is not None
    return best


# ---- what must hold ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constraints:
    """Where nodes may go. Nodes tied by `near` are one group, named by its first node; they go to one worker."""

    group: list[int]
    """Per node, the first node of its group."""
    forced: dict[int, int]
    """Per group with only one choice, its worker."""
    allowed: dict[int, frozenset[int]]
    """Per group that not every worker can run, those that can; never empty."""

    def all_forced(self) -> bool:
        """Return whether nothing is left to choose."""
        return bool(self.forced) and all(root in self.forced for root in self.group)


def constrain(priced: Priced, residency: Sequence[int], cluster: Cluster) -> Constraints:
    """Collect what the graph demands of its placement.

    Raises PlanError, naming the node, if a demand cannot be met or two of them contradict each other.
    """
    group: list[int] = []
    forced: dict[int, int] = {}
    allowed: dict[int, frozenset[int]] = {}
    offers = [worker.kinds for worker in cluster.workers]
    kinds = [spec.device.partition(":")[0] if spec.kind == KIND_ARRAY else "" for spec in priced.graph.specs]
    everywhere = all(kind in offer for kind in {*kinds} - {""} for offer in offers)
    able: dict[frozenset[str], frozenset[int]] = {}
    for index, node in enumerate(priced.graph.nodes):
        root, home = index, -1
        if node.near >= 0:
            maker = priced.maker[node.near]
            if maker >= index:
                raise PlanError(f"{describe(index, node)} is to run near value {node.near}, which is made later")
            if maker >= 0:
                root = group[maker]
            else:
                home = residency[node.near]
        group.append(root)
        if not everywhere:
            need = frozenset(kinds[priced.spec[value]] for value in node.inputs if value >= 0)
            need |= {kinds[spec] for spec in node.outputs}
            need = need - {"", "cpu"} or need - {""}  # a worker with a GPU has host memory too
            can = able.get(need)
            if can is None:
                can = able[need] = frozenset(w for w, offer in enumerate(offers) if need <= offer)
            _restrict(allowed, root, can, index, node, f"no worker offers {', '.join(sorted(need))}")
        if home >= 0:
            _force(forced, root, home, index, node)
        if node.pin >= 0:
            if node.pin >= len(offers):
                raise PlanError(f"{describe(index, node)} is pinned to worker {node.pin} of {len(offers)}")
            _force(forced, root, node.pin, index, node)
    for root, worker in forced.items():
        if root in allowed and worker not in allowed[root]:
            name = cluster.workers[worker].name
            raise PlanError(f"{describe(root, priced.graph.nodes[root])} must run on {name}, which lacks its device")
    return Constraints(group=group, forced=forced, allowed=allowed)


def describe(index: int, node: Node) -> str:
    """Return how errors name a node."""
    return f"node {index} ({'.'.join((*node.transforms, node.fn))})"


def _force(forced: dict[int, int], root: int, worker: int, index: int, node: Node) -> None:
    if forced.setdefault(root, worker) != worker:
        raise PlanError(f"{describe(index, node)} must run on worker {worker} and on worker {forced[root]}")


def _restrict(
    allowed: dict[int, frozenset[int]], root: int, can: frozenset[int], index: int, node: Node, why: str
) -> None:
    both = allowed[root] & can if root in allowed else can
    if not both:
        raise PlanError(f"{describe(index, node)} cannot run: {why}" + (", and what it is near to" if can else ""))
    allowed[root] = both


# ---- what is tried -------------------------------------------------------------------------------------------------


def _single_worker(priced: Priced, constraints: Constraints, residency: Sequence[int], workers: int, seed: int) -> int:
    """Return the worker to run everything on: of those that can, the one that saves most transfers; -1 if none can."""
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


def by_rank(priced: Priced, workers: int) -> list[int]:
    """Return the nodes by falling upward rank: the predicted time from a node's start to the end of everything that
    depends on it. A topological order, because every node takes time."""
    below = [0.0] * len(priced.seconds)
    rank = [0.0] * len(priced.seconds)
    share = (workers - 1) / workers  # of the pairs of workers, those between which a transfer is needed
    nodes, maker, transfer = priced.graph.nodes, priced.maker, priced.transfer
    for index in range(len(nodes) - 1, -1, -1):
        mine = rank[index] = priced.seconds[index] + below[index]
        for value in nodes[index].inputs:
            if value >= 0:
                source = maker[value]
                if source >= 0:
                    above = mine + share * transfer[value]
                    if above > below[source]:
                        below[source] = above
    return sorted(range(len(nodes)), key=lambda index: (-rank[index], index))


def depth_first(links: Links) -> list[int]:
    """Return the nodes in a topological order that follows what a node has just made possible."""
    missing = [len(one) for one in links.before]
    stack = [index for index in range(len(missing) - 1, -1, -1) if not missing[index]]
    order: list[int] = []
    while stack:
        index = stack.pop()
        order.append(index)
        for reader in reversed(links.after[index]):
            missing[reader] -= 1
            if not missing[reader]:
                stack.append(reader)
    return order


class _Idle:
    """The idle time of one worker: all after `free`, and the gaps before it."""

    __slots__ = ("free", "gaps")

    def __init__(self) -> None:
        self.free = 0.0
        self.gaps: list[tuple[float, float]] = []

    def start(self, ready: float, seconds: float) -> float:
        """Return the earliest start of work of that length which is ready then."""
        for begin, end in self.gaps:
            begin = max(begin, ready)
            if begin + seconds <= end:
                return begin
        return max(self.free, ready)

    def take(self, start: float, seconds: float, least: float) -> None:
        """Use the time; remember what is left idle before it if that is at least `least` long."""
        if start >= self.free:
            if start - self.free >= least:
                self.gaps.append((self.free, start))
                del self.gaps[:-GAPS_KEPT]
            self.free = start + seconds
            return
        for position, (begin, end) in enumerate(self.gaps):
            if begin <= start < end:
                del self.gaps[position]
                for left in ((begin, start), (start + seconds, end)):
                    if left[1] - left[0] >= least:
                        insort(self.gaps, left)
                return


def _earliest_finish(
    order: Sequence[int],
    priced: Priced,
    constraints: Constraints,
    residency: Sequence[int],
    workers: int,
    seed: int,
) -> list[int]:
    """Place the nodes one by one, in a topological order, each where it finishes earliest; return their workers.

    The first node of a group to be placed chooses for the group.
    """
    nodes, maker, transfer, seconds = priced.graph.nodes, priced.maker, priced.transfer, priced.seconds
    group, allowed = constraints.group, constraints.allowed
    chosen = dict(constraints.forced)
    placed = [-1] * len(nodes)
    finish = [0.0] * len(nodes)
    idle = [_Idle() for _ in range(workers)]
    everyone = sorted(range(workers), key=lambda worker: (worker - seed) % workers)
    least = min(seconds, default=0.0)
    for index in order:
        here: dict[int, float] = {}  # per worker that has something of the inputs, when all that it has is there
        far = next_far = 0.0  # the latest arrival anywhere else, and the latest from another worker than `far_from`
        far_from = -1
        for value in nodes[index].inputs:
            if value < 0:
                continue
            source = maker[value]
            if source >= 0:
                home, made = placed[source], finish[source]
            else:
                home, made = residency[value], 0.0
                if home < 0:
                    continue
            if made > here.get(home, -1.0):
                here[home] = made
            made += transfer[value]
            if home == far_from:
                far = max(far, made)
            elif made > far:
                far, next_far, far_from = made, far, home
            elif made > next_far:
                next_far = made
        cost, root = seconds[index], group[index]
        worker = chosen.get(root, -1)
        if worker >= 0:
            ready = max(here.get(worker, 0.0), next_far if worker == far_from else far)
            start = idle[worker].start(ready, cost)
        else:
            start = -1.0
            some = allowed.get(root)
            for one in everyone:
                if some is not None and one not in some:
                    continue
                ready = max(here.get(one, 0.0), next_far if one == far_from else far)
                begin = idle[one].start(ready, cost)
                if worker < 0 or begin < start:
                    worker, start = one, begin
            chosen[root] = worker
        idle[worker].take(start, cost, least)
        placed[index] = worker
        finish[index] = start + cost
    return placed
