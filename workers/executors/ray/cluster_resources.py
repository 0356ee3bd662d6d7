"""Resources of the connected Ray against what the workers of a session ask for: what is missing, and who has it.

Ray itself waits in silence for resources that are taken, or that no node has. Actors and placement groups are counted
by Ray's tables, which are exact at once; Ray's own numbers of what is free are seconds old. Tasks are in no table."""

from __future__ import annotations

import importlib
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .placement_groups import ROUNDING, requested_resources

MOST_NODES: Final = 8
"""Nodes that a message lists."""

MOST_HOLDERS: Final = 6
"""Holders that a message lists for a node."""


@dataclass(frozen=True, slots=True)
class Holder:
    """An actor or a placement group that holds resources of a node."""

    name: str
    amounts: Mapping[str, float]


@dataclass(slots=True)
class NodeResources:
    """A node with its resources and their holders."""

    name: str
    total: Mapping[str, float]
    holders: list[Holder] = field(default_factory=list[Holder])

    def free(self) -> dict[str, float]:
        """Return what actors and placement groups have left."""
        free = dict(self.total)
        for holder in self.holders:
            for name, amount in holder.amounts.items():
                free[name] = free.get(name, 0.0) - amount
        return free


Amounts = tuple[tuple[str, float], ...]
"""What a worker asks for, by the names of Ray's resources; a key."""


def amounts_of(options: Sequence[Mapping[str, Any]]) -> Counter[Amounts]:
    """Return what workers with these options of actors ask for, and how many ask for each."""
    return Counter([tuple(sorted(requested_resources(own).items())) for own in options])


def missing_resources(asked: Counter[Amounts], nodes: Sequence[Mapping[str, float]]) -> str:
    """Return what nodes with these resources do not have room for, or "" if that cannot be told: workers of one kind
    are counted on each node, and amounts of all kinds are added up."""
    for amounts, count in asked.items():
        room = sum([_room(amounts, node) for node in nodes])
        if room < count:
            return f"{count} of the workers ask for {_shown(amounts)} each, and there is room for {int(room)} of them"
    sums: Counter[str] = Counter()
    for amounts, count in asked.items():
        for name, amount in amounts:
            sums[name] += amount * count  # pyright: ignore[reportArgumentType]
    for name, amount in sums.items():
        there = sum([node.get(name, 0.0) for node in nodes])
        if amount > there + ROUNDING:
            return f"{asked.total()} workers ask for {name} {amount:g} together, and there is {max(there, 0.0):g}"
    return ""


