"""From a graph to a plan and its programs, and the cache of what was planned before.

Rules of this file: a plan is a pure function of (graph, residency, costs, cluster, seed); so the cache is keyed by
what stands for those: (structural hash, residency, cluster epoch, cost epoch) (H14), the seed being fixed. A training
loop plans its step once.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import NamedTuple

from raygrad.errors import PlanError
from raygrad.proto.graph import Graph
from raygrad.proto.program import Program

from .costs import Costs
from .crossing import cross
from .lower import lower
from .order import arrange, hold
from .place import place
from .plan import Cluster, Plan
from .predict import predict
from .priced import price

PLANS_KEPT = 64
"""Plans in the cache: a program has a few kinds of step (train, evaluate, the last short batch); a graph that differs
each time must not fill the memory. At 20,000 nodes a plan takes about 10 MB."""


class Planned(NamedTuple):
    """A plan with the program of each of its segments."""

    plan: Plan
    programs: tuple[Program, ...]


class Planner:
    """Plans graphs for one cluster, and remembers the plans. Not safe for use by several threads at once."""

    def __init__(self, cluster: Cluster, costs: Costs | None = None, seed: int = 0) -> None:
        self._cluster = cluster
        self._cluster_epoch = 0
        self._costs = Costs() if costs is None else costs
        self._seed = seed
        self._plans: OrderedDict[tuple[object, ...], Planned] = OrderedDict()
        self.hits = 0
        """Calls of `plan` answered from the cache."""
        self.misses = 0
        """Calls of `plan` that planned."""

    @property
    def cluster(self) -> Cluster:
        """The workers that plans are made for."""
        return self._cluster

    @property
    def costs(self) -> Costs:
        """The cost model that plans are made with."""
        return self._costs

    def use_cluster(self, cluster: Cluster) -> None:
        """Plan for other workers from now on: a new cluster epoch. Plans handed out before stay as they are."""
        if cluster != self._cluster:
            self._cluster = cluster
            self._cluster_epoch += 1

    def use_costs(self, costs: Costs) -> None:
        """Plan with another cost model from now on; it must have an epoch of its own."""
        self._costs = costs

    def plan(self, graph: Graph, residency: tuple[int, ...], key: bytes) -> Planned:
        """Return the plan of a graph and its programs, from the cache if it was planned before.

        `residency` has one worker index per external of the graph: where the value is pinned, or -1 (at the client,
        in the store). `key` is the graph's structural hash: graphs with equal keys are taken to be equal.

        Raises PlanError if a node can run nowhere, or a residency is not that of this graph and cluster.
        """
        full_key = (key, residency, self._cluster_epoch, self._costs.epoch)
        planned = self._plans.get(full_key)
        if planned is not None:
            self.hits += 1
            self._plans.move_to_end(full_key)
            return planned
        self.misses += 1
        planned = make_plan(graph, residency, self._costs, self._cluster, self._seed, key)
        self._plans[full_key] = planned
        if len(self._plans) > PLANS_KEPT:
            self._plans.popitem(last=False)
        return planned


def make_plan(
    graph: Graph, residency: tuple[int, ...], costs: Costs, cluster: Cluster, seed: int, key: bytes
) -> Planned:
    """Plan a graph: price it, place it, order and cut it, decide what crosses, lower it. Pure. See `Planner.plan`.

    Raises PlanError.
    """
    if len(residency) != len(graph.externals):
        raise PlanError(f"{len(residency)} residencies for {len(graph.externals)} externals")
    if residency and not -1 <= min(residency) <= max(residency) < len(cluster.workers):
        raise PlanError(f"a residency is none of the {len(cluster.workers)} workers")
    priced = price(graph, costs)
    placement = place(priced, residency, costs, cluster, seed)
    blocks = arrange(priced, placement.blocks, placement.node_worker, residency, costs, cluster)
    crossing = cross(priced, blocks, residency)
    segments = hold(crossing.segments, cluster)
    plan = Plan(
        hash=blake2b(repr((key, residency, cluster, costs, seed)).encode(), digest_size=16).digest(),
        workers=tuple(worker.name for worker in cluster.workers),
        segments=segments,
        node_worker=placement.node_worker,
        kept=crossing.kept,
        open_ended=graph.open_ended,
        crossing_bytes=crossing.crossing_bytes,
        predicted_seconds=predict(segments, priced, residency, costs),
    )
    return Planned(plan, lower(graph, plan))
