"""Facts about a plan before its run: timetable, the reason for each placement, transfers, critical path, memory.

`session.explain` computes them and `report.explanation` renders them. All of it follows from (graph, residency, costs,
cluster, plan), in O(nodes + edges). Nodes and segments are named by index; the report adds names. Times are predicted
seconds since the submission by the given costs, which may be newer than those of a cached plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.nodes import Node
from raygrad.proto.ir.specs import ArraySpec

from ..memory.peak_memory import Peak, worker_peaks
from ..model.costs import Costs
from ..model.function_costs import Figure
from ..model.numerics_class import Numerics
from ..model.plan import Cluster, Plan
from ..model.priced_graph import PricedGraph
from ..placing.constraints import able_workers, class_devices
from ..segments.timetable import ScheduledSegment, segment_loads, timetable
from .device_transfers import DeviceTransfer, device_transfers


class Reason(StrEnum):
    """Why a node runs on its worker."""

    PINNED = "pinned by the user"
    NEAR = "near its context"
    DEVICE = "only worker with the device"
    ONLY = "only worker"
    TOGETHER = "dividing it would not pay"
    READS = "reads most from there"
    EARLIEST = "finishes earliest there"
    UNKNOWN = "as far as times are known"
    """All are on one worker, and some Functions never ran: what dividing them would bring is not known."""
    ORDERED = "program order, because its code changes captured objects"
    """All are on one worker, and this one could not run beside others of such code anywhere."""


class WorkerTransfer(NamedTuple):
    """The bytes and values that one segment reads from another worker."""

    source: int
    """The segment that makes the values, or -1: an earlier run left them on `worker`."""
    worker: int
    target: int
    bytes: int
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """One segment of a plan."""

    index: int
    worker: int
    device: str
    """The device kinds of the arrays that it makes: "cpu", "cuda", "cpu, cuda"."""
    nodes: tuple[int, ...]
    forward: int
    backward: int
    """Vjps, and the sums of gradients."""
    hooks: int
    reasons: tuple[tuple[Reason, int], ...]
    """Each with its number of nodes; required placements come before chosen ones."""
    bytes_in: int
    bytes_out: int
    start: float
    end: float
    held_by: int
    """See `predict.Slot`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """One worker, in one plan."""

    name: str
    devices: tuple[str, ...]
    segments: int
    nodes: int
    busy: float
    """Seconds of its nodes."""
    memory: Peak
    numerics: Numerics


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """A plan, explained. See `explain_plan`."""

    segments: tuple[SegmentFacts, ...]
    workers: tuple[WorkerFacts, ...]
    node_reason: tuple[Reason, ...]
    ordered: tuple[int, ...]
    """The nodes whose code changes captured objects, and so run one after the other in program order."""
    node_seconds: tuple[float, ...]
    """Per node, what it is predicted to take."""
    node_figures: tuple[Figure, ...]
    """Per node, the same, and where it is from."""
    moved: tuple[WorkerTransfer, ...]
    transfers: tuple[DeviceTransfer, ...]
    """The transfers between devices."""
    crossing_bytes: int
    seconds: float
    """Predicted time from submission until the client knows that the last segment has ended."""
    work: float
    """Predicted seconds of all nodes."""
    critical: tuple[int, ...]
    """The nodes of the longest way through the graph as it is placed, transfers included, first to last."""
    critical_seconds: float
    chain: tuple[int, ...]
    """The segments that each hold up the next, up to the one that ends last: what the predicted time is made of."""


