"""The drawing of a plan or a run: the choice between a picture by node and one by segment, and the segments' texts.

`Explanation.picture` and `RunReport.picture` call it with facts; `layout` and `grouped` place the boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from raygrad.scheduler.explain.actual_run import RunFacts
from raygrad.scheduler.explain.explanation import PlanFacts, WorkerTransfer
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
    pieces: list[DrawnSegment] = []
    for one in plan.segments:
        mainly = figures.commonest(graph.label(node) for node in one.nodes)
        details = [
            f"segment {one.index} on {workers[one.worker]} ({one.device}): {reasons(one)}",
            f"{counts(one.forward, one.backward, one.hooks)}: {mainly}",
            f"predicted {figures.seconds(one.start)} to {figures.seconds(one.end)}",
            f"in {figures.size(one.bytes_in)}, out {figures.size(one.bytes_out)}",
        ]
        pieces.append(
            DrawnSegment(
                one.index, one.worker, one.nodes, one.forward, one.backward, one.hooks, mainly,
                figures.seconds(one.end - one.start), "\n".join(details), one.held_by, one.index in chain,
            )
        )  # fmt: skip
    if len(graph.names) <= MAX_DRAWN_NODES:
        segment_of = {node: one for one in plan.segments for node in one.nodes}
        titles = [
            node_title(
                graph,
                node,
                segment_of[node].index,
                workers[segment_of[node].worker],
                [str(plan.node_reason[node])],
                plan.node_seconds[node],
            )
            for node in range(len(graph.names))
        ]
        return by_node(pieces, graph, workers, plan.critical, titles, title)
    return by_segment(pieces, segment_edges(pieces, graph, plan.moved), workers, title)


def draw_run(plan: Plan, run: RunFacts, graph: LabelledGraph, title: str) -> Picture:
    """Return the picture of a run, with the times that it took."""
    workers = [one.name for one in run.workers]
    chain = _chain(run)
    pieces: list[DrawnSegment] = []
    for given, one in zip(plan.segments, run.segments, strict=True):
        mainly = figures.commonest(graph.label(node) for node in given.nodes)
        backward = given.vjp_nodes + given.sum_nodes
        details = [
            f"segment {one.index} on {workers[one.worker]}: {one.status}",
            f"{counts(given.forward_nodes, backward, given.hook_nodes)}: {mainly}",
            f"{figures.seconds(one.start)} to {figures.seconds(one.end)}, its nodes {figures.seconds(one.seconds)} "
            f"(predicted {figures.seconds(one.predicted)})",
            f"waited {figures.seconds(one.data_wait)} for data and {figures.seconds(one.latency)} for its call",
        ]
        pieces.append(
            DrawnSegment(
                one.index, one.worker, given.nodes, given.forward_nodes, backward, given.hook_nodes, mainly,
                figures.seconds(one.end - one.start), "\n".join(details), one.held_by, one.index in chain,
            )
        )  # fmt: skip
    if len(graph.names) > MAX_DRAWN_NODES:
        return by_segment(pieces, segment_edges(pieces, graph, run.moved), workers, title)
    took = {node: seconds for one in run.segments for node, _, seconds in one.nodes}
    segment_of = {node: piece for piece in pieces for node in piece.nodes}
    titles = [
        node_title(graph, node, segment_of[node].index, workers[segment_of[node].worker], [], took.get(node, 0.0))
        for node in range(len(graph.names))
    ]
    return by_node(pieces, graph, workers, (), titles, title)


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
    pairs: dict[tuple[int, int], int] = {}
    for source, target in graph.edges:
        pair = segment_of[source], segment_of[target]
        if pair[0] != pair[1]:
            pairs[pair] = pairs.get(pair, 0) + 1
    made: list[SegmentEdge] = []
    for (source, target), edges in sorted(pairs.items()):
        crosses = worker_of[source] != worker_of[target]
        bytes_of = crossing.get((source, target))
        label = figures.number(edges, "edge") if bytes_of is None else figures.size(bytes_of.bytes)
        made.append(SegmentEdge(source, target, crosses, label))
    return made
