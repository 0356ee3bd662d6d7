"""Continuation of a plan: new segments behind those that it has, for nodes that have not begun and are planned again.

The rest planner gives it the blocks of these nodes. All indices stay; segments that are replaced have no nodes any
more. New segments read what earlier ones have exported or pinned.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from ..model.plan import Cluster, Export, InStore, OnWorker, Plan, Segment, ValueLocation
from ..model.priced_graph import PricedGraph
from ..model.progress import RunProgress
from ..segments.lowering import LazyPrograms
from ..segments.segmenter import Block
from ..segments.transfers import plan_transfers
from .planner import Planned


def continue_plan(
    planned: Planned,
    progress: RunProgress,
    residency: Sequence[int],
    cluster: Cluster,
    priced: PricedGraph,
    blocks: list[Block],
) -> Planned:
    """Return the plan with new segments, one per block, behind those that it has."""
    plan, graph = planned.plan, planned.graph
    begun = {*[one for one, _, _ in progress.done], *[one for one, _ in progress.running]}
    there = _values_there(plan, begun)
    remaining = copy(priced)
    planned_again = {node for block in blocks for node in block.nodes}
    remaining.__dict__["maker"] = [one if one in planned_again else -1 for one in priced.maker]
    homes = _homes(priced, plan, residency)
    transfers = plan_transfers(remaining, blocks, homes, saved_stays=cluster.saved_stays)
    first, retired = len(plan.segments), {*progress.rest}
    segments = [
        _retired(one) if index in retired else _without_readers(one, retired) for index, one in enumerate(plan.segments)
    ]
    for index, one in enumerate(transfers.segments, first):
        made = _shifted(one, first, there, len(graph.externals))
        segments.append(made)
        for source, export in made.imports:
            if source < first:
                segments[source] = _with_reader(segments[source], export, index)
    node_worker = list(plan.node_worker)
    for block in blocks:
        for node in block.nodes:
            node_worker[node] = block.worker
    kept = {value: place for value, place in plan.kept.items() if place.segment not in retired}
    kept.update((value, _later(place, first)) for value, place in transfers.kept.items())
    made_of = (plan.hash, progress, tuple(segments[first:]))
    revised = replace(
        plan,
        hash=blake2b(repr(made_of).encode(), digest_size=16).digest(),
        workers=tuple([worker.name for worker in cluster.workers]),
        segments=tuple(segments),
        node_worker=tuple(node_worker),
        kept=kept,
    )
    return Planned(revised, LazyPrograms(graph, revised, planned.programs), graph)


class _Exported(NamedTuple):
    segment: int
    export: int


def _values_there(plan: Plan, begun: set[int]) -> dict[int, _Exported | int]:
    """Return, per value that segments which have begun leave for others: its export, or else the segment that pins
    it."""
    there: dict[int, _Exported | int] = {}
    for index in begun:
        there.update(dict.fromkeys(plan.segments[index].pins, index))
    for index in begun:
        for number, export in enumerate(plan.segments[index].exports):
            there.update(dict.fromkeys(export.values, _Exported(index, number)))
    return there


def _homes(priced: PricedGraph, plan: Plan, residency: Sequence[int]) -> list[int]:
    """Return, per value, the worker that holds it or was to make it; -1 for one that comes with calls."""
    worker = plan.node_worker
    return [
        worker[maker] if maker >= 0 else (residency[value] if value < len(residency) else -1)
        for value, maker in enumerate(priced.maker)
    ]


def _retired(segment: Segment) -> Segment:
    """Return what is left of a segment that is replaced: its number, and its worker."""
    return Segment(segment.worker, (), (), (), (), (), (), (), 0, 0, 0, 0, 0, 0, 0.0)


def _without_readers(segment: Segment, retired: set[int]) -> Segment:
    """Return a segment whose exports name no retired readers."""
    if all(retired.isdisjoint(export.readers) for export in segment.exports):
        return segment
    exports = [
        export._replace(readers=tuple([one for one in export.readers if one not in retired]))
        for export in segment.exports
    ]
    return segment._replace(exports=tuple(exports))


def _with_reader(segment: Segment, number: int, reader: int) -> Segment:
    exports = list(segment.exports)
    exports[number] = exports[number]._replace(readers=(*exports[number].readers, reader))
    return segment._replace(exports=tuple(exports))


def _shifted(segment: Segment, first: int, there: dict[int, _Exported | int], externals: int) -> Segment:
    """Return a new segment with its number among all, and with what it reads of those that have begun: imports of what
    these export; what they pin stays among its externals, under its value id."""
    imports = {(first + source, export) for source, export in segment.imports}
    own: list[int] = []
    after = {first + one for one in segment.after}
    for value in segment.externals:
        place = there.get(value) if value >= externals else None
        if isinstance(place, _Exported):
            imports.add((place.segment, place.export))
        else:
            own.append(value)
    exports = [
        Export(one.values, tuple([first + reader for reader in one.readers]), one.saved, one.kept)
        for one in segment.exports
    ]
    return segment._replace(
        externals=tuple(own), imports=tuple(sorted(imports)), exports=tuple(exports), after=tuple(sorted(after))
    )


def _later(place: ValueLocation, first: int) -> ValueLocation:
    if isinstance(place, OnWorker):
        return OnWorker(place.worker, first + place.segment)
    return InStore(first + place.segment, place.export, place.position)