def explain_plan(
    graph: Graph,
    residency: Sequence[int],
    costs: Costs,
    cluster: Cluster,
    plan: Plan,
    *,
    staged: bool = False,
    ordered: Collection[str] = (),
) -> PlanFacts:
    """Return the facts about a plan. The arguments are those that the plan was made from; `staged` says whether workers
    are processes of their own, and `ordered` names code whose nodes are in program order."""
    priced = PricedGraph(graph, costs)
    times = timetable(plan.segments, segment_loads(plan.segments, priced), residency, costs, cluster)
    in_order = tuple([index for index, node in enumerate(graph.nodes) if node.fn in ordered])
    reasons = _reasons(priced, residency, cluster, plan, in_order)
    boundaries = _node_times(priced, costs, plan, times)
    memory = worker_peaks(priced, plan, boundaries, times)
    critical, length = _critical_path(priced, plan, costs, cluster)
    busy = [0.0] * len(cluster.workers)
    for node, worker in enumerate(plan.node_worker):
        busy[worker] += priced.seconds[node]
    segments = tuple(
        SegmentFacts(
            index=index,
            worker=segment.worker,
            device=_devices(graph, segment.nodes),
            nodes=segment.nodes,
            forward=segment.forward_nodes,
            backward=segment.vjp_nodes + segment.sum_nodes,
            hooks=segment.hook_nodes,
            reasons=_count_reasons(reasons[node] for node in segment.nodes),
            bytes_in=segment.bytes_in,
            bytes_out=segment.bytes_out,
            start=times[index].start,
            end=times[index].end,
            held_by=times[index].held_by,
        )
        for index, segment in enumerate(plan.segments)
    )
    return PlanFacts(
        segments=segments,
        workers=tuple(
            WorkerFacts(
                name=spec.name,
                devices=spec.devices,
                segments=sum(1 for segment in plan.segments if segment.worker == index),
                nodes=sum(len(segment.nodes) for segment in plan.segments if segment.worker == index),
                busy=busy[index],
                memory=memory[index],
                numerics=spec.numerics,
            )
            for index, spec in enumerate(cluster.workers)
        ),
        node_reason=tuple(reasons),
        ordered=in_order,
        node_seconds=tuple(priced.seconds),
        node_figures=tuple(priced.node_figures),
        moved=worker_transfers(priced, residency, plan),
        transfers=device_transfers(priced, residency, plan, staged=staged),
        crossing_bytes=plan.crossing_bytes,
        seconds=max([slot.end for slot in times], default=-costs.return_seconds) + costs.return_seconds,
        work=sum(priced.seconds),
        critical=critical,
        critical_seconds=length,
        chain=_chain(times),
    )


# ---- when --------------------------------------------------------------------------------------------------------


def _node_times(
    priced: PricedGraph, costs: Costs, plan: Plan, times: Sequence[ScheduledSegment]
) -> list[tuple[float, float]]:
    """Return the predicted (start, end) of each node."""
    when = [(0.0, 0.0)] * len(priced.seconds)
    for segment, slot in zip(plan.segments, times, strict=True):
        seconds = [priced.seconds[node] for node in segment.nodes]
        marks = list(accumulate(seconds, initial=slot.start + costs.call_seconds))
        for node, start, end in zip(segment.nodes, marks, marks[1:], strict=False):
            when[node] = (start, end)
    return when


def _chain(times: Sequence[ScheduledSegment]) -> tuple[int, ...]:
    """Return the segments that each hold up the next, up to the one that ends last."""
    chain: list[int] = []
    at = max(range(len(times)), key=lambda index: times[index].end, default=-1)
    while at >= 0:
        chain.append(at)
        at = times[at].held_by
    return tuple(reversed(chain))


def _critical_path(priced: PricedGraph, plan: Plan, costs: Costs, cluster: Cluster) -> tuple[tuple[int, ...], float]:
    """Return the longest path through the placed graph, transfers included, and its seconds."""
    worker, maker, size = plan.node_worker, priced.maker, priced.size
    hosts = [one.host for one in cluster.workers]
    length = [0.0] * len(priced.graph.nodes)
    before = [-1] * len(length)
    for index in [index for segment in plan.segments for index in segment.nodes]:
        ready, via = 0.0, -1
        for value in priced.graph.nodes[index].inputs:
            source = maker[value] if value >= 0 else -1
            if source >= 0:
                came = length[source]
                if worker[source] != worker[index]:
                    came += costs.link_seconds(hosts[worker[source]], hosts[worker[index]], size[value])
                if came > ready:
                    ready, via = came, source
        length[index] = ready + priced.seconds[index]
        before[index] = via
    path: list[int] = []
    at = max(range(len(length)), key=length.__getitem__, default=-1)
    while at >= 0:
        path.append(at)
        at = before[at]
    return tuple(reversed(path)), max(length, default=0.0)


