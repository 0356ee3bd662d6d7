"""Placement constraints: the workers on which each node of a graph may run.

Constraints are the devices that a node needs, `pin`, `near`, requested resources, and a worker's memory. `place` keeps
them for small graphs; `clustered_planner` converts them to arrays (`constraint_arrays`). An error names the node whose
constraints cannot be met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from raygrad.errors import PlanError
from raygrad.proto.ir.graph import DEVICE, Graph
from raygrad.proto.ir.nodes import FunctionVjp, Load, Node, moves
from raygrad.proto.ir.specs import ArraySpec, Spec, is_stored

from ..memory.feasible_workers import feasible_workers
from ..model.arrays import GraphArrays, number_pairs
from ..model.dag import Indices
from ..model.disjoint_sets import find_root
from ..model.plan import Cluster, WorkerSpec
from ..model.plan_errors import plan_error
from ..model.priced_graph import PricedGraph

WORKERS_NAMED = 8
"""The most workers whose offers an error lists."""
MAX_DEVICES = 62
"""The most devices in one large graph: they are bits of an integer."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """The workers allowed for each group of nodes. Nodes tied by `near` are one group, named by its first node."""

    group: list[int]
    """Per node, the first node of its group."""
    forced: dict[int, int]
    """Per group with only one choice, its worker."""
    allowed: dict[int, frozenset[int]]
    """Per group that not every worker can run, those that can; never empty."""
    needs: Sequence[frozenset[str]] = ()
    """Per class of nodes (`PricedGraph.classes`), the devices that one needs; empty if every worker serves them all."""
    loose: Constraints | None = None
    """The constraints without the ties of vjps to forwards whose contexts can leave their worker, if there are such
    ties: they are a preference, and what keeping to them costs is to be compared with a transfer of the context."""

    def tied(self, pairs: Iterable[tuple[int, int]]) -> Constraints:
        """Return the constraints with each pair of nodes tied, unless they have to be on different workers."""
        parent = {root: root for root in self.group}
        forced, allowed = dict(self.forced), dict(self.allowed)
        for pair in pairs:
            one, other = sorted([find_root(parent, self.group[node]) for node in pair])
            if one == other:
                continue
            homes = {forced[root] for root in (one, other) if root in forced}
            able = [allowed[root] for root in (one, other) if root in allowed]
            both = (able[0] & able[-1]) if able else None
            if len(homes) > 1 or (both is not None and not (both & homes if homes else both)):
                continue
            parent[other] = one
            for known in (forced, allowed):
                known.pop(other, None)
            if homes:
                forced[one] = homes.pop()
            if both is not None:
                allowed[one] = both
        group = [find_root(parent, root) for root in self.group]
        return replace(self, group=group, forced=forced, allowed=allowed, loose=None)

    def confined(self, workers: frozenset[int]) -> Constraints:
        """Return the constraints with only these workers allowed for each group that can run on one of them."""
        allowed = dict(self.allowed)
        for root in {*self.group} - self.forced.keys():
            allowed[root] = (allowed.get(root, workers) & workers) or allowed[root]
        return replace(self, allowed=allowed, loose=None)

    def all_forced(self) -> bool:
        """Return whether every group has only one choice."""
        return bool(self.forced) and all(root in self.forced for root in self.group)


def find_constraints(priced: PricedGraph, residency: Sequence[int], cluster: Cluster) -> Constraints:
    """Return the placement constraints of a graph, vjps tied to their forwards as far as possible (`loose`).

    Raises PlanError, naming the node, if a demand cannot be met or two of them contradict each other.
    """
    nodes, workers = priced.graph.nodes, cluster.workers
    group = list(range(len(nodes)))
    forced: dict[int, _ForcedWorker] = {}
    allowed: dict[int, frozenset[int]] = {}
    reasons: dict[int, str] = {}
    """Why not every worker can run a group."""
    devices = {*devices_of(priced.graph.specs)} - {""}
    everywhere = _serve_all(workers, devices)
    needs = [] if everywhere else class_devices(priced)
    able = {need: (frozenset(able_workers(cluster, need)), " and ".join(sorted(need))) for need in needs}
    preferred: list[tuple[int, int]] = []
    move = len(workers) > 1 and not cluster.has_limits
    hinted = [index for index, node in enumerate(nodes) if node.near >= 0 or node.pin >= 0] if everywhere else ()
    for index in hinted if everywhere else range(len(nodes)):
        node, root, home = nodes[index], index, -1
        if node.near >= 0:
            maker = priced.maker[node.near]
            if maker >= index:
                raise plan_error((index, node), f" is to run near value {node.near}, which is made later")
            if maker >= 0 and move and _context_moves(priced, node):
                preferred.append((index, maker))
            elif maker >= 0:
                root = group[index] = group[maker]
            else:
                home = residency[node.near]
        if not everywhere:
            can, missing = able[needs[priced.classes.number[index]]]
            if len(can) < len(workers):
                if allowed.get(root) is not can:
                    _restrict_workers(allowed, root, can, (index, node), partial(_unserved_text, missing, cluster))
                reasons[root] = f"it needs {missing}"
        if home >= 0:
            _force_worker(forced, root, _ForcedWorker(home, index, HOME), priced.graph)
        if node.pin >= 0:
            if node.pin >= len(workers):
                there = "there are workers 0 to" if len(workers) > 1 else "there is worker"
                raise plan_error((index, node), f" is pinned to worker {node.pin}, and {there} {len(workers) - 1}")
            _force_worker(forced, root, _ForcedWorker(node.pin, index, PINNED), priced.graph)
    for index, name, requests in priced.graph.demands:
        can = frozenset(w for w, worker in enumerate(workers) if worker.offers(requests))
        if len(can) < len(workers):
            why = partial(_lacking_text, name, requests, cluster)
            _restrict_workers(allowed, group[index], can, (index, nodes[index]), why)
            reasons[group[index]] = f"{name or 'it'} asks for {_requests_text(requests)}"
    for root, (worker, index, why) in forced.items():
        if root in allowed and worker not in allowed[root]:
            lacking = workers[worker]
            if lacking.lost:
                remedy = "leave `rg.place` out, or name another worker"
                raise plan_error((index, nodes[index]), f" must run on {lacking.name}, {why}, which is lost: {remedy}")
            others = ", ".join([workers[one].name for one in sorted(allowed[root])[:WORKERS_NAMED]])
            raise plan_error(
                (index, nodes[index]),
                f" must run on {lacking.name}, {why}, which lacks what it asks for: {reasons[root]}, and there is "
                f"{lacking.described()}; {others} could run it",
            )
    for index, can in feasible_workers(priced, cluster).items():
        both = allowed.get(group[index], can) & can
        if both and group[index] not in forced:
            allowed[group[index]] = both
    found = Constraints(group, {root: one.worker for root, one in forced.items()}, allowed, needs)
    if cluster.has_limits:  # what was spilled is on the disk of its worker
        loads = [index for index, node in enumerate(nodes) if isinstance(node, Load)]
        found = found.tied([(index, priced.maker[nodes[index].inputs[0]]) for index in loads])
    return replace(found.tied(preferred), loose=found) if preferred else found


def _context_moves(priced: PricedGraph, node: Node) -> bool:
    """Tell whether a node is a vjp whose context can go to another worker: as far as is known it pickles (H10)."""
    return isinstance(node, FunctionVjp) and is_stored(priced.graph.specs[priced.spec[node.near]])


def able_workers(cluster: Cluster, devices: Iterable[str]) -> list[int]:
    """Return the workers that serve all of some devices; lost ones serve not even none."""
    needed = list(devices)
    return [
        index for index, worker in enumerate(cluster.workers) if not worker.lost and all(map(worker.serves, needed))
    ]


def _serve_all(workers: Sequence[WorkerSpec], devices: Iterable[str]) -> bool:
    """Return whether each worker serves each device."""
    return not any([worker.lost for worker in workers]) and all(
        [worker.serves(device) for device in devices for worker in workers]
    )


def class_devices(priced: PricedGraph) -> list[frozenset[str]]:
    """Return, per class of nodes, the devices that the worker of one has to serve."""
    return [
        devices_needed(node, {*devices_of(inputs)}, {*devices_of(outputs)})
        for node, inputs, outputs in priced.classes.classes
    ]


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
        f"{before.why}. The hooks of a Function, and its backward if its context cannot leave its worker, run on the "
        "worker of its forward: leave `rg.place` out around them, or name the same worker",
    )


def _restrict_workers(
    allowed: dict[int, frozenset[int]], root: int, can: frozenset[int], node: tuple[int, Node], why: Callable[[], str]
) -> None:
    both = allowed[root] & can if root in allowed else can
    if not both:
        raise plan_error(node, f" cannot run: {why()}" + (", and what it is near to" if can else ""))
    allowed[root] = both


# ---- as arrays -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ConstraintArrays:
    """The placement constraints of a large graph's nodes."""

    bound: Indices
    """Per node, the first of the nodes that must share its worker: itself if none."""
    demand: Indices
    """Per node, its entry in `allowed`; equal for nodes that must share a worker, but for an open-ended node, which has
    an entry of its own."""
    kinds: Indices
    """Per demand, the devices that it needs as bits, by `names`."""
    names: tuple[str, ...]
    forced: bool
    """Some node must run on a worker given by its index."""
    allowed: list[list[int] | None]
    """Per demand, the workers that satisfy it; None if all do."""

    def able_workers(self, cluster: Cluster, kinds: int) -> list[int]:
        """Return the workers that serve devices given as bits."""
        return able_workers(cluster, [name for bit, name in enumerate(self.names) if kinds >> bit & 1])