def _room(amounts: Amounts, node: Mapping[str, float]) -> float:
    """Return how many workers that ask for these amounts a node has room for."""
    rooms = [(node.get(name, 0.0) + ROUNDING) // amount for name, amount in amounts if amount > 0]
    return max(min(rooms, default=math.inf), 0.0)


def describe_nodes(nodes: Sequence[NodeResources], asked: Counter[Amounts]) -> str:
    """Return a line per node: how much of what is asked for it has, how much of that is free, and who holds it."""
    names = sorted({name for amounts in asked for name, _ in amounts})
    lines: list[str] = []
    for node in nodes[:MOST_NODES]:
        free = node.free()
        have = [
            f"{name} {_amount(name, free.get(name, 0.0))} of {_amount(name, node.total.get(name, 0.0))} free"
            for name in names
        ]
        held: list[str] = []
        for holder in node.holders:
            own = [f"{name} {_amount(name, holder.amounts[name])}" for name in names if holder.amounts.get(name)]
            if own:
                held.append(f"{holder.name} has {', '.join(own)}")
        more = [f"{len(held) - MOST_HOLDERS} others hold some, too"] if len(held) > MOST_HOLDERS else []
        lines.append("; ".join([f"{node.name}: {', '.join(have)}", *held[:MOST_HOLDERS], *more]))
    if len(nodes) > MOST_NODES:
        lines.append(f"and {len(nodes) - MOST_NODES} more nodes")
    return "\n  ".join(["", *lines])


def _shown(amounts: Amounts) -> str:
    return ", ".join([f"{name} {_amount(name, amount)}" for name, amount in amounts if amount > 0]) or "nothing"


def _amount(name: str, amount: float) -> str:
    if name == "memory" and amount >= 2**20:
        return f"{amount / 2**30:.3g} GiB"
    return f"{max(round(amount, 4), 0.0):g}"


# ---- Ray's tables ----------------------------------------------------------------------------------------------------


def read_nodes() -> list[NodeResources]:
    """Return the living nodes of the connected Ray, with who holds their resources."""
    client = importlib.import_module("ray._private.state")
    nodes = {
        node["NodeID"]: NodeResources(f"node {node['NodeManagerHostname']} ({node['NodeID'][:8]})", node["Resources"])
        for node in client.nodes()
        if node["Alive"]
    }
    jobs = {job["JobID"]: job for job in client.jobs()}
    for actor in read_actors():
        node = nodes.get(actor.address.node_id.hex())
        if node is not None and actor.pid and not actor.placement_group_id.strip(b"\xff"):
            node.holders.append(Holder(_actor_name(actor, jobs), dict(actor.required_resources)))
    groups = importlib.import_module("ray.util.placement_group").placement_group_table()
    for number, group in groups.items():
        name = f"the placement group {group['name'] or number[:8]}"
        for index, where in group["bundles_to_node_id"].items():
            if group["state"] == "CREATED" and where in nodes:
                nodes[where].holders.append(Holder(name, dict(group["bundles"][index])))
    return list(nodes.values())


def free_slots(options: Mapping[str, Any]) -> float:
    """Return for how many more workers with these options of actors the nodes have room; infinity if they ask for
    nothing."""
    (amounts,) = amounts_of([options])
    return sum([_room(amounts, node.free()) for node in read_nodes()])


def read_leaving() -> dict[str, float]:
    """Return the ids of the nodes that have announced their end, with the seconds that are left to each, infinity if
    that is not known."""
    state = importlib.import_module("ray._private.state").state
    now = time.time()
    return {
        node: max(deadline / 1e3 - now, 0.0) if deadline else math.inf
        for node, deadline in state.get_draining_nodes().items()
    }


def cpu_slots(cpus: float) -> int:
    """Return for how many workers with so many CPUs each the nodes have room, whoever uses them."""
    return sum([int(node.total.get("CPU", 0.0) // cpus) for node in read_nodes()])


def bundles_to_place(group: Any) -> Counter[Amounts]:
    """Return the bundles of a placement group that Ray has not placed yet, as what workers in them ask for."""
    table = importlib.import_module("ray.util.placement_group").placement_group_table(group)
    if table.get("state") == "CREATED":
        return Counter()
    return Counter([tuple(sorted(bundle.items())) for bundle in group.bundle_specs])


def inside_a_group(options: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether workers may be placed where a placement group holds resources for them."""
    if any(not isinstance(own.get("scheduling_strategy") or "", str) for own in options):
        return True
    return importlib.import_module("ray.util.placement_group").get_current_placement_group() is not None


def read_actors() -> list[Any]:
    """Return Ray's table of the actors that live or are starting; these have no process, and perhaps no node, yet."""
    table = importlib.import_module("ray.core.generated.gcs_pb2").ActorTableData
    accessor = _accessor()
    found = [*accessor.get_actor_table(None, "PENDING_CREATION"), *accessor.get_actor_table(None, "ALIVE")]
    return [table.FromString(one) for one in found]


def read_queued() -> Counter[Amounts]:
    """Return the requests for resources that wait at the nodes of the connected Ray."""
    usage = importlib.import_module("ray.core.generated.gcs_pb2").ResourceUsageBatchData
    queued: Counter[Amounts] = Counter()
    for demand in usage.FromString(_accessor().get_all_resource_usage()).resource_load_by_shape.resource_demands:
        amounts = tuple(sorted(demand.shape.items()))
        queued[amounts] += demand.num_ready_requests_queued + demand.num_infeasible_requests_queued
    return queued


def _accessor() -> Any:
    return importlib.import_module("ray._private.state").state._connect_and_get_accessor()


def _actor_name(actor: Any, jobs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what people call an actor: its name or class, its process, and the program that made it."""
    job = jobs.get(actor.job_id.hex(), {})
    name = f"the actor '{actor.name}'" if actor.name else f"an actor {actor.class_name}"
    program = f" of '{job['Entrypoint']}'" if job.get("Entrypoint") else ""
    driver = f" (process {job['DriverPid']} on {job['DriverIPAddress']})" if job.get("DriverPid") else ""
    return f"{name} in process {actor.pid}{program}{driver}"
