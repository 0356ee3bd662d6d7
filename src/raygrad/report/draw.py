"""The drawing of a plan or a run: the choice between a picture by node and one by segment, and the segments' texts.

`Explanation.picture` and `RunReport.picture` call it with facts; `layout` and `grouped` place the boxes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from raygrad.scheduler.explain.actual_run import RunFacts, SegmentRun
from raygrad.scheduler.explain.explanation import PlanFacts, SegmentFacts, WorkerTransfer
from raygrad.scheduler.model.plan import Plan

from . import figures
from .explanation import counts, reasons
from .grouped import by_segment
from .layout import by_node, node_title
from .picture import DrawnSegment, Picture, SegmentEdge
from .shown import LabelledGraph

MAX_DRAWN_NODES: Final = 64
"""A graph of up to this many nodes is drawn node by node."""


def draw_plan(plan: PlanFacts, graph: LabelledGraph, title: str) -> Picture:
    """Return the picture of a plan."""
    workers = [one.name for one in plan.workers]
    chain = set(plan.chain)
    pieces = [
        _piece(
            one,
            graph,
            one.nodes,
            (one.forward, one.backward, one.hooks),
            f"{workers[one.worker]} ({one.device}): {reasons(one)}",
            f"predicted {figures.seconds(one.start)} to {figures.seconds(one.end)}\n"
            f"in {figures.size(one.bytes_in)}, out {figures.size(one.bytes_out)}",
            chain,
        )
        for one in plan.segments
    ]
    took = plan.node_seconds.__getitem__
    return _picture(pieces, graph, workers, title, plan.moved, took, plan.node_reason, plan.critical)


def draw_run(plan: Plan, run: RunFacts, graph: LabelledGraph, title: str) -> Picture:
    """Return the picture of a run, with the times that it took."""
    workers = [one.name for one in run.workers]
    chain = _chain(run)
    pieces = [
        _piece(
            one,
            graph,
            given.nodes,
            (given.forward_nodes, given.vjp_nodes + given.sum_nodes, given.hook_nodes),
            f"{workers[one.worker]}: {one.status}",
            _measured(one),
            chain,
        )
        for given, one in zip(plan.segments, run.segments, strict=True)
        if one.status != "replaced"
    ]
    took = {node: seconds for one in run.segments for node, _, seconds in one.nodes}
    return _picture(pieces, graph, workers, title, run.moved, lambda node: took.get(node, 0.0))


def _measured(one: SegmentRun) -> str:
    """Return the times of a segment that ran."""
    predicted = f"predicted {figures.seconds(one.predicted)}"
    if not one.recorded:
        return predicted
    return (
        f"{figures.seconds(one.start)} to {figures.seconds(one.end)}, its nodes {figures.seconds(one.seconds)} "
        f"({predicted})\n"
        f"waited {figures.seconds(one.data_wait)} for data and {figures.seconds(one.latency)} for its call"
    )


def _piece(
    one: SegmentFacts | SegmentRun,
    graph: LabelledGraph,
    nodes: tuple[int, ...],
    sizes: tuple[int, int, int],
    place: str,
    times: str,
    chain: set[int],
) -> DrawnSegment:
    """Return a segment with its texts. `sizes` are its numbers of nodes: forward, backward and hooks."""
    mainly = figures.commonest(graph.label(node) for node in nodes)
    details = f"segment {one.index} on {place}\n{counts(*sizes)}: {mainly}\n{times}"
    took = figures.seconds(one.end - one.start)
    return DrawnSegment(
        one.index, one.worker, nodes, *sizes, mainly, took, details, one.held_by, one.index in chain
    )  # fmt: skip


def _picture(
    pieces: Sequence[DrawnSegment],
    graph: LabelledGraph,
    workers: Sequence[str],
    title: str,
    moved: Sequence[WorkerTransfer],
    took: Callable[[int], float],
    why: Sequence[str] = (),
    critical: Sequence[int] = (),
) -> Picture:
    """Return the picture by node, or by segment where there are many nodes. `why` has a reason per node, if any."""
    if len(graph.names) > MAX_DRAWN_NODES:
        return by_segment(pieces, segment_edges(pieces, graph, moved), workers, title)
    titles = [""] * len(graph.names)
    for piece in pieces:
        for node in piece.nodes:
            facts = why[node : node + 1]
            titles[node] = node_title(graph, node, piece.index, workers[piece.worker], facts, took(node))
    return by_node(pieces, graph, workers, critical, titles, title)


def _chain(run: RunFacts) -> set[int]:
    """Return the segments that each held up the next, up to the one that ended last."""
    chain: set[int] = set()
    at = max(range(len(run.segments)), key=lambda index: run.segments[index].end, default=-1)
    while at >= 0 and at not in chain:
        chain.add(at)
        at = run.segments[at].held_by
    return chain


def segment_edges(
    pieces: Sequence[DrawnSegment], graph: LabelledGraph, moved: Sequence[WorkerTransfer]
) -> list[SegmentEdge]:
    """Return what segments read of each other: what crosses, with its bytes, and what stays."""
    segment_of = {node: piece.index for piece in pieces for node in piece.nodes}
    worker_of = {piece.index: piece.worker for piece in pieces}
    crossing = {(one.source, one.target): one for one in moved}
    pairs = Counter((segment_of[source], segment_of[target]) for source, target in graph.edges)
    made: list[SegmentEdge] = []
    for (source, target), edges in sorted(pairs.items()):
        if source == target:
            continue
        crosses = worker_of[source] != worker_of[target]
        bytes_of = crossing.get((source, target))
        label = figures.number(edges, "edge") if bytes_of is None else figures.size(bytes_of.bytes)
        made.append(SegmentEdge(source, target, crosses, label))
    return made
