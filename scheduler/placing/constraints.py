"""Placement constraints of a large graph as arrays: `place.find_constraints` without a loop over nodes.

`clustered_planner` computes them before clustering. Where a constraint cannot be met, `place.find_constraints` is
called, which raises an error that names the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from raygrad.errors import PlanError
from raygrad.proto.ir.nodes import moves

from ..model.arrays import GraphArrays, number_pairs
from ..model.dag import Indices
from ..model.plan import Cluster
from .place import devices_of, find_constraints

MAX_DEVICES = 62
"""The most devices in one graph: they are bits of an integer."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ConstraintArrays:
    """The placement constraints of a graph's nodes."""

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


def constraint_arrays(arrays: GraphArrays, residency: Sequence[int], cluster: Cluster) -> ConstraintArrays:
    """Return the placement constraints of a graph.

    Raises PlanError, naming the node, if a demand cannot be met or two of them contradict each other.
    """
    nodes, count = arrays.graph.nodes, len(arrays)
    pin = np.fromiter(map(attrgetter("pin"), nodes), np.int64, count)
    near = np.fromiter(map(attrgetter("near"), nodes), np.int64, count)
    maker = np.append(arrays.maker, -1)[near]
    bound = np.where(maker >= 0, maker, np.arange(count))
    if (bound > np.arange(count)).any() or pin.max(initial=-1) >= len(cluster.workers):
        _raise_unsatisfiable(arrays, residency, cluster)
    while (further := bound[bound]).tobytes() != bound.tobytes():
        bound = further
    home = np.where(maker >= 0, -1, np.append(residency, -1).astype(np.int64)[np.minimum(near, len(residency))])
    home[near < 0] = -1
    forced = np.full(count, -1)
    for wanted in (pin, home):
        some = np.flatnonzero(wanted >= 0)
        free = forced[bound[some]] < 0
        forced[bound[some[free]]] = wanted[some[free]]
        if (forced[bound[some]] != wanted[some]).any():
            _raise_unsatisfiable(arrays, residency, cluster)
    names, needs = _device_bits(arrays, cluster)
    kinds = np.zeros(count, np.int64)
    np.bitwise_or.at(kinds, bound, needs)
    demand = number_pairs(forced[bound] + 1, kinds[bound], int(kinds.max(initial=0)) + 1)
    if arrays.graph.open_ended:
        demand = demand.copy()
        demand[-1] = demand.max() + 1
    example = np.zeros(int(demand.max(initial=-1)) + 1, np.int64)
    example[demand] = np.arange(count)
    example = bound[example]
    allowed: list[list[int] | None] = []
    for worker, need in zip(forced[example].tolist(), kinds[example].tolist(), strict=True):
        able = able_workers(cluster, names, need)
        if worker >= 0:
            able = [worker] if able is None or worker in able else []
        if able is not None and not able:
            _raise_unsatisfiable(arrays, residency, cluster)
        allowed.append(able)
    return ConstraintArrays(
        bound=bound,
        demand=demand,
        kinds=kinds[example],
        names=names,
        forced=bool((forced >= 0).any()),
        allowed=allowed,
    )


def constraints_for_workers(before: ConstraintArrays, arrays: GraphArrays, cluster: Cluster) -> ConstraintArrays | None:
    """Return the constraints for another cluster, if no node is bound to a worker by its index.

    Return None if they have to be computed from scratch: other devices matter now, or no worker satisfies some demand.
    """
    devices = {*devices_of(arrays.graph.specs)} - {""}
    if not before.names and not all(worker.serves(device) for device in devices for worker in cluster.workers):
        return None
    allowed = [able_workers(cluster, before.names, need) for need in before.kinds.tolist()]
    if any(some is not None and not some for some in allowed):
        return None
    return replace(before, allowed=allowed)


def able_workers(cluster: Cluster, names: Sequence[str], kinds: int) -> list[int] | None:
    """Return the workers that serve devices given as bits; None if all do."""
    wanted = [name for bit, name in enumerate(names) if kinds >> bit & 1]
    able = [index for index, worker in enumerate(cluster.workers) if all(map(worker.serves, wanted))]
    return None if len(able) == len(cluster.workers) else able


def _device_bits(arrays: GraphArrays, cluster: Cluster) -> tuple[tuple[str, ...], Indices]:
    """Return the devices that not every worker serves, and, per node, those that it needs as bits."""
    devices = devices_of(arrays.graph.specs)
    names = tuple(sorted({*devices} - {""}))
    if all(worker.serves(name) for name in names for worker in cluster.workers):
        return (), np.zeros(len(arrays), np.int64)
    if len(names) > MAX_DEVICES:
        raise PlanError(f"a graph of {len(names)} devices: at most {MAX_DEVICES} may be used in one submission")
    bit = np.array([1 << names.index(device) if device else 0 for device in devices], np.int64)[arrays.spec]
    needs = np.zeros(len(arrays), np.int64)
    present = arrays.read >= 0
    np.bitwise_or.at(needs, arrays.reader[present], bit[arrays.read[present]])
    made = np.flatnonzero(arrays.maker >= 0)
    for index in [index for index, node in enumerate(arrays.graph.nodes) if moves(node)]:
        if {devices[spec] for spec in arrays.graph.nodes[index].outputs} != {"cpu"}:
            needs[index] = 0  # its input comes through host memory
    np.bitwise_or.at(needs, arrays.maker[made], bit[made])
    host = 1 << names.index("cpu") if "cpu" in names else 0
    return names, np.where(needs & ~host, needs & ~host, needs)  # a worker with a GPU has host memory too


def _raise_unsatisfiable(arrays: GraphArrays, residency: Sequence[int], cluster: Cluster) -> None:
    find_constraints(arrays.priced(), residency, cluster)
    raise PlanError("the graph cannot be placed: its demands contradict each other")