# ---- where and why -----------------------------------------------------------------------------------------------


def _reasons(
    priced: PricedGraph, residency: Sequence[int], cluster: Cluster, plan: Plan, ordered: Sequence[int]
) -> list[Reason]:
    """Return the reason for each node's placement; required placements come before chosen ones. The `ordered` nodes are
    in program order."""
    alone = len(cluster.workers) == 1
    together = len({segment.worker for segment in plan.segments}) == 1
    in_order = {*ordered}
    unknown = not in_order.issuperset(priced.unknown_nodes)
    only = [not alone and len(able_workers(cluster, need - {"cpu"})) == 1 for need in class_devices(priced)]
    reasons: list[Reason] = []
    for index, node in enumerate(priced.graph.nodes):
        if node.pin >= 0:
            reasons.append(Reason.PINNED)
        elif node.near >= 0 and _is_near(priced, residency, plan, index):
            reasons.append(Reason.NEAR)
        elif only[priced.classes.number[index]]:
            reasons.append(Reason.DEVICE)
        elif alone:
            reasons.append(Reason.ONLY)
        elif together and index in in_order:
            reasons.append(Reason.ORDERED)
        elif together:
            reasons.append(Reason.UNKNOWN if unknown else Reason.TOGETHER)
        else:
            reasons.append(_choice_reason(priced, residency, plan, node, plan.node_worker[index]))
    return reasons


def _count_reasons(reasons: Iterable[Reason]) -> tuple[tuple[Reason, int], ...]:
    counts = Counter(reasons)
    return tuple((reason, counts[reason]) for reason in Reason if counts[reason])


def _is_near(priced: PricedGraph, residency: Sequence[int], plan: Plan, index: int) -> bool:
    """Tell whether a node runs where the value is that it is to be near."""
    near = priced.graph.nodes[index].near
    maker = priced.maker[near]
    return residency[near] >= 0 if maker < 0 else plan.node_worker[maker] == plan.node_worker[index]


def _choice_reason(priced: PricedGraph, residency: Sequence[int], plan: Plan, node: Node, worker: int) -> Reason:
    """Return the reason for the worker of a node that was free to run elsewhere."""
    held: Counter[int] = Counter()
    for value in set(node.inputs):
        if value >= 0:
            source = priced.maker[value]
            home = residency[value] if source < 0 else plan.node_worker[source]
            if home >= 0:
                held[home] += priced.size[value]
    here = held.pop(worker, 0)
    return Reason.READS if here > max(held.values(), default=0) else Reason.EARLIEST


def _devices(graph: Graph, nodes: Sequence[int]) -> str:
    specs = {spec for node in nodes for spec in graph.nodes[node].outputs}
    kinds = {spec.device for spec in map(graph.specs.__getitem__, specs) if isinstance(spec, ArraySpec)}
    return ", ".join(sorted(kinds)) or "cpu"


def worker_transfers(priced: PricedGraph, residency: Sequence[int], plan: Plan) -> tuple[WorkerTransfer, ...]:
    """Return what segments read from other workers, in plan order: objects of this run, and values of earlier runs."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for target, segment in enumerate(plan.segments):
        for source, export in segment.imports:
            maker = plan.segments[source]
            if maker.worker != segment.worker:
                sizes = [priced.size[value] for value in maker.exports[export].values]
                found.setdefault((target, source, maker.worker), []).extend(sizes)
        for value in segment.externals:
            if residency[value] not in (-1, segment.worker):
                found.setdefault((target, -1, residency[value]), []).append(priced.size[value])
    return tuple(
        WorkerTransfer(source, worker, target, sum(sizes), len(sizes))
        for (target, source, worker), sizes in found.items()
    )