def constraint_arrays(arrays: GraphArrays, residency: Sequence[int], cluster: Cluster) -> ConstraintArrays:
    """Return the placement constraints of a graph without requested resources.

    Raises PlanError as `find_constraints` does.
    """
    found, count = find_constraints(arrays.priced, residency, cluster), len(arrays)
    bound, forced = np.array(found.group, np.int64), np.full(count, -1)
    forced[list(found.forced)] = list(found.forced.values())
    names = tuple(sorted(frozenset[str]().union(*found.needs)))
    if len(names) > MAX_DEVICES:
        raise PlanError(f"a graph of {len(names)} devices: at most {MAX_DEVICES} may be used in one submission")
    kinds = np.zeros(count, np.int64)
    if found.needs:
        bits = [sum([1 << names.index(name) for name in need]) for need in found.needs]
        np.bitwise_or.at(kinds, bound, np.array(bits, np.int64)[arrays.class_of])
    demand = number_pairs(forced[bound] + 1, kinds[bound], int(kinds.max(initial=0)) + 1)
    if arrays.graph.open_ended:
        demand = demand.copy()
        demand[-1] = demand.max() + 1
    example = np.zeros(int(demand.max(initial=-1)) + 1, np.int64)
    example[demand] = bound
    options = [[found.forced[one]] if one in found.forced else found.allowed.get(one) for one in example.tolist()]
    return ConstraintArrays(
        bound=bound,
        demand=demand,
        kinds=kinds[example],
        names=names,
        forced=bool(found.forced),
        allowed=[None if some is None else sorted(some) for some in options],
    )


def constraints_for_workers(before: ConstraintArrays, arrays: GraphArrays, cluster: Cluster) -> ConstraintArrays | None:
    """Return the constraints for another cluster, if no node is bound to a worker by its index.

    Return None if they have to be computed from scratch: other devices matter now, or no worker satisfies some demand.
    """
    devices = {*devices_of(arrays.graph.specs)} - {""}
    if not before.names and not _serve_all(cluster.workers, devices):
        return None
    able = [before.able_workers(cluster, need) for need in before.kinds.tolist()]
    if not all(able):
        return None
    return replace(before, allowed=[None if len(some) == len(cluster.workers) else some for some in able])
